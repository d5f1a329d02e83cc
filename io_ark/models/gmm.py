"""Gaussian mixture models: UBMs (``final.dubm``, ``final.ubm``), and the mixtures of acoustic models.

Source: Kaldi's ``src/gmm/diag-gmm.cc``, ``full-gmm.cc`` and ``am-diag-gmm.cc``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from io_ark.codecs.base import Codec, Sink, encode_int32, expect_token, read_int32, read_size, register_kind
from io_ark.codecs.matrix import MatrixCodec
from io_ark.codecs.packed import PackedMatrixCodec
from io_ark.codecs.vector import VectorCodec
from io_ark.errors import FormatError
from io_ark.libm import logf
from io_ark.models.fields import Array, Field, ModelCodec, locate_errors, set_arrays
from io_ark.streams.source import Source

Float32 = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False, repr=False)
class Gmm:
    """Base class of Gaussian mixtures, with the parameters that Kaldi stores.

    Attributes:
        weights: weights (Gaussians,) of the Gaussians.
        precision_means: products (Gaussians, dim) of the inverse covariances and the means.
        precisions: inverse covariances, (Gaussians, dim) if they are diagonal, otherwise (Gaussians, dim, dim).
        gconsts: log-likelihood (Gaussians,) of each weighted Gaussian for a frame of zeros. None computes the values
            from the other parameters. The values of a file stay unchanged.

    Raises:
        FormatError: the shapes are inconsistent, or a full inverse covariance is singular.

    >>> from io_ark.models import DiagGmm
    >>> gmm = DiagGmm(weights=[0.5, 0.5], precision_means=[[0.0], [0.5]], precisions=[[1.0], [0.25]])
    >>> gmm, gmm.gconsts.round(3), gmm.arrays()["means"].tolist()
    (DiagGmm(num_gauss=2, dim=1), array([-1.612, -2.805], dtype=float32), [[0.0], [2.0]])
    """

    weights: Float32
    precision_means: Float32
    precisions: Float32
    gconsts: Float32 = None  # type: ignore[assignment]  # Computed in __post_init__ if None.

    def __post_init__(self) -> None:
        count, frame_shape = len(self.weights), np.shape(self.precision_means)[-1:]  # A frame has the shape (dim,).
        if 0 in (count, *frame_shape):
            raise FormatError(
                "the mixture has no Gaussians, or the Gaussians have no dimensions: "
                "pass arrays with at least one row and one column"
            )
        precision_shape = frame_shape if isinstance(self, DiagGmm) else (*frame_shape, *frame_shape)
        set_arrays(self, np.float32, weights=(count,), precision_means=(count, *frame_shape),
                   precisions=(count, *precision_shape))  # fmt: skip
        if self.gconsts is None:
            object.__setattr__(self, "gconsts", self._compute_gconsts())
        set_arrays(self, np.float32, gconsts=(count,))

    def _compute_gconsts(self) -> Array:
        """Return log-likelihoods (Gaussians,) of weighted Gaussians for a zero frame. As in Kaldi, inf becomes -inf."""
        offset = np.float32(-0.5 * np.log(2 * np.pi) * self.dim)
        with np.errstate(all="ignore"):
            gconsts = logf(self.weights) + offset
            if self.precisions.ndim == 2:
                # As in Kaldi, the term of a dimension is computed in double precision, and added in single precision.
                doubles = self.precision_means.astype(np.float64)
                for products, precisions in zip(doubles.T, self.precisions.T, strict=True):
                    gconsts += 0.5 * logf(precisions) - 0.5 * products * products / precisions
            else:
                _, means, log_dets = self._invert_precisions()
                gconsts += 0.5 * log_dets - 0.5 * (means * self.precision_means).sum(axis=1)
        return np.where(np.isinf(gconsts), -np.inf, gconsts)

    def _invert_precisions(self) -> tuple[Array, Array, Array]:
        """Return covariances, means (Gaussians, dim), and log-determinants (Gaussians,) of precisions, in float64.

        Covariances have the shape of ``precisions``. Raise FormatError if a full inverse covariance is singular.
        """
        try:
            with np.errstate(all="ignore"):
                matrices = self.precisions.astype(np.float64)
                if matrices.ndim == 2:
                    return 1 / matrices, self.precision_means / matrices, np.log(matrices).sum(axis=1)
                inverses = np.linalg.inv(matrices)
                means = (inverses @ self.precision_means[..., None])[..., 0]
                return inverses, means, np.linalg.slogdet(matrices)[1]
        except np.linalg.LinAlgError as error:
            raise FormatError(
                f"an inverse covariance of the mixture has no inverse: {error}; "
                "train the mixture with more data, or with fewer Gaussians"
            ) from error

    def __repr__(self) -> str:
        return f"{type(self).__name__}(num_gauss={self.num_gauss}, dim={self.dim})"

    @property
    def num_gauss(self) -> int:
        """Number of Gaussians."""
        return len(self.weights)

    @property
    def dim(self) -> int:
        """Number of dimensions of a frame."""
        return int(self.precision_means.shape[1])

    def arrays(self) -> dict[str, Array]:
        """Return the parameters by name, as float32 arrays.

        Returns:
            ``weights`` (Gaussians,), ``means`` (Gaussians, dim), and ``covariances`` with the shape of ``precisions``.

        Raises:
            FormatError: a full inverse covariance is singular.
        """
        covariances, means, _ = self._invert_precisions()
        with np.errstate(all="ignore"):
            means, covariances = means.astype(np.float32), covariances.astype(np.float32)
        return {"weights": self.weights, "means": means, "covariances": covariances}


@register_kind("diag-gmm")
class DiagGmm(Gmm):
    """Mixture of Gaussians with diagonal covariances; see :class:`Gmm`."""


@register_kind("full-gmm")
class FullGmm(Gmm):
    """Mixture of Gaussians with full covariances; see :class:`Gmm`."""


@dataclass(frozen=True, eq=False, repr=False)
class AmDiagGmm:
    """Gaussian mixtures of an acoustic model, one for each pdf.

    Attributes:
        densities: mixtures, in the order of the pdfs.

    Raises:
        FormatError: the model has no mixtures, or the dimensions of the mixtures differ.

    >>> from io_ark.models import AmDiagGmm, DiagGmm
    >>> mixture = DiagGmm(weights=[1.0], precision_means=[[0.5]], precisions=[[0.25]])
    >>> AmDiagGmm((mixture, mixture)).arrays()["pdfs"]
    array([0, 1], dtype=int32)
    """

    densities: tuple[DiagGmm, ...]

    def __post_init__(self) -> None:
        if len({gmm.dim for gmm in self.densities}) != 1:
            raise FormatError("an acoustic model needs one or more mixtures of the same dimension, not mixtures of "
                              f"dimensions {sorted({gmm.dim for gmm in self.densities})}")  # fmt: skip

    def __repr__(self) -> str:
        return f"AmDiagGmm(num_pdfs={len(self.densities)}, num_gauss={self.num_gauss}, dim={self.dim})"

    @property
    def num_gauss(self) -> int:
        """Total number of Gaussians of all mixtures."""
        return sum(gmm.num_gauss for gmm in self.densities)

    @property
    def dim(self) -> int:
        """Number of dimensions of a frame."""
        return self.densities[0].dim

    def arrays(self) -> dict[str, Array]:
        """Return the parameters of all mixtures by name, as arrays.

        The arrays of :meth:`Gmm.arrays` are concatenated. ``pdfs`` (Gaussians,) has the pdf of each Gaussian.
        """
        mixtures = [gmm.arrays() for gmm in self.densities]
        arrays = {name: np.concatenate([mixture[name] for mixture in mixtures]) for name in mixtures[0]}
        counts = [gmm.num_gauss for gmm in self.densities]
        return {**arrays, "pdfs": np.repeat(np.arange(len(counts), dtype=np.int32), counts)}


_WEIGHTS = (Field("gconsts", VectorCodec(), b"<GCONSTS>", optional=True), Field("weights", VectorCodec(), b"<WEIGHTS>"))


class DiagGmmCodec(ModelCodec):
    """Codec of mixtures with diagonal covariances."""

    model, token, newlines = DiagGmm, b"DiagGMM", True
    fields = (
        *_WEIGHTS,
        Field("precision_means", MatrixCodec(), b"<MEANS_INVVARS>"),
        Field("precisions", MatrixCodec(), b"<INV_VARS>"),
    )


class FullGmmCodec(ModelCodec):
    """Codec of mixtures with full covariances."""

    model, token, newlines = FullGmm, b"FullGMM", True
    fields = (
        *_WEIGHTS,
        Field("precision_means", MatrixCodec(), b"<MEANS_INVCOVARS>"),
        Field("precisions", PackedMatrixCodec("symmetric"), b"<INV_COVARS>", stacked=True),
    )


class AmDiagGmmCodec(Codec[AmDiagGmm]):
    """Codec of the mixtures of an acoustic model, which follow the transition model in the file."""

    _gmm = DiagGmmCodec()

    def read_body(self, source: Source, binary: bool) -> AmDiagGmm:
        start = source.tell()
        expect_token(source, binary, b"<DIMENSION>")
        dim = read_int32(source, binary)
        expect_token(source, binary, b"<NUMPDFS>")
        count = read_size(source, binary, "the number of pdfs")
        densities = tuple([self._gmm.read_body(source, binary) for _ in range(count)])
        gmms = locate_errors(source, start, lambda: AmDiagGmm(densities))
        if gmms.dim != dim:
            source.fail(f"the mixtures have dimension {gmms.dim}, but the header has {dim}: the file is damaged", start)
        return gmms

    def write_body(self, sink: Sink, value: AmDiagGmm, binary: bool) -> None:
        for token, number in (b"<DIMENSION> ", value.dim), (b"<NUMPDFS> ", len(value.densities)):
            sink.write(token + (encode_int32(number) if binary else b"%d " % number))
        for gmm in value.densities:
            self._gmm.write_body(sink, gmm, binary)
