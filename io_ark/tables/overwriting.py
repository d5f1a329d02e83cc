"""Refuse outputs that would destroy an input or another output, before they are opened."""

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

# Number of lines of a script file whose files are all compared by device and inode. In later lines, only files with the
# name of an output are compared.
_MAX_COMPARED_LINES = 1000

Identity = tuple[int, int]


def overwritten_input(output: str, inputs: Iterable[str | Rspecifier], *, parts: bool = False) -> str | None:
    """Return the file of an output that is one of the inputs, or None.

    Files are compared by device and inode, so links and other spellings of a name are recognized. A script file is
    compared together with the files that its lines name.

    Args:
        output: a wspecifier or wxfilename. (The output files that a wspecifier ``scp:`` names are not compared.)
        inputs: rspecifiers and rxfilenames, or the parsed form of an rspecifier. The inputs of commands are unknown.
        parts: compare only inputs with an offset, because their files have other objects.

    >>> overwritten_input("ark:/nosuch/o.ark", ["scp:feats.scp", "mean.vec"]) is None
    True
    """
    return replaced_input(_files_written_by(output), inputs, parts=parts)


def replaced_input(
    files: Iterable[str], inputs: Iterable[str | Rspecifier], *, parts: bool = False, every_line: bool = False
) -> str | None:
    """Return the first of these files and folders that is one of the inputs, or None.

    If none of the files exists, the inputs are not examined.

    Args:
        files: names of files and folders to write.
        inputs, parts: see :func:`overwritten_input`.
        every_line: compare the files of all lines of script files by device and inode. False: after the first thousand
            lines, compare only files with the name of an output.
    """
    written = {identity: path for path in files if (identity := _identity(path))}
    if not written:
        return None
    names = {
        os.fsencode(os.path.basename(name)) for path in written.values() for name in (path, os.path.realpath(path))
    }
    for source in inputs:
        for identity in _read_identities(source, None if every_line else names, parts):
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
    """Device and inode of the files that inputs are read from. They are looked up at the first use."""

    def __init__(self, *inputs: str) -> None:
        self._inputs = inputs
        self._identities: set[Identity | None] | None = None

    def __contains__(self, identity: object) -> bool:
        if self._identities is None:
            self._identities = {file for source in self._inputs for file in _read_identities(source, None, False)}
        return identity in self._identities


def refuse_sharing(outputs: Iterable[str]) -> None:
    """Raise :class:`SpecifierError` if two outputs are one file.

    >>> refuse_sharing(["ark,scp:a.ark,a.scp", "ark,t:./a.scp"])
    Traceback (most recent call last):
    io_ark.errors.SpecifierError: ./a.scp: is written twice: choose another output
    """
    refuse_equal_files(chain.from_iterable(map(_files_written_by, outputs)))


def refuse_equal_files(files: Iterable[str]) -> None:
    """Raise :class:`SpecifierError` if two names lead to one file.

    Existing files are compared by device and inode, other files by their paths with links resolved.
    """
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
            if not stat.S_ISREG(status.st_mode):  # Two outputs to a device such as /dev/null do no harm.
                continue
            mark = status.st_dev, status.st_ino
        if mark in seen:
            raise SpecifierError("is written twice: choose another output", file=path)
        seen.add(mark)


def _identity(path: str | bytes | int) -> Identity | None:
    """Return device and inode of a regular file or folder, or None for other files, which lose no data when opened."""
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
    for target in targets:
        with suppress(ArkError):  # Opening the output raises it again.
            paths.append(parse_wxfilename(target).path)
    return [path for path in paths if path]


def _read_identities(source: str | Rspecifier, names: set[bytes] | None, parts: bool) -> Iterator[Identity | None]:
    """Yield device and inode of the files that an input reads.

    Args:
        source: the input.
        names: names of the files to compare in a script file after its first thousand lines; None: all files.
        parts: only files with an offset.
    """
    table = classify_rspecifier(source) if isinstance(source, str) else source
    name = source if isinstance(source, str) and table is None else getattr(table, "rxfilename", "")
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
            if names is None or number < _MAX_COMPARED_LINES or os.path.basename(file) in names:
                seen.add(file)
                yield _identity(0 if file == b"-" else file)


def _path(rxfilename: str, part: bool = False) -> str | int | None:
    """Return the file of an rxfilename: a path, 0 for standard input, or None for a command or an invalid name.

    With ``part``, return None for a name without an offset.
    """
    with suppress(ArkError):
        target = parse_rxfilename(split_range(rxfilename)[0])
        if part and target.offset is None:
            return None
        if target.kind == "stdin":
            return 0
        return target.path or None
    return None
