"""Another sampling rate, by Kaldi's windowed sinc: src/feat/resample.cc (LinearResample, ResampleWaveform)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from kaldi_compat.errors import AudioError, OptionError
from kaldi_compat.functional.sinc import PeriodFilters, resampled

__all__ = ["linear_resample", "resample_waveform"]


def linear_resample(samples: Tensor, rate_in: int, rate_out: int, cutoff: float, num_zeros: int) -> Tensor:
    """Audio at another sampling rate (Kaldi: LinearResample, flushed).

    Args:
        samples: floating point, shape (..., T); beyond its ends there is silence.
        rate_in, rate_out: sampling rates in Hz.
        cutoff: of the low-pass filter in Hz: at most half of either rate.
        num_zeros: width of the filter; more is sharper and slower.

    Returns:
        Shape (..., num_resampled(T, rate_in, rate_out)), of the type of ``samples``.

    Raises:
        OptionError: rates, cutoff or width that make no filter.
    """
    if not (rate_in > 0 and rate_out > 0 and num_zeros > 0 and 0 < 2 * cutoff <= min(rate_in, rate_out)):
        raise OptionError(
            f"cannot resample from {rate_in} to {rate_out} Hz with cutoff={cutoff:g} Hz and num_zeros={num_zeros}: all "
            "must be positive and the cutoff at most half of either rate"
        )
    # As the dot products of OpenBLAS do for so few taps: products rounded to float32, and added up in double.
    return resampled(samples, PeriodFilters.of(rate_in, rate_out, cutoff, num_zeros), samples.dtype)


def resample_waveform(samples: Tensor, rate_in: float, rate_out: float) -> Tensor:
    """Audio at another sampling rate, as Kaldi's programs do it (ResampleWaveform).

    Args:
        samples: shape (..., T); integers are taken as float32.
        rate_in, rate_out: sampling rates in Hz, which are whole numbers.

    Returns:
        Shape (..., ceil(T * rate_out / rate_in)).

    Raises:
        OptionError: a rate that is no positive whole number.
        AudioError: ``samples`` is no tensor.

    >>> resample_waveform(torch.ones(16000), 16000, 8000).shape
    torch.Size([8000])
    """
    if not isinstance(samples, Tensor):
        raise AudioError(f"samples are a tensor, not {type(samples).__name__} (torch.as_tensor makes one)")
    if not all(isinstance(rate, (int, float, np.number)) and float(rate).is_integer() for rate in (rate_in, rate_out)):
        raise OptionError(f"sampling rates are whole numbers of Hz: not {rate_in!r} and {rate_out!r}")
    rate_in, rate_out = int(rate_in), int(rate_out)
    samples = samples if samples.dtype == torch.float64 else samples.float()
    cutoff = float(np.float32(0.99 * 0.5 * min(rate_in, rate_out)))
    return linear_resample(samples, rate_in, rate_out, cutoff, num_zeros=6)
