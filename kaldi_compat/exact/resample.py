"""Audio at another sampling rate, with the bits of Kaldi's src/feat/resample.cc (LinearResample, ResampleWaveform)."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kaldi_compat.errors import OptionError
from kaldi_compat.exact.sums import dot

__all__ = ["linear_resample", "resample_waveform"]

Floats = npt.NDArray[np.float32]
F32 = np.float32
PERIODS = 256  # computed at once, so that their taps stay in the cache


@dataclass(frozen=True, eq=False)
class Filters:
    """Filters of one period, after which both rates coincide again: output sample ``i`` has a filter of its own.

    Attributes:
        period: input samples in a period.
        first: the input sample that each filter begins at, counted from the period's start.
        weights: the filters, which may differ in length by one.
    """

    period: int
    first: tuple[int, ...]
    weights: tuple[Floats, ...]


@functools.lru_cache(maxsize=8)
def _filters(rate_in: int, rate_out: int, cutoff: float, num_zeros: int) -> Filters:
    common = math.gcd(rate_in, rate_out)
    width = num_zeros / (2.0 * cutoff)
    first, weights = [], []
    for i in range(rate_out // common):
        center = i / rate_out
        begin, end = math.ceil((center - width) * rate_in), math.floor((center + width) * rate_in) + 1
        taps = [_windowed_sinc(float(F32(j / rate_in - center)), cutoff, num_zeros) for j in range(begin, end)]
        first.append(begin)
        weights.append(np.array(taps, F32) / F32(rate_in))
    return Filters(rate_in // common, tuple(first), tuple(weights))


def _windowed_sinc(time: float, cutoff: float, num_zeros: int) -> np.float32:
    """Return the low-pass filter at a time in seconds: sinc, window and their product are each rounded to float32."""
    inside = abs(time) < num_zeros / (2.0 * cutoff)
    window = F32(0.5 * (1 + math.cos(2 * math.pi * cutoff / num_zeros * time)) if inside else 0.0)
    sinc: np.float32 = F32(math.sin(2 * math.pi * cutoff * time) / (math.pi * time) if time else 2 * cutoff)
    product: np.float32 = sinc * window
    return product


def linear_resample(
    samples: npt.NDArray[np.float32], rate_in: int, rate_out: int, cutoff: float, num_zeros: int
) -> Floats:
    """Return audio at another sampling rate (Kaldi: LinearResample, flushed).

    Args:
        samples: float32 of shape (T,); beyond its ends there is silence.
        rate_in: sampling rate in Hz.
        rate_out: the rate wanted, in Hz.
        cutoff: of the low-pass filter in Hz: at most half of either rate.
        num_zeros: width of the filter; more is sharper and slower.

    Returns:
        Float32 of shape (ceil(T * rate_out / rate_in),).

    Raises:
        OptionError: rates, cutoff or width that make no filter.

    >>> linear_resample(np.ones(16000, np.float32), 16000, 8000, 3960.0, 6).shape
    (8000,)
    """
    if not (rate_in > 0 and rate_out > 0 and num_zeros > 0 and 0 < 2 * cutoff <= min(rate_in, rate_out)):
        raise OptionError(
            f"cannot resample from {rate_in} to {rate_out} Hz with cutoff={cutoff:g} Hz and num_zeros={num_zeros}: all "
            "must be positive and the cutoff at most half of either rate"
        )
    filters = _filters(rate_in, rate_out, float(F32(cutoff)), num_zeros)
    phases, period, total = len(filters.first), filters.period, len(samples)
    count = -(-total * phases // period)
    out = np.empty(count, F32)
    for phase, (begin, weights) in enumerate(zip(filters.first, filters.weights, strict=True)):
        taps = len(weights)
        firsts = begin + period * np.arange(len(range(phase, count, phases)))
        part = np.empty(len(firsts), F32)
        is_inside = (firsts >= 0) & (firsts + taps <= total)
        inside = np.flatnonzero(is_inside)
        if len(inside):
            windows = np.lib.stride_tricks.sliding_window_view(samples, taps)[firsts[inside[0]] :: period]
            for start in range(0, len(inside), PERIODS):
                some = inside[start : start + PERIODS]
                part[some] = dot(windows[start : start + len(some)], weights)
        for edge in np.flatnonzero(~is_inside).tolist():
            part[edge] = _edge(samples, int(firsts[edge]), weights)
        out[phase::phases] = part
    return out


def _edge(samples: Floats, first: int, weights: Floats) -> np.float32:
    """Return a sample whose filter reaches past the ends, where Kaldi adds up in float32."""
    total: np.float32 = F32(0)
    for i in range(max(0, -first), min(len(weights), len(samples) - first)):
        total += weights[i] * samples[first + i]
    return total


def resample_waveform(samples: npt.NDArray[np.float32], rate_in: int, rate_out: int) -> Floats:
    """Return audio at another sampling rate, as Kaldi's programs compute it (ResampleWaveform).

    Args:
        samples: float32 of shape (T,).
        rate_in: sampling rate in Hz.
        rate_out: the rate wanted, in Hz.

    >>> resample_waveform(np.ones(16000, np.float32), 16000, 8000).shape
    (8000,)
    """
    return linear_resample(samples, rate_in, rate_out, float(F32(0.99 * 0.5 * min(rate_in, rate_out))), num_zeros=6)
