"""The filters of Kaldi's resampling: a windowed sinc at the times it is wanted at (src/feat/resample.cc).

NumPy alone, for the programs that do without torch.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


def windowed_sinc(times: Floats, cutoff: float, num_zeros: int) -> Floats:
    """Low-pass filter of this cutoff (Hz) at these times (s): a sinc under a Hanning window, zero beyond its width.

    ``num_zeros`` is how many zeros the sinc has on each side of the window. Sinc, window and their product are each
    rounded to float32, as in Kaldi.
    """
    x = times.astype(np.float64)
    window = np.where(np.abs(x) < num_zeros / (2 * cutoff), 0.5 * (1 + np.cos(2 * np.pi * cutoff / num_zeros * x)), 0)
    sinc = 2 * cutoff * np.sinc(2 * cutoff * x)
    return sinc.astype(np.float32) * window.astype(np.float32)


@functools.lru_cache(maxsize=32)
def period_filters(rate_in: int, rate_out: int, cutoff: float, num_zeros: int) -> tuple[int, Floats]:
    """The filters of one period of two sampling rates (Kaldi: LinearResample).

    Output sample ``i`` of a period stands at time ``i / rate_out``; its taps are input samples within the window.

    Returns:
        first: The first input sample that they reach back to, counted from the period's start: not positive.
        weights: ``(phases, taps)``, a row for each output sample of the period.
    """
    phases = rate_out // math.gcd(rate_in, rate_out)
    width = num_zeros / (2.0 * cutoff)
    centers = np.arange(phases) / rate_out
    first = math.ceil((centers[0] - width) * rate_in)
    last = math.floor((centers[-1] + width) * rate_in)
    times = (np.arange(first, last + 1) / rate_in - centers[:, None]).astype(np.float32)
    return first, windowed_sinc(times, cutoff, num_zeros) / np.float32(rate_in)


def num_resampled(num_samples: Any, rate_in: int, rate_out: int) -> Any:
    """How many samples at ``rate_out`` begin within ``num_samples`` at ``rate_in``: an integer, or an array of them.

    >>> num_resampled(16001, 16000, 8000)
    8001
    """
    return -(-num_samples * rate_out // rate_in)
