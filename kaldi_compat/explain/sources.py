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
SOXR = (0.957, 104.0, 15.0)  # cutoff, zeros and window of its quality "HQ", fitted to its output
SPEEDS = (0.9, 1.1, 0.95, 1.05, 0.8, 1.2)


@dataclass(frozen=True, eq=False)
class AudioSource:
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

    def rounded(self) -> AudioSource:
        """Return this audio as if its samples had been rounded otherwise."""
        noise = np.random.default_rng(0).normal(1, ROUNDING, len(self.samples)) if self.is_filtered else 1.0
        return dataclasses.replace(self, make=lambda: self.samples * noise)

    def changed(
        self, said: str, make: Callable[[], Any], *, rate: float | None = None, length: float | None = None
    ) -> AudioSource:
        """Return this audio with something else done to it as well."""
        words = "; ".join(each for each in (self.said, said) if each)
        is_filtered = isinstance(make, functools.partial) and make.func is _filtered
        return AudioSource(words, rate or self.rate, make, length or self.length, is_filtered)

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


def channels_of(recording: npt.NDArray[Any], rate: float) -> list[AudioSource]:
    """Return each channel of a recording, and their mean."""
    count, length = recording.shape
    if count == 1:
        return [AudioSource("", rate, lambda: recording[0], length)]
    single = [
        AudioSource(f"channel {n}", rate, functools.partial(recording.__getitem__, n), length) for n in range(count)
    ]
    return [*single, AudioSource("mean of the channels", rate, lambda: recording.mean(0), length)]


def part_of(source: AudioSource, first: int, length: int) -> AudioSource:
    """Return a part of audio, by its first sample and its length."""
    end = min(first + length, len(source.samples))
    said = f"the audio from {first / source.rate:.6g} s" + f" to {end / source.rate:.6g} s" * (end < source.length)
    return source.changed(said, lambda: source.samples[first:end], length=end - first)


def with_zeros(source: AudioSource) -> AudioSource:
    """Return audio with zeros after it, as in a padded batch."""
    more = int(source.rate / 4)
    return source.changed(ZEROS, lambda: np.pad(source.samples, (0, more)), length=source.length + more)


def of_other_rates(source: AudioSource) -> Iterator[AudioSource]:
    """Yield audio at other usual rates without anything above the lower one's half: near what each resampler gives."""
    for rate in RATES[:6]:
        if rate != source.rate:
            yield source.changed(
                f"resampled to {rate} Hz", functools.partial(_by_fft, source, int(source.rate), rate), rate=rate,
                length=source.length * rate / source.rate,
            )  # fmt: skip


def resamplings(source: AudioSource, rate: int) -> Iterator[AudioSource]:
    """Yield audio at another rate, as each resampler gives it."""
    have, half = int(source.rate), 0.5 * min(source.rate, rate)
    times = np.arange(int(source.length * rate / have)) * (have / rate)
    ways: dict[str, Callable[[], Any]] = {
        "as Kaldi and torchaudio do": functools.partial(_filtered, source, have, rate, 0.99 * half),
        "by soxr (librosa, sox)": functools.partial(_windowed, source, rate, *SOXR),
        "by torchaudio with a Kaiser window": functools.partial(_windowed, source, rate, 0.99, 6 / 0.99, 14.769656),
        "by a polyphase filter (scipy.signal.resample_poly)": functools.partial(_windowed, source, rate, 1.0, 10, 5.0),
        "by an FFT (scipy.signal.resample)": functools.partial(_by_fft, source, have, rate),
        "by linear interpolation": functools.partial(_interpolated, source, times),
    }
    for said, make in ways.items():
        yield source.changed(f"resampled to {rate} Hz {said}", make, rate=rate, length=source.length * rate / have)


def _filtered(source: AudioSource, have: int, rate: int, cutoff: float) -> Floats:
    return linear_resample(source.samples, have, rate, cutoff, 6)


def _windowed(source: AudioSource, rate: int, cutoff: float, zeros: float, beta: float) -> Any:
    """Resample by a sinc in a Kaiser window, whose spectrum multiplies that of the audio, and fold what is above.

    Args:
        source: the audio.
        rate: the other rate.
        cutoff: of the filter, as a share of half of the lower rate.
        zeros: half of the window, in samples at the lower rate.
        beta: of the window.
    """
    have = int(source.rate)
    most, lowest, period = max(have, rate), min(have, rate), have // math.gcd(have, rate)
    over = have * rate // math.gcd(have, rate)
    over = over if over <= 4 * most else 4 * most
    taps = int(zeros / lowest * over)
    times = np.arange(-taps, taps + 1) / over
    window = np.i0(beta * np.sqrt(np.clip(1 - (times * lowest / zeros) ** 2, 0, 1)))
    impulse = np.sinc(cutoff * lowest * times) * window
    grid = 1 << 18
    turned = np.exp(2j * np.pi * np.arange(grid // 2 + 1) * taps / grid)
    response = (np.fft.rfft(impulse / impulse.sum(), grid) * turned).real
    points = -(-(len(source.samples) + int(2 * zeros / lowest * have) + 32) // period) * period
    spectrum = np.fft.fft(source.samples.astype(np.float64), points)
    count = points // period * (rate // math.gcd(have, rate))
    bins = np.arange(-int(min(1.5 * most, over / 2) * points / have), int(min(1.5 * most, over / 2) * points / have))
    gains = np.interp(np.abs(bins) * (have / points), np.arange(grid // 2 + 1) * (over / grid), response)
    parts, at = spectrum[bins % points] * gains, bins % count
    folded = np.bincount(at, parts.real, count) + 1j * np.bincount(at, parts.imag, count)
    return np.fft.ifft(folded).real[: -(-len(source.samples) * rate // have)] * (rate / have)


def _by_fft(source: AudioSource, have: int, rate: int) -> Any:
    count = len(source.samples) * rate // have
    return np.fft.irfft(np.fft.rfft(source.samples), count) * (rate / have)


def _thinned(source: AudioSource, step: int) -> Floats:
    return source.samples[::step]


def _interpolated(source: AudioSource, times: npt.NDArray[np.floating]) -> Any:
    return np.interp(times, np.arange(len(source.samples)), source.samples)


def mistaken(source: AudioSource, recording: npt.NDArray[Any]) -> Iterator[AudioSource]:
    """Yield what mistakes make of a recording: a wrong rate, another speed, swapped bytes, zeros after it."""
    have, length, changed = int(source.rate), source.length, source.changed
    for rate in RATES:
        if rate != have:
            yield changed(f"taken as audio of {rate} Hz", lambda: source.samples, rate=rate)
        if rate < have and have % rate == 0:
            make = functools.partial(_thinned, source, have // rate)
            yield changed(
                f"resampled to {rate} Hz by leaving out samples", make, rate=rate, length=length * rate / have
            )
    for speed in SPEEDS:
        other = round(have * speed)
        filtered = functools.partial(_filtered, source, other, have, 0.495 * min(have, other))
        yield changed(f"at {speed:g} times the speed", filtered, length=length / speed)
    if recording.dtype == np.int16:
        yield changed("the bytes of samples swapped", lambda: source.samples.astype(np.int16).byteswap())
    if len(recording) == 2:
        yield changed("the samples of both channels taken as one", lambda: recording.T.ravel(), length=2 * length)
