"""The audio that features may have been computed from: a channel, another sampling rate, swapped bytes."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat.errors import AudioError
from kaldi_compat.exact.arrays import Floats
from kaldi_compat.exact.resample import linear_resample

RATES = (16000, 8000, 22050, 24000, 44100, 48000, 11025, 32000)
MAX_CHANNELS = 32
ROUNDING = 1.2e-7  # of a sum of products in single precision
ZEROS = "zeros after it"
SPEEDS = (0.9, 1.1, 0.95, 1.05, 0.8, 1.2)


@dataclass(frozen=True, eq=False)
class Source:
    """Audio that features may have been computed from.

    Attributes:
        said: what was done to the recording, in words; an empty string if nothing was.
        rate: the sampling rate that it is taken to have, in Hz.
        make: returns the samples (T,).
        length: number of samples, or about.
        is_filtered: True for audio at another rate, whose samples have been rounded.
    """

    said: str
    rate: float
    make: Callable[[], npt.NDArray[Any]]
    length: float
    is_filtered: bool = False

    @functools.cached_property
    def samples(self) -> Floats:
        """The samples (T,)."""
        return np.asarray(self.make(), np.float32)

    @functools.cached_property
    def loudness(self) -> dict[float, str]:
        """Scales that make audio equally loud, with their names."""
        peak, deviation = float(np.abs(self.samples).max()), float(self.samples.std())
        return {1 / peak: "1 / the largest sample", 1 / deviation: "1 / the standard deviation"} if deviation else {}

    def rounded(self) -> Source:
        """Return this audio as if its samples had been rounded otherwise."""
        noise = np.random.default_rng(0).normal(1, ROUNDING, len(self.samples)) if self.is_filtered else 1.0
        return dataclasses.replace(self, make=lambda: self.samples * noise)

    def changed(
        self, said: str, make: Callable[[], Any], *, rate: float | None = None, length: float | None = None
    ) -> Source:
        """Return this audio with something else done to it as well."""
        words = "; ".join(each for each in (self.said, said) if each)
        is_filtered = isinstance(make, functools.partial) and make.func is _filtered
        return Source(words, rate or self.rate, make, length or self.length, is_filtered)

    @property
    def frames(self) -> float:
        """About the number of frames 10 ms apart."""
        return 100 * self.length / self.rate


def checked_audio(audio: npt.ArrayLike, rate: float) -> npt.NDArray[Any]:
    """Return a recording (channels, T) of numbers.

    Raises:
        AudioError: it has another shape, NaN, or is shorter than a frame.
    """
    recording = np.asarray(audio)
    if recording.ndim not in (1, 2) or recording.size == 0 or recording.dtype.kind not in "iuf":
        raise AudioError(f"audio must be numbers (T,) or (channels, T), not {recording.dtype} {recording.shape}")
    recording = np.atleast_2d(recording)
    if len(recording) > MAX_CHANNELS:
        raise AudioError(
            f"audio of shape {recording.shape} has too many channels: pass (channels, T), not (T, channels)"
        )
    if recording.shape[-1] < 0.025 * rate:
        raise AudioError(f"the audio has {recording.shape[-1]} samples, less than a frame of 25 ms")
    if not np.isfinite(recording).all():
        raise AudioError("the audio holds NaN or infinity")
    return recording


def channels_of(recording: npt.NDArray[Any], rate: float) -> list[Source]:
    """Return each channel of a recording, and their mean."""
    count, length = recording.shape
    if count == 1:
        return [Source("", rate, lambda: recording[0], length)]
    single = [Source(f"channel {n}", rate, functools.partial(recording.__getitem__, n), length) for n in range(count)]
    return [*single, Source("mean of the channels", rate, lambda: recording.mean(0), length)]


def relatives(source: Source, recording: npt.NDArray[Any], rows: int) -> list[Source]:
    """Return what mistakes make of a channel: all that may give an array of so many rows."""
    return [
        each for each in (*_resampled(source), *_mistaken(source, recording, rows)) if each.length >= each.rate / 40
    ]


def _resampled(source: Source) -> Iterator[Source]:
    have, length = int(source.rate), source.length
    for rate in RATES[:4]:
        if rate == have:
            continue
        lowest, times = min(have, rate), np.arange(int(length * rate / have)) * (have / rate)
        ways: dict[str, Callable[[], Any]] = {
            "as Kaldi and torchaudio do": functools.partial(_filtered, source, have, rate, 0.495 * lowest),
            "by a longer filter (librosa, soxr, sox)": functools.partial(
                _filtered, source, have, rate, 0.474 * lowest, 64
            ),
            "by leaving out samples": functools.partial(_thinned, source, have // rate),
            "by linear interpolation": functools.partial(_interpolated, source, times),
            "by a polyphase filter (scipy.signal.resample_poly)": functools.partial(_polyphase, source, have, rate),
            "by an FFT (scipy.signal.resample)": functools.partial(_by_fft, source, have, rate),
        }
        for said, make in ways.items():
            if have % rate == 0 or "leaving" not in said:
                yield source.changed(f"resampled to {rate} Hz {said}", make, rate=rate, length=length * rate / have)


def _filtered(source: Source, have: int, rate: int, cutoff: float, zeros: int = 6) -> Floats:
    return linear_resample(source.samples, have, rate, cutoff, zeros)


def _polyphase(source: Source, have: int, rate: int) -> Any:
    """Filter by a sinc of ten zeros in a Kaiser window of 5."""
    up, down = rate // math.gcd(have, rate), have // math.gcd(have, rate)
    half = 10 * max(up, down)
    taps = np.sinc(np.arange(-half, half + 1) / max(up, down)) * np.kaiser(2 * half + 1, 5.0)
    taps *= up / taps.sum()
    margin = half // up + 1
    padded = np.pad(source.samples.astype(np.float64), (margin, margin + down))
    found = np.empty(-(-len(source.samples) * up // down))
    for phase in range(min(up, len(found))):
        inputs = np.arange(-((half - phase * down) // up), (phase * down + half) // up + 1)
        windows = np.lib.stride_tricks.sliding_window_view(padded, len(inputs))[margin + inputs[0] :: down]
        outputs = found[phase::up]
        outputs[:] = windows[: len(outputs)] @ taps[phase * down - inputs * up + half]
    return found


def _by_fft(source: Source, have: int, rate: int) -> Any:
    count = len(source.samples) * rate // have
    return np.fft.irfft(np.fft.rfft(source.samples), count) * (rate / have)


def _thinned(source: Source, step: int) -> Floats:
    return source.samples[::step]


def _interpolated(source: Source, times: npt.NDArray[np.floating]) -> Any:
    return np.interp(times, np.arange(len(source.samples)), source.samples)


def _mistaken(source: Source, recording: npt.NDArray[Any], rows: int) -> Iterator[Source]:
    have, length, changed = int(source.rate), source.length, source.changed
    for rate in RATES:
        if rate != have:
            yield changed(f"taken as audio of {rate} Hz", lambda: source.samples, rate=rate)
    for speed in SPEEDS:
        other = round(have * speed)
        make = functools.partial(_filtered, source, other, have, 0.495 * min(have, other))
        yield changed(f"at {speed:g} times the speed", make, length=length / speed)
    if recording.dtype == np.int16:
        yield changed("the bytes of samples swapped", lambda: source.samples.astype(np.int16).byteswap())
    if len(recording) == 2:
        yield changed("the samples of both channels taken as one", lambda: recording.T.ravel(), length=2 * length)
    yield changed(ZEROS, lambda: np.append(source.samples, np.zeros(have // 10)))
    first = int((rows + 4) * have / 100)
    if first < length:
        yield changed(f"the first {rows / 100:g} s only", lambda: source.samples[:first], length=first)
