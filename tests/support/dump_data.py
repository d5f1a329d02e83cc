"""Data directories for the tests of the bulk dump."""

from __future__ import annotations

import subprocess
import wave
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import io_ark
from kaldi_compat.dump import cli as command

RATE = 16000


def audio(samples: int, seed: int, channels: int = 1) -> np.ndarray:
    """Make a tone in noise, int16 of shape (channels, samples)."""
    random = np.random.default_rng(seed)
    time = np.arange(samples) / RATE
    tones = [3000 * np.sin(2 * np.pi * (120 + 17 * seed % 300 + 40 * c) * time) for c in range(channels)]
    return (np.array(tones) + random.normal(0, 300, (channels, samples))).astype(np.int16)


def write_wav(path: Path, samples: np.ndarray, rate: int = RATE) -> None:
    """Write a WAV file by Python's own writer."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(len(samples))
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.T.astype("<i2").tobytes())


def make_data(root: Path, utterances: int = 12, *, samples: Sequence[int] = (6000, 9000, 16000, 30000)) -> Path:
    """Make ``<root>/data/train``, with three utterances per speaker, and ``<root>/conf`` without dithering."""
    data = root / "data" / "train"
    (data / "wav").mkdir(parents=True)
    (root / "conf").mkdir()
    (root / "conf" / "fbank.conf").write_text("--num-mel-bins=23\n--dither=0\n")
    (root / "conf" / "mfcc.conf").write_text("--dither=0  # none\n")
    (root / "conf" / "pitch.conf").write_text("--sample-frequency=16000\n")
    script, speakers = [], []
    for i in range(utterances):
        key = f"spk{i // 3}-utt{i:03d}"
        path = data / "wav" / f"{key}.wav"
        write_wav(path, audio(samples[i % len(samples)] + 37 * i, seed=i))
        script.append(f"{key} {path}\n")
        speakers.append(f"{key} spk{i // 3}\n")
    (data / "wav.scp").write_text("".join(script))
    (data / "utt2spk").write_text("".join(speakers))
    return data


def dump(data: Path, *arguments: str, feature: str = "fbank", nj: int = 1) -> int:
    """Run ``kaldi-compat dump`` in this process, with the configuration files of :func:`make_data`."""
    conf = data.parent.parent / "conf"
    confs = [f"--conf={conf / feature.split('_')[0]}.conf", f"--pitch-conf={conf / 'pitch.conf'}"]
    return command.main(["dump", feature, str(data), *confs, f"--nj={nj}", *arguments])


def refused(capsys: pytest.CaptureFixture[str], data: Path, *arguments: str, **more: Any) -> str:
    """Return the one line that a dump says which is refused."""
    capsys.readouterr()
    assert dump(data, *arguments, **more) == 255
    said = capsys.readouterr().err
    assert said.startswith("kaldi-compat: ") and len(said.splitlines()) == 1 and "internal" not in said
    return said


def matrices(script: Path) -> dict[str, np.ndarray]:
    """Read the features that a script file names."""
    with io_ark.SequentialReader("matrix", f"scp:{script}") as reader:
        return {key: np.array(value) for key, value in reader}


def archive_bytes(data: Path) -> dict[str, bytes]:
    """Read the archives and script files of a dump, by name."""
    return {path.name: path.read_bytes() for path in sorted((data / "data").glob("raw_*"))}


def shell(line: str, directory: Path) -> None:
    """Run a line of shell."""
    subprocess.run(["sh", "-ec", line], cwd=directory, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
