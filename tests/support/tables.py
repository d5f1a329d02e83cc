"""Archives, text tables and audio files that tests of programs write and read."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import kaldiio
import numpy as np

import io_ark
from io_ark.streams.input import open_input


def matrices(*sizes: int, dim: int = 3) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    return {f"u{i}": rng.standard_normal((size, dim)).astype(np.float32) for i, size in enumerate(sizes)}


def save(path: str, values: dict[str, np.ndarray[Any, Any]]) -> str:
    kaldiio.save_ark(path, values)
    return f"ark:{path}"


def write_table(kind: Any, wspecifier: str, table: dict[str, Any], **options: Any) -> None:
    """Write a table by our own writer."""
    with io_ark.Writer(wspecifier, kind=kind, **options) as writer:
        for key, value in table.items():
            writer[key] = value


def content(rxfilename: str) -> bytes:
    """Read all bytes of an rxfilename."""
    with open_input(rxfilename) as opened:
        return opened.source.read_rest()


def shapes(rspecifier: str, **options: Any) -> list[tuple[str, tuple[int, ...]]]:
    """Return the keys and shapes of a table of matrices."""
    with io_ark.SequentialReader(rspecifier, kind="matrix", **options) as reader:
        return [(key, value.shape) for key, value in reader]


def load(path: str) -> dict[str, np.ndarray[Any, Any]]:
    return {key: np.array(value) for key, value in kaldiio.load_ark(path)}


def text(path: str, content: str) -> str:
    Path(path).write_text(content)
    return f"ark:{path}"


def wav(path: str, rate: int, samples: np.ndarray[Any, Any]) -> None:
    """Write a WAV file of samples of shape (samples, channels)."""
    Path(path).write_bytes(wav_bytes(samples, rate))


def wav_bytes(samples: np.ndarray[Any, Any], rate: int = 16000) -> bytes:
    """Return a WAV file of samples of shape (samples, channels)."""
    data = np.ascontiguousarray(samples, "<i2").tobytes()
    width = 2 * samples.shape[1]
    head = struct.pack("<4sI8sIHHIIHH4sI", b"RIFF", 36 + len(data), b"WAVEfmt ", 16, 1, samples.shape[1], rate,
                       rate * width, width, 16, b"data", len(data))  # fmt: skip
    return head + data


def noise(samples: int, channels: int = 1) -> np.ndarray[Any, Any]:
    """Return 16-bit noise of shape (samples, channels)."""
    return np.random.default_rng(samples).integers(-3000, 3000, (samples, channels)).astype(np.int16)


def audio_archive(path: str, **audio: bytes) -> str:
    """Write WAV files to an archive and return its rspecifier."""
    Path(path).write_bytes(b"".join(key.encode() + b" " + wave for key, wave in audio.items()))
    return f"ark:{path}"


def mat(path: str, values: Any) -> str:
    """Write a matrix to a single file."""
    io_ark.save(path, np.asarray(values, np.float32), kind="matrix")
    return path


def read(path: str) -> np.ndarray[Any, Any]:
    """Read a matrix or vector from a single file."""
    return np.array(kaldiio.load_mat(path))
