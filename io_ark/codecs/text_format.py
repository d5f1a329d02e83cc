"""Encode lists of numbers in binary, or in the text format of Kaldi's C++ streams (precision 7, so ``%.7g``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.native import NATIVE

Column = npt.NDArray[Any]
Columns = tuple[Column] | tuple[Column, Column]
"""Numbers of all lists as int32, float32 or float64: one array, or two arrays for lists of pairs."""
Places = npt.NDArray[np.int64]
Lengths = Sequence[int] | Places
"""Number of elements of each list."""
Brackets = tuple[bytes, bytes]
"""Text before and after a list, of at most five characters in total."""

_MAX_NUMBER_CHARACTERS = 15  # Length of the longest number and the space after it, such as "-1.234567e-300 ".
_MAX_LIST_BYTES = 5  # Maximum bytes of a list in addition to its numbers: the brackets, or the length in binary.
_TYPES = {np.dtype(np.int32): ord("i"), np.dtype(np.float32): ord("f"), np.dtype(np.float64): ord("d")}


def format_row(values: Sequence[float]) -> str:
    """Format numbers with seven significant digits, and a space after every number. As in C++, NaN may be ``-nan``."""
    text = "%.7g " * len(values) % tuple(values)
    if "nan" not in text:
        return text
    words = text.split(" ")
    for i, value in enumerate(values):
        if words[i] == "nan" and np.signbit(value):
            words[i] = "-nan"
    return " ".join(words)


def _encode_lists_in_c(lengths: Lengths, columns: Columns, brackets: Brackets | None = None) -> tuple[bytes, Places]:
    """Compute :func:`encode_lists` in C."""
    first, last, (begin, end) = columns[0], columns[-1], brackets or (None, None)
    counts, ends = np.array(lengths, np.int64), np.empty(len(lengths), np.int64)
    # An element has at most two numbers. In binary, a size byte precedes each number.
    max_element_bytes = 2 * _MAX_NUMBER_CHARACTERS if brackets else 2 + first.itemsize + last.itemsize
    data = np.empty(max_element_bytes * len(first) + _MAX_LIST_BYTES * len(counts), np.uint8)
    size = -1
    if len(first) == len(last) and first.dtype in _TYPES and last.dtype in _TYPES:
        size = NATIVE.get_function("ark_encode_lists")(
            first, _TYPES[first.dtype], last if len(columns) > 1 else None, _TYPES[last.dtype], len(first), counts,
            len(counts), begin, end, data, ends,
        )  # fmt: skip
    if size < 0:
        raise _create_input_error(counts.tolist(), columns)
    return data[:size].tobytes(), ends


@NATIVE.twin(_encode_lists_in_c)
def encode_lists(lengths: Lengths, columns: Columns, brackets: Brackets | None = None) -> tuple[bytes, Places]:
    """Encode lists of numbers. Return the bytes, and the end (exclusive) of each list in the bytes, shape (lists,).

    Args:
        lengths: number of elements of each list, shape (lists,).
        columns: numbers of all lists: one array of shape (elements,), or two such arrays if the elements are pairs.
        brackets: characters before and after a list in text, where a space follows every number. If None, lists are
            encoded in binary: the length (a byte 4, then 4 bytes), and a size byte before every number.

    Raises:
        ValueError: the columns do not match the lengths, or are not int32, float32 or float64, or a length is negative.
    """
    counts = np.array(lengths, np.int64).tolist()
    are_columns_valid = all(column.dtype in _TYPES and len(column) == sum(counts) for column in columns)
    if not are_columns_valid or min(counts, default=0) < 0:
        raise _create_input_error(counts, columns)
    words_of_columns = [_encode_words(column, binary=brackets is None) for column in columns]
    words = chain.from_iterable(zip(*words_of_columns, strict=True))  # The words of each element follow each other.
    lists = []
    for length in counts:
        begin, end = brackets or (b"\4%b" % length.to_bytes(4, "little"), b"")
        lists.append(begin + b"".join(islice(words, len(columns) * length)) + end)
    return b"".join(lists), np.cumsum(list(map(len, lists)), dtype=np.int64)


def _encode_words(column: Column, binary: bool) -> Iterator[bytes]:
    """Return an iterator over encoded numbers. A size byte precedes (binary) or a space follows (text) each number."""
    if binary:
        size = column.itemsize
        return (b"%c%b" % (size, number) for number in column.view(f"V{size}").tolist())
    text = format_row(column.tolist()) if column.dtype.kind == "f" else "%d " * len(column) % tuple(column.tolist())
    return (word + b" " for word in text.encode("ascii").split())


def _create_input_error(lengths: list[int], columns: Columns) -> ValueError:
    """Return the error for numbers of an unsupported type, or for columns that do not match ``lengths``."""
    for column in columns:
        if column.dtype not in _TYPES:
            return ValueError(f"numbers of type {column.dtype} cannot be written: convert them to int32, float32 or "
                              "float64")  # fmt: skip
    counts = " and ".join(str(len(column)) for column in columns)
    return ValueError(f"columns of {counts} numbers do not match the lengths of the lists (total {sum(lengths)}, "
                      f"minimum {min(lengths, default=0)}): pass one length per list")  # fmt: skip


def encode_list(numbers: Column, brackets: Brackets) -> bytes:
    """Encode one list of numbers, shape (elements,), in text, between brackets (see :func:`encode_lists`)."""
    return encode_lists([len(numbers)], (np.ascontiguousarray(numbers),), brackets)[0]
