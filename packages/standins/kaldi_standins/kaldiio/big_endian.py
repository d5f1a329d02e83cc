"""Objects of Kaldi in big-endian byte order, which kaldiio reads and writes with ``endian=">"``.

Source: ``read_matrix_or_vector``, ``read_int32vector`` and ``write_array`` in kaldiio's ``matio.py``.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from io_ark.streams.source import Source

Order = Literal["<", ">"]


def swap_bytes(source: Source, order: Order) -> bytearray:
    """Read a binary object, and return its bytes with the byte order of all numbers reversed.

    The object is a float matrix or vector, a compressed matrix or a vector of integers in the byte order ``order``. The
    result is writable, because arrays that are read from it are views. Raise ArkError if the object is truncated, has
    an invalid size, or has a kind without a big-endian form.
    """
    swapper = _Swapper(source, order)
    swapper.copy_bytes(2)  # The binary marker has no byte order.
    token = source.peek(4).split(b" ", 1)[0]
    if token in (b"CM", b"CM2", b"CM3"):
        swapper.copy_bytes(len(token) + 1)
        swapper.swap_numbers("f4", 2)  # The minimum and the range of the values.
        rows, columns = swapper.swap_numbers("i4", 2)
        if min(rows, columns) < 0:
            source.fail(f"invalid size of a matrix: {rows} rows, {columns} columns")
        if token == b"CM2":
            swapper.swap_numbers("u2", rows * columns)
        else:  # CM has four percentiles for each column. Each value of CM and CM3 has one byte.
            swapper.swap_numbers("u2", 4 * columns if token == b"CM" and rows > 0 else 0)
            swapper.copy_bytes(rows * columns)
    elif token in (b"FM", b"DM", b"FV", b"DV"):
        swapper.copy_bytes(3)  # The token and a space.
        count = swapper.swap_sized_integer()
        if token[1:] == b"M":  # A matrix has a number of rows and a number of columns.
            count *= swapper.swap_sized_integer()
        swapper.swap_numbers("f4" if token[:1] == b"F" else "f8", count)
    else:  # The object is a vector of integers.
        for _ in range(swapper.swap_sized_integer()):
            swapper.swap_sized_integer(may_be_negative=True)
    return bytearray().join(swapper.chunks)


class _Swapper:
    """Reads parts of an object, and collects their bytes in ``chunks``, with the byte order of numbers reversed."""

    def __init__(self, source: Source, order: Order) -> None:
        self._source = source
        self._order = order
        self.chunks: list[bytes] = []

    def copy_bytes(self, count: int) -> None:
        """Read ``count`` bytes, and append them to ``chunks`` unchanged."""
        self.chunks.append(bytes(self._source.read(count)))

    def swap_numbers(self, dtype: str, count: int) -> list[Any]:
        """Read ``count`` numbers of ``dtype``, such as "f4", and append them byte-swapped. Return the first two."""
        values = self._source.read_array(np.dtype(self._order + dtype), count)
        self.chunks.append(values.byteswap().tobytes())
        first_values: list[Any] = values[:2].tolist()
        return first_values

    def swap_sized_integer(self, may_be_negative: bool = False) -> int:
        """Read the byte 4 and an int32, append them with the integer swapped, and return the integer.

        Raise ArkError if the byte is missing, or if the integer is negative and ``may_be_negative`` is False.
        """
        if self._source.peek(1) != b"\x04":
            self._source.fail("expected a 4-byte integer: only matrices and vectors have a big-endian form")
        self.copy_bytes(1)
        value: int = self.swap_numbers("i4", 1)[0]
        if value < 0 and not may_be_negative:
            self._source.fail(f"invalid size: {value}")
        return value
