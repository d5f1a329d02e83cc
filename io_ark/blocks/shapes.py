"""Blocks of shapes of arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from io_ark.blocks.base import Array, ArrayBlock, Block, Integers, Mask, select_keys


class ArrayInfo(NamedTuple):
    """Shape and dtype of an array, read from its header without loading the data.

    >>> import numpy as np
    >>> from io_ark.blocks import ArrayInfo
    >>> ArrayInfo((10, 4), np.dtype("float32")).extract_part(slice(2, 5), slice(None))
    ArrayInfo(shape=(3, 4), dtype=dtype('float32'))
    """

    shape: tuple[int, ...]  # Shape of the array that reading would return.
    dtype: np.dtype[Any]  # Type of the elements of that array.

    @property
    def ndim(self) -> int:
        """Number of dimensions of the array."""
        return len(self.shape)

    def extract_part(self, *slices: slice) -> ArrayInfo:
        """Return the shape and dtype of a part of the array. ``slices`` holds one slice for each dimension."""
        sizes = (len(range(size)[selected]) for size, selected in zip(self.shape, slices, strict=True))
        return ArrayInfo(tuple(sizes), self.dtype)


@dataclass(frozen=True, eq=False)
class ShapeBlock(Block):
    """Block of entries whose values are the shapes of matrices. The numbers of the matrices were not read."""

    keys: bytes
    shapes: Integers  # (entries, 2) int64: rows and columns of each matrix.
    dtype: np.dtype[Any]  # Type of the elements of the matrices.

    def __len__(self) -> int:
        return len(self.shapes)

    def entries(self) -> Iterator[tuple[str, ArrayInfo]]:
        for key, shape in zip(self.decode_keys(), self.shapes.tolist(), strict=True):
            yield key, ArrayInfo(tuple(shape), self.dtype)

    def select(self, mask: Mask) -> ShapeBlock:
        return replace(self, keys=select_keys(self.keys, mask), shapes=self.shapes[mask])

    def with_numbers(self, values: Array) -> ArrayBlock:
        """Return a block of scalars with the same keys. ``values``, shape (entries,), holds the scalars."""
        return ArrayBlock(self.keys, values, np.zeros_like(self.shapes), 0)
