"""Writers whose writes fail or are interrupted: what `close()` vouches for is in the table, whole, and nothing else."""

from __future__ import annotations

import errno
import io
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import io_ark
from io_ark.blocks import ArrayBlock
from io_ark.errors import WriteError
from io_ark.streams import output, process

KEYS = [f"utt{i}" for i in range(6)]
FULL = OSError(errno.ENOSPC, "No space left on device")


def matrix(key: str) -> np.ndarray[Any, Any]:
    return np.full((1 + int(key[-1]) % 3, 2), float(key[-1]), np.float32)


def create_block(keys: list[str]) -> ArrayBlock:
    return ArrayBlock.from_arrays(keys, [matrix(key) for key in keys])


class Faulty:
    """A file system that takes a few bytes per call, and of which one call fails after some bytes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left, self.error = sys.maxsize, KeyboardInterrupt()
        monkeypatch.setattr(output, "open", self.open, raising=False)
        monkeypatch.setattr(output, "OUTPUT_BUFFER", 24)
        monkeypatch.setattr(output, "FILE_BUFFER", 24)

    def open(self, file: Any, mode: str, buffering: int) -> Any:
        faults = self

        class File(io.FileIO):
            def write(self, data: Any) -> int:
                if faults.left == 0:
                    faults.left = sys.maxsize
                    raise faults.error
                count = super().write(bytes(data)[: min(faults.left, 11)])
                faults.left -= count
                return count

        assert buffering == 0
        return File(file, mode)


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Faulty:
    Path("w.scp").write_text("".join(f"{key} {key}.mat\n" for key in KEYS))
    return Faulty(monkeypatch)


def entries(writer: io_ark.Writer[Any]) -> Iterator[tuple[list[str], Callable[[], None]]]:
    for key in KEYS:
        yield [key], lambda key=key: writer.write(key, matrix(key))


def blocks(writer: io_ark.Writer[Any]) -> Iterator[tuple[list[str], Callable[[], None]]]:
    for keys in KEYS[:3], KEYS[3:]:
        block = create_block(keys)
        yield keys, lambda block=block: writer.write_block(block)


def numbers(writer: io_ark.Writer[Any]) -> Iterator[tuple[list[str], Callable[[], None]]]:
    for key in KEYS:
        yield [key], lambda key=key: writer.write(key, int(key[-1]))


def run(kind: str, wspecifier: str, steps: Any) -> tuple[list[str], set[str], bool]:
    """Write all entries; return the accepted keys, those that were interrupted, and if close() returned."""
    for old in Path().glob("o*"):
        old.unlink()
    writer: io_ark.Writer[Any] = io_ark.Writer(wspecifier, kind=kind)  # type: ignore[call-overload]
    accepted: list[str] = []
    interrupted: set[str] = set()
    for keys, write in steps(writer):
        try:
            write()
        except (KeyboardInterrupt, WriteError):
            interrupted.update(keys)
        else:
            accepted += keys
    closed = False
    with suppress(WriteError):
        try:
            writer.close()
        except KeyboardInterrupt:
            writer.close()
        closed = True
    for _ in range(2):
        if not closed:
            with pytest.raises(WriteError):
                writer.close()
    return accepted, interrupted, closed


def check(kind: str, wspecifier: str, steps: Any) -> bool:
    """Return True if close() raised; else compare the table with the accepted entries."""
    accepted, interrupted, closed = run(kind, wspecifier, steps)
    if not closed:
        return True
    value = matrix if kind == "matrix" else lambda key: int(key[-1])
    if wspecifier.startswith("scp"):
        for key in accepted:
            np.testing.assert_array_equal(io_ark.load(f"{key}.mat"), value(key))
        return False
    for table in ["ark:o.ark"] + ["scp:o.scp"] * ("scp" in wspecifier):
        found = dict(io_ark.SequentialReader(table, kind=kind))  # type: ignore[call-overload]
        assert [key for key in found if key not in interrupted] == accepted, table
        for key, each in found.items():
            np.testing.assert_array_equal(each, value(key))
    return False


TABLES = ["ark:o.ark", "ark,f:o.ark", "ark,scp:o.ark,o.scp", "ark,scp,f:o.ark,o.scp"]


@pytest.mark.sweep
@pytest.mark.parametrize("error", [FULL, KeyboardInterrupt()], ids=["full", "interrupted"])
@pytest.mark.parametrize(("kind", "steps"), [("matrix", entries), ("matrix", blocks), ("int", numbers)])
@pytest.mark.parametrize("wspecifier", [*TABLES, "scp:w.scp", "ark:| cat > o.ark"])
def test_failed_write_is_an_error_of_close_whichever_byte_it_is(
    wspecifier: str, kind: str, steps: Any, error: BaseException, faulty: Faulty
) -> None:
    if wspecifier.startswith("scp") and kind == "int":
        pytest.skip("the files of the script file have one kind")
    assert not check(kind, wspecifier, steps)
    faulty.error = error  # type: ignore[assignment]
    step = 23 if "|" in wspecifier else 5 if wspecifier.startswith("scp") else 1
    for count in range(0, 10_000, step):
        faulty.left = count
        failed = check(kind, wspecifier, steps)
        if faulty.left < sys.maxsize // 2:
            break  # all bytes were written
        assert failed, count
    assert count > 40


@pytest.mark.sweep
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(("kind", "steps"), [("matrix", entries), ("matrix", blocks), ("int", numbers)])
@pytest.mark.parametrize("wspecifier", ["ark:o.ark", "ark,scp,f:o.ark,o.scp"])
def test_interrupt_between_two_instructions_loses_nothing_in_silence(
    wspecifier: str, kind: str, steps: Any, faulty: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "interrupt_later", lambda: None)  # which would interrupt pytest
    own = {module.__file__ for module in (output, sys.modules[io_ark.Writer.__module__])}
    left = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if frame.f_code.co_filename not in own:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
        return trace

    outcomes = set()
    for count in range(1, 100_000, 11):
        left = count
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            outcomes.add(check(kind, wspecifier, steps))
        except KeyboardInterrupt:
            pass  # while the writer was opened
        finally:
            sys.settrace(before)
        if left > 0:
            break
    assert outcomes == {True, False}


class FullDisk:
    """A file system of which all files together take some bytes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, buffer: int) -> None:
        self.left, self.error = sys.maxsize, FULL
        monkeypatch.setattr(output, "open", self.open, raising=False)
        for name in "OUTPUT_BUFFER", "FILE_BUFFER":
            monkeypatch.setattr(output, name, buffer)

    def open(self, file: Any, mode: str, buffering: int) -> Any:
        disk = self

        class File(io.FileIO):
            def write(self, data: Any) -> int:
                if disk.left == 0:
                    raise disk.error
                count = super().write(bytes(data)[: disk.left])
                disk.left -= count
                return count

        return File(file, mode)


MANY = [f"u{i:02}" for i in range(16)]


def by_writer(write_block: bool) -> None:
    with io_ark.Writer("ark,scp:o.ark,o.scp", kind="matrix") as writer:
        if write_block:
            for keys in MANY[:9], MANY[9:]:
                writer.write_block(create_block(keys))
        else:
            for key in MANY:
                writer[key] = matrix(key)


@pytest.mark.parametrize("error", [FULL, KeyboardInterrupt()], ids=["full", "interrupted"])
@pytest.mark.parametrize("buffer", [24, 60])
@pytest.mark.parametrize("write_block", [False, True])
def test_script_file_on_a_full_disk_names_whole_entries_only(
    write_block: bool, buffer: int, error: OSError, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_script_file(lambda: by_writer(write_block), FullDisk(monkeypatch, buffer), error)


def check_script_file(write: Callable[[], None], disk: FullDisk, error: BaseException) -> None:
    lengths = set()
    for left in range(0, 10_000, 5):
        disk.left, disk.error = left, error
        try:
            write()
        except (WriteError, KeyboardInterrupt):
            lines = Path("o.scp").read_bytes()
            assert lines.endswith(b"\n") or not lines, left
            for key, value in io_ark.load_scp("o.scp").items() if lines else ():
                assert (value.dtype, value.shape) == (matrix(key).dtype, matrix(key).shape)
                np.testing.assert_array_equal(value, matrix(key))
            lengths.add(lines.count(b"\n"))
        else:
            break
    assert lengths >= {0, len(MANY) - 1}
    assert len(lengths) > 2


def test_interrupt_while_a_forgotten_writer_is_closed_ends_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    faults = Faulty(monkeypatch)
    writer = io_ark.Writer(f"ark:{tmp_path}/a.ark", kind="vector")
    writer["utt0"] = np.ones(1, np.float32)
    faults.left = 0
    with pytest.raises(KeyboardInterrupt):  # after the deletion, which lets no exception out
        del writer
        for _ in range(100):
            time.sleep(0.05)
    assert "closing an output was interrupted: the output is incomplete" in caplog.text
