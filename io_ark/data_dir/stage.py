"""Change a data directory as a whole: new files replace the old ones at the end, under a lock, or not at all."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator

from io_ark.data_dir.lines import chunks
from io_ark.errors import ArkError

try:
    import fcntl
except ModuleNotFoundError:  # on Windows, which has no locks of directories
    fcntl = None  # type: ignore[assignment]

BUFFER = 1 << 20
BACKUP = ".backup"
SCRATCH = ".utterances"  # a file that no commit keeps
_TEMPORARY = re.compile(r"\.([^/]+)\.[0-9]+\.[0-9]+\.tmp$")  # see Stage.writing
_held: dict[tuple[int, int], int] = {}  # how often this process locked a directory


class DataDirError(ArkError):
    """A data directory cannot be used.

    Attributes:
        line: the line of the file, from 1; 0 if none.
        status: exit status of the script.
        partly: True if the script leaves what it wrote before, as Kaldi's does.
    """

    status, partly = 1, False

    def __init__(
        self, message: str, file: str = "", line: int = 0, key: bytes | str | None = None, **given: int
    ) -> None:
        text = key.decode("utf-8", "surrogateescape") if isinstance(key, bytes) else key
        file = _TEMPORARY.sub(r"\1", file)
        super().__init__(message, file=f"{file}:{line}" if line else file, key=text)
        self.line = line
        self.__dict__.update(given)


class Say:
    """Prints as a script does.

    Args:
        name: of the script, as Kaldi's scripts print it (``$0``).
        write: takes a line without its newline.
        as_script: True to leave on failure what Kaldi's script leaves.
    """

    def __init__(self, name: str, write: Callable[[str], object] = print, *, as_script: bool = True) -> None:
        self.name, self.write, self.as_script = name, write, as_script

    def __call__(self, text: str) -> None:
        self.write(f"{self.name}: {text}")

    def called(self, name: str) -> Say:
        """Return this for a script that this one calls."""
        return Say(name, self.write, as_script=self.as_script)

    def to_stderr(self) -> Say:
        """Return this with standard error instead of standard output."""
        return Say(self.name, warn, as_script=self.as_script)

    def fails(
        self, text: str, detail: str = "", file: str = "", line: int = 0, key: bytes | None = None, status: int = 1
    ) -> DataDirError:
        """Print what Kaldi prints, and return the error to raise, which adds details; or has the text, if it was not printed."""
        if text and (self.as_script or detail):
            self(text)
        detail = detail or ("" if self.as_script else text)
        return DataDirError(detail, file, line, key, status=status, partly=True)


def warn(text: object) -> None:
    """Print a line on standard error."""
    print(text, file=sys.stderr)


def shown(key: bytes) -> str:
    """Return a key as text."""
    return key.decode("utf-8", "surrogateescape")


class SourceDir:
    """A data directory that is read."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def path(self, name: str) -> str:
        """Return the path of a file; empty if it is missing."""
        path = os.path.join(self.folder, name)
        return path if os.path.isfile(path) else ""

    def need(self, say: Say, name: str = "utt2spk") -> str:
        """Return the path of a file, which must exist."""
        path = self.path(name)
        if not path:
            raise say.fails(f"no such file {self.folder}/{name}")
        return path

    def has(self, name: str) -> bool:
        """True if the file has content."""
        path = self.path(name)
        return bool(path) and os.path.getsize(path) > 0

    def count(self, name: str) -> int:
        """Return the number of newlines in a file, as wc does; 0 if it is missing."""
        path = self.path(name)
        return sum(chunk.count(b"\n") for chunk in chunks(path)) if path else 0


@contextlib.contextmanager
def exits_with(status: int) -> Iterator[None]:
    """Let errors end the script with this status."""
    try:
        yield
    except DataDirError as error:
        error.status = status
        raise


@contextlib.contextmanager
def locked(*folders: str, change: bool = True) -> Iterator[None]:
    """Hold locks of directories, for one process at a time if it changes them. A directory that is not there has none."""
    taken: list[tuple[int, tuple[int, int]]] = []
    try:
        for folder in sorted(set(map(os.path.realpath, folders))) if fcntl else ():
            try:
                descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            except OSError:
                continue
            status = os.fstat(descriptor)
            which = (status.st_dev, status.st_ino)
            taken.append((descriptor, which))
            if not _held.get(which):
                with contextlib.suppress(OSError):  # a file system without locks
                    fcntl.flock(descriptor, fcntl.LOCK_EX if change else fcntl.LOCK_SH)
            _held[which] = _held.get(which, 0) + 1
        yield
    finally:
        for descriptor, which in taken:
            os.close(descriptor)
            if which in _held and _held[which] > 1:
                _held[which] -= 1
            else:
                _held.pop(which, None)


class Stage(SourceDir):
    """New files of a directory, beside the old ones until :meth:`commit`. A context: an error discards them.

    Args:
        folder: the directory, which is made if it is missing.
        say: how to print. Of a script, an error that Kaldi's script ends with, too, keeps the files written before.
        anew: remove everything else from the directory.
    """

    def __init__(self, folder: str, say: Say, *, anew: bool = False) -> None:
        super().__init__(folder)
        self._say, self._anew = say, anew
        self._new: dict[str, str | None] = {}  # temporary file of each name; None to remove it
        self._kept: dict[str, str] = {}  # the version of each file that is in .backup
        self._count = 0

    def __enter__(self) -> Stage:
        self._was_there = os.path.isdir(self.folder)
        try:
            os.makedirs(self.folder, exist_ok=True)
        except OSError as error:
            raise _unchanged(error, self.folder) from None
        self._lock = locked(self.folder)
        self._lock.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        self.remove(SCRATCH)
        try:
            if kind is None or (isinstance(error, DataDirError) and error.partly and self._say.as_script):
                self.commit()
        finally:
            for path in filter(None, self._new.values()):
                with contextlib.suppress(OSError):
                    os.unlink(path)
            self._lock.__exit__(None, None, None)
            if not self._was_there:
                with contextlib.suppress(OSError):  # it has files
                    os.rmdir(self.folder)

    def path(self, name: str) -> str:
        """Return where the present version of a file is; empty if there is none."""
        return self._new[name] or "" if name in self._new else super().path(name)

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[Callable[[bytes], object]]:
        """Write a file: yields a function that takes bytes. The present version can be read meanwhile."""
        self._count += 1
        base = os.path.join(self.folder, os.path.dirname(name))
        path = os.path.join(base, f".{os.path.basename(name)}.{os.getpid()}.{self._count}.tmp")
        try:
            os.makedirs(base, exist_ok=True)
            with open(path, "xb", BUFFER) as file:
                yield file.write
        except BaseException as error:
            if isinstance(error, DataDirError) and error.partly and self._say.as_script:
                self._replace(name, path)  # as the shell's ">", which leaves what came before the failure
                raise
            with contextlib.suppress(OSError):
                os.unlink(path)
            if isinstance(error, OSError) and not isinstance(error, ArkError):
                raise _unchanged(error, path) from None
            raise
        self._replace(name, path)

    def _replace(self, name: str, path: str | None) -> None:
        if old := self._new.get(name):
            os.unlink(old)
        self._new[name] = path

    def write(self, name: str, parts: Iterable[bytes]) -> None:
        """Write a file."""
        with self.writing(name) as write:
            for some in parts:
                write(some)

    def append(self, name: str, parts: list[bytes]) -> None:
        """Write a file, or append to it if it was written here."""
        if name not in self._new:
            self.write(name, parts)
        elif parts:
            with open(self.path(name), "ab") as file:
                file.writelines(parts)

    def copy(self, source: str, name: str) -> None:
        """Write a copy of a file."""
        with self.writing(name) as write, open(source, "rb", 0) as file:
            try:
                while os.sendfile(write.__self__.fileno(), file.fileno(), None, 1 << 30):  # type: ignore[attr-defined]
                    pass
            except (OSError, AttributeError):  # a file system, or a system, without it
                if file.tell():
                    raise
                for chunk in chunks(source):
                    write(chunk)

    def each(self, source: SourceDir, names: str, make: Callable[[str], Iterable[bytes]] | None = None) -> None:
        """Write copies of the files of another directory that are there, or what is made of each."""
        for name in names.split():
            if path := source.path(name):
                if make:
                    self.write(name, make(path))
                else:
                    self.copy(path, name)

    def keep(self, name: str) -> None:
        """Write a file's present version into ``.backup``."""
        path = self.path(name)
        if self._kept.get(name) != path:
            self._kept[name] = path
            self.copy(path, os.path.join(BACKUP, name))

    def remove(self, name: str) -> None:
        """Remove a file."""
        self._replace(name, None)

    def move_to_backup(self, name: str) -> None:
        """Move a file into ``.backup``."""
        self.keep(name)
        self.remove(name)

    def commit(self) -> None:
        """Put the new files in place."""
        kept = {os.path.join(self.folder, name) for name in self._new} | {path for path in self._new.values() if path}
        for path in [os.path.join(self.folder, name) for name in os.listdir(self.folder)] if self._anew else []:
            if path not in kept:
                remove_tree(path)
        for name, new in self._new.items():
            target = os.path.join(self.folder, name)
            try:
                if new and same_bytes(new, target):
                    os.unlink(new)  # a link stays one, and the time of the last change what it is
                elif new:
                    os.replace(new, target)
                elif os.path.lexists(target):
                    os.unlink(target)
            except OSError as error:
                raise DataDirError(f"cannot be replaced: {error.strerror}", target) from None
        self._new.clear()


def _unchanged(error: OSError, path: str) -> DataDirError:
    """Return the error for a failed system call."""
    return DataDirError(f"{error.strerror or error}: nothing was changed", str(error.filename or path))


def same_bytes(one: str, other: str) -> bool:
    """True if two files have the same content."""
    if not os.path.isfile(other) or os.path.getsize(one) != os.path.getsize(other):
        return False
    with open(one, "rb", 0) as a, open(other, "rb", 0) as b:
        while True:
            left, right = a.read(BUFFER), b.read(BUFFER)
            if left != right or not left:
                return left == right


def remove_tree(path: str) -> None:
    """Remove a file, or a directory with all that is in it."""
    if os.path.isdir(path) and not os.path.islink(path):
        for name in os.listdir(path):
            remove_tree(os.path.join(path, name))
        os.rmdir(path)
    else:
        os.unlink(path)
