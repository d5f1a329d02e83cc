"""Encode many small entries of a table at once.

Only values of common types that need no conversion are taken. All others are left to the codec, which converts them or
raises an error. Values are copied, so later changes by the caller have no effect.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.blocks import ArrayBlock, Block, PackedBlock
from io_ark.codecs.text_format import encode_lists

_INT32_MAX = 2**31 - 1
_FLOAT32_MAX = 3.4028234663852886e38

LARGEST = 1 << 12
"""Maximum number of bytes of an object that is written with others."""


@dataclass(frozen=True)
class Pack:
    """Layout of the entries of a kind that are written together."""

    # copies a value into the form that is kept; returns None if the codec has to write it. None: the codec writes all
    # values.
    take: Callable[[Any], Any] | None = None
    # returns the bytes of entries from their keys and kept values
    encode: Callable[[Sequence[str], Sequence[Any]], bytes] = lambda keys, values: b""
    # type and dimensions of the arrays that are written in binary as they are
    arrays: tuple[np.dtype[Any], int] | None = None
    # encodes the entries of a block; returns None for another kind of block
    block: Callable[[Block], PackedBlock | None] = lambda block: None

    def takes(self, block: Block) -> bool:
        """Return True if a block's arrays are written as they are."""
        return isinstance(block, ArrayBlock) and (block.values.dtype, block.dimensions) == self.arrays


def _take_integer(value: Any) -> int | None:
    return value if type(value) is int and -_INT32_MAX <= value <= _INT32_MAX else None


def number_lines(keys: bytes, numbers: npt.NDArray[Any]) -> bytes:
    r"""Return entries of a table in text.

    Args:
        keys: a newline after each.
        numbers: one for each key, as int32, float32 or float64.

    >>> number_lines(b"a\nb\n", np.array([1.5, 2.0]))
    b'a 1.5 \nb 2 \n'
    """
    return _join_entries(keys.split(b"\n")[:-1], *_numbers(False, numbers))


def entries_of(keys: bytes, start: bytes, objects: Sequence[bytes]) -> PackedBlock:
    """Return entries as an archive has them: each key, ``start``, which begins with a space, and the object."""
    names = keys.split(b"\n")[:-1]
    data = np.frombuffer(_join_entries(names, start, objects), np.uint8)
    before, after = (np.fromiter(map(len, each), np.int64, len(names)) for each in (names, objects))
    ends = np.cumsum(before + len(start) + after)
    return PackedBlock(keys, data, ends - after - len(start) + 1)


def _join_entries(names: Sequence[bytes], start: bytes, objects: Sequence[bytes]) -> bytes:
    parts = [start] * (3 * len(names))
    parts[0::3], parts[2::3] = names, objects
    return b"".join(parts)


def _names(keys: Sequence[str]) -> list[bytes]:
    return "\n".join(keys).encode("ascii").split(b"\n")


def _numbers(binary: bool, numbers: npt.NDArray[Any]) -> tuple[bytes, list[bytes]]:
    """Return what is between a key and its number, and the numbers."""
    if binary:
        size = numbers.itemsize
        return b" \0B%c" % size, numbers.view(f"V{size}").tolist()
    text, _ = encode_lists([1] * len(numbers), (numbers,), (b"", b"\n"))
    return b" ", text.splitlines(keepends=True)


def _block(binary: bool, dtype: Any, block: Block) -> PackedBlock | None:
    if not isinstance(block, ArrayBlock) or (block.values.dtype, block.dimensions) != (dtype, 0):
        return None
    return entries_of(block.keys, *_numbers(binary, np.ascontiguousarray(block.values)))


def integers(binary: bool) -> Pack:
    """Return how single int32 values are written."""

    def encode(keys: Sequence[str], values: Sequence[int]) -> bytes:
        return _join_entries(_names(keys), *_numbers(binary, np.array(array("i", values))))

    return Pack(_take_integer, encode, block=partial(_block, binary, np.int32))


def floats(binary: bool, double: bool) -> Pack:
    """Return how single floats, or doubles, are written."""
    dtype = np.float64 if double else np.float32

    def take(value: Any) -> float | None:
        return value if type(value) is float and (double or -_FLOAT32_MAX <= value <= _FLOAT32_MAX) else None

    def encode(keys: Sequence[str], values: Sequence[float]) -> bytes:
        return _join_entries(_names(keys), *_numbers(binary, np.array(values, dtype)))

    return Pack(take, encode, block=partial(_block, binary, dtype))


def lines(take: Callable[[Any], str | None]) -> Pack:
    """Return how objects are written that are one line of ASCII text each, which ``take`` returns; None for others."""

    def encode(keys: Sequence[str], values: Sequence[str]) -> bytes:
        return "".join([f"{key} {value}\n" for key, value in zip(keys, values, strict=True)]).encode("ascii")

    return Pack(take, encode)


def objects(take: Callable[[Any], bytes | None]) -> Pack:
    """Return how small objects are written, whose bytes ``take`` returns."""

    def take_small(value: Any) -> bytes | None:
        taken = take(value)
        return taken if taken is not None and len(taken) <= LARGEST else None

    return Pack(take_small, lambda keys, values: _join_entries(_names(keys), b" ", values))
