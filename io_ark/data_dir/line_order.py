"""Sort lines by their bytes, as ``LC_ALL=C sort`` does."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from itertools import chain, islice

from io_ark.data_dir.line_chunks import read_chunks, split_lines
from io_ark.data_dir.line_fields import get_column

# Without bytes below a newline, such as tabs, lines have the same order with and without their newlines.
_FROM_NEWLINE = bytes(range(ord("\n"), 256))


def find_unsorted_key(keys: list[bytes], previous: bytes | None) -> int:
    """Return the number, counted from 1, of the first key that is not larger than the key before, or 0 if the keys increase.

    ``previous`` is the key before ``keys``, or None at the start of a file.
    """
    if previous is not None and keys and keys[0] <= previous:
        return 1
    if all(map(operator.lt, keys, islice(keys, 1, None))):
        return 0
    return next(number for number in range(2, len(keys) + 1) if keys[number - 1] <= keys[number - 2])


def is_sorted(file: str) -> bool:
    """Return True if the first fields of a file's lines increase, no line is indented or blank, and a newline ends the file."""
    previous = None
    for chunk in read_chunks(file):
        keys = get_column(chunk, awk=True)
        is_indented = chunk[:1] in b" \t" or b"\n " in chunk or b"\n\t" in chunk
        if is_indented or b"" in keys or find_unsorted_key(keys, previous) or not chunk.endswith(b"\n"):
            return False
        previous = keys[-1]
    return True


def get_sort_key(line: bytes) -> bytes:
    """Return the sort key of ``sort -k1,1``, which is the first field with the blanks before it."""
    if line[:1] in (b" ", b"\t") or b"\t" in line:
        match = re.match(rb"[ \t]*[^ \t\n]*", line)
        return match[0] if match else b""
    return line.partition(b" ")[0].removesuffix(b"\n")


def sort_lines(files: Iterable[Iterable[bytes]], key: Callable[[bytes], bytes] | None = None) -> list[bytes]:
    """Sort the lines of several files (iterables of chunks) by their bytes or by ``key``, stably, and add missing newlines.

    Newlines are not compared, so a line precedes longer lines that begin with it, even if a tab follows, which is less
    than a newline.
    """
    lines: list[bytes] = []
    for chunk in chain.from_iterable(files):
        lines += split_lines(chunk if chunk.endswith(b"\n") else chunk + b"\n")
        if key is None and chunk.translate(None, _FROM_NEWLINE):
            key = operator.itemgetter(slice(-1))
    lines.sort(key=key)
    return lines
