"""Resampling of tensors with Kaldi's windowed sinc: src/feat/resample.cc (LinearResample, ResampleWaveform)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from io_ark.text import quote_value
from kaldi_compat.errors import AudioError, OptionError
from kaldi_compat.exact.resample import (
    MAX_RATE,
    PeriodFilters,
    check_resampling,
    choose_waveform_filter,
    make_resampling_filters,
)
from kaldi_compat.functional.checks import check_samples
from kaldi_compat.torch.tensors.sinc import resample_tensor


def resample_linearly(samples: Tensor, rate_in: int, rate_out: int, cutoff: float, num_zeros: int) -> Tensor:
    """Resample a floating-point tensor (..., T) to (..., ceil(T * rate_out / rate_in)) (Kaldi: LinearResample).

    For the other arguments and the errors, see :func:`kaldi_compat.exact.resample.resample_linearly`.
    """
    check_resampling(rate_in, rate_out, cutoff, num_zeros)
    # Kaldi calls OpenBLAS, whose dot products of few taps round products to float32 and sum them in double precision.
    # Products are therefore rounded to the type of the samples.
    filters = make_resampling_filters(rate_in, rate_out, float(np.float32(cutoff)), num_zeros)
    return resample_tensor(samples, PeriodFilters.from_filters(filters), samples.dtype)


def resample_waveform(samples: Tensor, rate_in: float, rate_out: float) -> Tensor:
    """Resample audio as Kaldi's programs do (ResampleWaveform).

    Args:
        samples: audio of shape (..., T). Integers are converted to float32.
        rate_in, rate_out: sampling rates in Hz, whole numbers.

    Returns:
        Audio of shape (..., ceil(T * rate_out / rate_in)).

    Raises:
        OptionError: a rate is not a positive whole number below 1e9, or the filters would be too large.
        AudioError: ``samples`` is not a plain tensor of real numbers, is a single number, or has unsigned or 8-bit
            integers.

    >>> import torch
    >>> from kaldi_compat import resample_waveform
    >>> resample_waveform(torch.ones(16000), 16000, 8000).shape
    torch.Size([8000])
    """
    if not isinstance(samples, Tensor):
        raise AudioError(f"samples must be a tensor, not {type(samples).__name__}: pass torch.as_tensor(samples)")
    check_samples(samples)
    rates = rate_in, rate_out
    # The comparison with MAX_RATE excludes integers for which float() would raise an OverflowError.
    if not all(
        isinstance(rate, (int, float, np.number)) and abs(rate) < MAX_RATE and float(rate).is_integer()
        for rate in rates
    ):
        raise OptionError(
            f"sampling rates must be whole numbers of Hz below {MAX_RATE:g}, not {quote_value(rate_in)} and "
            f"{quote_value(rate_out)}"
        )
    samples = samples if samples.dtype == torch.float64 else samples.float()
    return resample_linearly(samples, *choose_waveform_filter(rate_in, rate_out))
