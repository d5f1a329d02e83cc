"""Segments that end at -1, the end of the recording: every job keeps them, with the duration of the audio."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import io_ark
from io_ark import DataDir, DataDirError
from io_ark.data_dir import line_chunks
from io_ark.data_dir.segment_times import is_interval
from io_ark.data_dir.segments import _Cutter

RATE = 8000
SECONDS = {"r1": 2.0, "r2": 3.0, "r3": 1.0}
SEGMENTS = "u1 r1 0.25 -1\nu2 r1 0 1\nu3 r2 1.5 -1.00\n"
DURATIONS = {"u1": 1.75, "u2": 1.0, "u3": 1.5}


def directory(folder: Path, segments: str = SEGMENTS) -> DataDir:
    """Return a directory of three recordings: a file, a command, and a file that no segment names."""
    folder.mkdir(parents=True)
    for name, seconds in SECONDS.items():
        io_ark.save(str(folder / f"{name}.wav"), io_ark.Wave(RATE, np.zeros((1, int(RATE * seconds)), np.int16)))
    (folder / "wav.scp").write_text(f"r1 {folder}/r1.wav\nr2 cat {folder}/r2.wav |\n")
    (folder / "segments").write_text(segments)
    keys = [line.split()[0] for line in segments.splitlines()]
    (folder / "utt2spk").write_text("".join(f"{key} {key}\n" for key in keys))
    (folder / "text").write_text("".join(f"{key} word {key}\n" for key in keys))
    return DataDir(folder)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataDir:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sox").write_text("")
    (tmp_path / "bin" / "sox").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return directory(tmp_path / "data")


def test_durations_are_those_of_the_audio(data: DataDir) -> None:
    assert data.hours() == pytest.approx(sum(DURATIONS.values()) / 3600)
    assert "utt2dur" not in data
    data.fix().validate(text=True)
    assert data.utt2dur() == DURATIONS
    assert data.num_frames() == {"u1": 173, "u2": 98, "u3": 148}
    assert data.fix().utterances() == list(DURATIONS)


def test_reco2dur_is_used_instead_of_the_audio(data: DataDir) -> None:
    Path(data.path, "reco2dur").write_text("r1 5.25\n")
    assert data.utt2dur() == DURATIONS | {"u1": 5.0}


def test_only_recordings_with_an_open_end_are_read(tmp_path: Path) -> None:
    data = directory(tmp_path / "data", "u1 r1 0.25 -1\nu2 r2 0 1\n")
    Path(data.path, "wav.scp").write_text(f"r1 {data.path}/r1.wav\nr2 touch {tmp_path}/READ; false |\n")
    assert data.utt2dur() == {"u1": 1.75, "u2": 1.0}
    assert not (tmp_path / "READ").exists()


def test_a_representation_reads_no_audio(tmp_path: Path) -> None:
    data = directory(tmp_path / "data")
    Path(data.path, "wav.scp").write_text(
        f"r1 {data.path}/r1.wav\nr2 touch {tmp_path}/READ; cat {data.path}/r2.wav |\n"
    )
    assert "hours" not in repr(data) and "hours" not in data._repr_html_()
    assert not (tmp_path / "READ").exists()
    Path(data.path, "reco2dur").write_text("r1 2\nr2 3600\n")
    assert "1.00 hours" in repr(data)


def test_minus_one_stays_at_another_speed(data: DataDir) -> None:
    slow = data.fix().perturb_speed(f"{data.path}-slow", "0.8")
    assert Path(slow.file("segments")).read_text() == (
        "sp0.8-u1 sp0.8-r1 0.31 -1\nsp0.8-u2 sp0.8-r1 0.00 1.25\nsp0.8-u3 sp0.8-r2 1.88 -1\n"
    )
    assert slow.utt2dur() == pytest.approx({f"sp0.8-{key}": value / 0.8 for key, value in DURATIONS.items()}, 1e-5)


@pytest.mark.parametrize(
    "job",
    [
        lambda data: data.copy(f"{data.path}-out"),
        lambda data: DataDir.combine(
            f"{data.path}-out", data, data.copy(f"{data.path}-b", utt_prefix="x-", spk_prefix="x-")
        ),
        lambda data: data.subset(f"{data.path}-out", utterances=["u1", "u2", "u3"]),
        lambda data: data.resample(16000),
        lambda data: data.perturb_volume(),
        lambda data: data.split(3)[0],
    ],
)  # fmt: skip
def test_jobs_keep_segments_to_the_end(data: DataDir, job: Callable[[DataDir], DataDir]) -> None:
    made = job(data.fix())
    assert "u1 r1 0.25 -1\n" in Path(made.file("segments")).read_text()
    assert "u1" in made.validate().utterances()


def test_a_segment_to_the_end_is_the_last_of_its_recording(tmp_path: Path) -> None:
    data = directory(tmp_path / "data", "a r1 0 1\nb r1 1 -1\nc r1 1 1.5\n")
    assert data.to_whole_recordings(tmp_path / "whole").text["r1"] == "word a word c word b"


def test_recording_is_read_once_for_adjacent_segments() -> None:
    waves = {name: io_ark.Wave(RATE, np.full((1, RATE), at, np.int16)) for at, name in enumerate(("r1", "r2"))}
    read: list[str] = []

    class Recordings(dict[str, io_ark.Wave]):
        def __getitem__(self, name: str) -> io_ark.Wave:
            read.append(name)
            return waves[name]

    cut = _Cutter(Recordings(waves))
    assert [cut(name, f"{name} 0 0.5").samples.max() for name in ("r1", "r1", "r2", "r2", "r1")] == [0, 0, 1, 1, 0]
    assert read == ["r1", "r2", "r1"]
    assert cut.__getstate__() == {
        "_recordings": waves,
        "_cached": ("", None),
    }  # A copy for another process has no audio.


@pytest.mark.parametrize(
    ("load", "line", "value"),
    [(io_ark.load_utt2spk, "u1 s", "s"), (io_ark.load_spk2utt, "u1 a b", ["a", "b"]),
     (io_ark.load_text, "u1 a b", "a b"),
     (io_ark.load_segments, "u1 r 0 1", io_ark.Segment("u1", "r", 0, 1))],
)  # fmt: skip
def test_files_are_read_from_commands_unless_these_are_refused(
    load: Callable[..., Any], line: str, value: object, tmp_path: Path
) -> None:
    command = f"echo {line} |"
    assert dict(load(command)) == dict(load(command, network=False)) == {"u1": value}
    with pytest.raises(io_ark.ArkError, match="is not run: pipes are disabled"):
        load(command, pipes=False)
    with pytest.raises(io_ark.ArkError, match="the network is not used: it is disabled"):
        load("http://127.0.0.1:1/x", network=False)
    if load is io_ark.load_segments:
        (tmp_path / "segments").write_text(f"{line}\n")
        (tmp_path / "wav.scp").write_text(f"r cat {tmp_path}/r.wav |\n")
        io_ark.save(str(tmp_path / "r.wav"), io_ark.Wave(RATE, np.zeros((1, RATE), np.int16)))
        files = tmp_path / "segments", tmp_path / "wav.scp"
        assert load(*files)["u1"].samples.shape == load(*files, network=False)["u1"].samples.shape == (1, RATE)
        with pytest.raises(io_ark.ArkError, match="is not run: pipes are disabled"):
            load(*files, pipes=False)["u1"]


@pytest.mark.parametrize(
    ("segments", "said"),
    [
        ("u1 r9 0 -1\n", "segments:1: u1: ends at -1, but the recording has no duration"),
        ("u1 r1 2.5 -1\n", "segments:1: u1: starts at 2.5 s, but the recording has 2 s"),
        ("u1 r1 2 -1\n", "segments:1: u1: starts at 2 s, but the recording has 2 s"),
        ("u0\tr1\t0\t1\nu1\tr1\t2\t-1.0\n", "segments:2: u1: starts at 2 s"),
    ],
)
def test_a_segment_without_audio_is_named(tmp_path: Path, segments: str, said: str) -> None:
    data = directory(tmp_path / "data", segments)
    with pytest.raises(DataDirError, match=said):
        data.utt2dur()
    assert "utt2dur" not in data


def test_bad_segment_of_a_later_chunk_has_its_number_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_chunks, "CHUNK_BYTES", 1)
    data = directory(tmp_path / "data", "u1 r1 0 1\nu2 r1 1 -1\nu3 r2 3.5 -1\n")
    with pytest.raises(DataDirError, match=r"segments:3: u3: starts at 3\.5 s, but the recording has 3 s"):
        data.utt2dur()


@pytest.mark.parametrize(
    ("start", "end", "is_whole"),
    [("0", "-1", True), ("0.0", "-1.0", True), ("1", "-1", True), ("-1", "-1", False), ("-0.5", "-1", False),
     ("x", "-1", False), ("1", "1", False), ("1", "1.5", True), ("1", "0.5", False)],
)  # fmt: skip
def test_start_of_an_interval_is_a_time_before_its_end(start: str, end: str, is_whole: bool) -> None:
    assert is_interval(start.encode(), end.encode()) == is_whole


@pytest.mark.parametrize(
    ("end", "is_valid"), [("-1", True), ("-1.0", True), ("-1.25", False), ("-2", False), ("0", False)]
)
def test_only_minus_one_is_the_end_of_the_recording(tmp_path: Path, end: str, is_valid: bool) -> None:
    data = directory(tmp_path / "data", f"u1 r1 0 1\nu2 r2 0.5 {end}\n")
    Path(data.path, "spk2utt").write_text("u1 u1\nu2 u2\n")
    outcomes = []
    for check in (DataDir.validate, lambda data: data.audio["u2"]):
        try:
            outcomes.append(bool(check(data)))
        except io_ark.ArkError:
            outcomes.append(False)
    assert outcomes == [is_valid, is_valid]


def test_fix_does_not_remove_utterances_whose_durations_kaldi_computed(data: DataDir) -> None:
    Path(data.path, "utt2dur").write_text("u1 -1.25\nu2 1\nu3 -2.5\n")
    with pytest.raises(DataDirError, match="utt2dur:1: u1: is not above 0, because the segment ends at -1"):
        data.fix()
    assert data.utterances() == ["u1", "u2", "u3"]


@pytest.mark.parametrize("duration", ["0", "-1.25"])
def test_fix_removes_a_segment_with_an_end_and_no_duration(tmp_path: Path, duration: str) -> None:
    data = directory(tmp_path / "data", "u1 r1 0.25 -1\nu2 r2 0 1\n")
    Path(data.path, "utt2dur").write_text(f"u1 1.75\nu2 {duration}\n")
    assert data.fix().utterances() == ["u1"]
