"""Check, before an output is opened, whether that would destroy an input or another output."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain

from io_ark.errors import ArkError, SpecifierError
from io_ark.specifier import (
    Rspecifier,
    classify_rspecifier,
    classify_wspecifier,
    parse_rxfilename,
    parse_wxfilename,
    split_range,
)

# Lines of a script file whose files are compared by device and inode. Others are compared if they have the file's name.
_LINES = 1000

Identity = tuple[int, int]


def overwritten_input(output: str, inputs: Iterable[str | Rspecifier], *, parts: bool = False) -> str | None:
    """Return the file of an output that is one of the inputs, or None.

    Files are compared by device and inode, so links and other spellings of a name are found. An input that is a script
    file counts together with the files that its lines name.

    Args:
        output: a wspecifier or wxfilename. (The files that a script file *to write to* names are not looked at.)
        inputs: rspecifiers and rxfilenames, or the parsed form of an rspecifier. Commands cannot be looked into.
        parts: only look at inputs that are named with an offset: the file has other objects, too.

    >>> overwritten_input("ark:/nosuch/o.ark", ["scp:feats.scp", "mean.vec"]) is None
    True
    """
    written = {path: found for path in _files_written_by(output) if (found := _identity(path))}
    tables = list(inputs) if written else []
    for path, identity in written.items():
        if any(identity in _read(each, os.fsencode(os.path.basename(path)), parts) for each in tables):
            return path
    return None


def refuse_overwriting(output: str, inputs: Iterable[str | Rspecifier], *, parts: bool = False) -> None:
    """Raise :class:`SpecifierError` if an output is one of the inputs (see :func:`overwritten_input`)."""
    path = overwritten_input(output, inputs, parts=parts)
    if path is not None:
        raise SpecifierError("is read as well, and writing would destroy it: choose another output", file=path)


def refuse_sharing(outputs: Iterable[str]) -> None:
    """Raise :class:`SpecifierError` if two outputs are one file, where each would overwrite the other.

    >>> refuse_sharing(["ark,scp:a.ark,a.scp", "ark,t:./a.scp"])
    Traceback (most recent call last):
    io_ark.errors.SpecifierError: ./a.scp: is written twice: choose another output
    """
    seen = set()
    for path in chain.from_iterable(map(_files_written_by, outputs)):
        real = os.path.realpath(path)
        if real in seen and (os.path.isfile(real) or not os.path.exists(real)):
            raise SpecifierError("is written twice: choose another output", file=path)
        seen.add(real)


def _identity(path: str | int) -> Identity | None:
    """Return device and inode of a regular file or folder; None for others, which lose nothing when they are opened."""
    with suppress(OSError, ValueError):
        status = os.stat(path)
        if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
            return status.st_dev, status.st_ino
    return None


def _files_written_by(output: str) -> list[str]:
    """Return the files that an output creates."""
    table = classify_wspecifier(output)
    if table is not None and table.kind == "scp":
        return []
    targets = [output] if table is None else [table.archive, table.script][: 1 + (table.kind == "both")]
    paths = []
    for each in targets:
        with suppress(ArkError):  # raised when it is opened
            paths.append(parse_wxfilename(each).path)
    return [path for path in paths if path]


def _read(each: str | Rspecifier, name: bytes, parts: bool) -> Iterator[Identity | None]:
    """Yield the files that an input reads, as far as its script file names them first or has ``name`` in their line."""
    table = classify_rspecifier(each) if isinstance(each, str) else each
    rxfilename = each if table is None else table.rxfilename
    path = _path(str(rxfilename))
    if path is None:
        return
    identity = _identity(path)
    if not parts or _path(str(rxfilename), parts) is not None:
        yield identity
    if table is None or table.kind != "scp" or identity is None or path == 0:
        return
    seen = set()
    with suppress(OSError), open(path, "rb") as script:
        for number, line in enumerate(script):
            if number < _LINES or name in line:
                target = _path(os.fsdecode(line.partition(b" ")[2].strip()), parts)
                if target not in seen:
                    seen.add(target)
                    yield _identity(target) if target is not None else None


def _path(rxfilename: str, part: bool = False) -> str | int | None:
    """Return the file of an rxfilename: 0 for standard input, None for a command, an invalid name, or no ``part``."""
    with suppress(ArkError):
        target = parse_rxfilename(split_range(rxfilename)[0])
        if part and target.offset is None:
            return None
        if target.kind == "stdin":
            return 0
        return target.path or None
    return None
