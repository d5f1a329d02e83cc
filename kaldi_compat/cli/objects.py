"""Types of the objects in tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.codecs.array_info import ArrayInfo
from io_ark.codecs.wave import AudioBlock

__all__ = ["DoubleMatrix", "Indices", "Matrix", "Shaped", "Vector", "audio_block", "duration_of"]

Matrix = npt.NDArray[np.float32]
# A matrix of which only the shape is used.
Shaped = Matrix | ArrayInfo
Vector = npt.NDArray[np.float32]
DoubleMatrix = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]


def duration_of(num_samples: int, rate: float) -> float:
    """Return the length of audio in seconds, in single precision as in Kaldi (src/feat/wave-reader.h)."""
    return float(np.float32(num_samples) / np.float32(rate))


def audio_block(item: Any) -> AudioBlock | None:
    """Return a block as it is, and one entry as a block; None for audio of several channels."""
    if isinstance(item, AudioBlock):
        return item
    key, wave = item
    if len(wave.samples) > 1 or wave.samples.dtype != np.int16 or wave.sample_frequency % 1:
        return None
    return AudioBlock.of(key, wave)
