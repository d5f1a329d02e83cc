"""Call the C function that convolves signals."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat.native import library
from kaldi_compat.native.structures import Structure

__all__ = ["Convolution", "convolve"]

Floats = npt.NDArray[np.float32]


class _Convolution(ctypes.Structure):
    """``convolution`` of ``convolve_simd.c``."""

    _fields_ = [
        *((name, ctypes.c_int32) for name in ("log_points", "taps")),
        ("twiddles", ctypes.c_void_p * 32),
        *((name, ctypes.c_void_p) for name in ("roots", "order", "spectrum")),
    ]


class Convolution:
    """A filter and the tables of the FFT.

    Args:
        taps: how many the filter has.
        spectrum: (points / 2, 2): the filter's spectrum, packed as :func:`kaldi_compat.exact.fft.packed_rfft` has it.
        twiddles: for k = 3 to log2(points / 2), the multipliers of a step of 2**k points.
        roots: (points / 4, 2): ``exp(-2 pi i k / points)``.
        order: (points / 2,): numbers with their bits reversed.
    """

    def __init__(
        self, taps: int, spectrum: Floats, twiddles: Sequence[Floats], roots: Floats, order: npt.NDArray[np.intp]
    ) -> None:
        half = len(spectrum)
        if half < 2 or half & (half - 1) or len(order) != half or len(roots) != half // 2 or not 0 < taps <= half:
            raise ValueError(f"the tables do not belong to an FFT of {2 * half} points and {taps} taps")
        self.taps = taps
        self.holder = Structure(_Convolution())
        c, pointer = self.holder.structure, self.holder.pointer
        c.log_points, c.taps = half.bit_length() - 1, taps
        for k, table in enumerate(twiddles, start=3):
            c.twiddles[k] = pointer(table)
        c.roots, c.order, c.spectrum = pointer(roots), pointer(order, np.int32), pointer(spectrum)


# Made once: setting the types of a function's arguments while another thread calls it crashes.
@functools.cache
def _convolve(level: str | None) -> Any:
    pointer = ctypes.c_void_p
    return library().function("convolve", pointer, pointer, ctypes.c_int64, pointer, level=level)


def convolve(convolution: Convolution, signal: Floats, level: str | None = None) -> Floats:
    """Convolve a signal (samples,) with a filter: (samples + taps - 1,)."""
    signal = np.ascontiguousarray(signal, np.float32)
    if signal.ndim != 1:
        raise ValueError(f"a signal has one dimension, not {signal.ndim}")
    out = np.empty(len(signal) + convolution.taps - 1, np.float32)
    address = ctypes.addressof(convolution.holder.structure)
    if _convolve(level)(address, signal.ctypes.data, len(signal), out.ctypes.data):
        raise MemoryError("no memory for the blocks of a convolution")
    return out
