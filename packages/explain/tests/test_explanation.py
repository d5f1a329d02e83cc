"""Answers of explain: mistakes of ports, normalization, presets, and arrays that have no explanation."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import re
import warnings
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

import io_ark
from io_ark.codecs import compress
from kaldi_compat import AudioError, FeatureError, OptionError, native
from kaldi_compat.exact.librosa_mel import compute_librosa_filters
from kaldi_compat.exact.rand import KaldiRandom
from kaldi_compat.exact.resample import resample_waveform
from kaldi_compat.frontends.numpy import Frontend
from kaldi_compat.frontends.preset import Preset, list_presets
from kaldi_compat.functional.cmvn import sliding_cmvn
from kaldi_compat.functional.deltas import add_deltas
from kaldi_compat.numpy import Fbank, Mfcc, Plp, Spectrogram
from kaldi_compat.options.pitch import PitchOptions, ProcessPitchOptions
from kaldi_compat.options.postprocessing import DeltaOptions, SlidingCmvnOptions
from kaldi_compat.pitch.process import process_utterances
from kaldi_compat.pitch.tracker import track_pitch
from kaldi_explain import arrangements, work
from kaldi_explain.answers import _describe_unexplained_rows, _split_settings
from kaldi_explain.calls import DECIBELS, WHISPER, describe_library_call
from kaldi_explain.candidates import Candidate, Sheet
from kaldi_explain.command import main as explain_main
from kaldi_explain.explanation import explain
from kaldi_explain.finder import Finder
from kaldi_explain.fits import measure_distance
from kaldi_explain.models import FeatureModel
from kaldi_explain.options import DB_80, LIBRARY_MEL, STFT
from kaldi_explain.search import Search
from kaldi_explain.settling import Settling, find_places, fit_map
from kaldi_explain.sources import AudioSource, append_zeros
from kaldi_explain.thresholds import THRESHOLDS
from packages.explain.tests.port import HEAD, MISTAKES, PAGE, port, table, window_of

ROOT = Path(__file__).parents[3]
WAV = ROOT / "reference_data" / "inputs" / "wav" / "speech16k_b.wav"
SAMPLES = io_ark.load(WAV).samples[0]
SPEECH = SAMPLES.astype(np.float64)
in_time = pytest.mark.skipif(not native.library(), reason="without C the search takes more time than it has")


def quick(cases: Iterable[str], *names: str, with_c: str = "") -> list[Any]:
    """Return all cases, of which only those of these names are not slow, and one needs C to be in time."""
    marks = ((each, [in_time] * (each == with_c)) for each in cases)
    return [pytest.param(each, marks=found if each in names else pytest.mark.slow) for each, found in marks]


QUICK_MISTAKES = (
    "samples in -1 to 1",
    "Hamming window",
    "triangular filters in Hz",
    "lowest frequency of 0 Hz",
    "highest frequency of 7600 Hz",
)


@pytest.mark.parametrize("mistake", quick(MISTAKES, *QUICK_MISTAKES))
def test_mistake_of_a_port_is_named(mistake: str) -> None:
    options, words = MISTAKES[mistake]
    found = explain(port(SPEECH, **options), SAMPLES, 16000)
    assert found.is_exact, str(found)
    assert all(word in str(found) for word in words), str(found)


def test_archives_compressed_by_column_are_explained_where_they_are_coarsest() -> None:
    noise = np.random.default_rng(1).normal(0, 800, 160_000).astype(np.int16)
    found = explain(np.asarray(compress(Fbank(num_mel_bins=80, dither=0.0)(noise), 2)), noise, 16000)
    assert found.is_exact, str(found)
    assert "stored compressed, 8 bits a value in each column" in str(found)


def test_page_lists_the_mistakes() -> None:
    assert HEAD + table() in PAGE.read_text(encoding="utf-8"), "python -m packages.explain.tests.port writes it"


@pytest.mark.slow
def test_few_frames_are_not_explained_by_a_number_for_each_column() -> None:
    assert not explain(np.random.default_rng(0).normal(size=(5, 80)), SAMPLES[:1200], 16000).is_exact


def test_port_without_mistakes_is_a_preset() -> None:
    assert explain(port(SPEECH), SAMPLES, 16000).preset == "fireredasr"


@pytest.mark.parametrize("name", list_presets())
def test_preset_is_named(name: str) -> None:
    preset = Preset.of(name)
    rate, audio = preset.sampling_rate, SPEECH / 32768
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        features = Frontend(preset)(audio, sampling_rate=rate)
        found = explain(features, audio, rate)
        assert found.preset is not None, str(found)
        same = np.asarray(Frontend(found.preset)(audio, sampling_rate=rate))
    assert np.abs(same - features).max() < 1e-3


MADE = Fbank(num_mel_bins=80, dither=0.0, window_type="hamming", low_freq=64.0)(SAMPLES)
CENTERED = MADE - MADE.mean(0)
SEVEN = np.stack(
    [MADE[np.clip(np.arange(6 * t - 3, 6 * t + 4), 0, len(MADE) - 1)].ravel() for t in range(len(MADE) // 6)]
)


def subtract_truncated_mean(features: Any, before: int, after: int) -> Any:
    """Subtract the mean of the frames around each frame, as public code does: the edges of the array truncate it."""
    means = [features[max(0, frame - before) : frame + after + 1].mean(0) for frame in range(len(features))]
    return features - np.stack(means)


AFTERWARDS: dict[str, tuple[Callable[[], Any], str]] = {
    "mean": (lambda: MADE - MADE.mean(0), "minus the mean of each column over the recording"),
    "variance": (lambda: (MADE - MADE.mean(0)) / MADE.std(0), "divided by the standard deviation of each column"),
    "sliding mean": (lambda: sliding_cmvn(MADE, SlidingCmvnOptions(cmn_window=50)), "in a window of 50 frames"),
    "sliding mean of any window": (
        lambda: sliding_cmvn(MADE, SlidingCmvnOptions(cmn_window=71, center=True)),
        "in a window of 71 frames (sliding CMN)",
    ),
    "truncated sliding mean": (
        lambda: subtract_truncated_mean(MADE, 38, 38),
        "in a window of 77 frames (sliding CMN, truncated at the edges)",
    ),
    "truncated mean of the past": (
        lambda: subtract_truncated_mean(MADE, 59, 0),
        "in a window of 60 frames (sliding CMN, which ends at the frame, truncated at the edges)",
    ),
    "base 10": (lambda: MADE / np.log(10), "logarithms to base 10"),
    "decibels": (lambda: 10 * MADE / np.log(10), "decibels"),
    "Whisper": (lambda: MADE / np.log(10) / 4 + 1, "as in Whisper"),
    "offset and scale": (lambda: (MADE + 4.5) / 9, "times 0.111111, plus 0.5"),
    "AST": (lambda: (MADE + 4.268) / 9.138, "as in AST"),
    "global": (
        lambda: (MADE - np.sin(np.arange(80))) / np.linspace(2, 3, 80),
        "for each column (CMVN of a speaker or corpus)",
    ),
    "a number for each column": (lambda: MADE + np.sin(np.arange(80)), "plus a number for each column"),
    "decibels and a number for each column": (
        lambda: 10 / np.log(10) * MADE + np.sin(np.arange(80)),
        "decibels (10 log10); plus a number for each column",
    ),
    "transposed": (lambda: MADE.T, "transposed"),
    "reshaped": (lambda: MADE.T.reshape(MADE.shape), "reshaped where a transposition was meant"),
    "first frame missing": (lambda: MADE[1:], "1 frame left out at the start"),
    "padded": (lambda: np.vstack((MADE, np.zeros((30, 80)))), "30 rows of padding"),
    "transposed and padded": (lambda: np.vstack((MADE, np.zeros((30, 80)))).T, "transposed; 30 rows of padding"),
    "stacked": (lambda: SEVEN, "7 frames stacked, every 6"),
    "stacked and normalized": (lambda: (SEVEN - SEVEN.mean(0)) / SEVEN.std(0), "7 frames stacked, every 6"),
    "joined": (lambda: MADE[:117].reshape(-1, 240), "3 frames stacked, every 3"),
    "mean before joining": (lambda: CENTERED[:117].reshape(-1, 240), "every 3; before that: minus the mean of each"),
    "mean of decibels before deltas": (
        lambda: add_deltas(10 / np.log(10) * CENTERED),
        "decibels (10 log10); before that: minus the mean",
    ),
    "mean of decibels of the whole before a part": (
        lambda: 10 / np.log(10) * CENTERED[30:90],
        "decibels (10 log10); minus the mean of each column",
    ),
    "deltas": (lambda: add_deltas(MADE, DeltaOptions(delta_order=1, delta_window=3)), "deltas of 3 frames"),
    "compressed": (lambda: np.asarray(compress(MADE, 5)), "stored compressed, 8 bits a value"),
    "half precision": (lambda: MADE.astype(np.float16), "stored as float16"),
    "swapped bytes": (lambda: MADE.byteswap(), "bytes of the numbers swapped"),
}


QUICK_STEPS = ("mean", "Whisper", "global", "transposed and padded", "compressed")


@pytest.mark.parametrize("how", quick(AFTERWARDS, *QUICK_STEPS, with_c="stacked and normalized"))
def test_step_after_the_feature_is_named(how: str) -> None:
    make, words = AFTERWARDS[how]
    found = explain(make(), SAMPLES, 16000)
    assert found.is_exact, str(found)
    assert words in str(found)
    assert "window_type='hamming'" in str(found)
    assert "low_freq=64.0" in str(found)


@pytest.mark.parametrize("kind, options, rate", [
    (Mfcc, {}, 16000), (Mfcc, {"use_energy": False, "num_ceps": 20, "num_mel_bins": 40}, 16000),
    (Mfcc, {"cepstral_lifter": 0.0}, 16000),
    pytest.param(Mfcc, {"high_freq": 3700.0, "num_ceps": 23}, 8000, marks=[in_time, pytest.mark.slow]),
    (Plp, {"use_energy": False}, 16000), (Spectrogram, {"window_type": "hanning"}, 16000),
    (Fbank, {"use_energy": True, "num_mel_bins": 40}, 16000),
    (Fbank, {"use_energy": True, "num_mel_bins": 40, "htk_compat": True}, 16000),
    *(pytest.param(*each, marks=pytest.mark.slow) for each in [
        (Fbank, {"low_freq": 400.0, "high_freq": 3400.0}, 16000),
        (Fbank, {"num_mel_bins": 40, "low_freq": 55.0}, 8000),
        (Fbank, {"num_mel_bins": 40, "high_freq": 7500.0}, 16000),
        (Fbank, {"num_mel_bins": 40, "high_freq": 7500.0, "window_type": "hanning"}, 16000),
        (Plp, {"num_ceps": 12, "cepstral_lifter": 0}, 16000),
        (Fbank, {"num_mel_bins": 40, "high_freq": 7200.0, "preemphasis_coefficient": 0.96}, 16000),
    ]),
])  # fmt: skip
def test_other_features_are_named(kind: Any, options: dict[str, Any], rate: int) -> None:
    found = explain(kind(dither=0.0, sample_frequency=rate, **options)(SAMPLES), SAMPLES, rate)
    assert found.is_exact, str(found)
    assert found.variant is not None
    assert found.variant.kind == kind.__name__.lower()
    assert all(found.variant.get(name) == value for name, value in options.items()), str(found)


def bins(points: int, power: float, scale: float, *, mode: str = "reflect", speech: Any = SPEECH, size: int = 0) -> Any:
    """Return the STFT of librosa and torch, centered, with a periodic Hann window; or Kaldi's edges ("symmetric").

    ``size`` is the length of the window, if it is shorter than the FFT.
    """
    around = (points // 2, points // 2) if mode == "reflect" else (points // 2 - 80, points // 2)
    padded = np.pad(speech * scale, around, mode=mode)  # type: ignore[call-overload]
    frames = np.lib.stride_tricks.sliding_window_view(padded, points)
    window = np.pad(window_of("hann-periodic", size or points), (points - (size or points)) // 2)
    return np.abs(np.fft.rfft(frames[::160] * window)) ** power


def polyphase(samples: Any) -> Any:
    """Return every third sample, filtered as scipy.signal.resample_poly does."""
    taps = np.sinc(np.arange(-30, 31) / 3) * np.kaiser(61, 5.0)
    return np.convolve(samples, taps / taps.sum(), mode="same")[::3].astype(np.float32)


# Features of other libraries, or of audio that differs from the audio passed to explain.
TURNED = np.stack((SAMPLES, np.roll(SAMPLES, 5000)[::-1]))
C0 = Mfcc(dither=0.0, use_energy=False)(SAMPLES).astype(np.float64)
FBANK = Fbank(num_mel_bins=40, dither=0.0)
EIGHT = FBANK(resample_waveform(SAMPLES.astype(np.float32), 8000, 16000))
PAUSES = io_ark.load(WAV.with_name("speech16k.wav")).samples[0]  # The audio has pauses of digital silence.


def _bfloat16(array: Any) -> Any:
    bits = np.asarray(array, np.float32).view(np.uint32)
    return ((bits + 0x8000) & np.uint32(0xFFFF0000)).view(np.float32)


PAUSES_AT_8000 = resample_waveform(PAUSES.astype(np.float32), 16000, 8000)
EIGHT_OF_PAUSES = Fbank(num_mel_bins=40, dither=0.0, sample_frequency=8000, high_freq=-400.0)(
    resample_waveform(PAUSES.astype(np.float32), 16000, 8000)
)
AT_22050 = io_ark.load(WAV.with_name("speech22k.wav")).samples[0]  # The audio has digital silence.
BY_SOXR = np.load(ROOT / "tests" / "data" / "soxr" / "fbank.npy")
NARROW = Fbank(num_mel_bins=96, dither=0.0, use_log_fbank=False, sample_frequency=8000, low_freq=0.0,
               allow_empty_bins=True)  # fmt: skip
COSINES = np.cos(np.pi / 23 * np.outer(np.arange(23) + 0.5, np.arange(13))) * (2 / 23) ** 0.5
COSINES = COSINES * (1 + 11 * np.sin(np.pi / 22 * np.arange(13))) * np.array([0.5**0.5] + [1.0] * 12)
SILENT = np.where(np.arange(len(SAMPLES)) // 4000 % 3 == 1, 0, SAMPLES)
SLANEY = compute_librosa_filters(80, 400, 16000.0).astype(np.float64)
CASES: dict[str, tuple[Callable[[], Any], Any, float, tuple[str, ...]]] = {
    "power": (lambda: bins(400, 2, 1), SAMPLES, 16000, ("spectrogram(", "power, no logarithm", "periodic")),
    "power of an FFT of 128 points": (lambda: bins(128, 2, 1), SAMPLES, 16000, ("frame_length=8.0", "power, no log")),
    "magnitude": (lambda: bins(512, 1, 1 / 32768), SAMPLES, 16000, ("magnitudes", "reflect")),
    "quiet bins": (lambda: np.log(bins(512, 2, 1 / 32768) + 1e-10), SAMPLES, 16000, ("log power of all bins", "1e-10")),
    "decibels below the largest": (
        lambda: np.maximum(melodb := 10 * np.log10(np.maximum(bins(400, 2, 1 / 32768) @ SLANEY, 1e-10)),
                           melodb.max() - 80), SAMPLES, 16000,
        ("equal area", "values limited to 80 dB below the maximum", "decibels (10 log10)", "reflect")),
    "decibels below the largest, with digital silence": (
        lambda: np.maximum(melodb := 10 * np.log10(np.maximum(bins(400, 2, 1 / 32768, speech=SILENT) @ SLANEY, 1e-10)),
                           melodb.max() - 80) - melodb.max(), SILENT, 16000,
        ("equal area", "values limited to 80 dB below the maximum", "decibels (10 log10)", "reflect")),
    "decibels of a short window": (
        lambda: np.maximum(
            melodb := 10 * np.log10(np.maximum(
                bins(512, 2, 1 / 32768, speech=PAUSES, size=400) @ compute_librosa_filters(80, 512, 16000.0), 1e-10)),
            melodb.max() - 80) - melodb.max(), PAUSES, 16000,
        ("window_type='hanning'", "half a window", "limited to 80 dB below the maximum", "decibels (10 log10)")),
    "a number added to digital silence": (
        lambda: np.log(bins(400, 2, 1 / 32768, speech=PAUSES) @ SLANEY + 1e-6), PAUSES, 16000,
        ("equal area", "1e-06 added before the logarithm")),
    "log1p": (lambda: np.log1p(bins(400, 2, 1 / 32768) @ SLANEY), SAMPLES, 16000,
              ("equal area", "1 added before the logarithm")),
    "another rate and wide filters": (
        lambda: Fbank(num_mel_bins=80, dither=0.0)(PAUSES_AT_8000), PAUSES_AT_8000, 8000,
        ("fbank(num_mel_bins=80)", "taken as audio of 16000 Hz")),
    "Whisper with Kaldi's edges": (
        lambda: (np.maximum(form := np.log10(np.maximum(bins(400, 2, 1 / 32768, mode="symmetric") @ SLANEY, 1e-10)),
                            form.max() - 8) + 4) / 4, SAMPLES, 16000,
        ("snip_edges=False", "equal area", "values limited to 80 dB below the maximum", "as in Whisper")),
    "periodic window and triangles in Hz": (
        lambda: port(SAMPLES.astype(np.float64), window="hamming-periodic", filter_kind="hertz"), SAMPLES, 16000,
        ("window_type='hamming'", "periodic window", "triangles in Hz")),
    "C0 left out": (lambda: Mfcc(dither=0.0)(SAMPLES)[:, 1:], SAMPLES, 16000, ("the first column left out",)),
    "deltas alone": (lambda: add_deltas(FBANK(SAMPLES))[:, 40:80], SAMPLES, 16000,
                     ("fbank(num_mel_bins=40); deltas of 2 frames on each side, order 1, without the features:",)),
    "second deltas alone": (lambda: add_deltas(FBANK(SAMPLES))[:, 80:], SAMPLES, 16000,
                            ("fbank(num_mel_bins=40); deltas of 2 frames on each side, order 2, without",)),
    "clipped audio": (lambda: FBANK(np.clip(4.0 * SAMPLES, -32768, 32767).astype(np.int16)), SAMPLES, 16000,
                      ("fbank(num_mel_bins=40); samples times 4 and clipped to 16 bits:",)),
    "cepstra transposed": (lambda: Mfcc(dither=0.0)(SAMPLES).T, SAMPLES, 16000, ("mfcc()", "transposed")),
    "bfloat16 of small numbers": (lambda: _bfloat16(FBANK(SAMPLES) / 20), SAMPLES, 16000, ("stored as bfloat16",)),
    "a frame length and an offset": (
        lambda: Fbank(dither=0.0, frame_length=30.0, remove_dc_offset=False)(SAMPLES + np.int16(40)),
        SAMPLES + np.int16(40), 16000, ("fbank(frame_length=30.0, remove_dc_offset=False):",)),
    "C0 last": (lambda: np.roll(Mfcc(dither=0.0)(SAMPLES), -1, 1), SAMPLES, 16000, ("htk_compat=True",)),
    "lifter": (lambda: Mfcc(dither=0.0, use_energy=False, cepstral_lifter=26.0)(SAMPLES), SAMPLES, 16000,
               ("mfcc(use_energy=False, cepstral_lifter=26)",)),
    "linear mels of long frames": (
        lambda: (bins(2048, 2, 1 / 32768)[::3] @ compute_librosa_filters(128, 2048, 16000.0)).T, SAMPLES, 16000,
        ("frame_shift=30.0", "use_log_fbank=False", "of equal area", "(reflect)", "transposed")),
    "rounding of a resampler": (
        lambda: EIGHT_OF_PAUSES, PAUSES, 16000, ("high_freq=-400.0", "to 8000 Hz as Kaldi and torchaudio do")),
    "digital silence by soxr": (
        lambda: BY_SOXR, AT_22050, 22050,
        ("fbank(num_mel_bins=40, high_freq=-400.0); resampled to 8000 Hz by soxr", "73 too quiet to compare")),
    "80 filters of python_speech_features": (  # Two edges of its filters are on one bin.
        lambda: port(SAMPLES.astype(np.float64), filter_kind="snapped-more"), SAMPLES, 16000,
        ("fbank(num_mel_bins=80), edges of mel bins rounded down to bins of an FFT with one more point",)),
    "columns reversed": (lambda: FBANK(SAMPLES)[:, ::-1], SAMPLES, 16000, ("fbank(", "the columns in reverse order:")),
    "cepstra of magnitudes": (
        lambda: Fbank(dither=0.0, use_power=False)(SAMPLES) @ COSINES, SAMPLES, 16000,
        ("mfcc(use_energy=False), of magnitudes:",)),
    "floor of an empty filter": (
        lambda: np.log(np.maximum(NARROW(SAMPLES[::2]), 1e-10)), SAMPLES[::2], 8000,
        ("fbank(num_mel_bins=96, low_freq=0.0), a floor of 1e-10:",)),
    "floor of an empty filter to base 10": (
        lambda: np.log10(np.maximum(NARROW(SAMPLES[::2]), 1e-5)), SAMPLES[::2], 8000,
        ("fbank(num_mel_bins=96, low_freq=0.0), a floor of 1e-05; logarithms to base 10:",)),
    "an empty filter, normalized": (
        lambda: ((made := np.log(np.maximum(NARROW(SAMPLES[::2]), 2.0**-23))) - made.mean(0)) / (made.std(0) + 1e-9),
        SAMPLES[::2], 8000, ("the standard deviation of each column:",)),
    "digital silence by soxr, and padding": (
        lambda: np.vstack((BY_SOXR, np.zeros((50, 40)))), AT_22050, 22050,
        ("50 rows of padding at the end; frames 60", "73 too quiet to compare:")),
    "log power of quiet audio": (
        lambda: np.log(np.maximum(bins(512, 2, 1 / 32768), 2.0**-23)), SAMPLES, 16000, ("log power of all bins",)),
    "one cell at a floor": (
        lambda: np.maximum(made := FBANK(SAMPLES), np.sort(made, None)[1] - 1e-3), SAMPLES, 16000, ("a floor of",)),
    "DCT": (lambda: C0 * np.array([2**0.5] + [1] * 12), SAMPLES, 16000, ("C0 times the root of 2",)),
    "DCT, not normalized": (lambda: C0 * np.array([2**0.5] + [1] * 12) * 46**0.5, SAMPLES, 16000, ("not normalized",)),
    "floor of energies": (lambda: Mfcc(dither=0.0, energy_floor=1e9)(SAMPLES), SAMPLES, 16000, ("energy_floor=1",)),
    "floor": (lambda: np.log(np.maximum(Fbank(dither=0.0, use_log_fbank=False)(SAMPLES), 3e7)), SAMPLES, 16000,
              ("a floor of 3e+07",)),
    "warped cepstra": (lambda: Mfcc(dither=0.0, use_energy=False)(SAMPLES, vtln_warp=1.12), SAMPLES, 16000,
                       ("VTLN factor 1.12",)),
    "a low edge far off": (lambda: Fbank(dither=0.0, low_freq=300.0)(SAMPLES), SAMPLES, 16000, ("low_freq=300",)),
    "both edges": (lambda: Fbank(dither=0.0, num_mel_bins=80, low_freq=55.0, high_freq=7200.0)(SAMPLES), SAMPLES, 16000,
                   ("low_freq=55", "high_freq=7200")),
    "power over points": (lambda: FBANK(SAMPLES) - np.log(512), SAMPLES, 16000, ("ln 512",)),
    "running mean": (lambda: (made := FBANK(SAMPLES)) - np.cumsum(made, 0) / np.arange(1, len(made) + 1)[:, None],
                     SAMPLES, 16000, ("running CMN",)),
    "padded at the start": (lambda: np.vstack((np.zeros((20, 40)), FBANK(SAMPLES))), SAMPLES, 16000,
                            ("20 rows of padding at the start",)),
    "polyphase": (lambda: FBANK(polyphase(SPEECH)), SAMPLES, 48000, ("polyphase filter",)),
    "a rate that looks transposed": (lambda: FBANK(SAMPLES), SAMPLES, 44100, ("taken as audio of 16000 Hz",)),
    "C0 last, not scaled": (lambda: np.roll(C0, -1, 1), SAMPLES, 16000, ("the first column last",)),
    "one frame in three": (lambda: FBANK(SAMPLES)[::3], SAMPLES, 16000, ("frame_shift=30.0",)),
    "cut": (lambda: FBANK(SAMPLES)[:60], SAMPLES, 16000, ("58 frames left out at the end",)),
    "warped": (lambda: FBANK(SAMPLES, vtln_warp=0.93), SAMPLES, 16000, ("VTLN factor 0.93",)),
    "resampled": (lambda: EIGHT, SAMPLES, 8000, ("resampled to 16000 Hz as Kaldi and torchaudio do",)),
    "samples left out": (lambda: FBANK(SAMPLES[::3]), SAMPLES, 48000, ("by leaving out samples",)),
    "another rate": (lambda: FBANK(SAMPLES), SAMPLES, 8000, ("taken as audio of 16000 Hz",)),
    "slower": (lambda: FBANK(resample_waveform(SAMPLES.astype(np.float32), 14400, 16000)), SAMPLES, 16000,
               ("at 0.9 times the speed",)),
    "swapped bytes": (lambda: FBANK(SAMPLES.byteswap()), SAMPLES, 16000, ("bytes of samples swapped",)),
    "mean of channels": (lambda: FBANK(TURNED.mean(0)), TURNED, 16000, ("mean of the channels",)),
    "both channels as one": (lambda: FBANK(TURNED.T.ravel()), TURNED, 16000, ("both channels taken as one",)),
    "peak": (lambda: FBANK(SPEECH / np.abs(SPEECH).max()), SAMPLES, 16000, ("1 / the largest sample",)),
}  # fmt: skip


# Cases that take more than a second. One case of each path, such as another rate, is left in the fast tests.
SLOW_CASES = {
    "rounding of a resampler", "a rate that looks transposed", "polyphase",
    "samples left out", "running mean", "swapped bytes",
    "slower", "another rate", "both channels as one", "decibels below the largest", "warped cepstra", "both edges",
    "digital silence by soxr", "digital silence by soxr, and padding", "cepstra of magnitudes", "warped",
    "a low edge far off", "second deltas alone", "bfloat16 of small numbers", "one cell at a floor", "quiet bins",
    "periodic window and triangles in Hz", "a frame length and an offset", "an empty filter, normalized",
}  # fmt: skip


@pytest.mark.costly
@pytest.mark.filterwarnings("ignore:the samples lie within")
@pytest.mark.parametrize("case", quick(CASES, *(CASES.keys() - SLOW_CASES)))
def test_other_audio_and_libraries_are_named(case: str) -> None:
    make, audio, rate, words = CASES[case]
    found = explain(make(), audio, rate)
    assert found.is_exact, str(found)
    assert all(word in str(found) for word in words), str(found)


def test_recording_stays_in_memory() -> None:
    samples, made = np.tile(SAMPLES, 3).astype(np.float32), 1 + FBANK(SAMPLES)
    held = weakref.ref(samples)
    explain(made, samples, 16000)
    del samples
    gc.collect()
    assert held() is None


@pytest.mark.parametrize("kind", quick({"Fbank": Fbank, "Mfcc": Mfcc}, "Fbank"))
def test_first_utterance_of_a_run_of_kaldi_is_explained_with_its_noise(kind: str) -> None:
    """Of audio with digital silence, where noise is all that there is."""
    samples = io_ark.load(WAV.with_name("speech16k.wav")).samples[0]
    features = {"Fbank": Fbank, "Mfcc": Mfcc}[kind]()(samples, generator=KaldiRandom())
    words = f"{kind.lower()}(), dithered as the first utterance of a run of Kaldi's"
    assert str(explain(features, samples, 16000)).startswith(f"{words}: largest difference 0")
    assert str(explain(features - features.mean(0), samples, 16000)).startswith(f"{words}; minus the mean of each")


@in_time
@pytest.mark.costly
def test_options_are_marked_as_certain_or_guessed_where_a_part_of_the_spread_is_left() -> None:
    noise = np.random.default_rng(0).normal(size=MADE.shape)
    found = explain(MADE + 0.05 * MADE.std() * noise, SAMPLES, 16000)
    assert str(found).startswith("partly explained: fbank of this audio, most like fbank("), str(found)
    assert found.verdict == "partly" and "of the spread" in found.left
    assert found.variant is not None
    assert {*found.certain, *found.guessed} == {*found.variant.list_settings()} and "num_mel_bins=80" in found.certain
    assert "; certain: num_mel_bins=80; guesses: " in str(found), str(found)


@pytest.mark.parametrize(
    ("cost", "cost_of_others", "certain"),
    [
        (0.004, {"window_type": 0.5, "num_mel_bins": 2.0}, ["num_mel_bins=40", "window_type='hann'"]),
        (0.004, {"window_type": 0.005, "num_mel_bins": 2.0}, ["num_mel_bins=40"]),
        (0.04, {"window_type": 0.5, "num_mel_bins": 2.0}, ["num_mel_bins=40"]),  # Wrong options may imitate others.
    ],
)
def test_option_is_certain_only_if_no_other_value_may_be_right(
    cost: float, cost_of_others: dict[str, float], certain: list[str]
) -> None:
    candidate: Any = Candidate("fbank", 16000, {"num_mel_bins": 40, "window_type": "hann"}, source=Any)  # type: ignore[arg-type]

    def measure(other: Any) -> float:
        return max(value for name, value in cost_of_others.items() if other.get(name) != candidate.get(name))

    attempt: Any = SimpleNamespace(candidate=candidate, cost=cost, search=SimpleNamespace(measure_cost=measure))
    budget: Any = SimpleNamespace(limit=iter, is_settling_over=lambda: False)
    assert sorted(_split_settings(attempt, candidate, budget)[0]) == certain
    changed = candidate.change({"window_type": "povey"})
    assert sorted(_split_settings(attempt, changed, budget)[0]) == ["num_mel_bins=40"]


def test_option_with_untried_values_at_the_end_of_the_budget_is_a_guess() -> None:
    candidate = Candidate("fbank", 16000, {"num_mel_bins": 40}, source=AudioSource("", 16000, lambda: SPEECH, 0.0))
    budget = work.Budget(10.0)

    def measure(_: Candidate) -> float:
        budget.units += 1e9
        return THRESHOLDS.incomparable

    attempt: Any = SimpleNamespace(candidate=candidate, cost=0.0, search=SimpleNamespace(measure_cost=measure))
    assert _split_settings(attempt, candidate, budget) == ([], ["num_mel_bins=40"])


def test_masked_rows_between_unexplained_rows_are_counted_at_both_ends() -> None:
    rows = np.array([False, True, False, True, True, True, True, False, True, False])
    sheet: Any = SimpleNamespace(rows=rows)
    settled: Any = SimpleNamespace(row=4, target=np.zeros((2, 1)))
    assert _describe_unexplained_rows(settled, sheet) == [
        "3 frames too many at the end",
        "3 frames too many at the start",
    ]


def test_another_recording_is_suggested_where_nothing_fits() -> None:
    assert "; try another recording or sampling rate" in str(explain(NOTHING["few frames"], SAMPLES, 16000))


def test_clipped_audio_is_named_where_nothing_fits() -> None:
    clipped = np.clip(SAMPLES * 8.0, -6000, 6000).astype(np.int16)
    text = str(explain(NOTHING["few frames"], clipped, 16000))
    assert re.search(r"the audio has \d+ samples at its extremes; if the features are of unclipped audio", text), text


def test_answer_describes_the_preset() -> None:
    features = Frontend.from_preset("wespeaker")(SAMPLES)
    text = str(explain(features, SAMPLES, 16000))
    assert re.match(r"preset [\w-]+, that is fbank\(.*num_mel_bins=80.*\); ", text), text


def test_step_that_was_left_out_for_lack_of_statistics_is_not_named_as_a_cause() -> None:
    text = str(explain(Fbank(num_mel_bins=80, dither=0.0)(SAMPLES), SAMPLES, 16000))
    assert re.match(r"preset \w+, that is fbank\(dither=0.0, num_mel_bins=80\); without global_cmvn:", text), text


def test_audio_is_suggested_for_unrelated_arrays() -> None:
    noise = np.random.default_rng(0)
    assert "; pass the audio instead" in str(explain(noise.normal(size=(90, 20)), noise.normal(size=(90, 20))))
    with pytest.raises(FeatureError, match="or the audio"):
        explain(noise.normal(size=(90, 20)), noise.normal(size=(90, 13)))


CALLS: dict[str, tuple[FeatureModel, list[str], str]] = {
    "librosa's mel spectrogram": (
        FeatureModel("fbank", 22050.0, scale=1 / 32768).change(
            LIBRARY_MEL | {"frame_length": 92.9, "frame_shift": 23.22, "num_mel_bins": 128, "mel": "slaney",
                           "use_log_fbank": False, "padding": "constant"}), ["transposed"],
        "librosa.feature.melspectrogram(y=y, sr=22050, n_fft=2048, hop_length=512, n_mels=128)"),
    "torchaudio's mel spectrogram": (
        FeatureModel("fbank", scale=1 / 32768).change(
            LIBRARY_MEL | {"frame_shift": 12.5, "num_mel_bins": 128, "mel": "hertz", "use_log_fbank": False}),
        ["transposed"],
        "torchaudio.transforms.MelSpectrogram(16000, n_fft=400, hop_length=200, n_mels=128)(waveform)"),
    "Whisper": (
        FeatureModel("fbank", scale=1 / 32768).change(
            LIBRARY_MEL | DB_80 | {"num_mel_bins": 80, "mel": "slaney"}), ["transposed", WHISPER],
        "transformers.WhisperFeatureExtractor(feature_size=80)(y, sampling_rate=16000)"),
    "Kaldi": (FeatureModel("fbank"), [], ""),
    "an STFT with a step that no call has": (
        FeatureModel("spectrogram", scale=1 / 32768).change(STFT | {"bins": "power"}), ["transposed", "stored"], ""),
    "an STFT": (
        FeatureModel("spectrogram", scale=1 / 32768).change(STFT | {"bins": "magnitude", "frame_length": 32.0}),
        ["transposed"], "torchaudio.transforms.Spectrogram(n_fft=512, hop_length=160, power=1.0)(waveform)"),
    "librosa's triangles in Hz": (
        FeatureModel("fbank", scale=1 / 32768).change(
            LIBRARY_MEL | {"num_mel_bins": 40, "mel": "hertz", "use_log_fbank": False, "padding": "constant"}),
        ["transposed"],
        "librosa.feature.melspectrogram(y=y, sr=16000, n_fft=400, hop_length=160, n_mels=40, htk=True, norm=None)"),
    "librosa's cepstra": (
        FeatureModel("mfcc", scale=1 / 32768).change(
            LIBRARY_MEL | DB_80 | {"num_mel_bins": 128, "mel": "slaney", "use_energy": False, "cepstral_lifter": 0.0,
                                   "padding": "constant"}), ["transposed", DECIBELS],
        "librosa.feature.mfcc(y=y, sr=16000, n_mfcc=13, n_fft=400, hop_length=160, n_mels=128)"),
    "torchaudio's cepstra": (
        FeatureModel("mfcc", scale=1 / 32768).change(
            LIBRARY_MEL | DB_80 | {"num_mel_bins": 128, "mel": "hertz", "use_energy": False, "cepstral_lifter": 0.0}),
        ["transposed", DECIBELS],
        "torchaudio.transforms.MFCC(16000, n_mfcc=13, "
        "melkwargs={'n_fft': 400, 'hop_length': 160, 'n_mels': 128})(waveform)"),
    "filters below the Nyquist frequency": (
        FeatureModel("fbank", scale=1 / 32768).change(
            LIBRARY_MEL | {"num_mel_bins": 40, "mel": "hertz", "use_log_fbank": False, "high_freq": -400.0}),
        ["transposed"],
        "torchaudio.transforms.MelSpectrogram(16000, n_fft=400, hop_length=160, f_max=7600.0, n_mels=40)(waveform)"),
    "an STFT with a number added to the power": (
        FeatureModel("spectrogram", scale=1 / 32768).change(STFT | {"bins": "magnitude", "root": 1e-9}),
        ["transposed"], ""),
    "cepstra of magnitudes": (
        FeatureModel("mfcc", scale=1 / 32768).change(
            LIBRARY_MEL | DB_80 | {"num_mel_bins": 128, "mel": "hertz", "use_energy": False, "cepstral_lifter": 0.0,
                                   "magnitudes": True}), ["transposed", DECIBELS], ""),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_call_of_another_library_is_named(name: str) -> None:
    model, steps, call = CALLS[name]
    assert describe_library_call(model, 1 / 32768, steps) == call


@pytest.mark.parametrize("name", ["torchaudio's mel spectrogram", "torchaudio's cepstra", "an STFT"])
def test_call_computes_what_it_explains(name: str) -> None:
    torchaudio, torch = pytest.importorskip("torchaudio"), pytest.importorskip("torch")
    model, steps, call = CALLS[name]
    scale = 10 / np.log(10) if DECIBELS in steps else 1
    waveform = torch.tensor(SAMPLES.astype(np.float32) / 32768)
    array = eval(call, {"torchaudio": torchaudio, "waveform": waveform}).numpy()
    assert np.abs(scale * model.compute(SAMPLES.astype(np.float32)).T - array).max() < 1e-3 * max(
        1, np.abs(array).max()
    )
    found = explain(array, SAMPLES, 16000)
    assert found.call == call and f", the same as {call}: largest difference" in str(found), str(found)


@in_time
@pytest.mark.costly
@pytest.mark.parametrize("dither", [1.0, pytest.param(0.1, marks=pytest.mark.slow)])
def test_dithering_is_named_with_its_size(dither: float) -> None:
    features = Mfcc(dither=dither, use_energy=False)(SAMPLES, generator=KaldiRandom(7))
    found = explain(features - features.mean(0), SAMPLES, 16000)
    assert not found.is_exact
    assert found.verdict == "partly", str(found)
    words = str(found).partition("noise like dithering of about ")[2]
    assert 0.8 * dither < float(words.partition(";")[0]) < 1.2 * dither, str(found)


@in_time
@pytest.mark.costly
def test_dithering_of_digital_silence_is_named() -> None:
    """The search is led astray by it: a floor imitates the noise."""
    samples = io_ark.load(WAV.with_name("speech16k.wav")).samples[0]
    features = Fbank(num_mel_bins=80, dither=0.5)(samples, generator=KaldiRandom(7))
    found = explain(features, samples, 16000)
    words = str(found).partition("fbank(num_mel_bins=80); noise like dithering of about ")[2]
    assert 0.4 < float(words.partition(";")[0]) < 0.6, str(found)


@pytest.mark.slow
def test_other_noise_is_not_named_dithering() -> None:
    noise = np.random.default_rng(0).normal(size=MADE.shape)
    assert "dithering" not in str(explain(MADE + 0.1 * noise, SAMPLES, 16000))


RANDOM = np.random.default_rng(0)
NOTHING: dict[str, Any] = {
    "bits": RANDOM.integers(0, 2, (118, 80)), "a mask of speech": np.repeat(RANDOM.integers(0, 2, (118, 1)), 13, 1),
    "bits as floats": RANDOM.integers(0, 2, (118, 40)).astype(np.float32), "labels": RANDOM.integers(0, 9, (118, 13)),
    "posteriors": RANDOM.dirichlet(np.full(40, 0.05), 118), "tiny": 1e-5 * RANDOM.normal(size=(118, 80)),
    "huge": 1e9 * RANDOM.normal(size=(118, 80)), "equal": np.ones((118, 80)),
    "still": np.ones((118, 1)) * np.arange(80),
    "almost still": 5 + 1e-7 * RANDOM.normal(size=(118, 80)), "few frames": RANDOM.normal(size=(5, 80)),
    "integers": RANDOM.integers(-40, 40, (118, 80)), "walks": np.cumsum(RANDOM.normal(size=(118, 40)), 0),
    "sorted": np.sort(RANDOM.normal(size=(118, 40)), 0), "float16": RANDOM.normal(size=(118, 23)).astype(np.float16),
    "frames in another order": RANDOM.permutation(MADE), "too many columns": RANDOM.normal(size=(118, 3000)),
    "too many frames": RANDOM.normal(size=(700, 80)), "two columns": RANDOM.normal(size=(100, 2)),
    "constant but for a few": np.where(np.arange(80) % 3, 7.0, RANDOM.normal(size=(118, 80))),
}  # fmt: skip


SLOW_NOTHING = {"sorted", "frames in another order", "huge", "walks", "integers", "float16", "constant but for a few"}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", quick(NOTHING, *(NOTHING.keys() - SLOW_NOTHING)))
def test_what_has_nothing_to_do_with_the_audio_is_not_explained(name: str) -> None:
    found = explain(NOTHING[name], SAMPLES, 16000)
    assert found.verdict == "not explained", str(found)
    assert str(found).startswith("not explained"), str(found)


def test_array_of_few_distinct_values_is_called_so() -> None:
    assert "2 distinct values (0, 1), as masks" in str(explain(NOTHING["bits"], SAMPLES, 16000))
    assert "all values are 1" in str(explain(NOTHING["equal"], SAMPLES, 16000))
    assert "do not change in time" in str(explain(NOTHING["still"], SAMPLES, 16000))


def test_quiet_audio_is_judged_by_its_own_spread() -> None:
    """A fixed tolerance takes another window for the right one where all energies are tiny."""
    quiet = (SAMPLES / 32768 / 100).astype(np.float32)
    for window in ("hamming", "hanning", "povey"):
        features = Fbank(num_mel_bins=40, dither=0.0, use_log_fbank=False, window_type=window)(quiet)
        found = explain(features, quiet, 16000)
        assert found.is_exact and (window == "povey") == ("window_type" not in str(found)), str(found)
        assert window == "povey" or f"window_type='{window}'" in str(found)


def mels_of_synthesis(size: int, hop: int, low: float, high: float, floor: float, around: int, rate: int) -> Any:
    """Return logarithms of magnitudes on librosa's filters, as vocoders have them: (80, frames)."""
    padded = np.pad(SPEECH / 32768, around, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, size)[::hop]
    points = 1 << (size - 1).bit_length()
    spectrum = np.abs(np.fft.rfft(frames * window_of("hann-periodic", size), points))
    filters = compute_librosa_filters(80, points, float(rate), low, high).astype(np.float64)
    return np.log(np.maximum(spectrum @ filters, floor)).T


BROUGHT: dict[str, tuple[Callable[[], Any], int, tuple[str, ...]]] = {
    "a part of a recording": (lambda: MADE[37:90], 16000, ("37 frames left out at the start", "28 frames left out at")),
    "a part of the audio": (lambda: Fbank(num_mel_bins=80, dither=0.0)(SAMPLES[3333:15000]), 16000,
                            ("fbank(num_mel_bins=80); the audio from 0.208",)),
    "last frame missing": (lambda: MADE[:-1], 16000, ("1 frame left out at the end",)),
    "50 and 12.5 ms": (lambda: Fbank(num_mel_bins=80, dither=0.0, frame_length=50.0, frame_shift=12.5)(SAMPLES), 16000,
                       ("frame_shift=12.5", "frame_length=50.0")),
    "HiFi-GAN at 22.05 kHz": (lambda: mels_of_synthesis(1024, 256, 0, 8000, 1e-5, 384, 22050), 22050,
                              ("transposed", "use_power=False", "high_freq=8000", "as in HiFi-GAN", "Slaney")),
    "Tacotron 2 at 24 kHz": (lambda: mels_of_synthesis(1024, 256, 0, 8000, 1e-5, 512, 24000), 24000,
                             ("transposed", "use_power=False", "padding (reflect)", "high_freq=8000")),
    "SpeechT5": (lambda: mels_of_synthesis(1024, 256, 80, 7600, 1e-10, 512, 16000), 16000,
                 ("transposed", "low_freq=80", "high_freq=-400", "use_power=False", "padding (reflect)")),
    "masked frames": (lambda: np.where(np.isin(np.arange(118), (40, 41, 42))[:, None], 0, MADE), 16000,
                      ("frames 40 to 42 masked", "hamming")),
    "masked columns": (lambda: np.where(np.isin(np.arange(80), range(10, 15)), 0, MADE), 16000,
                       ("columns 10 to 14 masked", "hamming")),
    "a batch of one": (lambda: MADE.T[:, :, None], 16000, ("transposed", "hamming")),
}  # fmt: skip


@pytest.mark.costly
@pytest.mark.parametrize("name", BROUGHT)
def test_what_people_bring_is_found(name: str) -> None:
    make, rate, words = BROUGHT[name]
    found = explain(make(), SAMPLES, rate)
    assert found.is_exact, str(found)
    assert all(word in str(found) for word in words), str(found)


@in_time
def test_pasted_pitch_is_named_beside_the_filter_bank() -> None:
    track = np.asarray(track_pitch(SAMPLES.astype(np.float32), PitchOptions()), np.float32)
    pitch, _ = process_utterances(track, np.array([0, len(track)]), ProcessPitchOptions(), KaldiRandom())
    count = min(len(MADE), len(pitch))
    found = explain(np.hstack([MADE[:count], pitch[:count]]), SAMPLES, 16000)
    assert found.is_exact and "hamming" in str(found) and "pitch" in str(found), str(found)


@in_time
def test_unknown_columns_beside_known_ones_are_said_to_be_left() -> None:
    found = explain(np.hstack([MADE, RANDOM.normal(size=(len(MADE), 3))]), SAMPLES, 16000)
    assert found.verdict == "partly", str(found)
    assert str(found).startswith("partly explained: ") and "left: columns 80 to 82" in str(found)
    assert "hamming" in str(found)


@in_time
def test_unknown_columns_before_known_ones_are_said_to_be_left() -> None:
    """The search first assumes them behind the known columns."""
    found = explain(np.hstack([RANDOM.normal(size=(len(MADE), 3)), MADE]), SAMPLES, 16000)
    assert found.verdict == "partly", str(found)
    assert "left: columns 0 to 2" in str(found) and "hamming" in str(found), str(found)


def test_frames_too_many_are_said_to_be_left() -> None:
    found = explain(np.vstack([MADE, MADE[5:7] + 1]), SAMPLES, 16000)
    assert found.verdict == "partly" and "left: 2 frames too many at the end" in str(found), str(found)


@pytest.mark.slow
def test_channel_of_a_stereo_recording_is_named() -> None:
    stereo = np.stack((np.roll(SAMPLES, 5000)[::-1], SAMPLES))
    assert "channel 1" in str(explain(MADE, stereo, 16000))


def test_noise_is_not_explained() -> None:
    found = explain(np.random.default_rng(0).normal(size=MADE.shape), SAMPLES, 16000)
    assert not found.is_exact
    assert str(found).startswith("not explained: no feature of this audio was found")


CEPSTRA = Mfcc(dither=0.0)(SAMPLES)


@pytest.mark.parametrize("first, second, words", [
    (MADE, MADE, "equal"),
    (MADE + 20.7944, MADE, "plus 20.79 = 2 ln 32768 (samples on another scale)"),
    (MADE * 2.5, MADE, "times 2.5"),
    (MADE / np.log(10), MADE, "logarithms to base 10"),
    ((MADE - MADE.mean(0)) / MADE.std(0), MADE, "divided by the standard deviation of each column"),
    (MADE[2:], MADE, "2 frames left out at the start"),
    (MADE.T, MADE, "transposed"),
    (np.vstack((MADE, np.zeros((9, 80)))), MADE, "9 rows of padding at the end"),
    (np.vstack((MADE, np.zeros((5, 80)))), MADE, "5 rows of padding at the end"),
    (np.vstack((MADE, np.zeros((4, 80)))), MADE, "4 frames too many at the end"),
    (np.roll(MADE, 1, 1), MADE, "the last column first"),
    (np.roll(CEPSTRA, -1, 1), CEPSTRA, "the first column last"),
    (CEPSTRA[:, [3, 1, 2, 0]], CEPSTRA, "columns 3, 1, 2, 0"),
    (CEPSTRA[:, 2:9], CEPSTRA, "columns 2 to 8 only"),
    (CEPSTRA[:, 2:3], CEPSTRA, "column 2 only"),
    (MADE[::3], MADE, "one frame in 3"),
    (SEVEN, MADE, "7 frames stacked, every 6"),
    (MADE[:117], MADE[:117].reshape(-1, 240), "the other way round; 3 frames stacked, every 3"),
    (add_deltas(CEPSTRA), CEPSTRA, "deltas of 2 frames on each side appended, order 2"),
    (sliding_cmvn(MADE, SlidingCmvnOptions(cmn_window=100, center=True)), MADE, "in a window of 100 frames"),
    (subtract_truncated_mean(MADE, 20, 20), MADE, "in a window of 41 frames (sliding CMN, truncated at the edges)"),
    (MADE.astype(np.float16), MADE, "stored as float16"),
])  # fmt: skip
def test_two_arrays_are_mapped_to_each_other(first: Any, second: Any, words: str) -> None:
    found = explain(first, second)
    assert found.is_exact, str(found)
    assert words in str(found)


def test_frames_that_differ_are_named_and_drawn() -> None:
    pytest.importorskip("matplotlib").use("Agg")
    wrong = MADE.copy()
    wrong[[7, 30]] += 5
    found = explain(wrong, MADE)
    assert "not explained" in str(found) and "only in frames 7, 30" in str(found)
    assert "largest" in found.plot()[2].get_title()


def noisy_features(kind: Any) -> Any:
    """Return features with noise, for which the search uses up its budget."""
    features = kind(dither=0.0)(SAMPLES)
    return features + 0.3 * features.std(0) * np.random.default_rng(0).normal(size=features.shape)


@pytest.mark.parametrize("kind", [Fbank, Mfcc])
def test_answer_comes_in_time_on_a_slow_machine(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that goes on with each computation only."""
    now = [0.0]

    def timed(name: str, seconds: float) -> None:
        compute = getattr(FeatureModel, name)

        def computed(*arguments: Any) -> Any:
            now[0] += seconds
            return compute(*arguments)

        monkeypatch.setattr(FeatureModel, name, computed)

    features = noisy_features(kind)
    for name, seconds in (("compute", 0.04), ("compute_spectra", 0.02), ("finish_features", 0.004)):
        timed(name, seconds)
    monkeypatch.setattr("time.thread_time", lambda: now[0])
    found = explain(features, SAMPLES, 16000)
    assert not found.is_exact
    assert not found.in_time and "the search stopped after 5 s of processor time: try again" in str(found)
    assert 4 < now[0] <= 5


def test_work_ends_the_search_at_the_same_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock stands still, so that only the counted work can end the search."""
    monkeypatch.setattr("time.thread_time", lambda: 0.0)
    monkeypatch.setattr(work, "THRESHOLDS", dataclasses.replace(THRESHOLDS, seconds=1.5))
    budgets: list[work.Budget] = []
    use_budget = work.use_budget
    monkeypatch.setattr(work, "use_budget", lambda budget: (budgets.append(budget), use_budget(budget)))
    answers = {str(explain(noisy_features(Fbank), SAMPLES, 16000)) for _ in range(2)}
    assert len(answers) == 1 and "the search stopped at its limit of work" in answers.pop()
    assert len({budget.units for budget in budgets}) == 1
    assert 0.5e6 < budgets[0].units < 1.5 * THRESHOLDS.units_per_second


def make_search(array: Any) -> Search:
    """Return the search for features of SAMPLES whose frames are the rows of an array."""
    rows, columns = (np.ones(count, bool) for count in array.shape)
    sheet = Sheet([], array, arrangements.Arrangement("", slice(None)), rows, columns)
    return Search(sheet, work.Budget(len(SAMPLES) / 16000), 1 / 32768)


def make_candidate(kind: str, **options: Any) -> Candidate:
    """Return a candidate for features of SAMPLES."""
    return Candidate(kind, 16000, source=AudioSource("", 16000, lambda: SPEECH, len(SAMPLES))).change(options)


def test_offset_of_the_whole_recording_is_dropped_where_only_preemphasis_makes_a_difference() -> None:
    search = make_search(port(SPEECH, whole_preemphasis=True, bins=40))
    candidate = make_candidate("fbank", num_mel_bins=40, whole=("offset", "preemphasis"))
    assert search._simplify_candidate(candidate).whole == ("preemphasis",)


@pytest.mark.parametrize("taps", [(), (-0.5, 0.0, 0.5)])
def test_candidate_without_the_last_of_ordered_columns_cannot_be_compared(taps: tuple[float, ...]) -> None:
    search = make_search(np.random.default_rng(0).normal(size=(118, 13)))
    search.sheet = dataclasses.replace(search.sheet, arrangement=arrangements.Arrangement("", slice(None), taps=taps))
    ordered = make_candidate("mfcc", num_ceps=14, order=tuple(range(1, 14)))
    assert search.measure_cost(ordered) < THRESHOLDS.incomparable
    assert search.measure_cost(ordered.change({"num_ceps": 13})) == THRESHOLDS.incomparable


def test_usual_frame_length_is_preferred_to_a_periodic_window_of_one_sample_less() -> None:
    search = make_search(Fbank(num_mel_bins=40, dither=0.0, frame_length=20.0)(SAMPLES))
    candidate = make_candidate("fbank", num_mel_bins=40, frame_length=19.9375, window="periodic")
    simple = search._simplify_candidate(candidate)
    assert (simple.get("frame_length"), simple.window) == (20.0, "kaldi")


def test_rounding_explains_named_logarithms_before_levels_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Levels of a wide spectrogram would use up the budget, and rounding would not be tried after them."""
    monkeypatch.setattr(Settling, "_vary_levels", lambda self, candidate: pytest.fail("levels were tried"))
    candidate = make_candidate("spectrogram", bins="log", remove_dc_offset=False)
    accurate = candidate.change({"precise": True}).compute(SAMPLES.astype(np.float32)).astype(np.float64)
    array = 10 / np.log(10) * accurate
    settled = Settling(make_search(array), 1e-6).settle_candidate(candidate)
    assert settled is not None and settled.fit.name.startswith("decibels") and settled.candidate.precise


def test_places_are_not_named_if_rounding_explains_their_differences() -> None:
    candidate = make_candidate("fbank", num_mel_bins=40)
    array = candidate.compute(SAMPLES.astype(np.float32)).astype(np.float64)
    array[30, 7] += 5
    search = make_search(array)
    settled = fit_map(candidate, search.sheet, 1e-3)
    assert settled is not None
    assert find_places(settled, search.sheet, 1e-3).deviations.unexplained
    rounded = dataclasses.replace(settled, rounding="single precision in quiet bins")
    assert not find_places(rounded, search.sheet, 1e-3).deviations.unexplained


def test_zeros_after_the_audio_are_tried_before_rounding() -> None:
    """Features of audio that was extended with zeros have more frames."""
    stft = STFT | {"num_mel_bins": 40, "low_freq": 0.0, "padding": "constant", "window": "kaldi"}
    candidate = make_candidate("fbank", **stft)
    accurate = candidate.change({"precise": True, "source": append_zeros(candidate.source)})
    array = accurate.compute(accurate.source.samples).astype(np.float64)[: len(SAMPLES) // 160 + 2] / np.log(10)
    settled = Settling(make_search(array), 1e-6).settle_candidate(candidate)
    assert settled is not None and len(settled.target) == len(array), settled


def test_floor_is_found_where_few_energies_are_far_below_it() -> None:
    """The largest energy below the floor would be a wrong floor."""
    candidate = make_candidate("fbank", num_mel_bins=40)
    features = candidate.compute(SAMPLES.astype(np.float32)).astype(np.float64)
    third, fourth = np.sort(features, axis=None)[2:4]
    assert fourth - third > 0.02
    floor, largest = Settling(make_search(np.maximum(features, fourth - 1e-4)), 1e-3)._find_floor(candidate)
    assert floor == pytest.approx(fourth - 1e-4, abs=1e-3) and largest == features.max()


def test_rare_option_has_to_explain_as_much_beside_a_usual_option(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of the offset may leave 70% of the cost, a change of the frame length 95%."""
    search, candidate = make_search(MADE), make_candidate("fbank", num_mel_bins=80)
    changes = {"frame_length": 20.0, "offset": 8}
    for cost, is_accepted in (0.8, False), (0.6, True):
        monkeypatch.setattr(search, "get_cost", lambda other, cost=cost: cost if other.offset else 1.0)
        assert (search._apply_changes(candidate, [changes]) != candidate) == is_accepted


def test_number_added_to_powers_is_tried_with_a_known_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    """The magnitudes of HiFi-GAN have both."""
    monkeypatch.setattr(Settling, "_find_floor", lambda self, candidate: (np.log(1e-5), 10.0))
    settling = Settling(make_search(np.random.default_rng(0).normal(size=(118, 80))), 1e-3)
    magnitudes = make_candidate("fbank", num_mel_bins=80, use_power=False)
    assert (1e-5, 1e-9) in {(each.floor, each.root) for each in settling._vary_floors(magnitudes)}
    powers = make_candidate("fbank", num_mel_bins=80)
    assert {each.root for each in settling._vary_floors(powers)} == {0.0}


def test_other_rates_are_searched_only_where_they_explain_more_than_the_own_rate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A search at other rates would leave no time for options."""
    rates, improve_starts = set[float](), Search.improve_starts

    def record(self: Search, starts: list[Candidate]) -> list[Candidate]:
        rates.add(starts[0].rate)
        return improve_starts(self, starts)

    monkeypatch.setattr(Search, "improve_starts", record)
    made = port(AT_22050.astype(np.float64), 22050, whole_preemphasis=True, bins=24, high=11025.0, points=1024)
    found = explain(add_deltas(made, DeltaOptions(delta_order=1)), AT_22050, 22050)
    assert found.is_exact and "preemphasis of the whole" in str(found) and "deltas of 2" in str(found), str(found)
    assert rates == {22050}


@pytest.mark.parametrize(
    ("own", "other", "is_searched"),
    [(0.015, 0.008, True), (0.015, 0.013, False), (0.2, 0.1, False), (0.2, 0.06, True)],
)
def test_rate_at_which_few_options_are_wrong_needs_a_fifth_of_the_cost_only(
    own: float, other: float, is_searched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The early search at other rates otherwise asks for more than half of the cost."""
    other_source = SimpleNamespace(rate=16000)
    source = SimpleNamespace(rate=24000, sources_at_other_rates=[other_source])
    candidate: Any = SimpleNamespace(rate=24000, source=source, shift=240, first_sample=0, size=600)
    candidate.remove_noise = lambda: candidate
    starts = {24000: SimpleNamespace(cost=0.5), 16000: SimpleNamespace(cost=0.2)}
    search = Mock(sheet=SimpleNamespace(arrangement=arrangements.PLAIN), get_cost=lambda start: start.cost)
    search.list_starts = lambda source, timings: [starts[source.rate]]
    search.improve_starts = lambda starts: [SimpleNamespace(cost=other, rate=16000)]
    finder: Any = SimpleNamespace(
        starts=[SimpleNamespace(search=search, candidate=candidate, cost=own)], _get_lowest_cost=lambda: own,
        budget=SimpleNamespace(is_stage_over=lambda: False),
    )  # fmt: skip

    def stop(source: Any, rate: int) -> Any:
        raise InterruptedError

    monkeypatch.setattr("kaldi_explain.finder.list_resamplings", stop)
    with pytest.raises(InterruptedError) if is_searched else contextlib.nullcontext():
        assert not [*Finder._search_resampled(finder, THRESHOLDS.much_better)]


def test_wrong_input_is_an_error() -> None:
    with pytest.raises(FeatureError, match="NaN or infinity"):
        explain(np.full((5, 80), np.nan), SAMPLES, 16000)
    with pytest.raises(FeatureError, match=r"\(frames, dim\)"):
        explain(np.zeros(5), SAMPLES, 16000)
    with pytest.raises(AudioError, match=r"\(channels, T\)"):
        explain(MADE, np.zeros((2, 2, 2)), 16000)
    for audio, words in ((SAMPLES[:1], "has 1 sample at"), (np.stack((SAMPLES, SAMPLES), 1), "more than 32"),
                         (np.full(9000, np.nan), "NaN")):  # fmt: skip
        with pytest.raises(AudioError, match=words):
            explain(MADE, audio, 16000)
    for rate, tolerance in ((0, 1e-3), (float("nan"), 1e-3), (16000, float("nan"))):
        with pytest.raises(OptionError):
            explain(MADE, SAMPLES, rate, tolerance=tolerance)
    kilohertz: Any
    for kilohertz in (16, "16k", np.float32(44.1)):
        with pytest.raises(OptionError, match="is not a sampling rate in Hz: pass a number of at least 1000"):
            explain(MADE, SAMPLES, kilohertz)
    with_gradients: Any = pytest.importorskip("torch").zeros(9000, 2, requires_grad=True)
    with pytest.raises(FeatureError, match=r"Use tensor.detach\(\)"):
        explain(with_gradients, SAMPLES, 16000)
    with pytest.raises(AudioError, match=r"Use tensor.detach\(\)"):
        explain(MADE, with_gradients[:, 0], 16000)
    brain_floats = with_gradients.detach().bfloat16()  # Like a tensor on a GPU, torch refuses it by a TypeError.
    with pytest.raises(FeatureError, match="BFloat16"):
        explain(brain_floats, SAMPLES, 16000)
    with pytest.raises(AudioError, match="BFloat16"):
        explain(MADE, brain_floats[:, 0], 16000)


def test_recording_may_be_a_wave_object() -> None:
    wave = io_ark.load(WAV, kind="wave")
    assert "hamming" in str(explain(MADE, wave))
    narrow = wave._replace(sample_frequency=8000.0)
    assert str(explain(MADE, narrow, 16000)) == str(explain(MADE, wave))


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "a.npy", MADE)
    np.savetxt(tmp_path / "a.csv", MADE, delimiter=",")
    with io_ark.writer(f"ark,scp:{tmp_path}/a.ark,{tmp_path}/a.scp") as writer:
        writer["utt"] = MADE
    assert explain_main([str(tmp_path / "a.npy"), str(WAV)]) == 0
    assert "window_type='hamming'" in capsys.readouterr().out
    for name in ("a.csv", "a.ark:utt", "a.scp:utt"):
        assert explain_main([str(tmp_path / name), str(tmp_path / "a.npy")]) == 0
        assert "equal: " in capsys.readouterr().out
    np.save(tmp_path / "b.npy", np.random.default_rng(0).normal(size=MADE.shape))
    pytest.importorskip("matplotlib").use("Agg")
    assert explain_main([str(tmp_path / "b.npy"), str(tmp_path / "a.npy"), f"--plot={tmp_path}/b.png"]) == 1
    assert (tmp_path / "b.png").stat().st_size
    assert explain_main([str(tmp_path / "b.npy"), str(tmp_path / "a.npy"), f"--plot={tmp_path}/b.nonsense"]) == 255
    before = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "link.png").symlink_to("a.npy")
    assert explain_main([str(tmp_path / "b.npy"), str(tmp_path / "a.npy"), f"--plot={tmp_path}/link.png"]) == 255
    assert (tmp_path / "a.npy").read_bytes() == before
    assert explain_main([str(tmp_path / "b.npy"), str(tmp_path / "a.npy"), f"--plot={tmp_path}/no/b.png"]) == 255
    assert "no/b.png: No such file or directory" in capsys.readouterr().err
    assert explain_main([str(tmp_path / "a.ark:none"), str(WAV)]) == 255
    assert "has no entry none" in capsys.readouterr().err
    for recording in WAV, "A.WAV":
        assert explain_main([str(recording), str(tmp_path / "a.npy")]) == 255
        assert "is a recording: pass the features first, and the recording second" in capsys.readouterr().err
    assert explain_main([f"{tmp_path}/a.scp", str(WAV)]) == 255
    assert (
        f"a.scp is not a single matrix: if the file is a table, append a key, {tmp_path}/a.scp:KEY"
        in capsys.readouterr().err
    )
    assert explain_main([f"{tmp_path}/a.npy", f"{tmp_path}/a.scp"]) == 255
    assert "a.scp is not a single wave: if the file is a table, pass one of the wave files" in capsys.readouterr().err
    with io_ark.writer(f"ark,t:{tmp_path}/table.txt") as writer:
        writer["utt"] = MADE
    assert explain_main([f"{tmp_path}/table.txt", str(WAV)]) == 255
    assert f"if the file is a Kaldi table, append a key, {tmp_path}/table.txt:KEY" in capsys.readouterr().err
    assert explain_main([str(tmp_path / "missing.npy"), str(WAV)]) == 255
    assert "missing.npy: no such file" in capsys.readouterr().err
    assert explain_main(["--nonsense"]) == 2


def _header(shape: str) -> bytes:
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}".ljust(117).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize("name, content, words", [
    ("zip.npy", b"PK\x03\x04" + bytes(60), "as a .npy array"), ("empty.npy", b"", "as a .npy array"),
    ("text.npy", b"no array", "as a .npy array"), ("token.npy", _header("((("), "as a .npy array"),
    ("huge.npy", _header("(500000000000000, 1)"), "expected 4000000000000000 bytes after the header"),
    ("zip.npz", b"PK\x03\x04" + bytes(60), "as a .npz file"), ("bytes.txt", b"\xff\xfe1 2", "cannot read"),
])  # fmt: skip
def test_damaged_file_is_one_line(
    name: str, content: bytes, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(content)
    assert explain_main([str(tmp_path / name), str(WAV)]) == 255
    message = capsys.readouterr().err
    assert len(message.splitlines()) == 1 and name in message and words in message


def test_names_of_files_are_taken_in_python(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", MADE)
    np.savez(tmp_path / "a.npz", MADE)
    assert "hamming" in str(explain(tmp_path / "a.npy", WAV))
    assert "hamming" in str(explain(MADE, str(WAV)))
    assert str(explain(str(tmp_path / "a.npz"), str(tmp_path / "a.npy"))) == "equal: largest difference 0"
    np.savez(tmp_path / "b.npz", first=MADE, second=MADE)
    with pytest.raises(FeatureError, match=r"has no array 'features', and has 2 other arrays \(first, second\): save"):
        explain(tmp_path / "b.npz", WAV)
    np.savez(tmp_path / "pair.npz", samples=SAMPLES, features=MADE)  # A file of kaldi-compat frontend check.
    assert "hamming" in str(explain(tmp_path / "pair.npz", WAV))
    np.savez(tmp_path / "c.npz")
    with pytest.raises(FeatureError, match=r"has no array 'features': save"):
        explain(tmp_path / "c.npz", WAV)


@pytest.mark.parametrize("arguments", [(MADE, SAMPLES), (SAMPLES, MADE, 16000), (SAMPLES, MADE)])
def test_samples_in_place_of_features_are_refused_with_an_example(arguments: tuple[Any, ...]) -> None:
    with pytest.raises(FeatureError, match=r"write for example explain\(features, samples, 16000\)"):
        explain(*arguments)


def test_nested_lists_of_unequal_lengths_are_refused() -> None:
    with pytest.raises(FeatureError, match=r"cannot convert the features to an array \(frames, dim\) of numbers: "):
        explain([[1.0, 2.0], [3.0]], SAMPLES, 16000)
    with pytest.raises(AudioError, match=r"cannot convert the audio to an array .*: pass channels of the same length"):
        explain(MADE, [[1.0, 2.0], [3.0]], 16000)


def test_array_without_an_explanation_has_no_plot() -> None:
    found = explain(np.ones((20, 4)), SAMPLES, 16000)
    with pytest.raises(FeatureError, match="no features to plot, because the array is not explained: all values are 1"):
        found.plot()


def test_shift_longer_than_the_frame_cannot_be_padded() -> None:
    model = FeatureModel("fbank").change({"frame_length": 5.0, "padding": "reflect-shift", "mel": "slaney"})
    with pytest.raises(OptionError, match="a shift of 160 samples is longer than a frame of 80: use a shorter shift"):
        model.compute(SAMPLES.astype(np.float32))
    with pytest.raises(OptionError, match="padding='reflect' needs more than 64 samples: use longer audio"):
        model.change({"padding": "reflect"}).compute(SAMPLES[:60].astype(np.float32))


def test_columns_that_do_not_change_are_alike_only_among_themselves() -> None:
    still, moving = np.ones((4, 1)), np.arange(4.0)[:, None]
    found = [
        measure_distance(*pair)
        for pair in ((still, 2 * still), (still, moving), (moving, still), (moving, 3 - 2 * moving))
    ]
    assert found == [0, 1, 1, 0]


@in_time
@pytest.mark.parametrize("share", [0.01, 0.1, 0.3])
@pytest.mark.parametrize("feature", [Fbank(num_mel_bins=80, dither=0.0), Mfcc(dither=0.0)], ids=["fbank", "mfcc"])
def test_level_at_which_audio_was_clipped_is_found(feature: Any, share: float) -> None:
    level = round(float(np.quantile(np.abs(SPEECH), 1 - share)))
    found = explain(feature(np.clip(SAMPLES, -level, level)), SAMPLES, 16000)
    assert found.verdict == "explained" and f"samples clipped to {level}: largest difference" in str(found), str(found)


@in_time
def test_level_of_clipped_floats_is_found() -> None:
    floats = SPEECH.astype(np.float32)
    found = explain(FBANK(np.clip(floats, -1234.56, 1234.56)), floats, 16000)
    assert found.verdict == "explained" and "samples clipped to 1234.5" in str(found), str(found)


def test_features_of_unclipped_audio_are_not_explained_by_clipped_audio() -> None:
    level = int(np.quantile(np.abs(SPEECH), 0.9))
    found = explain(FBANK(SAMPLES), np.clip(SAMPLES, -level, level), 16000)
    assert found.verdict == "not explained"
    assert "samples at its extremes; if the features are of unclipped audio, nothing can match" in str(found)
