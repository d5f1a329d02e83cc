"""Audio from which features may have been computed: channels, other rates, clipped samples, swapped bytes."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat.errors import AudioError
from kaldi_compat.exact.arrays import Floats
from kaldi_explain.other_libraries import Resampler, list_resamplers, resample_as_kaldi, resample_by_fft
from kaldi_explain.thresholds import THRESHOLDS

RATES = (16000, 8000, 22050, 24000, 44100, 48000, 11025, 32000)  # Usual sampling rates in Hz, the most common first.
COMMON_RATE_COUNT = 6  # Number of RATES to which all audio is resampled. Rarer rates would take too long.
SPEEDS = (0.9, 1.1, 0.95, 1.05, 0.8, 1.2)  # Usual factors of speed perturbation.
GAINS = (1, 2, 4, 8, 10)  # Factors by which samples may have been multiplied before they were clipped to 16 bits.
ZEROS = "zeros after it"  # Description of the step of `append_zeros`.
CLIP_RUN = 3  # Smallest number of successive extreme samples that count as clipped. Shorter runs may be plain peaks.
# Smallest ratio of a peak to the limit of 16-bit samples for which clipping is tried. Clipping smaller peaks changes
# the features too little.
MIN_CLIPPED_PEAK = 1.001


@dataclass(frozen=True, eq=False)
class AudioSource:
    """Audio from which features may have been computed: a recording, and steps that change its samples.

    Attributes:
        words: description of the steps. "" if there are none.
        rate: the sampling rate in Hz that a front end assumes.
        make: function that returns the samples (T,).
        length: number of samples. After resampling or a change of speed, it is an estimate.
        plain: the audio without noise if noise was added, or else None.
        is_resampled: True if the recording was resampled to a different sampling rate.
    """

    words: str
    rate: float
    make: Callable[[], npt.NDArray[Any]]
    length: float
    plain: AudioSource | None = None
    is_resampled: bool = False

    @functools.cached_property
    def samples(self) -> Floats:
        """Samples (T,) in single precision."""
        return np.asarray(self.make(), np.float32)

    @functools.cached_property
    def full_scale(self) -> float:
        """Full scale of the samples: 32768 if the magnitude of a sample exceeds 2, as in 16-bit audio, or else 1."""
        return 32768.0 if np.abs(self.samples).max() > 2 else 1.0

    @functools.cached_property
    def loudness_factors(self) -> dict[float, str]:
        """Factors that normalize the loudness, mapped to their descriptions. {} if all samples are equal."""
        peak, deviation = float(np.abs(self.samples).max()), float(self.samples.std())
        return {1 / peak: "1 / the largest sample", 1 / deviation: "1 / the standard deviation"} if deviation else {}

    @functools.cached_property
    def noisy_source(self) -> AudioSource:
        """This audio with the Gaussian noise of Kaldi's default dithering: a standard deviation of one 16-bit step."""
        noise = np.random.default_rng(0).normal(0, self.full_scale / 32768, len(self.samples))
        return dataclasses.replace(self, make=lambda: self.samples + noise, plain=self)

    @functools.cached_property
    def sources_at_other_rates(self) -> list[AudioSource]:
        """This audio resampled by the FFT to the other common sampling rates. Other resamplers differ little."""
        return [self.resample("", rate, resample_by_fft) for rate in RATES[:COMMON_RATE_COUNT] if rate != self.rate]

    def add_rounding_noise(self) -> AudioSource:
        """Return this audio, with Gaussian noise like the differences between similar resamplers if it was resampled.

        The standard deviation of the noise is a millionth of the largest magnitude of a sample.
        """
        if not self.is_resampled:
            return self
        noise = np.random.default_rng(0).normal(0, 1e-6 * np.abs(self.samples).max(), len(self.samples))
        return dataclasses.replace(self, make=lambda: self.samples + noise)

    def change(
        self, words: str, make: Callable[[], Any], *, rate: float | None = None, length: float | None = None
    ) -> AudioSource:
        """Return this audio after one more step, which ``words`` describe. ``make`` returns the changed samples (T,).

        ``rate`` in Hz and ``length`` in samples replace the old values, unless they are None. :attr:`plain` is dropped.
        """
        all_words = "; ".join(filter(None, (self.words, words)))
        return AudioSource(all_words, rate or self.rate, make, length or self.length, is_resampled=self.is_resampled)

    def resample(self, words: str, rate: int, resampler: Resampler) -> AudioSource:
        """Return this audio after resampling to ``rate`` in Hz by the function ``resampler``.

        ``words`` are appended to the description of this step: "", or a space and the name of the resampler.
        """

        def make() -> Any:
            return resampler(self.samples, int(self.rate), rate)

        length = self.length * rate / self.rate
        changed = self.change(f"resampled to {rate} Hz{words}", make, rate=rate, length=length)
        return dataclasses.replace(changed, is_resampled=True)


def check_audio(audio: npt.ArrayLike, rate: float) -> npt.NDArray[Any]:
    """Check audio (T,) or (channels, T) with the sampling rate ``rate`` in Hz, and return it as (channels, T).

    Raises:
        AudioError: the audio is not an array of integers or floats of these shapes, is empty, contains NaN or infinity,
            has more than 32 channels, or is shorter than 25 ms.
    """
    try:
        recording = np.asarray(audio)
    # NumPy cannot convert nested lists of unequal lengths, nor tensors with gradients, of bfloat16 or on a GPU.
    except (ValueError, RuntimeError, TypeError) as error:
        raise AudioError(
            "cannot convert the audio to an array (T,) or (channels, T) of numbers: pass channels of the same length "
            f"({error})"
        ) from None
    if recording.ndim not in (1, 2) or recording.size == 0 or recording.dtype.kind not in "iuf":
        shown = f"{recording.dtype} of shape {recording.shape}"
        raise AudioError(f"audio must be a nonempty array (T,) or (channels, T) of numbers, not {shown}")
    recording = np.atleast_2d(recording)
    if len(recording) > THRESHOLDS.channels:
        raise AudioError(
            f"audio of shape {recording.shape} has more than {THRESHOLDS.channels} channels: pass an array "
            "(channels, T), not (T, channels)"
        )
    if (sample_count := recording.shape[-1]) < 0.025 * rate:
        raise AudioError(
            f"the audio has {sample_count} sample{'s' * (sample_count > 1)} at {rate:g} Hz, which is less than a frame "
            "of 25 ms: pass longer audio, or correct the sampling rate"
        )
    if not np.isfinite(recording).all():
        raise AudioError("the audio holds NaN or infinity: pass finite samples")
    return recording


def count_clipped_samples(recording: npt.NDArray[Any]) -> int:
    """Return the number of samples of a recording (channels, T) that are probably clipped.

    These are the samples in runs of at least ``CLIP_RUN`` samples that all equal the largest sample of their channel,
    or that all equal the smallest. Channels whose samples are all equal are not counted.
    """
    count = 0
    for channel in recording[recording.max(-1) > recording.min(-1)]:
        for extreme in (channel.max(), channel.min()):
            # A run of extreme samples begins at a step of 1 and ends at a step of -1.
            steps = np.diff((channel == extreme).astype(np.int8), prepend=0, append=0)
            run_lengths = np.flatnonzero(steps == -1) - np.flatnonzero(steps == 1)
            count += int(run_lengths[run_lengths >= CLIP_RUN].sum())
    return count


def split_channels(recording: npt.NDArray[Any], rate: float) -> list[AudioSource]:
    """Return the channels of a recording (channels, T) at ``rate`` Hz. If there are several, their mean follows."""
    channel_count, length = recording.shape
    if channel_count == 1:
        return [AudioSource("", rate, lambda: recording[0], length)]
    channels = [AudioSource(f"channel {index}", rate, functools.partial(recording.__getitem__, index), length)
                for index in range(channel_count)]  # fmt: skip
    return [*channels, AudioSource("mean of the channels", rate, lambda: recording.mean(0), length)]


def cut_part(source: AudioSource, first: int, length: int) -> AudioSource:
    """Return the ``length`` samples of ``source`` from sample ``first`` on, or fewer if the audio ends earlier."""
    end = min(first + length, len(source.samples))
    words = f"the audio from {first / source.rate:.6g} s" + f" to {end / source.rate:.6g} s" * (end < source.length)
    return source.change(words, lambda: source.samples[first:end], length=end - first)


def append_zeros(source: AudioSource) -> AudioSource:
    """Return audio followed by a quarter of a second of zeros, as in a padded batch."""
    count = int(source.rate / 4)
    return source.change(ZEROS, lambda: np.pad(source.samples, (0, count)), length=source.length + count)


def list_resamplings(source: AudioSource, rate: int) -> list[AudioSource]:
    """Return ``source`` after resampling to ``rate`` in Hz, once for each resampler of :func:`list_resamplers`."""
    resamplers = list_resamplers(int(source.rate), rate)
    return [source.resample(f" {words}", rate, resampler) for words, resampler in resamplers.items()]


def list_mistakes(source: AudioSource, recording: npt.NDArray[Any]) -> list[AudioSource]:
    """Return ``source`` as it would be after each common mistake in reading ``recording`` (channels, T).

    ``source`` is a channel of the recording, or the mean of its channels. The mistakes are a wrong sampling rate,
    downsampling without a filter, a wrong speed, swapped bytes of 16-bit samples, and two channels read as one.
    """
    rate, length, change = int(source.rate), source.length, source.change
    mistakes = [change(f"taken as audio of {other} Hz", lambda: source.samples, rate=other)
                for other in RATES if other != rate]  # fmt: skip
    mistakes += [source.resample(" by leaving out samples", other, lambda samples, old, new: samples[:: old // new])
                 for other in RATES if other < rate and rate % other == 0]  # fmt: skip
    for speed in SPEEDS:
        change_speed = functools.partial(_change_speed, source, speed)
        mistakes.append(change(f"at {speed:g} times the speed", change_speed, length=length / speed))
    if recording.dtype == np.int16:
        mistakes.append(change("the bytes of samples swapped", lambda: source.samples.astype(np.int16).byteswap()))
    if len(recording) == 2:
        words = "the samples of both channels taken as one"
        mistakes.append(change(words, lambda: recording.T.ravel(), length=2 * length))
    return mistakes


def _change_speed(source: AudioSource, speed: float) -> Floats:
    return resample_as_kaldi(source.samples, rate=round(int(source.rate) * speed), new_rate=int(source.rate))


def limit_source(source: AudioSource, level: float) -> AudioSource:
    """Return ``source`` with samples clipped to the range from ``-level`` to ``level``."""
    return source.change(f"samples clipped to {level:.6g}", lambda: np.clip(source.samples, -level, level))


def list_clippings(source: AudioSource) -> list[AudioSource]:
    """Return ``source`` multiplied by a factor and clipped to 16 bits, for each of ``GAINS`` that causes clipping."""
    peak, full_scale = float(np.abs(source.samples).max()), source.full_scale

    def clip(gain: float) -> Any:
        return np.clip(gain * source.samples, -full_scale, full_scale * 32767 / 32768)

    return [
        source.change(f"samples{f' times {gain} and' * (gain > 1)} clipped to 16 bits", functools.partial(clip, gain))
        for gain in GAINS
        if gain * peak > MIN_CLIPPED_PEAK * full_scale
    ]
