"""Products in the order of OpenBLAS's SkylakeX kernels ``sgemm`` and ``sscal``, which decides their last bits.

Sources of the order: OpenBLAS 0.3.21, ``driver/level3/level3.c`` (panels), ``kernel/x86_64``:
``sgemm_small_kernel_permit_skylakex.c``, ``sgemm_small_kernel_nn_skylakex.c`` and ``sgemm_small_kernel_tn_skylakex.c``.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from kaldi_compat import native
from kaldi_compat.exact.arrays import Floats, Integers
from kaldi_compat.exact.sums import fused

_LANES = 16  # of the widest instruction set
_PANEL = 448  # terms that are added before their sum is added to the result
_SMALL_PRODUCTS = 1_000_000  # multiplications up to which the kernels for small matrices are used
_SMALL_DEPTH, _SMALL_RESULTS = 32, 1200  # OpenBLAS's kernel for small matrices takes as many terms, and no more results


def _product_with_transpose_in_c(a: Floats, b: Floats, bounds: Integers) -> Floats:
    (rows, depth), width = a.shape, len(b)
    columns = _in_lanes(b.T)
    out = np.empty((rows, width), np.float32)
    sizes = depth, width, columns.shape[1], _SMALL_RESULTS, _PANEL
    rows_of = np.ascontiguousarray(bounds, np.int64)
    native.function("matrix_products")(
        np.ascontiguousarray(a, np.float32), columns, rows_of, len(bounds) - 1, *sizes, out
    )
    return out


@native.twin(_product_with_transpose_in_c)
def _product_with_transpose(a: Floats, b: Floats, bounds: Integers) -> Floats:
    parts = [_product(a[begin:end], b) for begin, end in itertools.pairwise(bounds)]
    return np.concatenate(parts) if parts else np.empty((0, len(b)), np.float32)


def product_with_transpose(a: Floats, b: Floats, bounds: Integers | None = None) -> Floats:
    """Return ``a @ b.T`` as Kaldi's ``AddMatMat(1.0, a, kNoTrans, b, kTrans, 0.0)``.

    Args:
        a: (rows, depth).
        b: (n, depth).
        bounds: (matrices + 1,): the first row of each matrix of a ragged batch and the end; None if ``a`` is one
            matrix. The number of rows decides the order of a matrix's sums.

    Returns:
        (rows, n).

    >>> product_with_transpose(np.array([[1, 2]], np.float32), np.array([[3, 4], [5, 6]], np.float32))
    array([[11., 17.]], dtype=float32)
    """
    if bounds is None:
        bounds = np.array([0, len(a)])
    if bounds[0] < 0 or bounds[-1] > len(a) or (np.diff(bounds) < 0).any() or a.shape[1] != b.shape[1]:
        raise ValueError(f"cannot multiply {a.shape} by {b.shape} transposed, with bounds of matrices {bounds}")
    return _product_with_transpose(a, b, bounds)


def product(a: Floats, b: Floats) -> Floats:
    """Return ``a @ b`` as Kaldi's ``AddMatMat(1.0, a, kNoTrans, b, kNoTrans, 0.0)``.

    Args:
        a: (..., rows, depth).
        b: (..., depth, n).

    Returns:
        (..., rows, n).

    >>> product(np.array([[1, 2]], np.float32), np.array([[3, 5], [4, 6]], np.float32))
    array([[11., 17.]], dtype=float32)
    """
    (rows, depth), width = a.shape[-2:], b.shape[-1]
    panel = max(depth, 1) if rows * depth * width <= _SMALL_PRODUCTS else _PANEL
    if b.shape[-2] != depth:
        raise ValueError(f"cannot multiply {a.shape} by {b.shape}")
    return _in_panels(a, b, panel)


def scaled(x: Floats, factor: float) -> Floats:
    """Return ``x * factor`` as OpenBLAS's ``sscal``, which sets everything to zero if the factor is zero, NaN too.

    >>> scaled(np.array([-1.0, np.nan], np.float32), 0.0)
    array([0., 0.], dtype=float32)
    """
    return x * np.float32(factor) if factor != 0.0 else np.zeros_like(x)


def _in_lanes(b: Floats) -> Floats:
    """Return matrices (..., depth, n) with zeros after their columns, so that these fill vectors."""
    columns = np.zeros((*b.shape[:-1], -(-b.shape[-1] // _LANES) * _LANES), np.float32)
    columns[..., : b.shape[-1]] = b
    return columns


def _product(a: Floats, b: Floats) -> Floats:
    if a.shape[1] >= _SMALL_DEPTH and len(a) * len(b) <= _SMALL_RESULTS:
        return _small_product(a, b)
    return _in_panels(a, b.T, _PANEL)


def _in_panels_in_c(a: Floats, b: Floats, most: int) -> Floats:
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    (rows, depth), width = a.shape[-2:], b.shape[-1]
    a = np.ascontiguousarray(np.broadcast_to(a, (*batch, rows, depth)) if a.ndim > 2 else a, np.float32)
    columns = _in_lanes(np.broadcast_to(b, (*batch, depth, width)) if b.ndim > 2 else b)
    stride = columns.shape[-1]
    steps = rows * depth if a.ndim > 2 else 0, depth * stride if b.ndim > 2 else 0
    out = np.empty((*batch, rows, width), np.float32)
    sizes = math.prod(batch), rows, depth, width, stride
    native.function("matrix_batch")(a, columns, *sizes, *steps, most, out)
    return out


@native.twin(_in_panels_in_c)
def _in_panels(a: Floats, b: Floats, most: int) -> Floats:
    """Return ``a @ b``: terms are added one after the other, in panels of at most so many, and panels to the result."""
    depth = a.shape[-1]
    shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
    total = np.zeros(shape, np.float32)
    start = 0
    while start < depth:
        end = start + _panel_of(depth - start, most)
        panel = np.zeros(shape, np.float32)
        for k in range(start, end):
            panel = fused(a[..., :, k, None], b[..., k, None, :], panel)
        total = total + panel if start else panel
        start = end
    return total


def _panel_of(left: int, most: int) -> int:
    """Return the number of terms in the next panel if so many are left, and a panel has at most so many."""
    if left >= 2 * most:
        return most
    return -(-(left // 2) // 16) * 16 if left > most else left


def _small_product(a: Floats, b: Floats) -> Floats:
    """Return the product of small matrices: every 16th term is added to one of 16 sums, which are added as a tree."""
    (rows, depth), width = a.shape, len(b)
    sums = np.zeros((rows, width, 16), np.float32)
    for start in range(0, depth, 16):
        lanes = slice(0, min(16, depth - start))
        terms = slice(start, start + 16)
        sums[..., lanes] = fused(a[:, None, terms], b[:, terms], sums[..., lanes])
    pairs = folded = sums
    for half in (8, 4, 2, 1):
        pairs = pairs[..., ::2] + pairs[..., 1::2]
        folded = folded[..., :half] + folded[..., half:]
    product = pairs[..., 0]
    corner = (slice(rows & ~3, None), slice(width & ~3, None))  # where neither fills a group of four
    product[corner] = folded[..., 0][corner]
    return product
