"""The audio that features may have been computed from: a channel, another sampling rate, swapped bytes."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat.errors import AudioError
from kaldi_compat.exact.arrays import Floats
from kaldi_compat.exact.resample import linear_resample

RATES = (16000, 8000, 22050, 24000, 44100, 48000, 11025, 32000)
MOST_RESAMPLED = 6  # of them that audio is resampled to
MAX_CHANNELS = 32
UNLIKE_FILTER = 1e-6  # share of the largest sample by which resamplers of one kind differ
ZEROS = "zeros after it"
SOXR = (0.957, 104.0, 15.0)  # cutoff, zeros and window of its quality "HQ", fitted to its output
SOXR_RATIO = 16  # largest numerator of the ratio of two rates between which soxr loses no gain
# Loss of gain, factor * (f / half of the lower rate) ** power, fitted to its output.
NO_LOSS, SOXR_DOWN, SOXR_UP = (0.0, 1.0), (0.00217, 8.0), (0.00425, 15.4)
SPEEDS = (0.9, 1.1, 0.95, 1.05, 0.8, 1.2)


@dataclass(frozen=True, eq=False)
class AudioSource:
    """Audio that features may have been computed from."""

    said: str  # what was done to the recording, in words; an empty string if nothing was
    rate: float  # the sampling rate that it is taken to have, in Hz
    make: Callable[[], npt.NDArray[Any]]  # returns the samples (T,)
    length: float  # number of samples, or about
    plain: AudioSource | None = None  # the audio without noise, if noise was added

    @functools.cached_property
    def samples(self) -> Floats:
        """The samples (T,)."""
        return np.asarray(self.make(), np.float32)

    @functools.cached_property
    def full_scale(self) -> float:
        """1 for samples in -1 to 1, 32768 for those of 16 bits."""
        return 32768.0 if np.abs(self.samples).max() > 2 else 1.0

    @functools.cached_property
    def loudness(self) -> dict[float, str]:
        """Scales that make audio equally loud, with their names."""
        peak, deviation = float(np.abs(self.samples).max()), float(self.samples.std())
        return {1 / peak: "1 / the largest sample", 1 / deviation: "1 / the standard deviation"} if deviation else {}

    @functools.cached_property
    def noisy(self) -> AudioSource:
        """This audio with noise of the size of Kaldi's dithering by default."""
        noise = np.random.default_rng(0).normal(0, self.full_scale / 32768, len(self.samples))
        return dataclasses.replace(self, make=lambda: self.samples + noise, plain=self)

    @functools.cached_property
    def at_other_rates(self) -> list[AudioSource]:
        """This audio at other usual rates, without what is above half of the lower one: near what resamplers give."""
        return [self.resample("", rate, _by_fft) for rate in RATES[:MOST_RESAMPLED] if rate != self.rate]

    @property
    def is_resampled(self) -> bool:
        """Return True if the recording has another sampling rate."""
        return "resampled" in self.said

    def with_other_rounding(self) -> AudioSource:
        """Return this audio as if its samples had been rounded otherwise, or resampled with a filter like it."""
        if not self.is_resampled:
            return self
        noise = np.random.default_rng(0).normal(0, UNLIKE_FILTER * np.abs(self.samples).max(), len(self.samples))
        return dataclasses.replace(self, make=lambda: self.samples + noise)

    def change(
        self, said: str, make: Callable[[], Any], *, rate: float | None = None, length: float | None = None
    ) -> AudioSource:
        """Return this audio with something else done to it as well."""
        words = "; ".join(each for each in (self.said, said) if each)
        return AudioSource(words, rate or self.rate, make, length or self.length)

    def resample(self, said: str, rate: int, resampler: Callable[..., Any], *arguments: Any) -> AudioSource:
        """Return this audio at another rate, by a function of the samples and both rates."""

        def make() -> Any:
            return resampler(self.samples, int(self.rate), rate, *arguments)

        return self.change(f"resampled to {rate} Hz{said}", make, rate=rate, length=self.length * rate / self.rate)


def check_audio(audio: npt.ArrayLike, rate: float) -> npt.NDArray[Any]:
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
    return source.change(said, lambda: source.samples[first:end], length=end - first)


def with_zeros(source: AudioSource) -> AudioSource:
    """Return audio with zeros after it, as in a padded batch."""
    more = int(source.rate / 4)
    return source.change(ZEROS, lambda: np.pad(source.samples, (0, more)), length=source.length + more)


def resamplings(source: AudioSource, rate: int) -> list[AudioSource]:
    """Return audio at another rate, as each resampler gives it."""
    is_plain = rate // math.gcd(int(source.rate), rate) <= SOXR_RATIO
    loss = NO_LOSS if is_plain else SOXR_DOWN if rate < source.rate else SOXR_UP
    ways: dict[str, tuple[Any, ...]] = {
        "as Kaldi and torchaudio do": (_filter, 0.495 * min(source.rate, rate)),
        "by soxr (librosa, sox)": (_window, *SOXR, loss),
        "by torchaudio with a Kaiser window": (_window, 0.99, 6 / 0.99, 14.769656),
        "by a polyphase filter (scipy.signal.resample_poly)": (_window, 1.0, 10, 5.0),
        "by an FFT (scipy.signal.resample)": (_by_fft,),
        "by linear interpolation": (_interpolate,),
    }
    return [source.resample(f" {said}", rate, *way) for said, way in ways.items()]


def _filter(samples: Floats, have: int, rate: int, cutoff: float) -> Floats:
    return linear_resample(samples, have, rate, cutoff, 6)


def _window(
    samples: Floats, have: int, rate: int, cutoff: float, zeros: float, beta: float, loss: tuple[float, float] = NO_LOSS
) -> Any:  # fmt: skip
    """Resample by a sinc in a Kaiser window, whose spectrum multiplies that of the audio, and fold what is above.

    The cutoff is a share of half of the lower rate, ``zeros`` half of the window in samples at the lower rate, ``loss``
    the factor and the power of what the gain loses.
    """
    most, lowest, divisor = max(have, rate), min(have, rate), math.gcd(have, rate)
    over = min(have * rate // divisor, 4 * most)
    times = np.arange(-int(zeros / lowest * over), int(zeros / lowest * over) + 1) / over
    impulse = np.sinc(cutoff * lowest * times)
    impulse *= np.i0(beta * np.sqrt(np.clip(1 - (times * lowest / zeros) ** 2, 0, 1)))
    grid = 1 << 18
    centered = np.zeros(grid)
    centered[np.round(times * over).astype(int)] = impulse / impulse.sum()
    response = np.fft.rfft(centered).real
    period = have // divisor
    points = -(-(len(samples) + int(2 * zeros / lowest * have) + 32) // period) * period
    spectrum = np.fft.fft(samples.astype(np.float64), points)
    count, top = points // period * (rate // divisor), int(min(1.5 * most, over / 2) * points / have)
    bins = np.arange(-top, top)
    gains = np.interp(np.abs(bins) * (have / points), np.arange(grid // 2 + 1) * (over / grid), response)
    gains *= 1 - loss[0] * np.minimum(np.abs(bins) * (2 * have / points / lowest), 1) ** loss[1]
    parts, at = spectrum[bins % points] * gains, bins % count
    folded = np.bincount(at, parts.real, count) + 1j * np.bincount(at, parts.imag, count)
    return np.fft.ifft(folded).real[: -(-len(samples) * rate // have)] * (rate / have)


def _by_fft(samples: Floats, have: int, rate: int) -> Any:
    return np.fft.irfft(np.fft.rfft(samples), len(samples) * rate // have) * (rate / have)


def _interpolate(samples: Floats, have: int, rate: int) -> Any:
    return np.interp(np.arange(len(samples) * rate // have) * (have / rate), np.arange(len(samples)), samples)


def with_mistakes(source: AudioSource, recording: npt.NDArray[Any]) -> list[AudioSource]:
    """Return what mistakes make of a recording: a wrong rate, another speed, swapped bytes, samples left out."""
    have, length, change = int(source.rate), source.length, source.change
    found = [
        change(f"taken as audio of {rate} Hz", lambda: source.samples, rate=rate) for rate in RATES if rate != have
    ]
    found += [
        source.resample(" by leaving out samples", rate, lambda samples, have, rate: samples[:: have // rate])
        for rate in RATES
        if rate < have and have % rate == 0
    ]
    for speed in SPEEDS:
        other = round(have * speed)
        make = functools.partial(lambda other: _filter(source.samples, other, have, 0.495 * min(have, other)), other)
        found.append(change(f"at {speed:g} times the speed", make, length=length / speed))
    if recording.dtype == np.int16:
        found.append(change("the bytes of samples swapped", lambda: source.samples.astype(np.int16).byteswap()))
    if len(recording) == 2:
        found.append(
            change("the samples of both channels taken as one", lambda: recording.T.ravel(), length=2 * length)
        )
    return found
