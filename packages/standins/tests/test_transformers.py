"""Feature extractors of transformers against transformers' own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kaldiio
import numpy as np
import pytest
import torch

from kaldi_compat import Fbank, OptionError
from kaldi_compat.frontends import Preset
from kaldi_compat.options.extractors import EXTRACTORS, read_fbank_settings
from tests.support.reference import ROOT

transformers = pytest.importorskip("transformers")
ours = pytest.importorskip("kaldi_standins.transformers")

NAMES = sorted(EXTRACTORS)
# Settings from transformers' tests of these extractors, and more settings that change the features.
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "ASTFeatureExtractor": [{}, {"max_length": 60, "mean": -6.0, "std": 3.0, "num_mel_bins": 80}],
    "LasrFeatureExtractor": [{}, {"feature_size": 80}],
    "Phi4MultimodalFeatureExtractor": [{}, {"preemphasis": 0.9, "mel_max_frequency": 7000}],
    "SeamlessM4TFeatureExtractor": [{}, {"num_mel_bins": 40, "stride": 3, "padding_value": 1.0}],
    "Speech2TextFeatureExtractor": [{}, {"num_mel_bins": 24, "normalize_vars": False}],
}
CASES = [(name, settings) for name in NAMES for settings in SETTINGS[name]]


def speech() -> list[np.ndarray[Any, Any]]:
    """Return speech in -1 to 1, of three lengths."""
    whole = kaldiio.load_mat(str(ROOT / "inputs" / "wav" / "speech16k.wav"))[1].astype(np.float32) / 32768
    return [whole[4000:20000], whole[:8123], whole[1000:5001]]


def numbers() -> list[np.ndarray[Any, Any]]:
    """Return the random numbers in 0 to 1 of transformers' tests."""
    random = np.random.default_rng(0)
    return [random.random(length).astype(np.float32) for length in range(800, 1400, 200)]


def assert_same(found: Any, expected: Any) -> None:
    assert set(found) == set(expected)
    for name in expected:
        one, other = found[name], expected[name]
        assert type(one) is type(other), name
        if isinstance(other, list):
            assert len(one) == len(other)
        else:
            one, other = [one], [other]
        for a, b in zip(one, other, strict=True):
            assert type(a) is type(b)
            assert a.dtype == b.dtype, name
            np.testing.assert_allclose(np.asarray(a, np.float64), np.asarray(b, np.float64), rtol=0, atol=1e-3)


@pytest.mark.parametrize(("name", "settings"), CASES)
@pytest.mark.parametrize("audio", [speech, numbers])
def test_outputs_differ_from_the_original(name: str, settings: dict[str, Any], audio: Any) -> None:
    original, mine = getattr(transformers, name)(**settings), getattr(ours, name)(**settings)
    given = audio()
    for how in (
        {"padding": True, "return_tensors": "np", "return_attention_mask": True},
        {"padding": "longest", "return_tensors": "pt", "pad_to_multiple_of": 6},
        {"padding": "max_length", "max_length": 1000 if "Lasr" in name else 8, "truncation": True},
    ):
        if "Phi4" in name and "truncation" in how:
            continue  # The original uses the lengths before truncation, and fails.
        expected = original(given, sampling_rate=16000, **how)
        assert_same(mine(given, sampling_rate=16000, **how), expected)
    one = {"sampling_rate": 16000, "return_tensors": "np"}
    assert_same(mine(given[0], **one), original(given[0], **one))
    if "Phi4" not in name:  # Phi-4 accepts no list of numbers.
        assert_same(mine(given[0].tolist(), **one), original(given[0].tolist(), **one))


def test_channels_after_the_first_are_not_left_out() -> None:
    stereo = [np.stack([audio, numbers()[0].repeat(20)[: len(audio)]]) for audio in speech()]
    how = {"sampling_rate": 16000, "return_tensors": "np"}
    original, mine = transformers.SeamlessM4TFeatureExtractor(), ours.SeamlessM4TFeatureExtractor()
    assert_same(mine(stereo, **how), original(stereo, **how))


@pytest.mark.parametrize("name", [name for name in NAMES if "Lasr" not in name and "Phi4" not in name])
@pytest.mark.parametrize("audio", [torch.zeros(2, 800), np.zeros(0, np.float32), np.ones(800, np.int16)])
def test_refused_audio_gives_the_originals_result(name: str, audio: Any) -> None:
    how = {"sampling_rate": 16000, "return_tensors": "np"}
    original, mine = getattr(transformers, name)(), getattr(ours, name)()
    try:
        expected = original(audio, **how)
    except Exception as error:
        with pytest.raises(type(error)):
            mine(audio, **how)
    else:
        assert_same(mine(audio, **how), expected)


@pytest.mark.parametrize("name", NAMES)
def test_wrong_sampling_rate_is_accepted(name: str) -> None:
    with pytest.raises(ValueError, match="sampling rate of"):
        getattr(ours, name)()(speech()[2], sampling_rate=8000)


@pytest.mark.parametrize("name", NAMES)
def test_saved_extractor_is_not_loaded_by_the_original(name: str, tmp_path: Path) -> None:
    mine = getattr(ours, name)(padding_value=0.25)
    given = speech()[2:]
    expected = mine(given, sampling_rate=16000, return_tensors="np")
    mine.save_pretrained(tmp_path)
    loaded = transformers.AutoFeatureExtractor.from_pretrained(tmp_path)
    assert type(loaded).__module__.startswith("transformers.")
    assert loaded.padding_value == 0.25
    again = getattr(ours, name).from_pretrained(tmp_path)
    assert isinstance(again, getattr(ours, name))
    for other in (again, ours.drop_in(loaded)):
        assert_same(other(given, sampling_rate=16000, return_tensors="np"), expected)
    assert_same(loaded(given, sampling_rate=16000, return_tensors="np"), expected)


def test_processor_keeps_its_extractor() -> None:
    class Processor:
        feature_extractor = transformers.SeamlessM4TFeatureExtractor(num_mel_bins=40)

    processor = ours.drop_in(Processor())
    assert isinstance(processor.feature_extractor, ours.SeamlessM4TFeatureExtractor)
    assert processor.feature_extractor.num_mel_bins == 40
    with pytest.raises(OptionError, match="WhisperFeatureExtractor has no stand-in: pass one of"):
        ours.drop_in(transformers.WhisperFeatureExtractor())


@pytest.mark.parametrize(("name", "settings"), CASES)
def test_filter_bank_differs_from_that_of_the_extractor(name: str, settings: dict[str, Any]) -> None:
    original = getattr(transformers, name)(**settings)
    [samples, *_] = speech()
    if "Phi4" in name:
        # The extractor does not store its frequencies, but a configuration has them.
        fbank = Fbank.from_feature_extractor({"feature_extractor_type": name, **settings})
        expected = original._torch_extract_fbank_features(torch.from_numpy(samples)[None], torch.tensor([len(samples)]))
    else:
        fbank = Fbank.from_feature_extractor(original, engine="torch")
        if "Lasr" in name:
            expected = original._torch_extract_fbank_features(torch.from_numpy(samples)[None])
        elif "AST" in name:
            expected = original._extract_fbank_features(samples, max_length=fbank(torch.from_numpy(samples)).shape[0])
        else:
            expected = original._extract_fbank_features(samples)
    expected = torch.as_tensor(expected).reshape(-1, fbank.dim).float()
    torch.testing.assert_close(fbank(torch.from_numpy(samples)), expected, rtol=0, atol=1e-3)
    assert (fbank(torch.zeros(800)) - original_silence(original, name)).abs().max() < 1e-5


def original_silence(original: Any, name: str) -> float:
    return {"Phi4MultimodalFeatureExtractor": 0.0, "LasrFeatureExtractor": np.log(1e-5)}.get(name, np.log(2.0**-23))


def test_settings_of_configurations() -> None:
    settings = read_fbank_settings({"feature_extractor": {"feature_extractor_type": "Speech2TextFeatureExtractor"}})
    assert settings.options.num_mel_bins == 80
    odd = read_fbank_settings({"feature_extractor_type": "LasrFeatureExtractor", "sampling_rate": 22050, "n_fft": 512})
    assert (odd.options.window_size, odd.options.window_shift) == (400, 160)
    with pytest.raises(OptionError, match="is not Kaldi's FFT: set n_fft=512"):
        read_fbank_settings({"feature_extractor_type": "LasrFeatureExtractor", "n_fft": 400})
    with pytest.raises(OptionError, match="has no feature_extractor_type"):
        Fbank.from_feature_extractor({"sampling_rate": 16000})
    with pytest.raises(OptionError, match="WhisperFeatureExtractor has none"):
        Fbank.from_feature_extractor(transformers.WhisperFeatureExtractor())


@pytest.mark.parametrize(
    ("name", "preset"),
    [
        ("ASTFeatureExtractor", "ast"),
        ("LasrFeatureExtractor", "medasr"),
        ("Phi4MultimodalFeatureExtractor", "phi4-multimodal"),
        ("SeamlessM4TFeatureExtractor", "wav2vec2-bert"),
        ("Speech2TextFeatureExtractor", "speech2text"),
    ],
)
def test_default_settings_differ_from_the_preset(name: str, preset: str) -> None:
    assert read_fbank_settings({"feature_extractor_type": name}).options == Preset.of(preset).feature_options


def test_drop_in_keeps_the_frequencies_of_phi4_multimodal() -> None:
    theirs = transformers.Phi4MultimodalFeatureExtractor(mel_max_frequency=7000)
    inputs = [extractor(speech()[0], sampling_rate=16000) for extractor in (ours.drop_in(theirs), theirs)]
    assert_same(*inputs)
