"""What an array is like, without its numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class ArrayInfo(NamedTuple):
    """What a header tells of an array, of which the numbers were passed over.

    Attributes:
        shape: of the array that reading gives.
        dtype: of its elements.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def ndim(self) -> int:
        """How many dimensions it has."""
        return len(self.shape)

    def part(self, *slices: slice) -> ArrayInfo:
        """The outline of what these slices, one for each dimension, take out of the array."""
        sizes = (len(range(size)[each]) for size, each in zip(self.shape, slices, strict=True))
        return ArrayInfo(tuple(sizes), self.dtype)
