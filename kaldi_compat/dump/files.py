"""Files that are there whole or not at all, whatever happens while they are written."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import io_ark
from io_ark.errors import ArkError
from kaldi_compat.dump.errors import OutputError

TEMPORARY = ".unfinished-"


def make_directory(path: Path) -> None:
    """Make a directory, and those above it, unless it is there.

    Raises:
        OutputError: it cannot be made, or not be written to.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{path} cannot be made a directory: {error.strerror}") from None
    if not os.access(path, os.W_OK):
        raise OutputError(f"{path} is not yours to write")


def check_writable(path: Path) -> None:
    """Raise :class:`OutputError` unless a file can be put there: said before the work, not after it."""
    directory = Path(os.path.realpath(path)).parent
    if path.is_dir() or not directory.is_dir() or not os.access(directory, os.W_OK):
        raise OutputError(f"{path} cannot be written: is {directory} a directory that is there, and yours to write?")


def temporary_name(path: Path) -> Path:
    """A name beside ``path`` that no other process uses; a link is followed, so that renaming stays on its disk."""
    real = Path(os.path.realpath(path))
    return real.with_name(f"{real.name}{TEMPORARY}{secrets.token_hex(4)}")


def put_in_place(temporary: Path, path: Path) -> None:
    """Rename a finished temporary file, so that a crash of the machine leaves the old file or the new one."""
    real = os.path.realpath(path)
    os.replace(temporary, real)
    directory = os.open(os.path.dirname(real), os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """What the operating system has against it is said as an :class:`OutputError`."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A binary file to write, which takes its name only when all of it is on the disk; nothing stays after an error."""
    temporary = temporary_name(path)
    try:
        with writing(path):
            with open(temporary, "xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            put_in_place(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_whole(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with whole_file(path) as file:
        file.write(text.encode("utf-8", "surrogateescape"))


class WholeTable:
    """A table to write, which takes its name only when :meth:`finish` has all of it on the disk.

    Args:
        kind: what the objects are, as ``io_ark`` calls it.
        path: the archive.
        text: write text.
    """

    def __init__(self, kind: io_ark.Kind, path: Path, *, text: bool = False) -> None:
        self.path = path
        self.temporary = temporary_name(path)
        self._writer = io_ark.Writer[Any](kind, f"ark,t:{self.temporary}" if text else f"ark:{self.temporary}")

    def __setitem__(self, key: str, value: Any) -> None:
        self._writer[key] = value

    def finish(self) -> None:
        """Give the table its name."""
        with writing(self.path):
            self._writer.close()
            with open(self.temporary, "rb") as file:
                os.fsync(file.fileno())
            put_in_place(self.temporary, self.path)

    def abandon(self) -> None:
        """Leave nothing behind."""
        with contextlib.suppress(OSError, ArkError):  # what could not be written is not wanted any more
            self._writer.close()
        self.temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def whole_table(kind: io_ark.Kind, path: Path, *, text: bool = False) -> Iterator[WholeTable]:
    """A :class:`WholeTable` that is finished at the end, or abandoned after an error."""
    table = WholeTable(kind, path, text=text)
    try:
        yield table
        table.finish()
    except BaseException:
        table.abandon()
        raise


def remove_unfinished(path: Path) -> None:
    """Remove what a killed process left of this file."""
    real = Path(os.path.realpath(path))
    for left in real.parent.glob(f"{_escaped(real.name)}{TEMPORARY}*"):
        left.unlink(missing_ok=True)


def _escaped(name: str) -> str:
    return "".join(f"[{char}]" if char in "*?[" else char for char in name)
