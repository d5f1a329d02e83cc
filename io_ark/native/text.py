"""Numbers in text: read with correct rounding, and printed as C++ streams print them for Kaldi."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.native import library
from io_ark.native.compressed import address, aligned

Array = npt.NDArray[Any]

_POINTER, _SIZE, _INT, _CHARACTERS = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_char_p
# Characters of a number with the space after it, and for the first of a row, the end of the row before it.
_LONGEST_NUMBER = 18
_LONGEST_INTEGER = 12
# Numbers printed at a time, to bound the memory that the text of a large matrix takes.
_PIECE = 1 << 14


def text_functions() -> Text | None:
    """Return the functions of the library; None without the library."""
    return Text() if library() else None


class Text:
    """Functions of numbers.c."""

    def __init__(self) -> None:
        function = library().function
        rows = (_CHARACTERS, _SIZE, _INT, _POINTER, _SIZE, _POINTER, _SIZE, _POINTER)
        self._read_rows = function("ark_read_rows", *rows, result=_SIZE)
        numbers = (_POINTER, _INT, _SIZE, _SIZE, _SIZE, _POINTER, _POINTER)
        self._print_numbers = function("ark_print_numbers", *numbers, result=_SIZE)
        self._print_integers = function("ark_print_integers", _POINTER, _SIZE, _POINTER, result=_SIZE)

    def read_rows(self, text: bytes, single: bool) -> tuple[Array, list[int]] | None:
        """Return the numbers of a text, as float32 if ``single``, else float64, and how many each of its rows has.

        Rows end at newlines or ``;``. None if anything is no plain decimal number, or takes more to be rounded.
        """
        values = np.empty(len(text) // 2 + 1, np.float32 if single else np.float64)
        lengths = np.empty(text.count(b"\n") + text.count(b";") + 1, np.int64)
        rows = ctypes.c_int64()
        count = self._read_rows(
            text, len(text), not single, address(values), len(values), address(lengths), len(lengths),
            ctypes.addressof(rows),
        )  # fmt: skip
        return None if count < 0 else (values[:count].copy(), lengths[: rows.value].tolist())

    def print_numbers(self, values: Array, columns: int = 0) -> bytes:
        """Return the text of an array, each number followed by a space.

        With ``columns``, the numbers are in rows on lines of their own, which start with two spaces.
        """
        numbers = aligned(values).reshape(-1)
        if numbers.dtype not in (np.float32, np.float64):
            numbers = numbers.astype(np.float64)
        step = max(1, _PIECE // columns) * columns if columns else _PIECE
        parts = [self._print_piece(numbers[i : i + step], columns) for i in range(0, len(numbers), step)]
        return b"".join(parts)

    def _print_piece(self, numbers: Array, columns: int) -> bytes:
        text = np.empty(_LONGEST_NUMBER * len(numbers), np.uint8)
        used = ctypes.c_int64()
        parts = []
        wide = numbers.itemsize == 8
        done = 0
        while True:
            done = self._print_numbers(
                address(numbers), wide, done, len(numbers), columns, address(text), ctypes.addressof(used)
            )
            parts.append(text[: used.value].tobytes())
            if done == len(numbers):
                return b"".join(parts)
            # Python looks at all digits of a number that is close to the middle between two texts.
            start = b"\n  " if columns and done % columns == 0 else b""
            parts.append(start + b"%.7g " % numbers[done])
            done += 1

    def print_integers(self, values: Array) -> bytes:
        """Return the text of integers of up to 32 bits, each followed by a space."""
        numbers = aligned(values.astype(np.int32, copy=False))
        text = np.empty(_LONGEST_INTEGER * len(numbers), np.uint8)
        used = self._print_integers(address(numbers), len(numbers), address(text))
        return text[:used].tobytes()
