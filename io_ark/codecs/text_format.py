"""Format numbers as Kaldi's C++ streams do (precision 7, so ``%.7g``), many at a time.

Formatting number by number is slow. :func:`format_rows` formats whole arrays with integer arithmetic and tables: each
number becomes seven decimal digits and an exponent, which become characters in two 64-bit words (16 characters are
enough for any number), and unused bytes are removed at the end. Numbers that need an exponent in the text, or might be
rounded wrongly in float64, are formatted by Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.native.text import text_functions

Floats = npt.NDArray[Any]
Words = npt.NDArray[np.uint64]

# The array code costs about 0.1 ms per call, so formatting one by one is faster for fewer numbers.
_FEW = 500
_FEW_INTEGERS = 300
# The C functions, if they are available; a call costs some microseconds.
_NATIVE = text_functions()
_FEW_FOR_NATIVE = 16
# Numbers formatted at a time.
_PIECE = 1 << 13
_SLOT = 16

_DIGITS = 7
_LEAST_EXPONENT, _GREATEST_EXPONENT = -4, 6  # as %g without an exponent in the text
# A rounded product further than this from the middle between two numbers of seven digits is on the right side of it.
_CLOSE_TO_TIE = 1e-6


def _word(text: str) -> int:
    return int.from_bytes(text.encode("ascii"), "little")


# The decimal exponent of the smallest number with each exponent field of a float64.
_EXPONENTS = np.clip(np.floor((np.arange(2048) - 1023) * np.log10(2.0)), _LEAST_EXPONENT - 1, _GREATEST_EXPONENT)
_EXPONENTS = _EXPONENTS.astype(np.int64)
_ALL_EXPONENTS = range(_LEAST_EXPONENT - 1, _GREATEST_EXPONENT + 2)
_NEXT_POWER = np.array([float(f"1e{exponent + 1}") for exponent in _ALL_EXPONENTS])
_SCALE = np.array([10.0 ** (_DIGITS - 1 - exponent) for exponent in _ALL_EXPONENTS])
# Four digits, and three, as characters; and the number of trailing zeros.
_PLACES = np.arange(10000)[:, None] // np.array([1000, 100, 10, 1]) % 10
_FOUR = np.pad((_PLACES + ord("0")).astype(np.uint8), ((0, 0), (0, 4))).view("<u8")[:, 0]
_THREE = np.pad((_PLACES[:1000, 1:] + ord("0")).astype(np.uint8), ((0, 0), (4, 1))).view("<u8")[:, 0]
_FOUR_ZEROS = (np.cumsum(_PLACES[:, ::-1], axis=1) == 0).sum(axis=1)
_THREE_ZEROS = np.minimum(_FOUR_ZEROS[:1000], 3)
# Number of bits of leading zeros in the characters of eight digits, by the first four digits; or by the last four if
# the first four are 0.
_LEADING_BITS = 8 * (np.cumsum(_PLACES, axis=1) == 0).sum(axis=1).astype(np.uint64)
_LEADING_BITS_OF_LAST = 32 + np.minimum(_LEADING_BITS, 24)
# Characters before the digits, for each exponent, without and with a sign.
_PREFIXES = [
    sign + ("0." + "0" * (-exponent - 1)) * (exponent < 0) for sign in ("", "-") for exponent in _ALL_EXPONENTS
]
_PREFIX = np.array([_word(prefix) for prefix in _PREFIXES], np.uint64)
_PREFIX_LENGTH = np.array([len(prefix) for prefix in _PREFIXES])
# For each length of text: the bytes to keep, and the space after them.
_KEPT = np.array([[0xFF] * n + [0] * (_SLOT - n) for n in range(_SLOT)], np.uint8).view("<u8")
_SPACE = np.array([[0] * n + [0x20] + [0] * (_SLOT - 1 - n) for n in range(_SLOT)], np.uint8).view("<u8")
_EIGHT = np.uint64(8)
_DOT = np.uint64(ord("."))
_ROW_START = b"\n  "


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


def format_rows(matrix: Floats) -> bytes:
    """Format the rows of a matrix, each starting on a new line with two spaces."""
    rows, columns = matrix.shape
    if _NATIVE is not None and matrix.size >= _FEW_FOR_NATIVE:
        return _NATIVE.print_numbers(matrix, columns)
    if matrix.size < _FEW:
        return "".join(["\n  " + format_row(row) for row in matrix.tolist()]).encode("ascii")
    step = max(1, _PIECE // columns)
    return b"".join([_rows_of_slots(matrix[first : first + step]) for first in range(0, rows, step)])


def format_values(vector: Floats) -> bytes:
    """Format the numbers of a vector, each followed by a space."""
    if _NATIVE is not None and len(vector) >= _FEW_FOR_NATIVE:
        return _NATIVE.print_numbers(vector)
    if len(vector) < _FEW:
        return format_row(vector.tolist()).encode("ascii")
    return b"".join(
        [_slots(vector[i : i + _PIECE].astype(np.float64)).tobytes().translate(None, b"\0")
         for i in range(0, len(vector), _PIECE)]
    )  # fmt: skip


def format_integers(values: npt.NDArray[Any]) -> bytes:
    """Format integers, each followed by a space."""
    if _NATIVE is not None and len(values) >= _FEW_FOR_NATIVE and values.dtype in (np.int32, np.int8):
        return _NATIVE.print_integers(values)
    if len(values) >= _FEW_INTEGERS and -(10**8) < int(values.min()) <= int(values.max()) < 10**8:
        return b"".join([_integer_slots(values[i : i + _PIECE]) for i in range(0, len(values), _PIECE)])
    return b"%d " * len(values) % tuple(values.tolist())


def _integer_slots(values: npt.NDArray[Any]) -> bytes:
    """Format integers of up to 8 digits: a sign, digits without leading zeros, a space."""
    size = np.abs(values.astype(np.int32)).astype(np.uint32)
    front = size // np.uint32(10000)
    back = size - front * np.uint32(10000)
    digits = _FOUR[front] | (_FOUR[back] << np.uint64(32))
    # Leading characters are in the lowest bytes, so they can be shifted out and back.
    leading = np.where(front > 0, _LEADING_BITS[front], _LEADING_BITS_OF_LAST[back])
    digits = (digits >> leading) << leading
    slots = np.empty((len(values), 2), "<u8")
    slots[:, 0] = (digits << _EIGHT) | (np.uint64(ord("-")) * (values < 0))
    slots[:, 1] = (digits >> np.uint64(56)) | np.uint64(ord(" ") << 8)
    return slots.tobytes().translate(None, b"\0")


def _rows_of_slots(matrix: Floats) -> bytes:
    rows, columns = matrix.shape
    slots = np.zeros((rows, columns + 1, _SLOT // 8), "<u8")
    slots[:, 0, 0] = int.from_bytes(_ROW_START, "little")
    slots[:, 1:] = _slots(matrix.reshape(-1).astype(np.float64)).reshape(rows, columns, -1)
    return slots.tobytes().translate(None, b"\0")


def _slots(values: Floats) -> Words:
    """Return the texts of numbers, of shape (numbers, 2): 16 bytes each, padded with zero bytes."""
    size = np.abs(values)
    zero = size == 0
    odd = ~((size >= 1e-4) & (size < 1e7) | zero)
    size[odd | zero] = 1
    exponent = _EXPONENTS[size.view(np.int64) >> 52]
    exponent += size >= _NEXT_POWER[exponent - _ALL_EXPONENTS.start]
    scaled = size * _SCALE[exponent - _ALL_EXPONENTS.start]
    whole = np.floor(scaled)
    rest = scaled - whole
    odd |= np.abs(rest - 0.5) < _CLOSE_TO_TIE
    whole += rest > 0.5
    carried = whole == 10.0**_DIGITS
    whole[carried] = 10.0 ** (_DIGITS - 1)
    whole[zero] = 0
    exponent += carried
    odd |= exponent > _GREATEST_EXPONENT
    slots = _lay_out(whole.astype(np.uint32), exponent, np.signbit(values))
    characters = slots.view(f"S{_SLOT}")[:, 0]
    for i in np.flatnonzero(odd).tolist():
        characters[i] = format_row([float(values[i])]).encode("ascii")
    return slots


def _lay_out(whole: npt.NDArray[np.uint32], exponent: npt.NDArray[np.int64], negative: npt.NDArray[np.bool_]) -> Words:
    """Convert seven digits and an exponent to characters: sign, digits with a dot among them, a space."""
    front = whole // np.uint32(1000)
    back = whole - front * np.uint32(1000)
    digits = _FOUR[front] | _THREE[back]
    used = _DIGITS - _THREE_ZEROS[back] - np.where(back == 0, _FOUR_ZEROS[front], 0)
    # With an exponent of 0 or more the dot is among the digits, else it is in the prefix.
    place = np.maximum(exponent + 1, 0)
    shift = place.astype(np.uint64) * _EIGHT
    before = digits & ((np.uint64(1) << shift) - np.uint64(1))
    after = (digits >> shift) << (shift + _EIGHT)
    dotted = before | after | (_DOT << shift)
    body = np.where(place > 0, dotted, digits)
    length = np.where(place > 0, np.where(used > place, used + 1, place), used)
    layout = exponent - _ALL_EXPONENTS.start + len(_ALL_EXPONENTS) * negative
    prefix_length = _PREFIX_LENGTH[layout]
    shift = prefix_length.astype(np.uint64) * _EIGHT
    slots = np.empty((len(whole), _SLOT // 8), "<u8")
    slots[:, 0] = _PREFIX[layout] | (body << shift)
    slots[:, 1] = (body >> np.uint64(1)) >> (np.uint64(63) - shift)
    length += prefix_length
    slots &= np.take(_KEPT, length, axis=0)
    slots |= np.take(_SPACE, length, axis=0)
    return slots
