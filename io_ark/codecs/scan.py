"""Read many small objects of a window of bytes in one call of C, as a block.

What is not laid out as Kaldi writes it is left to the codecs, from which all errors come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from io_ark.blocks import MAX_ENTRIES, ArrayBlock, Block, ObjectBlock, PosteriorArrays, PosteriorBlock, ShapeBlock
from io_ark.blocks.base import join_keys
from io_ark.blocks.posterior import Posterior
from io_ark.native import NATIVE
from io_ark.native.signatures import Structure

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]

_LONGEST_KEY = 1 << 12  # bytes of a key before objects that are converted
_SHORTEST_LIST = 4  # bytes: "[ ] "
_MOST_BYTES = 4  # of a number for each character of its text: of "1 " as a float64
# The order of `enum kind` in scan.c, by the names in io_ark.codecs.
_KINDS = (
    "vector", "double-vector", "matrix", "double-matrix", "int-vector", "int8-vector", "int-pair-vector",
    "float-pair-vector", "int", "float", "double", "bool", "token", "token-vector", "posterior",
    "int-vector-vector",
)  # fmt: skip
# Kinds that are read as others are, into other values.
_LAYOUTS = {"posterior-arrays": "posterior", "int-lists": "int-vector-vector"}
_NESTED = ("posterior", "int-vector-vector")


class Window(NamedTuple):
    """Bytes to scan: ``data[begin:end]``."""

    data: Any  # bytes-like
    # the part to scan
    begin: int
    end: int
    largest: int  # bytes of an object at most; larger ones are read directly into their arrays

    def bytes(self) -> npt.NDArray[np.uint8]:
        """Return the bytes as an array, which is a view."""
        return np.frombuffer(self.data, np.uint8, self.end - self.begin, self.begin)


class Scanned(NamedTuple):
    """Entries that were read from a window."""

    block: Block  # the entries
    size: int  # bytes from the begin of the first entry to the end of the last


class Scan(Protocol):
    """Protocol of what reads blocks of one kind of object. Not to be shared by threads.

    Attributes:
        file_bytes: bytes at the start of a file that :meth:`objects` needs, if objects are often files of their own,
            which are then read together; else 0.
        reads_places: True if :meth:`objects` reads objects.
        of_any_size: True if large objects are read together, too, because their numbers become Python objects.
    """

    file_bytes: int
    reads_places: bool
    of_any_size: bool

    def entries(self, window: Window) -> Scanned | None:
        """Read the entries that are whole in a window, or the first of them; None if there are none."""

    def objects(self, window: Window, keys: list[bytes], places: list[int], ends: Sequence[int] = ()) -> Scanned | None:
        """Read the objects at these ascending places from the window's begin on, or the first of them.

        Each ends before the next place, or where its file ends.
        """


class _Numbers(NamedTuple):
    """Result of a scan in C."""

    shapes: Integers  # (entries, 2): rows and columns, or lengths and 0
    values: npt.NDArray[np.uint8]  # the bytes of all numbers
    lists: Integers  # lengths of the inner lists of all entries

    def of(self, dtype: npt.DTypeLike) -> Array:
        """Return the numbers of all objects."""
        return self.values.view(dtype)

    def lengths(self) -> Integers:
        """Return the number of elements of each object."""
        return self.shapes[:, 0]


class KindScan:
    """Scans tables of arrays, numbers, tokens and lists."""

    file_bytes, reads_places = 0, True

    def __init__(self, kind: str) -> None:
        layout = _LAYOUTS.get(kind, kind)
        self.of_any_size = layout in _NESTED
        self._kind, self._number, self._nested = kind, _KINDS.index(layout), layout in _NESTED
        self._ends, self._shapes = np.empty(MAX_ENTRIES, np.int64), np.empty((MAX_ENTRIES, 2), np.int64)

    @cached_property
    def _table(self) -> Structure:
        return NATIVE.structure("table")(ends=self._ends, shapes=self._shapes)

    def entries(self, window: Window) -> Scanned | None:
        keys = np.empty(window.end - window.begin, np.uint8)
        found = self._call(window, keys, None)
        if found is None:
            return None
        ends = self._ends[: len(found.shapes)].copy()
        data = window.bytes()[: ends[-1]]
        data = data if type(window.data) is bytes else data.copy()  # what may be closed or changed
        return self._make_block(keys[: self._table.fields.keys_used].tobytes(), found, data, ends)

    def objects(self, window: Window, keys: list[bytes], places: list[int], ends: Sequence[int] = ()) -> Scanned | None:
        found = self._call(window, None, np.array(places[:MAX_ENTRIES], np.int64))
        if found is None:
            return None
        count = len(found.shapes)
        return self._make_block(join_keys(keys[:count]), found, np.empty(0, np.uint8), self._ends[:count].copy())

    def line(self, line: bytes) -> Any:
        """Return the object whose text is a line; None if the line is not laid out as Kaldi writes it."""
        size = len(line) + 1
        found = self._call(Window(line + b"\n", 0, size, size), None, np.zeros(1, np.int64), _MOST_BYTES * size)
        if found is None or self._ends[0] != size:
            return None
        block = self._make_block(b"\n", found, np.empty(0, np.uint8), self._ends[:1].copy()).block
        return next(iter(block.entries()))[1]

    def _call(
        self, window: Window, keys: npt.NDArray[np.uint8] | None, places: Integers | None, room: int | None = None
    ) -> _Numbers | None:
        data = window.bytes()
        largest = len(data) if self.of_any_size else window.largest
        room = len(data) if room is None else room  # text that needs more is left to the next call
        values, lists = np.empty(room, np.uint8), np.empty(room // _SHORTEST_LIST if self._nested else 0, np.int64)
        self._table.set(
            data=data, size=len(data), keys=keys, places=places, values=values, values_room=len(values), lists=lists,
            lists_room=len(lists), largest=largest, most=MAX_ENTRIES if places is None else len(places),
        )  # fmt: skip
        scan = NATIVE.function("ark_scan")
        count = scan(self._table, self._number) if len(data) else 0
        has_doubles = count == 0 and self._kind in ("matrix", "vector") and _starts_with_doubles(data, places)
        if has_doubles:  # such as statistics
            count = scan(self._table, _KINDS.index(f"double-{self._kind}"))
        if count == 0:
            return None
        used = self._table.fields
        values = values[: used.values_used]
        if has_doubles:
            with np.errstate(over="ignore", invalid="ignore"):
                values = values.view(np.float64).astype(np.float32).view(np.uint8)
        return _Numbers(self._shapes[:count].copy(), values, lists[: used.lists_used])

    def _make_block(self, keys: bytes, found: _Numbers, data: npt.NDArray[np.uint8], ends: Integers) -> Scanned:
        block: Block
        if self._kind in _ARRAYS:
            dtype, dimensions = _ARRAYS[self._kind]
            block = ArrayBlock(keys, found.of(dtype), found.shapes, dimensions)
        elif self._kind in _LAYOUTS:
            arrays = (
                _arrays(found) if self._kind == "posterior-arrays" else unit_weights(found.lists, found.of(np.int32))
            )
            block = PosteriorBlock(keys, found.lengths(), arrays, data, ends)
        else:
            values_of = _VALUES[self._kind]
            block = ObjectBlock(keys, lambda: values_of(found), len(ends), data, ends)
        return Scanned(block, int(ends[-1]))


def _starts_with_doubles(data: npt.NDArray[np.uint8], places: Integers | None) -> bool:
    """Return True if the first object is in binary and in double precision; without places, it follows its key."""
    start = data[:_LONGEST_KEY].tobytes().find(b" ") + 1 if places is None else int(places[0])
    return data[start : start + 3].tobytes() == b"\0BD"


Result = TypeVar("Result")


def in_c(make: Callable[[], Result]) -> Result | None:
    """Return what ``make`` returns, such as a reader of blocks; None without the C library."""
    return make() if NATIVE.in_use else None


def scan_line(kind: str, line: bytes) -> Any:
    """Return the object whose text is a line; None without C, or if the line is not laid out as Kaldi writes it."""
    return in_c(lambda: KindScan(kind).line(line))


class ShapeScan:
    """Reads the shapes of matrices."""

    file_bytes, reads_places, of_any_size = 0, False, False

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self._dtype = dtype

    def entries(self, window: Window) -> Scanned | None:
        data = window.bytes()
        keys, used = np.empty(len(data), np.uint8), np.zeros(1, np.int64)
        ends, shapes = np.empty(MAX_ENTRIES, np.int64), np.empty((MAX_ENTRIES, 2), np.int64)
        count = NATIVE.function("ark_scan_shapes")(data, len(data), MAX_ENTRIES, keys, used, ends, shapes)
        if count == 0:
            return None
        return Scanned(ShapeBlock(keys[: used[0]].tobytes(), shapes[:count], self._dtype), int(ends[count - 1]))

    def objects(self, window: Window, keys: list[bytes], places: list[int], ends: Sequence[int] = ()) -> Scanned | None:
        return None


_ARRAYS: dict[str, tuple[type, int]] = {
    "matrix": (np.float32, 2),
    "double-matrix": (np.float64, 2),
    "vector": (np.float32, 1),
    "double-vector": (np.float64, 1),
    "int-vector": (np.int32, 1),
}


def _pieces(items: Any, lengths: Integers) -> list[Any]:
    """Cut a list or an array into pieces of these lengths."""
    if isinstance(items, np.ndarray) and len(lengths) and (lengths == lengths[0]).all():
        return list(items.reshape(len(lengths), int(lengths[0]), *items.shape[1:]))
    return [items[begin:end] for begin, end in pairwise(accumulate(lengths.tolist(), initial=0))]


def _vectors(dtype: npt.DTypeLike, *columns: int) -> Callable[[_Numbers], list[Any]]:
    return lambda found: _pieces(found.of(dtype).reshape(-1, *columns), found.lengths())


def _scalars(dtype: npt.DTypeLike) -> Callable[[_Numbers], list[Any]]:
    return lambda found: found.of(dtype).tolist()


def _lines(found: _Numbers) -> list[str]:
    return found.values[:-1].tobytes().decode("utf-8", "surrogateescape").split("\n")


def _token_vectors(found: _Numbers) -> list[list[str]]:
    return [line.split(" ") if line else [] for line in _lines(found)]


def _arrays(found: _Numbers) -> PosteriorArrays:
    return posterior_arrays(found.of(np.int32), found.lists)


def posterior_arrays(numbers: npt.NDArray[np.int32], lists: Integers) -> PosteriorArrays:
    """Return posteriors from the numbers that are scanned, integer and weight in turn, and how many a frame has."""
    pairs = numbers.reshape(-1, 2)
    return PosteriorArrays(lists >> 1, pairs[:, 0].copy(), pairs[:, 1].copy().view(np.float32))


def unit_weights(counts: Integers, integers: npt.NDArray[np.int32]) -> PosteriorArrays:
    """Return lists of integers as posteriors whose weights are all 1."""
    return PosteriorArrays(counts, integers, np.broadcast_to(np.float32(1), len(integers)))


def _posteriors(found: _Numbers) -> Iterable[Posterior]:
    """Make each posterior when it is taken: many lists that are alive at once cost Python's garbage collector time."""
    return (each.lists() for each in _arrays(found).split(found.lengths()))


def _int_lists(found: _Numbers) -> list[list[Any]]:
    return _pieces(_pieces(found.of(np.int32), found.lists), found.lengths())


_VALUES: dict[str, Callable[[_Numbers], Iterable[Any]]] = {
    "int8-vector": _vectors(np.int8),
    "int-pair-vector": _vectors(np.int32, 2),
    "float-pair-vector": _vectors(np.float32, 2),
    "int": _scalars(np.int32),
    "float": _scalars(np.float32),
    "double": _scalars(np.float64),
    "bool": _scalars(np.bool_),
    "token": _lines,
    "token-vector": _token_vectors,
    "posterior": _posteriors,
    "int-vector-vector": _int_lists,
}
