"""Commands: exit status, failures, and refusing to run them."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

import io_ark
from io_ark.errors import (
    PipeError,
    ReaderGoneError,
    WriteError,
)
from io_ark.streams.input import open_input
from io_ark.streams.output import open_output
from io_ark.streams.pipes import spawn, wait_for


def test_exit_status_of_a_command_is_returned() -> None:
    opened = open_input("echo hello; exit 3 |")
    assert opened.source.read_rest() == b"hello\n"
    assert opened.close() == 3
    assert opened.close() == 0
    ended = open_input("kill -9 $$ |")
    assert ended.source.read_rest() == b""
    assert ended.close() == -9


def test_command_not_read_to_its_end_stops_quietly(capfd: pytest.CaptureFixture[str]) -> None:
    with open_input("yes |") as opened:
        assert bytes(opened.source.read(2)) == b"y\n"
    assert capfd.readouterr().err == ""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs Linux")
def test_commands_do_not_ignore_the_signals_that_python_ignores() -> None:
    with open_input("grep SigIgn /proc/self/status |") as opened:
        ignored = int(bytes(opened.source.read_rest()).split()[1], 16)
    assert not any(ignored >> (number - 1) & 1 for number in (signal.SIGPIPE, signal.SIGXFSZ))


def test_command_that_fails_or_stops_reading_is_an_error(tmp_path: Path) -> None:
    output = open_output(f"| cat > {tmp_path}/a; exit 4")
    output.write(b"x")
    with pytest.raises(PipeError, match="exit status 4"):
        output.close()
    killed = open_output("| kill -9 $$")
    with pytest.raises(PipeError, match="ended by signal 9"):
        killed.close()
    gone = open_output("| exec <&-; sleep 0.1")
    with pytest.raises((ReaderGoneError, PipeError)) as caught:
        for _ in range(100):
            gone.write(b"x" * 100_000)
    assert isinstance(caught.value, BrokenPipeError)
    with pytest.raises(WriteError, match="output is incomplete"):
        gone.close()


@pytest.mark.parametrize("target", ["ark:o", "ark:| exec sleep 8"])
@pytest.mark.parametrize("source", ["ark:exec sleep 8 |", "scp:echo u 'exec sleep 8 |' |", "scp:exec sleep 8 |"])
def test_interrupt_does_not_wait_for_a_command(
    source: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    begin = time.monotonic()
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with (
        pytest.raises(KeyboardInterrupt),
        io_ark.Writer(target, kind="matrix") as writer,
        io_ark.SequentialReader(source, kind="matrix") as reader,
    ):
        for key, value in reader:
            writer[key] = value
    assert time.monotonic() - begin < 4


def test_command_that_runs_on_after_an_interrupt_counts_as_interrupted() -> None:
    process, end = spawn("exec sleep 60", 0, "|sleep 60")
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        assert wait_for(process) == -signal.SIGINT
    finally:
        os.close(end)
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


@pytest.mark.parametrize("command", ["echo \0", "echo \ud800"])
def test_command_that_cannot_be_started_is_an_ark_error(command: str) -> None:
    with pytest.raises(PipeError, match="cannot be started"):
        open_input(f"{command} |")


def test_command_is_refused_where_there_is_no_posix_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("io_ark.streams.pipes.can_run_commands", lambda: False)
    with pytest.raises(PipeError, match="commands need a POSIX system"):
        open_input("echo |")
