"""Read blocks of entries from windows of archives and script files."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from io_ark.blocks import (
    BLOCK_BYTES,
    MAX_ENTRIES,
    ArrayBlock,
    Block,
    ObjectBlock,
    PackedBlock,
    PosteriorBlock,
    ShapeBlock,
    compressed_block,
)
from io_ark.blocks.base import encode_keys, join_keys, split_keys
from io_ark.native import library
from io_ark.native.blocks import BlockFunctions, block_functions
from io_ark.native.scan import Ragged, RaggedScanner, posterior_arrays

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

_LARGEST = BLOCK_BYTES // 2  # bytes of an object; larger ones are read directly into their arrays

ListBlock = ObjectBlock  # the name until all programs use the other


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


def _posterior_block(keys: bytes, found: Ragged, data: npt.NDArray[Any] | None = None) -> ScannedBlock:
    posteriors = posterior_arrays(found.values.view(np.int32), found.lists)
    data = np.empty(0, np.uint8) if data is None else data
    return ScannedBlock(PosteriorBlock(keys, found.shapes[:, 0], posteriors, data, found.ends), int(found.ends[-1]))


class ShapeScanner:
    """Reads the shapes of matrices."""

    reads_files = reads_places = False

    def __init__(self, functions: BlockFunctions, dtype: np.dtype[Any]) -> None:
        self._functions, self._dtype = functions, dtype

    @classmethod
    def if_available(cls, dtype: np.dtype[Any]) -> ShapeScanner | None:
        """Return a scanner; None without the C library."""
        functions = block_functions()
        return None if functions is None else cls(functions, dtype)

    def entries(self, window: Any, begin: int, end: int) -> ScannedBlock | None:
        found = self._functions.scan_shapes(window, begin, min(end, begin + BLOCK_BYTES), MAX_ENTRIES)
        if not len(found.ends):
            return None
        return ScannedBlock(ShapeBlock(found.keys, found.columns[0], self._dtype), int(found.ends[-1]))

    def objects(self, window: Any, begin: int, end: int, keys: list[bytes], places: list[int]) -> ScannedBlock | None:
        return None
