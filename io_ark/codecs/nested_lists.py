"""Lists of lists of numbers (posteriors, vectors of vectors). Many inner lists are converted at once.

Reading or writing one list takes microseconds, however short it is. Therefore, adjacent lists in the layout that Kaldi
writes are converted as one array of numbers and the ends of the lists. The codec reads invalid lists and other layouts
one by one, and raises the errors.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.blocks.base import refuse_masks
from io_ark.codecs.base import Sink, as_int32, encode_int32
from io_ark.codecs.text_format import Brackets, Columns, Lengths, Places, encode_lists
from io_ark.native import NATIVE
from io_ark.streams.source import Source

Integers = npt.NDArray[np.int32]

# A count or number is a byte 4 and four more bytes, so a list of lists is an array of these records.
_SIZED_NUMBER = np.dtype([("size", "u1"), ("number", "<i4")])
_MAX_WINDOW_NUMBERS = 1 << 15  # Maximum number of records that are converted at once, which bounds the memory.


def read_lists(source: Source, limit: int, width: int) -> tuple[Integers, Places]:
    """Read the next list in binary, and the complete lists after it that are already buffered.

    Both arrays are empty if the next list is invalid or incomplete, or has more than ``_MAX_WINDOW_NUMBERS`` numbers.
    The caller must then read this list.

    Args:
        limit: maximum number of lists.
        width: number of integers or floats per element of a list.

    Returns:
        The numbers, int32 of shape (numbers,), where the count of each list precedes its numbers, and floats are stored
        as their bits. The end (exclusive) of each list in this array, int64 of shape (lists,).
    """
    head = source.peek(_SIZED_NUMBER.itemsize)
    first_length = 1 + width * int.from_bytes(head[1:], "little")
    if first_length > _MAX_WINDOW_NUMBERS:
        return np.empty(0, np.int32), np.empty(0, np.int64)
    source.peek(first_length * _SIZED_NUMBER.itemsize)  # peek buffers this list, and later bytes that have arrived.
    # The number of bytes is an estimate from the first list. The next call reads the lists after these bytes.
    data = source.peek_buffered(min(2 * first_length * limit, _MAX_WINDOW_NUMBERS) * _SIZED_NUMBER.itemsize)
    records = np.frombuffer(data, _SIZED_NUMBER, len(data) // _SIZED_NUMBER.itemsize)
    sizes = data[:: _SIZED_NUMBER.itemsize][: len(records)]
    # Number of records before the first record whose size byte is not 4.
    valid_count = len(sizes) - len(sizes.lstrip(b"\4"))
    numbers = records["number"].astype(np.int32, order="C")
    ends = _find_ends(numbers[:valid_count], limit, width)
    number_count = int(ends[-1]) if len(ends) else 0
    source.skip(number_count * _SIZED_NUMBER.itemsize)
    return numbers[:number_count], ends


def _find_ends_in_c(numbers: Integers, limit: int, width: int) -> Places:
    """Compute :func:`_find_ends` in C."""
    ends = np.empty(min(limit, len(numbers)), np.int64)
    return ends[: NATIVE.get_function("ark_list_ends")(numbers, len(numbers), len(ends), width, ends)]


@NATIVE.twin(_find_ends_in_c)
def _find_ends(numbers: Integers, limit: int, width: int) -> Places:
    """Return the end (exclusive) of each complete list in ``numbers``, for at most ``limit`` lists.

    A list is a count of elements, and then ``width`` numbers for each element. A negative count ends the search.
    """
    buffer, end = numbers.data, 0
    ends: list[int] = []
    while len(ends) < limit and end < len(buffer) and buffer[end] >= 0:
        end += 1 + width * buffer[end]
        ends.append(end)
    if ends and end > len(buffer):  # The last list is incomplete.
        ends.pop()
    return np.array(ends, np.int64)


def remove_counts(numbers: Integers, ends: Places) -> Integers:
    """Return ``numbers`` without the counts. Both arguments are from :func:`read_lists`, for at least one list."""
    is_number = np.ones(len(numbers), bool)
    is_number[0] = False
    is_number[ends[:-1]] = False
    return numbers[is_number]


def convert_numbers(numbers: Sequence[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Convert Python numbers to int32 or float32. Unlike NumPy, refuse strings, masked elements, and floats for int32.

    Raises:
        FormatError: an element is masked, or ``dtype`` is int32 and an element is not an integer of 32 bits.
        TypeError, OverflowError: ``dtype`` is float32, and an element is not a number or is too large an integer.
    """
    if dtype.kind == "f":
        refuse_masks(numbers)
    try:
        return np.frombuffer(array(dtype.char, numbers), dtype) if numbers else np.empty(0, dtype)
    except (TypeError, OverflowError):
        if dtype.kind == "i":
            for number in numbers:
                as_int32(number)  # This raises the error that names the element.
        raise


def split_pairs(pairs: Sequence[Iterable[Any]]) -> tuple[Sequence[Any], Sequence[Any]]:
    """Split pairs into their first numbers and their second numbers. Raise TypeError if an element is not a pair."""
    try:
        first, second = zip(*pairs, strict=True) if pairs else ((), ())
    except (TypeError, ValueError) as error:
        raise TypeError("expected pairs of numbers, such as [(1, 2), (3, 4)]") from error
    return first, second


def write_lists(sink: Sink, lengths: Lengths, columns: Columns) -> None:
    """Write the number of lists, and then the lists in binary. For the arguments, see :func:`encode_lists`."""
    sink.write(encode_int32(len(lengths)))
    sink.write(encode_lists(lengths, columns)[0])


def encode_objects(
    list_counts: Places | None, lengths: Places, columns: Columns, brackets: Brackets | None = None
) -> list[bytes]:
    """Encode objects that are lists, or lists of lists. Return the bytes of each object.

    Args:
        list_counts: number of lists of each object, shape (objects,), or None if every object is one list.
        lengths, columns, brackets: the lists of all objects (see :func:`encode_lists`).
    """
    data, ends = encode_lists(lengths, columns, brackets)
    list_bounds = np.append(0, ends)
    if list_counts is None:
        return [data[begin:end] for begin, end in pairwise(list_bounds.tolist())]
    # In binary, the number of lists precedes an object. In text, the end of the line shows where an object ends.
    starts = [b"" if brackets else encode_int32(count) for count in list_counts.tolist()]
    bounds = list_bounds[np.append(0, np.cumsum(list_counts))].tolist()
    return [start + data[begin:end] for start, (begin, end) in zip(starts, pairwise(bounds), strict=True)]
