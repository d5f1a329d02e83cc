"""Reading for a dump: order, bounds, formats, and audio at other speeds."""

from __future__ import annotations

import json
import re
import shutil
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import io_ark
from io_ark import native
from io_ark.blocks import WaveBlock
from io_ark.errors import ArkError, FormatError
from io_ark.tables.script import Script
from kaldi_compat.dump import read
from kaldi_compat.dump.entries import Audio, AudioOrFailure, Failure
from kaldi_compat.dump.errors import DumpError
from kaldi_compat.dump.options import DumpOptions
from kaldi_compat.dump.read import Clock, Lines, Task, TaskReader, read_audio, read_task, read_tasks_ahead
from kaldi_compat.dump.speed_perturb import change_speed, make_speed_directory, split_speed
from kaldi_compat.exact.resample import resample_waveform
from tests.support.dump_data import RATE, audio, dump, make_data, write_wav


def tasks(count: int) -> list[Task]:
    return [Task(str(i), utterances=((i, f"u{i}", None),)) for i in range(count)]


def reading(delays: list[float], size: int = 10) -> tuple[list[int], object]:
    started: list[int] = []

    def one(task: Task) -> list[AudioOrFailure]:
        ((index, key, _),) = task.utterances
        started.append(index)
        time.sleep(delays[index])
        return [Audio.from_wave(index, key, io_ark.Wave(16000.0, np.zeros((1, size), np.int16)))]

    return started, one


@settings(max_examples=20, deadline=None)
@given(delays=st.lists(st.sampled_from([0.0, 0.001, 0.004]), max_size=20), threads=st.integers(1, 4))
def test_results_come_in_the_order_of_the_tasks(delays: list[float], threads: int) -> None:
    _, one = reading(delays)
    results = list(read_tasks_ahead(tasks(len(delays)), one, threads, 8, Clock()))  # type: ignore[arg-type]
    assert [each.index for each in results] == list(range(len(delays)))


def test_reading_ahead_is_bounded_in_tasks() -> None:
    started, one = reading([0.0] * 100)
    entries = read_tasks_ahead(tasks(100), one, 2, 8, Clock())  # type: ignore[arg-type]
    next(entries)
    time.sleep(0.2)
    assert len(started) <= 9
    entries.close()


def test_files_are_read_ahead_up_to_their_number_and_not_beyond() -> None:
    taken: list[int] = []
    each = (taken.append(1) or task for task in tasks(100))  # type: ignore[func-returns-value]
    entries = read_tasks_ahead(each, reading([0.0] * 100)[1], 1, 4, Clock())  # type: ignore[arg-type]
    for number in range(3):
        next(entries)
        assert len(taken) == 4 + number
    entries.close()


def test_reading_ahead_is_bounded_in_bytes() -> None:
    started, one = reading([0.0] * 100, size=1000)  # 2000 bytes each: two may wait
    entries = read_tasks_ahead(tasks(100), one, 1, 50, Clock(), 4000)  # type: ignore[arg-type]
    for _ in range(60):  # more than were submitted before a size was known
        next(entries)
    time.sleep(0.2)
    assert len(started) <= 60 + 3
    entries.close()


def test_closing_stops_the_threads() -> None:
    before = set(threading.enumerate())
    _, one = reading([0.01] * 50)
    entries = read_tasks_ahead(tasks(50), one, 4, 50, Clock())  # type: ignore[arg-type]
    next(entries)
    entries.close()
    assert before.issuperset(threading.enumerate())


def mixed_script(root: Path) -> list[bytes]:
    """Make lines that name files, places in an archive, a command and what cannot be read."""
    lines = []
    with io_ark.Writer(f"ark,scp:{root}/a.ark,{root}/a.scp", kind="wave") as writer:
        for i in range(40):
            path = root / f"{i}.wav"
            write_wav(path, audio(500 + 900 * (i % 4), i, channels=2 if i == 11 else 1), 8000 if i == 5 else RATE)
            if 20 <= i < 30:
                writer[f"u{i:02d}"] = io_ark.load(str(path), kind="wave")
            name = {3: f"cat {path} |", 7: f"{root}/missing.wav", 13: f" {path} "}.get(i, str(path))
            lines.append(f"u{i:02d} {name}")
    lines[20:30] = (root / "a.scp").read_text().splitlines()
    (root / "14.wav").write_bytes(b"RIFF")
    return [line.encode() for line in lines]


def separate(entries: Iterable[AudioOrFailure]) -> list[tuple[object, ...]]:
    """Return what entries hold, utterance by utterance."""
    return [
        (each.index, each.key, each.reason)
        if isinstance(each, Failure)
        else (each.index, each.key, each.value.sample_frequency, each.value.samples.tolist())
        for entry in entries
        for each in entry.separate()
    ]


@pytest.mark.parametrize("bytes_at_once", [1, 5000, 1 << 20])
@pytest.mark.parametrize("max_duration", [1e9, 0.15])
def test_lines_that_are_read_together_give_what_they_give_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bytes_at_once: int, max_duration: float
) -> None:
    options = DumpOptions(max_duration=max_duration)
    lines = mixed_script(tmp_path)
    alone = [read_task(Lines(i, [line]).make_task(0), options)[0] for i, line in enumerate(lines)]
    monkeypatch.setattr(read, "BLOCK_BYTES", bytes_at_once)
    reader = TaskReader(options)
    tasks = read._iterate_script_tasks(iter(lines), lambda: reader.lines_at_once)
    found = list(read_tasks_ahead(tasks, reader, 2, 32, Clock()))
    assert separate(found) == separate(cast(list[AudioOrFailure], alone))
    assert any(len(each) > 1 for each in found) == bool(native.library())


@pytest.mark.parametrize(
    ("bytes_at_once", "lines", "expected"),
    [(32_000, 8, 16), (31_999, 8, 8), (32_000, 7, 8), (4000, 8, 2), (1, 8, 1), (1 << 20, 200, 256)],
)
def test_number_of_lines_that_are_read_together_follows_their_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bytes_at_once: int, lines: int, expected: int
) -> None:
    write_wav(tmp_path / "a.wav", audio(1000, seed=1, channels=1))
    monkeypatch.setattr(read, "BLOCK_BYTES", bytes_at_once)
    monkeypatch.setattr(TaskReader, "_load_block", lambda self, lines, first: None)
    reader = TaskReader(DumpOptions())
    results = reader(Lines(3, [f"u{i} {tmp_path}/a.wav".encode() for i in range(lines)]))
    unread = [result for result in results if isinstance(result, Lines)]
    assert reader.lines_at_once == expected and [len(each) for each in unread] == [lines - expected] * (expected < 8)
    assert [each.index for each in results] == list(range(3, 3 + len(results)))


def test_a_dump_reads_several_lines_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    call = TaskReader.__call__

    def counted(self: TaskReader, task: Task | Lines | Failure) -> read.ReadResult:
        sizes.extend([len(task)] if isinstance(task, Lines) else [])
        return call(self, task)

    monkeypatch.setattr(TaskReader, "__call__", counted)
    assert dump(make_data(tmp_path, 12, samples=(2000,))) == 0
    assert sorted(sizes) == [4, 8]


def test_commands_are_read_side_by_side_whatever_follows_them() -> None:
    lines = [b"a a.wav", b"b cat b.wav |", b"c cat c.wav | \t", b"d d.wav"]
    tasks = list(read._iterate_script_tasks(iter(lines), lambda: 9))
    assert [len(each) if isinstance(each, Lines) else each.rxfilename for each in tasks] == [
        1, "cat b.wav |", "cat c.wav |", 1,
    ]  # fmt: skip


def test_files_that_are_too_large_for_a_block_are_not_loaded_into_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "MAX_BLOCK_FILE_BYTES", 3000)
    lines = mixed_script(tmp_path)[30:]
    found = TaskReader(DumpOptions())(Lines(0, lines))
    blocks = [each.block for each in found if isinstance(each, Audio) and len(each) > 1]
    assert all((2 * block.lengths <= 3000).all() for block in blocks if isinstance(block, WaveBlock))
    assert bool(blocks) == bool(native.library())
    assert len(separate(cast(list[AudioOrFailure], found))) == 10


def test_a_recording_is_read_once_for_its_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kaldi_compat.dump.options import Job, Layout
    from kaldi_compat.dump.plan import make_plan

    data = make_data(tmp_path, 1)
    write_wav(data / "wav" / "r.wav", audio(48000, 3))
    (data / "wav.scp").write_text(f"r1 {data}/wav/r.wav\nr2 {data}/wav/r.wav\n")
    (data / "segments").write_text("a r1 0 1\nb r1 1 2\nc r2 0 1\nd r1 2 2.5\n")
    job = Job(Layout.from_paths(data, "fbank"), DumpOptions(conf=str(tmp_path / "conf" / "fbank.conf"), nj=1))
    plan = make_plan(job)
    found = list(read.list_tasks(job, plan, plan.shards[0], Script.open(str(data / "wav.scp"))))
    found_tasks = [task for task in found if isinstance(task, Task)]
    assert [[key for _, key, _ in task.utterances] for task in found_tasks] == [["a", "b"], ["c"], ["d"]]
    cut = [each for task in found_tasks for each in read_task(task, DumpOptions())]
    whole = io_ark.load(str(data / "wav" / "r.wav"), kind="wave").samples
    assert isinstance(cut[1], Audio)
    np.testing.assert_array_equal(cut[1].value.samples, whole[:, 16000:32000])
    assert [each.index for each in cut] == [0, 1, 2, 3]


def test_file_without_audio_is_named(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not audio")
    with pytest.raises(FormatError, match=r"notes\.txt:0: expected RIFF or RIFX"):
        read_audio(str(path), DumpOptions())


@pytest.mark.parametrize(
    ("error", "reason"),
    [(OSError(5, "bad disk"), "bad disk"), (MemoryError(), "memory"), (FormatError("no audio"), "no audio")],
)
def test_file_that_cannot_be_read_fails_for_each_of_its_utterances(
    monkeypatch: pytest.MonkeyPatch, error: Exception, reason: str
) -> None:
    def fail(rxfilename: str, options: DumpOptions) -> io_ark.Wave:
        raise error

    monkeypatch.setattr(read, "read_audio", fail)
    entries = read_task(Task("a.wav", ((3, "a", None), (4, "b", None))), DumpOptions())
    assert [(entry.index, entry.key) for entry in entries if isinstance(entry, Failure)] == [(3, "a"), (4, "b")]
    assert all(reason in entry.reason for entry in entries if isinstance(entry, Failure))


def test_audio_in_memory_of_a_device_has_its_place_there(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")

    class Memory(read.RowMemory):
        def allocate(self, size: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
            self.tensor = torch.zeros(-(-size // 2), dtype=torch.int16)
            return cast("np.ndarray[tuple[int], np.dtype[np.uint8]]", self.tensor.numpy().view(np.uint8))

    for i in range(3):
        write_wav(tmp_path / f"{i}.wav", audio(800, i))
    lines = Lines(0, [f"u{i} {tmp_path}/{i}.wav".encode() for i in range(3)])
    [entry] = TaskReader(DumpOptions(), Memory)(lines)
    assert isinstance(entry, Audio) and entry.place is not None and isinstance(entry.block, WaveBlock)
    place = entry.place.tensor[entry.place.start :]
    assert place.numpy()[: len(entry.block.samples)].tolist() == entry.block.samples.tolist()
    assert TaskReader(DumpOptions(), read.RowMemory)(lines)[0].place is None  # type: ignore[union-attr]


def test_blocks_for_a_device_hold_at_most_the_audio_of_a_batch(tmp_path: Path) -> None:
    for i in range(9):
        write_wav(tmp_path / f"{i}.wav", audio(4000, i))
    lines = Lines(0, [f"u{i} {tmp_path}/{i}.wav".encode() for i in range(9)])
    reader = TaskReader(DumpOptions(device="cuda", batch_seconds=1.1), read.RowMemory)
    result = reader(lines)
    counts = [len(entry) for entry in result]
    assert sum(counts) == 9 and isinstance(result[-1], Lines) == bool(native.library())
    assert max(counts[:-1]) == (4 if native.library() else 1)


@pytest.mark.parametrize("seconds", [1e-9, 1e308, float("inf")])
def test_blocks_for_a_device_have_a_size_for_every_length_of_batches(seconds: float, tmp_path: Path) -> None:
    write_wav(tmp_path / "a.wav", audio(400, 1))
    lines = Lines(0, [f"u{i} {tmp_path}/a.wav".encode() for i in range(3)])
    result = TaskReader(DumpOptions(device="cuda", batch_seconds=seconds), read.RowMemory)(lines)
    assert not isinstance(result[0], Lines) and sum(map(len, result)) == 3


def test_flac_is_read(tmp_path: Path) -> None:
    soundfile = pytest.importorskip("soundfile")
    samples = audio(1000, 3, channels=2)
    soundfile.write(tmp_path / "a.flac", samples.T, RATE, subtype="PCM_16")
    np.testing.assert_array_equal(read_audio(str(tmp_path / "a.flac"), DumpOptions()).samples, samples)


@pytest.mark.parametrize(
    ("plain", "changed"),
    [
        ("/d/a.wav", "sox -t wav /d/a.wav -t wav - speed 0.9 |"),
        ("flac -dcs /d/a.flac |", "flac -dcs /d/a.flac | sox -t wav - -t wav - speed 0.9 |"),
        ("flac -dcs /d/a.flac|", "flac -dcs /d/a.flac | sox -t wav - -t wav - speed 0.9 |"),
        ("wavs.ark:17", "wav-copy wavs.ark:17 - | sox -t wav - -t wav - speed 0.9 |"),
        ("/d/a.FLAC", "sox /d/a.FLAC -b 16 -t wav - speed 0.9 |"),  # the script's command fails
        ("/d/b.aiff", "sox /d/b.aiff -b 16 -t wav - speed 0.9 |"),
        ("/d/flac.1", "sox -t wav /d/flac.1 -t wav - speed 0.9 |"),
    ],
)
def test_commands_are_those_of_perturb_data_dir_speed(tmp_path: Path, plain: str, changed: str) -> None:
    assert command_at_speed(tmp_path, plain, "0.9") == changed
    assert split_speed(changed) == (plain.replace("flac|", "flac |"), "0.9")
    assert split_speed(plain) == (plain, None)


def command_at_speed(folder: Path, plain: str, factor: str) -> str:
    (folder / "source").mkdir()
    (folder / "source" / "wav.scp").write_text(f"a {plain}\n")
    (folder / "source" / "utt2spk").write_text("a a\n")
    make_speed_directory(folder / "source", folder / "made", [factor])
    return (folder / "made" / "wav.scp").read_text().rstrip("\n").partition(" ")[2]


@pytest.mark.skipif(shutil.which("sox") is None, reason="sox is not installed")
def test_speed_of_flac_is_changed_by_sox_as_the_command_says(tmp_path: Path) -> None:
    soundfile = pytest.importorskip("soundfile")
    soundfile.write(tmp_path / "a.flac", audio(RATE, 1).T, RATE, subtype="PCM_24")
    wave = io_ark.load(command_at_speed(tmp_path, str(tmp_path / "a.flac"), "0.8"), kind="wave")
    assert wave.samples.dtype == np.int16
    assert abs(wave.samples.shape[1] - RATE / 0.8) <= 1


@pytest.mark.parametrize(("factor", "hertz"), [("0.9", 900.0), ("1.1", 1100.0), ("1.0", 1000.0), ("0.5", 500.0)])
def test_speed_changes_length_and_pitch(factor: str, hertz: float) -> None:
    tone = (8000 * np.sin(2 * np.pi * 1000 * np.arange(2 * RATE) / RATE)).astype(np.int16)
    changed = change_speed(io_ark.Wave(float(RATE), tone[None]), factor)
    assert changed.sample_frequency == RATE
    assert abs(changed.samples.shape[1] - 2 * RATE / float(factor)) <= 1
    middle = changed.samples[0, RATE // 4 : RATE // 4 + RATE].astype(float) * np.hanning(RATE)
    assert abs(np.argmax(np.abs(np.fft.rfft(middle))) - hertz) <= 1
    assert abs(np.abs(changed.samples[0, 1000:-1000]).max() - 8000) < 80


def test_samples_at_another_speed_are_rounded() -> None:
    samples = audio(4000, 1)
    exact = resample_waveform(samples[0].astype(np.float32), 17600, RATE)
    changed = change_speed(io_ark.Wave(float(RATE), samples), "1.1").samples[0]
    assert np.abs(changed - exact).max() <= 0.5


# The files of a data directory, and those that utils/data/perturb_data_dir_speed_3way.sh left of it.
SOURCE, PERTURBED_BY_KALDI = json.loads(
    (Path(__file__).parents[2] / "support" / "perturbed_by_kaldi.json").read_text()
).values()


def test_the_directory_is_that_of_kaldis_script(tmp_path: Path) -> None:
    source = tmp_path / "train"
    source.mkdir()
    for name, text in SOURCE.items():
        (source / name).write_text(text)
    make_speed_directory(source, tmp_path / "train_sp", ["0.9", "1.0", "1.1"])
    made = {path.name: path.read_text() for path in (tmp_path / "train_sp").iterdir()}
    assert made == PERTURBED_BY_KALDI
    with pytest.raises(DumpError, match="must differ from"):
        make_speed_directory(source, source, ["0.9"])


def write_source(folder: Path) -> Path:
    folder.mkdir()
    for name, text in SOURCE.items():
        (folder / name).write_text(text)
    return folder


def test_files_of_an_older_job_have_no_part_in_a_speed_directory(tmp_path: Path) -> None:
    source, target = write_source(tmp_path / "train"), tmp_path / "train_sp"
    target.mkdir()
    old = {"spk2warp": "spk1 1.2\n", "segments": "x y 0 1\n", "text": "x old\n", "wav.scp": "x old.wav\n",
           "utt2spk": "x x\n", "cmvn.scp": "x y\n", "utt2warp": "x 1\n", "reco2dur": "y 1\n"}  # fmt: skip
    for name, text in old.items():
        (target / name).write_text(text)
    (target / "notes.txt").write_text("mine")
    (tmp_path / "elsewhere").write_text("x elsewhere.wav\n")
    (target / "wav.scp").unlink()
    (target / "wav.scp").symlink_to(tmp_path / "elsewhere")
    make_speed_directory(source, target, ["0.9", "1.0", "1.1"])
    made = {path.name: path.read_text() for path in target.iterdir() if path.is_file()}
    assert made == PERTURBED_BY_KALDI | {"notes.txt": "mine"}
    kept = {path.name: path.read_text() for path in (target / ".backup").iterdir()}
    assert kept == old | {"wav.scp": "x elsewhere.wav\n"}
    assert (tmp_path / "elsewhere").read_text() == "x elsewhere.wav\n"


def test_a_speed_directory_that_fails_is_not_begun(tmp_path: Path) -> None:
    source, target = tmp_path / "train", tmp_path / "train_sp"
    source.mkdir()
    (source / "wav.scp").write_text("a a.wav\nb b.wav\n")
    (source / "utt2spk").write_text("a s2\nb s1\n")
    with pytest.raises(ArkError, match=f"^{target}/utt2spk: sp0.9-b: is not in sorted order"):
        make_speed_directory(source, target, ["0.9"])
    assert not target.exists()


@pytest.mark.parametrize("target", [".", "..", "train/..", "train/.backup", "link"])
def test_a_speed_directory_does_not_contain_its_source(
    tmp_path: Path, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    source = write_source(Path("train"))
    Path("link").symlink_to("train")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises((DumpError, ArkError), match=r"another|must differ"):
        make_speed_directory(source, Path(target), ["0.9"])
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("name", "line", "says"),
    [
        ("segments", "utt9 rec1 0.5 1_0", "times in seconds, not 'utt9 rec1 0.5 1_0'"),
        ("segments", "utt9 rec1 0.5", "4 words or more, not 'utt9 rec1 0.5'"),
        ("utt2dur", "utt9 long", "times in seconds, not 'utt9 long'"),
        ("wav.scp", "rec9", "2 words or more, not 'rec9'"),
        ("utt2spk", "utt9", "an utterance and its speaker: 'utt9'; correct this line"),
    ],
)
def test_lines_that_cannot_be_perturbed_are_named(tmp_path: Path, name: str, line: str, says: str) -> None:
    source = tmp_path / "train"
    source.mkdir()
    for each, text in SOURCE.items():
        (source / each).write_text(text)
    with open(source / name, "a") as file:
        file.write(f"{line}\n")
    with pytest.raises(
        (DumpError, ArkError), match=rf"^{re.escape(str(source / name))}:\d: expected {re.escape(says)}"
    ):
        make_speed_directory(source, tmp_path / "train_sp", ["0.9"])


def test_utterances_that_fix_data_dir_drops_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "train"
    source.mkdir()
    for each, text in SOURCE.items():
        (source / each).write_text(text.replace("spk2-u3 c d\n", "") if each == "text" else text)
    make_speed_directory(source, tmp_path / "train_sp", ["1.0"])
    assert "kept 3 utterances out of 4" in capsys.readouterr().err


@pytest.mark.parametrize("speed", ["50c", "0", "1_0"])
def test_speeds_that_only_sox_knows_are_left_to_it(speed: str) -> None:
    assert split_speed(f"sox -t wav a.wav -t wav - speed {speed} |")[1] is None
