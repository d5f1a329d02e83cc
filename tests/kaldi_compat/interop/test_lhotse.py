"""Extractors for lhotse, compared with lhotse's own layers."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

lhotse = pytest.importorskip("lhotse")

from lhotse.features.base import FeatureExtractor  # noqa: E402
from lhotse.features.kaldi import extractors  # noqa: E402
from lhotse.features.kaldi.extractors import Fbank as LhotseFbank  # noqa: E402
from lhotse.features.kaldi.extractors import FbankConfig as LhotseFbankConfig  # noqa: E402
from lhotse.utils import LOG_EPSILON  # noqa: E402

from kaldi_compat.errors import AudioError, OptionError  # noqa: E402
from kaldi_compat.features import checks  # noqa: E402
from kaldi_compat.interop import lhotse as interop  # noqa: E402
from kaldi_compat.interop.lhotse import (  # noqa: E402
    Extractor,
    FbankConfig,
    FbankExtractor,
    MfccExtractor,
    PlpExtractor,
    SpectrogramExtractor,
)

EXTRACTORS = (FbankExtractor, MfccExtractor, PlpExtractor, SpectrogramExtractor)


def audio(samples: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return (np.random.default_rng(seed).standard_normal(samples) * 0.1).astype(np.float32)


def test_fbank_is_lhotses_but_for_the_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_warned", set())
    theirs = LhotseFbank(LhotseFbankConfig(snip_edges=False)).extract(audio(16123), 16000)
    ours = FbankExtractor(FbankConfig(high_freq=-400.0)).extract(audio(16123), 16000)
    assert ours.shape == theirs.shape
    # lhotse computes on audio in -1 to 1, whose energies are 2^-30 times Kaldi's
    np.testing.assert_allclose(ours - 30 * np.log(2.0), theirs, atol=2e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of the scale
        same = FbankExtractor(FbankConfig(high_freq=-400.0, waveform_scale=1.0)).extract(audio(16123), 16000)
    np.testing.assert_allclose(same, theirs, atol=2e-3)


@pytest.mark.parametrize("kind", EXTRACTORS)
def test_extract_and_extract_batch_agree(kind: type[Extractor]) -> None:
    extractor = kind()
    items = [audio(n, n) for n in (8000, 400, 5000)]
    alone = [extractor.extract(x, 16000) for x in items]
    assert all(isinstance(x, np.ndarray) and x.shape[1] == extractor.feature_dim(16000) for x in alone)
    batch = extractor.extract_batch(items, 16000)
    for one, other in zip(batch, alone, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-3)
    padded = torch.nn.utils.rnn.pad_sequence([torch.from_numpy(x) for x in items], batch_first=True)
    for one, other in zip(extractor.extract_batch(padded, 16000, torch.tensor([8000, 400, 5000])), alone, strict=True):
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-4, atol=1e-3)


def test_shapes_of_batches_are_lhotses() -> None:
    ours, theirs = FbankExtractor(), LhotseFbank()
    equal = np.stack([audio(1600, i) for i in range(3)])
    for samples in (
        audio(1600),
        [audio(1600)],
        equal,
        torch.from_numpy(equal),
        [audio(1600), audio(1600)],
        [audio(800), audio(1600)],
        [torch.from_numpy(audio(800)), torch.from_numpy(audio(1600))],
    ):
        one, other = (extractor.extract_batch(samples, sampling_rate=16000) for extractor in (ours, theirs))
        assert type(one) is type(other)
        assert [tuple(x.shape) for x in one] == [tuple(x.shape) for x in other]


def test_cuts_are_extracted_stored_and_mixed(tmp_path: Path) -> None:
    soundfile = pytest.importorskip("soundfile")
    for i in range(2):
        soundfile.write(tmp_path / f"{i}.wav", audio(16000 + 321 * i, i), 16000)
    recordings = [lhotse.Recording.from_file(tmp_path / f"{i}.wav") for i in range(2)]
    cuts = lhotse.CutSet.from_cuts(recording.to_cut() for recording in recordings)
    stored = cuts.compute_and_store_features(
        FbankExtractor(), tmp_path / "feats", storage_type=lhotse.NumpyFilesWriter, progress_bar=False
    )
    for cut, recording in zip(stored, recordings, strict=True):
        features = cut.load_features()
        assert cut.features.type == "kaldi-compat-fbank"
        np.testing.assert_array_equal(features, FbankExtractor().extract(recording.load_audio(), 16000))
    first, second = stored
    mixed = first.mix(second, snr=10).load_features()
    assert mixed.shape[1] == 80 and np.isfinite(mixed).all()


def test_configurations_survive_yaml(tmp_path: Path) -> None:
    extractor = FbankExtractor(FbankConfig(num_mel_bins=40, frame_shift=0.0125))
    extractor.to_yaml(tmp_path / "fbank.yml")
    loaded = FeatureExtractor.from_yaml(tmp_path / "fbank.yml")
    assert isinstance(loaded, FbankExtractor) and loaded.config == extractor.config
    assert loaded.frame_shift == 0.0125 and loaded.feature_dim(16000) == 40


def test_features_are_mixed_otherwise_than_by_lhotse() -> None:
    loud, quiet = (FbankExtractor().extract(gain * audio(8000, seed), 16000) for seed, gain in ((1, 1.0), (2, 1e-5)))
    padding, nothing = np.full_like(loud, LOG_EPSILON), np.full_like(loud, -200.0)
    for one, other in ((loud, quiet), (quiet, padding), (padding, padding), (nothing, nothing)):
        for factor in (0.01, 1.0, 30.0):
            np.testing.assert_allclose(
                FbankExtractor.mix(one, other, factor), LhotseFbank.mix(one, other, factor), rtol=1e-5
            )
            np.testing.assert_allclose(FbankExtractor.scale(one, factor), LhotseFbank.scale(one, factor), rtol=1e-5)
        assert FbankExtractor.compute_energy(one) == pytest.approx(LhotseFbank.compute_energy(one))


def test_energies_of_a_mixture_are_not_the_sum() -> None:
    first, second = (SpectrogramExtractor().extract(audio(8000, seed), 16000) for seed in (1, 2))
    mixed = SpectrogramExtractor.mix(first, second, 0.5)
    np.testing.assert_allclose(np.exp(mixed), np.exp(first) + 0.5 * np.exp(second), rtol=1e-5)


def test_names_and_defaults_are_the_documented_ones() -> None:
    assert [kind.name for kind in EXTRACTORS] == [
        f"kaldi-compat-{feature}" for feature in ("fbank", "mfcc", "plp", "spectrogram")
    ]
    for feature in ("Fbank", "Mfcc"):
        theirs = getattr(extractors, f"{feature}Config")().to_dict()
        ours = getattr(interop, f"{feature}Config")().to_dict()
        differing = {name for name in set(theirs) & set(ours) if theirs[name] != ours[name]}
        assert differing <= {"high_freq", "use_energy", "energy_floor", "device"}
        assert (ours["energy_floor"], ours["use_energy"]) == (0.0, feature == "Mfcc")  # Kaldi's
    config = FbankConfig(num_mel_bins=40)
    assert (config.num_filters, config.num_mel_bins) == (40, None)  # the other name does not outlive a change
    assert FbankExtractor(FbankConfig(num_filters=128)).extract(audio(800), 16000).shape == (5, 128)  # empty bins


def test_tensors_give_tensors() -> None:
    found = FbankExtractor().extract(torch.from_numpy(audio(800)), 16000)
    assert isinstance(found, torch.Tensor)
    np.testing.assert_array_equal(found.numpy(), FbankExtractor().extract(audio(800), 16000))


CONFIGS = [
    ("Fbank", {"num_filters": 40, "window_type": "hanning", "preemph_coeff": 0.5, "low_freq": 50.0}),
    ("Fbank", {"sampling_rate": 8000, "frame_length": 0.02, "frame_shift": 0.0125, "num_mel_bins": 23}),
    ("Fbank", {"use_fft_mag": True, "remove_dc_offset": False, "round_to_power_of_two": False}),
    ("Fbank", {"use_energy": True, "raw_energy": False, "energy_floor": 1e-3}),
    ("Fbank", {"snip_edges": True}),
    ("Mfcc", {"use_energy": False, "num_ceps": 20, "cepstral_lifter": 18, "num_filters": 30}),
    ("Mfcc", {"use_energy": False, "norm_filters": False, "torchaudio_compatible_mel_scale": True}),
    ("LogSpectrogram", {"use_energy": True, "frame_length": 0.032}),
]


@pytest.mark.filterwarnings("ignore:.*snip_edges.*")
@pytest.mark.parametrize(("kind", "values"), CONFIGS, ids=range(len(CONFIGS)))
def test_configurations_of_lhotse_give_lhotses_features(kind: str, values: dict[str, Any]) -> None:
    ours = kind.removeprefix("Log")
    mel = {} if ours == "Spectrogram" else {"high_freq": -400.0}
    theirs = getattr(extractors, kind)(getattr(extractors, f"{kind}Config")(**mel, **values))
    config = getattr(interop, f"{ours}Config")(**mel, **values, waveform_scale=1.0)
    extractor = getattr(interop, f"{ours}Extractor")(config)
    rate = theirs.config.sampling_rate
    assert extractor.config.sampling_rate == rate and extractor.frame_shift == theirs.frame_shift
    expected, features = (each.extract(audio(12345), rate) for each in (theirs, extractor))
    assert extractor.feature_dim(rate) == features.shape[1]
    np.testing.assert_allclose(features, expected, atol=5e-3)


def test_snip_edges_warns_as_in_lhotse() -> None:
    with pytest.warns(UserWarning, match="snip_edges") as caught:
        FbankConfig(snip_edges=True)
    assert caught[0].filename == __file__


def test_configurations_that_kaldi_does_not_have_are_refused() -> None:
    for kind, values in (
        ("Fbank", {"norm_filters": True}),
        ("Mfcc", {"torchaudio_compatible_mel_scale": False}),
        ("Mfcc", {"use_fft_mag": True}),
        ("Spectrogram", {"use_energy": False}),
    ):
        (name,) = values
        with pytest.raises(OptionError, match=f"^{kind}Config supports only {name}={not values[name]}, as Kaldi does$"):
            getattr(interop, f"{kind}Extractor")(getattr(interop, f"{kind}Config")(**values))
    with pytest.raises(
        OptionError, match=r"^FbankConfig has no option sample_frequency: did you mean sampling_rate\?$"
    ):
        FbankConfig(sample_frequency=8000)  # type: ignore[call-arg]
    with pytest.raises(OptionError, match=r"frame_length=25 is in seconds, as in lhotse: pass 0\.025"):
        FbankConfig(frame_length=25.0)


def test_extractors_move_to_a_device() -> None:
    extractor = FbankExtractor()
    extractor.to("meta")
    assert extractor.device == "meta" and extractor.feature.window.device.type == "meta"


def test_wrong_rate_and_several_channels_are_refused() -> None:
    with pytest.raises(AudioError, match="sampling rate of 8000 Hz"):
        FbankExtractor().extract(audio(800), 8000)
    with pytest.raises(AudioError, match="one channel"):
        FbankExtractor().extract(np.zeros((2, 800), np.float32), 16000)
