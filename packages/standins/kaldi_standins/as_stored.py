"""Arrays in the precision in which they are stored."""

from __future__ import annotations

import struct
from typing import Any, Literal

import numpy.typing as npt

from io_ark.codecs import Codec, codec
from io_ark.codecs.base import BINARY_MARKER, Sink
from io_ark.specifier import Range
from io_ark.streams.source import Source


class AsStored(Codec[Any]):
    """Codec of float matrices or vectors (``kind``), float64 if stored in double precision, and otherwise float32."""

    def __init__(self, kind: Literal["matrix", "vector"]) -> None:
        self._single, self._double = codec(kind), codec(f"double-{kind}")
        self._is_matrix = kind == "matrix"

    def read(self, source: Source) -> Any:
        return self._choose_codec(source).read(source)

    def read_part(self, source: Source, selection: Range | None) -> Any:
        return self._choose_codec(source).read_part(source, selection)

    def write(self, sink: Sink, value: Any, *, binary: bool = True) -> None:
        """Write an array in double precision if it has elements of 8 bytes, else in single precision.

        In binary, an empty matrix keeps its shape: see :func:`write_empty_matrix`.
        """
        if self._is_matrix and binary and value.ndim == 2 and not value.size:
            write_empty_matrix(sink, value)
        else:
            (self._double if value.dtype.itemsize == 8 else self._single).write(sink, value, binary=binary)

    def _choose_codec(self, source: Source) -> Codec[Any]:
        return self._double if source.peek(3) == b"\0BD" else self._single


def write_empty_matrix(sink: Sink, matrix: npt.NDArray[Any]) -> None:
    """Write an empty matrix and keep its shape, as other libraries do. Kaldi would write 0 rows and 0 columns."""
    token = b"DM " if matrix.dtype.itemsize == 8 else b"FM "
    sink.write(BINARY_MARKER + token + struct.pack("<bibi", 4, matrix.shape[0], 4, matrix.shape[1]))
