"""Linear and affine transforms of features: LDA, MLLT, fMLLR (Kaldi: src/transform/transform-common.cc, featbin).

A transform is a matrix ``(out, dim)``, or ``(out, dim + 1)`` whose last column is an offset. TF32 and automatic mixed
precision do not change the results. NumPy arrays in float32 give Kaldi's bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kaldi_compat.errors import FeatureError
from kaldi_compat.exact.products import multiply_by_transpose, multiply_matrices
from kaldi_compat.functional.array_api import Array, astype, concatenate, convert_like, full, get_namespace, to_float64
from kaldi_compat.functional.batches import check_features

__all__ = ["apply_transform", "compose_transforms", "extend_transform", "full_lda"]


def apply_transform(features: Array, transform: Any) -> Array:
    """Transform each frame by ``A x`` or ``A x + b``, according to the shape of the transform (Kaldi: transform-feats).

    Args:
        features: ``(..., frames, dim)``, NumPy or torch.
        transform: ``(out, dim)`` for ``A``, or ``(out, dim + 1)`` for ``A`` and ``b``. Leading axes ``(...)`` give each
            utterance of a batch its own transform.

    Returns:
        Transformed features ``(..., frames, out)``.

    Raises:
        FeatureError: the features are not floating-point numbers ``(..., frames, dim)``, or the transform does not
            have ``dim`` or ``dim + 1`` columns.

    >>> import numpy as np
    >>> from kaldi_compat.functional.transform import apply_transform
    >>> apply_transform(np.array([[1.0, 2.0]]), np.array([[1.0, 1.0, 10.0]])).tolist()
    [[13.0]]
    """
    check_features(features)
    dim = features.shape[-1]
    matrix = astype(convert_like(transform, features), features.dtype)
    shape = tuple(matrix.shape)
    if len(shape) < 2 or shape[-1] not in (dim, dim + 1):
        raise FeatureError(
            f"a transform of shape {shape} does not fit features of dimension {dim}: "
            f"pass a matrix with {dim} or {dim + 1} columns"
        )
    transformed: Any
    if isinstance(features, np.ndarray) and features.dtype == np.float32 and features.ndim == matrix.ndim == 2:
        transformed = multiply_by_transpose(features, matrix[:, :dim])
    else:
        transformed = _multiply_in_double(features, get_namespace(features).swapaxes(matrix[..., :dim], -1, -2))
    if shape[-1] == dim + 1:
        transformed = transformed + matrix[..., None, :, dim]
    result: Array = transformed
    return result


def _multiply_in_double(a: Array, b: Array) -> Array:
    """Return ``a @ b`` in the dtype of ``a``, computed in double precision, which no mode of torch affects."""
    return astype(to_float64(a) @ to_float64(b), a.dtype)


def _check_matrices(*transforms: Array) -> None:
    """Raise FeatureError for a transform that is a vector or a number."""
    for transform in transforms:
        if transform.ndim < 2:
            raise FeatureError(f"a transform of shape {tuple(transform.shape)} is not a matrix: pass a matrix")


def compute_log_determinant(transform: Array, dim: int) -> float:
    """Return ``log det(A A^T) / 2`` of the linear part ``A`` of a transform. For a square ``A``, it is ``log |det A|``.

    ``transform`` is ``A`` (out, dim), or (out, dim + 1) with an offset in the last column.
    """
    linear = to_float64(transform)[..., :dim]
    xp = get_namespace(linear)
    return 0.5 * float(xp.linalg.slogdet(linear @ xp.swapaxes(linear, -1, -2))[1])


def compose_transforms(a: Array, b: Array, *, b_is_affine: bool = False) -> Array:
    """Return the transform that applies ``b`` first, then ``a`` (Kaldi: ComposeTransforms).

    Args:
        a: ``(..., out, middle)``, or ``(..., out, middle + 1)`` with an offset.
        b: ``(..., middle, dim)``, or ``(..., middle, dim + 1)`` with an offset.
        b_is_affine: True if ``b`` has an offset, which its shape does not show. Ignored if ``a`` has no offset.

    Returns:
        ``(..., out, columns of b)``, or one more column if ``a`` has an offset and ``b_is_affine`` is False.

    Raises:
        FeatureError: the shapes do not match, or a matrix is empty.

    >>> import numpy as np
    >>> from kaldi_compat.functional.transform import compose_transforms
    >>> compose_transforms(np.array([[2.0, 5.0]]), np.array([[3.0, 1.0]]), b_is_affine=True).tolist()
    [[6.0, 7.0]]
    """
    _check_matrices(a, b)
    rows, columns = b.shape[-2], a.shape[-1]
    if rows == 0 or columns == 0:
        raise FeatureError("a transform must not be an empty matrix: check the file that it was read from")
    if columns not in (rows, rows + 1):
        raise FeatureError(
            f"a transform with {columns} columns cannot follow one with {rows} rows: check the order of the transforms"
        )
    xp = get_namespace(a)
    matrix = astype(b, a.dtype)
    if columns == rows + 1:
        batch: tuple[int, ...] = matrix.shape[:-2]
        if not b_is_affine:
            matrix = xp.concatenate((matrix, full((*batch, rows, 1), 0.0, matrix)), axis=-1)
        # The row (0 ... 0, 1) keeps the 1 that the offset of ``a`` multiplies.
        last_row = full((*batch, 1, matrix.shape[-1] - 1), 0.0, matrix), full((*batch, 1, 1), 1.0, matrix)
        matrix = xp.concatenate((matrix, xp.concatenate(last_row, axis=-1)), axis=-2)
    if isinstance(a, np.ndarray) and a.dtype == np.float32:
        return multiply_matrices(a, matrix)
    return _multiply_in_double(a, matrix)


def extend_transform(transform: Array, new_dimension: int) -> Array:
    """Extend a transform to more dimensions, which it leaves unchanged (Kaldi: extend-transform-dim).

    Args:
        transform: ``(..., d, d)`` or ``(..., d, d + 1)``.
        new_dimension: number of dimensions ``e`` of the result, at least ``d``.

    Returns:
        The transform ``(..., e, e)`` or ``(..., e, e + 1)``.

    Raises:
        FeatureError: the transform has neither ``d`` nor ``d + 1`` columns, or the new dimension is less than ``d``.

    >>> import numpy as np
    >>> from kaldi_compat.functional.transform import extend_transform
    >>> extend_transform(np.array([[2.0, 5.0]]), 2).tolist()
    [[2.0, 0.0, 5.0], [0.0, 1.0, 0.0]]
    """
    _check_matrices(transform)
    *batch, dim, columns = transform.shape
    if new_dimension < dim:
        raise FeatureError(f"the new dimension {new_dimension} must be at least {dim}, the dimension of the transform")
    if columns not in (dim, dim + 1):
        raise FeatureError(
            f"a transform of {dim} x {columns} is neither linear nor affine in {dim} dimensions: "
            f"it needs {dim} or {dim + 1} columns"
        )
    extended = full((*batch, new_dimension, new_dimension + columns - dim), 0.0, transform)
    extended[..., :dim, :dim] = transform[..., :dim]
    extended[..., :dim, new_dimension:] = transform[..., dim:]
    new_indices = np.arange(dim, new_dimension)
    extended[..., new_indices, new_indices] = 1
    return extended


def full_lda(lda_mllt: Array, lda: Array) -> Array:
    """Append the missing rows of a full LDA matrix to an LDA+MLLT matrix (Kaldi: get-full-lda-mat).

    Args:
        lda_mllt: ``(rows, dim)``, with at most ``dim`` rows.
        lda: ``(dim, dim)``, from est-lda.

    Returns:
        ``(dim, dim)``: the rows of ``lda_mllt``, followed by the last rows of ``lda``.

    Raises:
        FeatureError: the shapes do not match.

    >>> import numpy as np
    >>> from kaldi_compat.functional.transform import full_lda
    >>> full_lda(np.array([[7.0, 8.0]]), np.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[7.0, 8.0], [3.0, 4.0]]
    """
    _check_matrices(lda_mllt, lda)
    rows, columns = lda.shape
    if rows != columns or lda_mllt.shape[1] != columns or lda_mllt.shape[0] > rows:
        raise FeatureError(
            f"an LDA+MLLT matrix of {lda_mllt.shape[0]} x {lda_mllt.shape[1]} does not match"
            f" a full LDA matrix of {rows} x {columns}: "
            "pass matrices of the same training"
        )
    return concatenate((lda_mllt, lda[lda_mllt.shape[0] :]), axis=0)
