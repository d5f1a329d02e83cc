"""Convolution by Kaldi's FFT in blocks, in C."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kaldi_compat import native
from kaldi_compat.exact import fft
from kaldi_compat.exact.plan import split_radix_tables

Floats = npt.NDArray[np.float32]


def convolve_blocks(signal: Floats, taps: Floats, points: int) -> Floats | None:
    """Convolve by the FFT of so many points, in blocks with overlap-add (Kaldi: FFTbasedBlockConvolveSignals).

    Args:
        signal: (samples,).
        taps: (taps,): the filter.
        points: a power of two, at least 4 and at least four times the number of taps.

    Returns:
        (samples + taps - 1,); None without the C library.
    """
    if not native.library():
        return None
    half = points // 2
    if signal.ndim != 1 or points < 4 or points & (points - 1) or not 0 < len(taps) <= half:
        raise ValueError(f"cannot convolve {signal.shape} with {len(taps)} taps by an FFT of {points} points")
    padded = np.zeros(points, np.float32)
    padded[: len(taps)] = taps
    tables = native.structure(
        "convolution",
        log_points=half.bit_length() - 1,
        taps=len(taps),
        twiddles=split_radix_tables(half.bit_length() - 1),
        roots=np.stack(fft.roots(points), -1),
        order=fft.bit_reversed(half),
        spectrum=np.stack(fft.packed_rfft(padded), -1),
    )
    signal = np.ascontiguousarray(signal, np.float32)
    out = np.empty(len(signal) + len(taps) - 1, np.float32)
    if native.function("convolve")(tables, signal, len(signal), out):
        raise MemoryError("no memory for the blocks of a convolution")
    return out
