"""Call the C function that multiplies matrices."""

from __future__ import annotations

import ctypes
import functools
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat.native import library

__all__ = ["matrix_batch", "matrix_products"]

Floats = npt.NDArray[np.float32]
_LANES = 16  # of the widest instruction set


# Made once: setting the types of a function's arguments while another thread calls it crashes.
@functools.cache
def _matrix_products(level: str | None) -> Any:
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    return library().function("matrix_products", *[pointer] * 3, *[number] * 6, pointer, level=level)


@functools.cache
def _matrix_batch(level: str | None) -> Any:
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    return library().function("matrix_batch", *[pointer] * 2, *[number] * 8, pointer, level=level)


def matrix_batch(a: Floats, b: Floats, panel: int, level: str | None = None) -> Floats:
    """Return ``a @ b`` (..., rows, n): terms are added one after the other, in panels, and panels to the result.

    Args:
        a: (..., rows, depth).
        b: (..., depth, n).
        panel: terms in a panel at most: a multiple of 16, or all.
        level: the instruction set; the best by default.
    """
    (rows, depth), width = a.shape[-2:], b.shape[-1]
    if b.shape[-2] != depth:
        raise ValueError(f"cannot multiply {a.shape} by {b.shape}")
    check_panel(panel, depth)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if a.ndim > 2:
        a = np.broadcast_to(a, (*batch, rows, depth))
    if b.ndim > 2:
        b = np.broadcast_to(b, (*batch, depth, width))
    a = np.ascontiguousarray(a, np.float32)
    columns = np.zeros((*b.shape[:-1], -(-width // _LANES) * _LANES), np.float32)
    columns[..., :width] = b
    out = np.empty((*batch, rows, width), np.float32)
    stride = columns.shape[-1]
    _matrix_batch(level)(
        a.ctypes.data,
        columns.ctypes.data,
        math.prod(batch),
        rows,
        depth,
        width,
        stride,
        rows * depth if a.ndim > 2 else 0,
        depth * stride if b.ndim > 2 else 0,
        panel,
        out.ctypes.data,
    )
    return out


def matrix_products(
    a: Floats, b: Floats, bounds: npt.NDArray[np.int64], small_results: int, panel: int, level: str | None = None
) -> Floats:
    """Return ``a @ b.T`` (rows, n), with each matrix of a ragged batch multiplied as if it were alone.

    Args:
        a: (rows, depth): the rows of all matrices.
        b: (n, depth).
        bounds: (matrices + 1,): the first row of each matrix, and the end.
        small_results: results up to which OpenBLAS's kernel for small transposed matrices is used.
        panel: terms that the other kernel adds before it adds their sum to the result: a multiple of 16, or all.
        level: the instruction set; the best by default.
    """
    (rows, depth), width = a.shape, len(b)
    if b.ndim != 2 or b.shape[1] != depth or len(bounds) < 1 or bounds[0] < 0 or bounds[-1] > rows:
        raise ValueError(
            f"cannot multiply {a.shape} by {b.shape} transposed, with rows from {bounds[0]} to {bounds[-1]}"
        )
    if (np.diff(bounds) < 0).any():
        raise ValueError("the bounds of matrices must not decrease")
    check_panel(panel, depth)
    a = np.ascontiguousarray(a, np.float32)
    bounds = np.ascontiguousarray(bounds, np.int64)
    columns = np.zeros((depth, -(-width // _LANES) * _LANES), np.float32)
    columns[:, :width] = b.T
    out = np.empty((rows, width), np.float32)
    _matrix_products(level)(
        a.ctypes.data,
        columns.ctypes.data,
        bounds.ctypes.data,
        len(bounds) - 1,
        depth,
        width,
        columns.shape[1],
        small_results,
        panel,
        out.ctypes.data,
    )
    return out


def check_panel(panel: int, depth: int) -> None:
    """Raise ValueError for a size of panels that does not divide ``depth`` terms as OpenBLAS does."""
    if panel < 1 or (panel < depth and panel % 16):
        raise ValueError(f"panels of {panel} terms are neither a multiple of 16 nor all {depth}")
