"""Read, compare and print numbers as awk does."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterable

from io_ark.data_dir.line_fields import get_column
from io_ark.errors import FormatError

_NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_SAME_IN_BOTH_FORMATS = 999999  # Largest whole number that "%.6g" prints like "%d".


def is_number(field: bytes) -> bool:
    """Return True if awk treats a field as a number."""
    return _NUMBER.fullmatch(field) is not None


def parse_number(field: bytes) -> float:
    """Return the number that awk reads at the start of a field, or 0 if the field does not start with a number."""
    match = _NUMBER.match(field)
    return float(match[0]) if match else 0.0


def parse_decimals(fields: list[bytes]) -> list[float] | None:
    """Convert fields of digits and points to numbers, faster than :func:`parse_number`.

    Return None if a field is not a number, or has other characters, such as a sign or an exponent.
    """
    with contextlib.suppress(ValueError):
        if not b"".join(fields).translate(None, b"0123456789."):
            return list(map(float, fields))
    return None


def parse_column(chunk: bytes, number: int) -> list[float]:
    """Return the number at the start of field ``number``, counted from 1, of each line of a chunk, or 0 if there is no number."""
    fields = get_column(chunk, number, awk=True)
    decimals = parse_decimals(fields)
    return list(map(parse_number, fields)) if decimals is None else decimals


def is_above(field: bytes, limit: bytes) -> bool:
    """Return True if a field is greater than ``limit``.

    Two numbers are compared as numbers, and all other fields as bytes.
    """
    if is_number(field) and is_number(limit):
        return parse_number(field) > parse_number(limit)
    return field > limit


def format_number(value: float) -> bytes:
    """Format a number as awk does: exactly if it is whole and its magnitude is below 2**53, else with six significant digits."""
    return b"%d" % value if abs(value) < 2**53 and value == int(value) else b"%.6g" % value


def replace_values(chunk: bytes, values: Iterable[float]) -> bytes:
    """Return a chunk with the keys of ``chunk`` and new values, in awk's number format.

    Each line of the result has the first field of a line of ``chunk``, and the value at the same index of ``values``.
    Raise FormatError if a value is not finite.
    """
    keys, numbers = get_column(chunk, awk=True), list(values)
    if all(abs(value) < _SAME_IN_BOTH_FORMATS for value in numbers):
        return b"".join([b"%b %.6g\n" % pair for pair in zip(keys, numbers, strict=True)])
    for key, value in zip(keys, numbers, strict=True):
        if not math.isfinite(value):
            message = "has a number that is too large: write a smaller number"
            raise FormatError(message, key=key.decode("utf-8", "surrogateescape"))
    return b"".join([b"%b %b\n" % (key, format_number(value)) for key, value in zip(keys, numbers, strict=True)])
