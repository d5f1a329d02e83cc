"""Dense matrices: ``FM`` (float) and ``DM`` (double) in binary, rows in brackets in text.

Source: ``Matrix::Read`` and ``MatrixBase::Write`` in Kaldi's ``src/matrix/kaldi-matrix.cc``.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.codecs.base import Sink, quote_or_end, skip_line_end
from io_ark.codecs.ranges import find_slices
from io_ark.codecs.text_format import encode_lists
from io_ark.codecs.text_parse import parse_rows, warn_of_nonfinite
from io_ark.specifier import Range
from io_ark.streams.source import Source

Array = npt.NDArray[Any]

# A token of two letters and a space, and then the numbers of rows and columns, each after a byte 4.
_HEADER = struct.Struct("<3sbibi")
HEADER_SIZE = _HEADER.size
_MAX_FORMATTED_NUMBERS = 1 << 16  # Maximum number of numbers that are formatted at once.
_PRECISIONS: dict[bytes, np.dtype[Any]] = {b"FM ": np.dtype("<f4"), b"DM ": np.dtype("<f8")}


def _read_header(source: Source, head: bytes) -> tuple[np.dtype[Any], int, int]:
    """Skip the header ``head`` of a dense matrix. Return the stored dtype and the numbers of rows and columns.

    Raise FormatError if the header is invalid or incomplete.
    """
    stored_dtype = _PRECISIONS.get(head[:3])
    if len(head) < HEADER_SIZE and (stored_dtype is not None or b" " not in head):
        source.read(HEADER_SIZE)  # This raises TruncatedError, because the source has fewer bytes.
    if stored_dtype is None:
        source.fail(f"expected a matrix (FM, DM, CM, CM2 or CM3), found {quote_or_end(head.split(b' ')[0])}")
    _, row_size, rows, column_size, columns = _HEADER.unpack(head)
    if row_size != 4 or column_size != 4:
        source.fail("expected the numbers of rows and columns as 4-byte integers; the file is damaged")
    if rows < 0 or columns < 0:
        source.fail(f"invalid size of a matrix: {rows} rows, {columns} columns")
    source.skip(HEADER_SIZE)
    return stored_dtype, rows, columns


def read_dense(source: Source, head: bytes, dtype: np.dtype[Any]) -> Array:
    """Read a dense matrix in binary, after the marker, as an array (rows, columns) of type ``dtype``.

    ``head`` holds the next ``HEADER_SIZE`` bytes of the source. Raise FormatError if the header is invalid or
    the matrix is incomplete.
    """
    stored_dtype, rows, columns = _read_header(source, head)
    return _convert_values(source.read_array(stored_dtype, rows * columns).reshape(rows, columns), dtype)


def skip_dense(source: Source, head: bytes) -> tuple[int, int]:
    """Skip a dense matrix in binary, and return its numbers of rows and columns (see :func:`read_dense`)."""
    stored_dtype, rows, columns = _read_header(source, head)
    source.skip(rows * columns * stored_dtype.itemsize)
    return rows, columns


def read_dense_range(source: Source, head: bytes, dtype: np.dtype[Any], selection: Range) -> Array:
    """Read a part of a dense matrix in binary, without reading the rows before and after the part.

    ``selection`` is the range of rows and columns to read. For the other arguments and errors, see :func:`read_dense`.
    Raise RangeError if the range is outside the matrix.
    """
    stored_dtype, rows, columns = _read_header(source, head)
    row_slice, column_slice = find_slices(selection, rows, columns, source.name)
    source.check_available(rows * columns * stored_dtype.itemsize)
    source.skip(row_slice.start * columns * stored_dtype.itemsize)
    values = source.read_array(stored_dtype, (row_slice.stop - row_slice.start) * columns).reshape(-1, columns)
    if column_slice != slice(0, columns):
        values = values[:, column_slice].copy()
    return _convert_values(values, dtype)


def _convert_values(values: Array, dtype: np.dtype[Any]) -> Array:
    """Convert floats to the type ``dtype``, if necessary. Numbers beyond the range of float32 become infinite."""
    if values.dtype == dtype:
        return values
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(dtype)


def read_text_matrix(source: Source, dtype: npt.DTypeLike) -> Array:
    """Read a matrix (rows, columns) in text: ``[``, rows that end at newlines or ``;``, and ``]``.

    Raise FormatError if there is no matrix, a word is not a number, or the rows differ in length.
    """
    text, at = read_bracketed_text(source, "matrix")
    values, counts = parse_rows(text, dtype, lambda message, i: source.fail(f"a matrix in text: {message}", at + i))
    warn_of_nonfinite(values, "matrix")
    columns = counts[0] if counts else 0
    for row, count in enumerate(counts):
        if count != columns:
            message = f"a matrix in text: row {row} (from 0) has the length {count}, but row 0 has the length {columns}"
            source.fail(message, at)
    return values.reshape(len(counts), columns)


def read_bracketed_text(source: Source, what: str) -> tuple[bytes, int]:
    """Read an object between ``[`` and ``]``, and the newline after it.

    Return the bytes between the brackets, and their offset in the source. Raise FormatError if a bracket is missing.
    ``what`` names the kind of object in the message.
    """
    source.skip_space()
    at = source.tell()
    start = source.peek(3)
    if start[:2] == b"[]":  # As in Kaldi, a newline after these two brackets is not read.
        source.skip(2)
        return b"", at + 1
    if start[:1] != b"[" or not start[1:2].isspace():
        if source.peek(4) in (b"RIFF", b"RIFX"):
            source.fail(f"expected a {what}, found a WAV file: compute features first, or name a table of features")
        source.fail(f"expected a {what} in binary, or in text after '[ ', found {quote_or_end(_peek_word(source))}")
    source.skip(1)
    text = source.read_until(b"]")
    if source.at_end():
        source.fail(f"a {what} in text has no closing ']'; the file may be truncated", at)
    source.skip(1)
    skip_line_end(source)
    return text, at + 1


def _peek_word(source: Source) -> bytes:
    return b"".join(source.peek(40).split(maxsplit=1)[:1])


def write_text_matrix(sink: Sink, matrix: Array) -> None:
    """Write a matrix of shape (rows, columns) in the text format of Kaldi's ``MatrixBase::Write``."""
    if matrix.size == 0:
        sink.write(b" [ ]\n")
        return
    sink.write(b" [")
    # Formatting some rows at a time bounds the memory for the text of a large matrix.
    step = max(1, _MAX_FORMATTED_NUMBERS // matrix.shape[1])
    for begin in range(0, len(matrix), step):
        rows = matrix[begin : begin + step]
        numbers = np.ascontiguousarray(rows).reshape(-1)
        sink.write(encode_lists([matrix.shape[1]] * len(rows), (numbers,), (b"\n  ", b""))[0])
    sink.write(b"]\n")
