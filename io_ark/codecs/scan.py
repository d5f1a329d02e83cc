"""Read the small objects in a window of bytes as a block, in one call of C.

The C code reads the layout that Kaldi writes. The codecs read any other layout, and raise all errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from io_ark.blocks import MAX_ENTRIES, ArrayBlock, Block, ObjectBlock, PosteriorArrays, PosteriorBlock, ShapeBlock
from io_ark.blocks.base import join_keys
from io_ark.blocks.posterior import Posterior
from io_ark.native import NATIVE
from io_ark.native.signatures import Structure

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]

# Maximum bytes in which the end of the first key is searched for. The data type of the first matrix follows the key.
_MAX_KEY_BYTES = 1 << 12
# Bytes of "[ ] ", the shortest frame of a posterior in text. The room for lists is estimated with it, and a scan ends
# early if the room is full.
_MIN_LIST_BYTES = 4
# Maximum bytes of a number in memory for each character of its text: a float64 of 8 bytes may come from "1 ".
_MAX_BYTES_PER_CHARACTER = 4
# Kinds of io_ark.codecs in the order of `enum kind` in scan.c.
_KINDS = (
    "vector", "double-vector", "matrix", "double-matrix", "int-vector", "int8-vector", "int-pair-vector",
    "float-pair-vector", "int", "float", "double", "bool", "token", "token-vector", "posterior",
    "int-vector-vector",
)  # fmt: skip
# Maps kinds to the kind that is stored in the same layout. Only the Python values of the two kinds differ.
_LAYOUTS = {"posterior-arrays": "posterior", "int-lists": "int-vector-vector"}
_NESTED = ("posterior", "int-vector-vector")  # Layouts of lists of lists.


class Window(NamedTuple):
    """Bytes to scan: ``data[begin:end]``."""

    data: Any  # Bytes-like object, of which a part is scanned.
    begin: int  # Offset of the first byte to scan.
    end: int  # Offset after the last byte to scan.
    max_object_bytes: int  # Maximum bytes of an object. The codec reads a larger object directly into its array.

    def view_bytes(self) -> npt.NDArray[np.uint8]:
        """Return a view of the bytes to scan as an array of shape (bytes,)."""
        return np.frombuffer(self.data, np.uint8, self.end - self.begin, self.begin)


class Scanned(NamedTuple):
    """Entries that were read from a window."""

    block: Block
    size: int  # Bytes from the start of the first entry to the end of the last entry.


class Scan(Protocol):
    """Protocol of readers of blocks of one kind of object. Threads must not share a reader.

    Attributes:
        file_bytes: number of bytes at the start of a file that :meth:`scan_at` needs, for kinds that are often stored
            as one file per object. Several files are then read together. 0 for other kinds.
        can_scan_at: True if :meth:`scan_at` reads objects.
        reads_any_size: True if objects of any size are read together, because their numbers become Python objects.
    """

    file_bytes: int
    can_scan_at: bool
    reads_any_size: bool

    def scan_entries(self, window: Window) -> Scanned | None:
        """Read one or more entries at the start of a window. Return None if the first entry cannot be read."""

    def scan_at(self, window: Window, keys: list[bytes], bounds: Integers) -> Scanned | None:
        """Read one or more objects at known offsets of a window. Return None if the first object cannot be read.

        Args:
            keys: keys of the objects. Objects at the end of the list may stay unread.
            bounds: two increasing offsets for each object, shape (objects, 2): the start of the object from the start
                of the window, and an offset that the end of the object does not exceed.
        """


class _Numbers(NamedTuple):
    """Numbers of one or more entries that were scanned in C."""

    shapes: Integers  # (entries, 2): rows and columns of matrices, length and 0 of other objects.
    values: npt.NDArray[np.uint8]  # The bytes of all numbers.
    list_lengths: Integers  # (lists,): number of integers and floats in each inner list of all entries.

    def view_as(self, dtype: npt.DTypeLike) -> Array:
        """Return a view of the numbers of all objects as an array of type ``dtype``, shape (numbers,)."""
        return self.values.view(dtype)

    def get_lengths(self) -> Integers:
        """Return the number of rows of each matrix, or the length of each other object, shape (entries,)."""
        return self.shapes[:, 0]


class KindScan:
    """Reads blocks of arrays, numbers, tokens or lists of one ``kind`` (see :mod:`io_ark.codecs`)."""

    file_bytes, can_scan_at = 0, True

    def __init__(self, kind: str) -> None:
        layout = _LAYOUTS.get(kind, kind)
        self._kind, self._code, self._is_nested = kind, _KINDS.index(layout), layout in _NESTED
        self.reads_any_size = self._is_nested
        self._ends, self._shapes = np.empty(MAX_ENTRIES, np.int64), np.empty((MAX_ENTRIES, 2), np.int64)

    @cached_property
    def _table(self) -> Structure:
        return NATIVE.get_structure("table")(ends=self._ends, shapes=self._shapes)

    def scan_entries(self, window: Window) -> Scanned | None:
        keys = np.empty(window.end - window.begin, np.uint8)
        scanned = self._scan_window(window, keys, offsets=None)
        if scanned is None:
            return None
        ends = self._ends[: len(scanned.shapes)].copy()
        data = window.view_bytes()[: ends[-1]]
        data = data if type(window.data) is bytes else data.copy()  # A memory map may be closed or changed.
        return self._make_block(keys[: self._table.fields.keys_used].tobytes(), scanned, data, ends)

    def scan_at(self, window: Window, keys: list[bytes], bounds: Integers) -> Scanned | None:
        scanned = self._scan_window(window, keys=None, offsets=np.ascontiguousarray(bounds[:MAX_ENTRIES, 0]))
        if scanned is None:
            return None
        count = len(scanned.shapes)
        return self._make_block(join_keys(keys[:count]), scanned, np.empty(0, np.uint8), self._ends[:count].copy())

    def scan_line(self, line: bytes) -> Any:
        """Return the object in a line of text, or None if the line does not have the layout that Kaldi writes."""
        size = len(line) + 1
        window = Window(line + b"\n", begin=0, end=size, max_object_bytes=size)
        offsets = np.zeros(1, np.int64)
        scanned = self._scan_window(window, None, offsets, max_value_bytes=_MAX_BYTES_PER_CHARACTER * size)
        if scanned is None or self._ends[0] != size:
            return None
        block = self._make_block(b"\n", scanned, np.empty(0, np.uint8), self._ends[:1].copy()).block
        return next(iter(block.entries()))[1]

    def _scan_window(
        self,
        window: Window,
        keys: npt.NDArray[np.uint8] | None,
        offsets: Integers | None,
        max_value_bytes: int | None = None,
    ) -> _Numbers | None:
        """Scan a window in C, and store the ends of the objects in ``_ends``. Return None if no object was read.

        Args:
            keys: buffer that receives the keys of entries. None for objects without keys.
            offsets: offsets of objects, shape (objects,). None if the window starts with an entry.
            max_value_bytes: maximum bytes of the numbers in memory. None for the size of the window.
        """
        data = window.view_bytes()
        max_object_bytes = len(data) if self.reads_any_size else window.max_object_bytes
        # The scan ends early if the numbers need more bytes.
        value_bytes = len(data) if max_value_bytes is None else max_value_bytes
        values = np.empty(value_bytes, np.uint8)
        lists = np.empty(value_bytes // _MIN_LIST_BYTES if self._is_nested else 0, np.int64)
        self._table.set_fields(
            data=data, size=len(data), keys=keys, places=offsets, values=values, values_room=len(values), lists=lists,
            lists_room=len(lists), largest=max_object_bytes,
            max_entries=MAX_ENTRIES if offsets is None else len(offsets),
        )  # fmt: skip
        scan = NATIVE.get_function("ark_scan")
        count = scan(self._table, self._code) if len(data) else 0
        has_doubles = count == 0 and self._kind in ("matrix", "vector") and _starts_with_doubles(data, offsets)
        if has_doubles:  # CMVN statistics are matrices in double precision.
            count = scan(self._table, _KINDS.index(f"double-{self._kind}"))
        if count == 0:
            return None
        fields = self._table.fields
        values = values[: fields.values_used]
        if has_doubles:
            with np.errstate(over="ignore", invalid="ignore"):
                values = values.view(np.float64).astype(np.float32).view(np.uint8)
        return _Numbers(self._shapes[:count].copy(), values, lists[: fields.lists_used])

    def _make_block(self, keys: bytes, scanned: _Numbers, data: npt.NDArray[np.uint8], ends: Integers) -> Scanned:
        """Return a block of scanned numbers, and the number of bytes of the window up to the end of its last entry.

        ``keys`` has the format of :attr:`~io_ark.blocks.base.Block.keys`. ``data`` holds the bytes of the entries, or
        no bytes for objects without keys. ``ends`` holds the end of each entry or object in the window.
        """
        block: Block
        if self._kind in _ARRAYS:
            dtype, dimensions = _ARRAYS[self._kind]
            block = ArrayBlock(keys, scanned.view_as(dtype), scanned.shapes, dimensions)
        elif self._kind in _LAYOUTS:
            arrays = (
                _build_posteriors(scanned)
                if self._kind == "posterior-arrays"
                else create_unit_posterior(scanned.list_lengths, scanned.view_as(np.int32))
            )
            block = PosteriorBlock(keys, scanned.get_lengths(), arrays, data, ends)
        else:
            convert = _VALUES[self._kind]
            block = ObjectBlock(keys, lambda: convert(scanned), len(ends), data, ends)
        return Scanned(block, int(ends[-1]))


def _starts_with_doubles(data: npt.NDArray[np.uint8], offsets: Integers | None) -> bool:
    """Return True if the first object in ``data`` is in binary and double precision.

    The first object is at ``offsets[0]``. If ``offsets`` is None, it follows the first space.
    """
    start = data[:_MAX_KEY_BYTES].tobytes().find(b" ") + 1 if offsets is None else int(offsets[0])
    return data[start : start + 3].tobytes() == b"\0BD"


def make_scan(kind: str) -> KindScan | None:
    """Return a scan that reads blocks of objects of one kind, or None if the C library is missing."""
    return KindScan(kind) if NATIVE.in_use else None


def scan_line(kind: str, line: bytes) -> Any:
    """Return the object in a line of text.

    Return None if the C library is missing, or if the line does not have the layout that Kaldi writes.
    """
    scan = make_scan(kind)
    return scan.scan_line(line) if scan else None


class ShapeScan:
    """Reads blocks of the shapes of matrices, without the numbers. ``dtype`` is the type that reading would return."""

    file_bytes, can_scan_at, reads_any_size = 0, False, False

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._dtype = dtype

    def scan_entries(self, window: Window) -> Scanned | None:
        data = window.view_bytes()
        keys, key_bytes = np.empty(len(data), np.uint8), np.zeros(1, np.int64)
        ends, shapes = np.empty(MAX_ENTRIES, np.int64), np.empty((MAX_ENTRIES, 2), np.int64)
        count = NATIVE.get_function("ark_scan_shapes")(data, len(data), MAX_ENTRIES, keys, key_bytes, ends, shapes)
        if count == 0:
            return None
        return Scanned(ShapeBlock(keys[: key_bytes[0]].tobytes(), shapes[:count], self._dtype), int(ends[count - 1]))

    def scan_at(self, window: Window, keys: list[bytes], bounds: Integers) -> Scanned | None:
        return None


_ARRAYS: dict[str, tuple[type, int]] = {
    "matrix": (np.float32, 2),
    "double-matrix": (np.float64, 2),
    "vector": (np.float32, 1),
    "double-vector": (np.float64, 1),
    "int-vector": (np.int32, 1),
}


def _split_items(items: Any, lengths: Integers) -> list[Any]:
    """Split a list or an array into successive parts. ``lengths`` holds the length of each part, shape (parts,)."""
    if isinstance(items, np.ndarray) and len(lengths) and (lengths == lengths[0]).all():
        return list(items.reshape(len(lengths), int(lengths[0]), *items.shape[1:]))
    return [items[begin:end] for begin, end in pairwise(accumulate(lengths.tolist(), initial=0))]


def _make_vector_splitter(dtype: npt.DTypeLike, *columns: int) -> Callable[[_Numbers], list[Any]]:
    return lambda scanned: _split_items(scanned.view_as(dtype).reshape(-1, *columns), scanned.get_lengths())


def _list_scalars(dtype: npt.DTypeLike) -> Callable[[_Numbers], list[Any]]:
    return lambda scanned: scanned.view_as(dtype).tolist()


def _split_lines(scanned: _Numbers) -> list[str]:
    return scanned.values[:-1].tobytes().decode("utf-8", "surrogateescape").split("\n")


def _split_token_vectors(scanned: _Numbers) -> list[list[str]]:
    return [line.split(" ") if line else [] for line in _split_lines(scanned)]


def _build_posteriors(scanned: _Numbers) -> PosteriorArrays:
    return build_posterior_arrays(scanned.view_as(np.int32), scanned.list_lengths)


def build_posterior_arrays(numbers: npt.NDArray[np.int32], list_lengths: Integers) -> PosteriorArrays:
    """Return the posteriors of frames. A posterior of a frame is a list of pairs of an integer and a weight.

    ``numbers`` holds an integer and the bits of a float32 weight for each pair, shape (2 * pairs,). ``list_lengths``,
    shape (frames,), holds the number of values in the list of each frame: two for each pair, and possibly one more for
    the number of pairs that precedes the list, which is ignored.
    """
    pairs = numbers.reshape(-1, 2)
    pair_counts = list_lengths // 2  # The division drops the number of pairs.
    return PosteriorArrays(pair_counts, pairs[:, 0].copy(), pairs[:, 1].copy().view(np.float32))


def create_unit_posterior(counts: Integers, integers: npt.NDArray[np.int32]) -> PosteriorArrays:
    """Return a posterior whose weights are all 1.

    ``counts``, shape (frames,), holds the number of integers of each frame. ``integers``, shape (pairs,), holds the
    integers of all frames.
    """
    return PosteriorArrays(counts, integers, np.broadcast_to(np.float32(1), len(integers)))


def _iterate_posteriors(scanned: _Numbers) -> Iterable[Posterior]:
    """Return an iterator over posteriors. Creating all lists at once would cost Python's garbage collector time."""
    return (posterior.to_lists() for posterior in _build_posteriors(scanned).split(scanned.get_lengths()))


def _split_int_lists(scanned: _Numbers) -> list[list[Any]]:
    return _split_items(_split_items(scanned.view_as(np.int32), scanned.list_lengths), scanned.get_lengths())


_VALUES: dict[str, Callable[[_Numbers], Iterable[Any]]] = {
    "int8-vector": _make_vector_splitter(np.int8),
    "int-pair-vector": _make_vector_splitter(np.int32, 2),
    "float-pair-vector": _make_vector_splitter(np.float32, 2),
    "int": _list_scalars(np.int32),
    "float": _list_scalars(np.float32),
    "double": _list_scalars(np.float64),
    "bool": _list_scalars(np.bool_),
    "token": _split_lines,
    "token-vector": _split_token_vectors,
    "posterior": _iterate_posteriors,
    "int-vector-vector": _split_int_lists,
}
