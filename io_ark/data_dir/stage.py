"""Change a data directory under a lock, so that at the end either all new files replace the old files, or no file changes."""

from __future__ import annotations

import binascii
import contextlib
import filecmp
import functools
import itertools
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from io_ark.data_dir.line_chunks import read_chunks
from io_ark.errors import ArkError
from io_ark.signals import delay_signals
from io_ark.specifier import is_url

try:
    import fcntl
except ModuleNotFoundError:  # Windows has no fcntl, and cannot lock directories.
    fcntl = None  # type: ignore[assignment]

BUFFER_BYTES = 1 << 20
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
MAX_FIRST_KEY_BYTES = 1 << 10  # Bytes read to find a byte-order mark and the key after it. A message cuts longer keys.
STARTS_WITH_MARK = (
    "starts with a byte-order mark, which would be a part of the key: remove it (sed -i '1s/^\\xef\\xbb\\xbf//')"
)
BACKUP = ".backup"
# Names of the files of a data directory that Kaldi's scripts make, copy or move away. fix_data_dir.sh sorts _SORTED.
_SORTED = (
    "utt2spk spk2utt feats.scp text segments wav.scp cmvn.scp vad.scp reco2file_and_channel spk2gender utt2lang utt2uniq "
    "utt2dur reco2dur utt2num_frames"
)
_UNSORTED = "spk2warp utt2warp frame_shift stm glm ctm images.scp"
SORTED_FILES = _SORTED.split()
DATA_FILES = [*SORTED_FILES, *_UNSORTED.split()]
_OWN_FOLDER = re.compile(r"\.backup|split[0-9]+(utt)?")
_OWN_FILE = re.compile(rf"(\.backup/|split[0-9]+(utt)?/[0-9]+/)?({'|'.join(map(re.escape, DATA_FILES))})")
# Matches the name of a temporary file. The groups are the escaped name of the final file, the machine (see _MACHINE)
# and the process ID.
_TEMPORARY = re.compile(r"\.([^/]+?)\.([0-9a-f]{8})\.([0-9]+)\.[0-9]+\.tmp$")
UNFINISHED = ": only a part of the change was made: remove the obstacle, and the next job here finishes the change"
_CHANGES = "changes"  # Name of a temporary file with the renames of a commit, which a later job can finish.
_TEMPORARY_MARK = ".kaldi-compat-passing"  # Name of a file that lets a later job remove a temporary directory.
_MAX_LINKS = 40  # Length at which a chain of links is no longer followed, as in Linux. A chain may be a loop.
# Age in seconds at which a temporary file is removed if no lock tells whether its job is still running: on systems
# without locks, and for files of another machine. A shorter age could remove the file of a running job.
_ABANDONED_SECONDS = 24 * 3600.0
_MACHINE = f"{binascii.crc32(os.fsencode(os.uname().nodename if hasattr(os, 'uname') else '')):08x}"
_temporary_numbers = itertools.count(1)  # Numbers that make the names of temporary files unique in this process.
_reported: set[str] = set()  # Paths of lists of changes about which this process has warned, so as to warn only once.
_lock_counts: dict[tuple[int, int], int] = {}  # Number of nested locks of a directory, by its device and inode.
# The old and the new name of a file, relative to the directory. The new name is "" if the file is to be removed.
Rename = tuple[str, str]


def _unescape_name(escaped: str) -> str:
    """Return the name of a file from its escaped form in the name of a temporary file (:meth:`Stage.make_temporary_path`)."""
    return escaped.replace("%2F", "/").replace("%25", "%")


class DataDirError(ArkError):
    """A data directory cannot be used.

    Attributes:
        line: number of the line in the file, counted from 1, or 0 if unknown.
        status: exit status of the script.
        partly: True to leave the files that were written before the error, as Kaldi's script does.

    Args:
        message: description of the problem and of the remedy.
        file: path of the file, or "" if unknown.
        key: key of the line, or None if unknown.
        attributes: values of the attributes ``status`` and ``partly``.

    >>> from io_ark import DataDirError
    >>> str(DataDirError("has no speaker: add the speaker", "utt2spk", 3, "ann-1"))
    'utt2spk:3: ann-1: has no speaker: add the speaker'
    """

    status, partly = 1, False

    def __init__(
        self, message: str, file: str = "", line: int = 0, key: bytes | str | None = None, **attributes: int
    ) -> None:
        key_text = key.decode("utf-8", "surrogateescape") if isinstance(key, bytes) else key
        file = _TEMPORARY.sub(lambda match: _unescape_name(match[1]), file)
        super().__init__(message, file=f"{file}:{line}" if line else file, key=key_text)
        self.line = line
        self.__dict__.update(attributes)


class Printer:
    """Prints the messages of a script.

    Args:
        name: name of the script in messages, such as ``utils/fix_data_dir.sh``.
        write: function that prints a line without its newline.
        as_script: True to behave like Kaldi's script after an error: leave the script's files, and print its message.
    """

    def __init__(self, name: str, write: Callable[[str], object] = print, *, as_script: bool = True) -> None:
        self.name, self.write, self.as_script = name, write, as_script

    def __call__(self, text: str) -> None:
        self.write(f"{self.name}: {text}")

    def with_name(self, name: str) -> Printer:
        """Return a printer for the script ``name``, with the same ``write`` and ``as_script``."""
        return Printer(name, self.write, as_script=self.as_script)

    def to_stderr(self) -> Printer:
        """Return a printer with the same name that writes to standard error."""
        return Printer(self.name, warn, as_script=self.as_script)

    def fail(
        self, text: str, detail: str = "", file: str = "", line: int = 0, key: bytes | None = None, status: int = 1
    ) -> DataDirError:
        """Print Kaldi's message, and return the error to raise, whose attribute ``partly`` is True.

        Args:
            text: Kaldi's message, which is printed if ``as_script`` is True or ``detail`` is passed, or "" to print
                nothing.
            detail: message of the error. By default, Kaldi's message if it was not printed, and otherwise "".
            file, line, key, status: location of the error and exit status of the script, see :class:`DataDirError`.
        """
        if text and (self.as_script or detail):
            self(text)
        detail = detail or ("" if self.as_script else text)
        return DataDirError(detail, file, line, key, status=status, partly=True)


def warn(text: object) -> None:
    """Print a line to standard error."""
    print(text, file=sys.stderr)


def decode_key(key: bytes) -> str:
    """Decode a key as UTF-8. Invalid bytes become surrogates, so that encoding restores the key."""
    return key.decode("utf-8", "surrogateescape")


class DataFiles:
    """Finds and reads the files of a data directory.

    Args:
        folder: path of the directory.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def find(self, name: str) -> str:
        """Return the path of the file ``name``, or "" if the file is missing."""
        path = os.path.join(self.folder, name)
        return path if os.path.isfile(path) else ""

    def require(self, say: Printer, name: str = "utt2spk") -> str:
        """Return the path of the file ``name``. If it is missing, print Kaldi's message, and raise DataDirError."""
        path = self.find(name)
        if not path:
            raise say.fail(f"no such file {self.folder}/{name}")
        return path

    def has_lines(self, name: str) -> bool:
        """Return True if the file ``name`` exists and is not empty, like ``[ -s FILE ]`` in a shell."""
        path = self.find(name)
        return bool(path) and os.path.getsize(path) > 0

    def count_lines(self, name: str) -> int:
        """Return the number of newlines in the file ``name``, like ``wc -l``, or 0 if the file is missing."""
        path = self.find(name)
        return sum(chunk.count(b"\n") for chunk in read_chunks(path)) if path else 0


@contextlib.contextmanager
def set_status(status: int) -> Iterator[None]:
    """If the ``with`` block raises a DataDirError, set the exit status of this error to ``status``."""
    try:
        yield
    except DataDirError as error:
        error.status = status
        raise


@contextlib.contextmanager
def lock_directories(*folders: str, may_change: bool = True, read_folders: Iterable[str] = ()) -> Iterator[None]:
    """Lock directories within this context, and clear up after killed jobs. Nothing is locked on Windows.

    Args:
        *folders: directories to lock. Missing directories are skipped. A directory that this process has locked keeps
            that lock.
        may_change: True to exclude all other processes. If False, other processes may read the directories at the same
            time.
        read_folders: additional directories, which are locked for reading only.

    Raise DataDirError if a killed job has left an unfinished change, and the change cannot be finished or
    ``may_change`` is False.
    """
    modes = dict.fromkeys(map(os.path.realpath, read_folders), False)
    modes |= dict.fromkeys(map(os.path.realpath, folders), may_change)
    # Maps device and inode to descriptor, path, and True for an exclusive lock.
    directories: dict[tuple[int, int], tuple[int, str, bool]] = {}
    counted_identities: list[tuple[int, int]] = []
    try:
        for folder, is_exclusive in modes.items():
            if not fcntl:
                clear_up_directory(folder, is_locked=False, may_change=is_exclusive)
                continue
            try:
                descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            except OSError:
                continue
            status = os.fstat(descriptor)
            identity = (status.st_dev, status.st_ino)
            if identity in directories:  # A second lock of this directory would wait for the first lock.
                os.close(descriptor)
                descriptor, folder, was_exclusive = directories[identity]
                is_exclusive = is_exclusive or was_exclusive
            directories[identity] = descriptor, folder, is_exclusive
        # All jobs take locks in the order of device and inode, so that no two jobs wait for each other.
        for identity, (descriptor, folder, is_exclusive) in sorted(directories.items()):
            if not _lock_counts.get(identity):
                is_locked = True
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX if is_exclusive else fcntl.LOCK_SH)
                except OSError:  # The file system does not support locks.
                    is_locked = False
                clear_up_directory(folder, is_locked=is_locked, may_change=is_exclusive)
            _lock_counts[identity] = _lock_counts.get(identity, 0) + 1
            counted_identities.append(identity)
        yield
    finally:
        for identity in counted_identities:
            _lock_counts[identity] -= 1
            if not _lock_counts[identity]:
                del _lock_counts[identity]
        for descriptor, _, _ in directories.values():
            os.close(descriptor)


def refuse_half_changed_directory(folder: str) -> None:
    """Wait for a job that is replacing the files of a directory.

    Raise DataDirError if such a job was killed before it finished.
    """
    names: list[str] = []
    with contextlib.suppress(OSError):
        names = os.listdir(folder)
    if any((match := _TEMPORARY.fullmatch(name)) and match[1] == _CHANGES for name in names):
        with lock_directories(folder, may_change=False):
            pass


def refuse_byte_order_mark(path: str) -> None:
    """Raise DataDirError if a file starts with a byte-order mark, which would become part of the first key."""
    with open(path, "rb", 0) as file:
        start = file.read(MAX_FIRST_KEY_BYTES)
    if start.startswith(BYTE_ORDER_MARK):
        key = b"".join(start.removeprefix(BYTE_ORDER_MARK).split(None, 1)[:1])
        raise DataDirError(STARTS_WITH_MARK, path, 1, key)


def _find_leftovers(folder: str, is_locked: bool) -> tuple[list[str], list[tuple[int, list[Rename]]]]:
    """Return the names of temporary files to remove, and for each unfinished change the time of its list in ns and its renames.

    For ``is_locked``, see :func:`clear_up_directory`. Warn once about a list of changes that is invalid or from another
    machine. The temporary files of the process that wrote such a list are kept.
    """
    leftovers: list[tuple[str, tuple[str, str]]] = []  # Names of temporary files, with (machine, process ID).
    changes: list[tuple[int, list[Rename]]] = []
    skipped_processes: set[tuple[str, str]] = set()  # (machine, process ID) of changes that cannot be finished here.
    with contextlib.suppress(OSError):  # A directory that this user may not list cannot be cleared up.
        for name in os.listdir(folder):
            if not (match := _TEMPORARY.fullmatch(name)):
                continue
            path, (file_name, machine, process) = os.path.join(folder, name), match.groups()
            status = os.lstat(path)
            is_leftover = (is_locked and machine == _MACHINE) or time.time() - status.st_mtime > _ABANDONED_SECONDS
            if not stat.S_ISREG(status.st_mode):
                continue
            if file_name == _CHANGES:
                renames = read_changes(folder, name, process) if machine == _MACHINE else []
                if not renames:
                    skipped_processes.add((machine, process))
                    if path not in _reported:
                        _reported.add(path)
                        reason = "the list is invalid" if machine == _MACHINE else "another machine wrote the list"
                        warn(f"{path}: this list of changes is ignored, because {reason}: delete the list if no job is "
                             "running")  # fmt: skip
                elif is_leftover:
                    changes.append((_get_change_time(status), renames))
            if is_leftover:
                leftovers.append((name, (machine, process)))
    return [name for name, owner in leftovers if owner not in skipped_processes], changes


def clear_up_directory(folder: str, *, is_locked: bool, may_change: bool) -> None:
    """Finish the change of a killed job, and remove the temporary files of killed jobs.

    If this process has locked a directory, no running job of this machine needs the temporary files there. Without a
    lock (Windows, NFS), and on another machine, a running job may need its files, so they are removed only after a day.

    Args:
        is_locked: True if this process has locked the directory.
        may_change: True if this process may change the directory. If False, nothing is removed.

    Raise DataDirError if a change is unfinished and ``may_change`` is False, or a change cannot be finished.
    """
    names, changes = _find_leftovers(folder, is_locked)
    if not may_change:
        if changes:
            remedy = "run kaldi-compat data fix, or the same job, to finish the change"
            raise DataDirError(f"a job was ended while it changed this directory: {remedy}", folder)
        return
    newer_names: list[str] = []
    for time_of_list, renames in changes:
        outdated_renames = [pair for pair in renames if _is_newer(folder, pair, time_of_list)]
        newer_names += [new or old for old, new in outdated_renames]
        apply_renames(folder, [pair for pair in renames if pair not in outdated_renames], ending=UNFINISHED)
    for name in names:
        # Skip a file that finishing the change has moved, and a file in a read-only directory.
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(folder, name))
    if changes:
        note = f", but did not replace files that were written since: {' '.join(newer_names)}" if newer_names else ""
        warn(f"{folder}: finished the change of a job that was ended{note}")
    elif names:
        warn(f"{folder}: removed {len(names)} temporary file{'s' * (len(names) > 1)} of a job that was ended")


def _get_change_time(status: os.stat_result) -> int:
    """Return the time in nanoseconds at which a file with this ``status`` was last written or moved.

    Windows does not record moves.
    """
    return status.st_ctime_ns if fcntl else status.st_mtime_ns


def _is_newer(folder: str, rename: Rename, time_of_list: int) -> bool:
    """Return True if a file that ``rename`` would move, replace or remove was changed after ``time_of_list``, in ns."""
    paths = [os.path.join(folder, name) for name in rename if name]
    if not os.path.lexists(paths[0]):
        return False  # The killed job carried out this rename.
    return any(os.path.lexists(path) and _get_change_time(os.lstat(path)) > time_of_list for path in paths)


def read_changes(folder: str, name: str, process: str) -> list[Rename]:
    """Return the renames in the temporary file ``name`` of a directory, which the process with the id ``process`` has written.

    Return [] if the file is malformed, or has a rename that this process cannot have listed.
    """
    with open(os.path.join(folder, name), "rb") as file:
        names = list(map(os.fsdecode, file.read().split(b"\0")))
    renames = list(zip(names[::2], names[1::2], strict=False))
    is_valid = len(names) % 2 == 0 and all(_can_be_rename_of(folder, rename, process) for rename in renames)
    return renames if is_valid else []


def _can_be_rename_of(folder: str, rename: Rename, process: str) -> bool:
    """Return True if a process with the id ``process`` can have listed ``rename``, so that it is safe to carry it out.

    Such a rename puts a temporary file of the process in place, moves a data file into ``.backup``, or removes a data
    file.
    """
    old, new = rename
    for name in filter(None, rename):
        if name != os.path.normpath(name) or not is_inside(folder, name):
            return False
    if new and (match := _TEMPORARY.fullmatch(old)):
        file_name, *machine_and_process = match.groups()
        return _unescape_name(file_name) == new and machine_and_process == [_MACHINE, process]
    return bool(_OWN_FILE.fullmatch(old)) and new in ("", os.path.join(BACKUP, old))


def is_inside(folder: str, name: str) -> bool:
    """Return True if the relative path ``name`` stays within ``folder``, and none of its folders is a link or a file."""
    *bases, _ = name.split(os.sep)
    paths = list(itertools.accumulate([folder, *bases], os.path.join))[1:]
    is_plain = os.pardir not in bases and not os.path.isabs(name)
    return is_plain and not any(os.path.lexists(path) and is_not_directory(path) for path in paths)


def refuse_irreplaceable_file(folder: str, name: str) -> None:
    """Raise DataDirError if the file ``name`` of ``folder`` cannot be replaced, for example because it is a device."""
    path = os.path.join(folder, name)
    if not is_inside(folder, name):
        message = "has a parent that is a link or a file instead of a folder: move the link or file away"
        raise DataDirError(message, path)
    if os.path.lexists(path) and not stat.S_ISREG(mode := os.lstat(path).st_mode) and not stat.S_ISLNK(mode):
        raise DataDirError("is not a regular file: move it away", path)


def apply_renames(folder: str, renames: Iterable[Rename], ending: str = "") -> None:
    """Rename and remove files of a directory, and remove folders that become empty.

    Each pair in ``renames`` has the old and the new name of a file. An empty new name removes the file. A missing file
    was renamed or removed before, and is skipped.

    Raise DataDirError if a file cannot be renamed or removed. The message ends with ``ending``, or if it is "", with
    advice.
    """
    parents = set()  # Folders of the removed files.
    for old, new in renames:
        target = os.path.join(folder, new or old)
        try:
            with contextlib.suppress(FileNotFoundError):
                if not new:
                    os.unlink(target)
                    parents.add(os.path.dirname(old))
                elif os.path.lexists(os.path.join(folder, old)):
                    os.makedirs(os.path.dirname(target), exist_ok=True)
                    os.replace(os.path.join(folder, old), target)
        except OSError as error:
            advice, action = ending or ": check the permissions of the folder", "written" if new else "removed"
            raise DataDirError(f"cannot be {action}: {error.strerror}{advice}", target) from None
    for base in sorted({*parents, *map(os.path.dirname, parents)} - {""}, reverse=True):
        with contextlib.suppress(OSError):  # Keep a folder with other files.
            os.rmdir(os.path.join(folder, base))


def list_known_files(folder: str, within: Iterable[str] = ("",)) -> list[str]:
    """Return the names of existing :data:`DATA_FILES`, relative to ``folder``. Links to missing files are included.

    ``within`` has the names of the folders within ``folder`` to search, by default only ``folder`` itself.
    """
    names = []
    for base in within:
        base_path = os.path.join(folder, base)
        if base and is_not_directory(base_path):
            continue
        for name in DATA_FILES:
            path = os.path.join(base_path, name)
            if os.path.isfile(path) or (os.path.islink(path) and not os.path.exists(path)):
                names.append(os.path.join(base, name))
    return names


def is_not_directory(path: str) -> bool:
    """Return True unless ``path`` is a directory. A link to a directory does not count as a directory."""
    return os.path.islink(path) or not os.path.isdir(path)


def list_parts(folder: str) -> list[str]:
    """Return the names of all parts in a directory, such as ``split4/1``."""
    parts = []
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if _OWN_FOLDER.fullmatch(name) and name != BACKUP and not is_not_directory(path):
            parts += [os.path.join(name, part) for part in os.listdir(path) if part.isdecimal()]
    return parts


def _iterate_identities(path: str) -> Iterator[tuple[int, int]]:
    """Yield the device and the inode of a directory, of its parent, and so on to the root.

    Yield nothing for a missing directory.
    """
    previous = None
    while True:
        try:
            status = os.stat(path)
        except OSError:
            return
        identity = (status.st_dev, status.st_ino)
        if identity == previous:  # The parent of the root is the root itself.
            return
        yield identity
        previous, path = identity, os.path.join(path, os.pardir)


def _iterate_link_targets(folder: str) -> Iterator[str]:
    """Yield the target of each link in a directory, then the target of that link, and so on.

    Stop at a link to a directory.
    """
    names = os.listdir(folder) if os.path.isdir(folder) else []
    for name in names:
        path = os.path.join(folder, name)
        for _ in range(_MAX_LINKS):
            if not os.path.islink(path) or os.path.isdir(path):
                break
            path = os.path.join(os.path.dirname(path), os.readlink(path))
            yield path


def refuse_target(target: str, *sources: str) -> None:
    """Raise DataDirError if a target cannot be written, or if writing it would change a source. Nothing is changed.

    A target must not be a URL or a source, contain a source, contain a file to which a link of a source leads, be a
    folder of a source (``.backup``, ``split4``), or be or contain the working directory. If it exists, it must be a
    directory in which all data files can be replaced.
    """
    _refuse_url(target)
    real = os.path.realpath(target)
    target_identity = next(_iterate_identities(real), None)  # None if the target does not exist.
    for source in sources:
        source_and_parents = list(_iterate_identities(source))
        if source_and_parents[:1] == [target_identity]:
            raise DataDirError(f"is a source ({source}): choose another target", target)
        if target_identity in source_and_parents:
            raise DataDirError(f"contains the source {source}: choose another target", target)
        for path in _iterate_link_targets(source):
            if target_identity and target_identity in _iterate_identities(os.path.dirname(path)):
                message = f"contains {path}, to which a file of the source {source} is a link: choose another target"
                raise DataDirError(message, target)
        base, name = os.path.split(real)
        while name and source_and_parents:
            if _OWN_FOLDER.fullmatch(name) and next(_iterate_identities(base), None) == source_and_parents[0]:
                raise DataDirError(f"belongs to the source {source}: choose another target", target)
            base, name = os.path.split(base)
    if target_identity and target_identity in _iterate_identities(os.curdir):
        raise DataDirError("is or contains the working directory: choose another target", target)
    existing_parent = real
    while not os.path.lexists(existing_parent):
        existing_parent = os.path.dirname(existing_parent)
    for path in (target, existing_parent):
        if os.path.lexists(path) and not os.path.isdir(path):
            raise DataDirError("is not a directory: choose another target", path)
    for name in (*DATA_FILES, os.path.join(BACKUP, DATA_FILES[0])):
        refuse_irreplaceable_file(target, name)


def _refuse_url(folder: str) -> None:
    """Raise DataDirError if a folder is a URL."""
    if is_url(folder):
        raise DataDirError("is a URL: choose a local directory", folder)


def make_directory(folder: str) -> list[str]:
    """Create a directory and its missing parents, and return the new directories, the innermost first.

    Raise DataDirError if the directory cannot be created.
    """
    _refuse_url(folder)
    missing_folders: list[str] = []
    path = os.path.realpath(folder)
    while not os.path.lexists(path):
        missing_folders.append(path)
        path = os.path.dirname(path)
    try:
        os.makedirs(folder, exist_ok=True)
    except FileExistsError:
        raise DataDirError("is not a directory: choose another name, or move it away", folder) from None
    except OSError as error:
        raise _make_unchanged_error(error, folder) from None
    return missing_folders


def remove_empty_folders(folders: Iterable[str]) -> None:
    """Remove each folder that is empty, in the order of ``folders``. Keep all other folders."""
    for folder in folders:
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def is_locked_here(*folders: str) -> bool:
    """Return True if all ``folders`` exist and this process has locked them.

    Always return True on systems without locks.
    """
    return not fcntl or all(next(_iterate_identities(folder), None) in _lock_counts for folder in folders)


@contextlib.contextmanager
def make_temporary_directories(*folders: str, beside: Iterable[str] = ()) -> Iterator[None]:
    """Make directories with the same parent.

    When the ``with`` block ends, remove their data files and the empty directories.
    A marker file in the directories lets a later job remove them if this job is killed.

    Args:
        *folders: paths of the directories.
        beside: further directories that the job changes, which are created if missing. All directories are locked
            together, because jobs that lock directories one after another can block each other forever.

    Raise DataDirError if a directory exists, is not empty, and has no marker file.
    """
    parent, other_folders = os.path.dirname(os.path.realpath(folders[0])), list(beside)
    new_folders: list[str] = []
    os.makedirs(parent, exist_ok=True)
    while True:
        with lock_directories(parent):  # Keep this lock short, because other jobs may need the parent.
            for folder in folders:
                is_empty = not os.path.lexists(folder) or (not is_not_directory(folder) and not os.listdir(folder))
                if not (is_empty or os.path.isfile(os.path.join(folder, _TEMPORARY_MARK))):
                    message = "exists, but this job needs this name for a temporary directory: move it away"
                    raise DataDirError(message, folder)
            for folder in folders:
                os.makedirs(folder, exist_ok=True)
                open(os.path.join(folder, _TEMPORARY_MARK), "wb").close()
        new_folders += itertools.chain.from_iterable(map(make_directory, other_folders))
        with lock_directories(*folders, *other_folders):
            if not is_locked_here(*folders, *other_folders):
                continue  # Another job removed the directories before they were locked, so make them again.
            try:
                yield
            finally:
                remove_empty_folders(new_folders)
                for folder in filter(os.path.isdir, folders):
                    names = list_known_files(folder, ("", BACKUP, *list_parts(folder)))
                    apply_renames(folder, [(name, "") for name in names])
                    remove_empty_folders([os.path.join(folder, BACKUP)])  # A killed job may have emptied it.
                    # The marker is removed last, so that a later job can remove whatever a kill leaves here.
                    apply_renames(folder, [(_TEMPORARY_MARK, "")])
                    remove_empty_folders([folder])
            return


class Stage(DataFiles):
    """Writes new files of a directory beside the old files, and puts them in place with :meth:`commit`.

    Use a stage as a context manager. An error discards the new files. Other files and folders of the directory are not
    changed, and no link within the directory is followed.

    Args:
        folder: path of the directory, which is created if missing.
        say: prints the script's messages. With ``say.as_script``, the files written before an error remain if they
            remain after an error of Kaldi's script.
        sources: paths of the directories from which this directory is made. With sources, the data files that the job
            does not write are moved into ``.backup`` at the end, and the data files of parts (``split4``) are removed.
        changes_sources: True if the job writes durations into the sources.

    Entering the context raises DataDirError if the directory cannot be made from these sources (see
    :func:`refuse_target`).
    """

    def __init__(
        self, folder: str, say: Printer, *, sources: Sequence[str] = (), changes_sources: bool = False
    ) -> None:
        super().__init__(folder)
        self._say, self._sources = say, sources
        self._new: dict[str, str | None] = {}  # Maps changed files to temporary files, or to None to remove the file.
        self._backed_up: dict[str, str] = {}  # Maps files to the paths of the versions copied to .backup.
        self._temporaries: list[str] = []  # Paths of all temporary files.
        changed_folders, read_folders = ([folder, *sources], ()) if changes_sources else ([folder], sources)
        self._lock_all = functools.partial(lock_directories, *changed_folders, read_folders=read_folders)

    def __enter__(self) -> Stage:
        """Create and lock the directory, and lock its sources.

        Raise DataDirError for unsuitable sources, or for a byte-order mark.
        """
        if self._sources:
            refuse_target(self.folder, *self._sources)
        while True:
            self._new_folders = make_directory(self.folder)
            self._lock = self._lock_all()
            self._lock.__enter__()
            if is_locked_here(self.folder):
                break
            # Another job, which had made the directory, has failed and removed it. Make the directory again.
            self._lock.__exit__(None, None, None)
        try:
            for source in self._sources or (self.folder,):
                for name in DATA_FILES:
                    if path := DataFiles(source).find(name):
                        refuse_byte_order_mark(path)
        except BaseException:
            self._clean_up()
            raise
        return self

    def _clean_up(self) -> None:
        """Remove temporary files and new empty folders, and release the locks."""
        for path in self._temporaries:
            with contextlib.suppress(OSError):  # A file that was put in place no longer has its temporary name.
                os.unlink(path)
        # Remove the folders before the lock is released, so that no other job writes there.
        remove_empty_folders(self._new_folders)
        self._lock.__exit__(None, None, None)

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        """Commit the new files, unless there is an error after which Kaldi's script would leave no files."""
        try:
            if kind is None or (isinstance(error, DataDirError) and error.partly and self._say.as_script):
                self.commit()
        finally:
            self._clean_up()

    def find(self, name: str) -> str:
        """Return the path of the current version of the file ``name``, or "" if there is no file.

        In a stage with sources, old files of the directory are ignored.
        """
        if name in self._new:
            return self._new[name] or ""
        return "" if self._sources else super().find(name)

    def has_changed(self, name: str) -> bool:
        """Return True if this stage has a new version of the file ``name``, or will remove the file."""
        return name in self._new

    def make_temporary_path(self, name: str) -> str:
        """Return the path of a new temporary file for the file ``name``.

        If this job is killed, a later job removes it.
        """
        name = name.replace("%", "%25").replace("/", "%2F")
        path = os.path.join(self.folder, f".{name}.{_MACHINE}.{os.getpid()}.{next(_temporary_numbers)}.tmp")
        self._temporaries.append(path)
        return path

    @contextlib.contextmanager
    def open_writer(self, name: str) -> Iterator[Callable[[bytes], object]]:
        """Yield a function that writes bytes to a new version of the file ``name``. The current version stays readable.

        Raise DataDirError if the file cannot be written or replaced. After an error in the ``with`` block, the new
        version is discarded, unless Kaldi's script would leave it.
        """
        refuse_irreplaceable_file(self.folder, name)
        path = self.make_temporary_path(name)
        try:
            with open(path, "xb", BUFFER_BYTES) as file:
                yield file.write
        except BaseException as error:
            if isinstance(error, DataDirError) and error.partly and self._say.as_script:
                self._set_new_version(name, path)  # As with ">" of a shell, the output before the failure remains.
                raise
            with contextlib.suppress(OSError):
                os.unlink(path)
            if isinstance(error, OSError) and not isinstance(error, ArkError):
                raise _make_unchanged_error(error, path) from None
            raise
        self._set_new_version(name, path)

    def _set_new_version(self, name: str, path: str | None) -> None:
        """Make the commit rename ``path`` to ``name``, or remove ``name`` if ``path`` is None.

        Discard an earlier new version.
        """
        if old := self._new.get(name):
            os.unlink(old)
        self._new[name] = path

    def write(self, name: str, chunks: Iterable[bytes]) -> None:
        """Write the new version of the file ``name`` from consecutive chunks of its content."""
        with self.open_writer(name) as write:
            for chunk in chunks:
                write(chunk)

    def copy(self, source: str, name: str) -> None:
        """Write the new version of the file ``name`` as a copy of the file at the path ``source``."""
        with self.open_writer(name) as write, open(source, "rb", 0) as file:
            for chunk in iter(functools.partial(file.read, BUFFER_BYTES), b""):
                write(chunk)

    def write_files_from(
        self, source: DataFiles, names: str, make: Callable[[str], Iterable[bytes]] | None = None
    ) -> None:
        """Copy the files ``names``, separated by spaces, from another directory. Missing files are skipped.

        If ``make`` is passed, write the chunks that ``make(path)`` returns instead of the content of each file.
        """
        for name in names.split():
            if path := source.find(name):
                if make:
                    self.write(name, make(path))
                else:
                    self.copy(path, name)

    def back_up(self, name: str) -> None:
        """At the commit, copy the current version of the file ``name`` into ``.backup``, unless this version is already copied.

        In a stage with sources that has not written the file, the old file of the directory is copied.
        """
        path = self.find(name) or super().find(name)
        if self._backed_up.get(name) != path:
            self._backed_up[name] = path
            self.copy(path, os.path.join(BACKUP, name))

    def remove(self, name: str) -> None:
        """Remove the file ``name`` of the directory when the stage is committed."""
        refuse_irreplaceable_file(self.folder, name)
        self._set_new_version(name, None)

    def discard_backup(self) -> None:
        """Discard the files that the commit would write into ``.backup``."""
        for name in [name for name in self._new if name.startswith(f"{BACKUP}/")]:
            del self._new[name]

    def move_to_backup(self, name: str) -> None:
        """Move the file ``name`` into ``.backup`` when the stage is committed."""
        self.back_up(name)
        self.remove(name)

    def commit(self) -> None:
        """Put all new files in place, and move or remove old files.

        Signals are delayed until all files have their names. If this job is killed, the next job on the directory
        completes the change. Raise DataDirError if a file cannot be written or renamed.
        """
        renames = [rename for name, new in self._new.items() for rename in self._list_renames(name, new)]
        if self._new and self._sources:
            renames += self._list_backup_renames()
        if renames and self._sources:
            renames += [(name, "") for name in list_known_files(self.folder, list_parts(self.folder))]
        for base in {os.path.dirname(name) for rename in renames for name in rename if name}:
            path = os.path.join(self.folder, base)
            if os.path.isdir(path) and not os.access(path, os.W_OK | os.X_OK):
                raise DataDirError("cannot be written: nothing was changed; check the permissions", path)
        with delay_signals():
            changes = self._write_changes(renames) if len(renames) > 1 else ""
            try:
                apply_renames(self.folder, renames, ending=UNFINISHED if changes else "")
            except BaseException:
                if changes:
                    self._temporaries.clear()  # The next job needs the temporary files to finish the change.
                raise
            self._new.clear()
            if changes:
                os.unlink(changes)

    def _write_changes(self, renames: list[Rename]) -> str:
        """Write renames to a file, from which a later job can finish the change if this job is killed.

        Return its path.
        """
        draft, path = self.make_temporary_path("draft"), self.make_temporary_path(_CHANGES)
        try:
            with open(draft, "xb") as file:
                file.write(os.fsencode("\0".join(itertools.chain.from_iterable(renames))))
            os.replace(draft, path)
        except OSError as error:
            raise _make_unchanged_error(error, path) from None
        return path

    def _list_renames(self, name: str, new: str | None) -> list[Rename]:
        """Return the rename of the file at the path ``new`` to ``name``, the removal of ``name`` if ``new`` is None, or [] if nothing changes."""
        path = os.path.join(self.folder, name)
        if not new:
            return [(name, "")] if os.path.lexists(path) else []
        if have_same_bytes(new, path) and not (self._sources and os.path.islink(path)):
            return []  # An unchanged file keeps its time and, if it is a link, stays a link.
        return [(os.path.basename(new), name)]

    def _list_backup_renames(self) -> list[Rename]:
        """Return renames that move data files into ``.backup`` unless this stage has written them.

        Print Kaldi's message for each file.
        """
        renames = []
        for name in list_known_files(self.folder):
            if name not in self._new:
                is_in_source = any(DataFiles(source).find(name) for source in self._sources)
                not_in_source = f"but not in src {' '.join(self._sources)}."
                reason = "but is not written by this job." if is_in_source else not_in_source
                self._say(f"file {name} exists in dest {self.folder} {reason}  Moving it to")
                self._say.write(f" ... {self.folder}/{BACKUP}/{name}")
                refuse_irreplaceable_file(self.folder, backup := os.path.join(BACKUP, name))
                renames.append((name, backup))
        return renames


def _make_unchanged_error(error: OSError, path: str) -> DataDirError:
    """Return the error for a system call that failed before any file was changed."""
    return DataDirError(f"{error.strerror or error}: nothing was changed", str(error.filename or path))


def have_same_bytes(file: str, other_file: str) -> bool:
    """Return True if two files have the same content. Return False if ``other_file`` is missing."""
    return os.path.isfile(other_file) and filecmp.cmp(file, other_file, shallow=False)
