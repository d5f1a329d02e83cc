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
    return replaced_input(_files_written_by(output), inputs, parts=parts)


def replaced_input(
    files: Iterable[str], inputs: Iterable[str | Rspecifier], *, parts: bool = False, every_line: bool = False
) -> str | None:
    """Return the first of these files and folders that is one of the inputs, or None.

    If none of the files exists, the inputs are not looked at.

    Args:
        files: names of files and folders that are to be written.
        inputs, parts: as for :func:`overwritten_input`.
        every_line: compare the files of all lines of script files by device and inode. Otherwise, after the first
            thousand lines, only files with the name of an output are compared.
    """
    written = {identity: path for path in files if (identity := _identity(path))}
    if not written:
        return None
    names = {
        os.fsencode(os.path.basename(name)) for path in written.values() for name in (path, os.path.realpath(path))
    }
    for each in inputs:
        for identity in _read(each, None if every_line else names, parts):
            if identity in written:
                return written[identity]
    return None


def refuse_overwriting(output: str, inputs: Iterable[str | Rspecifier], *, parts: bool = False) -> None:
    """Raise :class:`SpecifierError` if an output is one of the inputs (see :func:`overwritten_input`)."""
    refuse_replacing(_files_written_by(output), inputs, parts=parts)


def refuse_replacing(
    files: Iterable[str], inputs: Iterable[str | Rspecifier], *, parts: bool = False, every_line: bool = False
) -> None:
    """Raise :class:`SpecifierError` if one of these files is one of the inputs (see :func:`replaced_input`)."""
    path = replaced_input(files, inputs, parts=parts, every_line=every_line)
    if path is not None:
        raise overwriting_error(path)


def overwriting_error(path: str) -> SpecifierError:
    """Return the error for an output that is one of the inputs."""
    return SpecifierError("is read as well, and writing would destroy it: choose another output", file=path)


class Inputs:
    """Files that inputs are read from, by device and inode. They are looked up when the first file is asked for."""

    def __init__(self, *inputs: str) -> None:
        self._inputs = inputs
        self._identities: set[Identity | None] | None = None

    def __contains__(self, identity: object) -> bool:
        if self._identities is None:
            self._identities = {found for each in self._inputs for found in _read(each, None, False)}
        return identity in self._identities


def refuse_sharing(outputs: Iterable[str]) -> None:
    """Raise :class:`SpecifierError` if two outputs are one file, where each would overwrite the other.

    >>> refuse_sharing(["ark,scp:a.ark,a.scp", "ark,t:./a.scp"])
    Traceback (most recent call last):
    io_ark.errors.SpecifierError: ./a.scp: is written twice: choose another output
    """
    refuse_equal_files(chain.from_iterable(map(_files_written_by, outputs)))


def refuse_equal_files(files: Iterable[str]) -> None:
    """Raise :class:`SpecifierError` if two of these names lead to one file: by device and inode, or if it is not there
    yet, by its path without links."""
    seen: set[str | Identity] = set()
    real_folders: dict[str, str] = {}
    for path in files:
        folder, name = os.path.split(path)
        if folder not in real_folders:
            real_folders[folder] = os.path.realpath(folder)
        try:
            status = os.stat(path)
        except (OSError, ValueError):
            real = os.path.join(real_folders[folder], name)
            mark: str | Identity = os.path.realpath(real) if os.path.islink(real) else real
        else:
            if not stat.S_ISREG(status.st_mode):  # such as /dev/null, where two outputs do no harm
                continue
            mark = status.st_dev, status.st_ino
        if mark in seen:
            raise SpecifierError("is written twice: choose another output", file=path)
        seen.add(mark)


def _identity(path: str | bytes | int) -> Identity | None:
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


def _read(each: str | Rspecifier, names: set[bytes] | None, parts: bool) -> Iterator[Identity | None]:
    """Yield the files that an input reads.

    Args:
        each: the input.
        names: of the files in the lines of a script file after the first thousand, only those with one of these names
            are looked at; None: all.
        parts: only files with an offset.
    """
    table = classify_rspecifier(each) if isinstance(each, str) else each
    name = each if isinstance(each, str) and table is None else getattr(table, "rxfilename", "")
    path = _path(name)
    if path is None:
        return
    if not parts or _path(name, parts) is not None:
        yield _identity(path)
    if table is None or table.kind != "scp" or path == 0:
        return
    seen = set()
    with suppress(OSError), open(path, "rb") as script:
        for number, line in enumerate(script):
            target = b"".join(line.split(None, 1)[1:]).strip()
            file = target.rpartition(b"[")[0] if target[-1:] == b"]" else target
            before, colon, offset = file.rpartition(b":")
            is_part = bool(colon) and offset.isdigit()
            file = before if is_part else file
            if file in seen or (parts and not is_part) or target[-1:] == b"|":  # a command
                continue
            if names is None or number < _LINES or os.path.basename(file) in names:
                seen.add(file)
                yield _identity(0 if file == b"-" else file)


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
