"""Sums over windows that slide by one frame, in Kaldi's order of additions.

Kaldi adds the frame that enters the window and subtracts the frame that leaves it, in double precision. The rounding
errors stay in this running sum. They decide the digits of a variance that is small compared with the squared mean.
Sources: ``SlidingWindowCmnInternal`` in Kaldi's ``src/feat/feature-functions.cc``,
``OnlineProcessPitch::UpdateNormalizationStats`` in ``src/feat/pitch-functions.cc``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kaldi_compat.exact.arrays import Doubles

Indices = npt.NDArray[np.intp]

_MIN_VARIANCE = 1e-10  # Lower bound on variances in Kaldi's SlidingWindowCmnInternal.


def compute_window_sums(values: Doubles, start: Indices, end: Indices, *, first_sum: Doubles | None = None) -> Doubles:
    """Return the sums ``(windows, ...)`` of the rows ``start[t]`` to ``end[t] - 1`` for each window ``t``.

    Args:
        values: ``(rows, ...)`` in double precision.
        start, end: ``(windows,)``: bounds of the windows. Both increase by 0 or 1 from one window to the next. If the
            first window ends before it starts, its sum is 0, but later sums add and subtract rows in the same way.
        first_sum: ``(...,)``: sum of the first window; None to add the rows of this window in order.
    """
    if first_sum is None:
        first_sum = np.add.reduce(np.add.accumulate(values[start[0] : end[0]], axis=0)[-1:], axis=0)
    steps = np.zeros((len(start), 2, *values.shape[1:]))
    # Indices of the windows whose first row the next window lacks, and of the windows after which a row is added.
    before_removals, before_additions = np.flatnonzero(np.diff(start)), np.flatnonzero(np.diff(end))
    steps[before_removals + 1, 0] = -values[start[before_removals]]
    steps[before_additions + 1, 1] = values[end[before_additions]]
    steps[0, 1] = first_sum
    flat_steps = steps.reshape(-1, *values.shape[1:])
    sums: Doubles = np.add.accumulate(flat_steps, axis=0)[1::2]
    return sums


def _sum_strided_rows(rows: Doubles) -> Doubles:
    """Return the sum (...) of rows (rows, ...), added in the order of OpenBLAS's ``ddot`` for vectors with a stride.

    Rows 0 and 2 of a group of four are added to one sum, rows 1 and 3 to a second sum. The rows after the last group
    are added to the first sum.
    """
    groups_end = len(rows) & ~3
    even, odd = np.zeros(rows.shape[1:]), np.zeros(rows.shape[1:])
    for i in range(0, groups_end, 4):
        even = even + (rows[i] + rows[i + 2])
        odd = odd + (rows[i + 1] + rows[i + 3])
    for row in rows[groups_end:]:
        even = even + row
    total: Doubles = even + odd
    return total


def multiply_add_double(a: Doubles, b: Doubles, c: Doubles) -> Doubles:
    """Return ``a * b + c``, rounded once (a fused multiply-add, which OpenBLAS's ``daxpy`` uses)."""
    product, error = _multiply_exactly(a, b)
    total = product + c
    rounded_c = total - product
    correction = (product - (total - rounded_c)) + (c - rounded_c) + error
    # A correction of zero is not added, because the sum would lose the sign of a negative zero. Infinity minus infinity
    # gives a correction of NaN, which is not added either.
    result: Doubles = np.where(np.isfinite(correction) & (correction != 0), total + correction, total)
    return result


def _multiply_exactly(a: Doubles, b: Doubles) -> tuple[Doubles, Doubles]:
    """Return a product and its rounding error, by Dekker's algorithm (1971)."""
    (a_high, a_low), (b_high, b_low) = _split_in_halves(a), _split_in_halves(b)
    product = a * b
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _split_in_halves(x: Doubles) -> tuple[Doubles, Doubles]:
    """Return high and low parts that add up to ``x``. Both have at most 26 bits, so their products are exact."""
    scaled = 134217729.0 * x  # The factor is 2**27 + 1, as in Dekker's algorithm.
    high = scaled - (scaled - x)
    return high, x - high


def normalize_by_windows(
    features: npt.NDArray[np.float32], start: Indices, end: Indices, *, norm_vars: bool
) -> tuple[npt.NDArray[np.float32], Doubles]:
    """Normalize each frame by the mean, and optionally the variance, of its window.

    Args:
        features: ``(frames, dim)``.
        start, end: ``(frames,)``: bounds of each frame's window: see :func:`compute_window_sums`.
        norm_vars: True to also divide by the standard deviation. A window of one frame then gives zeros.

    Returns:
        Normalized features, and variances before flooring (empty without ``norm_vars``), both ``(frames, dim)``.
    """
    doubles = features.astype(np.float64)
    sizes = (end - start)[:, None].astype(np.float64)
    sums = compute_window_sums(doubles, start, end)
    normalized = multiply_add_double(-1.0 / sizes, sums, doubles)
    if not norm_vars:
        return normalized.astype(np.float32), np.empty((0, features.shape[1]))
    squares = doubles * doubles
    variance = compute_window_sums(squares, start, end, first_sum=_sum_strided_rows(squares[start[0] : end[0]])) * (
        1.0 / sizes
    )
    variance += (-1.0 / (sizes * sizes)) * sums * sums
    # The last bit of the operator ** depends on the processor. float_power calls the C library's pow(), as Kaldi does.
    normalized *= np.float_power(np.maximum(variance, _MIN_VARIANCE), -0.5)
    normalized[sizes[:, 0] == 1] = 0.0
    return normalized.astype(np.float32), variance
