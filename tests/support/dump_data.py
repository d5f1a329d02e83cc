"""Data directories for the tests of the bulk dump."""

from __future__ import annotations

import io
import os
import subprocess
import wave
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import Any

import numpy as np

import io_ark
from io_ark.blocks import WaveBlock
from io_ark.streams.unfinished import choose_temporary_name
from kaldi_compat.dump import cli as command
from kaldi_compat.dump.entries import Audio, OnGrid
from kaldi_compat.dump.options import DumpOptions, Job, Layout
from kaldi_compat.dump.packed_batch import Part

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
    confs = [f"--conf={conf / feature.split('_')[0]}.conf"]
    confs += [f"--pitch-conf={conf / 'pitch.conf'}"] if feature.endswith("_pitch") else []
    return command.main(["dump", feature, str(data), *confs, f"--nj={nj}", *arguments])


def said_by(data: Path, *arguments: str, status: int = 0, **more: Any) -> str:
    """Run a dump (see :func:`dump`), check its exit status, and return its standard error."""
    with redirect_stderr(io.StringIO()) as stderr:
        assert dump(data, *arguments, **more) == status, stderr.getvalue()
    return stderr.getvalue()


def refused(data: Path, *arguments: str, status: int = 255, **more: Any) -> str:
    """Run a dump that is refused, and return its one line of standard error."""
    message = said_by(data, *arguments, status=status, **more)
    assert message.startswith("kaldi-compat: ") and len(message.splitlines()) == 1 and "internal" not in message
    return message


@contextmanager
def edited(table: Path) -> Iterator[dict[str, str]]:
    """Change a table, such as wav.scp, that is given as the rest of each line by its key."""
    lines = {key: fields for key, _, fields in (line.partition(" ") for line in table.read_text().splitlines())}
    yield lines
    table.write_text("".join(f"{key} {fields}\n" for key, fields in lines.items()))


def keys_of(table: Path) -> list[str]:
    """Return the keys of a table."""
    return [line.split()[0] for line in table.read_text().splitlines()]


def failures(data: Path) -> str:
    """Return the list of failed utterances of a dump."""
    (path,) = (data / "log").glob("*.failures")
    return path.read_text()


def job_of(data: Path, **options: Any) -> Job:
    """Return the job of a dump of filter banks, with the configuration file of :func:`make_data`."""
    return Job(Layout.from_paths(data, "fbank"), DumpOptions(conf=f"{data.parent.parent}/conf/fbank.conf", **options))


def job_with(root: Path, conf: str, **options: Any) -> Job:
    """Return the job of a dump of one utterance, with this content of its configuration file."""
    data = make_data(root, 1)
    (root / "conf" / "fbank.conf").write_text(conf)
    return job_of(data, **options)


def part_of(samples: Any, place: OnGrid | None = None) -> Part:
    """Return an utterance to be packed, whose samples a device can copy from a place, if it has one."""
    entry = Audio.from_wave(0, "utt", io_ark.Wave(16000.0, samples[None]), place)
    if isinstance(entry.block, WaveBlock):  # Only the samples of the block itself are those of the place.
        samples = entry.block.samples
    return Part(entry, samples, np.zeros(1, np.int64), np.array([len(samples)]), [1.0])


def left_by_a_dead_process(path: Path) -> Path:
    """Return the name of a temporary file for a path that belongs to a process that has ended."""
    dead = subprocess.Popen(["true"])
    dead.wait()
    name = choose_temporary_name(path)
    return name.with_name(name.name.replace(f"-{os.getpid()}-", f"-{dead.pid}-"))


def matrices(script: Path) -> dict[str, np.ndarray]:
    """Read the features that a script file names."""
    with io_ark.SequentialReader(f"scp:{script}", kind="matrix") as reader:
        return {key: np.array(value) for key, value in reader}


def archive_bytes(data: Path) -> dict[str, bytes]:
    """Read the archives and script files of a dump, by name."""
    return {path.name: path.read_bytes() for path in sorted((data / "data").glob("raw_*"))}


def results(data: Path) -> dict[str, bytes]:
    """Read all that a dump leaves for its user, by name."""
    names = ("feats.scp", "utt2dur", "utt2num_frames", "cmvn.scp", "cmvn.ark", "frame_shift", "data/cmvn_train.ark")
    contents = {name: (data / name).read_bytes() for name in names if (data / name).exists()}
    return {name: content for name, content in archive_bytes(data).items() if "unfinished" not in name} | contents


def shell(line: str, directory: Path) -> None:
    """Run a line of shell."""
    subprocess.run(["sh", "-ec", line], cwd=directory, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
