"""The record of the files that the calls of an extractor use, whatever function opens them."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kaldi_compat.dump.call_record import UPDATED_FILE, record_calls

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
