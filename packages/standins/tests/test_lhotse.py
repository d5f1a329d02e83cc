"""Extractors for lhotse, compared with lhotse's own layers."""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

lhotse = pytest.importorskip("lhotse")

from lhotse.features import whisper_fbank  # noqa: E402
from lhotse.features.base import FeatureExtractor  # noqa: E402
from lhotse.features.kaldi import extractors  # noqa: E402
from lhotse.features.kaldi.extractors import Fbank as LhotseFbank  # noqa: E402
from lhotse.features.kaldi.extractors import FbankConfig as LhotseFbankConfig  # noqa: E402
from lhotse.utils import LOG_EPSILON  # noqa: E402

from kaldi_compat.errors import AudioError, OptionError  # noqa: E402
from kaldi_compat.exact.librosa_mel import compute_librosa_filters  # noqa: E402
from kaldi_standins import lhotse as interop  # noqa: E402
from kaldi_standins.lhotse import (  # noqa: E402
    Extractor,
    Fbank,
    FbankConfig,
    KaldiFbank,
    KaldiFbankConfig,
    KaldiSpectrogram,
    LogSpectrogram,
    Mfcc,
    Spectrogram,
    WhisperFbank,
)
from tests.support.processes import output_of  # noqa: E402

STAND_INS = ("Fbank", "Mfcc", "Spectrogram", "LogSpectrogram")
EXTRACTORS = tuple(getattr(interop, name) for name in (
    *STAND_INS, "WhisperFbank", "KaldiFbank", "KaldiMfcc", "KaldiPlp", "KaldiSpectrogram"))  # fmt: skip


@pytest.mark.parametrize("lengths", [[8000, 8000], [8000, 4000], None])
def test_batches_have_lhotses_types(lengths: list[int] | None) -> None:
    padded = torch.from_numpy(np.stack([audio(8000), audio(8000, 1)]))
    options = {} if lengths is None else {"lengths": torch.tensor(lengths)}
    ours, theirs = (kind().extract_batch(padded, 16000, **options) for kind in (Fbank, LhotseFbank))
    assert type(ours) is type(theirs)
    assert [(type(row), row.shape) for row in ours] == [(type(row), row.shape) for row in theirs]


@pytest.mark.parametrize("name", STAND_INS)
def test_configurations_have_lhotses_order(name: str) -> None:
    """Positional arguments have the meaning that they have in lhotse."""
    theirs, ours = (dataclasses.fields(getattr(module, f"{name}Config")) for module in (extractors, interop))
    assert [(field.name, field.default) for field in ours] == [(field.name, field.default) for field in theirs]


def audio(samples: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return (np.random.default_rng(seed).standard_normal(samples) * 0.1).astype(np.float32)


def test_line_of_icefall_gives_lhotses_numbers() -> None:
    theirs = LhotseFbank(LhotseFbankConfig(num_mel_bins=80)).extract(audio(16123), 16000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # The scale must not cause a warning.
        ours = Fbank(FbankConfig(num_mel_bins=80)).extract(audio(16123), 16000)
    np.testing.assert_allclose(ours, theirs, atol=2e-3)
    np.testing.assert_array_equal(Fbank(LhotseFbankConfig(num_mel_bins=80)).extract(audio(16123), 16000), ours)
    # Kaldi's scale multiplies energies by 2^30.
    kaldis = KaldiFbank(KaldiFbankConfig(high_freq=-400.0)).extract(audio(16123), 16000)
    np.testing.assert_allclose(kaldis - 30 * np.log(2.0), theirs, atol=2e-3)


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
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-3)


def test_shapes_of_batches_are_lhotses() -> None:
    ours, theirs = Fbank(), LhotseFbank()
    equal = np.stack([audio(1600, i) for i in range(3)])
    for samples in (
        audio(1600),
        [audio(1600)],
        equal,
        torch.from_numpy(equal),
        [audio(1600), audio(1600)],
        [audio(800), audio(1600)],
        [torch.from_numpy(audio(800)), torch.from_numpy(audio(1600))],
        [torch.from_numpy(audio(800)), audio(1600)],
    ):
        one, other = (extractor.extract_batch(samples, sampling_rate=16000) for extractor in (ours, theirs))
        assert type(one) is type(other)
        assert [type(x) for x in one] == [type(x) for x in other]
        assert [tuple(x.shape) for x in one] == [tuple(x.shape) for x in other]


MIX = """
import sys
import lhotse
first, second = lhotse.CutSet.from_file(sys.argv[1])
assert first.features.type == "kaldi-fbank" and "kaldi_compat" not in sys.modules
print(first.mix(second, snr=10).load_features().sum())
"""


def test_stored_features_are_mixed_where_our_module_is_not_imported(tmp_path: Path) -> None:
    soundfile = pytest.importorskip("soundfile")
    for i in range(2):
        soundfile.write(tmp_path / f"{i}.wav", audio(16000 + 321 * i, i), 16000)
    recordings = [lhotse.Recording.from_file(tmp_path / f"{i}.wav") for i in range(2)]
    cuts = lhotse.CutSet.from_cuts(recording.to_cut() for recording in recordings)
    stored, kaldis = (
        cuts.compute_and_store_features(
            extractor(), tmp_path / extractor.name, storage_type=lhotse.NumpyFilesWriter, progress_bar=False
        )
        for extractor in (Fbank, KaldiFbank)
    )
    for cut, recording in zip(stored, recordings, strict=True):
        np.testing.assert_array_equal(cut.load_features(), Fbank().extract(recording.load_audio(), 16000))
    stored.to_file(tmp_path / "cuts.jsonl")
    first, second = stored
    mixed_alone = float(output_of(MIX, str(tmp_path / "cuts.jsonl")))
    assert mixed_alone == pytest.approx(first.mix(second, snr=10).load_features().sum())
    first, second = kaldis
    mixed = first.mix(second, snr=10).load_features()
    assert first.features.type == "kaldi-compat-fbank" and mixed.shape[1] == 80 and np.isfinite(mixed).all()


def test_configurations_survive_yaml(tmp_path: Path) -> None:
    for kind, loaded_as in (Fbank, LhotseFbank), (KaldiFbank, KaldiFbank):  # lhotse finds its classes by name.
        extractor = kind(kind.config_type(num_mel_bins=40, frame_shift=0.0125))
        extractor.to_yaml(tmp_path / "fbank.yml")
        loaded = FeatureExtractor.from_yaml(tmp_path / "fbank.yml")
        assert isinstance(loaded, loaded_as) and loaded.config.to_dict() == extractor.config.to_dict()
        assert loaded.frame_shift == 0.0125 and loaded.feature_dim(16000) == 40


@pytest.mark.parametrize("kind", ["Fbank", "Spectrogram", "LogSpectrogram"])
def test_mixed_as_by_lhotse(kind: str) -> None:
    ours, theirs = getattr(interop, kind), getattr(extractors, kind)
    loud, quiet = (ours().extract(gain * audio(8000, seed), 16000) for seed, gain in ((1, 1.0), (2, 1e-5)))
    padding, nothing = np.full_like(loud, LOG_EPSILON), np.full_like(loud, -200.0)
    for one, other in ((loud, quiet), (quiet, padding), (padding, padding), (nothing, nothing)):
        for factor in (0.01, 1.0, 30.0):
            np.testing.assert_allclose(ours.mix(one, other, factor), theirs.mix(one, other, factor), rtol=1e-5)
            np.testing.assert_allclose(ours.scale(one, factor), theirs.scale(one, factor), rtol=1e-5)
        assert ours.compute_energy(one) == pytest.approx(theirs.compute_energy(one))


def test_energies_of_a_mixture_of_kaldis_spectrograms_are_the_sum() -> None:
    first, second = (KaldiSpectrogram().extract(audio(8000, seed), 16000) for seed in (1, 2))
    mixed = KaldiSpectrogram.mix(first, second, 0.5)
    np.testing.assert_allclose(np.exp(mixed), np.exp(first) + 0.5 * np.exp(second), rtol=1e-5)


@pytest.mark.parametrize("kind", STAND_INS)
def test_stand_in_has_lhotses_type_options_and_defaults(kind: str) -> None:
    ours, theirs = getattr(interop, kind), getattr(extractors, kind)
    assert ours.name == theirs.name
    assert ours.config_type().to_dict() == theirs.config_type().to_dict()
    assert {each.name for each in dataclasses.fields(ours.config_type)} == {
        each.name for each in dataclasses.fields(theirs.config_type)
    }


def test_kaldis_extractors_have_kaldis_defaults() -> None:
    names = ("fbank", "mfcc", "plp", "spectrogram")
    kinds = [getattr(interop, f"Kaldi{name.title()}") for name in names]
    assert [kind.name for kind in kinds] == [f"kaldi-compat-{name}" for name in names]
    for kind in kinds:
        config = kind.config_type()
        kaldis, bins = type(config.to_our_options())(), {"num_mel_bins": 80} if kind is KaldiFbank else {}
        expected = dataclasses.replace(kaldis, dither=0.0, snip_edges=False, waveform_scale=32768.0, **bins)
        assert dataclasses.replace(
            config.to_our_options(), **({} if kind is KaldiSpectrogram else {"allow_empty_bins": False})
        ) == (expected)
    config = FbankConfig(num_mel_bins=40)
    assert (config.num_filters, config.num_mel_bins) == (40, None)  # the other name does not outlive a change
    assert Fbank(FbankConfig(num_filters=128)).extract(audio(800), 16000).shape == (5, 128)  # Some bins are empty.


@pytest.mark.parametrize("samples", [16000, 16079, 16080, 400, 480])
def test_whisper_features_are_lhotses(samples: int) -> None:
    extractor = WhisperFbank()
    filters = torch.from_numpy(compute_librosa_filters(80, 400, 16000.0).T)
    expected = whisper_fbank.log_mel_spectrogram(audio(samples), filters, window=torch.hann_window(400))
    alone = extractor.extract(audio(samples), 16000)
    np.testing.assert_allclose(alone, expected.numpy(), atol=1e-4)
    batch = extractor.extract_batch([audio(samples), audio(20000)], 16000)
    np.testing.assert_allclose(batch[0], alone, atol=1e-5)
    assert (extractor.name, extractor.frame_shift, extractor.feature_dim(16000)) == ("whisper-fbank", 0.01, 80)
    assert extractor.config.to_dict() == whisper_fbank.WhisperFbankConfig().to_dict()


def test_tensors_give_tensors() -> None:
    found = Fbank().extract(torch.from_numpy(audio(800)), 16000)
    assert isinstance(found, torch.Tensor)
    np.testing.assert_array_equal(found.numpy(), Fbank().extract(audio(800), 16000))


CONFIGS = [
    ("Fbank", {"num_filters": 40, "window_type": "hanning", "preemph_coeff": 0.5, "low_freq": 50.0}),
    ("Fbank", {"sampling_rate": 8000, "frame_length": 0.02, "frame_shift": 0.0125, "num_mel_bins": 23}),
    ("Fbank", {"use_fft_mag": True, "remove_dc_offset": False, "round_to_power_of_two": False}),
    ("Fbank", {"use_energy": True, "raw_energy": False, "energy_floor": 1e-3}),
    ("Fbank", {"snip_edges": True}),
    ("Mfcc", {"use_energy": False, "num_ceps": 20, "cepstral_lifter": 18, "num_filters": 30}),
    ("Mfcc", {"use_energy": False, "norm_filters": False, "torchaudio_compatible_mel_scale": True}),
    ("LogSpectrogram", {"use_energy": True, "frame_length": 0.032}),
    ("LogSpectrogram", {"use_fft_mag": True, "preemph_coeff": 0.0}),
    ("Spectrogram", {"use_energy": True, "energy_floor": 1.0}),
    ("Spectrogram", {"use_fft_mag": True}),
]


@pytest.mark.filterwarnings("ignore:.*snip_edges.*")
@pytest.mark.parametrize(("kind", "values"), CONFIGS, ids=range(len(CONFIGS)))
def test_configurations_of_lhotse_give_lhotses_features(kind: str, values: dict[str, Any]) -> None:
    theirs, ours = (getattr(library, kind)(getattr(library, f"{kind}Config")(**values))
                    for library in (extractors, interop))  # fmt: skip
    rate = theirs.config.sampling_rate
    assert ours.config.sampling_rate == rate and ours.frame_shift == theirs.frame_shift
    expected, features = (each.extract(audio(12345), rate) for each in (theirs, ours))
    assert ours.feature_dim(rate) == features.shape[1]
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
        ("KaldiSpectrogram", {"use_energy": False}),
    ):
        (name,) = values
        with pytest.raises(OptionError, match=f"^{kind}Config supports only {name}={not values[name]}, as Kaldi does:"):
            getattr(interop, kind)(getattr(interop, f"{kind}Config")(**values))
    with pytest.raises(
        OptionError, match=r"^FbankConfig has no option sample_frequency: did you mean sampling_rate\?$"
    ):
        FbankConfig(sample_frequency=8000)  # type: ignore[call-arg]
    with pytest.raises(OptionError, match=r"frame_length=25 would be in seconds, as in lhotse: pass 0\.025"):
        FbankConfig(frame_length=25.0)


@pytest.mark.parametrize("kind", [Fbank, LogSpectrogram])
def test_extractors_move_to_a_device(kind: type[Extractor]) -> None:
    extractor = kind(kind.config_type(use_energy=True))
    extractor.to("meta")
    assert extractor.device == "meta" and extractor.feature.window.device.type == "meta"


def test_wrong_rate_and_several_channels_are_refused() -> None:
    with pytest.raises(AudioError, match="sampling rate of 8000 Hz"):
        Mfcc().extract(audio(800), 8000)
    with pytest.raises(AudioError, match="sampling rate of 8000 Hz"):
        Mfcc().extract_batch([audio(800)], 8000)
    with pytest.raises(AudioError, match="one channel"):
        WhisperFbank().extract(np.zeros((2, 800), np.float32), 16000)
    with pytest.raises(AudioError, match="one channel"):
        Spectrogram().extract_batch([np.zeros((2, 800), np.float32)], 16000)


@pytest.mark.parametrize("kind", ["Fbank", "Mfcc", "Spectrogram", "LogSpectrogram"])
@pytest.mark.parametrize("convert", [np.asarray, torch.as_tensor])
def test_first_of_several_channels_is_taken_as_in_lhotse(kind: str, convert: Any) -> None:
    stereo = convert(np.stack([audio(800), audio(1600)[800:]]))
    theirs, ours = getattr(extractors, kind)(), getattr(interop, kind)()
    expected = theirs.extract(stereo, 16000)
    for actual, samples in (ours.extract(stereo, 16000), stereo), (ours.extract(stereo[0], 16000), stereo[0]):
        assert type(actual) is type(expected) and actual.shape == expected.shape
        np.testing.assert_allclose(actual, theirs.extract(samples, 16000), rtol=1e-3, atol=1e-3)
