"""Call the C functions that read and write blocks of entries."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.native import library
from io_ark.native.signatures import address

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]

_POINTER, _SIZE, _INT, _BYTES = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_char_p
_HEADER_ROOM = 16  # bytes before the numbers of an array, after its key and a space
_COMPRESSED_ROOM = 24  # the same for compressed matrices
_LINE_ROOM = 22  # bytes of a line of a script file besides the key and the name of the archive


@functools.cache
def block_functions() -> BlockFunctions | None:
    """Return the functions of the library; None without the library."""
    return BlockFunctions() if library() else None


class BlockFunctions:
    """Functions of blocks.c, which check no argument; here they get arrays whose sizes belong together."""

    def __init__(self) -> None:
        function = library().function
        self._find = function("ark_find_objects", _POINTER, _POINTER, _SIZE, *[_POINTER] * 3, result=_SIZE)
        self._pack = function("ark_pack_arrays", _BYTES, _POINTER, _INT, _INT, _INT, _POINTER, _SIZE, *[_POINTER] * 3,
                              result=_SIZE)  # fmt: skip
        self._compress = function("ark_compress_arrays", _BYTES, _POINTER, _POINTER, _SIZE, _INT, *[_POINTER] * 3,
                                  result=_SIZE)  # fmt: skip
        self._sum = function("ark_sum_compressed", *[_POINTER] * 3, _SIZE, _POINTER, result=None)
        self._script = function("ark_print_script", _BYTES, _POINTER, _SIZE, _BYTES, _SIZE, _POINTER, result=_SIZE)

    def find_objects(self, data: Array, ends: Integers) -> tuple[bytes, Integers] | None:
        """Return the keys of entries in binary and where their objects start; None if one is laid out in another way.

        Args:
            data: (bytes,) uint8: the entries.
            ends: (entries,): where each ends, ascending.
        """
        ends = np.ascontiguousarray(ends, np.int64)
        if len(ends) == 0 or ends[0] < 0 or ends[-1] > len(data) or (ends[1:] < ends[:-1]).any():
            raise ValueError("ends of entries do not belong to the data")
        keys, used, objects = np.empty(len(data), np.uint8), np.zeros(1, np.int64), np.empty(len(ends), np.int64)
        data = np.ascontiguousarray(data)
        count = self._find(data.ctypes.data, address(ends), len(ends), address(keys), address(used), address(objects))
        return (keys[: used[0]].tobytes(), objects) if count == len(ends) else None

    def pack_arrays(
        self, keys: bytes, shapes: Integers, dimensions: int, values: Array, *, with_values: bool = True
    ) -> tuple[Array, Integers, Integers]:
        """Return entries of an archive in binary, where each object starts, and where each entry ends.

        Args:
            keys: a newline after each.
            shapes: (entries, 2), as in :class:`~io_ark.blocks.ArrayBlock`.
            dimensions: 1 for vectors, 2 for matrices.
            values: float32 or float64: the numbers of all arrays.
            with_values: write the numbers, too, and not only what is before them.
        """
        count, size = len(shapes), values.itemsize
        numbers = int((shapes[:, 0] * shapes[:, 1] if dimensions > 1 else shapes[:, 0]).sum())
        if keys.count(b"\n") != count or numbers != values.size or not values.flags.c_contiguous:
            raise ValueError("keys, shapes and values of a block do not belong together")
        shapes = _as_in_kaldi(shapes) if dimensions > 1 else np.ascontiguousarray(shapes, np.int64)
        packed = np.empty(len(keys) + _HEADER_ROOM * count + with_values * values.nbytes, np.uint8)
        objects, ends = np.empty(count, np.int64), np.empty(count, np.int64)
        used = self._pack(
            keys, address(shapes), dimensions, ord("F") if size == 4 else ord("D"), size,
            address(values) if with_values else None, count, address(packed), address(objects), address(ends),
        )  # fmt: skip
        return packed[:used], objects, ends

    def compress_arrays(
        self, keys: bytes, shapes: Integers, values: Array, method: int
    ) -> tuple[Array, Integers, Integers] | None:
        """Return entries of compressed matrices, as :meth:`pack_arrays` does; None if one cannot be compressed.

        Args:
            keys: a newline after each.
            shapes: (entries, 2): rows and columns.
            values: float32: the numbers of all matrices.
            method: number of the method, 1 to 7.
        """
        count = len(shapes)
        sizes = shapes[:, 0] * shapes[:, 1]
        if keys.count(b"\n") != count or sizes.sum() != values.size or values.dtype != np.float32:
            raise ValueError("keys, shapes and values of a block do not belong together")
        shapes, values = _as_in_kaldi(shapes), np.ascontiguousarray(values)
        room = len(keys) + _COMPRESSED_ROOM * count + 8 * int(shapes[:, 1].sum()) + 2 * values.size
        packed, objects, ends = np.empty(room, np.uint8), np.empty(count, np.int64), np.empty(count, np.int64)
        used = self._compress(
            keys, address(shapes), address(values), count, method, address(packed), address(objects), address(ends)
        )  # fmt: skip
        return (packed[:used], objects, ends) if used >= 0 else None

    def sum_compressed(self, data: Array, objects: Integers, shapes: Integers) -> npt.NDArray[np.float64]:
        """Add up the columns of matrices that :meth:`compress_arrays` wrote, as they read back.

        Args:
            data, objects: entries, and where their objects start, as returned.
            shapes: (entries, 2), as given; all with the same number of columns.

        Returns:
            (entries, 2, columns + 1) as Kaldi's ``compute-cmvn-stats``: sums and number of rows, sums of squares and 0.
        """
        if len(shapes) != len(objects) or (shapes[:, 1] != shapes[:1, 1]).any():
            raise ValueError("places and shapes of matrices do not belong together")
        shapes, objects = np.ascontiguousarray(shapes, np.int64), np.ascontiguousarray(objects, np.int64)
        sums = np.zeros((len(shapes), 2, int(shapes[0, 1]) + 1))
        self._sum(address(data), address(objects), address(shapes), len(shapes), address(sums))
        return sums

    def print_script(self, keys: bytes, offsets: Integers, archive: bytes) -> Array:
        """Return lines of a script file: each key, the archive's name and an offset into it."""
        if keys.count(b"\n") != len(offsets):
            raise ValueError("keys and offsets do not belong together")
        offsets = np.ascontiguousarray(offsets, np.int64)
        text = np.empty(len(keys) + (len(archive) + _LINE_ROOM) * len(offsets), np.uint8)
        used = self._script(keys, address(offsets), len(offsets), archive, len(archive), address(text))
        return text[:used]


def _as_in_kaldi(shapes: Integers) -> Integers:
    """Return shapes of matrices for C; one without elements has neither rows nor columns."""
    return np.ascontiguousarray(np.where(shapes.all(axis=1, keepdims=True), shapes, 0), np.int64)
