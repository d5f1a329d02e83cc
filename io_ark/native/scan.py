"""Scan blocks of an archive: one call reads the keys, shapes and numbers of many small objects."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from itertools import accumulate, islice, pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from io_ark.native import library

__all__ = ["BLOCK", "LARGEST_OBJECT", "Block", "Scanner", "scanner"]

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


class Block(NamedTuple):
    """Entries of a table that were read at once.

    Attributes:
        keys: of the entries, as text.
        values: of the entries.
        ends: where each entry ends in the data that was scanned.
    """

    keys: list[str]
    values: list[Any]
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
            largest=LARGEST_OBJECT,
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
        return Block(keys, self._values_of(self, count), (self._ends[:count] + begin).tolist())

    def objects(self, window: Any, begin: int, end: int, places: list[int]) -> list[Any]:
        """Read the objects at these places in ``window[begin:end]``, up to the first that is not there or not usual."""
        count = self._call(window, begin, end, np.array(places, np.int64), min(len(places), _MOST_ENTRIES))
        values: list[Any] = self._values_of(self, count)
        return values

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
        """How many elements each of the last objects has."""
        return self._shapes[:count, 0]

    def shapes(self, count: int) -> npt.NDArray[np.int64]:
        """Rows and columns of the last objects."""
        return self._shapes[:count]

    def lists(self) -> npt.NDArray[np.int64]:
        """How many numbers each inner list of the last block has."""
        return self._lists[: self._table.lists_used]


def _pieces(items: Any, lengths: npt.NDArray[np.int64]) -> list[Any]:
    """Cut a list or an array into pieces of these lengths."""
    if isinstance(items, np.ndarray) and len(lengths) and (lengths == lengths[0]).all():
        return list(items.reshape(len(lengths), int(lengths[0]), *items.shape[1:]))
    return [items[begin:end] for begin, end in pairwise(accumulate(lengths.tolist(), initial=0))]


def _vectors(dtype: npt.DTypeLike) -> Callable[[Scanner, int], list[Any]]:
    return lambda scanned, count: _pieces(scanned.numbers(dtype).copy(), scanned.lengths(count))


def _pairs(dtype: npt.DTypeLike) -> Callable[[Scanner, int], list[Any]]:
    return lambda scanned, count: _pieces(scanned.numbers(dtype).copy().reshape(-1, 2), scanned.lengths(count))


def _matrices(dtype: npt.DTypeLike) -> Callable[[Scanner, int], list[Any]]:
    def values(scanned: Scanner, count: int) -> list[Any]:
        numbers, shapes = scanned.numbers(dtype).copy(), scanned.shapes(count)
        if count and (shapes == shapes[0]).all():
            return list(numbers.reshape(count, *shapes[0].tolist()))
        parts = _pieces(numbers, shapes[:, 0] * shapes[:, 1])
        return [part.reshape(shape) for part, shape in zip(parts, shapes.tolist(), strict=True)]

    return values


def _scalars(dtype: npt.DTypeLike) -> Callable[[Scanner, int], list[Any]]:
    return lambda scanned, count: scanned.numbers(dtype).tolist()


def _lines(scanned: Scanner, count: int) -> list[str]:
    return scanned.numbers(np.uint8)[:-1].tobytes().decode("utf-8", "surrogateescape").split("\n") if count else []


def _token_vectors(scanned: Scanner, count: int) -> list[list[str]]:
    return [line.split(" ") if line else [] for line in _lines(scanned, count)]


def _posteriors(scanned: Scanner, count: int) -> list[list[list[tuple[int, float]]]]:
    numbers, lengths = scanned.numbers(np.int32), scanned.lists()
    pairs = zip(numbers[0::2].tolist(), numbers[1::2].view(np.float32).tolist(), strict=True)
    if (lengths == 2).all():
        frames = [[pair] for pair in pairs]
    else:
        frames = [list(islice(pairs, length)) for length in (lengths >> 1).tolist()]
    return _pieces(frames, scanned.lengths(count))


def _int_lists(scanned: Scanner, count: int) -> list[list[Any]]:
    return _pieces(_pieces(scanned.numbers(np.int32).copy(), scanned.lists()), scanned.lengths(count))


_VALUES: dict[str, Callable[[Scanner, int], list[Any]]] = {
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
