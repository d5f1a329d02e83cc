"""Pass arrays to C in structures."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Structure"]


class Structure:
    """A structure for C together with the arrays that it points to."""

    def __init__(self, structure: Any) -> None:
        self.structure = structure
        self._arrays: list[Any] = []

    def pointer(self, array: npt.NDArray[Any] | None, dtype: Any = np.float32) -> int | None:
        """Return the address of an array, which is kept as long as the structure."""
        if array is None:
            return None
        array = np.ascontiguousarray(array, dtype)
        self._arrays.append(array)
        return array.ctypes.data
