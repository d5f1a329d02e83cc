"""Codecs of the objects that kaldi_python_io reads."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from io_ark.codecs import Codec, codec
from io_ark.codecs.base import BINARY_MARKER
from io_ark.codecs.detect import detect_kind
from io_ark.codecs.nnet_example import NnetExample
from io_ark.codecs.sparse import SparseMatrix
from io_ark.streams.source import Source
from kaldi_standins.as_stored import AsStored


class FloatCodec(Codec[Any]):
    """Codec of float matrices and vectors in the stored precision. Sparse matrices are lists of rows of pairs.

    Args:
        kind: "matrix" or "vector". An empty string accepts both.
    """

    def __init__(self, kind: Literal["matrix", "vector", ""] = "") -> None:
        self._kind: Literal["matrix", "vector", ""] = kind

    def read(self, source: Source) -> Any:
        head = source.peek(5)  # The binary marker of two bytes, and a token such as "FV " (vector) or "FM " (matrix).
        if head[:4] == BINARY_MARKER + b"SM" and self._kind != "vector":
            return _to_lists(codec("sparse-matrix").read(source))
        is_vector = head[3:4] == b"V" if head[:2] == BINARY_MARKER else detect_kind(source)[0] == "vector"
        return AsStored(self._kind or ("vector" if is_vector else "matrix")).read(source)


def _to_lists(matrix: SparseMatrix) -> list[list[tuple[int, tuple[float]]]]:
    """Return the nonzero elements of each row as pairs (column, (value,))."""
    return [
        [(index, (value,)) for index, value in zip(row.indices.tolist(), row.values.tolist(), strict=True)]
        for row in matrix.rows
    ]


class ExampleCodec(Codec[list[dict[str, Any]]]):
    """Codec of training examples as lists with a dictionary (name, index, matrix) for each input and output."""

    def read(self, source: Source) -> list[dict[str, Any]]:
        example: NnetExample = codec("nnet-example").read(source)
        return [
            {"name": part.name, "index": list(map(tuple, part.indexes.tolist())), "matrix": _to_array(part.features)}
            for part in example.io
        ]


def _to_array(features: Any) -> Any:
    """Convert the features of a training example to an array, or a sparse matrix to lists (see :func:`_to_lists`)."""
    if isinstance(features, SparseMatrix):
        return _to_lists(features)
    return features if isinstance(features, np.ndarray) else features.to_array()
