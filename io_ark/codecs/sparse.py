"""Sparse vectors (``SV``) and matrices (``SM``).

Source: ``SparseVector`` and ``SparseMatrix`` in Kaldi's ``src/matrix/sparse-matrix.cc``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from io_ark.codecs.base import (
    INT32_MAX,
    Codec,
    Sink,
    as_array,
    as_floats,
    as_int32,
    encode_int32,
    expect_token,
    quote_or_end,
    read_size,
    register_kind,
)
from io_ark.codecs.int_vector import to_integers
from io_ark.codecs.pairs import Pair, format_pairs, parse_pairs, read_pairs, write_pairs
from io_ark.errors import FormatError
from io_ark.streams.source import Source

Array = npt.NDArray[Any]


@register_kind("sparse-vector")
class SparseVector(NamedTuple):
    """Vector of which only some elements are stored. Elements that are not stored are zero.

    >>> import numpy as np
    >>> from io_ark.codecs.sparse import SparseVector
    >>> SparseVector(4, np.array([1, 2], np.int32), np.array([0.5, 2.0], np.float32)).to_array().tolist()
    [0.0, 0.5, 2.0, 0.0]
    """

    dim: int  # Number of elements, including elements that are not stored.
    indices: Array  # int32 of shape (stored,): indices of the stored elements, ascending.
    values: Array  # float32 of shape (stored,): values of the stored elements.

    @classmethod
    def from_array(cls, vector: npt.ArrayLike) -> SparseVector:
        """Create a sparse vector from the nonzero elements of an array of shape (dim,)."""
        dense = as_floats(vector, np.float32, 1)
        indices = np.flatnonzero(dense)
        return cls(len(dense), indices.astype(np.int32), dense[indices])

    @property
    def shape(self) -> tuple[int]:
        """Shape of the vector: (dim,)."""
        return (self.dim,)

    def extract_part(self, elements: slice) -> SparseVector:
        """Return the elements in a slice, whose start and stop must be within the vector and whose step is ignored."""
        begin, end = np.searchsorted(self.indices, (elements.start, elements.stop))
        indices = self.indices[begin:end] - np.int32(elements.start)
        return SparseVector(elements.stop - elements.start, indices, self.values[begin:end].copy())

    def to_array(self, dtype: npt.DTypeLike = np.float32) -> Array:
        """Return all elements, including zeros, as an array of shape (dim,) and type ``dtype``."""
        dense = np.zeros(self.dim, dtype)
        dense[self.indices] = self.values
        return dense


@register_kind("sparse-matrix")
class SparseMatrix(NamedTuple):
    """Matrix whose rows are sparse vectors.

    >>> from io_ark.codecs.sparse import SparseMatrix
    >>> SparseMatrix.from_array([[0, 1], [2, 0]]).extract_part(slice(0, 1), slice(0, 2)).to_array().tolist()
    [[0.0, 1.0]]
    """

    rows: Sequence[SparseVector]  # Sparse vectors of equal dimension.

    @classmethod
    def from_array(cls, matrix: npt.ArrayLike) -> SparseMatrix:
        """Create a sparse matrix from the nonzero elements of an array of shape (rows, columns)."""
        return cls([SparseVector.from_array(row) for row in as_floats(matrix, np.float32, 2)])

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return len(self.rows), self.rows[0].dim if self.rows else 0

    def extract_part(self, rows: slice, columns: slice) -> SparseMatrix:
        """Return the elements in slices of rows and columns, which must be within the matrix and have no steps."""
        return SparseMatrix([row.extract_part(columns) for row in self.rows[rows]])

    def to_array(self, dtype: npt.DTypeLike = np.float32) -> Array:
        """Return all elements, including zeros, as an array of shape (rows, columns) and type ``dtype``."""
        dense = np.zeros(self.shape, dtype)
        for dense_row, row in zip(dense, self.rows, strict=True):
            dense_row[row.indices] = row.values
        return dense


class SparseVectorCodec(Codec[SparseVector]):
    """Codec that reads a :class:`SparseVector`, and writes a :class:`SparseVector` or an array."""

    def read_body(self, source: Source, binary: bool) -> SparseVector:
        at = source.tell()
        if binary:
            expect_token(source, True, b"SV")
            dim = read_size(source, True, "the dimension of a sparse vector")
            pairs = read_pairs(source, read_size(source, True, "the number of elements"), "a sparse vector")
        else:
            dim = _read_named_number(source, b"dim=", "a sparse vector")
            source.skip_space()
            if source.peek(1) != b"[":
                source.fail("expected '[' before the elements of a sparse vector")
            text = source.read_until(b"]")
            if source.at_end():
                source.fail("a sparse vector in text has no closing ']'; the file may be truncated", at)
            source.skip(1)
            pairs = parse_pairs(text[1:], source, at)
        return _create_sparse_vector(dim, pairs, source, at)

    def write_body(self, sink: Sink, value: SparseVector | npt.ArrayLike, binary: bool) -> None:
        vector = value if isinstance(value, SparseVector) else SparseVector.from_array(value)
        indices, values, dim = to_integers(vector.indices, np.int32), as_array(vector.values), as_int32(vector.dim)
        if dim < 0:
            raise FormatError(f"a sparse vector cannot have {dim} elements: set dim to 0 or more")
        if indices.shape != values.shape:
            shapes = f"indices of shape {indices.shape} and values of shape {values.shape}"
            raise FormatError(f"a sparse vector has {shapes}: pass one value for each index")
        if not _are_valid_indices(indices, dim):
            problem = f"the indices of a sparse vector are not ascending, or not in 0 to {dim - 1}"
            raise FormatError(f"{problem}: sort the elements, or increase dim")
        # Kaldi's values are floats, so text has the digits of float32 as well.
        pairs = list(zip(indices.tolist(), as_floats(values, np.float32, 1).tolist(), strict=True))
        if not binary:
            sink.write(f"dim={dim} [ {format_pairs(pairs)}] ".encode("ascii"))
            return
        sink.write(b"SV " + encode_int32(dim) + encode_int32(len(pairs)))
        write_pairs(sink, pairs)


class SparseMatrixCodec(Codec[SparseMatrix]):
    """Codec that reads a :class:`SparseMatrix`, and writes a :class:`SparseMatrix` or an array."""

    _row = SparseVectorCodec()

    def read_body(self, source: Source, binary: bool) -> SparseMatrix:
        at = source.tell()
        if binary:
            expect_token(source, True, b"SM")
            count = read_size(source, True, "the number of rows of a sparse matrix")
        else:
            count = _read_named_number(source, b"rows=", "a sparse matrix")
        rows = [self._row.read_body(source, binary) for _ in range(count)]
        if any(row.dim != rows[0].dim for row in rows):
            source.fail("the rows of a sparse matrix have different dimensions; the file is damaged", at)
        return SparseMatrix(rows)

    def write_body(self, sink: Sink, value: SparseMatrix | npt.ArrayLike, binary: bool) -> None:
        matrix = value if isinstance(value, SparseMatrix) else SparseMatrix.from_array(value)
        if len({row.dim for row in matrix.rows}) > 1:
            raise FormatError("the rows of a sparse matrix have different dimensions: give all rows the same dim")
        count = len(matrix.rows)
        sink.write(b"SM " + encode_int32(count) if binary else b"rows=%d " % count)
        for row in matrix.rows:
            self._row.write_body(sink, row, binary)
        if not binary:
            sink.write(b"\n")


def _read_named_number(source: Source, name: bytes, what: str) -> int:
    """Read a name and a 32-bit number, such as ``dim=20``, and return the number. Raise FormatError for other text.

    ``name`` includes the equals sign. ``what`` names the object in errors.
    """
    source.skip_space()
    at = source.tell()
    # The name and a number of 32 bits have fewer than 40 bytes.
    word = source.peek(40).split(maxsplit=1)[:1]
    digits = word[0].removeprefix(name) if word else b""
    if not word or not word[0].startswith(name) or not digits.isdigit() or int(digits) > INT32_MAX:
        message = f"expected {name.decode()} and a number at the start of {what}, found {quote_or_end(b''.join(word))}"
        source.fail(message, at)
    source.skip(len(word[0]))
    return int(digits)


def _are_valid_indices(indices: Array, dim: int) -> bool:
    """Return True if ``indices``, int32 of shape (elements,), increase strictly and are from 0 to ``dim - 1``."""
    is_ascending = (np.diff(indices.astype(np.int64)) > 0).all()
    return not len(indices) or bool(is_ascending and indices[0] >= 0 and indices[-1] < dim)


def _create_sparse_vector(dim: int, pairs: list[Pair], source: Source, at: int) -> SparseVector:
    """Return a sparse vector with ``dim`` elements from pairs of an index and a value.

    Raise FormatError with the vector's offset ``at`` if the indices are not ascending or not in 0 to ``dim - 1``.
    """
    indices = np.array([index for index, _ in pairs], np.int32)
    if not _are_valid_indices(indices, dim):
        source.fail(f"sparse indices are not ascending, or not in 0 to {dim - 1}; the file is damaged", at)
    return SparseVector(dim, indices, np.array([value for _, value in pairs], np.float32))
