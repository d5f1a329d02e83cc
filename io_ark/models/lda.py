"""Linear discriminant analysis (LDA) of i-vectors and x-vectors.

Source: Kaldi's ``src/ivectorbin/ivector-compute-lda.cc``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.errors import FormatError
from io_ark.logs import logger
from io_ark.models.eigen import compute_eigenvectors
from io_ark.models.speaker_statistics import check_vectors, format_vector, group_by_speaker, round_option

Array = npt.NDArray[Any]
Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Lda:
    """LDA transform. It subtracts the mean of all vectors and keeps the directions that best separate speakers.

    Attributes:
        matrix: Kaldi's ``transform.mat`` (dim, input dim + 1), which ``transform-vec`` applies. The last column is the
            offset that subtracts the mean.

    Raises:
        FormatError: the matrix does not have two dimensions, or is empty.

    >>> import numpy as np
    >>> from io_ark.models import Lda
    >>> rng = np.random.default_rng(0)
    >>> means = np.repeat(rng.standard_normal((20, 3)) * [9, 1, 0], 5, axis=0)
    >>> vectors = (means + rng.standard_normal((100, 3))).astype(np.float32)
    >>> lda = Lda.fit(vectors, speakers=np.repeat(np.arange(20), 5), dim=1)
    >>> lda, lda.matrix.shape, lda.transform_vectors(vectors).shape
    (Lda(dim=1), (1, 4), (100, 1))
    """

    matrix: Array

    def __post_init__(self) -> None:
        object.__setattr__(self, "matrix", np.asarray(self.matrix))
        if self.matrix.ndim != 2 or 0 in self.matrix.shape:
            raise FormatError(
                f"an LDA transform is a matrix, not an array of shape {self.matrix.shape}: "
                "pass a nonempty matrix of shape (dim, input dim + 1)"
            )

    def __repr__(self) -> str:
        return f"Lda(dim={self.dim})"

    @property
    def dim(self) -> int:
        """Number of dimensions of transformed vectors."""
        return len(self.matrix)

    @classmethod
    def fit(
        cls,
        vectors: npt.ArrayLike,
        speakers: Sequence[Any] | Array,
        *,
        dim: int,
        total_covariance_factor: float = 0.0,
        covariance_floor: float = 1e-6,
    ) -> Lda:
        """Estimate an LDA transform, like Kaldi's ``ivector-compute-lda``.

        The rows of the matrix are eigenvectors with Kaldi's signs. If eigenvalues are nearly equal, rounding errors
        determine the directions of their eigenvectors, in Kaldi as well.

        Args:
            vectors: i-vectors or x-vectors (vectors, input dim).
            speakers: speaker (vectors,) of each vector, as strings or integers.
            dim: number of dimensions of the transformed vectors.
            total_covariance_factor: weight of the total covariance, from 0 to 1, in the covariance that the transform
                maps to the unit matrix. The weight of the within-speaker covariance is ``1 - total_covariance_factor``.
            covariance_floor: lower limit of the eigenvalues of this covariance, relative to the largest eigenvalue.

        Raises:
            FormatError: the shapes are inconsistent, a vector is not finite, ``dim`` is not between 1 and the input
                dimension (inclusive), an option is not finite, ``covariance_floor`` is negative, there are too few
                vectors or speakers, or the covariance is singular.
        """
        array = check_vectors(vectors)
        num_vectors, input_dim = array.shape
        if not (isinstance(dim, (int, np.integer)) and 0 < dim <= input_dim):
            raise FormatError(f"dim={dim} must be an integer from 1 to {input_dim}, the dimension of the vectors")
        factor = round_option("total_covariance_factor", total_covariance_factor)
        floor = round_option("covariance_floor", covariance_floor, signed=False)
        center = compute_mean(array)
        logger.info("2-norm of iVector mean is %g", compute_norm(center))
        groups = [group.astype(np.float64) for group in group_by_speaker(array - center, speakers)]
        logger.info("Stats have %d speakers, %d utterances. ", len(groups), num_vectors)
        if len(groups) == 1:
            raise FormatError("all vectors are from one speaker: LDA needs at least 2 speakers")
        if len(groups) == num_vectors:
            raise FormatError("every speaker has only one vector: LDA needs a speaker with at least 2 vectors")
        if num_vectors < input_dim:
            raise FormatError(
                f"LDA of dimension {input_dim} needs at least {input_dim} vectors, not {num_vectors}: add vectors"
            )
        means = np.array([group.mean(axis=0) for group in groups])
        deviations = np.concatenate([group - mean for group, mean in zip(groups, means, strict=True)])
        weighted_means = means * np.sqrt([[len(group)] for group in groups])
        within = deviations.T @ deviations / num_vectors
        between = weighted_means.T @ weighted_means / num_vectors
        # The first argument is equal to factor * total + (1 - factor) * within, because total is within + between.
        linear = _find_discriminants(within + factor * between, between, factor, floor)[:dim].astype(array.dtype)
        # Use double precision. In single precision, the last digit would depend on the order in which BLAS adds.
        offset = 0 - linear.astype(np.float64) @ center
        return cls(np.append(linear, offset[:, None], axis=1).astype(np.float32))

    def transform_vectors(self, vectors: npt.ArrayLike) -> Array:
        """Transform vectors, like Kaldi's ``transform-vec``.

        Args:
            vectors: i-vectors or x-vectors (..., input dim).

        Returns:
            Transformed vectors (..., dim).

        Raises:
            FormatError: the vectors do not have the dimension of the transform.
        """
        array = np.asarray(vectors)
        if array.ndim == 0 or array.shape[-1] != self.matrix.shape[1] - 1:
            expected = self.matrix.shape[1] - 1
            raise FormatError(
                f"vectors of shape {array.shape} do not fit an LDA transform of {expected} dimensions: "
                f"pass vectors of {expected} dimensions"
            )
        return np.asarray(array @ self.matrix[:, :-1].T + self.matrix[:, -1])


def compute_mean(vectors: Array) -> Array:
    """Return the mean (dim,) of vectors (vectors, dim) in their dtype, with the rounding errors of Kaldi's program.

    Each vector is scaled before it is added. Therefore, the mean of six ones and -6 is not exactly 0.
    """
    factor = 1.0 / len(vectors)
    mean = np.zeros(vectors.shape[1])
    for vector in vectors:
        mean += factor * vector.astype(np.float64)
    return mean.astype(vectors.dtype)


def compute_norm(vector: Array) -> float:
    """Return the Euclidean norm of a vector (dim,). As in Kaldi, the squares are added in the vector's precision."""
    return float(np.sqrt(np.add.accumulate(np.square(vector))[-1]))


def _find_discriminants(covariance: Float64, between: Float64, factor: float, floor: float) -> Float64:
    """Return the directions that separate speakers, from the best to the worst, as rows of a matrix (dim, dim).

    The directions transform ``covariance`` (dim, dim) to the unit matrix, after its eigenvalues were limited to at
    least ``floor`` times the largest eigenvalue. ``between`` (dim, dim) is the between-speaker covariance. ``factor``,
    the weight of the total covariance in ``covariance``, is only logged. Raise FormatError for a singular covariance.
    """
    values, vectors = compute_eigenvectors(covariance)
    min_value = floor * values[0]
    if num_floored := int((values < min_value).sum()):
        logger.warning("Floored %d eigenvalues of covariance to %g", num_floored, min_value)
    with np.errstate(divide="ignore", invalid="ignore"):
        whitening = np.maximum(values, min_value)[:, None] ** -0.5 * vectors.T
    if not np.isfinite(whitening).all():
        raise FormatError("the covariance is singular: increase covariance_floor, or add vectors")
    values, vectors = compute_eigenvectors(whitening @ between @ whitening.T)
    logger.info(
        "Singular values of between-class covariance after projecting with interpolated [total/within] covariance "
        "with a weight of %g on the total covariance, are: %s", factor, format_vector(values),
    )  # fmt: skip
    linear: Float64 = vectors.T @ whitening
    return linear
