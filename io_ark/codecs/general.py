"""Matrices in their stored form: dense, compressed or sparse.

Source: ``GeneralMatrix`` in Kaldi's ``src/matrix/sparse-matrix.cc``.
"""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from io_ark.codecs.base import Codec, Sink, peek_byte
from io_ark.codecs.compressed import CompressedMatrix, CompressedMatrixCodec
from io_ark.codecs.matrix import MatrixCodec
from io_ark.codecs.pack import Pack
from io_ark.codecs.scan import Scan
from io_ark.codecs.sparse import SparseMatrix, SparseMatrixCodec
from io_ark.errors import RangeError
from io_ark.specifier import Range
from io_ark.streams.source import Source

GeneralMatrix = npt.NDArray[Any] | CompressedMatrix | SparseMatrix


class GeneralMatrixCodec(Codec[GeneralMatrix]):
    """Codec of matrices in their stored form: float32 arrays, :class:`CompressedMatrix` or :class:`SparseMatrix`."""

    _dense = MatrixCodec()
    _compressed = CompressedMatrixCodec()
    _sparse = SparseMatrixCodec()

    def create_scan(self) -> Scan | None:
        return self._dense.create_scan()

    def create_pack(self, binary: bool) -> Pack:
        return self._dense.create_pack(binary)

    def read_part(self, source: Source, selection: Range | None) -> Any:
        part = super().read_part(source, selection)
        if selection is None or not isinstance(part, SparseMatrix):
            return part
        try:
            return part.to_array()  # As in Kaldi, a range of a sparse matrix is dense.
        except MemoryError as error:
            size = " x ".join(map(str, part.shape))
            raise RangeError(f"the range [{selection.text}] of a sparse matrix has {size} numbers, which exceed the "
                             "memory: select fewer rows or columns", file=source.name) from error  # fmt: skip

    def read_body(self, source: Source, binary: bool) -> GeneralMatrix:
        first = peek_byte(source, binary)
        # A sparse matrix starts with the token "SM" in binary, and with "rows=" in text.
        if first == (b"S" if binary else b"r"):
            return self._sparse.read_body(source, binary)
        if binary and first == b"C":
            return self._compressed.read_body(source, binary)
        return self._dense.read_body(source, binary)

    def write_body(self, sink: Sink, value: GeneralMatrix, binary: bool) -> None:
        if isinstance(value, SparseMatrix):
            self._sparse.write_body(sink, value, binary)
        elif isinstance(value, CompressedMatrix):
            self._compressed.write_body(sink, value, binary)
        else:
            self._dense.write_body(sink, value, binary)
