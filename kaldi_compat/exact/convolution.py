"""Convolution by Kaldi's FFT in blocks, in C."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kaldi_compat.exact import fft
from kaldi_compat.exact.plan import split_radix_tables
from kaldi_compat.native import convolve as compiled

__all__ = ["convolve_blocks"]

Floats = npt.NDArray[np.float32]


def convolve_blocks(signal: Floats, taps: Floats, points: int) -> Floats:
    """Convolve by the FFT of so many points, in blocks with overlap-add (Kaldi: FFTbasedBlockConvolveSignals).

    Args:
        signal: (samples,).
        taps: (taps,): the filter.
        points: a power of two, at least 4 and at least four times the number of taps.

    Returns:
        (samples + taps - 1,).
    """
    padded = np.zeros(points, np.float32)
    padded[: len(taps)] = taps
    tables = compiled.Convolution(
        len(taps),
        np.stack(fft.packed_rfft(padded), -1),
        split_radix_tables((points // 2).bit_length() - 1),
        np.stack(fft.roots(points), -1),
        fft.bit_reversed(points // 2),
    )
    return compiled.convolve(tables, signal)
