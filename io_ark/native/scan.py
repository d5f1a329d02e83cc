"""Scan blocks of an archive: one call reads the keys, shapes and numbers of many small objects."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from io_ark.blocks.posterior import Posterior, PosteriorArrays
from io_ark.native import library

__all__ = [
    "BLOCK",
    "LARGEST_OBJECT",
    "Block",
    "PosteriorArrays",
    "RaggedScanner",
    "Scanner",
    "posterior_arrays",
    "scanner",
]

BLOCK = 1 << 16
"""Bytes scanned at a time. An array handed out is a view of the numbers of its block, so it holds at most these."""

LARGEST_OBJECT = 1 << 14
"""Bytes of a small object at most; a larger one is read directly into its array, without a copy."""

_MOST_ENTRIES = 1 << 12
_SHORTEST_LIST = 4  # bytes: "[ ] "

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
# Kinds that are read as others are, into other values.
_LAYOUTS = {"posterior-arrays": "posterior"}
_NESTED = (_KINDS.index("posterior"), _KINDS.index("int-vector-vector"))


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


class Scanned(NamedTuple):
    """Objects that were scanned.

    Attributes:
        values_of: makes the values.
        keys: a newline after each; empty if the places of the objects were given.
        ends: where each entry ends, from the window's begin.
        shapes: (entries, 2): rows and columns, or lengths and 0.
        values: the bytes of all numbers.
        lists: lengths of the inner lists of all entries.
    """

    values_of: Callable[[Scanned], list[Any] | Iterator[Any]]
    keys: bytes
    ends: npt.NDArray[np.int64]
    shapes: npt.NDArray[np.int64]
    values: npt.NDArray[np.uint8]
    lists: npt.NDArray[np.int64]

    def numbers(self, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return the numbers of all objects."""
        return self.values.view(dtype)

    def lengths(self) -> npt.NDArray[np.int64]:
        """Return the number of elements of each object."""
        return self.shapes[:, 0]

    def entries(self) -> Iterator[tuple[str, Any]]:
        """Return an iterator over keys and values."""
        keys = self.keys[:-1].decode("utf-8", "surrogateescape").split("\n")
        values = self.values_of(self)
        return zip(keys, values, strict=True) if isinstance(values, list) else _without_holding(keys, values)


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
        self._kind = _KINDS.index(_LAYOUTS.get(kind, kind))
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
        found = self.scan(window, begin, end)
        return None if found is None else Block(found.entries(), (found.ends + begin).tolist())

    def scan(self, window: Any, begin: int, end: int) -> Scanned | None:
        """Scan the entries that :meth:`entries` reads, whose values are made when they are needed."""
        count = self._call(window, begin, end, None, _MOST_ENTRIES)
        return self._scanned(count) if count else None

    def objects(self, window: Any, begin: int, end: int, places: list[int]) -> list[Any]:
        """Read the objects at these places in ``window[begin:end]``, up to the first that is not there or not usual."""
        count = self._call(window, begin, end, np.array(places, np.int64), min(len(places), _MOST_ENTRIES))
        return list(self._values_of(self._scanned(count)))

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

    def _scanned(self, count: int) -> Scanned:
        """Return a copy of what the last call read."""
        table = self._table
        return Scanned(
            self._values_of,
            self._keys[: table.keys_used].tobytes(),
            self._ends[:count].copy(),
            self._shapes[:count].copy(),
            self._values[: table.values_used].copy(),
            self._lists[: table.lists_used].copy(),
        )


class Ragged(NamedTuple):
    """Arrays that were read at once.

    Attributes:
        keys: a newline after each; empty if the places of the objects were given.
        shapes: (entries, 2): rows and columns, or lengths and 0.
        values: the bytes of all numbers.
        ends: where each entry ends, from the window's begin.
        lists: lengths of the inner lists of all entries.
    """

    keys: bytes
    shapes: npt.NDArray[np.int64]
    values: npt.NDArray[np.uint8]
    ends: npt.NDArray[np.int64]
    lists: npt.NDArray[np.int64]


class RaggedScanner:
    """Scans blocks of tables whose numbers stay in one array. Not to be shared by threads.

    Args:
        kind: a kind of matrix, vector or list of lists, as in :data:`io_ark.codecs.KINDS`, or "posterior-arrays".
        block: bytes scanned at a time.
        largest: bytes of an object at most.
        most: entries read at a time.
    """

    def __init__(self, kind: str, block: int, largest: int, most: int) -> None:
        self._scan = library().function("ark_scan", ctypes.c_void_p, ctypes.c_int, result=ctypes.c_int64)
        self._kind = _KINDS.index(_LAYOUTS.get(kind, kind))
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
        lists = np.empty(size // _SHORTEST_LIST if self._kind in _NESTED else 0, np.int64)
        table = self._table
        table.data, table.size = data.ctypes.data, size
        table.most = self._most if places is None else len(places)
        table.places = None if places is None else places.ctypes.data
        table.values, table.values_room = values.ctypes.data, values.nbytes
        table.lists, table.lists_room = lists.ctypes.data, len(lists)
        count: int = self._scan(ctypes.addressof(table), self._kind)
        if count == 0:
            return None
        keys = self._keys[: table.keys_used].tobytes()
        shapes, ends = self._shapes[:count].copy(), self._ends[:count].copy()
        return Ragged(keys, shapes, values[: table.values_used], ends, lists[: table.lists_used])


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
    return [items[begin:end] for begin, end in pairwise(accumulate(lengths, initial=0))]


def _vectors(dtype: npt.DTypeLike) -> Callable[[Scanned], list[Any]]:
    return lambda scanned: _equal_pieces(scanned.numbers(dtype), scanned.lengths())


def _pairs(dtype: npt.DTypeLike) -> Callable[[Scanned], list[Any]]:
    return lambda scanned: _equal_pieces(scanned.numbers(dtype).reshape(-1, 2), scanned.lengths())


def _matrices(dtype: npt.DTypeLike) -> Callable[[Scanned], list[Any]]:
    def values(scanned: Scanned) -> list[Any]:
        numbers, shapes = scanned.numbers(dtype), scanned.shapes
        if len(shapes) and (shapes == shapes[0]).all():
            return list(numbers.reshape(len(shapes), *shapes[0].tolist()))
        parts = _equal_pieces(numbers, shapes[:, 0] * shapes[:, 1])
        return [part.reshape(shape) for part, shape in zip(parts, shapes.tolist(), strict=True)]

    return values


def _scalars(dtype: npt.DTypeLike) -> Callable[[Scanned], list[Any]]:
    return lambda scanned: scanned.numbers(dtype).tolist()


def _lines(scanned: Scanned) -> list[str]:
    return scanned.values[:-1].tobytes().decode("utf-8", "surrogateescape").split("\n") if len(scanned.ends) else []


def _token_vectors(scanned: Scanned) -> list[list[str]]:
    return [line.split(" ") if line else [] for line in _lines(scanned)]


def _posterior_arrays(scanned: Scanned) -> Iterator[PosteriorArrays]:
    return posterior_arrays(scanned.numbers(np.int32), scanned.lists).split(scanned.lengths())


def posterior_arrays(numbers: npt.NDArray[np.int32], lists: npt.NDArray[np.int64]) -> PosteriorArrays:
    """Return posteriors from the numbers that are scanned, integer and weight in turn, and how many a frame has."""
    pairs = numbers.reshape(-1, 2)
    return PosteriorArrays(lists >> 1, pairs[:, 0].copy(), pairs[:, 1].copy().view(np.float32))


def _posteriors(scanned: Scanned) -> Iterator[Posterior]:
    """Make each posterior when it is taken: many lists that are alive at once cost Python's garbage collector time."""
    return (each.lists() for each in _posterior_arrays(scanned))


def _int_lists(scanned: Scanned) -> list[list[Any]]:
    vectors = _equal_pieces(scanned.numbers(np.int32), scanned.lists)
    return _pieces(vectors, scanned.lengths().tolist())


# Of these, the numbers become Python objects, so that reading them otherwise is not quicker for large ones.
_OF_OBJECTS = ("posterior", "posterior-arrays", "int-vector-vector")

_VALUES: dict[str, Callable[[Scanned], list[Any] | Iterator[Any]]] = {
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
    "posterior-arrays": _posterior_arrays,
    "int-vector-vector": _int_lists,
}
