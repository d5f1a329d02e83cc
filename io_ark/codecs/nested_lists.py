"""Lists of lists of numbers (posteriors, vectors of vectors), converted many inner lists at a time.

Reading or writing one list takes microseconds, however short it is. Therefore adjacent lists in Kaldi's own layout are
converted as one array of numbers and the positions where each list ends. Lists in another layout, and invalid ones, are
left to the codec, which reads them one by one and raises the errors.
"""

from __future__ import annotations

import marshal
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.blocks import PackedBlock
from io_ark.codecs.base import Sink, int32_bytes, raw_bytes
from io_ark.codecs.text_format import format_integers, format_numbers
from io_ark.native import NATIVE
from io_ark.streams.source import Source

Integers = npt.NDArray[np.int32]
Places = npt.NDArray[np.int64]
Column = npt.NDArray[Any]
Columns = tuple[Column] | tuple[Column, Column]
"""Numbers of all lists, as int32 or float32: one array, or two for pairs."""
Lengths = Sequence[int] | Places
"""Number of elements of each list."""

# Counts and numbers are both a byte 4 and four bytes more, so a list of lists is an array of these records.
_SIZED = np.dtype([("size", "u1"), ("number", "<i4")])
# Numbers converted at a time.
_AT_ONCE = 1 << 15
# The version whose layout pack.c knows; it has no references between objects.
_MARSHAL_VERSION = 2
# Characters of a number with a space after it.
_LONGEST_NUMBER = 15


def read_lists(source: Source, most: int, width: int) -> tuple[Integers, Places]:
    """Read the complete and valid lists in binary that are buffered, or one short list; possibly none.

    Args:
        most: maximum number of lists.
        width: numbers per element of a list.

    Returns:
        The numbers of all lists, those of each list after its count (the bits of a float as an integer), and the
        position where each list ends.
    """
    head = source.peek(_SIZED.itemsize)
    first = 1 + width * int.from_bytes(head[1:], "little")
    if first > _AT_ONCE:
        return np.empty(0, np.int32), np.empty(0, np.int64)
    source.peek(first * _SIZED.itemsize)  # which buffers more, if more is available
    # Lists that are longer than this estimate are read by the next call.
    data = source.peek_buffered(min(2 * first * most, _AT_ONCE) * _SIZED.itemsize)
    records = np.frombuffer(data, _SIZED, len(data) // _SIZED.itemsize)
    sizes = data[:: _SIZED.itemsize][: len(records)]
    end = len(sizes) - len(sizes.lstrip(b"\4"))
    numbers = records["number"].astype(np.int32, order="C")
    ends = _ends(numbers[:end], most, width)
    used = int(ends[-1]) if len(ends) else 0
    source.skip(used * _SIZED.itemsize)
    return numbers[:used], ends


def _ends_in_c(numbers: Integers, most: int, width: int) -> Places:
    ends = np.empty(min(most, len(numbers)), np.int64)
    return ends[: NATIVE.function("ark_list_ends")(numbers, len(numbers), len(ends), width, ends)]


@NATIVE.twin(_ends_in_c)
def _ends(numbers: Integers, most: int, width: int) -> Places:
    """Return the positions where complete lists end: each is a count and that number of elements."""
    counts, at = numbers.data, 0
    ends: list[int] = []
    while len(ends) < most and at < len(counts) and counts[at] >= 0:
        at += 1 + width * counts[at]
        ends.append(at)
    if ends and at > len(counts):
        ends.pop()
    return np.array(ends, np.int64)


def remove_counts(numbers: Integers, ends: Places) -> Integers:
    """Return the numbers from :func:`read_lists` without the counts."""
    kept = np.ones(len(numbers), bool)
    kept[0] = False
    kept[ends[:-1]] = False
    return numbers[kept]


def write_lists(sink: Sink, lengths: Lengths, columns: Columns) -> None:
    """Write the number of lists, and the lists in binary (see :func:`pack_lists`)."""
    sink.write(int32_bytes(len(lengths)))
    sink.write(pack_lists(lengths, columns))


def _pack_lists_in_c(lengths: Lengths, columns: Columns) -> bytes | memoryview:
    counts = _checked(lengths, columns)
    packed = np.empty(_SIZED.itemsize * (len(columns) * len(columns[0]) + len(counts)), np.uint8)
    second = columns[1] if len(columns) > 1 else None
    return packed[: NATIVE.function("ark_pack_lists")(columns[0], second, counts, len(counts), packed)].tobytes()


@NATIVE.twin(_pack_lists_in_c)
def pack_lists(lengths: Lengths, columns: Columns) -> bytes | memoryview:
    """Return lists in binary, each after its length.

    Args:
        lengths: number of elements of each list.
        columns: numbers of all lists, of 32 bits: one array, or two if the elements are pairs.
    """
    counts = _checked(lengths, columns)
    numbers = np.stack([column.view(np.int32) for column in columns], axis=1).reshape(-1)
    starts = len(columns) * (np.cumsum(counts) - counts)
    records = np.empty(len(counts) + len(numbers), _SIZED)
    records["size"] = 4
    records["number"] = np.insert(numbers, starts, counts)
    return raw_bytes(records)


def pack_objects(keys: bytes, lists: Places | None, lengths: Places, columns: Columns) -> PackedBlock:
    """Return entries in binary whose objects are lists, or lists of lists.

    Args:
        keys: a newline after each.
        lists: number of lists of each object; None if each object is one list.
        lengths, columns: the lists of all objects: see :func:`pack_lists`.
    """
    packed = bytes(pack_lists(lengths, columns))
    objects = _cut(packed, np.cumsum(_SIZED.itemsize * (1 + len(columns) * lengths)), lists)
    if lists is not None:
        objects = [int32_bytes(count) + each for count, each in zip(lists.tolist(), objects, strict=True)]
    return entries_of(keys, b" \0B", objects)


def print_objects(lists: Places | None, lengths: Places, begin: bytes, end: bytes, columns: Columns) -> list[bytes]:
    """Return the text of objects that are lists, or lists of lists.

    Args:
        lists: number of lists of each object; None if each object is one list.
        lengths, begin, end, columns: the lists of all objects: see :func:`format_lists`. The first character of ``end``
            stands nowhere else.
    """
    text = format_lists(lengths, begin, end, columns)
    return _cut(text, np.flatnonzero(np.frombuffer(text, np.uint8) == end[0]) + len(end), lists)


def entries_of(keys: bytes, start: bytes, objects: Sequence[bytes]) -> PackedBlock:
    """Return entries as an archive has them: each key, ``start``, which begins with a space, and the object."""
    names = keys.split(b"\n")[:-1]
    parts = [start] * (3 * len(names))
    parts[::3], parts[2::3] = names, objects
    before = np.cumsum([0, *map(len, parts)])[::3][:-1]  # bytes before each entry
    data = np.frombuffer(b"".join(parts), np.uint8)
    return PackedBlock(keys, data, before + np.fromiter(map(len, names), np.int64, len(names)) + 1)


def _cut(data: bytes, ends: Places, lists: Places | None) -> list[bytes]:
    """Return the bytes of each object from where each list ends; ``lists`` as for :func:`print_objects`."""
    bounds = np.append(0, ends)
    bounds = bounds if lists is None else bounds[np.append(0, np.cumsum(lists))]
    return [data[begin:end] for begin, end in pairwise(bounds.tolist())]


def _checked(lengths: Lengths, columns: Columns) -> Places:
    """Return the lengths as an array, if they belong to the numbers."""
    counts = np.ascontiguousarray(lengths, np.int64)
    right = len(columns[0]) == len(columns[-1]) == int(counts.sum()) and not (counts < 0).any()
    if not right or any(column.itemsize != 4 or not column.flags.c_contiguous for column in columns):
        raise ValueError(f"{len(columns[0])} and {len(columns[-1])} numbers are not such lists")
    return counts


def _pack_nested_in_c(value: Any, depth: int, types: str) -> bytes | None:
    if type(value) is not list:
        return None
    data = _marshalled(value)
    packed = np.empty(len(data), np.uint8)  # no number or length takes more bytes than in `data`
    used = NATIVE.function("ark_pack_marshalled")(data, len(data), depth, len(types) == 2, _float_bits(types), packed)
    return None if used < 0 else packed[:used].tobytes()


@NATIVE.twin(_pack_nested_in_c)
def pack_nested(value: Any, depth: int, types: str) -> bytes | None:
    """Return in C nested lists of Python's numbers in binary; None if they are of other types.

    Args:
        value: a list of numbers or pairs, or of such lists.
        depth: 1 or 2: how deep the lists are.
        types: ``i`` or ``f`` for each number of an element: ``"if"`` for pairs of an integer and a float.
    """
    return None


def _print_nested_in_c(value: Any, depth: int, types: str, begin: bytes, end: bytes) -> bytes | None:
    if type(value) is not list:
        return None
    data = _marshalled(value)
    text = np.empty(3 * len(data), np.uint8)  # 15 characters for a float of 9 bytes, 12 for an integer of 5
    pairs, floats = len(types) == 2, _float_bits(types)
    used = NATIVE.function("ark_print_marshalled")(data, len(data), depth, pairs, floats, begin, end, text)
    return None if used < 0 else text[:used].tobytes()


@NATIVE.twin(_print_nested_in_c)
def print_nested(value: Any, depth: int, types: str, begin: bytes, end: bytes) -> bytes | None:
    """Return in C nested lists of Python's numbers in text; None if they are of other types.

    Args:
        value: as for :func:`pack_nested`, also ``depth`` and ``types``.
        begin: text before each inner list, or before each element if ``depth`` is 1: two characters at most.
        end: text after it: two characters at most.
    """
    return None


def _marshalled(value: Any) -> bytes:
    """Return a value as pack.c reads it; nothing, which it refuses, for values that marshal cannot write."""
    try:
        return marshal.dumps(value, _MARSHAL_VERSION)
    except ValueError:
        return b""


def _float_bits(types: str) -> int:
    return sum(1 << i for i, kind in enumerate(types) if kind == "f")


def _format_lists_in_c(lengths: Lengths, begin: bytes, end: bytes, columns: Columns) -> bytes:
    counts, (first, *second) = _checked(lengths, columns), columns
    text = np.empty(_LONGEST_NUMBER * len(columns) * len(first) + 4 * len(counts), np.uint8)
    used = NATIVE.function("ark_print_lists")(
        first, first.dtype.kind == "f", second[0] if second else None, columns[-1].dtype.kind == "f", counts,
        len(counts), begin, end, text,
    )  # fmt: skip
    return text[:used].tobytes() if used >= 0 else NotImplemented  # a float is hard to print


@NATIVE.twin(_format_lists_in_c)
def format_lists(lengths: Lengths, begin: bytes, end: bytes, columns: Columns) -> bytes:
    """Format lists in text, with a space after each number.

    Args:
        lengths: number of elements of each list.
        begin: start of each list: two characters at most.
        end: end of each list: two characters at most.
        columns: numbers of all lists, as int32 or float32: one array, or two if the elements are pairs.
    """
    words = [b""] * (len(columns) * len(columns[0]))
    for i, column in enumerate(columns):
        formatted = format_integers if column.dtype.kind == "i" else format_numbers
        words[i :: len(columns)] = formatted(column).split()
    counts = _checked(lengths, columns).tolist()
    lists = {length: begin + b"%b " * (len(columns) * length) + end for length in set(counts)}
    return b"".join([lists[length] for length in counts]) % tuple(words)
