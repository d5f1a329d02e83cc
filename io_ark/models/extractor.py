"""I-vector extractors (``final.ie``).

Source: Kaldi's ``src/ivector/ivector-extractor.cc``.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from io_ark.codecs.base import Codec, Sink, read_float, register_kind
from io_ark.codecs.matrix import MatrixCodec
from io_ark.codecs.packed import PackedMatrixCodec
from io_ark.codecs.text_format import format_row
from io_ark.codecs.vector import VectorCodec
from io_ark.errors import FormatError
from io_ark.models.fields import Array, Field, ModelCodec, set_arrays
from io_ark.streams.source import Source

Float64 = npt.NDArray[np.float64]


@register_kind("ivector-extractor")
@dataclass(frozen=True, eq=False, repr=False)
class IvectorExtractor:
    """I-vector extractor. For an i-vector ``w``, the means of the Gaussians are ``projections @ w``.

    Attributes:
        weights: weights (Gaussians,) of the UBM (Kaldi: ``w_vec``), or (0,) if the weights depend on the i-vector.
        weight_projections: matrix (Gaussians, i-vector dim) that maps an i-vector to unnormalized log-weights (Kaldi:
            ``w``), or (0, 0) if the weights do not depend on the i-vector.
        projections: matrices (Gaussians, feature dim, i-vector dim) that map an i-vector to means (Kaldi: ``M``).
        precisions: Kaldi's ``SigmaInv``, the inverse covariances (Gaussians, feature dim, feature dim).
        prior_offset: mean of the first element of i-vectors.

    Raises:
        FormatError: the shapes are inconsistent.

    >>> import numpy as np
    >>> from io_ark.models import IvectorExtractor
    >>> extractor = IvectorExtractor(
    ...     weights=np.array([0.5, 0.5]),
    ...     weight_projections=np.zeros((0, 0)),
    ...     projections=np.ones((2, 3, 4)),
    ...     precisions=np.stack([np.eye(3), np.eye(3)]),
    ...     prior_offset=10.0,
    ... )
    >>> (extractor.projections @ np.array([10.0, 0.0, 0.0, 0.0])).tolist()
    [[10.0, 10.0, 10.0], [10.0, 10.0, 10.0]]
    """

    weights: Float64
    weight_projections: Float64
    projections: Float64
    precisions: Float64
    prior_offset: float

    def __post_init__(self) -> None:
        shape = np.shape(self.projections)
        if len(shape) != 3 or 0 in shape:
            raise FormatError(
                f"projections of the IvectorExtractor have the shape {shape}: expected three positive numbers, "
                "(Gaussians, feature dim, i-vector dim)"
            )
        count, dim, ivector_dim = shape
        is_fixed = np.size(self.weight_projections) == 0  # True if the weights do not depend on the i-vector.
        weight_shape, projection_shape = ((count,), (0, 0)) if is_fixed else ((0,), (count, ivector_dim))
        set_arrays(self, np.float64, weights=weight_shape, weight_projections=projection_shape, projections=shape,
                   precisions=(count, dim, dim))  # fmt: skip

    def __repr__(self) -> str:
        count, dim, ivector_dim = self.projections.shape
        return f"IvectorExtractor(num_gauss={count}, dim={dim}, ivector_dim={ivector_dim})"

    def arrays(self) -> dict[str, Array]:
        """Return the attributes by name, as arrays."""
        return {name: np.asarray(value) for name, value in vars(self).items()}


class _OffsetCodec(Codec[float]):
    """Codec of a float64 number in a model file."""

    def read_body(self, source: Source, binary: bool) -> float:
        return read_float(source, binary, is_single=False)

    def write_body(self, sink: Sink, value: float, binary: bool) -> None:
        sink.write(struct.pack("<bd", 8, value) if binary else format_row([value]).encode())


class IvectorExtractorCodec(ModelCodec):
    """Codec of i-vector extractors."""

    model, token = IvectorExtractor, b"IvectorExtractor"
    fields = (
        Field("weight_projections", MatrixCodec(np.float64), b"<w>"),
        Field("weights", VectorCodec(np.float64), b"<w_vec>"),
        Field("projections", MatrixCodec(np.float64), b"<M>", stacked=True, counted=True),
        Field("precisions", PackedMatrixCodec("symmetric", np.float64), b"<SigmaInv>", stacked=True),
        Field("prior_offset", _OffsetCodec(), b"<IvectorOffset>"),
    )
