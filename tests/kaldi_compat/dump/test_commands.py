"""Commands of wav.scp end with their job, within their time, and at the longest duration of an utterance."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from io_ark.codecs import codec
from io_ark.errors import ArkError, PipeError, PipesRefusedError
from kaldi_compat.dump import commands
from tests.kaldi_compat.dump.test_kill import MAIN, start, wait_for
from tests.support.dump_data import archive_bytes, audio, dump, edited, failures, make_data, matrices, write_wav
from tests.support.resources import list_open_files

SECONDS_TO_END = 2.0


def hanging_data(root: Path) -> tuple[Path, str]:
    """Utterances of which one is a command that hangs, in a child of its shell; and what its command line contains."""
    data = make_data(root, 4, samples=(2000,))
    mark = f"98765.{secrets.randbelow(10**9):09d}"
    with edited(data / "wav.scp") as places:
        places["spk0-utt001"] = f"touch {data}/begun; sleep {mark}; true |"
    return data, mark


def processes_with(mark: str) -> list[int]:
    """Processes, apart from zombies, whose command line contains a word."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (entry / "cmdline").read_bytes() and int(entry.name) != os.getpid():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def wait_until_gone(mark: str, seconds: float) -> None:
    end = time.monotonic() + seconds
    while left := processes_with(mark):
        assert time.monotonic() < end, f"processes {left} live on"
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("number", "nj"), [(signal.SIGTERM, 1), (signal.SIGINT, 1), (signal.SIGHUP, 1), (signal.SIGINT, 2)]
)
def test_one_signal_ends_job_and_commands(tmp_path: Path, number: signal.Signals, nj: int) -> None:
    data, mark = hanging_data(tmp_path)
    process = start(data, "--shard-utterances=2", nj=nj)
    try:
        wait_for(data / "begun")
        since = time.monotonic()
        process.send_signal(number)
        _, said = process.communicate(timeout=SECONDS_TO_END)  # which also waits until nobody holds standard error
        assert time.monotonic() - since < SECONDS_TO_END
        assert process.returncode == 130 and "--resume" in said and "Traceback" not in said
        wait_until_gone(mark, 1.0)
    finally:
        _end(process, mark)


@pytest.mark.parametrize("nj", [1, 2])
def test_commands_end_when_the_job_is_killed(tmp_path: Path, nj: int) -> None:
    data, mark = hanging_data(tmp_path)
    process = start(data, "--shard-utterances=2", nj=nj)
    try:
        wait_for(data / "begun")
        process.kill()
        process.communicate(timeout=SECONDS_TO_END)
        wait_until_gone(mark, SECONDS_TO_END)
    finally:
        _end(process, mark)


def _end(process: subprocess.Popen[str], mark: str) -> None:
    process.kill()
    for pid in processes_with(mark):
        os.kill(pid, signal.SIGKILL)
    process.wait()


@pytest.mark.parametrize("nj", [1, 2])
def test_command_that_takes_too_long_fails_alone(tmp_path: Path, nj: int) -> None:
    data, mark = hanging_data(tmp_path)
    assert dump(data, "--command-timeout=0.6", "--shard-utterances=2", nj=nj) == 1
    assert len(matrices(data / "feats.scp")) == 3
    late = r"spk0-utt001 .*: the command took longer than 0\.6 s: check the command or --command-timeout\n"
    assert re.fullmatch(late, failures(data))
    wait_until_gone(mark, 1.0)


def test_command_that_drips_does_not_outlive_its_time(tmp_path: Path) -> None:
    """There is always something to read, but the audio is long in coming."""
    data = make_data(tmp_path, 2, samples=(2000,))
    header = data / "header"
    header.write_bytes((data / "wav" / "spk0-utt000.wav").read_bytes()[:40] + struct.pack("<I", 20_000_000))
    with edited(data / "wav.scp") as places:
        places["spk0-utt000"] = f"cat {header}; dd if=/dev/zero bs=1 count=20000000 2> /dev/null |"
    since = time.monotonic()
    assert dump(data, "--command-timeout=0.2") == 1
    assert time.monotonic() - since < 4
    assert "took longer than 0.2 s" in failures(data)


def test_command_in_time_is_not_touched(tmp_path: Path) -> None:
    data = make_data(tmp_path, 2, samples=(2000,))
    assert dump(data) == 0
    expected = archive_bytes(data)
    with edited(data / "wav.scp") as places:
        places |= {key: f"sleep 0.2; cat {path} |" for key, path in places.items()}
    assert dump(data, "--command-timeout=20") == 0
    assert archive_bytes(data) == expected


def test_commands_do_not_read_the_terminal(tmp_path: Path) -> None:
    """ffmpeg and ssh read standard input, and would be stopped for it outside the terminal's process group."""
    data = make_data(tmp_path, 1, samples=(2000,))
    key, path = (data / "wav.scp").read_text().split()
    (data / "wav.scp").write_text(f"{key} cat; cat {path} |\n")
    conf = f"--conf={tmp_path}/conf/fbank.conf"
    command = [sys.executable, "-c", MAIN, "dump", "fbank", str(data), conf, "--nj=1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.wait(timeout=20) == 0
        finally:
            process.kill()


def endless(path: Path, *, data_bytes: int) -> str:
    """A command that gives a header and then zeros, more than anybody wants."""
    content = path.read_bytes()[:40] + struct.pack("<I", data_bytes)
    header = path.with_suffix(".header")
    header.write_bytes(content)
    return f"cat {header} /dev/zero |"


@pytest.mark.parametrize("data_bytes", [0xFFFFFFFF, 0x7FFFFFFF, 0x7FFFF000], ids=hex)
def test_endless_audio_fails_alone(tmp_path: Path, data_bytes: int) -> None:
    data = make_data(tmp_path, 3, samples=(2000,))
    with edited(data / "wav.scp") as places:
        places["spk0-utt001"] = endless(Path(places["spk0-utt001"]), data_bytes=data_bytes)
    assert dump(data, "--max-duration=60") == 1
    assert len(matrices(data / "feats.scp")) == 2
    assert re.match("spk0-utt001 .*longer than max_duration=60 s", failures(data))


@pytest.mark.parametrize("kind", ["wav", "flac"])
def test_long_file_fails_alone(tmp_path: Path, kind: str) -> None:
    data = make_data(tmp_path, 3, samples=(2000, 40000, 3000))
    if kind == "flac":
        soundfile = pytest.importorskip("soundfile")
        for path in (data / "wav").iterdir():
            soundfile.write(path.with_suffix(".flac"), *soundfile.read(path, dtype="int16"))
        (data / "wav.scp").write_text((data / "wav.scp").read_text().replace(".wav", ".flac"))
    assert dump(data, "--max-duration=2") == 1
    assert re.match("spk0-utt001 .*longer than max_duration=2 s", failures(data))


def test_announced_length_that_is_not_there_is_kaldis_warning(tmp_path: Path) -> None:
    """As Kaldi's programs, a dump takes what is there of audio whose header announces more."""
    data = make_data(tmp_path, 1, samples=(20000,))
    key, path = (data / "wav.scp").read_text().split()
    assert dump(data) == 0
    expected = matrices(data / "feats.scp")[key]
    content = bytearray(Path(path).read_bytes())
    content[40:44] = struct.pack("<I", 0x7FFFFFFF)
    Path(path).write_bytes(content)
    assert dump(data) == 0
    assert (matrices(data / "feats.scp")[key] == expected).all()
    assert "announced" in (data / "log" / "dump_fbank_train.1.log").read_text()


@pytest.mark.slow
def test_same_part_started_twice_at_once(tmp_path: Path) -> None:
    """Each process has temporary files of its own, and leaves those of the other alone."""
    data = make_data(tmp_path, 8, samples=(2000,))
    assert dump(data, "--shard-utterances=2") == 0
    expected = archive_bytes(data)
    with edited(data / "wav.scp") as places:
        places |= {key: f"sleep 0.3; cat {path} |" for key, path in places.items()}
    (data / "log" / "dump_fbank_train.plan.jsonl").unlink()
    jobs = [start(data, "--shard-utterances=2", "--shard=1/1") for _ in range(2)]
    for job in jobs:
        _, said = job.communicate(timeout=60)
        assert job.returncode == 0, said
    assert archive_bytes(data) == expected
    assert not list(data.glob("**/*unfinished*"))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system has no /proc")
def test_children_are_known_whatever_their_names(tmp_path: Path) -> None:
    program = tmp_path / "a) 7 (b"
    shutil.copy(shutil.which("sleep") or "/bin/sleep", program)
    with subprocess.Popen(["sh", "-c", '"$0" 30 & wait', str(program)]) as parent:
        try:
            end = time.monotonic() + 20
            while not (children := commands._list_descendants(parent.pid)) and time.monotonic() < end:
                time.sleep(0.01)
            assert len(children) == 1 and {parent.pid, *children} <= set(commands._list_descendants(os.getpid()))
            assert commands._list_descendants(children[0]) == []
        finally:
            for process in (*commands._list_descendants(parent.pid), parent.pid):
                os.kill(process, signal.SIGKILL)


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of Linux for an argument")
def test_command_that_cannot_be_started_is_named_and_leaves_no_open_file() -> None:
    group = commands.CommandGroup()
    process, reading = group.spawn("true", "a")  # starts the first process of the group
    os.close(reading)
    os.waitpid(process, 0)
    before = list_open_files()
    for command, reason in (("true " + "x" * (1 << 18), "Argument list too long"), ("true \0", "null byte")):
        with pytest.raises(PipeError, match=f"cannot be started: .*{reason}"):
            group.spawn(command, "b |")
    assert list_open_files() <= before
    group.end()
    with pytest.raises(PipeError, match="is not started, because the job is ending"):
        group.spawn("true", "c")


def test_commands_of_a_block_end_with_it_and_those_of_the_next_are_allowed() -> None:
    group = commands.CommandGroup()
    for _ in range(2):
        with group.allow_commands():
            process, reading = group.spawn("sleep 60", "a")
        os.close(reading)
        assert os.WTERMSIG(os.waitpid(process, 0)[1]) == signal.SIGKILL
        with pytest.raises(PipeError, match="is not started, because the job is ending"):
            group.spawn("true", "b")


def test_error_of_the_system_before_a_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> tuple[int, int]:
        raise OSError(errno.ENFILE, "Too many open files in system")

    monkeypatch.setattr(os, "pipe", fail)
    with pytest.raises(PipeError, match=r"cannot be started: Too many open files in system$"):
        commands.CommandGroup().spawn("true", "a |")


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_process_that_ends_commands_does_not_keep_standard_error_open() -> None:
    """Otherwise, a program that reads the standard error of a dump would wait for this process."""
    group = commands.CommandGroup()
    process, reading = group.spawn("true", "a")
    os.close(reading)
    os.waitpid(process, 0)
    assert {os.readlink(f"/proc/{group._guardian}/fd/{number}") for number in (1, 2)} == {os.devnull}
    group.end()


@pytest.mark.parametrize("timeout", [0.0, 30.0])
@pytest.mark.parametrize(("ending", "warning"), [
    ("true", ""), ("exit 3", "exit status 3"), ("kill -PIPE $$", ""), ("exit 141", ""), ("kill -TERM $$", "signal 15"),
])  # fmt: skip
def test_ending_of_a_command_after_complete_audio_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, timeout: float, ending: str, warning: str
) -> None:
    write_wav(tmp_path / "a.wav", audio(500, 1))
    with commands.COMMANDS.allow_commands():
        wave = commands.read_from_command(f"cat {tmp_path}/a.wav; {ending} |  ", codec("wave"), timeout=timeout)
    assert (wave.samples == audio(500, 1)).all()
    assert warning in caplog.text and len(caplog.records) == bool(warning)


@pytest.mark.parametrize(("command", "error", "text"), [
    ("echo broken; exit 7", PipeError, r"^echo broken; exit 7\|: the command had .*\(exit status 7\) \(expected"),
    ("echo broken", ArkError, r"^echo broken\|:0: expected RIFF"), ("true", ArkError, r"^true\|:0: expected RIFF"),
])  # fmt: skip
def test_status_of_a_command_explains_invalid_audio(command: str, error: type[Exception], text: str) -> None:
    with commands.COMMANDS.allow_commands(), pytest.raises(error, match=text):
        commands.read_from_command(f"{command}|", codec("wave"))


def test_command_is_not_run_without_permission(tmp_path: Path) -> None:
    with commands.COMMANDS.allow_commands(), pytest.raises(PipesRefusedError, match="is not run: pipes are disabled"):
        commands.read_from_command(f"touch {tmp_path}/ran |", codec("wave"), pipes=False)
    assert not (tmp_path / "ran").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_commands_receive_signals_that_this_process_ignores() -> None:
    """Python ignores SIGPIPE, and a thread may block signals; a command inherits neither."""
    group = commands.CommandGroup()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        process, reading = group.spawn("grep -E '^Sig(Blk|Ign)' /proc/self/status", "a")
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    with open(reading) as file:
        blocked, ignored = (int(line.split()[1], 16) for line in file)
    os.waitpid(process, 0)
    group.end()
    assert not blocked and not ignored >> signal.SIGPIPE - 1 & 1
