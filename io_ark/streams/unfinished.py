"""Temporary files and folders that get their name when they are complete, and are removed after a kill.

A temporary file lies beside its target. Its name holds the machine and the process, so that a later run can tell the
files of a killed process from those of a running one.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import socket
import stat
import time
from collections.abc import Iterator
from pathlib import Path

TEMPORARY = ".unfinished-"
# End of the temporary name of a complete folder while a new one takes its place.
REPLACED = "-replaced"
# Start of the names of files that are open in a process. Under /dev lies /dev/shm, too, a place for files like others.
DESCRIPTORS = ("/dev/std", "/dev/fd/", "/proc/")
# A temporary file of another machine is taken for abandoned after this time without a write.
SECONDS_UNTIL_ABANDONED = 24 * 3600.0


class OtherFileError(Exception):
    """A folder that is to be replaced holds something else; ``path`` is its place."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} would be lost")
        self.path = path


def is_replaceable(path: Path) -> bool:
    """Return True unless the path, links followed, is a device, FIFO, socket or file descriptor of a process.

    A rename would put a regular file in the place of those; they are written to instead.
    """
    if str(path).startswith(DESCRIPTORS):  # which may lead to a regular file that is open already
        return False
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return True
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def place_of(path: Path, *, follow: bool = False) -> Path:
    """Return the path to rename a temporary file to, in a folder without links.

    Args:
        path: the file to be written.
        follow: replace the target of a link; otherwise the link itself, so that its target keeps its content.
    """
    path = Path(os.path.abspath(path))
    return Path(os.path.realpath(path)) if follow else Path(os.path.realpath(path.parent)) / path.name


def temporary_name(path: Path, *, follow: bool = False) -> Path:
    """Return a name beside the place of ``path`` (see :func:`place_of`) that only this process uses."""
    place = place_of(path, follow=follow)
    return place.with_name(f"{place.name}{TEMPORARY}{machine()}-{os.getpid()}-{secrets.token_hex(4)}")


def machine() -> str:
    """Return an identifier of the machine and, in containers, of the set of processes seen there."""
    processes = 0
    with contextlib.suppress(OSError):
        processes = os.stat("/proc/self/ns/pid").st_ino
    return hashlib.blake2b(f"{socket.gethostname()} {processes}".encode(), digest_size=4).hexdigest()


def remove_unfinished(path: Path, *, own: bool = False) -> int:
    """Remove what processes that no longer run left of this file or folder, and return the number of names removed.

    Args:
        path: the complete file or folder. If it is a link, its target is meant, too.
        own: remove the temporary files of this process, too.
    """
    places = {place_of(path), place_of(path, follow=True)}
    return sum(clear_directory(place.parent, place.name + TEMPORARY, own=own) for place in places)


def clear_directory(directory: Path, start: str = "", *, own: bool = False) -> int:
    """Remove the abandoned temporary files of all files in a directory whose names start so; return their number."""
    if not directory.is_dir():
        return 0
    left = [path for path in directory.iterdir() if path.name.startswith(start) and TEMPORARY in path.name]
    return sum(_restore(path) or remove_files(path) for path in left if _is_abandoned(path, own))


def _restore(path: Path) -> bool:
    """Give a replaced folder its name again and return True if no folder has taken its place."""
    place = path.with_name(path.name.rpartition(TEMPORARY)[0])
    if not path.name.endswith(REPLACED) or os.path.lexists(place):
        return False
    os.rename(path, place)
    return True


def remove_files(path: Path) -> bool:
    """Remove a temporary file or folder, without following links; return True if nothing is left of it.

    A folder that was replaced may have got another folder since, which stays.
    """
    if not path.is_dir() or path.is_symlink():
        path.unlink(missing_ok=True)
        return True
    for inner in path.iterdir():
        if not path.name.endswith(REPLACED) or inner.is_symlink() or not inner.is_dir():
            remove_files(inner)
    with contextlib.suppress(OSError):
        path.rmdir()
    return not path.exists()


def _is_abandoned(temporary: Path, own: bool) -> bool:
    name, _, rest = temporary.name.rpartition(TEMPORARY)[2].partition("-")
    pid = rest.partition("-")[0]
    if name == machine() and pid.isdecimal():
        return own if int(pid) == os.getpid() else not _is_running(int(pid))
    try:
        return time.time() - temporary.stat().st_mtime > SECONDS_UNTIL_ABANDONED
    except OSError:
        return False


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # a process of another user
        return True
    with contextlib.suppress(OSError, IndexError):  # a zombie has ended
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] != "Z"
    return True


def synchronize(path: Path) -> None:
    """Have the system write a file or directory to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def put_in_place(temporary: Path, path: Path, *, follow: bool = False) -> None:
    """Rename a complete temporary file such that after a crash of the machine the old or the new file is there."""
    place = place_of(path, follow=follow)
    os.replace(temporary, place)
    synchronize(place.parent)


@contextlib.contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder for this block to fill with files, which then takes the place of a folder.

    The folder that was there may only hold files that the new one has, too: nothing else is removed.

    Raises:
        OtherFileError: it has another file, or a folder, and is unchanged.
        NotADirectoryError: it is not a folder.
    """
    place = place_of(folder, follow=True)
    if place.exists() and not place.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    place.parent.mkdir(parents=True, exist_ok=True)
    new = temporary_name(place)
    old = new.with_name(new.name + REPLACED)
    new.mkdir()
    try:
        yield new
        if place.exists():
            if other := first_other(place, {path.name for path in new.iterdir()}):
                raise OtherFileError(other)
            os.rename(place, old)
        os.rename(new, place)
        synchronize(place.parent)
    finally:
        if new.exists():
            remove_files(new)
        if old.exists():
            _restore(old) or remove_files(old)


def first_other(folder: Path, names: set[str]) -> Path | None:
    """Return the first entry of a folder that is a folder, or has none of these names; None if there is none."""
    entries = sorted(folder.iterdir())
    others = [path for path in entries if path.name not in names or (path.is_dir() and not path.is_symlink())]
    return others[0] if others else None
