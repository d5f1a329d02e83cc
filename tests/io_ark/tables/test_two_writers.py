"""A file that is opened for writing again, as when a cell of a notebook runs twice: it has what was written last."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import io_ark
from io_ark.errors import ArkError, WriteError

MATRIX = np.ones((2, 3), np.float32)
AGAIN = "was opened for writing again before it was closed"
Open = Callable[[str], tuple[Callable[[str], Any], Callable[[], Any]]]
"""Opens an archive and returns the functions that write an entry and close it."""


def table(writer: Any, value: Any = MATRIX) -> Any:
    return lambda key: writer.__setitem__(key, value), writer.close


WRITERS: dict[str, Open] = {
    "io_ark.writer": lambda name: table(io_ark.writer(name)),
    "entries written together": lambda name: table(io_ark.Writer(f"ark:{name}", kind="vector"), MATRIX[0]),
    "io_ark.Writer, flushed": lambda name: table(io_ark.Writer(f"ark,f:{name}", kind="matrix")),
    "with a script file": lambda name: table(io_ark.writer(f"ark,scp:{name},{name}.scp")),
}


def other_names(name: str) -> list[str]:
    os.symlink(name, "link.ark")
    os.link(name, "hard.ark")
    return [name, f"./{name}", os.path.abspath(name), "link.ark", "hard.ark"]


@pytest.mark.parametrize("second", WRITERS)
@pytest.mark.parametrize("first", WRITERS)
def test_older_writer_of_a_file_does_not_write_over_the_newer(first: str, second: str, folder: Path) -> None:
    check_two_writers(WRITERS[first], WRITERS[second], with_script="script" in second)


def check_two_writers(first: Open, second: Open, with_script: bool) -> None:
    write, close = first("o.ark")
    for i in range(3):
        write(f"old{i}")
    write_again, close_again = second("o.ark")
    for i in range(5):
        write_again(f"new{i}")
    with pytest.raises((ArkError, ValueError), match=rf"{AGAIN}|earlier write|closed"):
        for i in range(3, 5):  # at the second entry at the latest
            write(f"old{i}")
    with pytest.raises((ArkError, ValueError), match=rf"{AGAIN}|closed file"):
        close()
    write_again("new5")
    close_again()
    assert list(dict(io_ark.read("o.ark"))) == [f"new{i}" for i in range(6)]
    if with_script:
        assert list(io_ark.load_scp("o.ark.scp")) == [f"new{i}" for i in range(6)]


def test_writer_that_is_forgotten_says_that_its_entries_are_lost(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for run in range(2):
        writer = io_ark.writer("o.ark")
        for i in range(10 - run):
            writer[f"run{run}-{i}"] = MATRIX
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == [
        f"o.ark: {AGAIN}, and its bytes are lost: close it before you open it again"
    ]
    writer.close()
    assert list(dict(io_ark.read("o.ark"))) == [f"run1-{i}" for i in range(9)]


def test_other_name_of_the_file_is_found(folder: Path) -> None:
    Path("o.ark").touch()
    for name in other_names("o.ark"):
        first = io_ark.writer("o.ark")
        first["old"] = MATRIX
        with io_ark.writer(name) as second:
            second["new"] = MATRIX
        with pytest.raises(WriteError, match=AGAIN):
            first["older"] = MATRIX
            first.flush()
        with pytest.raises(WriteError, match=AGAIN):
            first.close()
        assert list(dict(io_ark.read("o.ark"))) == ["new"]


def test_append_that_lost_its_file_does_not_truncate_it(folder: Path) -> None:
    from io_ark.streams.output import open_output

    Path("o").write_bytes(b"before ")
    older = open_output("o", append=True)
    older.write(b"lost")
    with open_output("o", append=True) as newer:
        newer.write(b"new")
    with pytest.raises(WriteError, match=AGAIN):
        older.close()
    assert Path("o").read_bytes() == b"before new"


def test_closed_writers_and_other_files_are_left_alone(folder: Path) -> None:
    with io_ark.writer("o.ark") as first:
        first["a"] = MATRIX
    second, third = io_ark.writer("o.ark"), io_ark.writer("p.ark")
    first.close()
    second["b"] = third["c"] = MATRIX
    os.unlink("o.ark")  # which keeps the inode
    fourth = io_ark.writer("o.ark")
    fourth["d"] = MATRIX
    for each in second, third, fourth:
        each.close()
    assert [list(dict(io_ark.read(name))) for name in ("o.ark", "p.ark")] == [["d"], ["c"]]
    with io_ark.writer("/dev/null") as null, io_ark.writer("/dev/null") as other:
        null["a"] = other["a"] = MATRIX


def test_forked_process_does_not_break_the_writer_of_its_parent(folder: Path) -> None:
    writer = io_ark.writer("o.ark")
    writer["a"] = MATRIX
    child = os.fork()
    if child == 0:
        os._exit(1 if io_ark.writer("o.ark") is writer else 0)
    assert os.waitpid(child, 0)[1] == 0
    writer["b"] = MATRIX
    writer.close()
    assert list(dict(io_ark.read("o.ark"))) == ["a", "b"]
