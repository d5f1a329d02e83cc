"""Resampling with a windowed sinc, on NumPy arrays and torch tensors (Kaldi: src/feat/resample.cc).

Does not import torch, so that programs can use it.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat.functional.array_api import (
    Array,
    arange,
    as_like,
    astype,
    is_traced,
    namespace,
    sliding_windows,
    with_zeros,
)

__all__ = ["PeriodFilters", "num_resampled", "resampled", "windowed_sinc"]

Floats = npt.NDArray[np.float32]

_AT_ONCE = 8192  # samples computed at once, so that their taps stay in the cache


def windowed_sinc(times: Floats, cutoff: float, num_zeros: int) -> Floats:
    """Evaluate a low-pass filter: a sinc under a Hanning window, zero past its width.

    Sinc, window and their product are each rounded to float32, as in Kaldi.

    Args:
        times: float32, in seconds, of any shape.
        cutoff: in Hz.
        num_zeros: zero crossings of the sinc on each side of the window.

    Returns:
        float32, of the shape of ``times``.
    """
    x = times.astype(np.float64)
    window = np.where(np.abs(x) < num_zeros / (2 * cutoff), 0.5 * (1 + np.cos(2 * np.pi * cutoff / num_zeros * x)), 0)
    sinc = 2 * cutoff * np.sinc(2 * cutoff * x)
    return sinc.astype(np.float32) * window.astype(np.float32)


@dataclass(frozen=True)
class PeriodFilters:
    """Filters of one period of two sampling rates, after which their samples coincide again (Kaldi: LinearResample).

    Output sample ``i`` of a period is at time ``i / rate_out``; its taps are the input samples within the window.

    Attributes:
        period: number of input samples in a period.
        phases: number of output samples in a period, each with its own filter.
        first: first input sample of the first filter, relative to the start of the period: 0 or less.
        reach: number of input samples from there to the end of the last filter.
        starts: ``(phases,)``: first input sample of each filter, relative to ``first``.
        weights: ``(phases, taps)``: the filters; shorter ones end with a zero.
    """

    period: int
    phases: int
    first: int
    reach: int
    starts: Any
    weights: Any

    @classmethod
    @functools.lru_cache(maxsize=8)  # each has about 12 taps for each sample of the higher rate, at most
    def of(cls, rate_in: int, rate_out: int, cutoff: float, num_zeros: int) -> PeriodFilters:
        """Return the filters for these rates and cutoff in Hz; NumPy, float32."""
        common = math.gcd(rate_in, rate_out)
        width = num_zeros / (2.0 * cutoff)
        centers = np.arange(rate_out // common) / rate_out
        begin = np.ceil((centers - width) * rate_in).astype(np.int64)
        end = np.floor((centers + width) * rate_in).astype(np.int64) + 1
        taps = int((end - begin).max())
        times = ((begin[:, None] + np.arange(taps)) / rate_in - centers[:, None]).astype(np.float32)
        return cls(
            period=rate_in // common,
            phases=len(centers),
            first=int(begin[0]),
            reach=int(begin[-1] - begin[0]) + taps,
            starts=begin - begin[0],
            weights=windowed_sinc(times, cutoff, num_zeros) / np.float32(rate_in),
        )


def resampled(samples: Array, filters: PeriodFilters, products: Any) -> Array:
    """Audio at the other rate.

    Args:
        samples: floating point, ``(..., samples)``; beyond its ends there is silence.
        filters: of the two rates.
        products: type that products of samples and weights are rounded to; for NumPy's samples it is double. They are
            added up in double.

    Returns:
        ``(..., num_resampled(samples, ...))``, of the type of ``samples``.
    """
    count = num_resampled(samples.shape[-1], filters.period, filters.phases)
    periods = _ceil_divided(count, filters.phases)
    weights = astype(as_like(filters.weights, samples), products)
    # The last period starts within the audio: its filters reach no further past the end than this.
    padded = with_zeros(samples, -filters.first, max(0, filters.first + filters.reach))
    # A loop over blocks would make their number a constant of the traced model.
    step = periods if is_traced(samples) else max(1, _AT_ONCE // filters.phases)
    starts = [0] if is_traced(samples) else range(0, max(periods, 1), step)
    blocks = []
    for start in starts:
        part = padded[..., start * filters.period : (start + step - 1) * filters.period + filters.reach]
        blocks.append(astype(_weighted(_taps(astype(part, products), filters), weights), samples.dtype))
    whole: Array = namespace(samples).concatenate(blocks, -2)
    return whole.reshape(*samples.shape[:-1], -1)[..., :count]


def _taps(samples: Array, filters: PeriodFilters) -> Array:
    """Return the inputs of each filter in each whole period: ``(..., samples)`` -> ``(..., periods, phases, taps)``."""
    taps = filters.weights.shape[-1]
    if filters.phases == 1:
        return sliding_windows(samples, taps, filters.period)[..., None, :]
    periods = (samples.shape[-1] - filters.reach) // filters.period + 1
    begin = filters.period * arange(0, periods, samples)[:, None] + as_like(filters.starts, samples)
    windows = sliding_windows(samples, taps, 1)
    found: Array
    if isinstance(windows, np.ndarray):
        found = windows[..., begin, :]
    else:  # copies whole rows, which indexing does not
        found = windows.index_select(-2, begin.flatten()).reshape(*samples.shape[:-1], -1, filters.phases, taps)
    return found


def _weighted(taps: Array, weights: Array) -> Array:
    """Return weighted sums, in double: ``(..., phases, taps)`` and ``(phases, taps)`` -> ``(..., phases)``."""
    summed: Array
    if isinstance(taps, np.ndarray):
        summed = np.einsum("...pt,pt->...p", taps, weights)
    else:
        summed = (taps * weights).sum(-1, dtype=namespace(taps).float64)
    return summed


def num_resampled(num_samples: Any, rate_in: int, rate_out: int) -> Any:
    """Return the number of samples at ``rate_out`` that begin within ``num_samples`` (int or array) at ``rate_in``.

    >>> num_resampled(16001, 16000, 8000)
    8001
    """
    return _ceil_divided(num_samples * rate_out, rate_in)


def _ceil_divided(count: Any, by: int) -> Any:
    return (count + by - 1) // by  # of positive numbers: ONNX rounds the quotients of negative ones up
