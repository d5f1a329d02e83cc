"""Probabilistic linear discriminant analysis (PLDA) of i-vectors and x-vectors.

Source: Kaldi's ``src/ivector/plda.cc`` and ``src/ivectorbin/ivector-plda-scoring.cc``, after Ioffe, "Probabilistic
Linear Discriminant Analysis" (ECCV 2006).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from io_ark.codecs.base import written_as
from io_ark.codecs.matrix import MatrixCodec
from io_ark.codecs.vector import VectorCodec
from io_ark.errors import FormatError
from io_ark.models.fields import Array, Field, ModelCodec, set_arrays

Float64 = npt.NDArray[np.float64]


@written_as("plda")
@dataclass(frozen=True, eq=False, repr=False)
class Plda:
    """PLDA model: vectors of one speaker differ by noise of unit variance, after a transform that makes it so.

    Attributes:
        mean: (dim,): mean of all vectors.
        transform: (dim, dim): ``transform @ (vector - mean)`` has a unit within-speaker covariance and a diagonal
            between-speaker covariance.
        psi: (dim,): the between-speaker variances.

    Raises:
        FormatError: the shapes do not fit each other.

    >>> import numpy as np
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
            raise FormatError("the PLDA model has no dimensions")
        set_arrays(self, np.float64, mean=(dim,), transform=(dim, dim), psi=(dim,))

    def __repr__(self) -> str:
        return f"Plda(dim={self.dim})"

    @property
    def dim(self) -> int:
        """Number of dimensions of the vectors."""
        return len(self.mean)

    def arrays(self) -> dict[str, Array]:
        """Return the parameters under the names that DiariZen reads from ``plda.npz``."""
        return {"mu": self.mean, "tr": self.transform, "psi": self.psi}

    def transform_vectors(
        self,
        vectors: npt.ArrayLike,
        num_utts: npt.ArrayLike = 1,
        *,
        normalize_length: bool = True,
        simple_length_normalization: bool = False,
    ) -> Array:
        """Map vectors to the space in which they are compared: of shape (..., dim), like the vectors.

        Args:
            vectors: (..., dim): i-vectors or x-vectors, preprocessed as those that the model was trained on.
            num_utts: number of utterances that each vector is the mean of: one number, or (...).
            normalize_length: scale each vector, by default to the length that the model expects of it.
            simple_length_normalization: scale each vector to the length ``sqrt(dim)`` instead.

        Returns:
            An array of the type of the vectors, float32 or float64. Computed in float64.

        Raises:
            FormatError: the vectors are not of the model's dimension, or a number of utterances is not positive.
        """
        given = np.asarray(vectors)
        if given.ndim == 0 or given.shape[-1] != self.dim:
            raise FormatError(f"vectors of shape {given.shape} do not fit a PLDA model of {self.dim} dimensions")
        mapped = given.astype(np.float64) @ self.transform.T - self.transform @ self.mean
        counts = _counts(num_utts, given.shape[:-1])
        if normalize_length:
            expected = np.ones(self.dim) if simple_length_normalization else self.psi + 1 / counts[..., None]
            with np.errstate(divide="ignore", invalid="ignore"):  # a vector of zeros becomes NaN, as in Kaldi
                mapped *= np.sqrt(self.dim / (mapped**2 / expected).sum(axis=-1, keepdims=True))
        return np.asarray(mapped, given.dtype if given.dtype == np.float32 else np.float64)

    def score(
        self,
        enrolled: npt.ArrayLike,
        tested: npt.ArrayLike,
        num_utts: npt.ArrayLike = 1,
        *,
        normalize_length: bool = True,
        simple_length_normalization: bool = False,
    ) -> Float64:
        """Compare all speakers and utterances, as Kaldi's ``ivector-plda-scoring`` does.

        Args:
            enrolled: (speakers, dim): the mean vector of each speaker's utterances.
            tested: (utterances, dim): vectors.
            num_utts: number of utterances of each speaker: one number, or (speakers,).
            normalize_length: see :meth:`transform_vectors`.
            simple_length_normalization: see :meth:`transform_vectors`.

        Returns:
            (speakers, utterances): log-ratio of the likelihoods of one speaker and of two.

        Raises:
            FormatError: as for :meth:`transform_vectors`.
        """
        norm = {"normalize_length": normalize_length, "simple_length_normalization": simple_length_normalization}
        return self.log_likelihood_ratios(
            self.transform_vectors(enrolled, num_utts, **norm), self.transform_vectors(tested, **norm), num_utts
        )

    def log_likelihood_ratios(
        self, enrolled: npt.ArrayLike, tested: npt.ArrayLike, num_utts: npt.ArrayLike = 1
    ) -> Float64:
        """Compare vectors from :meth:`transform_vectors`. Arguments, result and errors are those of :meth:`score`."""
        speakers, utterances = np.asarray(enrolled, np.float64), np.asarray(tested, np.float64)
        for each in speakers, utterances:
            if each.ndim != 2 or each.shape[1] != self.dim:
                raise FormatError(f"expected an array of shape (vectors, {self.dim}), not {each.shape}")
        scale = _counts(num_utts, speakers.shape[:1])[:, None] * self.psi
        means = scale / (scale + 1) * speakers
        precisions, alone = 1 / (1 + self.psi / (scale + 1)), 1 / (1 + self.psi)
        squares = utterances**2
        logs = np.log(precisions).sum(axis=1) - np.log(alone).sum()
        distances = (means**2 * precisions).sum(axis=1)[:, None] - 2 * (means * precisions) @ utterances.T
        scores: Float64 = 0.5 * (logs[:, None] - distances - precisions @ squares.T + squares @ alone)
        return scores

    def smooth(self, factor: float) -> Plda:
        """Return a model with more within-speaker covariance, as ``ivector-copy-plda --smoothing`` does.

        Args:
            factor: between 0 and 1: this much of the between-speaker covariance is added to it.

        Raises:
            FormatError: the factor is not between 0 and 1.
        """
        if not 0 <= factor <= 1:
            raise FormatError(f"the smoothing factor is between 0 and 1, not {factor}")
        within = 1 + float(np.float32(factor)) * self.psi  # Kaldi's option is a float
        return Plda(self.mean, self.transform * (within**-0.5)[:, None], self.psi / within)


def _counts(num_utts: npt.ArrayLike, shape: tuple[int, ...]) -> Float64:
    """Return the number of utterances of each vector.

    Raises:
        FormatError: one is not positive, or they do not fit the vectors.
    """
    counts = np.asarray(num_utts, np.float64)
    if counts.shape not in ((), shape) or not (counts > 0).all():
        raise FormatError(f"num_utts is a positive number, or one for each of the {shape} vectors")
    return np.broadcast_to(counts, shape)


class PldaCodec(ModelCodec):
    """Codec of PLDA models."""

    model, token = Plda, b"Plda"
    fields = (
        Field("mean", VectorCodec(np.float64)),
        Field("transform", MatrixCodec(np.float64)),
        Field("psi", VectorCodec(np.float64)),
    )
