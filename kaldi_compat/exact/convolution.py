"""Convolution in C, in blocks by Kaldi's FFT."""

from __future__ import annotations

from typing import Any

import numpy as np

from kaldi_compat import native
from kaldi_compat.exact import fft
from kaldi_compat.exact.plan import compute_split_radix_tables


def choose_fft_points(num_taps: int) -> int:
    """Return the number of points of Kaldi's FFT for a convolution with a filter of ``num_taps`` samples.

    The number is the smallest power of two of at least ``4 * num_taps``. It determines the rounding of the convolution.
    """
    return max(4, 1 << (4 * num_taps - 1).bit_length())


def _convolve_in_c(signal: Any, taps: Any) -> Any:
    """Return the convolution (samples + taps - 1,) of a signal (samples,) and a filter (taps,), both float32 arrays.

    Return NotImplemented for empty arguments or a different type or shape. Raise MemoryError if memory is exhausted.
    """
    if not all(isinstance(x, np.ndarray) and x.ndim == 1 and x.dtype == np.float32 and len(x) for x in (signal, taps)):
        return NotImplemented
    points = choose_fft_points(len(taps))
    half = points // 2  # The FFT of a real signal is a complex FFT of half the points.
    padded_taps = np.pad(taps, (0, points - len(taps)))
    tables = native.get_structure("convolution")(
        log_points=half.bit_length() - 1,
        taps=len(taps),
        twiddles=compute_split_radix_tables(half.bit_length() - 1),
        roots=np.stack(fft.compute_roots(points), -1),
        order=fft.reverse_bits(half),
        spectrum=np.stack(fft.compute_packed_rfft(padded_taps), -1),
    )
    signal = np.ascontiguousarray(signal, np.float32)
    out = np.empty(len(signal) + len(taps) - 1, np.float32)
    if native.get_function("convolve")(tables, signal, len(signal), out):
        raise MemoryError(
            "cannot allocate memory for a convolution: use shorter utterances, or a machine with more memory"
        )
    return out


# Decorator of a function that convolves signals (..., samples) with a filter (taps,). It adds the version in C.
convolved_in_c = native.twin(_convolve_in_c)
