"""Shape and dtype of arrays that are not loaded."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

__all__ = ["ArrayInfo"]


class ArrayInfo(NamedTuple):
    """Shape and dtype of an array, read from its header without loading the data.

    Attributes:
        shape: shape of the array that reading would return.
        dtype: type of its elements.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def part(self, *slices: slice) -> ArrayInfo:
        """Return the info of the array that these slices, one per dimension, would select."""
        sizes = (len(range(size)[each]) for size, each in zip(self.shape, slices, strict=True))
        return ArrayInfo(tuple(sizes), self.dtype)
