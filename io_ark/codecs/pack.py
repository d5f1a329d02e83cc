"""Encode all entries of a block at once."""

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
    """Ways to encode all entries of a block at once, for one kind of object."""

    # Type and number of dimensions of arrays that are written without conversion. None if arrays need a conversion.
    arrays: tuple[np.dtype[Any], int] | None = None
    # Function that encodes all entries of a block. It returns None for a block of a type that it cannot encode, and a
    # writer then encodes the entries one by one.
    encode_block: Callable[[Block], PackedBlock | None] = lambda block: None


def number_lines(keys: bytes, numbers: npt.NDArray[Any]) -> bytes:
    r"""Return the lines of a table of numbers in text. Each line has a key and its number.

    Args:
        keys: keys in the format of :attr:`~io_ark.blocks.base.Block.keys`.
        numbers: one number for each key, int32, float32 or float64 of shape (keys,).

    >>> import numpy as np
    >>> from io_ark.codecs.pack import number_lines
    >>> number_lines(b"a\nb\n", np.array([1.5, 2.0]))
    b'a 1.5 \nb 2 \n'
    """
    return _join_entries(keys.split(b"\n")[:-1], *_encode_numbers(binary=False, numbers=numbers))


def encode_entries(keys: bytes, separator: bytes, objects: Sequence[bytes]) -> PackedBlock:
    """Combine each key and its encoded object into an entry of an archive, and return a block of the entries.

    ``keys`` has the format of :attr:`~io_ark.blocks.base.Block.keys`. ``separator`` holds the bytes between a key and
    its object: a space and, in binary, the marker and the size byte of a number.
    """
    names = keys.split(b"\n")[:-1]
    data = np.frombuffer(_join_entries(names, separator, objects), np.uint8)
    key_sizes, object_sizes = (np.fromiter(map(len, strings), np.int64, len(names)) for strings in (names, objects))
    ends = np.cumsum(key_sizes + len(separator) + object_sizes)
    # An object starts after the space, which is the first byte of `separator`.
    return PackedBlock(keys, data, ends - object_sizes - len(separator) + 1)


def _join_entries(names: Sequence[bytes], separator: bytes, objects: Sequence[bytes]) -> bytes:
    """Return each name, followed by ``separator`` and its object, in one string of bytes."""
    parts = [separator] * (3 * len(names))
    parts[0::3], parts[2::3] = names, objects
    return b"".join(parts)


def _encode_numbers(binary: bool, numbers: npt.NDArray[Any]) -> tuple[bytes, list[bytes]]:
    """Return the bytes between a key and its number, and the bytes of each number.

    In binary, a size byte precedes the number. In text, a newline follows each number.
    """
    if binary:
        size = numbers.itemsize
        return b" \0B%c" % size, numbers.view(f"V{size}").tolist()
    text, _ = encode_lists([1] * len(numbers), (numbers,), (b"", b"\n"))
    return b" ", text.splitlines(keepends=True)


def _pack_numbers(binary: bool, dtype: Any, block: Block) -> PackedBlock | None:
    """Encode a block with one number of type ``dtype`` for each key. Return None for any other block."""
    if not isinstance(block, ArrayBlock) or (block.values.dtype, block.dimensions) != (dtype, 0):
        return None
    return encode_entries(block.keys, *_encode_numbers(binary, np.ascontiguousarray(block.values)))


def create_number_pack(binary: bool, dtype: Any) -> Pack:
    """Return the :class:`Pack` of a kind whose objects are numbers of type ``dtype``, for binary or text."""
    return Pack(encode_block=partial(_pack_numbers, binary, dtype))
