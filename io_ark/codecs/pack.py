"""Encode the entries of a block at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.blocks import ArrayBlock, Block, PackedBlock
from io_ark.codecs.text_format import encode_lists


@dataclass(frozen=True)
class Pack:
    """Layout of the entries of a kind that are written together."""

    # type and dimensions of the arrays that are written in binary as they are
    arrays: tuple[np.dtype[Any], int] | None = None
    # encodes the entries of a block; returns None for another kind of block
    block: Callable[[Block], PackedBlock | None] = lambda block: None

    def takes(self, block: Block) -> bool:
        """Return True if a block's arrays are written as they are."""
        return isinstance(block, ArrayBlock) and (block.values.dtype, block.dimensions) == self.arrays


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


def numbers_of(binary: bool, dtype: Any) -> Pack:
    """Return how single numbers of a type are written."""
    return Pack(block=partial(_block, binary, dtype))
