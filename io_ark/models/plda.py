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
    """PLDA model. After ``transform``, the vectors of a speaker differ from the speaker's mean by unit-variance noise.

    Attributes:
        mean: (dim,): mean of all vectors.
        transform: (dim, dim): ``transform @ (vector - mean)`` has a unit within-speaker covariance and a diagonal
            between-speaker covariance.
        psi: (dim,): the between-speaker variances.

    Raises:
        FormatError: the shapes are inconsistent.

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
        """Return the parameters with the names that DiariZen reads from ``plda.npz``."""
        return {"mu": self.mean, "tr": self.transform, "psi": self.psi}

    def transform_vectors(
        self,
        vectors: npt.ArrayLike,
        num_utts: npt.ArrayLike = 1,
        *,
        normalize_length: bool = True,
        simple_length_normalization: bool = False,
    ) -> Array:
        """Map vectors to the space in which they are compared.

        Args:
            vectors: (..., dim): i-vectors or x-vectors, preprocessed like the vectors that the model was trained on.
            num_utts: number of utterances that each vector is the mean of: a number, or an array of shape (...).
            normalize_length: scale each vector, by default to its expected length under the model.
            simple_length_normalization: scale each vector to the length ``sqrt(dim)`` instead.

        Returns:
            (..., dim): an array of the same type as the vectors, float32 or float64. Computed in float64.

        Raises:
            FormatError: the vectors do not have the model's dimension, or a number of utterances is not positive.
        """
        array = np.asarray(vectors)
        if array.ndim == 0 or array.shape[-1] != self.dim:
            raise FormatError(f"vectors of shape {array.shape} do not fit a PLDA model of {self.dim} dimensions")
        mapped = array.astype(np.float64) @ self.transform.T - self.transform @ self.mean
        counts = _counts(num_utts, array.shape[:-1])
        if normalize_length:
            expected = np.ones(self.dim) if simple_length_normalization else self.psi + 1 / counts[..., None]
            with np.errstate(divide="ignore", invalid="ignore"):  # A vector of zeros becomes NaN, as in Kaldi.
                mapped *= np.sqrt(self.dim / (mapped**2 / expected).sum(axis=-1, keepdims=True))
        return np.asarray(mapped, array.dtype if array.dtype == np.float32 else np.float64)

    def score(
        self,
        enrolled: npt.ArrayLike,
        tested: npt.ArrayLike,
        num_utts: npt.ArrayLike = 1,
        *,
        normalize_length: bool = True,
        simple_length_normalization: bool = False,
    ) -> Float64:
        """Compare all speakers with all utterances, like Kaldi's ``ivector-plda-scoring``.

        Args:
            enrolled: (speakers, dim): the mean vector of each speaker's utterances.
            tested: (utterances, dim): the vector of each utterance.
            num_utts: number of utterances of each speaker: a number, or an array of shape (speakers,).
            normalize_length: see :meth:`transform_vectors`.
            simple_length_normalization: see :meth:`transform_vectors`.

        Returns:
            (speakers, utterances): log-likelihood ratio between one speaker and two different speakers.

        Raises:
            FormatError: see :meth:`transform_vectors`.
        """
        norm = {"normalize_length": normalize_length, "simple_length_normalization": simple_length_normalization}
        return self.log_likelihood_ratios(
            self.transform_vectors(enrolled, num_utts, **norm), self.transform_vectors(tested, **norm), num_utts
        )

    def log_likelihood_ratios(
        self, enrolled: npt.ArrayLike, tested: npt.ArrayLike, num_utts: npt.ArrayLike = 1
    ) -> Float64:
        """Compare vectors that :meth:`transform_vectors` has mapped. See :meth:`score` for arguments and result."""
        speakers, utterances = np.asarray(enrolled, np.float64), np.asarray(tested, np.float64)
        for vectors in speakers, utterances:
            if vectors.ndim != 2 or vectors.shape[1] != self.dim:
                raise FormatError(f"expected an array of shape (vectors, {self.dim}), not {vectors.shape}")
        scale = _counts(num_utts, speakers.shape[:1])[:, None] * self.psi
        means = scale / (scale + 1) * speakers
        precisions, alone = 1 / (1 + self.psi / (scale + 1)), 1 / (1 + self.psi)
        squares = utterances**2
        logs = np.log(precisions).sum(axis=1) - np.log(alone).sum()
        distances = (means**2 * precisions).sum(axis=1)[:, None] - 2 * (means * precisions) @ utterances.T
        scores: Float64 = 0.5 * (logs[:, None] - distances - precisions @ squares.T + squares @ alone)
        return scores

    def smooth(self, factor: float) -> Plda:
        """Return a model with more within-speaker covariance, like ``ivector-copy-plda --smoothing``.

        Args:
            factor: share of the between-speaker covariance that is added to the within-speaker covariance, 0 to 1.

        Raises:
            FormatError: the factor is not between 0 and 1.
        """
        if not 0 <= factor <= 1:
            raise FormatError(f"the smoothing factor must be between 0 and 1, not {factor}")
        within = 1 + float(np.float32(factor)) * self.psi  # Kaldi's option is a float32.
        return Plda(self.mean, self.transform * (within**-0.5)[:, None], self.psi / within)


def _counts(num_utts: npt.ArrayLike, shape: tuple[int, ...]) -> Float64:
    """Return the number of utterances of each vector.

    Raises:
        FormatError: a number is not positive, or the shape does not fit the vectors.
    """
    counts = np.asarray(num_utts, np.float64)
    if counts.shape not in ((), shape) or not (counts > 0).all():
        raise FormatError(f"num_utts must be a positive number, or positive numbers of shape {shape}")
    return np.broadcast_to(counts, shape)


class PldaCodec(ModelCodec):
    """Codec of PLDA models."""

    model, token = Plda, b"Plda"
    fields = (
        Field("mean", VectorCodec(np.float64)),
        Field("transform", MatrixCodec(np.float64)),
        Field("psi", VectorCodec(np.float64)),
    )
