"""Statistics of the vectors of speakers, from which PLDA and LDA are estimated.

Source: Kaldi's ``src/ivector/plda.cc``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.errors import FormatError
from io_ark.logs import logger
from io_ark.models.eigen import compute_eigenvectors

Array = npt.NDArray[Any]
Float64 = npt.NDArray[np.float64]


def check_vectors(vectors: npt.ArrayLike) -> Array:
    """Convert vectors to an array of shape (vectors, dim), float32 if they are float32, otherwise float64.

    Raise FormatError if the array does not have two dimensions, is empty, or contains NaN or infinities.
    """
    array = np.asarray(vectors)
    if array.ndim != 2 or 0 in array.shape:
        advice = ": pass list(vectors.values())" if isinstance(vectors, Mapping) else ""
        raise FormatError(f"expected a nonempty array of shape (vectors, dim), not {array.shape}{advice}")
    array = array if array.dtype == np.float32 else array.astype(np.float64)
    if invalid := np.flatnonzero(~np.isfinite(array).all(axis=1)).tolist():
        raise FormatError(f"vector {invalid[0]} contains NaN or infinities: remove the vector")
    return array


def round_option(name: str, value: float, *, signed: bool = True) -> float:
    """Round the value of the option ``name`` to float32, the precision of Kaldi's options.

    Raise FormatError if the value is not finite in this precision, or if it is negative and ``signed`` is False.
    """
    with np.errstate(over="ignore"):
        rounded = float(np.float32(value))
    if not np.isfinite(rounded):
        raise FormatError(f"{name}={value} must be finite in single precision")
    if rounded < 0 and not signed:
        raise FormatError(f"{name}={value:g} must not be negative")
    return rounded


def group_by_speaker(vectors: Array, speakers: Sequence[Any] | Array) -> Iterator[Array]:
    """Yield the vectors of each speaker, in the order of the sorted speakers.

    ``speakers`` (vectors,) has the speaker of each row of ``vectors`` (vectors, dim), as strings or integers. Raise
    FormatError if the number of speakers differs from the number of vectors, or speakers cannot be compared.
    """
    if np.shape(speakers) != vectors.shape[:1]:
        raise FormatError(f"expected {len(vectors)} speakers, not an array of shape {np.shape(speakers)}")
    try:
        indices = np.unique(np.asarray(speakers), return_inverse=True)[1].reshape(-1)
    except TypeError:
        raise FormatError("speakers must be strings or integers, all of one type") from None
    order = np.argsort(indices, kind="stable")
    bounds = np.flatnonzero(np.diff(indices[order])) + 1
    yield from (vectors[group] for group in np.split(order, bounds))


class PldaStatistics:
    """Sums over the vectors of speakers, and the EM algorithm that estimates a PLDA model from the sums.

    Attributes:
        num_speakers: number of added speakers.
        num_vectors: number of added vectors.
    """

    def __init__(self) -> None:
        self.num_speakers = self.num_vectors = 0
        self._scatter = np.zeros((0, 0))  # Sum (dim, dim) of outer products of deviations from the speakers' means.
        self._means: dict[int, list[Float64]] = defaultdict(list)  # Maps numbers of vectors to speakers' means.

    @property
    def dim(self) -> int:
        """Number of dimensions of the vectors, or 0 before the first vector."""
        return len(self._scatter)

    def add_speaker(self, vectors: Array) -> None:
        """Add the vectors of one speaker, an array of shape (vectors, dim). All speakers must have the same ``dim``."""
        if not self.num_speakers:
            self._scatter = np.zeros((vectors.shape[1],) * 2)
        doubles = vectors.astype(np.float64)
        mean = doubles.mean(axis=0)
        deviations = doubles - mean
        self._scatter += deviations.T @ deviations
        self._means[len(doubles)].append(mean)
        self.num_speakers += 1
        self.num_vectors += len(doubles)

    def check_counts(self) -> None:
        """Raise FormatError if there are at most ``dim`` vectors, one speaker, or only speakers with one vector."""
        dim = self.dim
        if self.num_vectors <= dim:
            raise FormatError(
                f"PLDA of dimension {dim} needs at least {dim + 1} vectors, not {self.num_vectors}: add vectors"
            )
        if self.num_speakers == 1:
            raise FormatError("all vectors are from one speaker: PLDA needs at least 2 speakers")
        if self.num_speakers == self.num_vectors:
            raise FormatError("every speaker has only one vector: PLDA needs a speaker with at least 2 vectors")

    def estimate_plda(self, num_em_iters: int) -> tuple[Float64, Float64, Float64]:
        """Return ``mean`` (dim,), ``transform`` (dim, dim) and ``psi`` (dim,) of :class:`io_ark.models.plda.Plda`.

        The model is estimated with ``num_em_iters`` iterations of the EM algorithm. ``mean`` is the mean of the
        speakers' means. Raise FormatError for too few vectors (see :meth:`check_counts`) or a singular covariance.
        """
        self.check_counts()
        means_by_count = {count: np.array(means) for count, means in sorted(self._means.items())}
        mean = np.concatenate([*means_by_count.values()]).mean(axis=0)
        centered = {count: means - mean for count, means in means_by_count.items()}
        within: Float64 = np.eye(len(mean))
        between: Float64 = np.eye(len(mean))
        for iteration in range(num_em_iters):
            logger.info("Plda estimation iteration %d of %d", iteration, num_em_iters)
            within, between = self._run_em_iteration(within, between, centered)
            logger.info("Trace of within-class variance is %g", np.trace(within))
            logger.info("Trace of between-class variance is %g", np.trace(between))
        logger.info("Norm of mean of iVector distribution is %g", np.linalg.norm(mean))
        transform, psi = diagonalize_covariances(within, between)
        psi = np.maximum(psi, 0)  # Rounding errors may make a variance of zero negative.
        logger.info("Diagonal of between-class variance in normalized space is %s", format_vector(psi))
        return mean, transform, psi

    def _run_em_iteration(
        self, within: Float64, between: Float64, centered: dict[int, Float64]
    ) -> tuple[Float64, Float64]:
        """Return the within-speaker and between-speaker covariances after one iteration of EM.

        The mean of a speaker with n vectors is ``x + y``, with the hidden variables ``x ~ N(0, between)`` and
        ``y ~ N(0, within / n)``. The two variables have the posterior covariance ``inv(inv(between) + n inv(within))``.
        ``within`` and ``between`` (dim, dim) are the covariances before the iteration. ``centered`` maps n to the means
        of the speakers with n vectors, minus the global mean, (speakers, dim).
        """
        within_precision, between_precision = _invert_covariance(within), _invert_covariance(between)
        within_sum, between_sum = self._scatter.copy(), np.zeros_like(between)
        for count, means in centered.items():
            posterior = _invert_covariance(between_precision + count * within_precision)
            expected_x = means @ (count * within_precision) @ posterior
            expected_y = means - expected_x
            between_sum += len(means) * posterior + expected_x.T @ expected_x
            within_sum += count * (len(means) * posterior + expected_y.T @ expected_y)
        return within_sum / self.num_vectors, between_sum / self.num_speakers


def diagonalize_covariances(within: Float64, between: Float64) -> tuple[Float64, Float64]:
    """Return the transform to a unit within-speaker covariance and a diagonal between-speaker covariance, and ``psi``.

    The transform (dim, dim) applies to column vectors. ``psi`` (dim,) has the between-speaker variances after the
    transform, in descending order of their absolute values. Raise FormatError if ``within`` is singular.
    """
    try:
        whitening = _invert_covariance(np.linalg.cholesky(within))
    except np.linalg.LinAlgError:
        raise FormatError(_SINGULAR) from None
    psi, vectors = compute_eigenvectors(whitening @ between @ whitening.T)
    return vectors.T @ whitening, psi


_SINGULAR = (
    "the within-speaker covariance matrix is singular: remove constant and linearly dependent elements of the vectors"
)


def _invert_covariance(matrix: Array) -> Float64:
    """Invert a covariance matrix or its Cholesky factor. Raise FormatError if the matrix is singular."""
    try:
        inverse = np.linalg.inv(matrix)
    except np.linalg.LinAlgError:
        raise FormatError(_SINGULAR) from None
    if not np.isfinite(inverse).all():
        raise FormatError(_SINGULAR)
    return np.asarray(inverse)


def format_vector(values: Float64) -> str:
    """Format a vector like Kaldi's logs: `` [ 1 0.5 ]``, with six significant digits."""
    return f" [ {' '.join(f'{value:g}' for value in values.tolist())} ]"
