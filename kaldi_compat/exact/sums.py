"""Sums of products in the order of OpenBLAS's SkylakeX kernels, which decides their last bits.

All functions work on any number of frames together, and add along the last axis. Sources of the order: OpenBLAS
0.3.21, ``kernel/x86_64``: ``sdot.c``, ``sdot_microk_skylakex-2.c``, ``sgemv_t_4.c``, ``sgemv_t_microk_haswell-4.c``,
``sgemv_t_microk_skylakex.c``.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat import native
from kaldi_compat.exact.arrays import Doubles, Floats, Integers

_BLOCK_COLUMNS = 4096  # Number of columns whose sum `sgemv` adds to the result at once.
_MAX_ROWS_OF_FEW_COLUMNS = 16384  # Largest number of rows for OpenBLAS's kernels for four or eight columns.


def fused_multiply_add(a: Any, b: Any, c: Any) -> Floats:
    """Return ``a * b + c`` of float32 arrays, rounded once (a fused multiply-add).

    The product is exact in float64, but the sum may not be. An inexact sum is rounded to odd in float64, so that the
    second rounding, to float32, is correct.
    """
    product = np.multiply(a, b, dtype=np.float64)
    term = np.asarray(c, np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        total = np.asarray(product + term)
        rounded_term = total - product
        error = (product - (total - rounded_term)) + (term - rounded_term)
        bits = total.view(np.int64)
        is_inexact = ((error > 0) | (error < 0)) & (bits & 1 == 0)
        if is_inexact.any():
            total = np.where(is_inexact, bits + np.where((error > 0) == (total > 0), 1, -1), bits).view(np.float64)
        result: Floats = total.astype(np.float32)
    return result


def dot(x: Floats, y: Floats) -> Floats:
    """Return dot products (...) of ``x`` (..., n) and ``y`` (n,) or (..., n) (OpenBLAS: ``sdot``)."""
    n = x.shape[-1]
    half_blocks_end, blocks_end = n & ~31, n & ~63
    remainder = np.zeros(x.shape[:-1])
    for i in range(half_blocks_end, n):  # OpenBLAS adds the last terms in order, in double precision.
        remainder += x[..., i] * y[..., i]
    if not half_blocks_end:
        return remainder.astype(np.float32)
    # OpenBLAS adds blocks of 64 terms to four vectors of 16 sums, and a last half block to four vectors of 8 sums.
    sums = np.zeros((*x.shape[:-1], 4, 16), np.float32)
    for start in range(0, blocks_end, 64):
        block = (..., slice(start, start + 64))
        sums = fused_multiply_add(x[block].reshape(sums.shape), y[block].reshape(*y.shape[:-1], 4, 16), sums)
    folded = sums[..., :8] + sums[..., 8:]
    if blocks_end < half_blocks_end:
        block = (..., slice(blocks_end, half_blocks_end))
        folded = fused_multiply_add(x[block].reshape(folded.shape), y[block].reshape(*y.shape[:-1], 4, 8), folded)
    eight_sums = folded[..., 0, :] + folded[..., 1, :] + folded[..., 2, :] + folded[..., 3, :]
    pairs = eight_sums[..., :4] + eight_sums[..., 4:]
    total = (pairs[..., 0] + pairs[..., 1]) + (pairs[..., 2] + pairs[..., 3])
    result: Floats = (remainder + total).astype(np.float32)
    return result


def _compute_dot_products_in_c(x: Floats, bounds: Integers, y: Floats | None = None) -> Floats:
    """Compute dot products in C: see :func:`compute_dot_products`. Raise ValueError for invalid shapes or bounds."""
    (rows, dim), count = x.shape, len(bounds) - 1
    if y is None and dim != 1:
        raise ValueError(f"x must have one column if y is None, not {dim}")
    if y is not None and y.shape != x.shape:
        raise ValueError(f"y must have the shape {x.shape}, not {y.shape}")
    if bounds[0] != 0 or bounds[-1] != rows or (bounds[1:] < bounds[:-1]).any():
        raise ValueError(f"the bounds of the utterances must start with 0, never decrease, and end with {rows}")
    out = np.empty((count, 3, dim), np.float32)
    other = None if y is None else np.ascontiguousarray(y, np.float32)
    native.get_function("ragged_products")(x, bounds, count, dim, other, out)
    return out


@native.twin(_compute_dot_products_in_c)
def compute_dot_products(x: Floats, bounds: Integers, y: Floats | None = None) -> Floats:
    """Return the dot products x * x, y * y and x * y of each column in each utterance, float32 (utterances, 3, dim).

    Args:
        x: features (rows, dim).
        bounds: rows ``bounds[u]`` to ``bounds[u + 1] - 1`` belong to utterance ``u``.
        y: features of the same shape; None for ones, so that x * y is the sum that :func:`compute_plain_sum` returns.
            ``x`` must then have one column.
    """
    out = np.empty((len(bounds) - 1, 3, x.shape[1]), np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        for sums, (first, end) in zip(out, itertools.pairwise(bounds.tolist()), strict=True):
            a, b = x[first:end].T, None if y is None else y[first:end].T
            sums[0] = dot(a, a)
            sums[1], sums[2] = (end - first, compute_plain_sum(a)) if b is None else (dot(b, b), dot(a, b))
    return out


def compute_signal_sums(signal: Floats, bounds: Integers) -> Floats:
    """Return the sum of squares and the sum of the samples in each part of a signal, (parts, 2).

    Part ``p`` of ``signal`` (samples,) has the samples ``bounds[p]`` to ``bounds[p + 1] - 1``.
    """
    return compute_dot_products(np.ascontiguousarray(signal, np.float32)[:, None], bounds)[:, ::2, 0]


def compute_vector_sums(x: Floats) -> tuple[float, float]:
    """Return the sum of squares (:func:`dot`) and the sum (:func:`compute_plain_sum`) of a vector (n,)."""
    squares, total = compute_signal_sums(x, np.array([0, len(x)]))[0].tolist()
    return squares, total


def compute_plain_sum(x: Floats) -> Floats:
    """Return the sums (...) of ``x`` (..., n), rounded like Kaldi's ``Vector::Sum``.

    Kaldi computes the sum as a dot product with a single 1 that is read with a stride of 0.
    """
    n = x.shape[-1]
    pairs = x[..., 0 : n - n % 2 : 2] + x[..., 1::2]  # OpenBLAS adds pairs in float32, and the sums of pairs in double.
    zero = np.zeros((*x.shape[:-1], 1))
    terms = np.concatenate((zero, pairs, x[..., n - n % 2 :]), axis=-1, dtype=np.float64)
    result: Floats = np.add.accumulate(terms, axis=-1)[..., -1].astype(np.float32)
    return result


def sum_in_order(x: npt.NDArray[Any], axis: int) -> Doubles:
    """Return the float64 sums of ``x`` along an axis (-1 or -2), added in order. The axis stays, with length 1.

    The order of NumPy's own sums depends on the layout in memory and on NumPy's version.
    """
    if x.shape[axis] == 0 or (axis == -2 and x.shape[-1] > 1):
        # NumPy adds whole rows of a contiguous array in order, which is faster than np.add.accumulate.
        total = np.add.reduce(np.ascontiguousarray(x, np.float64), axis=axis, keepdims=True)
    else:
        total = np.add.accumulate(x, axis=axis, dtype=np.float64).take([-1], axis)
    sums: Doubles = total + 0.0  # Adding zero removes the sign of -0.0, as in a sum that starts at zero.
    return sums


def multiply_matrix_vector(matrix: Floats, x: Floats, onto: Floats | None = None) -> Floats:
    """Return the products (..., rows) of a matrix and vectors ``x`` (..., columns) (OpenBLAS: ``sgemv``, row-major).

    Groups of four rows add fused products in eight accumulators. A pair of rows after the groups uses four
    accumulators, and a last single row uses eight, both without fused products. OpenBLAS has other kernels for small
    matrices of 4 or 8 columns (:func:`_sum_few_columns`).

    Args:
        matrix: (rows, columns), contiguous without ``onto``.
        x: (..., columns).
        onto: (rows,): numbers to which the products are added. The matrix is then part of a matrix with more columns.
    """
    rows, columns = matrix.shape
    fours_end, pairs_end = rows & ~3, rows & ~1
    if columns in (4, 8) and onto is None and rows <= _MAX_ROWS_OF_FEW_COLUMNS:
        sums: Floats = np.float32(0) + _sum_few_columns(
            matrix.reshape(rows, *[1] * (x.ndim - 1), columns) * x, fours_end, pairs_end
        )
        return sums
    summand = np.zeros(rows, np.float32) if onto is None else onto
    row_sums = [
        _multiply_rows(matrix[:fours_end], x, summand[:fours_end], num_sums=8, is_fused=True),
        _multiply_rows(matrix[fours_end:pairs_end], x, summand[fours_end:pairs_end], num_sums=4, is_fused=False),
        _multiply_rows(matrix[pairs_end:], x, summand[pairs_end:], num_sums=8, is_fused=False),
    ]
    return _add_last_columns(matrix, x, np.concatenate(row_sums, -1))


def multiply_row(row: Floats, x: Floats, group: int) -> Floats:
    """Return products (...) of a row (columns,) and vectors ``x`` (..., columns), like :func:`multiply_matrix_vector`.

    ``group`` is 0 for a row in a group of four rows, 1 for a row in a last pair, and 2 for a last single row. The row
    belongs to a matrix that is not contiguous, so OpenBLAS does not use its kernels for four and eight columns.
    """
    product = _multiply_rows(row[None], x, 0, num_sums=4 if group == 1 else 8, is_fused=group == 0)
    total: Floats = _add_last_columns(row[None], x, product)[..., 0]
    return total


def _add_last_columns(matrix: Floats, x: Floats, y: Floats) -> Floats:
    """Return ``y`` (..., rows) plus the products of ``matrix`` and ``x`` in the last ``columns % 4`` columns."""
    columns = matrix.shape[1]
    count = columns % 4
    a, z = matrix[:, columns - count :], x[..., None, columns - count :]
    if count == 1:
        return fused_multiply_add(a[:, 0], z[..., 0], y)
    if count:
        last_products = fused_multiply_add(a[:, 0], z[..., 0], a[:, 1] * z[..., 1])
        y = y + (fused_multiply_add(a[:, 2], z[..., 2], last_products) if count == 3 else last_products)
    return y


def _multiply_rows(matrix: Floats, x: Floats, summand: Floats | int, num_sums: int, is_fused: bool) -> Floats:
    """Return ``summand`` (rows,) plus the product (..., rows) of ``matrix`` (rows, columns) and ``x`` (..., columns).

    The last ``columns % 4`` columns are left out, and :func:`_add_last_columns` adds them. As in OpenBLAS, the products
    of a row in each block of columns are added to ``num_sums`` (4 or 8) sums, with a fused multiply-add if ``is_fused``
    is True.
    """
    rows, columns = matrix.shape
    groups_end = columns & ~3
    total: Floats = np.broadcast_to(np.asarray(summand, np.float32), (*x.shape[:-1], rows))
    for begin in range(0, groups_end, _BLOCK_COLUMNS):
        end = min(begin + _BLOCK_COLUMNS, groups_end)
        # If eight columns are added at once, an odd group of four columns is added first.
        odd_group_end = begin + (end - begin) % num_sums
        sums = np.zeros((*x.shape[:-1], rows, 8), np.float32)
        bounds = [begin, *range(odd_group_end, end + 1, num_sums)]
        for start, stop in itertools.pairwise(bounds):
            lanes = (..., slice(0, stop - start))
            rows_part, x_part = matrix[:, start:stop], x[..., None, start:stop]
            lane_sums = sums[lanes]
            sums[lanes] = (
                fused_multiply_add(rows_part, x_part, lane_sums) if is_fused else lane_sums + rows_part * x_part
            )
        four_sums: Floats = sums[..., :4] + sums[..., 4:]
        total = total + ((four_sums[..., 0] + four_sums[..., 1]) + (four_sums[..., 2] + four_sums[..., 3]))
    return total


def _sum_few_columns(products: Floats, fours_end: int, pairs_end: int) -> Floats:
    """Return the sums (..., rows) of the products of each row, in the order of OpenBLAS's kernels for 4 and 8 columns.

    Args:
        products: products (rows, ..., columns) with 4 or 8 columns.
        fours_end: end (exclusive) of the rows that the kernels add in groups of four.
        pairs_end: end (exclusive) of the rows that the kernels add in pairs. A last row is added alone.
    """
    columns = np.moveaxis(products, -1, 0)
    left, right = columns[:4], columns[4:]
    sums = (left[0] + left[1]) + (left[2] + left[3])
    if len(right):
        sums = sums + ((right[0] + right[1]) + (right[2] + right[3]))
        folded = (left[0] + left[1]) + (right[0] + right[1]), (left[2] + left[3]) + (right[2] + right[3])
        sums[fours_end:pairs_end] = (folded[0] + folded[1])[fours_end:pairs_end]
        left = left + right
    sums[pairs_end:] = (((left[0] + left[1]) + left[2]) + left[3])[pairs_end:]
    return np.moveaxis(sums, 0, -1)


def sum_columns(rows: Floats) -> Floats:
    """Return the sums (columns,) of the columns of (n, columns), rounded as by Kaldi's ``Vector::AddRowSumMat``.

    Up to 64 rows are added in order. A larger matrix is multiplied by ones: OpenBLAS's ``sgemv``, column-major, adds
    eight rows at a time, in an order that depends on the column.
    """
    n, columns = rows.shape
    if n <= 64:
        return _add_rows(rows)
    total = np.zeros(columns, np.float32)
    groups_end = columns & ~3
    # In the first columns, up to the groups of 16 columns, OpenBLAS adds even and odd rows separately.
    split_columns = slice(0, groups_end % 16)
    eights_end = n & ~7
    for start, end in [*((i, i + 8) for i in range(0, eights_end, 8)), *_list_last_groups(eights_end, n)]:
        block = rows[start:end]
        block_sums = _add_rows(block)
        if end - start >= 4:
            even, odd = (_add_rows(block[first::2, split_columns]) for first in (0, 1))
            block_sums[split_columns] = even + odd
        total += block_sums
    total[groups_end:] = _add_rows(rows[:, groups_end:])
    return total


def _list_last_groups(start: int, end: int) -> list[tuple[int, int]]:
    """Split the rows ``start`` to ``end - 1``, at most 7, into groups of 4, 2 and 1. Return (start, end) pairs."""
    groups = []
    for size in (4, 2, 1):
        if (end - start) & size:
            groups.append((start, start + size))
            start += size
    return groups


def _add_rows(rows: Floats) -> Floats:
    """Return the sums (columns,) of the columns of (n, columns). The rows are added in order, in float32."""
    total = np.zeros(rows.shape[1], np.float32)
    for row in rows:
        total += row
    return total
