"""Write files and folders under temporary names, rename them when they are complete, and clean up after a kill.

A temporary file lies beside its target. Its name contains the machine and the process, so that a later run can
distinguish the files of a killed process from the files of a running process.
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
# Suffix of the temporary name of the old folder while a new folder takes its name.
REPLACED = "-replaced"
# Prefixes of paths that stand for the open files of a process. They are not all of /dev, because /dev/shm has regular
# files.
DESCRIPTORS = ("/dev/std", "/dev/fd/", "/proc/")
# A temporary file of another machine counts as abandoned after this time without a write. A shorter time could remove
# the file of a job that is still running.
SECONDS_UNTIL_ABANDONED = 24 * 3600.0


class OtherFileError(Exception):
    """A folder that should be replaced contains the file or folder ``path``, which the new folder does not have."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} would be lost")
        self.path = path


def is_replaceable(path: Path) -> bool:
    """Return True unless a path leads to a device, FIFO, socket or file descriptor of a process.

    Programs must write to such files directly, because a rename would replace them with a regular file.
    """
    # A descriptor may lead to a regular file, so the mode of the file does not show that the path is a descriptor.
    if str(path).startswith(DESCRIPTORS):
        return False
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return True
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def resolve_target(path: Path, *, follow: bool = False) -> Path:
    """Return the absolute path that a temporary file for ``path`` will replace. Links in its parents are resolved.

    If ``path`` is a link, the link itself will be replaced, or with ``follow`` the file to which it leads.
    """
    path = Path(os.path.abspath(path))
    return Path(os.path.realpath(path)) if follow else Path(os.path.realpath(path.parent)) / path.name


def choose_temporary_name(path: Path, *, follow: bool = False) -> Path:
    """Return the path of a temporary file of this process beside the file that it will replace.

    For the arguments, see :func:`resolve_target`.
    """
    target = resolve_target(path, follow=follow)
    return target.with_name(f"{target.name}{TEMPORARY}{identify_machine()}-{os.getpid()}-{secrets.token_hex(4)}")


def identify_machine() -> str:
    """Return eight hexadecimal digits that identify the machine and the container (its namespace of process ids)."""
    namespace = 0
    with contextlib.suppress(OSError):
        namespace = os.stat("/proc/self/ns/pid").st_ino
    return hashlib.blake2b(f"{socket.gethostname()} {namespace}".encode(), digest_size=4).hexdigest()


def remove_unfinished(path: Path, *, include_own: bool = False) -> int:
    """Remove temporary files of ``path`` that ended processes have left. Return the number of removed or renamed paths.

    A folder that was being replaced gets its old name back if no new folder has this name.

    Args:
        path: the complete file or folder. Temporary files beside the target of a link are removed as well.
        include_own: True to remove the temporary files of this process as well.
    """
    return sum(map(_remove_abandoned, list_unfinished(path, include_own=include_own)))


def list_unfinished(path: Path, *, include_own: bool = False) -> list[Path]:
    """Return the temporary files that :func:`remove_unfinished` with the same arguments removes."""
    targets = {resolve_target(path), resolve_target(path, follow=True)}
    return [
        temporary
        for target in targets
        for temporary in _list_abandoned(target.parent, target.name + TEMPORARY, include_own)
    ]


def remove_abandoned_files(directory: Path, prefix: str = "", *, include_own: bool = False) -> int:
    """Remove the abandoned temporary files in a directory, and return the number of removed or renamed paths.

    A folder that was being replaced gets its old name back if no new folder has this name.

    Args:
        directory: the directory, which may be missing.
        prefix: prefix of the names of the files to remove.
        include_own: True to remove the temporary files of this process as well.
    """
    return sum(map(_remove_abandoned, _list_abandoned(directory, prefix, include_own)))


def _list_abandoned(directory: Path, prefix: str, include_own: bool) -> list[Path]:
    """Return the abandoned temporary files whose names begin with ``prefix``, or [] if the directory is missing."""
    if not directory.is_dir():
        return []
    candidates = [path for path in directory.iterdir() if path.name.startswith(prefix) and TEMPORARY in path.name]
    return [path for path in candidates if _is_abandoned(path, include_own)]


def _remove_abandoned(path: Path) -> bool:
    """Remove an abandoned temporary file, or restore the name of a replaced folder. Return True on success."""
    return _restore_folder(path) or remove_path(path)


def _restore_folder(path: Path) -> bool:
    """Restore the name of a replaced folder and return True. Return False for other paths, or if the name is taken."""
    target = path.with_name(path.name.rpartition(TEMPORARY)[0])
    if not path.name.endswith(REPLACED) or os.path.lexists(target):
        return False
    os.rename(path, target)
    return True


def remove_path(path: Path) -> bool:
    """Remove a temporary file or folder without following links. Return True if nothing is left.

    A folder whose name ends with :data:`REPLACED` is the old version of a folder that was replaced. Its subfolders are
    kept, because a user may have moved them into it in the meantime.
    """
    if not path.is_dir() or path.is_symlink():
        path.unlink(missing_ok=True)
        return True
    for entry in path.iterdir():
        if not path.name.endswith(REPLACED) or entry.is_symlink() or not entry.is_dir():
            remove_path(entry)
    with contextlib.suppress(OSError):
        path.rmdir()
    return not path.exists()


def _is_abandoned(temporary: Path, include_own: bool) -> bool:
    """Return True if the process that wrote a temporary file has ended, or is this process and ``include_own`` is true.

    The processes of other machines are unknown, so their files count as abandoned after a day without a write. Return
    False if such a file has disappeared.
    """
    fields = temporary.name.rpartition(TEMPORARY)[2].split("-")  # choose_temporary_name joins the fields.
    pid = fields[1] if len(fields) > 1 else ""
    if fields[0] == identify_machine() and pid.isdecimal():
        return include_own if int(pid) == os.getpid() else not _is_running(int(pid))
    try:
        return time.time() - temporary.stat().st_mtime > SECONDS_UNTIL_ABANDONED
    except OSError:
        return False


def _is_running(pid: int) -> bool:
    """Return True if a process with the id ``pid`` is running on this machine."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # The process exists, but belongs to another user.
        return True
    with contextlib.suppress(OSError, IndexError):  # A zombie (state "Z") has ended.
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] != "Z"
    return True


def synchronize(path: Path) -> None:
    """Write the buffered data of a file or directory to the disk (``fsync``)."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def put_in_place(temporary: Path, path: Path, *, follow: bool = False) -> None:
    """Rename a complete temporary file to ``path``. If the machine crashes, ``path`` is the old or the new file.

    If ``path`` is a link, the link itself is replaced, or with ``follow`` the file to which it leads.
    """
    target = resolve_target(path, follow=follow)
    os.replace(temporary, target)
    synchronize(target.parent)


@contextlib.contextmanager
def replace_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder, to which the ``with`` block writes files, and which then replaces ``folder``.

    An old folder may contain only files that the new folder has as well, so that no other file is removed. If the block
    raises an exception, the temporary folder is removed, and the old folder is left unchanged.

    Raises:
        OtherFileError: the old folder contains a folder, or a file that the new folder lacks.
        NotADirectoryError: ``folder`` exists and is not a folder.
        OSError: ``folder`` is the root directory or the working directory.
    """
    target = resolve_target(folder, follow=True)
    if not target.name or (target.exists() and target.samefile(os.curdir)):
        reason = "the root directory and the working directory cannot be replaced: choose another folder"
        raise OSError(errno.EBUSY, reason, str(folder))
    if target.exists() and not target.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
    target.parent.mkdir(parents=True, exist_ok=True)
    new_folder = choose_temporary_name(target)
    old_folder = new_folder.with_name(new_folder.name + REPLACED)
    new_folder.mkdir()
    try:
        yield new_folder
        if target.exists():
            if other := find_first_other_entry(target, {path.name for path in new_folder.iterdir()}):
                raise OtherFileError(other)
            os.rename(target, old_folder)
        os.rename(new_folder, target)
        synchronize(target.parent)
    finally:
        if new_folder.exists():
            remove_path(new_folder)
        if old_folder.exists():  # The old folder gets its name back if the new folder could not be renamed.
            _restore_folder(old_folder) or remove_path(old_folder)


def find_first_other_entry(folder: Path, names: set[str]) -> Path | None:
    """Return the first entry of ``folder``, in order of names, that is not in ``names`` or is a folder (not a link).

    Return None if there is no such entry.
    """
    entries = sorted(folder.iterdir())
    other_entries = [path for path in entries if path.name not in names or (path.is_dir() and not path.is_symlink())]
    return other_entries[0] if other_entries else None
