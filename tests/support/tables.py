"""What the tests of programs make and read: archives, text tables and audio files."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import kaldiio
import numpy as np


def matrices(*sizes: int, dim: int = 3) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    return {f"u{i}": rng.standard_normal((size, dim)).astype(np.float32) for i, size in enumerate(sizes)}


def save(path: str, values: dict[str, np.ndarray[Any, Any]]) -> str:
    kaldiio.save_ark(path, values)
    return f"ark:{path}"


def load(path: str) -> dict[str, np.ndarray[Any, Any]]:
    return {key: np.array(value) for key, value in kaldiio.load_ark(path)}


def text(path: str, content: str) -> str:
    Path(path).write_text(content)
    return f"ark:{path}"


def wav(path: str, rate: int, samples: np.ndarray[Any, Any]) -> None:
    """A WAV file of samples of shape (samples, channels)."""
    data = np.ascontiguousarray(samples, "<i2").tobytes()
    width = 2 * samples.shape[1]
    layout = struct.pack("<4sI8sIHHIIHH4sI", b"RIFF", 36 + len(data), b"WAVEfmt ", 16, 1, samples.shape[1], rate,
                         rate * width, width, 16, b"data", len(data))  # fmt: skip
    Path(path).write_bytes(layout + data)
