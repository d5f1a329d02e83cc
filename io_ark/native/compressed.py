"""Compressed matrices: between the stored integers and float32, in one pass."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.native import library

Array = npt.NDArray[Any]
Number = float | np.float32

_POINTER, _SIZE, _INT, _FLOAT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_float


def compressed() -> Compressed | None:
    """Return the functions of the library; None without the library."""
    return Compressed() if library() else None


class Compressed:
    """Functions of compressed_simd.c, which check no argument; here they get arrays whose sizes belong together."""

    def __init__(self) -> None:
        function = library().function
        linear = (_POINTER, _SIZE, _FLOAT, _FLOAT, _POINTER)
        shape_and_range = (_SIZE, _SIZE, _FLOAT, _FLOAT)
        self._from_linear = function("ark_from_linear", _POINTER, _POINTER, _SIZE, _POINTER, result=None)
        self._from_codes = function(
            "ark_from_codes", _POINTER, _INT, _SIZE, _FLOAT, _FLOAT, _POINTER, result=None
        )  # fmt: skip
        self._to = {size: function(name, *linear, result=None) for size, name in _NAMES.items()}
        self._from_percentiles = function(
            "ark_from_percentiles", _POINTER, _POINTER, *shape_and_range, _POINTER, result=None
        )
        self._to_percentiles = function("ark_to_percentiles", _POINTER, *shape_and_range, _POINTER, _POINTER)

    def from_linear(self, header: bytes, rows: int, columns: int, codes: Any, begin: int) -> Array:
        """Return the float32 values of an object of the format CM2 or CM3.

        Args:
            header: the object from its marker on, at least to the end of its header.
            rows, columns: as the header says, both positive.
            codes: bytes-like: a buffer that has the integers.
            begin: where they start in it.
        """
        values = np.empty((rows, columns), np.float32)
        where = codes if type(codes) is bytes else np.frombuffer(codes, np.uint8).ctypes.data
        # As in address(), of an array that is neither read-only nor empty.
        self._from_linear(header, where, begin, _address_of(_at(values)))
        return values

    def from_integers(self, codes: Array, step: Number, minimum: Number) -> Array:
        """Return ``codes * step + minimum`` as float32, of uint8 or uint16."""
        if not codes.flags.c_contiguous:
            codes = codes.copy()
        values = np.empty(codes.shape, np.float32)
        self._from_codes(address(codes), codes.itemsize, codes.size, step, minimum, address(values))
        return values

    def to_integers(self, values: Array, minimum: Number, span: Number, dtype: npt.DTypeLike) -> Array:
        """Return values of the range from ``minimum`` on as uint8 or uint16; those outside are clipped."""
        values = aligned(values)
        codes = np.empty(values.shape, dtype)
        self._to[codes.itemsize](address(values), values.size, minimum, span, address(codes))
        return codes

    def from_percentiles(self, codes: Array, percentiles: Array, minimum: Number, span: Number) -> Array:
        """Return a matrix of the format CM, from its codes (columns, rows) and percentiles (columns, 4)."""
        columns, rows = codes.shape
        codes, percentiles = np.ascontiguousarray(codes), np.ascontiguousarray(percentiles)
        if percentiles.nbytes != 8 * columns:
            raise ValueError(f"percentiles of {percentiles.nbytes} bytes do not belong to {columns} columns")
        values = np.empty((rows, columns), np.float32)
        self._from_percentiles(
            address(percentiles), address(codes), rows, columns, minimum, span, address(values)
        )  # fmt: skip
        return values

    def to_percentiles(self, values: Array, minimum: Number, span: Number) -> tuple[Array, Array]:
        """Return the codes (columns, rows) and percentiles (columns, 4) of a matrix in the format CM."""
        values = aligned(values)
        rows, columns = values.shape
        codes, percentiles = np.empty((columns, rows), np.uint8), np.empty((columns, 4), "<u2")
        if self._to_percentiles(
            address(values), rows, columns, minimum, span, address(percentiles), address(codes)
        ):  # fmt: skip
            raise MemoryError(f"no memory for some columns of {rows} rows")
        return codes, percentiles


_at: Callable[[Any], ctypes.c_char] = ctypes.c_char.from_buffer
_address_of = ctypes.addressof
_NAMES = {1: "ark_to_bytes", 2: "ark_to_words"}


def aligned(array: Array) -> Array:
    """Return a contiguous array whose numbers are aligned, as C needs them: views of a file in memory may not be."""
    return array if array.flags.c_contiguous and array.flags.aligned else array.copy()


def address(array: Array) -> int:
    """Return where the numbers of a contiguous array are."""
    try:
        return _address_of(_at(array))  # a quarter of the time of the other way
    except (TypeError, ValueError):  # of an array that is read-only or empty
        where: int = array.__array_interface__["data"][0]
        return where
