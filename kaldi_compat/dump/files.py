"""Files that are there whole or not at all, whatever happens while they are written."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import io_ark

TEMPORARY = ".unfinished-"


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
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A binary file to write, which takes its name only when all of it is on the disk; nothing stays after an error."""
    temporary = temporary_name(path)
    try:
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


def write_whole_table(kind: str, path: Path, entries: Iterable[tuple[str, Any]], *, text: bool = False) -> None:
    """Write a table, whole or not at all.

    Args:
        kind: what the objects are, as ``io_ark`` calls it.
        path: the archive.
        entries: keys and objects.
        text: write text.
    """
    temporary = temporary_name(path)
    try:
        with io_ark.Writer[Any](kind, f"ark,t:{temporary}" if text else f"ark:{temporary}") as writer:
            for key, value in entries:
                writer[key] = value
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        put_in_place(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def remove_unfinished(path: Path) -> None:
    """Remove what a killed process left of this file."""
    real = Path(os.path.realpath(path))
    for left in real.parent.glob(f"{_escaped(real.name)}{TEMPORARY}*"):
        left.unlink(missing_ok=True)


def _escaped(name: str) -> str:
    return "".join(f"[{char}]" if char in "*?[" else char for char in name)
