"""Scan blocks of an archive: one call reads the keys, shapes and numbers of many small objects."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from io_ark.native import library

__all__ = ["BLOCK", "LARGEST_OBJECT", "Block", "RaggedScanner", "Scanner", "scanner"]

BLOCK = 1 << 16
"""Bytes scanned at a time. An array handed out is a view of the numbers of its block, so it holds at most these."""

LARGEST_OBJECT = 1 << 14
"""Bytes of a small object at most; a larger one is read directly into its array, without a copy."""

_MOST_ENTRIES = 1 << 12

# The order of `enum kind` in scan.c, by the names in io_ark.codecs.
_KINDS = (
    "vector",
    "double-vector",
    "matrix",
    "double-matrix",
    "int-vector",
    "int8-vector",
    "int-pair-vector",
    "float-pair-vector",
    "int",
    "float",
    "double",
    "bool",
    "token",
    "token-vector",
    "posterior",
    "int-vector-vector",
)


Posterior = list[list[tuple[int, float]]]


class Block(NamedTuple):
    """Entries of a table that were read at once.

    Attributes:
        entries: pairs of a key and a value.
        ends: where each entry ends in the data that was scanned.
    """

    entries: Iterable[tuple[str, Any]]
    ends: list[int]


class _Table(ctypes.Structure):
    """``table`` in scan.c."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("size", ctypes.c_int64),
        ("places", ctypes.c_void_p),
        ("start", ctypes.c_int64),
        ("most", ctypes.c_int64),
        ("largest", ctypes.c_int64),
        ("values_room", ctypes.c_int64),
        ("lists_room", ctypes.c_int64),
        ("keys", ctypes.c_void_p),
        ("ends", ctypes.c_void_p),
        ("shapes", ctypes.c_void_p),
        ("values", ctypes.c_void_p),
        ("lists", ctypes.c_void_p),
        ("keys_used", ctypes.c_int64),
        ("values_used", ctypes.c_int64),
        ("lists_used", ctypes.c_int64),
    )


def scanner(kind: str) -> Scanner | None:
    """Return a scanner for a kind of object; None without the library."""
    return Scanner(kind) if library() else None


class Scanner:
    """Scans blocks of tables of one kind of object. Not to be shared by threads: its buffers are used by each call.

    Args:
        kind: a kind of object, as in :data:`io_ark.codecs.KINDS`.
    """

    def __init__(self, kind: str) -> None:
        self._scan = library().function("ark_scan", ctypes.c_void_p, ctypes.c_int, result=ctypes.c_int64)
        self._kind = _KINDS.index(kind)
        self._values_of = _VALUES[kind]
        # The text "0 " of two bytes may become a float64 of eight, and "; " a list.
        self._values = np.empty(4 * BLOCK, np.uint8)
        self._keys = np.empty(BLOCK, np.uint8)
        self._ends = np.empty(_MOST_ENTRIES, np.int64)
        self._shapes = np.empty((_MOST_ENTRIES, 2), np.int64)
        self._lists = np.empty(BLOCK // 2, np.int64)
        self._table = _Table(
            most=_MOST_ENTRIES,
            largest=BLOCK if kind in _OF_OBJECTS else LARGEST_OBJECT,
            values_room=self._values.nbytes,
            lists_room=len(self._lists),
            keys=self._keys.ctypes.data,
            ends=self._ends.ctypes.data,
            shapes=self._shapes.ctypes.data,
            values=self._values.ctypes.data,
            lists=self._lists.ctypes.data,
        )
        self._address = ctypes.addressof(self._table)

    def entries(self, window: Any, begin: int, end: int) -> Block | None:
        """Read the entries that are whole in ``window[begin:end]``, or the first of them; None if there are none.

        Args:
            window: bytes-like.
            begin: where the first key starts.
            end: the window's end.
        """
        count = self._call(window, begin, end, None, _MOST_ENTRIES)
        if count == 0:
            return None
        keys = self._keys[: self._table.keys_used - 1].tobytes().decode("utf-8", "surrogateescape").split("\n")
        values = self._values_of(self, count)
        entries = zip(keys, values, strict=True) if isinstance(values, list) else _without_holding(keys, values)
        return Block(entries, (self._ends[:count] + begin).tolist())

    def objects(self, window: Any, begin: int, end: int, places: list[int]) -> list[Any]:
        """Read the objects at these places in ``window[begin:end]``, up to the first that is not there or not usual."""
        count = self._call(window, begin, end, np.array(places, np.int64), min(len(places), _MOST_ENTRIES))
        return list(self._values_of(self, count))

    def _call(self, window: Any, begin: int, end: int, places: npt.NDArray[np.int64] | None, most: int) -> int:
        size = min(end - begin, BLOCK)
        if size <= 0:
            return 0
        data = np.frombuffer(window, np.uint8, size, begin)
        self._table.data = data.ctypes.data
        self._table.size = size
        self._table.most = most
        self._table.places = None if places is None else places.ctypes.data
        count: int = self._scan(self._address, self._kind)
        return count

    def numbers(self, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """The numbers of the last block: a view, which the next call overwrites."""
        return self._values[: self._table.values_used].view(dtype)

    def lengths(self, count: int) -> npt.NDArray[np.int64]:
        """Return the number of elements of each of the last objects."""
        return self._shapes[:count, 0]

    def shapes(self, count: int) -> npt.NDArray[np.int64]:
        """Rows and columns of the last objects."""
        return self._shapes[:count]

    def lists(self) -> npt.NDArray[np.int64]:
        """Return the number of numbers in each inner list of the last block."""
        return self._lists[: self._table.lists_used]


class Ragged(NamedTuple):
    """Arrays that were read at once.

    Attributes:
        keys: a newline after each; empty if the places of the objects were given.
        shapes: (entries, 2): rows and columns, or lengths and 0.
        values: the bytes of all numbers.
        end: where the last entry ends, from the window's begin.
    """

    keys: bytes
    shapes: npt.NDArray[np.int64]
    values: npt.NDArray[np.uint8]
    end: int


class RaggedScanner:
    """Scans blocks of tables of arrays whose numbers stay in one array. Not to be shared by threads.

    Args:
        kind: a kind of matrix or vector, as in :data:`io_ark.codecs.KINDS`.
        block: bytes scanned at a time.
        largest: bytes of an object at most.
        most: entries read at a time.
    """

    def __init__(self, kind: str, block: int, largest: int, most: int) -> None:
        self._scan = library().function("ark_scan", ctypes.c_void_p, ctypes.c_int, result=ctypes.c_int64)
        self._kind = _KINDS.index(kind)
        self._block = block
        self._most = most
        self._keys = np.empty(block, np.uint8)
        self._ends = np.empty(most, np.int64)
        self._shapes = np.empty((most, 2), np.int64)
        self._table = _Table(
            most=most,
            largest=largest,
            keys=self._keys.ctypes.data,
            ends=self._ends.ctypes.data,
            shapes=self._shapes.ctypes.data,
        )

    def entries(self, window: Any, begin: int, end: int) -> Ragged | None:
        """Read the entries that are whole in ``window[begin:end]``, or the first of them; None if there are none."""
        return self._call(window, begin, end, None)

    def objects(self, window: Any, begin: int, end: int, places: list[int]) -> Ragged | None:
        """Read the objects at these places in ``window[begin:end]``, up to the first that is not there or not usual."""
        return self._call(window, begin, end, np.array(places[: self._most], np.int64))

    def _call(self, window: Any, begin: int, end: int, places: npt.NDArray[np.int64] | None) -> Ragged | None:
        size = min(end - begin, self._block)
        if size <= 0:
            return None
        data = np.frombuffer(window, np.uint8, size, begin)
        values = np.empty(size, np.uint8)  # text that needs more is left to the next call
        table = self._table
        table.data, table.size = data.ctypes.data, size
        table.most = self._most if places is None else len(places)
        table.places = None if places is None else places.ctypes.data
        table.values, table.values_room = values.ctypes.data, values.nbytes
        count: int = self._scan(ctypes.addressof(table), self._kind)
        if count == 0:
            return None
        keys = self._keys[: table.keys_used].tobytes()
        return Ragged(keys, self._shapes[:count].copy(), values[: table.values_used], int(self._ends[count - 1]))


def _without_holding(keys: list[str], values: Iterator[Any]) -> Iterator[tuple[str, Any]]:
    """Pair keys with values as ``zip`` does, which keeps a reference to the last pair but one."""
    return ((key, next(values)) for key in keys)


def _equal_pieces(items: npt.NDArray[Any], lengths: npt.NDArray[np.int64]) -> list[Any]:
    """Cut an array into pieces of these lengths; all at once if they are the same."""
    if len(lengths) and (lengths == lengths[0]).all():
        return list(items.reshape(len(lengths), int(lengths[0]), *items.shape[1:]))
    return _pieces(items, lengths.tolist())


def _pieces(items: Any, lengths: list[int]) -> list[Any]:
    """Cut a list or an array into pieces of these lengths."""
    pieces = []
    begin = 0
    for length in lengths:
        end = begin + length
        pieces.append(items[begin:end])
        begin = end
    return pieces


def _vectors(dtype: npt.DTypeLike) -> Callable[[Scanner, int], list[Any]]:
    return lambda scanned, count: _equal_pieces(scanned.numbers(dtype).copy(), scanned.lengths(count))


def _pairs(dtype: npt.DTypeLike) -> Callable[[Scanner, int], list[Any]]:
    return lambda scanned, count: _equal_pieces(scanned.numbers(dtype).copy().reshape(-1, 2), scanned.lengths(count))


def _matrices(dtype: npt.DTypeLike) -> Callable[[Scanner, int], list[Any]]:
    def values(scanned: Scanner, count: int) -> list[Any]:
        numbers, shapes = scanned.numbers(dtype).copy(), scanned.shapes(count)
        if count and (shapes == shapes[0]).all():
            return list(numbers.reshape(count, *shapes[0].tolist()))
        parts = _equal_pieces(numbers, shapes[:, 0] * shapes[:, 1])
        return [part.reshape(shape) for part, shape in zip(parts, shapes.tolist(), strict=True)]

    return values


def _scalars(dtype: npt.DTypeLike) -> Callable[[Scanner, int], list[Any]]:
    return lambda scanned, count: scanned.numbers(dtype).tolist()


def _lines(scanned: Scanner, count: int) -> list[str]:
    return scanned.numbers(np.uint8)[:-1].tobytes().decode("utf-8", "surrogateescape").split("\n") if count else []


def _token_vectors(scanned: Scanner, count: int) -> list[list[str]]:
    return [line.split(" ") if line else [] for line in _lines(scanned, count)]


def _posteriors(scanned: Scanner, count: int) -> Iterator[Posterior]:
    numbers, lengths = scanned.numbers(np.int32).copy(), scanned.lists() >> 1
    return _each_posterior(numbers, lengths, scanned.lengths(count).tolist())


def _each_posterior(
    numbers: npt.NDArray[np.int32], lengths: npt.NDArray[np.int64], frames: list[int]
) -> Iterator[Posterior]:
    """Make each posterior when it is taken: many lists that are alive at once cost Python's garbage collector time."""
    indices, weights = numbers[0::2], numbers[1::2].view(np.float32)
    first_pair = first_frame = 0
    for count in frames:
        of_frames = lengths[first_frame : first_frame + count].tolist()
        end = first_pair + sum(of_frames)
        pairs = zip(indices[first_pair:end].tolist(), weights[first_pair:end].tolist(), strict=True)
        if end - first_pair == count and 0 not in of_frames:
            yield [[pair] for pair in pairs]
        else:
            yield _pieces(list(pairs), of_frames)
        first_pair = end
        first_frame += count


def _int_lists(scanned: Scanner, count: int) -> list[list[Any]]:
    vectors = _equal_pieces(scanned.numbers(np.int32).copy(), scanned.lists())
    return _pieces(vectors, scanned.lengths(count).tolist())


# Of these, the numbers become Python objects, so that reading them otherwise is not quicker for large ones.
_OF_OBJECTS = ("posterior", "int-vector-vector")

_VALUES: dict[str, Callable[[Scanner, int], list[Any] | Iterator[Any]]] = {
    "vector": _vectors(np.float32),
    "double-vector": _vectors(np.float64),
    "matrix": _matrices(np.float32),
    "double-matrix": _matrices(np.float64),
    "int-vector": _vectors(np.int32),
    "int8-vector": _vectors(np.int8),
    "int-pair-vector": _pairs(np.int32),
    "float-pair-vector": _pairs(np.float32),
    "int": _scalars(np.int32),
    "float": _scalars(np.float32),
    "double": _scalars(np.float64),
    "bool": _scalars(np.bool_),
    "token": _lines,
    "token-vector": _token_vectors,
    "posterior": _posteriors,
    "int-vector-vector": _int_lists,
}
