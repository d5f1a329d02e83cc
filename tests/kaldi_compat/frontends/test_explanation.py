"""What explain says of arrays: mistakes of ports, normalization, presets, and what it cannot explain."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import io_ark
from kaldi_compat import AudioError, FeatureError, OptionError
from kaldi_compat.features.numpy import Fbank, Mfcc, Plp, Spectrogram
from kaldi_compat.frontends.cli import explain_main
from kaldi_compat.frontends.explanation import explain
from kaldi_compat.frontends.numpy import Frontend
from kaldi_compat.frontends.preset import Preset, preset_names
from tests.support.port import port

ROOT = Path(__file__).parents[3]
WAV = ROOT / "reference_data" / "inputs" / "wav" / "speech16k_b.wav"
SAMPLES = io_ark.load(WAV).samples[0]
SPEECH = SAMPLES.astype(np.float64)

# Mistakes of a port that was written without looking at this package: what it does otherwise, and the words for it.
MISTAKES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "scale of -1 to 1": ({"scale": 1 / 32768}, ("samples times 3.05",)),
    "hamming window": ({"window": "hamming"}, ("window_type='hamming'",)),
    "hann window": ({"window": "hann"}, ("window_type='hanning'",)),
    "no window": ({"window": "rectangular"}, ("window_type='rectangular'",)),
    "blackman window": ({"window": "blackman"}, ("window_type='blackman'",)),
    "periodic hann window": ({"window": "hann-periodic"}, ("window_type='hanning'", "periodic window")),
    "periodic hamming window": ({"window": "hamming-periodic"}, ("window_type='hamming'", "periodic window")),
    "no preemphasis": ({"preemphasis": 0.0}, ("preemphasis_coefficient=0.0",)),
    "preemphasis of 0.95": ({"preemphasis": 0.95}, ("preemphasis_coefficient=0.95",)),
    "preemphasis of the recording": ({"whole_preemphasis": True}, ("preemphasis of the whole recording",)),
    "DC kept": ({"remove_dc": False}, ("remove_dc_offset=False",)),
    "triangles in Hz": ({"filter_kind": "hertz"}, ("triangles in Hz",)),
    "snapped mel bins": ({"filter_kind": "snapped"}, ("rounded down to bins of the FFT",)),
    "filters of equal area": ({"filter_kind": "area"}, ("HTK's scale, of equal area",)),
    "from 0 Hz": ({"low": 0.0}, ("low_freq=0.0",)),
    "from 64 Hz": ({"low": 64.0}, ("low_freq=64.0",)),
    "up to 7600 Hz": ({"high": 7600.0}, ("high_freq=-400.0",)),
    "up to 7800 Hz": ({"high": 7800.0}, ("high_freq=-200.0",)),
    "magnitudes": ({"power": 1.0}, ("use_power=False",)),
    "no logarithm": ({"log": False}, ("use_log_fbank=False",)),
    "another floor": ({"floor": 1e-10, "scale": 1 / 32768}, ("floor of 1e-10",)),
    "an offset under the logarithm": ({"added": 1e-6, "scale": 1 / 32768}, ("1e-06 added",)),
    "edges reflected": ({"edges": "kaldi"}, ("snip_edges=False",)),
    "frames centred": ({"edges": "reflect"}, ("frames centred by padding (reflect)",)),
    "frames centred in zeros": ({"edges": "constant"}, ("frames centred by padding (constant)",)),
    "frames of 20 ms": ({"length": 20.0}, ("frame_length=20.0",)),
    "frames of 32 ms": ({"length": 32.0}, ("frame_length=32.0",)),
    "shift of 12.5 ms": ({"shift": 12.5}, ("frame_shift=12.5",)),
    "64 bins": ({"bins": 64}, ("num_mel_bins=64",)),
    "FFT of 400 points": ({"points": 400}, ("round_to_power_of_two=False",)),
    "four mistakes at once": (
        {"window": "hamming", "filter_kind": "hertz", "preemphasis": 0.0, "edges": "kaldi"},
        ("window_type='hamming'", "triangles in Hz", "preemphasis_coefficient=0.0", "snip_edges=False"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistake_of_a_port_is_named(mistake: str) -> None:
    options, words = MISTAKES[mistake]
    found = explain(port(SPEECH, **options), SAMPLES, 16000)
    assert found.is_exact, str(found)
    assert all(word in str(found) for word in words), str(found)


def test_port_without_mistakes_is_a_preset() -> None:
    assert explain(port(SPEECH), SAMPLES, 16000).preset == "fireredasr"


@pytest.mark.parametrize("name", preset_names())
def test_preset_is_named(name: str) -> None:
    preset = Preset.of(name)
    audio = SPEECH / 32768
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warnings.warn", lambda *_, **__: None)
        features = Frontend(preset)(audio, sampling_rate=16000) if preset.sampling_rate == 16000 else None
        if features is None:
            pytest.skip("a preset of another sampling rate")
        found = explain(features, audio, 16000)
        assert found.preset is not None
        same = np.asarray(Frontend(found.preset)(audio, sampling_rate=16000))
    assert np.abs(same - features).max() < 1e-3


MADE = Fbank(num_mel_bins=80, dither=0.0, window_type="hamming", low_freq=64.0)(SAMPLES)
SEVEN = np.stack(
    [MADE[np.clip(np.arange(6 * t - 3, 6 * t + 4), 0, len(MADE) - 1)].ravel() for t in range(len(MADE) // 6)]
)
AFTERWARDS: dict[str, tuple[Callable[[], Any], str]] = {
    "mean": (lambda: MADE - MADE.mean(0), "minus the mean of each column over the recording"),
    "variance": (lambda: (MADE - MADE.mean(0)) / MADE.std(0), "divided by the standard deviation of each column"),
    "base 10": (lambda: MADE / np.log(10), "logarithms to base 10"),
    "decibels": (lambda: 10 * MADE / np.log(10), "decibels"),
    "offset and scale": (lambda: (MADE + 4.5) / 9, "times 0.111111, plus 0.5"),
    "a number for each column": (lambda: MADE + np.sin(np.arange(80)), "plus a number for each column"),
    "transposed": (lambda: MADE.T, "transposed"),
    "first frame missing": (lambda: MADE[1:], "1 frame left out at the start"),
    "padded": (lambda: np.vstack((MADE, np.zeros((30, 80)))), "30 rows of padding"),
    "stacked": (lambda: SEVEN, "7 frames stacked, every 6"),
}


@pytest.mark.parametrize("how", AFTERWARDS)
def test_step_after_the_feature_is_named(how: str) -> None:
    make, words = AFTERWARDS[how]
    found = explain(make(), SAMPLES, 16000)
    assert found.is_exact, str(found)
    assert words in str(found)
    assert "window_type='hamming'" in str(found)
    assert "low_freq=64.0" in str(found)


@pytest.mark.parametrize("kind, options", [
    (Mfcc, {}), (Mfcc, {"use_energy": False, "num_ceps": 20, "num_mel_bins": 40}), (Mfcc, {"cepstral_lifter": 0.0}),
    (Plp, {"use_energy": False}), (Spectrogram, {"window_type": "hanning"}),
    (Fbank, {"use_energy": True, "num_mel_bins": 40}),
])  # fmt: skip
def test_other_features_are_named(kind: Any, options: dict[str, Any]) -> None:
    found = explain(kind(dither=0.0, **options)(SAMPLES), SAMPLES, 16000)
    assert found.is_exact, str(found)
    assert found.variant is not None
    assert found.variant.kind == kind.__name__.lower()
    assert all(found.variant.value(name) == value for name, value in options.items()), str(found)


def test_dithering_is_recognized_by_its_size() -> None:
    found = explain(Fbank(num_mel_bins=80)(SAMPLES), SAMPLES, 16000)
    assert not found.is_exact
    assert "noise as of dithering with about 1" in str(found)


def test_channel_of_a_stereo_recording_is_named() -> None:
    stereo = np.stack((np.roll(SAMPLES, 5000)[::-1], SAMPLES))
    assert "channel 1" in str(explain(MADE, stereo, 16000))


def test_noise_is_not_explained() -> None:
    found = explain(np.random.default_rng(0).normal(size=MADE.shape), SAMPLES, 16000)
    assert not found.is_exact
    assert str(found).startswith("not explained; the nearest is: ")


def test_two_arrays_are_mapped_to_each_other() -> None:
    assert str(explain(MADE + 20.7944, MADE)).startswith("plus 20.79 = 2 ln 32768 (samples on another scale): ")
    assert "columns rotated by 1" in str(explain(np.roll(MADE, 1, 1), MADE))
    assert "2 frames left out at the start" in str(explain(MADE[2:], MADE))


def test_wrong_input_is_an_error() -> None:
    with pytest.raises(FeatureError, match="NaN or infinity"):
        explain(np.full((5, 80), np.nan), SAMPLES, 16000)
    with pytest.raises(FeatureError, match=r"\(frames, dim\)"):
        explain(np.zeros(5), SAMPLES, 16000)
    with pytest.raises(AudioError, match=r"\(channels, T\)"):
        explain(MADE, np.zeros((2, 2, 2)), 16000)
    for audio, words in ((SAMPLES[:10], "less than a frame"), (np.stack((SAMPLES, SAMPLES), 1), "too many channels"),
                         (np.full(9000, np.nan), "NaN")):  # fmt: skip
        with pytest.raises(AudioError, match=words):
            explain(MADE, audio, 16000)
    for rate, tolerance in ((0, 1e-3), (float("nan"), 1e-3), (16000, float("nan"))):
        with pytest.raises(OptionError):
            explain(MADE, SAMPLES, rate, tolerance=tolerance)
    with pytest.raises(OptionError, match="all features are equal"):
        explain(np.ones((100, 80)), SAMPLES, 16000)
    with pytest.raises(FeatureError, match="3000 columns"):
        explain(np.random.default_rng(0).normal(size=(118, 3000)), SAMPLES, 16000)
    with pytest.raises(FeatureError, match="2 columns"):
        explain(np.random.default_rng(0).normal(size=(100, 2)), SAMPLES, 16000)


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "a.npy", MADE)
    np.savetxt(tmp_path / "a.csv", MADE, delimiter=",")
    with io_ark.writer(f"ark,scp:{tmp_path}/a.ark,{tmp_path}/a.scp") as writer:
        writer["utt"] = MADE
    for name in ("a.npy", "a.csv", "a.ark:utt", "a.scp:utt"):
        assert explain_main([str(tmp_path / name), str(WAV)]) == 0
        assert "window_type='hamming'" in capsys.readouterr().out
    np.save(tmp_path / "b.npy", np.random.default_rng(0).normal(size=MADE.shape))
    assert explain_main([str(tmp_path / "b.npy"), str(WAV)]) == 1
    assert explain_main([str(tmp_path / "a.ark:none"), str(WAV)]) == 255
    assert "has no entry none" in capsys.readouterr().err
    assert explain_main([str(tmp_path / "missing.npy"), str(WAV)]) == 255
    assert explain_main(["--nonsense"]) == 2
