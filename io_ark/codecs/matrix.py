"""Matrices, read from any storage format into one precision."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.codecs.base import BINARY_MARKER, FloatArrayCodec, Sink, as_floats, view_raw_bytes
from io_ark.codecs.compressed import MAX_HEADER_BYTES, read_and_decompress, skip_compressed
from io_ark.codecs.dense import (
    HEADER_SIZE,
    read_dense,
    read_dense_range,
    read_text_matrix,
    skip_dense,
    write_text_matrix,
)
from io_ark.codecs.pack import Pack
from io_ark.specifier import Range
from io_ark.streams.source import Source

Array = npt.NDArray[Any]

_COMPRESSED = b"\0BC"
# The binary marker and the header of a dense matrix (see dense.py).
_DENSE_HEADER = struct.Struct("<6sibi")
_START_BYTES = _DENSE_HEADER.size
_MAX_START_BYTES = len(BINARY_MARKER) + MAX_HEADER_BYTES


class MatrixCodec(FloatArrayCodec):
    """Codec of matrices: arrays of shape (rows, columns).

    Reads matrices of either precision, and compressed matrices, into one precision. Arrays read belong to the caller
    and are writable, except views of memory (a memory map).

    Source: ``Matrix::Read`` in Kaldi's ``src/matrix/kaldi-matrix.cc``.
    """

    name = "matrix"

    def read(self, source: Source) -> Array:
        # A fast path for the common case, because calls take most of the time for small matrices.
        head = source.peek_buffered(_MAX_START_BYTES)
        if len(head) >= _START_BYTES:
            start, rows, column_size, columns = _DENSE_HEADER.unpack_from(head)
            if start == self._start and column_size == 4 and rows >= 0 and columns >= 0:
                source.skip(_START_BYTES)
                byte_count = rows * columns * self._itemsize
                if byte_count > source.max_copied_bytes:
                    return source.read_array(self._stored_dtype, rows * columns).reshape(rows, columns)
                window, at = source.take(byte_count)
                # Copying the bytes is three times as fast as copying an unaligned array.
                matrix: Array = np.ndarray((rows, columns), self._stored_dtype, bytearray(window[at : at + byte_count]))
                return matrix
            if start.startswith(_COMPRESSED) and len(head) == _MAX_START_BYTES:
                source.skip(len(BINARY_MARKER))
                return read_and_decompress(source, head[len(BINARY_MARKER) :]).astype(self.dtype, copy=False)
        return super().read(source)

    def read_part(self, source: Source, selection: Range | None) -> Any:
        head = source.peek(len(BINARY_MARKER) + HEADER_SIZE)
        if selection is not None and head[:2] == BINARY_MARKER and head[2:4] in (b"FM", b"DM"):
            source.skip(len(BINARY_MARKER))
            return read_dense_range(source, head[2:], self.dtype, selection)
        return super().read_part(source, selection)

    def read_body(self, source: Source, binary: bool) -> Array:
        if not binary:
            return read_text_matrix(source, self.dtype)
        head = source.peek(MAX_HEADER_BYTES)
        if head.startswith(b"C"):
            return read_and_decompress(source, head).astype(self.dtype, copy=False)
        return read_dense(source, head[:HEADER_SIZE], self.dtype)

    def skip_body(self, source: Source) -> tuple[int, ...]:
        head = source.peek(HEADER_SIZE)
        return skip_compressed(source) if head.startswith(b"C") else skip_dense(source, head)

    def create_pack(self, binary: bool) -> Pack:
        return Pack(arrays=(self._stored_dtype, 2) if binary else None)

    def write_body(self, sink: Sink, value: npt.ArrayLike, binary: bool) -> None:
        matrix = as_floats(value, self.dtype, 2)
        if binary:
            sink.write(_DENSE_HEADER.pack(self._start, matrix.shape[0], 4, matrix.shape[1])[len(BINARY_MARKER) :])
            sink.write(view_raw_bytes(matrix))
        else:
            write_text_matrix(sink, matrix)
