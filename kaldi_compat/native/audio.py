"""Call the C functions that resample audio and sum over signals."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat.native import library
from kaldi_compat.native.structures import Structure

__all__ = ["Filters", "dot", "plain_sum", "resample", "resample_chunks", "signal_sums"]

Floats = npt.NDArray[np.float32]
_BIGGEST_VECTOR = 64  # bytes


class _Filters(ctypes.Structure):
    """``resampling_filters`` of ``audio_simd.c``."""

    _fields_ = [
        *((name, ctypes.c_int32) for name in ("phases", "period", "longest")),
        *((name, ctypes.c_void_p) for name in ("first", "taps", "offset", "weights")),
    ]


class Filters:
    """Filters of one period of two sampling rates.

    Args:
        period: input samples in a period.
        first: the input sample that each filter begins at, counted from the period's start.
        weights: the filters.
    """

    def __init__(self, period: int, first: Sequence[int], weights: Sequence[Floats]) -> None:
        self.holder = Structure(_Filters())
        c, pointer = self.holder.structure, self.holder.pointer
        taps = np.array([len(each) for each in weights], np.int32)
        c.phases, c.period, c.longest = len(weights), period, int(taps.max())
        c.first, c.taps = pointer(np.array(first), np.int64), pointer(taps, np.int32)
        c.offset = pointer(np.concatenate(([0], np.cumsum(taps[:-1]))), np.int64)
        c.weights = pointer(np.concatenate(weights))


# Made once: setting the types of a function's arguments while another thread calls it crashes.
@functools.cache
def _resample(level: str | None) -> Any:
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    arguments = (pointer, pointer, ctypes.c_int32, *[number] * 5, pointer, pointer)
    return library().function("resample", *arguments, level=level)


@functools.cache
def _dot(level: str | None) -> Any:
    arguments = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    return library().function("dot", *arguments, result=ctypes.c_float, level=level)


@functools.cache
def _sum(level: str | None) -> Any:
    return library().function("sum", ctypes.c_void_p, ctypes.c_int64, result=ctypes.c_float, level=level)


@functools.cache
def _resample_chunks(level: str | None) -> Any:
    pointer = ctypes.c_void_p
    arguments = (pointer, pointer, ctypes.c_int32, pointer, ctypes.c_int64, pointer, pointer)
    return library().function("resample_chunks", *arguments, level=level)


@functools.cache
def _signal_sums(level: str | None) -> Any:
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    return library().function("signal_sums", pointer, pointer, pointer, number, pointer, level=level)


def resample(
    filters: Filters,
    samples: npt.NDArray[Any],
    outputs: tuple[int, int],
    inside: tuple[int, int],
    level: str | None = None,
) -> Floats:
    """Compute some output samples of audio at another sampling rate.

    Args:
        filters: of the two rates.
        samples: int16 or float32 of shape (T,), contiguous.
        outputs: the output samples wanted: the first, and the one after the last.
        inside: those of them whose filters lie within ``samples``.
        level: the instruction set; the best by default.
    """
    if samples.dtype not in (np.int16, np.float32) or samples.ndim != 1 or not samples.flags.c_contiguous:
        raise ValueError("samples must be contiguous int16 or float32 of shape (T,)")
    out = np.empty(max(0, outputs[1] - outputs[0]), np.float32)
    c = filters.holder.structure
    work = np.empty((c.longest + 1) * _BIGGEST_VECTOR, np.uint8)
    _resample(level)(
        ctypes.byref(c),
        samples.ctypes.data,
        samples.dtype == np.float32,
        len(samples),
        outputs[0],
        *inside,
        outputs[1],
        work.ctypes.data,
        out.ctypes.data,
    )
    return out


def resample_chunks(
    filters: Filters, samples: npt.NDArray[Any], chunks: npt.NDArray[np.int64], level: str | None = None
) -> Floats:
    """Resample chunks of the audio of some utterances: see :func:`kaldi_compat.exact.resample.resample_chunk`.

    Args:
        filters: of the two rates.
        samples: int16 or float32 of shape (T,), contiguous: of all utterances.
        chunks: (chunks, 5): where the utterance starts, its samples up to the chunk's end, where in the utterance the
            chunk starts, the first output sample and the one after the last. The chunks of an utterance follow each
            other, and so do their outputs.
        level: the instruction set; the best by default.

    Returns:
        The outputs of all chunks, one after the other.
    """
    if samples.dtype not in (np.int16, np.float32) or samples.ndim != 1 or not samples.flags.c_contiguous:
        raise ValueError("samples must be contiguous int16 or float32 of shape (T,)")
    starts, counts, _, first, end = chunks.T
    if (chunks < 0).any() or (starts + counts > len(samples)).any() or (end < first).any():
        raise ValueError(f"chunks that do not lie within {len(samples)} samples")
    places = np.cumsum(end - first) - (end - first)
    table = np.ascontiguousarray(np.column_stack((chunks, places)), np.int64)
    out = np.empty(int((end - first).sum()), np.float32)
    c = filters.holder.structure
    work = np.empty((c.longest + 1) * _BIGGEST_VECTOR, np.uint8)
    _resample_chunks(level)(
        ctypes.byref(c),
        samples.ctypes.data,
        samples.dtype == np.float32,
        table.ctypes.data,
        len(table),
        work.ctypes.data,
        out.ctypes.data,
    )
    return out


def signal_sums(
    signal: Floats, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], level: str | None = None
) -> Floats:
    """Return the sums of squares and of samples of parts of a signal: (parts, 2)."""
    starts, lengths = (np.ascontiguousarray(each, np.int64) for each in (starts, lengths))
    if len(starts) and (min(starts.min(), lengths.min()) < 0 or (starts + lengths).max() > len(signal)):
        raise ValueError(f"parts that do not lie within {len(signal)} samples")
    if signal.dtype != np.float32 or not signal.flags.c_contiguous:
        raise ValueError("the signal must be contiguous float32")
    out = np.empty((len(starts), 2), np.float32)
    _signal_sums(level)(signal.ctypes.data, starts.ctypes.data, lengths.ctypes.data, len(starts), out.ctypes.data)
    return out


def dot(x: Floats, y: Floats, level: str | None = None) -> float:
    """Return the sum of the products of two vectors (n,): OpenBLAS's ``sdot``."""
    x, y = np.ascontiguousarray(x, np.float32), np.ascontiguousarray(y, np.float32)
    if x.ndim != 1 or x.shape != y.shape:
        raise ValueError(f"expected two vectors of the same length, not {x.shape} and {y.shape}")
    return float(_dot(level)(x.ctypes.data, y.ctypes.data, len(x)))


def plain_sum(x: Floats, level: str | None = None) -> float:
    """Return the sum of a vector (n,) as Kaldi's ``Vector::Sum``."""
    x = np.ascontiguousarray(x, np.float32)
    return float(_sum(level)(x.ctypes.data, x.size))
