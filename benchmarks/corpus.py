"""Audio to measure on: an hour of 16 kHz speech-like signals, the same every time."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np

import io_ark

RATE = 16000
FILES = 300
SECONDS = 3657.0


def make(folder: Path, *, files: int = FILES, seconds: float = SECONDS) -> Path:
    """Write the WAV files and ``wav.scp`` into a folder unless they are there, and return the script file's path.

    The signals are voiced harmonics under a moving envelope plus noise, so that no stage meets silence or constants.
    """
    script = folder / "wav.scp"
    if script.exists():
        return script
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    lengths = rng.uniform(0.5, 1.5, files)
    lengths *= seconds / lengths.sum()
    lines = []
    for number, length in enumerate(lengths):
        path = folder / f"utt{number:04d}.wav"
        samples = _make_speech_like(rng, int(length * RATE))
        with wave.open(str(path), "wb") as out:
            out.setparams((1, 2, RATE, 0, "NONE", ""))
            out.writeframes(samples.tobytes())
        lines.append(f"utt{number:04d} {path}\n")
    script.write_text("".join(lines))
    return script


def repeat(script: Path, times: int) -> Path:
    """Return a script file that names each file under ``times`` keys, for more work with the same files in memory."""
    repeated = script.with_name(f"wav_x{times}.scp")
    lines = [line.split(maxsplit=1) for line in script.read_text().splitlines()]
    repeated.write_text("".join(f"{key}-{copy} {path}\n" for copy in range(times) for key, path in lines))
    return repeated


def write_short_pieces(folder: Path, like: Path, count: int) -> Path:
    """Write pieces of about 0.1 s of some audio to an archive, and return its script file."""
    rng = np.random.default_rng(1)
    script = folder / "wav.scp"
    _, audio = next(iter(io_ark.SequentialReader(f"scp:{like}", kind="wave")))
    with io_ark.Writer(f"ark,scp:{folder}/wav.ark,{script}", kind="wave") as writer:
        for number in range(count):
            size = int(rng.uniform(0.08, 0.12) * RATE)
            start = int(rng.integers(0, audio.samples.shape[1] - size))
            writer[f"utt{number:07d}"] = io_ark.Wave(float(RATE), audio.samples[:, start : start + size])
    return script


def _make_speech_like(rng: np.random.Generator, count: int) -> np.ndarray:
    """Return ``count`` int16 samples of voiced harmonics with a varying pitch and envelope, plus noise."""
    time = np.arange(count) / RATE
    pitch = 120 + 40 * np.sin(2 * np.pi * rng.uniform(0.2, 0.8) * time)
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    voiced = sum(np.sin(harmonic * phase) / harmonic for harmonic in range(1, 20))
    envelope = 0.1 + np.abs(np.sin(2 * np.pi * rng.uniform(1.0, 3.0) * time))
    return (2000 * envelope * voiced + rng.normal(0, 50, count)).clip(-32768, 32767).astype("<i2")
