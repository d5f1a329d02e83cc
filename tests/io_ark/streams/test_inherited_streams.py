"""Standard streams that do not block or have no buffer, and pipes that forked processes inherit."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import io_ark
from io_ark.cli.ark import main
from io_ark.data_dir.line_chunks import read_chunks
from io_ark.streams.source import StreamSource
from io_ark.streams.system import buffer_standard_output, wait_for_bytes
from tests.support.processes import output_of

posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX")
FILTER = "import sys; from io_ark.data_dir.scripts import run_data_command; sys.exit(run_data_command(sys.argv[1:]))"
ARK = "import sys; from io_ark.cli.ark import main; sys.exit(main(sys.argv[1:]))"
PROGRAM = """
import sys
from kaldi_compat.cli.program import run_printing_command
sys.exit(run_printing_command(lambda: print("x" * 10_000, end="") or 0))
"""
READ = "import io_ark, sys; print(*(f'{key} {value}' for key, value in io_ark.read('ark,t:-')), sep='\\n')"


@posix
@pytest.mark.parametrize("code", [READ, FILTER])
def test_standard_input_that_does_not_block_is_read_to_its_end(code: str, tmp_path: Path) -> None:
    (tmp_path / "list").write_text("a\nb\nc\n")
    reading_end, writing_end = os.pipe()
    os.set_blocking(reading_end, False)
    arguments = ["filter", str(tmp_path / "list")] if code == FILTER else []
    with subprocess.Popen([sys.executable, "-c", code, *arguments], stdin=reading_end, stdout=subprocess.PIPE) as job:
        os.close(reading_end)
        assert job.stdout is not None
        for part in (b"a 1\nb", b" 2\n", b"c 3\n"):
            time.sleep(0.3)
            os.write(writing_end, part)
        os.close(writing_end)
        assert job.stdout.read() == b"a 1\nb 2\nc 3\n"
    assert job.returncode == 0


def test_stream_without_bytes_has_not_ended() -> None:
    parts = [b"ab", None, None, b"c", b""]

    class Slow:
        def readinto(self, buffer: memoryview) -> int | None:
            if (part := parts.pop(0)) is None:
                return None
            buffer[: len(part)] = part
            return len(part)

    source = StreamSource(Slow())
    assert (source.read(3), source.at_end()) == (b"abc", True)


@posix
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    ("code", "arguments"), [(FILTER, ["filter", "list", "list"]), (ARK, ["show", "a"]), (PROGRAM, [])]
)
def test_output_that_a_full_disk_cuts_is_an_error(
    code: str, arguments: list[str], unbuffered: str, tmp_path: Path
) -> None:
    """Without a buffer, Python ignores that only a part of the bytes was written."""
    (tmp_path / "list").write_text("".join(f"{number}\n" for number in range(10_000)))
    io_ark.save(tmp_path / "a", "x" * 10_000, kind="token")
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))\n"
    with open(tmp_path / "out", "wb") as out:
        done = subprocess.run(
            [sys.executable, "-c", limit + code, *arguments],
            cwd=tmp_path,
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert (done.returncode != 0, "File too large" in done.stderr) == (True, True), done
    assert len(done.stderr.splitlines()) == 1


@posix
@pytest.mark.parametrize("target", ["| cat > {}/out", "{}/fifo"])
def test_reader_of_a_pipe_does_not_wait_for_a_forked_process(target: str, tmp_path: Path) -> None:
    """A worker that is forked while the pipe is open, and outlives it, inherits a copy of the pipe's writing end."""
    os.mkfifo(tmp_path / "fifo")
    code = """
import os, signal, subprocess, sys, time
import io_ark
folder = sys.argv[1]
reader = None
if "fifo" in sys.argv[2]:
    reader = subprocess.Popen(["cat", folder + "/fifo"], stdout=open(folder + "/out", "wb"))
with io_ark.writer("ark,t:" + sys.argv[2], kind="token") as writer:
    writer["a"] = "x"
    if not (child := os.fork()):
        time.sleep(60)
        os._exit(0)
    signal.alarm(20)
if reader:
    reader.wait()
os.kill(child, signal.SIGKILL)
"""
    output_of(code, str(tmp_path), target.format(tmp_path))
    assert (tmp_path / "out").read_text() == "a x\n"


class _Collected(io.RawIOBase):
    """Unbuffered stream of a caller without a file descriptor."""

    data = b""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.data += bytes(data)
        return len(data)


class _Captured(io.TextIOWrapper):
    """Stream of a test framework over a file without a buffer, which it empties by itself."""


def test_streams_in_the_place_of_standard_output_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    io_ark.save(tmp_path / "a", "x", kind="token")
    collected = _Collected()
    for raw, kind in ((collected, io.TextIOWrapper), (io.FileIO(tmp_path / "out", "w"), _Captured)):
        stream = kind(raw, write_through=True)  # type: ignore[arg-type]
        monkeypatch.setattr(sys, "stdout", stream)
        assert (main(["show", str(tmp_path / "a")]), sys.stdout) == (0, stream)
    assert (tmp_path / "out").read_bytes() == collected.data != b""


def test_buffered_standard_output_keeps_its_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Text that was printed before comes first, lines are sent at once, and the descriptor stays open."""
    raw = io.FileIO(tmp_path / "out", "w")
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="latin-1", errors="backslashreplace"))
    del raw
    print("\xe9", end="")
    buffer_standard_output()
    print("\xe8\udc80")
    assert (tmp_path / "out").read_bytes() == b"\xe9\xe8\\udc80\n"


def test_wait_for_bytes_leaves_the_processor_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("io_ark.streams.system.time.sleep", pauses.append)
    results = [None, None, 3]
    assert wait_for_bytes(lambda target: results.pop(0), bytearray(3)) == 3
    assert len(pauses) == 2 and all(0 < pause < 1 for pause in pauses)


def test_descriptor_that_is_read_in_chunks_stays_open(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x 1\ny 2")
    with open(tmp_path / "a", "rb") as file:
        assert b"".join(read_chunks(file.fileno())) == b"x 1\ny 2"
        assert os.fstat(file.fileno()).st_size == 7
