"""Blocks: entries of a table whose values lie one after the other in one array (ragged batches)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from io_ark.native import library
from io_ark.native.blocks import BlockFunctions, block_functions
from io_ark.native.scan import PosteriorArrays, Ragged, RaggedScanner, posterior_arrays

__all__ = [
    "BLOCK_BYTES",
    "MAX_ENTRIES",
    "ArrayBlock",
    "Block",
    "BlockScanner",
    "ListBlock",
    "PackedBlock",
    "PosteriorBlock",
    "ScannedBlock",
    "ShapeScanner",
    "block_scanner",
    "compressed_block",
    "encode_keys",
    "join_keys",
    "split_keys",
]

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]

BLOCK_BYTES = 1 << 19
"""Bytes of a block at most, unless a single object is larger: a block and its results should fit into a cache."""

MAX_ENTRIES = 1 << 12
"""Entries of a block at most."""

_LARGEST = BLOCK_BYTES // 2  # bytes of an object; larger ones are read directly into their arrays


class Block(Protocol):
    """Protocol of blocks.

    Attributes:
        keys: the keys of the entries as bytes, with a newline after each.
    """

    @property
    def keys(self) -> bytes: ...

    def __len__(self) -> int: ...

    def entries(self) -> Iterator[tuple[str, Any]]:
        """Iterate over keys and values."""


def split_keys(keys: bytes) -> list[str]:
    """Return the keys of a block as strings."""
    return keys.decode("utf-8", "surrogateescape").split("\n")[:-1]


@dataclass(frozen=True)
class ArrayBlock:
    """Entries that are arrays.

    Attributes:
        keys: the keys as bytes, with a newline after each.
        values: (numbers,): the elements of all arrays, one array after the other.
        shapes: (entries, 2) int64: rows and columns of each matrix. For vectors the first number is their length; for
            numbers both are 0.
        dimensions: 2 for matrices, 1 for vectors, 0 for numbers.

    >>> block = ArrayBlock(b"a\\nb\\n", np.arange(6.0), np.array([[1, 2], [2, 2]]))
    >>> block.rows().tolist(), block.columns()
    ([0, 1, 3], 2)
    >>> [(key, matrix.shape) for key, matrix in block.entries()]
    [('a', (1, 2)), ('b', (2, 2))]
    """

    keys: bytes
    values: Array
    shapes: Integers
    dimensions: int = 2

    @classmethod
    def of(cls, keys: Sequence[str], arrays: Sequence[Array]) -> ArrayBlock:
        """Return the block of matrices or vectors of one type. One that is alone and contiguous is not copied."""
        dimensions = arrays[0].ndim
        shapes = np.array([each.shape for each in arrays], np.int64)
        if dimensions == 1:
            shapes = np.concatenate((shapes, np.zeros_like(shapes)), axis=1)
        flat = [each.reshape(-1) for each in arrays]
        return cls(encode_keys(keys), flat[0] if len(flat) == 1 else np.concatenate(flat), shapes, dimensions)

    def __len__(self) -> int:
        return len(self.shapes)

    def sizes(self) -> Integers:
        """Return how many numbers each array has."""
        if self.dimensions == 0:
            return np.ones(len(self), np.int64)
        sizes: Integers = self.shapes[:, 0] * self.shapes[:, 1] if self.dimensions > 1 else self.shapes[:, 0]
        return sizes

    def rows(self) -> Integers:
        """Return the boundaries of the arrays in rows (in elements, for vectors): (entries + 1,), from 0 on."""
        bounds = np.zeros(len(self) + 1, np.int64)
        np.cumsum(self.shapes[:, 0], out=bounds[1:])
        return bounds

    def columns(self) -> int | None:
        """Return the number of columns that all matrices have; None if they differ or one has no elements."""
        if not len(self) or not self.shapes.all():
            return None
        columns = int(self.shapes[0, 1])
        return columns if (self.shapes[:, 1] == columns).all() else None

    def matrix(self) -> Array | None:
        """Return the rows of all matrices, (rows, columns); None if :meth:`columns` is None."""
        columns = self.columns()
        return None if columns is None else self.values.reshape(-1, columns)

    def stacked(self) -> Array | None:
        """Return matrices of one shape as an array (entries, rows, columns); None if their shapes differ."""
        if self.columns() is None or (self.shapes[:, 0] != self.shapes[0, 0]).any():
            return None
        return self.values.reshape(len(self), *self.shapes[0].tolist())

    def names(self) -> list[str]:
        """Return the keys as strings."""
        return split_keys(self.keys)

    def chosen(self, entries: npt.NDArray[np.bool_]) -> ArrayBlock:
        """Return the block of those entries for which the mask (entries,) is true."""
        if entries.all():
            return self
        keys = [key for key, chosen in zip(self.keys.split(b"\n"), entries.tolist(), strict=False) if chosen]
        values = self.values[np.repeat(entries, self.sizes())]
        return replace(self, keys=join_keys(keys), values=values, shapes=self.shapes[entries])

    def with_rows(self, values: Array, counts: Integers | None = None) -> ArrayBlock:
        """Return matrices under the same keys.

        Args:
            values: (rows, columns): the rows of all matrices.
            counts: (entries,): rows of each matrix; by default as many as now.
        """
        shapes = np.empty_like(self.shapes)
        shapes[:, 0] = self.shapes[:, 0] if counts is None else counts
        shapes[:, 1] = values.shape[1]
        return replace(self, values=values.reshape(-1), shapes=shapes, dimensions=2)

    def with_matrices(self, values: Array) -> ArrayBlock:
        """Return matrices of one shape, (entries, rows, columns), under the same keys."""
        return self.with_rows(values.reshape(-1, values.shape[2]), np.full(len(self), values.shape[1]))

    def with_vectors(self, values: Array, lengths: Integers | None = None) -> ArrayBlock:
        """Return vectors under the same keys: ``values`` (numbers,), by default one number for each row."""
        shapes = np.zeros_like(self.shapes)
        shapes[:, 0] = self.shapes[:, 0] if lengths is None else lengths
        return replace(self, values=values, shapes=shapes, dimensions=1)

    def with_numbers(self, values: Array) -> ArrayBlock:
        """Return numbers under the same keys: ``values`` (entries,)."""
        return replace(self, values=values, shapes=np.zeros_like(self.shapes), dimensions=0)

    def entries(self) -> Iterator[tuple[str, Any]]:
        """Iterate over keys and values: views of the block's numbers."""
        if self.dimensions == 0:
            yield from zip(self.names(), self.values.tolist(), strict=True)
            return
        begin = 0
        for key, shape, size in zip(self.names(), self.shapes.tolist(), self.sizes().tolist(), strict=True):
            part = self.values[begin : begin + size]
            yield key, part.reshape(shape) if self.dimensions > 1 else part
            begin += size


@dataclass(frozen=True)
class PackedBlock:
    """Entries in binary, as an archive has them.

    Attributes:
        keys: the keys as bytes, with a newline after each.
        data: (bytes,) uint8: the entries, with their keys.
        objects: (entries,): where each object starts, after its key.
    """

    keys: bytes
    data: Array
    objects: Integers

    def __len__(self) -> int:
        return len(self.objects)

    def entries(self) -> Iterator[tuple[str, Any]]:
        """Raise TypeError: only an archive in binary takes these entries."""
        raise TypeError("entries in binary can be written to an archive only")


def compressed_block(block: ArrayBlock, method: int) -> PackedBlock | None:
    """Compress the matrices of a block, as :func:`~io_ark.codecs.compressed.compress` does.

    Args:
        block: float32 matrices.
        method: number of the :class:`~io_ark.codecs.compressed.CompressionMethod`.

    Returns:
        The entries of an archive; None if one cannot be compressed, or without the C library.
    """
    functions = block_functions()
    if functions is None or block.dimensions != 2 or block.values.dtype != np.float32:
        return None
    packed = functions.compress_arrays(block.keys, block.shapes, block.values, method)
    return None if packed is None else PackedBlock(block.keys, *packed[:2])


class ListBlock:
    """Entries of any kind, whose values are made when they are needed.

    Args:
        read: returns keys and values.
        count: how many there are.
        data: (bytes,) uint8: the entries as an archive has them, if they come from an archive.
        ends: (entries,): where each entry ends in the data.
    """

    def __init__(
        self,
        read: Callable[[], Iterable[tuple[str, Any]]],
        count: int,
        data: Array | None = None,
        ends: Integers | None = None,
    ) -> None:
        self._read = read
        self._pairs: list[tuple[str, Any]] | None = None
        self._count = count
        self._data = data
        self._ends = ends

    @property
    def keys(self) -> bytes:
        """The keys as bytes, with a newline after each."""
        return encode_keys([key for key, _ in self.entries()])

    def __len__(self) -> int:
        return self._count

    def entries(self) -> Iterator[tuple[str, Any]]:
        """Iterate over keys and values."""
        if self._pairs is None:
            self._pairs = list(self._read())
        return iter(self._pairs)

    def packed(self) -> PackedBlock | None:
        """Return the entries in binary as they are in the archive; None if they are not there in binary."""
        return None if self._data is None or self._ends is None else _packed(self._data, self._ends)


def _packed(data: Array, ends: Integers) -> PackedBlock | None:
    functions = block_functions()
    found = None if functions is None else functions.find_objects(data, ends)
    return None if found is None else PackedBlock(found[0], data, found[1])


@dataclass(frozen=True)
class PosteriorBlock:
    """Entries that are posteriors.

    Attributes:
        keys: the keys as bytes, with a newline after each.
        frames: (entries,): frames of each posterior.
        posteriors: the frames of all posteriors, one posterior after the other.
        data: (bytes,) uint8: the entries as the archive has them; empty if they do not come from an archive.
        ends: (entries,): where each entry ends in the data.
    """

    keys: bytes
    frames: Integers
    posteriors: PosteriorArrays
    data: Array
    ends: Integers

    def __len__(self) -> int:
        return len(self.frames)

    def entries(self) -> Iterator[tuple[str, PosteriorArrays]]:
        """Iterate over keys and posteriors."""
        return zip(split_keys(self.keys), self.posteriors.split(self.frames), strict=True)

    def packed(self) -> PackedBlock | None:
        """Return the entries in binary as they are in the archive; None if they are not there in binary."""
        return _packed(self.data, self.ends) if len(self.data) else None


def encode_keys(keys: Iterable[str]) -> bytes:
    """Return keys as a block has them.

    >>> encode_keys(["a", "b"])
    b'a\\nb\\n'
    """
    return "\n".join([*keys, ""]).encode("utf-8", "surrogateescape")


class ScannedBlock(NamedTuple):
    """Entries that were read from a window.

    Attributes:
        block: the entries.
        end: where the last one ends, from the window's begin.
    """

    block: Any
    end: int


class BlockScanner(Protocol):
    """Protocol of what reads blocks of one kind of object.

    Attributes:
        reads_files: True if objects are often files of their own, which are then read together.
        reads_places: True if :meth:`objects` reads objects.
    """

    reads_files: bool
    reads_places: bool

    def entries(self, window: Any, begin: int, end: int) -> ScannedBlock | None:
        """Read the entries that are whole in ``window[begin:end]``, or the first of them; None if there are none."""

    def objects(self, window: Any, begin: int, end: int, keys: list[bytes], places: list[int]) -> ScannedBlock | None:
        """Read the objects at these ascending places from ``begin`` on, or the first of them."""


def block_scanner(kind: str) -> BlockScanner | None:
    """Return what reads blocks of a kind of ``io_ark.native.scan``: arrays and posteriors; None if nothing does."""
    if not library():
        return None
    return ArrayScanner(kind) if kind in _DTYPES else PosteriorScanner() if kind == "posterior-arrays" else None


_DTYPES: dict[str, tuple[type, int]] = {
    "matrix": (np.float32, 2),
    "double-matrix": (np.float64, 2),
    "vector": (np.float32, 1),
    "double-vector": (np.float64, 1),
}


class ArrayScanner:
    """Reads blocks of matrices or vectors in binary or text."""

    reads_files, reads_places = False, True

    def __init__(self, kind: str) -> None:
        self._scanner = RaggedScanner(kind, BLOCK_BYTES, _LARGEST, MAX_ENTRIES)
        self._dtype, self._dimensions = _DTYPES[kind]

    def entries(self, window: Any, begin: int, end: int) -> ScannedBlock | None:
        found = self._scanner.entries(window, begin, end)
        return None if found is None else self._block(found.keys, found)

    def objects(self, window: Any, begin: int, end: int, keys: list[bytes], places: list[int]) -> ScannedBlock | None:
        found = self._scanner.objects(window, begin, end, places)
        return None if found is None else self._block(join_keys(keys[: len(found.shapes)]), found)

    def _block(self, keys: bytes, found: Ragged) -> ScannedBlock:
        block = ArrayBlock(keys, found.values.view(self._dtype), found.shapes, self._dimensions)
        return ScannedBlock(block, int(found.ends[-1]))


class PosteriorScanner:
    """Reads blocks of posteriors in binary or text."""

    reads_files, reads_places = False, True

    def __init__(self) -> None:
        self._scanner = RaggedScanner("posterior-arrays", BLOCK_BYTES, _LARGEST, MAX_ENTRIES)

    def entries(self, window: Any, begin: int, end: int) -> ScannedBlock | None:
        found = self._scanner.entries(window, begin, end)
        if found is None:
            return None
        data = np.frombuffer(window, np.uint8, int(found.ends[-1]), begin).copy()
        return _posterior_block(found.keys, found, data)

    def objects(self, window: Any, begin: int, end: int, keys: list[bytes], places: list[int]) -> ScannedBlock | None:
        found = self._scanner.objects(window, begin, end, places)
        return None if found is None else _posterior_block(join_keys(keys[: len(found.shapes)]), found)


def _posterior_block(keys: bytes, found: Ragged, data: Array | None = None) -> ScannedBlock:
    posteriors = posterior_arrays(found.values.view(np.int32), found.lists)
    data = np.empty(0, np.uint8) if data is None else data
    return ScannedBlock(PosteriorBlock(keys, found.shapes[:, 0], posteriors, data, found.ends), int(found.ends[-1]))


def join_keys(keys: list[bytes]) -> bytes:
    """Return keys as a block has them."""
    return b"\n".join([*keys, b""])


class ShapeScanner:
    """Reads the shapes of matrices: blocks whose values are empty."""

    reads_files = reads_places = False

    def __init__(self, functions: BlockFunctions) -> None:
        self._functions = functions

    @classmethod
    def if_available(cls) -> ShapeScanner | None:
        """Return a scanner; None without the C library."""
        functions = block_functions()
        return None if functions is None else cls(functions)

    def entries(self, window: Any, begin: int, end: int) -> ScannedBlock | None:
        found = self._functions.scan_shapes(window, begin, min(end, begin + BLOCK_BYTES), MAX_ENTRIES)
        if not len(found.ends):
            return None
        return ScannedBlock(ArrayBlock(found.keys, np.empty(0, np.float32), found.columns[0]), int(found.ends[-1]))

    def objects(self, window: Any, begin: int, end: int, keys: list[bytes], places: list[int]) -> ScannedBlock | None:
        return None
