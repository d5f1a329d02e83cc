"""Numbers and tables of the pitch tracker, computed once from the options.

The steps of the tracker use them instead of the options, so that compilers only see arithmetic on arrays.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat.functional.sinc import PeriodFilters, windowed_sinc
from kaldi_compat.options.base import as_float32
from kaldi_compat.options.pitch import PitchOptions

__all__ = ["Lags", "PitchConstants"]

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Lags:
    """The lags at which audio is compared with itself.

    Attributes:
        first, last: whole lags in resampled samples at which correlations are measured.
        seconds: ``(states,)``: the lags that are the states of the search, evenly spaced in log pitch, from the
            shortest.
        weights: ``(last - first + 1, states)``: interpolates from the former to the latter (Kaldi: ArbitraryResample).
        inside: of the same shape: which of the weights Kaldi's filters have; the others are zero.
    """

    first: int
    last: int
    seconds: Floats
    weights: Floats
    inside: npt.NDArray[np.bool_]

    @classmethod
    @functools.lru_cache(maxsize=16)
    def of(cls, options: PitchOptions) -> Lags:
        """Return the lags for these options, rounded to float32 where Kaldi rounds, which decides their number."""
        rate = as_float32(options.resample_frequency)
        max_f0, min_f0 = as_float32(options.max_f0), as_float32(options.min_f0)
        margin = options.upsample_filter_width / (2.0 * rate)
        first = math.ceil(rate * (1.0 / max_f0 - margin))
        last = math.floor(rate * (1.0 / min_f0 + margin))

        lags = []
        lag, longest = np.float32(1.0 / max_f0), np.float32(1.0 / min_f0)
        ratio = 1.0 + as_float32(options.delta_pitch)
        while lag <= longest:
            lags.append(lag)
            lag = np.float32(float(lag) * ratio)
        seconds = np.array(lags, np.float32)

        samples = np.arange(last - first + 1, dtype=np.float32)[:, None]
        offset = seconds + np.float32(-first) / np.float32(rate)
        cutoff = as_float32(rate * 0.5)
        width = np.float32(options.upsample_filter_width / (2.0 * cutoff))
        inside = samples >= np.ceil(np.float32(rate) * (offset - width))
        inside &= samples <= np.floor(np.float32(rate) * (offset + width))
        sinc = windowed_sinc(offset - samples / np.float32(rate), cutoff, options.upsample_filter_width)
        return cls(first, last, seconds, np.where(inside, sinc / np.float32(rate), np.float32(0)), inside)


@dataclass(frozen=True)
class PitchConstants:
    """Numbers and tables of the pitch tracker. The tables are NumPy arrays or tensors, as the audio is.

    Attributes:
        rate_in, rate_out: sampling rates in Hz of the audio and of the resampled audio that pitch is tracked in.
        lowpass: the filters that resample from one to the other.
        settling: how much longer an output sample waits for its filter's end, in ticks of both rates' least common
            multiple.
        chunk: samples per chunk of audio; 0 for all at once.
        window: resampled samples that are correlated.
        span: resampled samples that a frame needs: its window and the longest lag.
        shift: resampled samples from one frame's start to the next one's.
        start: the resampled sample that the first frame starts at; negative where frames are centred.
        snip_edges: True if frames lie wholly in the audio.
        preemphasis: how much of the previous sample is subtracted.
        ballast: factor on the square of a window's energy.
        ballast_online: True to compute that energy from the audio up to each frame's end.
        recompute_frame: see :class:`~kaldi_compat.pitch.schedule.Schedule`.
        first_lag, last_lag: whole lags in resampled samples at which correlations are measured.
        step: cost of a step of one state; a step of ``n`` states costs ``n**2`` times that.
        band: ``(last_lag - first_lag + window, lags)``: ones where a sample is in the window at a lag.
        weights: ``(lags, states)``: interpolates correlations to the lags that are the states.
        discount: ``(states,)``: reduction of the correlation at longer lags.
        pitch: ``(states,)`` in Hz.
    """

    rate_in: int
    rate_out: int
    lowpass: PeriodFilters
    settling: int
    chunk: int
    window: int
    span: int
    shift: int
    start: int
    snip_edges: bool
    preemphasis: float
    ballast: float
    ballast_online: bool
    recompute_frame: int
    first_lag: int
    last_lag: int
    step: float
    band: Any
    weights: Any
    discount: Any
    pitch: Any

    @property
    def states(self) -> int:
        """Number of pitches that the search chooses from."""
        return len(self.pitch)

    @classmethod
    @functools.lru_cache(maxsize=16)
    def of(cls, options: PitchOptions) -> PitchConstants:
        """Return the constants for these options, in NumPy, rounded to float32 where Kaldi rounds."""
        rate_in, rate_out = int(options.sample_frequency), int(options.resample_frequency)
        cutoff = as_float32(options.lowpass_cutoff)
        width = np.float32(options.lowpass_filter_width / (2.0 * cutoff))
        lags = Lags.of(options)
        window, shift = options.window_size, options.window_shift
        span = window + lags.last
        reach, count = lags.last - lags.first + window, lags.last - lags.first + 1
        log_ratio = np.float32(np.log(1.0 + as_float32(options.delta_pitch)) ** 2)
        return cls(
            rate_in=rate_in,
            rate_out=rate_out,
            lowpass=PeriodFilters.of(rate_in, rate_out, cutoff, options.lowpass_filter_width),
            settling=math.floor(width * np.float32(math.lcm(rate_in, rate_out))),
            chunk=_samples_per_chunk(options),
            window=window,
            span=span,
            shift=shift,
            start=0 if options.snip_edges else shift // 2 - span // 2,
            snip_edges=options.snip_edges,
            preemphasis=as_float32(options.preemphasis_coefficient),
            ballast=as_float32(options.nccf_ballast),
            ballast_online=options.nccf_ballast_online,
            recompute_frame=options.recompute_frame,
            first_lag=lags.first,
            last_lag=lags.last,
            step=float(log_ratio * np.float32(options.penalty_factor)),
            band=np.tri(reach, count, dtype=np.float32) - np.tri(reach, count, -window, dtype=np.float32),
            weights=lags.weights,
            discount=np.float32(options.soft_min_f0) * lags.seconds,
            pitch=(1.0 / lags.seconds.astype(np.float64)).astype(np.float32),
        )


def _samples_per_chunk(options: PitchOptions) -> int:
    if options.frames_per_chunk == 0:
        return 0
    samples = np.float32(options.frames_per_chunk) * np.float32(options.sample_frequency)
    return max(1, int(samples * np.float32(options.frame_shift) / np.float32(1000)))
