"""Parse numbers in text with the rules of Kaldi's C++ streams, many at a time.

Kaldi's ``Matrix::Read`` and ``Vector::Read`` (``src/matrix/kaldi-matrix.cc``, ``kaldi-vector.cc``) read one character
at a time. A digit or ``-`` starts a number in the syntax of ``istream >> float``; anything else must be ``inf``,
``infinity`` or ``nan`` in upper or lower case. So ``-inf``, ``+1`` and ``.5`` are errors, and ``1-2`` is two numbers.
:func:`scan` follows these rules. Because a function call per number is slow, :func:`parse` converts arrays of plain
decimal numbers at once and passes all other text to :func:`scan`.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from io_ark.native.text import text_functions

Fail = Callable[[str, int], NoReturn]
Floats = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_STREAM_NUMBER = re.compile(rb"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WORD = re.compile(rb"\S+")
_WORDS = {b"inf": np.inf, b"infinity": np.inf, b"nan": np.nan}

# The array code costs about 0.2 ms per call, so calling float() for each number is faster for shorter texts.
_FEW_BYTES = 10000
# Bytes of text converted at a time: the intermediate arrays stay in the processor's cache.
_PIECE = 1 << 16
# glibc returns large freed blocks to the operating system and requests each one again, which costs more than the work
# done on them here. It keeps blocks that are smaller than the largest block freed so far, so free a large one once.
_largest_block = np.empty(1 << 22, np.uint8)
del _largest_block
# Number of digits, and largest power of ten, that a float64 represents exactly: within these limits one division or
# multiplication rounds correctly (W. D. Clinger, How to read floating point numbers accurately, PLDI 1990).
_EXACT_DIGITS = 15
_EXACT_POWER = 22
_POWERS = 10.0 ** np.arange(_EXACT_POWER + 1)
# Characters of a number that are converted at once.
_WINDOW = 16
# Row n has a byte 1 for each of the last n of 16 characters.
_LAST_BYTES = (np.arange(_WINDOW, 0, -1) <= np.arange(_WINDOW + 1)[:, None]).view("<u8")
# The bits of a float64's significand that a float32 lacks, and their value half-way between two float32 numbers. Below
# _TINY a float32 is subnormal and lacks more bits.
_BEYOND_FLOAT32 = 0x1FFFFFFF
_TIE = 0x10000000
_TINY = float(np.finfo(np.float32).tiny)
_FLOAT = struct.Struct("<f")
_DOUBLE = struct.Struct("<d")
_ONES = np.uint64(0x0101010101010101)
# The position of each of 8 characters, counted from the end.
_PLACES = np.uint64(0x0807060504030201)
_PLAIN_CHARACTERS = b"0123456789-+.eE \t\n\v\f\r;"
_PLAIN_ROW = _PLAIN_CHARACTERS.translate(None, b"\n\r;")
_IS_SPACE = bytes(byte in b" \t\n\v\f\r;" for byte in range(256))
_SPACED = bytes.maketrans(b"\t\n\v\f\r;", b"      ")
# C code for plain numbers, where it is there.
_NATIVE = text_functions()
_MINUS, _PLUS, _DOT, _ZERO, _E, _NEWLINE, _SEMICOLON = b"-+.0e\n;"


def nearest_float32(text: bytes) -> float:
    """Return the float32 nearest to a decimal number, rounded once like ``strtof`` and not twice by way of float64."""
    wide = float(text)
    try:
        near: float = _FLOAT.unpack(_FLOAT.pack(wide))[0]
    except OverflowError:
        near = math.copysign(math.inf, wide)
    if near == wide or math.isinf(near) or not _may_be_tie(wide):
        return near
    other = float(np.nextafter(np.float32(near), np.float32(np.inf if wide > near else -np.inf)))
    if not np.isfinite(other) or near + other != 2 * wide:
        return near
    exact, middle = Decimal(text.decode()), Decimal(wide)
    if exact == middle:
        return near
    return max(near, other) if exact > middle else min(near, other)


def _may_be_tie(wide: float) -> bool:
    """Return True if a float64 may lie half-way between two float32 numbers; always True for subnormal ones."""
    return abs(wide) < _TINY or int.from_bytes(_DOUBLE.pack(wide), "little") & _BEYOND_FLOAT32 == _TIE


def scan(text: bytes, single: bool, fail: Fail) -> list[list[float]]:
    """Parse the rows of numbers in ``text`` one number at a time, with Kaldi's rules.

    Args:
        text: the text between ``[`` and ``]``; a row ends at a newline or ``;``, and empty rows are ignored.
        single: round to float32 (else float64).
        fail: called with a message and the position in ``text`` of a syntax error.
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
                fail(f"{_word(text, at)[:20]!r} is not a valid number", at)
            value = nearest_float32(found[0]) if single else float(found[0])
            if np.isinf(value):
                fail(f"{found[0][:20].decode()} is out of range for a {'float' if single else 'double'}", at)
            row.append(value)
            at = found.end()
        else:
            word = _word(text, at)
            if word.lower().encode("latin1") not in _WORDS:
                fail(f"expected a number, found {word[:20]!r}", at)
            row.append(_WORDS[word.lower().encode("latin1")])
            at += len(word)
    if row:
        rows.append(row)
    return rows


def _word(text: bytes, at: int) -> str:
    found = _WORD.match(text, at)
    return found[0].decode("latin1") if found else ""


def parse(text: bytes, dtype: npt.DTypeLike, fail: Fail) -> tuple[Floats, list[int]]:
    """Return all numbers in ``text`` (see :func:`scan`) and the length of each row."""
    single = np.dtype(dtype) == np.float32
    parts = []
    at = 0
    while at < len(text):
        # Split at newlines, so that each part holds whole rows.
        end = text.rfind(b"\n", at, at + _PIECE) + 1 or text.find(b"\n", at + _PIECE) + 1 or len(text)
        part = _parse_plain(text[at:end], single)
        if part is None:
            rows = scan(text[at:end], single, partial(_fail_within, fail, at))
            part = np.array([x for row in rows for x in row], dtype), [len(row) for row in rows]
        parts.append(part)
        at = end
    numbers = [part[0] for part in parts]
    return np.concatenate(numbers) if numbers else np.empty(0, dtype), [count for part in parts for count in part[1]]


def _fail_within(fail: Fail, start: int, message: str, place: int) -> NoReturn:
    fail(message, start + place)


def _parse_plain(text: bytes, single: bool) -> tuple[Floats, list[int]] | None:
    """Parse rows of plain numbers; return None if any of them needs :func:`scan`."""
    if _NATIVE is not None and (rows := _NATIVE.read_rows(text, single)) is not None:
        return rows
    if text.translate(None, _PLAIN_CHARACTERS):
        return None
    return _parse_few(text, single) if len(text) < _FEW_BYTES else _parse_many(text, single)


def _parse_few(text: bytes, single: bool) -> tuple[Floats, list[int]] | None:
    """Implement :func:`_parse_plain` with one call of ``float`` per number."""
    numbers = _numbers_of_few(text, single)
    if numbers is None:
        return None
    rows = [len(row.split()) for row in text.replace(b";", b"\n").split(b"\n")]
    return numbers, [count for count in rows if count]


def parse_short_row(text: bytes, single: bool) -> Floats | None:
    """Parse one short row of plain numbers; return None for any other text, which :func:`parse` handles."""
    if text.translate(None, _PLAIN_ROW):
        return None
    if _NATIVE is not None and (rows := _NATIVE.read_rows(text, single)) is not None:
        return rows[0]
    if len(text) >= _FEW_BYTES:
        return None
    return _numbers_of_few(text, single)


def _numbers_of_few(text: bytes, single: bool) -> Floats | None:
    spaced = (b" " + text).translate(_SPACED)
    if b" ." in spaced or (b"+" in spaced and b" +" in spaced):
        return None
    return parse_words(spaced.split(), single)


def parse_words(words: Sequence[bytes], single: bool) -> Floats | None:
    """Convert each word to a number; return None if one is not a number or is out of range.

    The words must consist of digits, signs, dots and ``e``: Python accepts more spellings of numbers than C.
    """
    try:
        values = np.fromiter(map(float, words), np.float64, len(words))
    except ValueError:
        return None
    numbers = _round_to_float32(values, words.__getitem__) if single else values
    return numbers if np.isfinite(numbers).all() else None


def _parse_many(text: bytes, single: bool) -> tuple[Floats, list[int]] | None:
    """Implement :func:`_parse_plain` by converting all numbers at once."""
    # A leading and a trailing space delimit the first and last token. The remaining padding lets the window of the
    # first number begin before the text.
    padding = b" " * _WINDOW
    characters = np.frombuffer(padding + text + b" ", np.uint8)
    spaces = np.frombuffer((padding + text + b" ").translate(_IS_SPACE), np.bool_)
    edges = np.flatnonzero(spaces[1:] != spaces[:-1]) + 1
    starts, ends = edges[0::2], edges[1::2]

    def token(i: int) -> bytes:
        return characters[starts[i] : ends[i]].tobytes()

    values, odd = _plain_values(characters, starts, ends, b"e" in text or b"E" in text)
    for i in np.flatnonzero(odd).tolist():
        if not _STREAM_NUMBER.fullmatch(token(i)) or token(i)[:1] == b".":
            return None
        values[i] = float(token(i))
    numbers = _round_to_float32(values, token) if single else values
    if not np.isfinite(numbers).all():
        return None
    row_ends = np.flatnonzero((characters == _NEWLINE) | (characters == _SEMICOLON))
    counts = np.diff(np.searchsorted(starts, row_ends), prepend=0, append=len(starts))
    return numbers, counts[counts > 0].tolist()


def _plain_values(characters: Bytes, starts: Places, ends: Places, exponents: bool) -> tuple[Floats, Mask]:
    """Return the float64 values of the numbers at these positions, and a mask of those not converted here."""
    minus = characters[starts] == _MINUS
    mantissa_ends = ends
    power = np.zeros(len(starts), np.int64)
    odd = characters[starts] == _DOT
    if exponents and len(starts):
        region = characters[starts[0] : ends[-1]]
        marks = np.flatnonzero((region | np.uint8(0x20)) == _E) + starts[0]
        owners = np.searchsorted(starts, marks, "right") - 1
        mantissa_ends = ends.copy()
        mantissa_ends[owners] = marks
        sign = characters[marks + 1]
        down = sign == _MINUS
        value, decimals, bad = _digits(characters, marks + 1 + (down | (sign == _PLUS)), ends[owners])
        bad |= (decimals >= 0) | (value > _EXACT_POWER)
        odd[owners[bad]] = True
        value = np.where(bad, 0, value).astype(np.int64)
        power[owners] = np.where(down, -value, value)
    mantissa, decimals, bad = _digits(characters, starts + minus, mantissa_ends)
    power -= np.maximum(decimals, 0)
    odd |= bad | (np.abs(power) > _EXACT_POWER)
    scale = _POWERS[np.minimum(np.abs(power), _EXACT_POWER)]
    value = np.where(power > 0, mantissa * scale, mantissa / scale) if exponents else mantissa / scale
    return np.where(minus, -value, value), odd


def _digits(characters: Bytes, starts: Places, ends: Places) -> tuple[Floats, Places, Mask]:
    """Read the digits at these positions, with at most one dot among them.

    Returns:
        The digits as an integer in float64; the number of digits after the dot, or -1 without a dot; and a mask of the
        positions that hold anything else.
    """
    lengths = ends - starts
    # The last 16 characters of each number as two words, gathered from a view of all 8-byte substrings.
    words = np.ndarray(len(characters) - 7, "<u8", characters, strides=(1,))
    windows = np.empty((len(starts), 2), "<u8")
    windows[:, 0] = words[ends - _WINDOW]
    windows[:, 1] = words[ends - _WINDOW // 2]
    within = np.take(_LAST_BYTES, np.minimum(lengths, _WINDOW), axis=0)
    here = windows.view(np.uint8)
    digit = here - np.uint8(_ZERO)  # other characters wrap to 10 or more
    is_digit = (digit < 10).view("<u8")
    is_digit &= within
    is_dot = (here == _DOT).view("<u8")
    is_dot &= within
    digit *= is_digit.view(np.uint8)
    first, last = is_digit.T
    digits = _sum_of_bytes(first + last, _ONES)
    first, last = is_dot.T
    dots = _sum_of_bytes(first + last, _ONES)
    dot_place = _sum_of_bytes(first | last, _PLACES)
    dot_place[first > 0] += _WINDOW // 2
    whole = _number(digit)
    odd = (digits + dots != lengths) | (digits == 0) | (dots > 1) | (lengths > _EXACT_DIGITS)
    decimals = np.where(odd, 0, dot_place) - 1
    # The dot was read as a digit 0, so the digits before it are ten times too large.
    shift = _POWERS[np.maximum(decimals, 0)]
    before = np.floor(whole / (10 * shift))
    return np.where(decimals >= 0, whole - 9 * shift * before, whole), decimals, odd


def _sum_of_bytes(words: Words, weights: np.uint64) -> Places:
    """Return the weighted sum of each word's 8 bytes of 0 or 1: the top byte of the product of word and weights."""
    sums: Places = ((words * weights) >> np.uint64(56)).view(np.int64)
    return sums


def _number(digit: Bytes) -> Floats:
    """Convert rows of 16 bytes, each a decimal digit, to float64 numbers.

    Neighbours are combined within words of 2, 4 and then 8 bytes; the first digit is in the lowest byte.
    """
    pairs = digit.view("<u2")
    pairs = (pairs * np.uint16(10) + (pairs >> np.uint16(8))) & np.uint16(0xFF)
    fours = pairs.view("<u4")
    fours = (fours * np.uint32(100) + (fours >> np.uint32(16))) & np.uint32(0xFFFF)
    eights = fours[:, 0::2] * np.uint32(10000) + fours[:, 1::2]
    number: Floats = eights[:, 0] * 1e8 + eights[:, 1]
    return number


def _round_to_float32(values: Floats, token: Callable[[int], bytes]) -> Floats:
    """Round float64 to float32; decide ties by the text, because the float64 has been rounded already."""
    with np.errstate(over="ignore", under="ignore"):
        rounded = values.astype(np.float32)
    ties = (values.view(np.uint64) & np.uint64(_BEYOND_FLOAT32)) == np.uint64(_TIE)
    ties |= np.abs(values) < _TINY
    ties &= rounded != values
    for i in np.flatnonzero(ties).tolist():
        rounded[i] = nearest_float32(token(i))
    return rounded
