"""Types of the objects in tables."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from io_ark.codecs.array_info import ArrayInfo

__all__ = ["DoubleMatrix", "Indices", "Matrix", "Shaped", "Vector", "duration_of"]

Matrix = npt.NDArray[np.float32]
# A matrix of which only the shape is used.
Shaped = Matrix | ArrayInfo
Vector = npt.NDArray[np.float32]
DoubleMatrix = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]


def duration_of(num_samples: int, rate: float) -> float:
    """Return the length of audio in seconds, in single precision as in Kaldi (src/feat/wave-reader.h)."""
    return float(np.float32(num_samples) / np.float32(rate))
