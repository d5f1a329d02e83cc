"""Lists of lists of numbers (posteriors, vectors of vectors), converted many inner lists at a time.

Reading or writing one list takes microseconds, however short it is. Therefore adjacent lists in Kaldi's own layout are
converted as one array of numbers and the positions where each list ends. Lists in another layout, and invalid ones, are
left to the codec, which reads them one by one and raises the errors.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.blocks.masks import refuse_masks
from io_ark.codecs.base import Sink, as_int32, int32_bytes
from io_ark.codecs.text_format import Brackets, Columns, Lengths, Places, encode_lists
from io_ark.native import NATIVE
from io_ark.streams.source import Source

Integers = npt.NDArray[np.int32]

# Counts and numbers are both a byte 4 and four bytes more, so a list of lists is an array of these records.
_SIZED = np.dtype([("size", "u1"), ("number", "<i4")])
# Numbers converted at a time.
_AT_ONCE = 1 << 15


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


def number_array(numbers: Sequence[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Convert Python's numbers to int32 or float32. Unlike NumPy, refuse strings, masked elements, and floats as int32.

    Raises:
        FormatError: an element is not an integer of 32 bits, or is masked.
        TypeError: an element is not a number.
    """
    if dtype.kind == "f":
        refuse_masks(numbers)
    try:
        return np.frombuffer(array(dtype.char, numbers), dtype) if numbers else np.empty(0, dtype)
    except (TypeError, OverflowError):
        if dtype.kind == "i":
            for number in numbers:
                as_int32(number)  # Raises the error that names the element.
        raise


def split_pairs(pairs: Sequence[Iterable[Any]]) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return the first numbers of all pairs, and the second ones.

    Raises:
        TypeError: an element is not a pair.
    """
    try:
        first, second = zip(*pairs, strict=True) if pairs else ((), ())
    except (TypeError, ValueError) as error:
        raise TypeError("an element is not a pair of numbers") from error
    return first, second


def write_lists(sink: Sink, lengths: Lengths, columns: Columns) -> None:
    """Write the number of lists, and the lists in binary (see :func:`encode_lists`)."""
    sink.write(int32_bytes(len(lengths)))
    sink.write(encode_lists(lengths, columns)[0])


def encode_objects(
    lists: Places | None, lengths: Places, columns: Columns, brackets: Brackets | None = None
) -> list[bytes]:
    """Return objects that are lists, or lists of lists, as bytes.

    Args:
        lists: number of lists of each object; None if each object is one list.
        lengths, columns, brackets: the lists of all objects: see :func:`encode_lists`.
    """
    data, ends = encode_lists(lengths, columns, brackets)
    bounds = np.append(0, ends)
    if lists is None:
        return [data[begin:end] for begin, end in pairwise(bounds.tolist())]
    counts = lists.tolist() if brackets is None else ()
    starts = [int32_bytes(count) for count in counts] or [b""] * len(lists)
    bounds = bounds[np.append(0, np.cumsum(lists))]
    return [start + data[begin:end] for start, (begin, end) in zip(starts, pairwise(bounds.tolist()), strict=True)]
