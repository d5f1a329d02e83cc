"""What tables hold."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from io_ark.codecs.array_info import ArrayInfo

Matrix = npt.NDArray[np.float32]
# A matrix of which no more is wanted than the shape.
Shaped = Matrix | ArrayInfo
Vector = npt.NDArray[np.float32]
DoubleMatrix = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]


def duration_of(num_samples: int, rate: float) -> float:
    """Audio's length in seconds, in Kaldi's single precision (src/feat/wave-reader.h)."""
    return float(np.float32(num_samples) / np.float32(rate))
