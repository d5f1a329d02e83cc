"""Products as OpenBLAS's SkylakeX kernels ``sgemm``, ``sgemv`` and ``sscal`` compute them, bit for bit.

Sources of the order: OpenBLAS 0.3.21, ``driver/level3/level3.c`` (panels), ``kernel/x86_64``:
``sgemm_small_kernel_permit_skylakex.c``, ``sgemm_small_kernel_nn_skylakex.c`` and ``sgemm_small_kernel_tn_skylakex.c``.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from kaldi_compat import native
from kaldi_compat.exact.arrays import Floats, Integers
from kaldi_compat.exact.sums import fused_multiply_add, multiply_matrix_vector

_LANES = 16  # Number of floats in a vector of the widest instruction set (AVX-512).
_MAX_PANEL_TERMS = 448  # Largest number of terms that OpenBLAS adds up before it adds the sum to the result.
_MAX_SMALL_PRODUCTS = 1_000_000  # Largest number of multiplications for which OpenBLAS uses its small kernels.
_MIN_SMALL_DEPTH = 32  # Smallest number of terms for which the small kernels keep 16 sums per result.
_MAX_SMALL_RESULTS = 1200  # Largest number of results for which OpenBLAS uses its small kernel for a transposed matrix.
# Largest number of columns after the groups of 16 for which the small kernel of two plain matrices keeps 16 sums per
# result.
_MAX_SMALL_TAIL = 8


def _multiply_in_c(
    a: Floats, b: Floats, bounds: Integers, small_limits: tuple[int, int], max_terms: int, onto: Floats | None = None
) -> Floats:
    """Multiply matrices in C: see :func:`_multiply_ragged_matrices`. Raise MemoryError if memory is exhausted."""
    depth, width = b.shape[1:]
    columns = _pad_to_lanes(b)
    out = np.empty((len(a), width), np.float32)
    stride = columns.shape[2]
    # A distance of 0 between the matrices of b multiplies every matrix of a by the only matrix of b.
    sizes = depth, width, stride, depth * stride if len(b) > 1 else 0, *small_limits, max_terms
    operands = np.ascontiguousarray(a, np.float32), columns, np.ascontiguousarray(bounds, np.int64)
    summand = None if onto is None else _pad_to_lanes(onto)
    if native.get_function("matrix_products")(*operands, len(bounds) - 1, *sizes, summand, out):
        raise MemoryError(
            "cannot allocate memory for a matrix product: use shorter utterances, or a machine with more memory"
        )
    return out


@native.twin(_multiply_in_c)
def _multiply_ragged_matrices(
    a: Floats, b: Floats, bounds: Integers, small_limits: tuple[int, int], max_terms: int, onto: Floats | None = None
) -> Floats:
    """Return the products (rows, n) of matrices, which are consecutive rows of ``a``, and matrices in ``b``.

    Args:
        a: (rows, depth).
        b: (matrices, depth, n), or (1, depth, n) to multiply all matrices in ``a`` by one matrix.
        bounds: (matrices + 1,): rows ``bounds[m]`` to ``bounds[m + 1] - 1`` of ``a`` are matrix ``m``.
        small_limits: number of results up to which OpenBLAS's kernels for small matrices keep 16 sums per result
            (:func:`_multiply_in_sixteen_sums`), and the first column with 16 sums, a multiple of 16.
        max_terms: maximum length of a panel (:func:`_multiply_in_panels`); 0 if rows are vectors for ``sgemv``.
        onto: (n,): numbers to which ``sgemv`` adds the products, as in ``multiply_matrix_vector``; None for zeros.
    """
    if max_terms == 0:
        return multiply_matrix_vector(b[0].T, a, onto)
    max_results, first_column = small_limits
    out = np.empty((len(a), b.shape[2]), np.float32)
    for (begin, end), columns in zip(itertools.pairwise(bounds.tolist()), itertools.cycle(b)):
        is_small = a.shape[1] >= _MIN_SMALL_DEPTH and (end - begin) * b.shape[2] <= max_results
        split_column = first_column if is_small else b.shape[2]
        out[begin:end, :split_column] = _multiply_in_panels(a[begin:end], columns[:, :split_column], max_terms)
        out[begin:end, split_column:] = _multiply_in_sixteen_sums(a[begin:end], columns[:, split_column:])
    return out


def multiply_by_transpose(a: Floats, b: Floats, bounds: Integers | None = None) -> Floats:
    """Return ``a @ b.T``, (rows, n), rounded as by Kaldi's ``AddMatMat(1.0, a, kNoTrans, b, kTrans, 0.0)``.

    Args:
        a: (rows, depth).
        b: (n, depth).
        bounds: (matrices + 1,): rows ``bounds[m]`` to ``bounds[m + 1] - 1`` of ``a`` are matrix ``m``; None if ``a`` is
            one matrix. The number of rows of a matrix decides the order of its sums. Other rows give undefined results.

    Raises:
        ValueError: the shapes or the bounds do not match.
    """
    if bounds is None:
        bounds = np.array([0, len(a)])
    if bounds[0] < 0 or bounds[-1] > len(a) or (np.diff(bounds) < 0).any() or a.shape[1] != b.shape[1]:
        raise ValueError(
            f"cannot multiply the shape {a.shape} by the transpose of {b.shape} with the bounds {bounds}: the numbers "
            "of columns must be equal, and the bounds must increase within the rows"
        )
    max_results = min(_MAX_SMALL_RESULTS, _MAX_SMALL_PRODUCTS // max(a.shape[1], 1))
    return _multiply_ragged_matrices(a, b.T[None], bounds, (max_results, 0), _MAX_PANEL_TERMS)


def multiply_vectors(matrix: Floats, vectors: Floats, onto: Floats | None = None) -> Floats:
    """Return the products (n, rows) of ``matrix`` (rows, columns) and each of ``vectors`` (n, columns).

    The products have the bits of :func:`~kaldi_compat.exact.sums.multiply_matrix_vector`. Each product is added to
    ``onto`` (rows,), or to zeros if ``onto`` is None. Raise ValueError if the shapes do not match.
    """
    (rows, columns), count = matrix.shape, len(vectors)
    onto_shape = (rows,) if onto is None else onto.shape
    if vectors.shape != (count, columns) or onto_shape != (rows,):
        raise ValueError(
            f"cannot multiply a matrix of shape {matrix.shape} by vectors of shape {vectors.shape} and add the result "
            f"to the shape {onto_shape}: check the numbers of rows and columns"
        )
    return _multiply_ragged_matrices(vectors, matrix.T[None], np.array([0, count]), (0, 0), 0, onto)


def multiply_matrices(a: Floats, b: Floats) -> Floats:
    """Return ``a @ b``, rounded as by Kaldi's ``AddMatMat(1.0, a, kNoTrans, b, kNoTrans, 0.0)``.

    ``a`` is (..., rows, depth), ``b`` (..., depth, n), and the result (..., rows, n). Other shapes raise ValueError.
    """
    (rows, depth), width = a.shape[-2:], b.shape[-1]
    if b.shape[-2] != depth:
        raise ValueError(f"cannot multiply the shape {a.shape} by {b.shape}: {depth} columns need {depth} rows")
    is_small, tail = rows * depth * width <= _MAX_SMALL_PRODUCTS, width % _LANES
    max_terms = max(depth, 1) if is_small else _MAX_PANEL_TERMS
    # The small kernel keeps 16 sums per result only in the columns after the last group of 16, if they are few.
    small_limits = rows * width if is_small and tail <= _MAX_SMALL_TAIL else 0, width - tail
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    stacked = np.broadcast_to(a, (*batch, rows, depth)).reshape(-1, depth)
    columns = np.broadcast_to(b, (*batch, depth, width)).reshape(-1, depth, width) if b.ndim > 2 else b[None]
    bounds = np.arange(math.prod(batch) + 1) * rows
    return _multiply_ragged_matrices(stacked, columns, bounds, small_limits, max_terms).reshape(*batch, rows, width)


def scale_vector(x: Floats, factor: float) -> Floats:
    """Return ``x * factor`` as OpenBLAS's ``sscal`` does: a factor of zero sets all numbers to zero, even NaN."""
    rounded = np.float32(factor)  # A tiny factor is rounded to zero.
    return x * rounded if rounded != 0 else np.zeros_like(x)


def _pad_to_lanes(b: Floats) -> Floats:
    """Return ``b`` (..., n) as float32, with zeros appended up to a multiple of ``_LANES`` columns."""
    padded = np.zeros((*b.shape[:-1], -(-b.shape[-1] // _LANES) * _LANES), np.float32)
    padded[..., : b.shape[-1]] = b
    return padded


def _multiply_in_panels(a: Floats, b: Floats, max_terms: int) -> Floats:
    """Return the product of ``a`` (rows, depth) and ``b`` (depth, n), which is summed panel by panel.

    A panel is the sum of up to ``max_terms`` consecutive terms of a result. Terms and panels are added in order.
    """
    depth = a.shape[1]
    total = np.zeros((len(a), b.shape[1]), np.float32)
    start = 0
    while start < depth:
        end = start + _count_panel_terms(depth - start, max_terms)
        panel = np.zeros_like(total)
        for k in range(start, end):
            panel = fused_multiply_add(a[:, k, None], b[k], panel)
        total = total + panel if start else panel
        start = end
    return total


def _count_panel_terms(remaining: int, max_terms: int) -> int:
    """Return the number of terms in the next panel, at most ``max_terms``, if ``remaining`` terms are left.

    As in OpenBLAS, the last two panels have similar sizes, and the first of the two has a multiple of 16 terms.
    """
    if remaining >= 2 * max_terms:
        return max_terms
    return -(-(remaining // 2) // 16) * 16 if remaining > max_terms else remaining


def _multiply_in_sixteen_sums(a: Floats, b: Floats) -> Floats:
    """Return ``a @ b`` of the shapes (rows, depth) and (depth, n). Each result is computed from 16 sums.

    Term ``k`` is added to sum ``k % 16``. Then, neighboring sums are added until one sum is left. For results in
    both the last ``rows % 4`` rows and the last ``n % 4`` columns, the two halves of the sums are added instead.
    """
    (rows, depth), width = a.shape, b.shape[1]
    sums = np.zeros((rows, width, 16), np.float32)
    for start in range(0, depth, 16):
        lanes = slice(0, min(16, depth - start))
        terms = slice(start, start + 16)
        sums[..., lanes] = fused_multiply_add(a[:, None, terms], b[terms].T, sums[..., lanes])
    pairs = folded = sums
    for half in (8, 4, 2, 1):
        pairs = pairs[..., ::2] + pairs[..., 1::2]
        folded = folded[..., :half] + folded[..., half:]
    product = pairs[..., 0]
    corner = (slice(rows & ~3, None), slice(width & ~3, None))  # Rows and columns after the last groups of four.
    product[corner] = folded[..., 0][corner]
    return product
