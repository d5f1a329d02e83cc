"""Split lines of text into words as Kaldi does, make text safe to show, and write tables for notebooks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

MAX_DIGITS = 400
"""Maximum number of digits of an integer that is converted exactly. Python refuses more than 4,300 digits."""
MAX_SHOWN_BITS = 128  # Error messages show only the size of an integer with more bits, so that they stay readable.
WHITE_SPACE = " \t\n\v\f\r"
FIRST = 5
"""Number of entries at the start of a long list that notebooks show."""
_MAX_MESSAGE_CHARACTERS = 1900  # Longer messages, such as a message with a long command, are shortened.
_SPACE = re.compile(r"\s+", re.ASCII)


def parse_integer(text: bytes | str) -> int:
    """Convert a string of decimal digits of any length, with an optional sign, to an integer.

    An integer with more than 400 digits, not counting leading zeros, becomes 2**64 or -2**64, which no caller accepts.
    """
    if len(text) <= MAX_DIGITS:
        return int(text)
    string = text if isinstance(text, str) else text.decode("ascii")
    digits = string.lstrip("+-0")
    magnitude = int(digits or "0") if len(digits) <= MAX_DIGITS else 1 << 64
    return -magnitude if string.startswith("-") else magnitude


def split_words(line: str, max_splits: int = 0) -> list[str]:
    """Split a line into words at ASCII white space. ``str.split`` also splits at Unicode spaces, which Kaldi keeps.

    After ``max_splits`` splits, the rest of the line is the last word. 0 means no limit.
    """
    if max_splits == 0 and line.isprintable():  # A space is the only printable white space.
        return line.split()
    inner = line.strip(WHITE_SPACE)
    return _SPACE.split(inner, max_splits) if inner else []


def quote_value(value: object) -> str:
    """Return the ``repr`` of a value for a message. A NumPy scalar is shown as a Python number or string.

    An integer of more than 128 bits is described by its number of bits. The middle of a long string is omitted.
    """
    is_scalar = type(value).__module__ == "numpy" and getattr(value, "shape", None) == ()
    plain_value = getattr(value, "item", lambda: value)() if is_scalar else value
    if isinstance(plain_value, int) and plain_value.bit_length() > MAX_SHOWN_BITS:
        return f"an integer of {plain_value.bit_length()} bits"
    try:
        return shorten(repr(plain_value))
    except ValueError:  # A list may contain an integer of more than 4,300 digits, which `repr` refuses.
        return f"a {type(plain_value).__name__} with an integer that is too large to be shown"


def format_count(count: int, noun: str, plural: str = "") -> str:
    """Format a count and a noun, such as ``1 entry`` or ``2 entries``. The default plural is ``noun + "s"``."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def shorten(text: str) -> str:
    """Replace the middle of a string with an ellipsis if the string has more than 1,900 characters."""
    half_length = _MAX_MESSAGE_CHARACTERS // 2
    return text if len(text) <= 2 * half_length else f"{text[:half_length]} ... {text[-half_length:]}"


def escape_controls(text: str) -> str:
    r"""Replace characters that are not printable, except newlines, with Python's escapes, such as ``\x1b``."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode() for char in text
    )


def escape(text: str) -> str:
    r"""Replace characters that are not printable, including newlines, with Python's escapes, such as ``\x1b``.

    Surrogates of ``surrogateescape``, which stand for bytes that are not UTF-8, are unchanged.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or "\udc80" <= char <= "\udcff" else char.encode("unicode_escape").decode()
        for char in text
    )


def format_html_table(title: str, rows: Iterable[Sequence[object]], header: Sequence[str] = (), note: str = "") -> str:
    """Return an HTML table for Jupyter, without colors, so that the table is readable in light and dark themes.

    Args:
        title: title above the table.
        rows: cells of each row.
        header: names of the columns, or empty for a table without names.
        note: text below the table.
    """
    head = "".join(f'<th style="text-align: left">{_escape(name)}</th>' for name in header)
    body = "".join(f"<tr>{''.join(f'<td>{_escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    table = f"<table>{f'<tr>{head}</tr>' if head else ''}{body}</table>" if head or body else ""
    return f"<div><b>{_escape(title)}</b>{table}{f'<small>{_escape(note)}</small>' if note else ''}</div>"


def _escape(value: object) -> str:
    return str(value).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
