"""Lists of lists of numbers (posteriors, vectors of vectors), many of the inner lists at a time.

To read or write one list costs some microseconds, however short it is. So lists that stand in a row, as Kaldi writes
them, are taken as one array of numbers and the places where each list ends. What is laid out in any other way, or is
wrong, is left to the codec that reads lists one by one, and knows what to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.codecs.basic import INT32_MAX, Sink, raw_bytes
from io_ark.source import Source

Integers = npt.NDArray[np.int32]

# A count and a number both are a byte 4 and four bytes more, so that a list of lists is an array of these.
_SIZED = np.dtype([("size", "u1"), ("number", "<i4")])
# Bytes taken at a time: what is looked at beyond the last list is wasted.
_AT_ONCE = 1 << 14
_NUMBER_CHARACTERS = b"0123456789-+.eE"


def read_lists(source: Source, most: int, width: int) -> tuple[Integers, list[int]]:
    """As many lists in binary as are in memory whole and without fault, or one short one; maybe none.

    Args:
        most: no more of them than this.
        width: how many numbers an element of a list is.

    Returns:
        The numbers of all lists, each list's after its count (a float's bits as an integer); and where each list ends.
    """
    head = source.peek(_SIZED.itemsize)
    first = _SIZED.itemsize * (1 + width * int.from_bytes(head[1:], "little"))
    if first <= _AT_ONCE:
        source.peek(first)  # and so some more, if more is there
    data = source.peek_at_hand(_AT_ONCE)
    records = np.frombuffer(data, _SIZED, len(data) // _SIZED.itemsize)
    numbers = records["number"].astype(np.int32, order="C")
    wrong = np.flatnonzero(records["size"] != 4)
    end = int(wrong[0]) if len(wrong) else len(records)
    counts = numbers.data
    ends: list[int] = []
    at = 0
    while at < end and len(ends) < most:
        count = counts[at]
        at += 1 + width * count
        if count < 0 or at > end:
            break
        ends.append(at)
    used = ends[-1] if ends else 0
    source.skip(used * _SIZED.itemsize)
    return numbers[:used], ends


def without_counts(numbers: Integers, ends: Sequence[int]) -> Integers:
    """The numbers that :func:`read_lists` gives, without those that say how long the lists are."""
    kept = np.ones(len(numbers), bool)
    kept[[0, *ends[:-1]]] = False
    return numbers[kept]


def write_lists(sink: Sink, lengths: Sequence[int], width: int, numbers: npt.NDArray[Any]) -> None:
    """Lists in binary, after how many there are.

    Args:
        lengths: the number of elements of each list.
        width: how many numbers an element of a list is.
        numbers: of all lists, int32 (or, where :func:`read_lists` will give integers, another 4 bytes each).
    """
    counts = np.array([len(lengths), *lengths])
    assert int(counts.max()) <= INT32_MAX
    places = np.cumsum([0, 1, *(1 + width * length for length in lengths[:-1])]) if lengths else np.zeros(1, int)
    values = np.empty(len(counts) + len(numbers), np.int32)
    kept = np.ones(len(values), bool)
    kept[places] = False
    values[places] = counts
    values[kept] = numbers
    records = np.empty(len(values), _SIZED)
    records["size"] = 4
    records["number"] = values
    sink.write(raw_bytes(records))


def lengths_in_text(text: bytes, end: bytes) -> list[int] | None:
    """How many words each list in text has, if each word and each ``end`` of a list has one space after it; else None.

    The words consist of characters of numbers; whether they are numbers is not looked at.
    """
    lists = text.count(end)
    if (
        not text.endswith(end + b" ")
        or text.startswith(b" ")
        or b"  " in text
        or text.count(end + b" ") < lists
        or text.count(b" " + end) + text.startswith(end) < lists
    ):
        return None
    # So the spaces of each list are as many as its words.
    *spaces, _ = text.translate(None, _NUMBER_CHARACTERS).split(end + b" ")
    if b"".join(spaces).strip(b" "):
        return None
    return list(map(len, spaces))
