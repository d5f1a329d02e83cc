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
from io_ark.codecs.text_format import encode_list

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


def number_lines(keys: bytes, numbers: npt.NDArray[Any]) -> bytes:
    r"""Return entries of a table in text.

    Args:
        keys: a newline after each.
        numbers: one for each key, as int32, float32 or float64.

    >>> number_lines(b"a\nb\n", np.array([1.5, 2.0]))
    b'a 1.5 \nb 2 \n'
    """
    words = encode_list(numbers, (b"", b"")).split()
    return b"".join([b"%b %b \n" % entry for entry in zip(keys.split(b"\n")[:-1], words, strict=True)])


def _entries(keys: Sequence[str], start: bytes, values: Sequence[bytes]) -> bytes:
    parts = [start] * (3 * len(keys))
    parts[0::3] = "\n".join(keys).encode("ascii").split(b"\n")
    parts[2::3] = values
    return b"".join(parts)


def _numbers(binary: bool, keys: Sequence[str], numbers: npt.NDArray[Any]) -> bytes:
    if binary:
        size = numbers.itemsize
        return _entries(keys, b" \0B%c" % size, numbers.view(f"V{size}").tolist())
    return number_lines(("\n".join(keys) + "\n").encode("ascii"), numbers)


def integers(binary: bool) -> Pack:
    """Return how single int32 values are written."""
    if not binary:
        return lines(_take_integer, " \n")
    return Pack(_take_integer, lambda keys, values: _numbers(True, keys, np.array(array("i", values))))


def floats(binary: bool, double: bool) -> Pack:
    """Return how single floats, or doubles, are written."""
    dtype = np.float64 if double else np.float32
    take = _take_double if double else _take_float
    return Pack(take, lambda keys, values: _numbers(binary, keys, np.array(values, dtype)))


def lines(take: Callable[[Any], object], end: str = "\n") -> Pack:
    """Return how objects are written that are one line of ASCII text each, which ``take`` returns; None for others."""

    def encode(keys: Sequence[str], values: Sequence[object]) -> bytes:
        return "".join([f"{key} {value}{end}" for key, value in zip(keys, values, strict=True)]).encode("ascii")

    return Pack(take, encode)


def objects(take: Callable[[Any], bytes | None]) -> Pack:
    """Return how small objects are written, whose bytes ``take`` returns."""

    def take_small(value: Any) -> bytes | None:
        taken = take(value)
        return taken if taken is not None and len(taken) <= LARGEST else None

    return Pack(take_small, lambda keys, values: _entries(keys, b" ", values))
