"""Encode many small entries of a table at once.

Only values of common types that need no conversion are taken. All others are left to the codec, which converts them or
raises an error. Values are copied, so later changes by the caller have no effect.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.blocks import ArrayBlock, Block, PackedBlock
from io_ark.codecs.text_format import format_row
from io_ark.native import NATIVE

_LONGEST_ENTRY = 18  # characters of an entry besides its key
_INT32_MAX = 2**31 - 1
_FLOAT32_MAX = 3.4028234663852886e38

LARGEST = 1 << 12
"""Maximum number of bytes of an object that is written with others."""


@dataclass(frozen=True)
class Pack:
    """Layout of the entries of a kind that are written together.

    Attributes:
        take: copies a value into the form that is kept; returns None if the codec has to write it. None: the codec
            writes all values.
        encode: returns the bytes of entries from their keys and kept values.
        arrays: type and dimensions of the arrays that are written in binary as they are.
        block: encodes the entries of a block; returns None for another kind of block.
    """

    take: Callable[[Any], Any] | None = None
    encode: Callable[[Sequence[str], Sequence[Any]], bytes] = lambda keys, values: b""
    arrays: tuple[np.dtype[Any], int] | None = None
    block: Callable[[Block], PackedBlock | None] = lambda block: None

    def takes(self, block: Block) -> bool:
        """Return True if a block's arrays are written as they are."""
        return isinstance(block, ArrayBlock) and (block.values.dtype, block.dimensions) == self.arrays


def _take_integer(value: Any) -> int | None:
    return value if type(value) is int and -_INT32_MAX <= value <= _INT32_MAX else None


def _take_double(value: Any) -> float | None:
    return value if type(value) is float else None


def _take_float(value: Any) -> float | None:
    return value if type(value) is float and -_FLOAT32_MAX <= value <= _FLOAT32_MAX else None


def _lines(keys: Sequence[str]) -> bytes:
    return ("\n".join(keys) + "\n").encode("ascii")


def _number_lines_in_c(keys: bytes, numbers: npt.NDArray[Any]) -> bytes:
    text = np.empty(len(keys) + _LONGEST_ENTRY * len(numbers), np.uint8)
    _check_keys(keys, numbers)
    used = NATIVE.function("ark_print_entries")(keys, numbers, numbers.dtype.kind == "f", len(numbers), text)
    return text[:used].tobytes() if used >= 0 else NotImplemented  # a float is hard to print


@NATIVE.twin(_number_lines_in_c)
def number_lines(keys: bytes, numbers: npt.NDArray[Any]) -> bytes:
    r"""Return entries of a table in text.

    Args:
        keys: a newline after each.
        numbers: one for each key, as int32 or float64.

    >>> number_lines(b"a\nb\n", np.array([1.5, 2.0]))
    b'a 1.5 \nb 2 \n'
    """
    form = format_row if numbers.dtype.kind == "f" else lambda row: f"{row[0]} "
    entries = zip(keys.split(b"\n")[:-1], numbers.tolist(), strict=True)
    return b"".join([b"%b %b\n" % (key, form([number]).encode("ascii")) for key, number in entries])


def _pack_numbers_in_c(keys: bytes, numbers: npt.NDArray[Any]) -> bytes:
    packed = np.empty(len(keys) + (3 + numbers.itemsize) * len(numbers), np.uint8)
    _check_keys(keys, numbers)
    used = NATIVE.function("ark_pack_entries")(keys, numbers, numbers.itemsize, len(numbers), packed)
    return packed[:used].tobytes()


@NATIVE.twin(_pack_numbers_in_c)
def pack_numbers(keys: bytes, numbers: npt.NDArray[Any]) -> bytes:
    """Return entries of a table in binary.

    Args:
        keys: a newline after each.
        numbers: one for each key, as int32, float32 or float64.
    """
    start = b" \0B%c" % numbers.itemsize
    return b"".join([key + start + each.tobytes() for key, each in zip(keys.split(b"\n")[:-1], numbers, strict=True)])


def _check_keys(keys: bytes, numbers: npt.NDArray[Any]) -> None:
    if keys.count(b"\n") != len(numbers) or keys[-1:] != b"\n" or not numbers.flags.c_contiguous:
        raise ValueError(f"{len(numbers)} numbers do not belong to these keys")


def integers(binary: bool) -> Pack:
    """Return how single int32 values are written."""

    def encode(keys: Sequence[str], values: Sequence[int]) -> bytes:
        numbers = np.array(array("i", values))
        return pack_numbers(_lines(keys), numbers) if binary else number_lines(_lines(keys), numbers)

    return Pack(_take_integer, encode)


def floats(binary: bool, double: bool) -> Pack:
    """Return how single floats, or doubles, are written."""

    def encode(keys: Sequence[str], values: Sequence[float]) -> bytes:
        numbers = np.array(values) if double else np.array(values, np.float32)
        if binary:
            return pack_numbers(_lines(keys), numbers)
        return number_lines(_lines(keys), numbers.astype(np.float64))

    return Pack(_take_double if double else _take_float, encode)


def lines(take: Callable[[Any], str | None]) -> Pack:
    """Return how objects are written that are one line of ASCII text each, which ``take`` returns."""

    def encode(keys: Sequence[str], values: Sequence[str]) -> bytes:
        return "".join([f"{key} {value}\n" for key, value in zip(keys, values, strict=True)]).encode("ascii")

    return Pack(take, encode)


def objects(take: Callable[[Any], bytes | None]) -> Pack:
    """Return how small objects are written, whose bytes ``take`` returns."""

    def take_small(value: Any) -> bytes | None:
        taken = take(value)
        return taken if taken is not None and len(taken) <= LARGEST else None

    def encode(keys: Sequence[str], values: Sequence[bytes]) -> bytes:
        parts = [b" "] * (3 * len(keys))
        parts[0::3] = "\n".join(keys).encode("ascii").split(b"\n")
        parts[2::3] = values
        return b"".join(parts)

    return Pack(take_small, encode)
