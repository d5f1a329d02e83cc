"""The record of the files that the calls of an extractor use, whatever function opens them."""

from __future__ import annotations

import contextlib
import ctypes
import glob
import importlib
import io
import linecache
import os
import runpy
import socket
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kaldi_compat.dump.call_record import EXTERNAL_EVENTS, LISTED_FOLDER, UPDATED_FILE, record_calls

READ: dict[str, Callable[[Path], Any]] = {
    "open": lambda path: open(path).close(),
    "text": lambda path: open(str(path)).close(),
    "bytes": lambda path: open(bytes(path)).close(),
    "FileIO": lambda path: io.FileIO(path).close(),  # type: ignore[arg-type]
    "descriptor": lambda path: os.close(os.open(path, os.O_RDONLY)),
    "method": lambda path: path.read_bytes(),
}


@pytest.mark.parametrize("how", READ)
def test_file_that_is_read_is_recorded(tmp_path: Path, how: str) -> None:
    path, other = tmp_path / "weights", tmp_path / "other"
    for file in (path, other):
        file.write_text("")
    with record_calls() as record:
        READ[how](path)
    assert list(record.list_files()) == [path] and not record.external
    READ[how](other)  # behind the block
    assert list(record.list_files()) == [path]


@pytest.mark.parametrize(("mode", "is_read", "is_external"), [("w", False, False), ("a", False, False),
                                                              ("r+", False, True), ("w+", False, False)])  # fmt: skip
def test_file_that_is_written_is_no_input(tmp_path: Path, mode: str, is_read: bool, is_external: bool) -> None:
    path = tmp_path / "cache"
    path.write_text("")
    with record_calls() as record:
        open(path, mode).close()
        open(path).close()
    assert bool(record.list_files()) is (is_read or is_external)
    assert record.external == ({UPDATED_FILE} if is_external else set())


@pytest.mark.parametrize("suffix", [".py", ".so"])
def test_a_file_of_code_is_data_unless_it_is_imported_or_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    """The digest of the object has the files of modules."""
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / f"weights{suffix}"
    path.write_text("scale = 2\n")
    (tmp_path / "imported_in_a_call.py").write_text("scale = 2\n")
    with record_calls() as record:
        importlib.import_module("imported_in_a_call")
        linecache.getlines(str(path))
        assert not record.list_files()
        path.read_bytes()
    assert record.list_files() == [path]
    with record_calls() as record:
        runpy.run_path(str(path))
    assert record.list_files() == [path]


def test_shared_library_is_recorded(tmp_path: Path) -> None:
    library = tmp_path / "filter.so"
    library.write_text("no library")
    with record_calls() as record:
        with pytest.raises(OSError, match="filter"):
            ctypes.CDLL(str(library))
        ctypes.CDLL(None)
    assert record.list_files() == [library]


@pytest.mark.parametrize("path", [os.devnull, "/proc/self/status", "/sys", os.__file__, np.__file__[:-2] + "data"])
def test_file_that_decides_no_number_is_not_recorded(path: str) -> None:
    with record_calls() as record, contextlib.suppress(OSError):
        open(path).close()
    assert not record.list_files() and not record.external


@pytest.mark.parametrize("module", ["torch._dynamo.convert_frame", "torch._inductor", "triton.compiler", "numba"])
@pytest.mark.parametrize("is_compiler", [False, True])
def test_file_of_a_compiler_is_not_recorded(tmp_path: Path, module: str, is_compiler: bool) -> None:
    """The compiler calls other libraries, which open the file."""
    path = tmp_path / "cache"
    path.write_text("")
    with record_calls() as record:
        exec("read()", {"__name__": module if is_compiler else f"my.{module}", "read": path.read_bytes})
    assert record.list_files() == [path] * (not is_compiler)


EXTERNAL: dict[str, Callable[[], Any]] = {
    "sqlite3.connect": lambda: sqlite3.connect(":memory:").close(),
    "subprocess.Popen": lambda: subprocess.run(["true"], check=True),
    "os.system": lambda: os.system("true"),
    "os.posix_spawn": lambda: os.waitpid(os.posix_spawn("/bin/sh", ["sh", "-c", "true"], {}), 0),
    "os.fork": lambda: os.waitpid(os.fork() or os._exit(0), 0),
    "os.forkpty": lambda: os.waitpid(os.forkpty()[0] or os._exit(0), 0),
    "socket.connect": lambda: socket.socket().connect_ex(("127.0.0.1", 1)),
    "socket.sendto": lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b"", ("127.0.0.1", 9)),
    "socket.sendmsg": lambda: socket.socket(type=socket.SOCK_DGRAM).sendmsg([b""], [], 0, ("127.0.0.1", 9)),
}
LISTING: dict[str, Callable[[Path], Any]] = {
    "listdir": os.listdir,
    "scandir": lambda path: os.scandir(path).close(),
    "walk": lambda path: list(os.walk(path)),
    "glob": lambda path: glob.glob(f"{path}/*.npy"),
    "method": lambda path: list(path.glob("*.npy")),
    "recursive method": lambda path: list(path.rglob("*.npy")),
    "folder": lambda path: list(path.iterdir()),
}


@pytest.mark.parametrize("how", LISTING)
def test_folder_that_the_users_code_lists_cannot_be_compared(tmp_path: Path, how: str) -> None:
    """A later call may find another file there, such as newer weights."""
    with record_calls() as record:
        exec("list_folder(path)", {"__name__": "numpy", "list_folder": os.listdir, "path": tmp_path})
        assert not record.external
        LISTING[how](tmp_path)
    assert record.external == {LISTED_FOLDER}


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="needs a folder in shared memory")
def test_file_in_shared_memory_is_an_ordinary_file() -> None:
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file, record_calls() as record:
        open(file.name).close()
    assert record.list_files() == [Path(file.name)]


@pytest.mark.parametrize("event", EXTERNAL_EVENTS)
def test_source_of_data_that_cannot_be_compared_is_described(event: str) -> None:
    with record_calls() as record:
        EXTERNAL[event]()
    assert record.external == {EXTERNAL_EVENTS[event]} and not record.read | record.written


def test_variables_that_the_users_code_reads_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library reads variables as well, which decide no number."""
    monkeypatch.setenv("SCALE", "2")
    kind = type(os.environ)
    with record_calls() as record:
        values = [os.environ["SCALE"], os.environ.get("SCALE"), os.getenv("OTHER", "3"), "THIRD" in os.environ]
        exec("'LIBRARY' in os.environ", {"__name__": "numpy", "os": os})
        with pytest.raises(KeyError):
            os.environ["MISSING"]
    assert values == ["2", "2", "3", False] and type(os.environ) is kind
    assert record.variables == {"SCALE", "OTHER", "THIRD", "MISSING"}
    os.environ.get("LATER")
    assert "LATER" not in record.variables


def test_record_ends_with_an_exception_of_the_calls(tmp_path: Path) -> None:
    kind = type(os.environ)
    with pytest.raises(ValueError, match="stop"), record_calls() as record:
        raise ValueError("stop")
    (tmp_path / "late").write_text("")
    assert not record.written and type(os.environ) is kind
