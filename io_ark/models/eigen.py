"""Eigenvectors of a symmetric matrix with the signs that Kaldi's solver chooses.

Source: ``src/matrix/qr.cc`` of Kaldi, after Golub and Van Loan, "Matrix Computations" (3rd edition): Householder
tridiagonalization (section 8.3.1) and the symmetric QR algorithm with Wilkinson shifts (8.3.2 and 8.3.3).
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import numpy.typing as npt

from io_ark.errors import FormatError

Float64 = npt.NDArray[np.float64]

EPSILON = 2.0**-52  # Machine epsilon of float64.
TINY = float(np.finfo(np.float64).tiny)  # Smallest normal float64, which prevents divisions by zero.


def compute_eigenvectors(matrix: Float64) -> tuple[Float64, Float64]:
    """Return the eigenvalues of a symmetric matrix in descending order of their absolute values, and its eigenvectors.

    The eigenvectors of LAPACK, which NumPy calls, may have signs that differ from Kaldi's. This function uses Kaldi's
    algorithm, so the signs are Kaldi's, except for equal eigenvalues, whose eigenvectors depend on rounding errors.

    Args:
        matrix: symmetric matrix (dim, dim).

    Returns:
        The eigenvalues (dim,), and a matrix (dim, dim) with one eigenvector in each column, in the same order.

    Raises:
        FormatError: the matrix contains NaN or infinities, or the algorithm does not converge.
    """
    if not np.isfinite(matrix).all():
        raise FormatError("the covariance matrix contains NaN or infinities: scale the vectors down")
    diagonal, off_diagonal, rows = _tridiagonalize(matrix)
    _diagonalize(diagonal, off_diagonal, rows)
    values = np.array(diagonal)
    order = np.argsort(-np.abs(values), kind="stable")
    return values[order], rows[order].T


def _tridiagonalize(matrix: Float64) -> tuple[list[float], list[float], Float64]:
    """Return the diagonal (dim,) and the off-diagonal (dim - 1,) of ``rows @ matrix @ rows.T``, and also ``rows``.

    The orthogonal matrix ``rows`` (dim, dim) makes the symmetric ``matrix`` tridiagonal.
    """
    dim = len(matrix)
    work, rows = matrix.copy(), np.eye(dim)
    off_diagonal = [0.0] * (dim - 1)
    for k in range(dim - 1, 0, -1):
        row = work[k, :k].copy()
        reflector, factor = _compute_reflection(row)
        if not factor:  # The row is tridiagonal already, and the off-diagonal element keeps its sign.
            off_diagonal[k - 1] = float(row[-1])
            continue
        off_diagonal[k - 1] = math.sqrt(row @ row)
        block = work[:k, :k]
        product = factor * (block @ reflector)
        product -= 0.5 * factor * (product @ reflector) * reflector
        block -= np.outer(reflector, product) + np.outer(product, reflector)
        rows[:k] -= np.outer(factor * reflector, reflector @ rows[:k])
    return np.diagonal(work).tolist(), off_diagonal, rows


def _compute_reflection(row: Float64) -> tuple[Float64, float]:
    """Return ``reflector`` (n,) and ``factor`` of a Householder reflection of the vector ``row`` (n,).

    The reflection ``I - factor * outer(reflector, reflector)`` sets all elements of ``row`` except the last to 0. The
    factor is 0 if these elements are 0 already.
    """
    scaled = row / max(float(np.abs(row).max()), TINY)
    last, sum_of_squares = float(scaled[-1]), float(scaled[:-1] @ scaled[:-1])
    if sum_of_squares == 0:
        return scaled, 0.0
    norm = math.sqrt(last * last + sum_of_squares)
    pivot = last - norm if last <= 0 else -sum_of_squares / (last + norm)
    scaled[-1] = pivot
    return scaled / pivot, 2 * pivot * pivot / (sum_of_squares + pivot * pivot)


def _diagonalize(diagonal: list[float], off_diagonal: list[float], rows: Float64) -> None:
    """Diagonalize the result of :func:`_tridiagonalize`: ``diagonal`` gets the eigenvalues, ``rows`` the eigenvectors.

    All arguments are changed in place. Raise FormatError if the algorithm does not converge.
    """
    # As in Kaldi, at most 500 + 4 * dim steps are run. After 100 + 2 * dim steps, the tolerance doubles every 50 steps.
    dim, epsilon = len(diagonal), EPSILON
    for step in range(500 + 4 * dim):
        if step >= 100 + 2 * dim and (step - 100 - 2 * dim) % 50 == 0:
            epsilon *= 2
        sizes = [abs(value) for value in diagonal]
        for k, (left, right) in enumerate(itertools.pairwise(sizes)):
            if abs(off_diagonal[k]) <= epsilon * (left + right):
                off_diagonal[k] = 0.0
        # Rows `start` to `end - 1` are the last block of several rows in which no off-diagonal element is 0.
        end = dim
        while end > 1 and off_diagonal[end - 2] == 0:
            end -= 1
        if end == 1:
            return
        start = end - 2
        while start > 0 and off_diagonal[start - 1] != 0:
            start -= 1
        _run_qr_step(diagonal, off_diagonal, rows, start, end)
    message = "the algorithm for the eigenvalues of the covariance matrix does not converge: scale the vectors down"
    raise FormatError(message)


def _run_qr_step(diagonal: list[float], off_diagonal: list[float], rows: Float64, start: int, end: int) -> None:
    """Run one QR step with a Wilkinson shift on rows ``start`` to ``end - 1`` of the matrix in :func:`_diagonalize`.

    ``diagonal``, ``off_diagonal`` and ``rows`` are changed in place.
    """
    half_difference = (diagonal[end - 2] - diagonal[end - 1]) / 2
    scale = max(abs(half_difference), abs(off_diagonal[end - 2]), TINY)
    half, corner = half_difference / scale, off_diagonal[end - 2] / scale
    root = math.sqrt(half * half + corner * corner)
    shift = diagonal[end - 1] - scale * corner * corner / (half + (root if half > 0 else -root))
    x, bulge = diagonal[start] - shift, off_diagonal[start]
    for k in range(start, end - 1):
        c, s = _compute_rotation(x, bulge)
        # Rotate the symmetric block of rows k and k + 1, with the elements p, q, q and r, from both sides.
        p, q, r = diagonal[k], off_diagonal[k], diagonal[k + 1]
        diagonal[k] = c * (c * p - s * q) - s * (c * q - s * r)
        off_diagonal[k] = s * (c * p - s * q) + c * (c * q - s * r)
        diagonal[k + 1] = s * (s * p + c * q) + c * (s * q + c * r)
        if k > start:
            off_diagonal[k - 1] = c * off_diagonal[k - 1] - s * bulge
        upper, lower = rows[k], rows[k + 1]
        rows[k], rows[k + 1] = c * upper - s * lower, s * upper + c * lower
        if k < end - 2:
            bulge = -s * off_diagonal[k + 1]
            off_diagonal[k + 1] *= c
            x = off_diagonal[k]


def _compute_rotation(x: float, y: float) -> tuple[float, float]:
    """Return the cosine and sine of the rotation that maps ``(x, y)`` to a vector whose second element is 0."""
    if y == 0:
        return 1.0, 0.0
    if abs(y) > abs(x):
        ratio = -x / y
        s = 1 / math.sqrt(1 + ratio * ratio)
        return s * ratio, s
    ratio = -y / x
    c = 1 / math.sqrt(1 + ratio * ratio)
    return c, c * ratio
