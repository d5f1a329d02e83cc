"""Writing to files, commands and standard output."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from io_ark.errors import (
    ClosedError,
    OpenError,
    WriteError,
)
from io_ark.streams.output import open_output
from tests.support.processes import output_of, python


@pytest.mark.parametrize("name", ["nosuch/x", ".", "a\0b"])
def test_file_that_cannot_be_written_gives_one_line(name: str, tmp_path: Path) -> None:
    with pytest.raises(OpenError, match="cannot be opened for writing"):
        open_output(f"{tmp_path}/{name}")


def test_file_and_command_receive_all_bytes(tmp_path: Path) -> None:
    big = os.urandom(300_000)
    for target in f"{tmp_path}/plain", f"| cat > {tmp_path}/plain":
        with open_output(target) as output:
            output.write(b"key ")
            assert output.tell() == 4
            output.write(big)
            output.write(np.arange(3, dtype=np.int32).data)
            assert output.tell() == 300_016
        assert (tmp_path / "plain").read_bytes() == b"key " + big + np.arange(3, dtype=np.int32).tobytes()


def test_flush_writes_buffered_bytes(tmp_path: Path) -> None:
    output = open_output(f"{tmp_path}/a")
    output.write(b"x")
    assert (tmp_path / "a").read_bytes() == b""
    output.flush()
    assert (tmp_path / "a").read_bytes() == b"x"
    output.close()
    with pytest.raises(ClosedError):
        output.write(b"x" * 200_000)


def test_output_that_is_never_closed_is_written(tmp_path: Path) -> None:
    output = open_output(f"{tmp_path}/a")
    output.write(b"x")
    del output
    assert (tmp_path / "a").read_bytes() == b"x"


def test_full_disk_is_an_error() -> None:
    output = open_output("/dev/full")
    output.write(b"x")
    with pytest.raises(WriteError, match="No space left"):
        output.close()
    with pytest.raises(WriteError), open_output("/dev/full") as output:
        output.write(b"x" * 1_000_000)


def test_output_and_print_keep_their_order_on_standard_output(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    script = """
import sys, io_ark.streams.output
print("before")
with io_ark.streams.output.open_output("-") as output:
    output.write(b"binary\\n")
print("after")
"""
    assert output_of(script) == "before\nbinary\nafter\n"


def test_appended_output_counts_from_the_old_size(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"before")
    with open_output(f"{tmp_path}/a", append=True) as output:
        output.write(b" after")
        assert (output.start, output.tell()) == (6, 6)
    assert (tmp_path / "a").read_bytes() == b"before after"


def test_broken_append_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    """No entry that is appended later could be read after an incomplete entry."""
    (tmp_path / "a").write_bytes(b"before")
    output = open_output(f"{tmp_path}/a", append=True)
    with pytest.raises(KeyboardInterrupt), output.entry:
        output.write(b"x" * 1_000_000)
        raise KeyboardInterrupt
    with pytest.raises(WriteError, match="an earlier write failed"):
        output.close()
    assert (tmp_path / "a").read_bytes() == b"before"


@pytest.mark.parametrize("flush", ["", "output.flush()"])
@pytest.mark.parametrize("target", ["{}", "| cat > {}", "-"])
def test_fork_does_not_write_buffered_bytes_twice(target: str, flush: str, tmp_path: Path) -> None:
    script = """
import os, sys
from io_ark.streams.output import open_output
output = open_output(sys.argv[1])
output.write(b"once\\n")
FLUSH
if os.fork() == 0:
    try:
        output.write(b"child\\n")
    except ValueError as error:
        os.write(2, str(error).encode())
    output.close()
    sys.exit(0)
os.wait()
output.write(b"x" * 200000 + b"\\n")
output.close()
"""
    # An unbuffered sys.stdout would hide the fault.
    done = python(script.replace("FLUSH", flush), target.format(tmp_path / "out"), PYTHONUNBUFFERED="")
    assert done.returncode == 0, done.stderr
    written = done.stdout if target == "-" else (tmp_path / "out").read_text()
    assert written == "once\n" + "x" * 200_000 + "\n"
    assert "was opened in the parent of this process" in done.stderr
