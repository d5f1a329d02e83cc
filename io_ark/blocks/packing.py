"""Encode many entries of a binary archive, or many lines of a script file, at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.native import NATIVE

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]

# Upper bound on the bytes between the key of an array and its numbers: a space, the marker of 2 bytes, a token of
# 3 bytes such as "FM ", and the two numbers of rows and columns, with 5 bytes each.
_MAX_HEADER_BYTES = 16
_SIZED_INTEGER = np.dtype([("size", "u1"), ("number", "<i4")])


def _pack_arrays_in_c(
    keys: bytes, shapes: Integers, dimensions: int, values: Array, with_values: bool = True
) -> tuple[Bytes, Integers, Integers]:
    """Compute :func:`pack_arrays` in C."""
    _check_sizes(keys, shapes, dimensions, values)
    packed = np.empty(len(keys) + _MAX_HEADER_BYTES * len(shapes) + with_values * values.nbytes, np.uint8)
    offsets, ends = np.empty(len(shapes), np.int64), np.empty(len(shapes), np.int64)
    byte_count = NATIVE.get_function("ark_pack_arrays")(
        keys, np.ascontiguousarray(shapes, np.int64), dimensions, ord("F") if values.itemsize == 4 else ord("D"),
        values.itemsize, values.view(np.uint8) if with_values else None, len(shapes), packed, offsets, ends,
    )  # fmt: skip
    return packed[:byte_count], offsets, ends


@NATIVE.twin(_pack_arrays_in_c)
def pack_arrays(
    keys: bytes, shapes: Integers, dimensions: int, values: Array, with_values: bool = True
) -> tuple[Bytes, Integers, Integers]:
    """Encode arrays as entries of a binary archive.

    Args:
        keys: keys in the format of :attr:`~io_ark.blocks.base.Block.keys`.
        shapes: shape of each array, (entries, 2), as in :class:`~io_ark.blocks.ArrayBlock`. Matrices without numbers
            are written as 0 x 0.
        dimensions: 1 for vectors, 2 for matrices.
        values: numbers of all arrays, one array after another, float32 or float64 of shape (numbers,).
        with_values: True to include the numbers, False for only the keys and headers.

    Returns:
        The bytes of the entries, uint8 of shape (bytes,). The offset in these bytes of each object, and of the end of
        each entry, int64 of shape (entries,).

    Raises:
        ValueError: the keys, shapes and values do not match, or the values are not contiguous.

    >>> import numpy as np
    >>> from io_ark.blocks import pack_arrays
    >>> packed, offsets, ends = pack_arrays(b"utt1\\n", np.array([[2, 3]]), 2, np.zeros(6, np.float32))
    >>> packed[:10].tobytes(), offsets.tolist(), ends.tolist()
    (b'utt1 \\x00BFM ', [5], [44])
    """
    _check_sizes(keys, shapes, dimensions, values)
    token = (b"F" if values.itemsize == 4 else b"D") + (b"M " if dimensions > 1 else b"V ")
    packed, offsets, ends = bytearray(), [], []
    begin = 0
    for key, shape in zip(keys.split(b"\n"), shapes[:, :dimensions], strict=False):
        packed += key + b" "
        offsets.append(len(packed))
        sizes = shape if shape.all() else np.zeros_like(shape)
        packed += b"\0B" + token + b"".join([np.array((4, size), _SIZED_INTEGER).tobytes() for size in sizes])
        end = begin + int(shape.prod())
        packed += values[begin:end].tobytes() if with_values else b""
        ends.append(len(packed))
        begin = end
    return np.frombuffer(packed, np.uint8), np.array(offsets, np.int64), np.array(ends, np.int64)


def _check_sizes(keys: bytes, shapes: Integers, dimensions: int, values: Array) -> None:
    """Raise ValueError if the arguments of :func:`pack_arrays` do not match, or the values are not contiguous."""
    numbers = shapes[:, :dimensions].prod(axis=1).sum()
    if keys.count(b"\n") != len(shapes) or numbers != values.size or not values.flags.c_contiguous:
        raise ValueError("the keys, shapes and values of a block do not match, or the values are not contiguous")


def format_script_lines(keys: bytes, offsets: Integers, archive: bytes) -> Bytes:
    """Return the bytes of script file lines, uint8 of shape (bytes,). A line has a key and the location of its object.

    ``keys`` has the format of :attr:`~io_ark.blocks.base.Block.keys`. ``offsets``, shape (entries,), holds the byte
    offset of each object in the archive with the file name ``archive``.

    >>> import numpy as np
    >>> from io_ark.blocks import format_script_lines
    >>> format_script_lines(b"utt1\\n", np.array([5]), b"feats.ark").tobytes()
    b'utt1 feats.ark:5\\n'
    """
    entries = zip(keys.split(b"\n")[:-1], offsets.tolist(), strict=True)
    return np.frombuffer(b"".join([b"%b %b:%d\n" % (key, archive, offset) for key, offset in entries]), np.uint8)
