"""Compressed matrices: between the stored integers and float32, in one pass."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.native import library

__all__ = ["Compressed", "compressed"]

Array = npt.NDArray[Any]

_POINTER, _SIZE, _FLOAT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float


def compressed() -> Compressed | None:
    """Return the functions of the library; None without the library."""
    return Compressed() if library() else None


class Compressed:
    """Functions of compressed_simd.c, which check no argument; here they get arrays whose sizes belong together."""

    def __init__(self) -> None:
        function = library().function
        linear = (_POINTER, _SIZE, _FLOAT, _FLOAT, _POINTER)
        table = (_POINTER, _SIZE, _SIZE, _FLOAT, _FLOAT, _POINTER)
        self._from = {size: function(f"ark_from_{name}", *linear, result=None) for size, name in _NAMES.items()}
        self._to = {size: function(f"ark_to_{name}", *linear, result=None) for size, name in _NAMES.items()}
        self._from_percentiles = function("ark_from_percentiles", *table, result=None)
        self._to_percentiles = function("ark_to_percentiles", *table)

    def from_integers(self, codes: Array, step: float, minimum: float) -> Array:
        """Return ``codes * step + minimum`` as float32, of uint8 or uint16."""
        codes = np.ascontiguousarray(codes)
        values = np.empty(codes.shape, np.float32)
        self._from[codes.itemsize](address(codes), codes.size, step, minimum, address(values))
        return values

    def to_integers(self, values: Array, minimum: float, span: float, dtype: npt.DTypeLike) -> Array:
        """Return values of the range from ``minimum`` on as uint8 or uint16; those outside are clipped."""
        values = np.ascontiguousarray(values)
        codes = np.empty(values.shape, dtype)
        self._to[codes.itemsize](address(values), values.size, minimum, span, address(codes))
        return codes

    def from_percentiles(self, stored: Array, rows: int, columns: int, minimum: float, span: float) -> Array:
        """Return a matrix of the format CM, of which ``stored`` is what follows the header."""
        stored = np.ascontiguousarray(stored)
        if stored.nbytes != columns * (8 + rows):
            raise ValueError(f"{stored.nbytes} bytes are not a compressed matrix of {rows} x {columns}")
        values = np.empty((rows, columns), np.float32)
        self._from_percentiles(address(stored), rows, columns, minimum, span, address(values))
        return values

    def to_percentiles(self, values: Array, minimum: float, span: float) -> Array:
        """Return what follows the header of the format CM, as bytes."""
        values = np.ascontiguousarray(values, np.float32)
        rows, columns = values.shape
        stored = np.empty(columns * (8 + rows), np.uint8)
        if self._to_percentiles(address(values), rows, columns, minimum, span, address(stored)):
            raise MemoryError(f"no memory for some columns of {rows} rows")
        return stored


_NAMES = {1: "bytes", 2: "words"}


def address(array: Array) -> int:
    """Return where an array's numbers are."""
    where: int = array.__array_interface__["data"][0]
    return where
