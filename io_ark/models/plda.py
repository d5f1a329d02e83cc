"""Probabilistic linear discriminant analysis (PLDA) of i-vectors and x-vectors.

Source: Kaldi's ``src/ivector/plda.cc`` and ``src/ivectorbin/ivector-plda-scoring.cc``, after Ioffe, "Probabilistic
Linear Discriminant Analysis" (ECCV 2006).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.codecs.base import register_kind
from io_ark.codecs.matrix import MatrixCodec
from io_ark.codecs.vector import VectorCodec
from io_ark.errors import FormatError
from io_ark.logs import logger
from io_ark.models.eigen import compute_eigenvectors
from io_ark.models.fields import Array, Field, ModelCodec, set_arrays
from io_ark.models.speaker_statistics import (
    PldaStatistics,
    check_vectors,
    diagonalize_covariances,
    format_vector,
    group_by_speaker,
    round_option,
)

Float64 = npt.NDArray[np.float64]


@register_kind("plda")
@dataclass(frozen=True, eq=False, repr=False)
class Plda:
    """PLDA model. In the transformed space, vectors of a speaker are the speaker mean plus noise of unit variance.

    Attributes:
        mean: mean (dim,) that is subtracted from vectors.
        transform: matrix (dim, dim) with which ``transform @ (vector - mean)`` has a unit within-speaker covariance and
            a diagonal between-speaker covariance.
        psi: between-speaker variances (dim,) after the transform.

    Raises:
        FormatError: the shapes are inconsistent.

    >>> import numpy as np
    >>> from io_ark.models import Plda
    >>> plda = Plda(mean=np.zeros(2), transform=np.eye(2), psi=np.array([9.0, 1.0]))
    >>> speakers = np.array([[3.0, 1.0], [-2.0, 1.0]])
    >>> plda.score(speakers, np.array([[2.9, 0.8]])).round(2)
    array([[ 1.82],
           [-9.14]])
    """

    mean: Float64
    transform: Float64
    psi: Float64

    def __post_init__(self) -> None:
        dim = len(self.mean)
        if dim == 0:
            raise FormatError("the PLDA model has no dimensions: mean must not be empty")
        set_arrays(self, np.float64, mean=(dim,), transform=(dim, dim), psi=(dim,))

    def __repr__(self) -> str:
        return f"Plda(dim={self.dim})"

    @property
    def dim(self) -> int:
        """Number of dimensions of the vectors."""
        return len(self.mean)

    @classmethod
    def fit(cls, vectors: npt.ArrayLike, speakers: Sequence[Any] | Array, *, num_em_iters: int = 10) -> Plda:
        """Estimate a PLDA model in float64, like Kaldi's ``ivector-compute-plda``.

        The rows of ``transform`` are eigenvectors with Kaldi's signs. If values of ``psi`` are nearly equal, rounding
        errors determine the directions of their eigenvectors, in Kaldi as well. Scores do not depend on the signs.

        Args:
            vectors: i-vectors or x-vectors (vectors, dim).
            speakers: speaker (vectors,) of each vector, as strings or integers.
            num_em_iters: number of iterations of the EM algorithm.

        Raises:
            FormatError: the shapes are inconsistent, a vector is not finite, the number of vectors is not larger than
                ``dim``, all vectors are from one speaker, every speaker has only one vector, or the within-speaker
                covariance is singular.
        """
        statistics = PldaStatistics()
        for group in group_by_speaker(check_vectors(vectors), speakers):
            statistics.add_speaker(group)
        return cls(*statistics.estimate_plda(num_em_iters))

    def adapt(
        self,
        vectors: npt.ArrayLike,
        *,
        mean_diff_scale: float = 1.0,
        within_covar_scale: float = 0.3,
        between_covar_scale: float = 0.7,
    ) -> Plda:
        """Return a copy adapted to another domain by vectors of unknown speakers, like Kaldi's ``ivector-adapt-plda``.

        The mean becomes the mean of the vectors. In directions in which the variance of the vectors exceeds the total
        variance of the model, parts of the excess are added to both covariances of the model.

        Args:
            vectors: vectors (vectors, dim) with the same preprocessing as the training vectors of the model.
            mean_diff_scale: factor of the outer product of the mean's change, which is added to the variance.
            within_covar_scale: share of the excess that is added to the within-speaker covariance.
            between_covar_scale: share of the excess that is added to the between-speaker covariance.

        Raises:
            FormatError: the vectors do not have the model's dimension, a vector or a scale is not finite,
                ``mean_diff_scale`` is negative, ``within_covar_scale`` makes the within-speaker covariance negative, or
                the transform of the model has no inverse.
        """
        array = check_vectors(vectors).astype(np.float64)
        if array.shape[1] != self.dim:
            raise FormatError(
                f"vectors of {array.shape[1]} dimensions do not fit a PLDA model of {self.dim} dimensions: pass "
                f"vectors of {self.dim} dimensions"
            )
        shift_scale = round_option("mean_diff_scale", mean_diff_scale, signed=False)
        within_scale = round_option("within_covar_scale", within_covar_scale)
        between_scale = round_option("between_covar_scale", between_covar_scale)
        mean = array.mean(axis=0)
        deviations, shift = array - mean, mean - self.mean
        variance = deviations.T @ deviations / len(array) + shift_scale * np.outer(shift, shift)
        whitening = self.transform * (1 + self.psi)[:, None] ** -0.5  # Maps the total covariance to the unit matrix.
        values, vectors_of_variance = compute_eigenvectors(whitening @ variance @ whitening.T)
        logger.info(
            "Eigenvalues of adaptation-data total-covariance in space where training-data total-covariance is unit, "
            "is: %s", format_vector(values),
        )  # fmt: skip
        # Express the model's covariances in the basis of these eigenvectors, in which their sum is the unit matrix.
        rotation = vectors_of_variance.T
        within, between = ((rotation * share) @ rotation.T for share in (1 / (1 + self.psi), self.psi / (1 + self.psi)))
        for i, (value, within_variance, between_variance) in enumerate(
            zip(values.tolist(), np.diagonal(within), np.diagonal(between), strict=True)
        ):
            logger.info(
                "For %d'th eigenvalue, value is %g, within-class covar in this direction is %g, between-class is %g",
                i, value, np.float32(within_variance), np.float32(between_variance),  # Kaldi rounds both.
            )  # fmt: skip
        excess = np.maximum(values - 1, 0)
        within, between = within + np.diag(excess * within_scale), between + np.diag(excess * between_scale)
        if np.linalg.eigvalsh(within)[0] <= 0:
            raise FormatError(
                f"within_covar_scale={within_covar_scale:g} makes the within-speaker covariance negative: increase it"
            )
        try:
            inverse = np.linalg.inv(rotation @ whitening)
        except np.linalg.LinAlgError:
            raise FormatError("the transform of the PLDA model has no inverse: fit the model again") from None
        transform, psi = diagonalize_covariances(inverse @ within @ inverse.T, inverse @ between @ inverse.T)
        logger.info(
            "Old diagonal of between-class covar was: %s, new diagonal is %s",
            format_vector(self.psi), format_vector(psi),
        )  # fmt: skip
        return Plda(mean, transform, psi)

    def arrays(self) -> dict[str, Array]:
        """Return the parameters as "mu", "tr" and "psi", which DiariZen and pyannote.audio read from ``plda.npz``."""
        return {"mu": self.mean, "tr": self.transform, "psi": self.psi}

    def transform_vectors(
        self,
        vectors: npt.ArrayLike,
        num_utts: npt.ArrayLike = 1,
        *,
        normalize_length: bool = True,
        simple_length_normalization: bool = False,
    ) -> Array:
        """Map vectors to the space of the model, in which they are compared, like Kaldi's ``Plda::TransformIvector``.

        Args:
            vectors: vectors (..., dim) with the same preprocessing as the training vectors of the model.
            num_utts: number of utterances that a vector averages, as a number or an array of shape (...).
            normalize_length: True to scale each vector to the length that the model expects. A vector that equals
                ``self.mean`` becomes NaN.
            simple_length_normalization: True to make ``normalize_length`` scale vectors to the length ``sqrt(dim)``.

        Returns:
            Mapped vectors (..., dim). They are computed in float64, and rounded if ``vectors`` are float32.

        Raises:
            FormatError: the dimension of vectors or shape of ``num_utts`` is wrong, or ``num_utts`` is not positive.
        """
        array = np.asarray(vectors)
        if array.ndim == 0 or array.shape[-1] != self.dim:
            raise FormatError(
                f"vectors of shape {array.shape} do not fit a PLDA model of {self.dim} dimensions: pass vectors of "
                f"{self.dim} dimensions"
            )
        mapped = array.astype(np.float64) @ self.transform.T - self.transform @ self.mean
        if normalize_length:
            factors = self.compute_length_factors(
                mapped, num_utts, simple_length_normalization=simple_length_normalization
            )
            with np.errstate(invalid="ignore"):  # A vector of zeros becomes NaN, as in Kaldi.
                mapped *= factors[..., None]
        else:
            _broadcast_counts(num_utts, array.shape[:-1])
        return np.asarray(mapped, array.dtype if array.dtype == np.float32 else np.float64)

    def compute_length_factors(
        self, mapped: npt.ArrayLike, num_utts: npt.ArrayLike = 1, *, simple_length_normalization: bool = False
    ) -> Float64:
        """Compute the factors by which the option ``normalize_length`` of :meth:`transform_vectors` scales vectors.

        Args:
            mapped: output (..., dim) of :meth:`transform_vectors` with ``normalize_length=False``.
            num_utts, simple_length_normalization: see :meth:`transform_vectors`.

        Returns:
            Factor of each vector, (...).

        Raises:
            FormatError: a number of utterances is not positive, or ``num_utts`` is neither a number nor of shape (...).
        """
        squares = np.asarray(mapped, np.float64) ** 2
        counts = _broadcast_counts(num_utts, squares.shape[:-1])
        expected_squares = np.ones(self.dim) if simple_length_normalization else self.psi + 1 / counts[..., None]
        with np.errstate(divide="ignore", invalid="ignore"):
            factors: Float64 = np.sqrt(self.dim / (squares / expected_squares).sum(axis=-1))
        return factors

    def score(
        self,
        enrolled: npt.ArrayLike,
        tested: npt.ArrayLike,
        num_utts: npt.ArrayLike = 1,
        *,
        normalize_length: bool = True,
        simple_length_normalization: bool = False,
    ) -> Float64:
        """Return log-likelihood ratios of all pairs of a speaker and an utterance, like ``ivector-plda-scoring``.

        Args:
            enrolled: mean vectors (speakers, dim) of the utterances of each speaker.
            tested: vectors (utterances, dim) of the utterances.
            num_utts: number of utterances of each speaker, as a number or an array (speakers,).
            normalize_length, simple_length_normalization: see :meth:`transform_vectors`.

        Returns:
            Log-likelihood ratios (speakers, utterances). A positive number favors the same speaker.

        Raises:
            FormatError: the dimension of vectors or shape of ``num_utts`` is wrong, or ``num_utts`` is not positive.
        """
        options = {"normalize_length": normalize_length, "simple_length_normalization": simple_length_normalization}
        return self.log_likelihood_ratios(
            self.transform_vectors(enrolled, num_utts, **options), self.transform_vectors(tested, **options), num_utts
        )

    def log_likelihood_ratios(
        self, enrolled: npt.ArrayLike, tested: npt.ArrayLike, num_utts: npt.ArrayLike = 1
    ) -> Float64:
        """Return log-likelihood ratios of all pairs of a speaker and an utterance, from mapped vectors.

        The formula is from Kaldi's ``Plda::LogLikelihoodRatio``. :meth:`score` maps the vectors first.

        Args:
            enrolled: vectors (speakers, dim) of speakers that :meth:`transform_vectors` has mapped.
            tested: vectors (utterances, dim) of utterances that :meth:`transform_vectors` has mapped.
            num_utts: number of utterances that a speaker's vector averages, as a number or an array (speakers,).

        Returns:
            Log-likelihood ratios (speakers, utterances).

        Raises:
            FormatError: the shapes are inconsistent, or a number of utterances is not positive.
        """
        speakers, utterances = self._convert_vectors(enrolled, tested)
        scale = _broadcast_counts(num_utts, speakers.shape[:1])[:, None] * self.psi
        means = scale / (scale + 1) * speakers
        precisions, unknown_precisions = 1 / (1 + self.psi / (scale + 1)), 1 / (1 + self.psi)
        squares = utterances**2
        log_dets = np.log(precisions).sum(axis=1) - np.log(unknown_precisions).sum()
        distances = (means**2 * precisions).sum(axis=1)[:, None] - 2 * (means * precisions) @ utterances.T
        scores: Float64 = 0.5 * (log_dets[:, None] - distances - precisions @ squares.T + squares @ unknown_precisions)
        return scores

    def score_trials(self, enrolled: npt.ArrayLike, tested: npt.ArrayLike, num_utts: npt.ArrayLike = 1) -> Float64:
        """Return the log-likelihood ratio of each trial: row ``i`` of ``enrolled`` against row ``i`` of ``tested``.

        The formula is from Kaldi's ``Plda::LogLikelihoodRatio``. :meth:`log_likelihood_ratios` scores all pairs.

        Args:
            enrolled: speaker vectors (trials, dim) that :meth:`transform_vectors` has mapped.
            tested: vectors of the tested utterances (trials, dim), mapped in the same way.
            num_utts: number of enrollment utterances of the speaker of each trial, as a number or an array (trials,).

        Returns:
            Log-likelihood ratios (trials,). A positive number favors the same speaker.

        Raises:
            FormatError: the shapes are inconsistent, or a number of utterances is not positive.

        >>> import numpy as np
        >>> from io_ark.models import Plda
        >>> plda = Plda(np.zeros(1), np.eye(1), np.ones(1))
        >>> plda.score_trials([[1.0], [1.0]], [[1.0], [-1.0]]).round(2).tolist()
        [0.31, -0.36]
        """
        speakers, utterances = self._convert_vectors(enrolled, tested)
        if len(speakers) != len(utterances):
            raise FormatError(
                f"expected equal numbers of speakers and utterances, not {len(speakers)} and {len(utterances)}: "
                "pass one speaker vector and one utterance vector for each trial"
            )
        counts, count_indices = np.unique(_broadcast_counts(num_utts, speakers.shape[:1]), return_inverse=True)
        scale = counts[:, None] * self.psi
        precisions, unknown_precisions = 1 / (1 + self.psi / (scale + 1)), 1 / (1 + self.psi)
        log_dets = np.log(precisions).sum(axis=1) - np.log(unknown_precisions).sum()
        deviations = (scale / (scale + 1))[count_indices]
        deviations *= speakers
        np.subtract(utterances, deviations, out=deviations)
        np.square(deviations, out=deviations)
        deviations *= precisions[count_indices]
        # The distances are subtracted before they are added, so that trials of a model without variation between
        # speakers score 0.
        excess = np.square(utterances, order="C")
        excess *= unknown_precisions
        excess -= deviations
        scores: Float64 = 0.5 * (log_dets[count_indices] + excess.sum(axis=1))
        return scores

    def _convert_vectors(self, enrolled: npt.ArrayLike, tested: npt.ArrayLike) -> tuple[Float64, Float64]:
        """Return both arrays in float64. Raise FormatError unless their shapes are (vectors, dim)."""
        speakers, utterances = np.asarray(enrolled, np.float64), np.asarray(tested, np.float64)
        for vectors in speakers, utterances:
            if vectors.ndim != 2 or vectors.shape[1] != self.dim:
                raise FormatError(f"expected vectors of shape (trials, {self.dim}), not of shape {vectors.shape}")
        return speakers, utterances

    def smooth(self, factor: float) -> Plda:
        """Return a model with more within-speaker covariance, like Kaldi's ``ivector-copy-plda --smoothing``.

        Args:
            factor: share of the between-speaker covariance that is added to the within-speaker covariance, from 0 to 1.

        Raises:
            FormatError: the factor is below 0 or above 1.
        """
        if not 0 <= factor <= 1:
            raise FormatError(f"the smoothing factor must be between 0 and 1, not {factor}")
        share = round_option("smoothing", factor)
        logger.info("Smoothing within-class covariance by %g, Psi is initially: %s", share, format_vector(self.psi))
        within = _add_to_one(share, self.psi)
        # The last bit of NumPy's ** depends on the processor. float_power calls the C library's pow(), as Kaldi does.
        smoothed = Plda(self.mean, self.transform * np.float_power(within, -0.5)[:, None], self.psi / within)
        logger.info("New value of Psi is %s", format_vector(smoothed.psi))
        return smoothed


def _add_to_one(factor: float, x: Float64) -> Float64:
    """Return ``1 + factor * x`` of a vector, rounded once, like the fused multiply-adds of Kaldi's BLAS."""
    numbers = x.tolist()
    return np.array([float(1 + Fraction(factor) * Fraction(n)) if isfinite(n) else 1 + factor * n for n in numbers])


def _broadcast_counts(num_utts: npt.ArrayLike, shape: tuple[int, ...]) -> Float64:
    """Return the number of utterances of each vector as an array of shape ``shape``.

    Raise FormatError if a number is not positive, or ``num_utts`` is neither a number nor an array of this shape.
    """
    counts = np.asarray(num_utts, np.float64)
    if counts.shape not in ((), shape):
        raise FormatError(f"num_utts has the shape {counts.shape}: pass a number, or an array of shape {shape}")
    if not (counts > 0).all():
        raise FormatError("num_utts must be positive: pass the number of utterances of each speaker")
    return np.broadcast_to(counts, shape)


class PldaCodec(ModelCodec):
    """Codec of PLDA models."""

    model, token = Plda, b"Plda"
    fields = (
        Field("mean", VectorCodec(np.float64)),
        Field("transform", MatrixCodec(np.float64)),
        Field("psi", VectorCodec(np.float64)),
    )
