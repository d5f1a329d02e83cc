"""Choice of the engine by the programs that compute spectral features."""

from __future__ import annotations

import pytest

from kaldi_compat.cli.compute import ApplicationOptions, ExactComputer, TorchComputer, computer_for, program_options
from kaldi_compat.errors import OptionError
from kaldi_compat.options.registry import HTK_FBANK, SPECTRAL_FEATURES, FeatureType
from kaldi_compat.options.spectral import FbankOptions
from kaldi_compat.torch.features.fbank import Fbank


class NewOptions(FbankOptions):
    """Options of a feature that the exact engine does not know."""


class New(Fbank):
    """A feature that the exact engine does not know."""

    Options = NewOptions


NEW = FeatureType("new", "new features", NewOptions, HTK_FBANK)


def options(feature: FeatureType, engine: str) -> ApplicationOptions:
    made: ApplicationOptions = program_options(feature)(engine=engine)
    return made


def test_feature_without_exact_engine_is_computed_by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FeatureType, "module", lambda self: New if self is NEW else Fbank)
    assert isinstance(computer_for(NEW, options(NEW, "auto")), TorchComputer)
    with pytest.raises(OptionError, match="--engine=exact cannot compute new features: use --engine=torch"):
        computer_for(NEW, options(NEW, "exact"))


@pytest.mark.parametrize("engine", ["auto", "exact"])
def test_kaldis_features_are_computed_by_the_exact_engine(engine: str) -> None:
    fbank = SPECTRAL_FEATURES["fbank"]
    assert isinstance(computer_for(fbank, options(fbank, engine)), ExactComputer)


@pytest.mark.parametrize(
    ("name", "with_energy", "without"),
    [("fbank", 0o107, 0o20007), ("mfcc", 0o106, 0o20006), ("plp", 0o20013, 0o20013)],
)
def test_files_of_htk_have_kaldis_parameter_kinds(name: str, with_energy: int, without: int) -> None:
    feature = SPECTRAL_FEATURES[name]
    kinds = [feature.htk_kind(feature.options(use_energy=use_energy)) for use_energy in (True, False)]  # type: ignore[call-arg]
    assert kinds == [with_energy, without]
