"""Lists of lists of numbers (posteriors, vectors of vectors), many of the inner lists at a time.

To read or write one list costs some microseconds, however short it is. So lists that stand in a row, as Kaldi writes
them, are taken as one array of numbers and the places where each list ends. What is laid out in any other way, or is
wrong, is left to the codec that reads lists one by one, and knows what to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.codecs.base import Sink, int32_bytes, raw_bytes
from io_ark.codecs.text_format import format_integers, format_values
from io_ark.native.pack import Columns, packer
from io_ark.streams.source import Source

Integers = npt.NDArray[np.int32]
Places = npt.NDArray[np.int64]

# A count and a number both are a byte 4 and four bytes more, so that a list of lists is an array of these.
_SIZED = np.dtype([("size", "u1"), ("number", "<i4")])
# Numbers taken at a time.
_AT_ONCE = 1 << 13
# C code that packs and prints lists, where it is there.
_NATIVE = packer()
_NUMBER_CHARACTERS = b"0123456789-+.eE"
# Kinds of characters: spaces, those of numbers, marks between lists, and others. A space has to stand between words.
_SPACE, _WORD, _MARK, _OTHER = range(4)
_KINDS = 4
_KIND = bytes(
    _WORD if byte in _NUMBER_CHARACTERS else {ord(" "): _SPACE}.get(byte, _MARK if byte in b"[];" else _OTHER)
    for byte in range(256)
)
_GOOD_NEIGHBOURS = bytes(
    first * _KINDS + second
    for first, second in ((_SPACE, _WORD), (_WORD, _WORD), (_WORD, _SPACE), (_SPACE, _MARK), (_MARK, _SPACE))
)


def read_lists(source: Source, most: int, width: int) -> tuple[Integers, Places]:
    """As many lists in binary as are in memory whole and without fault, or one short one; maybe none.

    Args:
        most: no more of them than this.
        width: how many numbers an element of a list is.

    Returns:
        The numbers of all lists, each list's after its count (a float's bits as an integer); and where each list ends.
    """
    head = source.peek(_SIZED.itemsize)
    first = 1 + width * int.from_bytes(head[1:], "little")
    if first > _AT_ONCE:
        return np.empty(0, np.int32), np.empty(0, np.int64)
    source.peek(first * _SIZED.itemsize)  # and so some more, if more is there
    # If the others are longer than this expects, they have their turn later.
    data = source.peek_at_hand(min(2 * first * most, _AT_ONCE) * _SIZED.itemsize)
    records = np.frombuffer(data, _SIZED, len(data) // _SIZED.itemsize)
    sizes = data[:: _SIZED.itemsize][: len(records)]
    end = len(sizes) - len(sizes.lstrip(b"\4"))
    numbers = records["number"].astype(np.int32, order="C")
    ends = _ends(numbers[:end], most, width)
    used = int(ends[-1]) if len(ends) else 0
    source.skip(used * _SIZED.itemsize)
    return numbers[:used], ends


def _ends(numbers: Integers, most: int, width: int) -> Places:
    """Where the lists end that are there whole: in each, as many elements follow a number as it says."""
    if not len(numbers) or numbers[0] < 0:
        return np.empty(0, np.int64)
    # Those at the start that have the same length, often all of them.
    step = 1 + width * int(numbers[0])
    same = numbers[: len(numbers) // step * step : step][:most] == numbers[0]
    run = len(same) if same.all() else int(same.argmin())
    at = run * step
    counts = numbers.data
    ends: list[int] = []
    for _ in range(most - run):
        if at >= len(counts) or counts[at] < 0:
            break
        at += 1 + width * counts[at]
        ends.append(at)
    if ends and at > len(counts):
        ends.pop()
    return np.concatenate([np.arange(1, run + 1) * step, np.array(ends, np.int64)])


def without_counts(numbers: Integers, ends: Places) -> Integers:
    """The numbers that :func:`read_lists` gives, without those that say how long the lists are."""
    kept = np.ones(len(numbers), bool)
    kept[0] = False
    kept[ends[:-1]] = False
    return numbers[kept]


def write_lists(sink: Sink, lengths: Sequence[int], columns: Columns) -> None:
    """Write lists in binary, after how many there are (see :func:`pack_lists`)."""
    sink.write(int32_bytes(len(lengths)))
    sink.write(pack_lists(lengths, columns))


def pack_lists(lengths: Sequence[int], columns: Columns) -> bytes | memoryview:
    """Return lists in binary, each after its length.

    Args:
        lengths: the number of elements of each list.
        columns: the numbers of all lists, of 32 bits: one array, or two if the elements are pairs.
    """
    if _NATIVE is not None:
        return _NATIVE.pack_lists(columns, lengths)
    counts = np.array(lengths, np.int64)
    width = len(columns)
    numbers = np.stack([column.view(np.int32) for column in columns], axis=1).reshape(-1)
    values = np.empty(len(counts) + len(numbers), np.int32)
    places = np.arange(len(counts)) + width * (np.cumsum(counts) - counts)
    kept = np.ones(len(values), bool)
    kept[places] = False
    values[places] = counts
    values[kept] = numbers
    records = np.empty(len(values), _SIZED)
    records["size"] = 4
    records["number"] = values
    return raw_bytes(records)


def lengths_in_text(text: bytes, begin: bytes, end: bytes) -> Places | None:
    """How many words each list in text has; None unless all is laid out as Kaldi does: with single spaces.

    The words consist of characters of numbers; whether they are numbers is not looked at.

    Args:
        begin: what each list starts with: ``[ ``, or nothing; and
        end: what it ends with: ``] `` or ``; ``.
    """
    kinds = np.frombuffer((b" " + text).translate(_KIND), np.uint8)
    neighbours = kinds[:-1] * np.uint8(_KINDS) + kinds[1:]
    if neighbours.tobytes().translate(None, _GOOD_NEIGHBOURS) or not text.endswith(end):
        return None
    # So a space stands after each word, and the words can be left out to count them.
    *lists, rest = text.translate(None, _NUMBER_CHARACTERS).split(end)
    if rest or any(spaces != begin + b" " * (len(spaces) - len(begin)) for spaces in set(lists)):
        return None
    return np.fromiter(map(len, lists), np.int64, len(lists)) - len(begin)


def cut(items: Any, lengths: Places) -> list[Any]:
    """A list or an array as many, of these lengths."""
    return [items[begin:end] for begin, end in pairwise((0, *np.cumsum(lengths).tolist()))]


def format_lists(lengths: Sequence[int], begin: bytes, end: bytes, columns: Columns) -> bytes:
    """Return lists in text, with a space after each number.

    Args:
        lengths: the number of elements of each list.
        begin: the text before each list.
        end: the text after each list.
        columns: the numbers of all lists, as int32 or float32: one array, or two if the elements are pairs.
    """
    if _NATIVE is not None and (text := _NATIVE.print_lists(columns, lengths, begin, end)) is not None:
        return text
    words = [b""] * (len(columns) * len(columns[0]))
    for i, column in enumerate(columns):
        formatted = format_integers if column.dtype.kind == "i" else format_values
        words[i :: len(columns)] = formatted(column).split()
    lists = {length: begin + b"%b " * (len(columns) * length) + end for length in set(lengths)}
    return b"".join([lists[length] for length in lengths]) % tuple(words)
