"""Parse numbers in text with the rules of Kaldi's C++ streams, many at a time.

Kaldi's ``Matrix::Read`` and ``Vector::Read`` (``src/matrix/kaldi-matrix.cc``, ``kaldi-vector.cc``) read one character
at a time. A digit or ``-`` starts a number in the syntax of ``istream >> float``. Any other word must be ``inf``,
``infinity`` or ``nan`` in upper or lower case. So ``-inf``, ``+1`` and ``.5`` are errors, and ``1-2`` is two numbers.
:func:`scan_rows` follows these rules. :func:`parse_rows` converts plain decimal numbers in C, and passes all other text
to :func:`scan_rows`.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from io_ark.logs import logger
from io_ark.native import NATIVE

Fail = Callable[[str, int], NoReturn]
Floats = npt.NDArray[Any]


_STREAM_NUMBER = re.compile(rb"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WORD = re.compile(rb"\S+")
_WORDS = {b"inf": np.inf, b"infinity": np.inf, b"nan": np.nan}

# Bytes of text that are converted at once. If one number is not plain, all numbers in these bytes are scanned.
_CHUNK_BYTES = 1 << 16
_BEYOND_FLOAT32 = 0x1FFFFFFF  # Mask of the bits of a float64's significand that a float32 lacks.
_TIE = 0x10000000  # Value of the _BEYOND_FLOAT32 bits of a number halfway between two float32 numbers.
_TINY = float(np.finfo(np.float32).tiny)  # Smallest normal float32. _BEYOND_FLOAT32 does not apply to smaller numbers.
_FLOAT = struct.Struct("<f")
_DOUBLE = struct.Struct("<d")


def round_to_float32(text: bytes) -> float:
    """Return the float32 nearest to a decimal number, rounded once like ``strtof`` and not twice through float64.

    A number beyond the range of float32 becomes infinite.
    """
    double = float(text)
    try:
        nearest: float = _FLOAT.unpack(_FLOAT.pack(double))[0]
    except OverflowError:
        nearest = math.copysign(math.inf, double)
    if nearest == double or math.isinf(nearest) or not _may_be_tie(double):
        return nearest
    neighbor = float(np.nextafter(np.float32(nearest), np.float32(np.inf if double > nearest else -np.inf)))
    if not np.isfinite(neighbor) or nearest + neighbor != 2 * double:  # The float64 is not a tie.
        return nearest
    from decimal import Decimal  # Imported here, because an import at the top delays every program.

    exact, middle = Decimal(text.decode()), Decimal(double)
    if exact == middle:
        return nearest
    return max(nearest, neighbor) if exact > middle else min(nearest, neighbor)


def _may_be_tie(double: float) -> bool:
    """Return True if a float64 may be halfway between two float32 numbers. Always True in float32's subnormal range."""
    return abs(double) < _TINY or int.from_bytes(_DOUBLE.pack(double), "little") & _BEYOND_FLOAT32 == _TIE


def scan_rows(text: bytes, is_single: bool, fail: Fail) -> list[list[float]]:
    """Parse the rows of numbers in ``text`` one number at a time, with the rules at the start of this module.

    Args:
        text: the text between ``[`` and ``]``. A row ends at a newline or ``;``, and empty rows are ignored.
        is_single: True to round numbers to float32, False for float64.
        fail: function that raises an error. Its arguments are a message and the position in ``text`` of the fault.

    Returns:
        The numbers of each row that is not empty.
    """
    rows: list[list[float]] = []
    row: list[float] = []
    at, end = 0, len(text)
    while at < end:
        character = text[at : at + 1]
        if character in b"\n;":
            if row:
                rows.append(row)
                row = []
            at += 1
        elif character.isspace():
            at += 1
        elif character in b"-0123456789":
            number = _STREAM_NUMBER.match(text, at)
            if not number or text[number.end() : number.end() + 1] in (b"e", b"E"):
                fail(f"{_find_word(text, at)[:20]!r} is not a valid number", at)
            value = round_to_float32(number[0]) if is_single else float(number[0])
            if np.isinf(value):
                fail(f"{number[0][:20].decode()} is out of range for a {'float' if is_single else 'double'}", at)
            row.append(value)
            at = number.end()
        else:
            word = _find_word(text, at)
            if word.lower().encode("latin1") not in _WORDS:
                fail(f"expected a number, found {word[:20]!r}", at)
            row.append(_WORDS[word.lower().encode("latin1")])
            at += len(word)
    if row:
        rows.append(row)
    return rows


def _find_word(text: bytes, at: int) -> str:
    """Return the word that starts at offset ``at``, or "" at white space and at the end of the text."""
    word = _WORD.match(text, at)
    return word[0].decode("latin1") if word else ""


def parse_rows(text: bytes, dtype: npt.DTypeLike, fail: Fail) -> tuple[Floats, list[int]]:
    """Parse the rows of numbers in ``text``, in C if possible.

    Args:
        text, fail: see :func:`scan_rows`.
        dtype: type of the numbers, float32 or float64.

    Returns:
        The numbers of all rows, shape (numbers,), and the number of numbers in each row that is not empty.
    """
    is_single = np.dtype(dtype) == np.float32
    numbers: list[Floats] = []
    counts: list[int] = []
    at = 0
    while at < len(text):
        end = len(text)
        if end - at > _CHUNK_BYTES:  # Split after a newline, so that chunks hold whole rows. -1 means no newline.
            end = text.rfind(b"\n", at, at + _CHUNK_BYTES) + 1 or text.find(b"\n", at + _CHUNK_BYTES) + 1 or end
        parsed_chunk = read_rows(text[at:end], is_single)
        if parsed_chunk is None:
            rows = scan_rows(text[at:end], is_single, partial(_fail_at_offset, fail, at))
            parsed_chunk = np.array([x for row in rows for x in row], dtype), [len(row) for row in rows]
        numbers.append(parsed_chunk[0])
        counts += parsed_chunk[1]
        at = end
    return np.concatenate(numbers) if numbers else np.empty(0, dtype), counts


def warn_of_nonfinite(values: Floats, what: str) -> None:
    """Log Kaldi's warning if some of the ``values`` that were read from text are NaN or infinite.

    ``what`` is the type of the object for the message, such as "vector".
    """
    if not np.isfinite(values).all():
        for word, matches in (("infinite", np.isinf(values)), ("NaN", np.isnan(values))):
            if matches.any():
                logger.warning("Reading %s value into %s.", word, what)


def _fail_at_offset(fail: Fail, start: int, message: str, at: int) -> NoReturn:
    fail(message, start + at)


def _read_rows_in_c(text: bytes, is_single: bool) -> tuple[Floats, list[int]] | None:
    """Parse rows of numbers in C (see :func:`read_rows`)."""
    # A number and the character after it have at least two bytes.
    values = np.empty(len(text) // 2 + 1, np.float32 if is_single else np.float64)
    lengths = np.empty(text.count(b"\n") + text.count(b";") + 1, np.int64)
    row_count = np.zeros(1, np.int64)
    count = NATIVE.get_function("ark_read_rows")(
        text, len(text), not is_single, values, len(values), lengths, len(lengths), row_count
    )
    return None if count < 0 else (values[:count].copy(), lengths[: row_count[0]].tolist())


@NATIVE.twin(_read_rows_in_c)
def read_rows(text: bytes, is_single: bool) -> tuple[Floats, list[int]] | None:
    """Parse text in C. Return the numbers and the length of each row, as :func:`parse_rows` does.

    Return None if the C library is missing, or if the text has words or numbers that the C code cannot convert.
    """
    return None
