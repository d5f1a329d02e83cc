"""Format numbers as Kaldi's C++ streams do (precision 7, so ``%.7g``): many at a time in C, where it is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.native import NATIVE

Floats = npt.NDArray[Any]

# Characters of a number with the space after it, and for the first of a row, the end of the row before it.
_LONGEST_NUMBER = 18
_LONGEST_INTEGER = 12
# Numbers printed at a time, to bound the memory that the text of a large matrix takes.
_PIECE = 1 << 14


def format_row(values: Sequence[float]) -> str:
    """Format numbers, each followed by a space."""
    text = "%.7g " * len(values) % tuple(values)
    if "nan" not in text:
        return text
    words = text.split(" ")
    for i, value in enumerate(values):
        if words[i] == "nan" and np.signbit(value):
            words[i] = "-nan"
    return " ".join(words)


def _format_integers_in_c(values: npt.NDArray[Any]) -> Any:
    if values.dtype not in (np.int32, np.int8):  # 64-bit integers need more room
        return NotImplemented
    numbers = np.ascontiguousarray(values, np.int32)
    text = np.empty(_LONGEST_INTEGER * len(numbers), np.uint8)
    used: int = NATIVE.function("ark_print_integers")(numbers, len(numbers), text)
    return text[:used].tobytes()


@NATIVE.twin(_format_integers_in_c)
def format_integers(values: npt.NDArray[Any]) -> bytes:
    """Format integers, each followed by a space."""
    return b"%d " * len(values) % tuple(values.tolist())


def _format_numbers_in_c(values: Floats, columns: int = 0) -> bytes:
    numbers = aligned(values).reshape(-1)
    if numbers.dtype not in (np.float32, np.float64):
        numbers = numbers.astype(np.float64)
    step = max(1, _PIECE // columns) * columns if columns else _PIECE
    return b"".join([_print_piece(numbers[i : i + step], columns) for i in range(0, len(numbers), step)])


def _print_piece(numbers: Floats, columns: int) -> bytes:
    text, used = np.empty(_LONGEST_NUMBER * len(numbers), np.uint8), np.zeros(1, np.int64)
    parts = []
    done = 0
    while True:
        done = NATIVE.function("ark_print_numbers")(
            numbers, numbers.itemsize == 8, done, len(numbers), columns, text, used
        )
        parts.append(text[: used[0]].tobytes())
        if done == len(numbers):
            return b"".join(parts)
        # Python looks at all digits of a number that is close to the middle between two texts.
        start = b"\n  " if columns and done % columns == 0 else b""
        parts.append(start + b"%.7g " % numbers[done])
        done += 1


@NATIVE.twin(_format_numbers_in_c)
def format_numbers(values: Floats, columns: int = 0) -> bytes:
    """Format numbers, each followed by a space; with ``columns`` in rows, on lines that start with two spaces."""
    rows = values.reshape(-1, columns or max(1, values.size)).tolist()
    start = "\n  " if columns else ""
    return "".join([start + format_row(row) for row in rows]).encode("ascii")


def aligned(array: Floats) -> Floats:
    """Return a contiguous array whose numbers are aligned, as C needs them: views of a file in memory may not be."""
    return array if array.flags.c_contiguous and array.flags.aligned else array.copy()
