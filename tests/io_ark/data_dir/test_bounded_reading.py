"""Durations: headers are read and no more, nothing without end, and nothing is run that may not be."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import io_ark
from io_ark import DataDir
from io_ark.codecs import audio, wave
from io_ark.codecs.wave import WaveInfoCodec
from io_ark.data_dir.durations import get_reco2dur, get_utt2dur, read_sphere_durations
from io_ark.data_dir.stage import Printer
from io_ark.streams.source import StreamSource

RATE = 8000
# A child that uses more than 1 GB or 60 s of its processor fails.
LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
from io_ark import DataDir, ArkError
try:
    print(DataDir(sys.argv[1]).utt2dur(read_entire_file=len(sys.argv) > 2))
except ArkError as error:
    print("error:", error)
"""


def header(seconds: float, announced: bool = True) -> bytes:
    """Return the header of a wave file."""
    size = int(2 * RATE * seconds) if announced else 0x7FFFF000
    return struct.pack(
        "<4sI8sIHHIIHH4sI", b"RIFF", 36 + size, b"WAVEfmt ", 16, 1, 1, RATE, 2 * RATE, 2, 16, b"data", size
    )


def directory(folder: Path, **recordings: str) -> DataDir:
    folder.mkdir(exist_ok=True)
    (folder / "wav.scp").write_text("".join(f"{key} {entry}\n" for key, entry in recordings.items()))
    (folder / "utt2spk").write_text("".join(f"{key} {key}\n" for key in recordings))
    return DataDir(folder)


def limited(data: DataDir, *options: str, **environment: str) -> str:
    command = [sys.executable, "-c", LIMITED, data.path, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, **environment})
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


@pytest.mark.parametrize("no_pipes", ["", "1"])
def test_files_named_in_commands_are_read_as_far_as_their_header(tmp_path: Path, no_pipes: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    for name in ("/dev/zero", str(tmp_path / "fifo"), str(tmp_path)):
        (tmp_path / "wav.scp").write_text(f"u sph2pipe -f wav {name} |\n")
        assert read_sphere_durations(str(tmp_path / "wav.scp")) is None
    said = limited(directory(tmp_path / "data", u="sph2pipe -f wav /dev/zero |"), IO_ARK_NO_PIPES=no_pipes)
    assert said.startswith("error:") and ("is not run" in said) == bool(no_pipes)


@pytest.mark.parametrize(("count", "expected"), [("16000", 2.0), ("9" * 5000, None)])
def test_header_of_sphere_is_bounded(tmp_path: Path, count: str, expected: float | None) -> None:
    head = f"NIST_1A\n   1024\nsample_rate -i {RATE}\nsample_count -i {count}\nend_head\n".encode().ljust(1024)
    with open(tmp_path / "a.sph", "wb") as file:
        file.write(head)
        file.truncate(1 << 40)  # a sparse file without a line break
    (tmp_path / "wav.scp").write_text(f"u sph2pipe -f wav {tmp_path}/a.sph |\n")
    found = read_sphere_durations(str(tmp_path / "wav.scp"))
    assert found == (None if expected is None else [b"u %g\n" % expected])


@pytest.mark.parametrize(
    ("entry", "is_read"),
    [
        ("sph2pipe -f wav {} |", True), ("/a/b/sph2pipe -f wav {}|", True), ("sph2pipe -f wav {} | \t", True),
        ("sph2pipe -f wav -p {} |", False), ("sph2pipe -f raw {} |", False), ("sph2pipe -f wav {} | cat |", False),
        ("sph2pipe -f wav {}", False), ("cat {} |", False), ("{}", False), ("sph2pipe -f wav {}.missing |", False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["utt2dur", "reco2dur"])
def test_headers_of_sphere_files_tell_durations(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, entry: str, is_read: bool
) -> None:
    head = b"NIST_1A\n   1024\nsample_rate -i 16000\nsample_count -i 24000\nsample_rate -i 8000\nend_head\n"
    (tmp_path / "a.sph").write_bytes(head.ljust(1024))
    data = directory(tmp_path / "data", u=entry.format(tmp_path / "a.sph"), v=f"sph2pipe -f wav {tmp_path}/a.sph |")
    assert read_sphere_durations(data.file("wav.scp")) == ([b"u 3\n", b"v 3\n"] if is_read else None)
    if is_read:
        make, what = {"utt2dur": (get_utt2dur, "utterance"), "reco2dur": (get_reco2dur, "recording")}[name]
        assert make(Printer("x"), data.path) == 0
        assert Path(data.file(name)).read_text() == "u 3\nv 3\n"
        said = [f"successfully obtained {what} lengths from sphere-file headers", f"computed {data.path}/{name}"]
        assert capsys.readouterr().out.splitlines()[1:] == [f"x: {line}" for line in said]


@pytest.mark.parametrize(
    "head", ["sample_count -i 8000", "sample_rate -i 8000", "sample_rate -i 0\nsample_count -i 8000"]
)
def test_header_of_sphere_without_a_duration_is_not_used(tmp_path: Path, head: str) -> None:
    (tmp_path / "a.sph").write_text(f"NIST_1A\n   1024\n{head}\nend_head\n".ljust(1024))
    (tmp_path / "wav.scp").write_text(f"u sph2pipe -f wav {tmp_path}/a.sph |\n")
    assert read_sphere_durations(str(tmp_path / "wav.scp")) is None


def test_durations_of_utterances_are_those_of_recordings_only_if_they_are_complete(tmp_path: Path) -> None:
    for name, seconds in ("u", 1), ("v", 2):
        (tmp_path / f"{name}.wav").write_bytes(header(seconds) + bytes(2 * RATE * seconds))
    files = {"u": str(tmp_path / "u.wav"), "v": str(tmp_path / "v.wav")}
    for at, (utt2dur, segments, expected) in enumerate(
        [("u 5\nv 6\n", "", "u 5\nv 6\n"), ("u 5\n", "", "u 1 \nv 2 \n"),
         ("u 5\nv 6\n", "u u 0 1\nv v 0 1\n", "u 1 \nv 2 \n"), ("", "", "u 1 \nv 2 \n")]
    ):  # fmt: skip
        data = directory(tmp_path / str(at), **files)
        for name, text in ("utt2dur", utt2dur), ("segments", segments):
            if text:
                Path(data.path, name).write_text(text)
        get_reco2dur(Printer("x"), data.path)
        assert Path(data.file("reco2dur")).read_text() == expected
        Path(data.path, "reco2dur").write_text("u 7\n")  # It is incomplete.
        get_reco2dur(Printer("x"), data.path)
        assert Path(data.file("reco2dur")).read_text() == expected


def test_a_command_is_read_as_far_as_its_header(tmp_path: Path) -> None:
    (tmp_path / "head").write_bytes(header(100000))
    # The file is made if more than a pipe holds is read.
    command = f"cat {tmp_path}/head /dev/zero | (head -c 300000 && touch {tmp_path}/READ; cat) |"
    assert limited(directory(tmp_path / "data", u=command)) == "{'u': 100000.0}\n"
    assert not (tmp_path / "READ").exists()


@pytest.mark.parametrize("entry", ["cat /dev/zero |", "yes |", "/dev/zero"])
@pytest.mark.parametrize("options", [[], ["--read-entire-file"]])
def test_output_without_end_is_refused(tmp_path: Path, entry: str, options: list[str]) -> None:
    reason = (
        "expected RIFF or RIFX" if entry.endswith("|") else "is not a regular file: name a file, or a command that ends"
    )
    assert reason in limited(directory(tmp_path / "data", u=entry), *options)


def test_samples_without_end_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wave, "MAX_AUDIO_BYTES", 1 << 20)
    monkeypatch.setattr(audio, "MAX_AUDIO_BYTES", 1 << 20)
    (tmp_path / "wav").write_bytes(header(1, announced=False))
    (tmp_path / "ogg").write_bytes(b"OggS\0".ljust(64))
    for start in ("wav", "ogg"):
        data = directory(tmp_path / "data", u=f"cat {tmp_path}/{start} /dev/zero |")
        with pytest.raises(io_ark.ArkError, match=r"more than 1 MiB .*follow: check that the input is not an endless"):
            data.utt2dur(read_entire_file=True)
        with pytest.raises(io_ark.ArkError, match=r"more than 1 MiB .*follow: check that the input is not an endless"):
            io_ark.load(f"cat {tmp_path}/{start} /dev/zero |", kind="wave")


def test_counted_samples_are_those_that_are_there(tmp_path: Path) -> None:
    (tmp_path / "short.wav").write_bytes(header(10) + bytes(2 * RATE))
    (tmp_path / "long.wav").write_bytes(header(0.5) + bytes(2 * RATE))
    (tmp_path / "open.wav").write_bytes(header(0, announced=False) + bytes(2 * RATE))
    for entry in ("{}", "cat {} |"):
        names = {name: entry.format(tmp_path / f"{name}.wav") for name in ("long", "open", "short")}
        data = directory(tmp_path / "data", **names)
        assert data.utt2dur(read_entire_file=True) == {"long": 0.5, "open": 1.0, "short": 1.0}
        os.unlink(data.file("utt2dur"))


@pytest.mark.parametrize("kind", ["FLAC", "NIST", "OGG", "AIFF", "AU", "CAF", "MP3"])
def test_a_header_tells_the_duration(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    soundfile = pytest.importorskip("soundfile")
    if kind not in soundfile.available_formats():
        pytest.skip(f"libsndfile lacks {kind}")
    rng = np.random.default_rng(1)
    path = tmp_path / "a"
    with open(path, "wb") as file:
        soundfile.write(file, rng.uniform(-0.5, 0.5, (50 * RATE, 2)), RATE, format=kind)
    data = path.read_bytes()
    expected = soundfile.info(str(path)).frames
    codec = WaveInfoCodec()
    # Of a file, not all is read; of a stream, all except for FLAC and SPHERE, which need no decoder.
    monkeypatch.setattr("io_ark.streams.source.Source.read_rest", None)
    info = io_ark.load(str(path), kind=codec)
    assert (info.sample_frequency, info.channels, info.sample_count) == (RATE, 2, expected)
    if kind in ("FLAC", "NIST"):
        assert codec.read(StreamSource(BytesReader(data[:2048]))).sample_count == expected


class BytesReader:
    """A stream that is not a file."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def readinto(self, buffer: memoryview) -> int:
        some, self._data = self._data[: len(buffer)], self._data[len(buffer) :]
        buffer[: len(some)] = some
        return len(some)
