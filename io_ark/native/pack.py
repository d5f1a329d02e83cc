"""Many small objects to bytes or text: lists of numbers, and entries of one number."""

from __future__ import annotations

import ctypes
import marshal
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.native import library
from io_ark.native.compressed import address

Array = npt.NDArray[Any]
Columns = tuple[Array] | tuple[Array, Array]
"""Numbers of all lists, as int32 or float32: one array, or two for pairs."""

_POINTER, _SIZE, _INT, _CHARACTERS = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_char_p
# The version whose layout pack.c knows; it has no references between objects.
_MARSHAL_VERSION = 2
# A type and a length; and a type and a number, twice, after these.
_LIST_BYTES = 5
_PAIR_BYTES = _LIST_BYTES + 5 + 9
# Characters of a number with a space after it; and with what is around it on a line of its own.
_LONGEST_NUMBER = 15
_LONGEST_ENTRY = 18


def packer() -> Packer | None:
    """Return the functions of the library; None without the library."""
    return Packer() if library() else None


class Packer:
    """Functions of pack.c, and of numbers.c for text."""

    def __init__(self) -> None:
        function = library().function
        lists = (_POINTER, _INT, _POINTER, _INT, _POINTER, _SIZE, _CHARACTERS, _CHARACTERS, _POINTER)
        self._print_lists = function("ark_print_lists", *lists, result=_SIZE)
        self._pack_lists = function("ark_pack_lists", *[_POINTER] * 3, _SIZE, _POINTER, result=_SIZE)
        marshalled = (_CHARACTERS, _SIZE, _INT, _INT, _INT, _POINTER)
        self._pack_marshalled = function("ark_pack_marshalled", *marshalled, result=_SIZE)
        self._print_marshalled = function(
            "ark_print_marshalled", *marshalled[:5], _CHARACTERS, _CHARACTERS, _POINTER, result=_SIZE
        )  # fmt: skip
        self._marshal_pairs = function("ark_marshal_pairs", *[_POINTER] * 3, _SIZE, _POINTER, result=_SIZE)
        entries = (_CHARACTERS, _POINTER, _INT, _SIZE, _POINTER)
        self._print_entries = function("ark_print_entries", *entries, result=_SIZE)
        self._pack_entries = function("ark_pack_entries", _CHARACTERS, _POINTER, _SIZE, _SIZE, _POINTER, result=_SIZE)

    def print_lists(self, columns: Columns, lengths: Sequence[int], begin: bytes, end: bytes) -> bytes | None:
        """Return the text of lists of numbers, or of pairs of numbers, with a space after each number.

        Args:
            columns: the numbers of all lists, as int32 or float32: one array, or two for pairs.
            lengths: how many elements each list has.
            begin: the text before each list, and
            end: after it: at most two characters each.

        Returns:
            None if a float is hard to print.
        """
        first, second, counts = _checked(columns, lengths)
        if len(begin) > 2 or len(end) > 2:
            raise ValueError("marks of more than two characters")
        text = np.empty(_LONGEST_NUMBER * len(columns) * len(first) + 4 * len(counts), np.uint8)
        used = self._print_lists(
            address(first), first.dtype.kind == "f", address(second) if len(columns) > 1 else None,
            second.dtype.kind == "f", address(counts), len(counts), begin, end, address(text),
        )  # fmt: skip
        return None if used < 0 else text[:used].tobytes()

    def pack_lists(self, columns: Columns, lengths: Sequence[int]) -> bytes:
        """Return lists of numbers, or of pairs of numbers, in binary, with each list's length before it.

        Args:
            columns: the numbers of all lists, as int32 or float32: one array, or two for pairs.
            lengths: how many elements each list has.
        """
        first, second, counts = _checked(columns, lengths)
        packed = np.empty(5 * (len(columns) * len(first) + len(counts)), np.uint8)
        other = address(second) if len(columns) > 1 else None
        used = self._pack_lists(address(first), other, address(counts), len(counts), address(packed))
        return packed[:used].tobytes()

    def pack_nested(self, value: Any, depth: int, types: str) -> bytes | None:
        """Return nested lists in binary, each with its length before it.

        Args:
            value: a list or tuple of numbers or pairs, or of such lists.
            depth: 1 or 2: how deep the lists are.
            types: ``i`` or ``f`` for each number of an element.

        Returns:
            None if the value is anything else, or has numbers of other types, or that do not fit.
        """
        data = _marshalled(value)
        packed = np.empty(len(data), np.uint8)  # no number or length takes more bytes than in `data`
        used = self._pack_marshalled(data, len(data), depth, len(types) == 2, _float_bits(types), address(packed))
        return None if used < 0 else packed[:used].tobytes()

    def print_nested(self, value: Any, depth: int, types: str, begin: bytes, end: bytes) -> bytes | None:
        """Return nested lists in text: each number with a space after it, and two marks around each list.

        Args:
            value: as for :meth:`pack_nested`, also ``depth`` and ``types``.
            begin: the text before each inner list, or before each element if ``depth`` is 1, and
            end: after it: at most two characters each.

        Returns:
            None if the value is anything else, or has a float that is hard to print.
        """
        if len(begin) > 2 or len(end) > 2:
            raise ValueError("marks of more than two characters")
        data = _marshalled(value)
        text = np.empty(3 * len(data), np.uint8)  # 15 characters for a float of 9 bytes, 12 for an integer of 5
        pairs, floats = len(types) == 2, _float_bits(types)
        used = self._print_marshalled(data, len(data), depth, pairs, floats, begin, end, address(text))
        return None if used < 0 else text[:used].tobytes()

    def nested_pairs(self, integers: Array, weights: Array, lengths: npt.NDArray[np.int64]) -> list[Any]:
        """Return a list of lists of pairs.

        Args:
            integers: (pairs,) first numbers of the pairs of all lists; converted to int32.
            weights: (pairs,) second numbers; converted to float32.
            lengths: (lists,) how many pairs each list has.

        Raises:
            ValueError: the lengths do not add up to the number of pairs.
        """
        columns = np.ascontiguousarray(integers, np.int32), np.ascontiguousarray(weights, np.float32)
        first, second, counts = _checked(columns, lengths)
        data = np.empty(_PAIR_BYTES * len(first) + _LIST_BYTES * (len(counts) + 1), np.uint8)
        used = self._marshal_pairs(address(first), address(second), address(counts), len(counts), address(data))
        nested: list[Any] = marshal.loads(data.data[:used])
        return nested

    def print_entries(self, keys: bytes, numbers: Array) -> bytes | None:
        """Return entries of a table in text; None if a float is hard to print.

        Args:
            keys: a newline after each.
            numbers: one for each key, as int32 or float64.
        """
        text = np.empty(len(keys) + _LONGEST_ENTRY * len(numbers), np.uint8)
        _check_keys(keys, numbers)
        used = self._print_entries(keys, address(numbers), numbers.dtype.kind == "f", len(numbers), address(text))
        return None if used < 0 else text[:used].tobytes()

    def pack_entries(self, keys: bytes, numbers: Array) -> bytes:
        """Return entries of a table in binary.

        Args:
            keys: a newline after each.
            numbers: one for each key, of any type.
        """
        packed = np.empty(len(keys) + (3 + numbers.itemsize) * len(numbers), np.uint8)
        _check_keys(keys, numbers)
        used = self._pack_entries(keys, address(numbers), numbers.itemsize, len(numbers), address(packed))
        return packed[:used].tobytes()


def _marshalled(value: Any) -> bytes:
    """Return a value as pack.c reads it; nothing, which it refuses, for values that marshal cannot write."""
    try:
        return marshal.dumps(value, _MARSHAL_VERSION)
    except ValueError:
        return b""


def _float_bits(types: str) -> int:
    return sum(1 << i for i, kind in enumerate(types) if kind == "f")


def _checked(
    columns: Columns, lengths: Sequence[int] | npt.NDArray[np.int64]
) -> tuple[Array, Array, npt.NDArray[np.int64]]:
    """The columns, and the lengths as an array, if they belong together."""
    first, second = columns[0], columns[-1]
    counts = np.array(lengths, np.int64)
    right = len(first) == len(second) == int(counts.sum()) and not (counts < 0).any()
    if not right or any(column.itemsize != 4 or not column.flags.c_contiguous for column in columns):
        raise ValueError(f"{len(first)} and {len(second)} numbers are not such lists")
    return first, second, counts


def _check_keys(keys: bytes, numbers: Array) -> None:
    if keys.count(b"\n") != len(numbers) or keys[-1:] != b"\n" or not numbers.flags.c_contiguous:
        raise ValueError(f"{len(numbers)} numbers do not belong to these keys")
