"""Symmetric and triangular matrices, stored as their lower triangle (``FP``, ``DP``).

Source: ``PackedMatrix`` in Kaldi's ``src/matrix/packed-matrix.cc``.
"""

from __future__ import annotations

from math import isqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.codecs.base import (
    ArrayCodec,
    Sink,
    as_array,
    encode_int32,
    expect_token,
    peek_byte,
    read_float,
    read_size,
    to_little_endian,
    view_raw_bytes,
)
from io_ark.codecs.dense import read_bracketed_text
from io_ark.codecs.text_format import format_row
from io_ark.codecs.text_parse import parse_rows
from io_ark.errors import FormatError
from io_ark.streams.source import Source

Array = npt.NDArray[Any]

_PRECISIONS: dict[bytes, np.dtype[Any]] = {b"FP": np.dtype("<f4"), b"DP": np.dtype("<f8")}
_SYMMETRY_TOLERANCE = 1e-3  # Maximum relative difference between mirrored elements of a symmetric matrix.


class PackedMatrixCodec(ArrayCodec):
    """Codec of square matrices that are stored as their lower triangle, row by row.

    The value has the shape (n, n), or (n (n + 1) / 2,) for the form ``packed``.

    Reads matrices of either precision into one precision.

    Args:
        form: ``symmetric``, ``triangular`` (zero above the diagonal) or ``packed`` (only the lower triangle).
        dtype: float32 or float64: precision of values that are read and written.
    """

    def __init__(self, form: str = "packed", dtype: npt.DTypeLike = np.float32) -> None:
        if form not in ("symmetric", "triangular", "packed"):
            raise FormatError(f"unknown form {form!r}: choose symmetric, triangular or packed")
        self.form = form
        self.dtype = np.dtype(dtype)

    def read_body(self, source: Source, binary: bool) -> Array:
        if not binary and peek_byte(source, binary) == b"[":
            packed, size = self._read_triangle_text(source)
        else:
            stored_dtype, size, count = _read_header(source, binary)
            if binary:
                packed = source.read_array(stored_dtype, count)
            else:
                # Kaldi's older text format has a count and no brackets. The list grows with the numbers, because a
                # wrong count may be huge.
                is_single = self.dtype == np.float32
                numbers: list[float] = []
                for _ in range(count):
                    numbers.append(read_float(source, False, is_single))  # noqa: PERF401
                packed = np.array(numbers)
        with np.errstate(over="ignore", invalid="ignore"):
            packed = packed.astype(self.dtype, copy=False)
        return packed if self.form == "packed" else unpack_triangle(packed, size, is_symmetric=self.form == "symmetric")

    def skip_body(self, source: Source) -> tuple[int, ...]:
        stored_dtype, size, count = _read_header(source, True)
        source.skip(count * stored_dtype.itemsize)
        return (count,) if self.form == "packed" else (size, size)

    def _read_triangle_text(self, source: Source) -> tuple[Array, int]:
        """Read a lower triangle in text. Return its numbers row by row, and the number of rows."""
        text, at = read_bracketed_text(source, "packed matrix")
        if b";" in text:  # parse_rows would accept a semicolon as the end of a row.
            source.fail("a packed matrix in text: expected a number, found ';'", at + text.index(b";"))
        values, _ = parse_rows(text, self.dtype, lambda message, i: source.fail(f"a packed matrix: {message}", at + i))
        size = isqrt(2 * len(values))
        if size * (size + 1) // 2 != len(values):
            source.fail(f"a lower triangle of n rows has n (n + 1) / 2 numbers, not {len(values)}: read another kind "
                        "of object", at)  # fmt: skip
        return values, size

    def write_body(self, sink: Sink, value: npt.ArrayLike, binary: bool) -> None:
        packed, size = self._extract_lower_triangle(as_array(value))
        if binary:
            sink.write((b"FP " if self.dtype == np.float32 else b"DP ") + encode_int32(size))
            sink.write(view_raw_bytes(packed.astype(to_little_endian(self.dtype), copy=False)))
        elif size == 0:
            sink.write(b"[ ]\n")
        else:
            rows = [packed[i * (i + 1) // 2 : (i + 1) * (i + 2) // 2].tolist() for i in range(size)]
            sink.write(("[\n" + "\n".join([format_row(row) for row in rows]) + "]\n").encode("ascii"))

    def _extract_lower_triangle(self, array: Array) -> tuple[Array, int]:
        """Return the numbers of the lower triangle row by row, and the number of rows.

        Raise FormatError unless ``array`` is a lower triangle (numbers,), or a square matrix that is lower triangular
        (if the form is "triangular") or symmetric (otherwise).
        """
        if array.dtype.kind not in "fiub":
            raise FormatError(f"expected a matrix of numbers, not of {array.dtype}: convert the array")
        with np.errstate(over="ignore"):
            array = array.astype(self.dtype, copy=False)
        if array.ndim == 1:
            size = isqrt(2 * len(array))
            if size * (size + 1) // 2 != len(array):
                raise FormatError(
                    f"a lower triangle of n rows has n (n + 1) / 2 numbers, not {len(array)}: pass the whole triangle"
                )
            return array, size
        if array.ndim != 2 or array.shape[0] != array.shape[1]:
            message = f"a {self.form} matrix is square, not of shape {array.shape}: pass a matrix of shape (n, n)"
            raise FormatError(message)
        if self.form == "triangular" and np.triu(array, 1).any():
            raise FormatError("the matrix is not lower triangular: set the elements above the diagonal to zero")
        if self.form != "triangular" and not np.allclose(array, array.T, _SYMMETRY_TOLERANCE, equal_nan=True):
            raise FormatError("the matrix is not symmetric: pass a matrix that equals its transpose")
        return array[np.tril_indices(len(array))], len(array)


def _read_header(source: Source, binary: bool) -> tuple[np.dtype[Any], int, int]:
    """Read the header of a packed matrix. Return the stored dtype, and the numbers of rows and of stored elements."""
    stored_dtype = _PRECISIONS[expect_token(source, binary, *_PRECISIONS)]
    size = read_size(source, binary, "the size of a packed matrix")
    return stored_dtype, size, size * (size + 1) // 2


def unpack_triangle(packed: Array, size: int, is_symmetric: bool) -> Array:
    """Return a matrix (size, size). Its lower triangle, row by row, is ``packed``, shape (size * (size + 1) / 2,).

    The upper triangle mirrors the lower triangle if ``is_symmetric`` is True, and is zero otherwise.
    """
    matrix = np.zeros((size, size), packed.dtype)
    rows, columns = np.tril_indices(size)
    matrix[rows, columns] = packed
    if is_symmetric:
        matrix[columns, rows] = packed
    return matrix
