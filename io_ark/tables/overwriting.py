"""Refuse outputs that would destroy an input or another output, before they are opened.

Files are compared by device and inode, so links and other spellings of a name are recognized. The inputs include the
files that the lines of a script file name. Files that a command reads are unknown, and the files that a script file of
outputs names are not checked.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from io_ark.errors import ArkError, SpecifierError
from io_ark.specifier import (
    Rspecifier,
    classify_rspecifier,
    classify_wspecifier,
    parse_rxfilename,
    parse_wxfilename,
    split_range,
)

# Number of lines of a script file whose files are compared by device and inode. The file of a later line is compared
# only if it has the name of an output, because looking up a million files would take longer than the job.
MAX_COMPARED_LINES = 1000

Identity = tuple[int, int]  # Device and inode of a file.


def refuse_conflicts(outputs: Iterable[str], inputs: Sequence[str]) -> None:
    """Raise SpecifierError if an output would destroy an input or another output.

    A table to write must not be an input, or share a file with another table. As in Kaldi, a single file may replace an
    input, because all inputs are read before the file is written. The file must not be an archive from which an object
    is read at an offset, because the other objects would be lost. ``outputs`` holds wspecifiers and wxfilenames, and
    ``inputs`` rspecifiers and rxfilenames.
    """
    tables: list[str] = []
    files: list[str] = []
    for output in outputs:
        paths, is_table = _list_written_files(output)
        (tables if is_table else files).extend(paths)
    refuse_equal_files(tables)
    refuse_replacing(tables, inputs)
    refuse_replacing(files, inputs, only_offsets=True)


def refuse_overwriting(output: str, inputs: Iterable[str | Rspecifier]) -> None:
    """Raise :class:`SpecifierError` if a wspecifier or wxfilename writes a file that one of the inputs reads."""
    refuse_replacing(_list_written_files(output)[0], inputs)


def refuse_replacing(
    files: Iterable[str], inputs: Iterable[str | Rspecifier], *, only_offsets: bool = False, every_line: bool = False
) -> None:
    """Raise :class:`SpecifierError` if a file or folder to write is an input.

    If no file to write exists, the inputs are not examined.

    Args:
        files: names of files and folders that are to be written.
        inputs: rspecifiers and rxfilenames, or the parsed form of an rspecifier.
        only_offsets: True to examine only inputs with an offset, whose files have other objects as well.
        every_line: True to compare the files of all lines of script files by device and inode. By default, files of
            lines after the first ``MAX_COMPARED_LINES`` lines are compared only if they have the name of an output.
    """
    paths_by_identity = {identity: path for path in files if (identity := _identify_file(path))}
    if not paths_by_identity:
        return
    names = {
        os.fsencode(os.path.basename(name))
        for path in paths_by_identity.values()
        for name in (path, os.path.realpath(path))
    }
    for specifier in inputs:
        for identity in _identify_inputs(specifier, None if every_line else names, only_offsets):
            if identity in paths_by_identity:
                raise make_overwriting_error(paths_by_identity[identity])


def make_overwriting_error(path: str) -> SpecifierError:
    """Return the error for an output that is one of the inputs."""
    return SpecifierError("is read as well, and writing would destroy it: choose another output", file=path)


class Inputs:
    """Set of the files that inputs are read from, by device and inode. The first use of ``in`` identifies the files."""

    def __init__(self, *inputs: str) -> None:
        self._inputs = inputs
        self._identities: set[Identity | None] | None = None

    def __contains__(self, identity: object) -> bool:
        if self._identities is None:
            self._identities = set()
            for specifier in self._inputs:
                self._identities.update(_identify_inputs(specifier, names=None, only_offsets=False))
        return identity in self._identities


def refuse_sharing(outputs: Iterable[str]) -> None:
    """Raise :class:`SpecifierError` if two wspecifiers or wxfilenames name the same file to write."""
    refuse_equal_files(path for output in outputs for path in _list_written_files(output)[0])


def refuse_equal_files(files: Iterable[str]) -> None:
    """Raise :class:`SpecifierError` if two names lead to the same file.

    Existing files are compared by device and inode, and missing files by their resolved paths. Other existing names,
    such as devices, pipes and folders, may occur several times.
    """
    seen_identities: set[str | Identity] = set()
    real_folders: dict[str, str] = {}
    for path in files:
        folder, name = os.path.split(path)
        if folder not in real_folders:
            real_folders[folder] = os.path.realpath(folder)
        try:
            status = os.stat(path)
        except (OSError, ValueError):
            real_path = os.path.join(real_folders[folder], name)
            identity: str | Identity = os.path.realpath(real_path) if os.path.islink(real_path) else real_path
        else:
            if not stat.S_ISREG(status.st_mode):  # Two outputs do no harm in a device such as /dev/null.
                continue
            identity = status.st_dev, status.st_ino
        if identity in seen_identities:
            raise SpecifierError("is written twice: choose another output", file=path)
        seen_identities.add(identity)


def _identify_file(path: str | bytes | int) -> Identity | None:
    """Return the device and inode of a regular file or folder, given as a path or an open file descriptor.

    Return None for a missing file, and for a device or pipe, because writing to them overwrites no data.
    """
    with suppress(OSError, ValueError):
        status = os.stat(path)
        if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
            return status.st_dev, status.st_ino
    return None


def _list_written_files(output: str) -> tuple[list[str], bool]:
    """Return the paths of the files that an output names, and True for a table or False for a single file.

    A table ``scp:FILE`` has no paths, because the script file is read, and the files in its lines are not listed.
    """
    table = classify_wspecifier(output)
    if table is None:
        targets = [output]
    else:
        targets = {"scp": [], "ark": [table.archive], "both": [table.archive, table.script]}[table.kind]
    paths = []
    for target in targets:
        with suppress(ArkError):  # Opening the output will report an invalid name.
            paths.append(parse_wxfilename(target).path)
    return [path for path in paths if path], table is not None


def _identify_inputs(
    specifier: str | Rspecifier, names: set[bytes] | None, only_offsets: bool
) -> Iterator[Identity | None]:
    """Yield the device and inode of each file that an input reads, or None for a missing file, a device or a pipe.

    Args:
        specifier: rspecifier or rxfilename of the input. Nothing is yielded for a command, or for an invalid name.
        names: file names without folders. After the first ``MAX_COMPARED_LINES`` lines of a script file, only files
            with one of these names are identified. None identifies all files.
        only_offsets: True to yield only files that are read from an offset.
    """
    if isinstance(specifier, str):
        table = classify_rspecifier(specifier)
        name = specifier if table is None else table.rxfilename
    else:
        table, name = specifier, specifier.rxfilename
    with suppress(ArkError):  # Opening the input will report an invalid name.
        target = parse_rxfilename(split_range(name)[0])
        path = 0 if target.kind == "stdin" else target.path  # 0 is the file descriptor of standard input.
        if path == "":
            return
        if not only_offsets or target.offset is not None:
            yield _identify_file(path)
        if table is None or table.kind != "scp" or path == 0:
            return
        yield from _identify_script_files(path, names, only_offsets)


def _identify_script_files(path: str | int, names: set[bytes] | None, only_offsets: bool) -> Iterator[Identity | None]:
    """Yield the device and inode of each file in a script file (see :func:`_identify_inputs`), but not of commands."""
    seen_files = set()
    with suppress(OSError), open(path, "rb") as script:
        for index, line in enumerate(script):
            target = b"".join(line.split(None, 1)[1:]).strip()
            file = target.rpartition(b"[")[0] if target[-1:] == b"]" else target
            path_before_colon, colon, offset = file.rpartition(b":")
            has_offset = bool(colon) and offset.isdigit()
            file = path_before_colon if has_offset else file
            is_command = target[-1:] == b"|"
            if file in seen_files or is_command or (only_offsets and not has_offset):
                continue
            if names is None or index < MAX_COMPARED_LINES or os.path.basename(file) in names:
                seen_files.add(file)
                yield _identify_file(0 if file == b"-" else file)
