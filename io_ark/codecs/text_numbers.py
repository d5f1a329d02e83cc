"""Numbers in text, read and written as C++ streams do it for Kaldi, many at a time.

Kaldi's ``Matrix::Read`` and ``Vector::Read`` (``src/matrix/kaldi-matrix.cc``, ``kaldi-vector.cc``) look at one
character at a time: a digit or ``-`` starts a number as ``istream >> float`` takes it; anything else has to be ``inf``,
``infinity`` or ``nan`` in any case. So ``-inf``, ``+1`` and ``.5`` are errors, and ``1-2`` is two numbers.
:func:`scan` does that. Calling a function for each number is slow, so :func:`parse` converts whole arrays of plain
decimal numbers at once and leaves whatever is not plain to :func:`scan`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

Fail = Callable[[str, int], NoReturn]
Floats = npt.NDArray[Any]

_STREAM_NUMBER = re.compile(rb"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WORD = re.compile(rb"\S+")
_ROW_END = re.compile(rb"[\n;]")
_WORDS = {b"inf": np.inf, b"infinity": np.inf, b"nan": np.nan}

# The array code costs some 0.2 ms a call, so that shorter texts are done sooner by calling float() for each number.
_FEW_BYTES = 8192
# Numbers converted at a time, so that the arrays stay in the processor's cache.
_BLOCK = 8192
# Digits that a float64 holds exactly, and the powers of ten that it does: then one division or multiplication rounds
# correctly (W. D. Clinger, How to read floating point numbers accurately, PLDI 1990).
_EXACT_DIGITS = 15
_EXACT_POWER = 22
_POWERS = 10.0 ** np.arange(_EXACT_POWER + 1)
_LONGEST_PLAIN = 24
_LONGEST_EXPONENT = 4

_PLAIN_CHARACTERS = b"0123456789-+.eE \t\n\v\f\r;"
_IS_SPACE = bytes(chr(i).isspace() or i == ord(";") for i in range(128)) + bytes(128)
_MINUS, _PLUS, _DOT, _ZERO = b"-+.0"


def nearest_float32(text: bytes) -> float:
    """The float32 nearest to a decimal number, rounded once; ``strtof`` without a second rounding by way of float64."""
    wide = float(text)
    with np.errstate(over="ignore"):
        rounded = np.float32(wide)
    near = float(rounded)
    if not np.isfinite(near) or near == wide:
        return near
    other = float(np.nextafter(rounded, np.float32(np.inf if wide > near else -np.inf)))
    if not np.isfinite(other) or near + other != 2 * wide:
        return near
    exact, middle = Fraction(text.decode()), Fraction(wide)
    if exact == middle:
        return near
    return max(near, other) if exact > middle else min(near, other)


def scan(text: bytes, single: bool, fail: Fail) -> list[list[float]]:
    """The rows of numbers in ``text``, one number at a time, exactly as Kaldi takes them.

    Parameters:
        text: what stands between ``[`` and ``]``; a row ends at a newline or ``;``, and empty rows do not count.
        single: round to float32 (else float64).
        fail: called with a message and the place in ``text`` of what cannot be read.
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
            found = _STREAM_NUMBER.match(text, at)
            if not found or text[found.end() : found.end() + 1] in (b"e", b"E"):
                fail(f"{_word(text, at)[:20]!r} is not a number that can be read here", at)
            value = nearest_float32(found[0]) if single else float(found[0])
            if np.isinf(value):
                fail(f"{found[0][:20].decode()} is beyond the range of a {'float' if single else 'double'}", at)
            row.append(value)
            at = found.end()
        else:
            word = _word(text, at)
            if word.lower().encode("latin1") not in _WORDS:
                fail(f"{word[:20]!r} where a number should stand", at)
            row.append(_WORDS[word.lower().encode("latin1")])
            at += len(word)
    if row:
        rows.append(row)
    return rows


def _word(text: bytes, at: int) -> str:
    found = _WORD.match(text, at)
    return found[0].decode("latin1") if found else ""


def parse(text: bytes, dtype: npt.DTypeLike, fail: Fail) -> tuple[Floats, list[int]]:
    """All numbers in ``text`` (see :func:`scan`) and how many each of its rows has."""
    single = np.dtype(dtype) == np.float32
    if not text.translate(None, _PLAIN_CHARACTERS):
        plain = _parse_few(text, single) if len(text) < _FEW_BYTES else _parse_many(text, single)
        if plain is not None:
            return plain
    rows = scan(text, single, fail)
    return np.array([x for row in rows for x in row], dtype), [len(row) for row in rows]


def _parse_few(text: bytes, single: bool) -> tuple[Floats, list[int]] | None:
    """:func:`parse` for a short text of plain numbers; None where something in it needs :func:`scan`."""
    rows = [line.split() for line in text.replace(b";", b"\n").split(b"\n")]
    tokens = [token for row in rows for token in row]
    spaced = b" ".join([b"", *tokens])
    if b" +" in spaced or b" ." in spaced:
        return None
    try:
        values = np.array(list(map(float, tokens)))
    except ValueError:
        return None
    numbers = _round_to_float32(values, tokens.__getitem__) if single else values
    if not np.isfinite(numbers).all():
        return None
    return numbers, [len(row) for row in rows if row]


def _parse_many(text: bytes, single: bool) -> tuple[Floats, list[int]] | None:
    """:func:`_parse_few` for a long text."""
    # One byte either side, so that windows may reach over the ends; a space first and last makes every token end.
    characters = np.frombuffer(b" " + text + b" " * (_LONGEST_PLAIN + 1), np.uint8)
    spaces = np.frombuffer(bytes(characters).translate(_IS_SPACE.ljust(256, b"\0")), np.bool_)
    edges = np.flatnonzero(spaces[1:] != spaces[:-1]) + 1
    starts, ends = edges[0::2], edges[1::2]
    if len(starts) == 0:
        return np.empty(0, np.float32 if single else np.float64), []

    def token(i: int) -> bytes:
        return characters[starts[i] : ends[i]].tobytes()

    values = np.empty(len(starts), np.float64)
    for first in range(0, len(starts), _BLOCK):
        block = slice(first, first + _BLOCK)
        values[block], odd = _plain_values(characters, starts[block], ends[block])
        for i in (first + np.flatnonzero(odd)).tolist():
            if not _STREAM_NUMBER.fullmatch(token(i)) or token(i)[:1] == b".":
                return None
            values[i] = float(token(i))
    numbers = _round_to_float32(values, token) if single else values
    if not np.isfinite(numbers).all():
        return None
    row_ends = np.flatnonzero((characters == ord("\n")) | (characters == ord(";")))
    counts = np.diff(np.searchsorted(starts, row_ends), prepend=0, append=len(starts))
    return numbers, counts[counts > 0].tolist()


def _plain_values(
    characters: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Values in float64 of the numbers at these places, and which of them could not be converted here."""
    first = characters[starts]
    minus = first == _MINUS
    starts = starts + minus
    mantissa, decimals, stops, odd = _digits(characters, starts, ends, _LONGEST_PLAIN)
    odd |= first == _DOT
    power = -decimals
    exponents = np.flatnonzero(stops < ends)
    if len(exponents):
        marks = stops[exponents]
        odd[exponents] |= (characters[marks] | 0x20) != ord("e")
        sign = characters[marks + 1]
        down = sign == _MINUS
        begin = marks + 1 + (down | (sign == _PLUS))
        value, fraction, stop, bad = _digits(characters, begin, ends[exponents], _LONGEST_EXPONENT)
        bad |= (stop < ends[exponents]) | (fraction > 0) | (characters[stop - 1] == _DOT)
        odd[exponents] |= bad
        exponent = np.where(bad, 0, value).astype(np.int64)
        power[exponents] += np.where(down, -exponent, exponent)
    odd |= np.abs(power) > _EXACT_POWER
    scale = _POWERS[np.minimum(np.abs(power), _EXACT_POWER)]
    value = np.where(power < 0, mantissa / scale, mantissa * scale)
    return np.where(minus, -value, value), odd


def _digits(
    characters: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], longest: int
) -> tuple[Floats, npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Read digits with at most one dot among them: a column of characters of all tokens at a time.

    Returns:
        the digits as an integer in float64; how many of them follow the dot; where the reading stopped; and where this
        is no number or not exact.
    """
    count = len(starts)
    lengths = ends - starts
    value = np.zeros(count)
    decimals = np.zeros(count, np.int8)
    digits = np.zeros(count, np.int8)
    dotted = np.zeros(count, np.bool_)
    reading = np.ones(count, np.bool_)
    used = np.zeros(count, np.int8)
    for column in range(min(longest, int(lengths.max()))):
        here = characters[starts + column]
        digit = here - np.uint8(_ZERO)  # what is no digit wraps to 10 or more
        is_digit = digit < 10
        is_dot = here == _DOT
        is_dot &= ~dotted
        reading &= is_digit | is_dot  # a space at the token's end stops it, too
        is_digit &= reading
        np.multiply(value, 10.0, out=value, where=is_digit)
        np.add(value, digit, out=value, where=is_digit)
        digits += is_digit
        decimals += is_digit & dotted
        dotted |= is_dot & reading
        used += reading
        if not reading.any():
            break
    odd = (digits == 0) | (digits > _EXACT_DIGITS) | (lengths > longest)
    return value, decimals.astype(np.int64), starts + used, odd


def _round_to_float32(values: Floats, token: Callable[[int], bytes]) -> Floats:
    """float64 to float32; where that is a tie, the text decides, since it was rounded once already."""
    with np.errstate(over="ignore", under="ignore"):
        rounded = values.astype(np.float32)
    # Half-way between two float32: the 29 bits of the significand that a float32 lacks are 1 followed by zeros.
    ties = (values.view(np.uint64) & np.uint64(0x1FFFFFFF)) == np.uint64(0x10000000)
    ties |= np.abs(values) < np.finfo(np.float32).tiny
    ties &= rounded != values
    for i in np.flatnonzero(ties).tolist():
        rounded[i] = nearest_float32(token(i))
    return rounded


def format_row(values: Sequence[float]) -> str:
    """Numbers as a C++ stream of precision 7 prints them, each followed by a space."""
    text = "%.7g " * len(values) % tuple(values)
    return text if "nan" not in text else _with_signs_of_nans(text, values)


def _with_signs_of_nans(text: str, values: Iterable[float]) -> str:
    words = text.split(" ")
    for i, value in enumerate(values):
        if words[i] == "nan" and np.signbit(value):
            words[i] = "-nan"
    return " ".join(words)
