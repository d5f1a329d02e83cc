"""Blocks of table entries: the base class, blocks of arrays stored back to back, and blocks of any objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.errors import FormatError, KeyFormatError
from io_ark.logs import logger

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

BLOCK_BYTES = 1 << 19
"""Maximum bytes of a block with several entries. A block and its results should fit into a processor cache."""

MAX_ENTRIES = 1 << 12
"""Maximum number of entries of a block, which bounds the memory for their sizes and positions."""

# Types of values that have no masks. A list of such values need not be searched for masked arrays.
_COMMON_TYPES = frozenset((int, float, np.ndarray))
# Maximum bytes of a result of `Block.map` that is copied into one array together with other results. Writing a larger
# result takes much longer than the handling of a separate object, so a copy would save nothing.
_MAX_COPIED_BYTES = 1 << 15


def refuse_masks(value: object) -> None:
    """Raise FormatError if an array, alone or in nested lists, has masked elements. NumPy would drop the mask."""
    if isinstance(value, list | tuple):
        if not _COMMON_TYPES.issuperset(map(type, value)):
            for element in value:
                refuse_masks(element)
    elif isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise FormatError("elements are masked, but Kaldi's formats have no masks: fill them with .filled(...)")


class Skip(Exception):
    """Raised by the function of :meth:`Block.map` to drop an entry. A message is logged as a warning."""


class MapError(Exception):
    """The function of :meth:`Block.map` failed for an entry. The function's error is the ``__cause__``.

    Attributes:
        key: the key of the entry.
        done: the block with the results of the preceding entries.
        skipped: number of preceding entries that were dropped.
    """

    def __init__(self, key: str, error: Exception, done: Block, skipped: int) -> None:
        super().__init__(f"{key}: {error}")
        self.key = key
        self.done = done
        self.skipped = skipped


class Block:
    """Base class of blocks. A block holds successive entries of a table. An entry is a key and a value.

    Attributes:
        keys: the keys of the entries as bytes, with a newline after each.
    """

    keys: bytes

    def __len__(self) -> int:
        raise NotImplementedError

    def decode_keys(self) -> list[str]:
        """Return the keys as strings."""
        return split_keys(self.keys)

    def entries(self) -> Iterator[tuple[str, Any]]:
        """Iterate over keys and values."""
        raise NotImplementedError

    def select(self, mask: Mask) -> Block:
        """Return a block of the entries for which the boolean ``mask``, shape (entries,), is true."""
        raise NotImplementedError

    def split(self, bounds: Sequence[int]) -> Iterator[Block]:
        """Yield blocks of the entries ``bounds[i]`` to ``bounds[i + 1] - 1``. The bounds go from 0 to ``len(self)``."""
        if len(bounds) <= 2:
            yield self
            return
        indices, middle = np.arange(len(self)), len(bounds) // 2
        # Splitting into halves is faster than selecting every part from the whole block.
        for half_bounds in (bounds[: middle + 1], bounds[middle:]):
            half = self.select((half_bounds[0] <= indices) & (indices < half_bounds[-1]))
            yield from half.split([bound - half_bounds[0] for bound in half_bounds])

    def map(self, function: Callable[[str, Any], Any]) -> Block:
        """Return a block of the results of ``function(key, value)`` with the same keys.

        :func:`create_array_or_object_block` chooses the class of the block from the results. Entries for which the
        function raises :class:`Skip` are dropped.

        Raises:
            MapError: the function failed. The error holds the results of the entries before the failure.
        """
        keys: list[str] = []
        results: list[Any] = []
        for index, (key, value) in enumerate(self.entries()):
            try:
                result = function(key, value)
            except Skip as reason:
                if str(reason):
                    logger.warning("%s", reason)
            except Exception as error:
                raise MapError(key, error, create_array_or_object_block(keys, results), index - len(keys)) from error
            else:
                keys.append(key)
                results.append(result)
        return create_array_or_object_block(keys, results)

    def pack(self) -> PackedBlock | None:
        """Return the entries in the binary format of an archive, or None if the block does not hold their bytes."""
        return None


@dataclass(frozen=True, eq=False)
class PackedBlock(Block):
    """Block of entries in the binary format of an archive. It can be written, but its values cannot be read."""

    keys: bytes
    data: Array  # (bytes,) uint8: the entries, with their keys.
    objects: Integers  # (entries,) int64: offset of each object, after its key.

    def __len__(self) -> int:
        return len(self.objects)

    def entries(self) -> Iterator[tuple[str, Any]]:
        """Raise TypeError, because the block holds the bytes of the values, and cannot decode them."""
        raise TypeError("the values of packed entries cannot be read: write the block to a binary archive")

    def pack(self) -> PackedBlock:
        return self


@dataclass(frozen=True, eq=False)
class ObjectBlock(Block):
    """Block of entries of any kind. The values are created on access."""

    keys: bytes
    read: Callable[[], Iterable[Any]]  # Function that returns the values in the order of the keys.
    count: int  # Number of entries.
    # (bytes,) uint8: the bytes of the entries in their archive. Empty for entries that do not come from an archive.
    data: Array = field(default_factory=lambda: np.empty(0, np.uint8))
    # (entries,) int64: offset in `data` of the end of each entry. Empty if `data` is empty.
    ends: Integers = field(default_factory=lambda: np.empty(0, np.int64))

    @classmethod
    def from_values(cls, keys: Sequence[str], values: Sequence[Any]) -> ObjectBlock:
        """Return a block of keys and values of any kind."""
        return cls(encode_keys(keys), lambda: values, len(keys))

    def __len__(self) -> int:
        return self.count

    def entries(self) -> Iterator[tuple[str, Any]]:
        values = iter(self.read())
        # zip would keep a reference to the previous pair, and its value may be large.
        return ((key, next(values)) for key in self.decode_keys())

    def select(self, mask: Mask) -> ObjectBlock:
        indices = np.flatnonzero(mask).tolist()
        keys, values = self.decode_keys(), list(self.read())
        return ObjectBlock.from_values([keys[index] for index in indices], [values[index] for index in indices])

    def pack(self) -> PackedBlock | None:
        return pack_entries(self.keys, self.data, self.ends)


@dataclass(frozen=True, eq=False)
class ArrayBlock(Block):
    """Block of entries whose values are matrices, vectors or scalars of one type, joined in one array."""

    keys: bytes
    values: Array  # (numbers,): the elements of all arrays, back to back.
    # (entries, 2) int64: rows and columns of each matrix, length and 0 of each vector, zeros for scalars.
    shapes: Integers
    dimensions: int = 2  # Number of dimensions: 2 for matrices, 1 for vectors, 0 for scalars.

    @classmethod
    def from_arrays(cls, keys: Sequence[str], arrays: Sequence[Array]) -> ArrayBlock:
        """Return a block of one or more matrices, or of one or more vectors, which must all have the same dtype.

        A single contiguous array is not copied. Raise FormatError if an array has masked elements.
        """
        refuse_masks(arrays)
        dimensions = arrays[0].ndim
        shapes = np.array([array.shape for array in arrays], np.int64)
        if dimensions == 1:
            shapes = np.concatenate((shapes, np.zeros_like(shapes)), axis=1)
        flat = [array.reshape(-1) for array in arrays]  # A view may have a negative stride, so it is copied below.
        values = np.ascontiguousarray(flat[0]) if len(flat) == 1 else np.concatenate(flat)
        return cls(encode_keys(keys), values, shapes, dimensions)

    def __len__(self) -> int:
        return len(self.shapes)

    def count_elements(self) -> Integers:
        """Return the number of elements of each array, shape (entries,)."""
        if self.dimensions == 0:
            return np.ones(len(self), np.int64)
        sizes: Integers = self.shapes[:, 0] * self.shapes[:, 1] if self.dimensions > 1 else self.shapes[:, 0]
        return sizes

    def compute_row_bounds(self) -> Integers:
        """Return the boundaries of the matrices in :meth:`join_rows`, shape (entries + 1,).

        Rows ``bounds[i]`` to ``bounds[i + 1] - 1`` belong to matrix ``i``, and the last boundary is the total number of
        rows. For vectors, the boundaries count elements. For scalars, all boundaries are 0.
        """
        bounds = np.zeros(len(self) + 1, np.int64)
        np.cumsum(self.shapes[:, 0], out=bounds[1:])
        return bounds

    def count_columns(self) -> int | None:
        """Return the number of columns if it is the same for all matrices, and no matrix is empty.

        Otherwise, and for a block of vectors, of scalars or without entries, return None.
        """
        if not len(self) or not self.shapes.all():
            return None
        columns = int(self.shapes[0, 1])
        return columns if (self.shapes[:, 1] == columns).all() else None

    def join_rows(self) -> Array | None:
        """Return the rows of all matrices as one array (rows, columns), or None if :meth:`count_columns` is None."""
        columns = self.count_columns()
        return None if columns is None else self.values.reshape(-1, columns)

    def stack(self) -> Array | None:
        """Return matrices as one array (entries, rows, columns), vectors as (entries, length), scalars as (entries,).

        Return None if the matrices or vectors differ in shape or are empty, or if the block has no entries.
        """
        shape = self.shapes[:1, : self.dimensions]
        if not len(self) or not shape.all() or (self.shapes[:, : self.dimensions] != shape).any():
            return None
        return self.values.reshape(len(self), *shape[0].tolist())

    def select(self, mask: Mask) -> ArrayBlock:
        if mask.all():
            return self
        values = self.values[np.repeat(mask, self.count_elements())]
        return replace(self, keys=select_keys(self.keys, mask), values=values, shapes=self.shapes[mask])

    def split(self, bounds: Sequence[int]) -> Iterator[ArrayBlock]:
        keys = self.keys.split(b"\n")
        offsets = [0, *np.cumsum(self.count_elements()).tolist()]
        for begin, end in pairwise(bounds):
            values, shapes = self.values[offsets[begin] : offsets[end]], self.shapes[begin:end]
            yield ArrayBlock(join_keys(keys[begin:end]), values, shapes, self.dimensions)

    def with_rows(self, values: Array, counts: Integers | None = None) -> ArrayBlock:
        """Return a block of matrices with the same keys.

        Args:
            values: rows of all matrices, shape (rows, columns).
            counts: number of rows of each matrix, shape (entries,). None keeps the numbers of rows of this block.
        """
        shapes = np.empty_like(self.shapes)
        shapes[:, 0] = self.shapes[:, 0] if counts is None else counts
        shapes[:, 1] = values.shape[1]
        return replace(self, values=np.ascontiguousarray(values).reshape(-1), shapes=shapes, dimensions=2)

    def with_matrices(self, values: Array) -> ArrayBlock:
        """Return a block of matrices with the same keys from an array (entries, rows, columns)."""
        return self.with_rows(values.reshape(-1, values.shape[2]), np.full(len(self), values.shape[1]))

    def with_vectors(self, values: Array, lengths: Integers | None = None) -> ArrayBlock:
        """Return a block of vectors with the same keys.

        Args:
            values: elements of all vectors, one vector after another, shape (numbers,).
            lengths: number of elements of each vector, shape (entries,). If None, a vector has one element for each row
                of the array with the same key in this block.
        """
        shapes = np.zeros_like(self.shapes)
        shapes[:, 0] = self.shapes[:, 0] if lengths is None else lengths
        return replace(self, values=np.ascontiguousarray(values), shapes=shapes, dimensions=1)

    def with_numbers(self, values: Array) -> ArrayBlock:
        """Return a block of scalars with the same keys. ``values``, shape (entries,), holds the scalars."""
        return replace(self, values=values, shapes=np.zeros_like(self.shapes), dimensions=0)

    def entries(self) -> Iterator[tuple[str, Any]]:
        """Iterate over keys and values: views of the block's numbers, or Python numbers if ``dimensions`` is 0."""
        if self.dimensions == 0:
            yield from zip(self.decode_keys(), self.values.tolist(), strict=True)
            return
        if (stacked := self.stack()) is not None:  # Iterating over one array is faster than slicing.
            yield from zip(self.decode_keys(), list(stacked), strict=True)
            return
        begin = 0
        sizes = self.count_elements().tolist()
        for key, shape, size in zip(self.decode_keys(), self.shapes.tolist(), sizes, strict=True):
            part = self.values[begin : begin + size]
            yield key, part.reshape(shape) if self.dimensions > 1 else part
            begin += size


def create_array_or_object_block(keys: Sequence[str], values: Sequence[Any]) -> ArrayBlock | ObjectBlock:
    """Return an ArrayBlock of one array, or of arrays that share dtype and ndim and have less than 32 KiB each.

    Return an ObjectBlock for other values, or if there are none. See :func:`_is_joinable` for the types of the arrays.
    """
    if not values or not all(map(_is_joinable, values)):
        return ObjectBlock.from_values(keys, values)
    array_type = values[0].dtype, values[0].ndim
    if len(values) > 1 and not all((v.dtype, v.ndim) == array_type and v.nbytes < _MAX_COPIED_BYTES for v in values):
        return ObjectBlock.from_values(keys, values)
    return ArrayBlock.from_arrays(keys, values)


def _is_joinable(value: Any) -> bool:
    """Return True for vectors and matrices of float32 or float64, and vectors of int32."""
    if type(value) is not np.ndarray or not 0 < value.ndim <= 2:
        return False
    return value.dtype in (np.float32, np.float64) or (value.dtype == np.int32 and value.ndim == 1)


# Positions of the blank before an object and of the two bytes of its binary marker, relative to the object's start.
_START = np.arange(-1, 2)


def pack_entries(keys: bytes, data: Array, ends: Integers) -> PackedBlock | None:
    """Return the entries of a binary archive as a block, or None if ``data`` is empty or has an object in text format.

    Args:
        keys: keys in the format of :attr:`Block.keys`.
        data: bytes of the entries, uint8 of shape (bytes,), or empty if they are unknown.
        ends: offset in ``data`` of the end of each entry, shape (entries,).
    """
    if not len(data):
        return None
    newlines = np.flatnonzero(np.frombuffer(keys, np.uint8) == ord("\n"))
    # A key and a newline have as many bytes as the key and the blank before an object in `data`.
    offsets = np.concatenate(([0], ends[:-1])) + np.diff(newlines, prepend=-1)
    if (offsets + 1 >= ends).any() or data[offsets[:, None] + _START].tobytes() != b" \0B" * len(offsets):
        return None
    return PackedBlock(keys, data, offsets)


def split_keys(keys: bytes) -> list[str]:
    """Return the keys of a block as strings."""
    return keys.decode("utf-8", "surrogateescape").split("\n")[:-1]


def encode_keys(keys: Iterable[str]) -> bytes:
    """Encode keys in the format of :attr:`Block.keys`. Raise KeyFormatError if a key is empty or has a line break."""
    lines = [*keys, ""]
    encoded = "\n".join(lines).encode("utf-8", "surrogateescape")
    if encoded.count(b"\n") >= len(lines) or encoded[:1] == b"\n" or b"\n\n" in encoded:
        raise KeyFormatError("a key of a block is empty or has a line break: use keys without white space")
    return encoded


def join_keys(keys: list[bytes]) -> bytes:
    """Join keys, which are encoded as UTF-8, in the format of :attr:`Block.keys`."""
    return b"\n".join([*keys, b""])


def select_keys(keys: bytes, mask: Mask) -> bytes:
    """Return the keys, in the format of :attr:`Block.keys`, for which ``mask`` (entries,) is true."""
    return join_keys([key for key, is_chosen in zip(keys.split(b"\n"), mask.tolist(), strict=False) if is_chosen])
