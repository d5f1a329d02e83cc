"""Open files that readers share and read at any offset with ``pread``, and retry when file descriptors run out."""

from __future__ import annotations

import errno
import os
import stat
import sys
import threading
import time
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from io_ark.errors import MissingFileError, OpenError
from io_ark.specifier import is_url
from io_ark.streams.access import Access
from io_ark.streams.remote import RemoteFile
from io_ark.streams.source import FileSource, MapSource, Source
from io_ark.streams.system import OPEN_FLAGS

MAX_OPEN_FILES = 64  # Maximum number of files that a cache keeps open for lookups in any order.
# Maximum number of open files for reading in file order, in which a file is rarely used again later.
MAX_OPEN_FILES_SEQUENTIAL = 16
_MAX_FILE_BYTES = 1 << 62  # No file is larger. Some file systems report 2**63 - 1 as the end of a directory.
Opened = TypeVar("Opened")


class OpenFile:
    """An open file, whose descriptor is closed when its last user releases it, even after a cache has dropped it.

    Args:
        path: path of the file.
        mmap: True to let :meth:`open_source` read the file through a memory map.

    Raises:
        OpenError: the file cannot be opened, or is a directory.

    Attributes:
        descriptor: descriptor of the open file.
        is_regular: True for a regular file.
        size: size of the file in bytes when it was last checked.
    """

    __slots__ = ("_map", "descriptor", "is_regular", "path", "size")

    def __init__(self, path: str, *, mmap: bool = False) -> None:
        self.descriptor = -1
        self.path = path
        self._map: Any = b"" if mmap else None
        try:
            try:  # The direct call saves time. The second call waits for free descriptors.
                self.descriptor = os.open(path, OPEN_FLAGS)
            except OSError:
                self.descriptor = retry_when_out_of_descriptors(os.open, path, OPEN_FLAGS)
        except (OSError, ValueError) as error:
            error_class = MissingFileError if isinstance(error, FileNotFoundError) else OpenError
            raise error_class(f"cannot be opened: {describe_error(error)}", file=path) from error
        # lseek takes half the time of fstat, which matters for small objects. It fails for pipes and terminals, and
        # returns 0 for devices and a huge number for directories; fstat then tells what the path is.
        try:
            self.size = os.lseek(self.descriptor, 0, os.SEEK_END)
            self.is_regular = 0 < self.size < _MAX_FILE_BYTES
        except OSError:
            self.is_regular = False
        if not self.is_regular:
            status = os.fstat(self.descriptor)
            if stat.S_ISDIR(status.st_mode):
                raise OpenError("is a directory, not a file: name a file in the directory", file=path)
            self.is_regular = stat.S_ISREG(status.st_mode)
            self.size = status.st_size

    def map(self) -> Any:
        """Return a memory map of the whole file at its present size, or b"" for an empty file.

        The file is mapped again only if its size has changed. Raise OpenError if the file cannot be mapped.
        """
        from mmap import ACCESS_READ
        from mmap import mmap as map_file

        size = os.fstat(self.descriptor).st_size
        if size == len(self._map or b""):
            return self._map
        # Before Python 3.13 a map has its own descriptor, which stays open as long as an array is a view of the map.
        options: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}
        try:
            create_map = partial(map_file, self.descriptor, size, access=ACCESS_READ, **options)
            self._map = retry_when_out_of_descriptors(create_map)
        except (OSError, ValueError) as error:
            raise OpenError(f"cannot be mapped into memory: {describe_error(error)}", file=self.path) from error
        return self._map

    def open_source(self, offset: int, *, ahead: bool = True) -> Source:
        """Return a source that reads this regular file, or its memory map, from the byte ``offset`` to the end.

        If ``ahead`` is True, the source also reads later bytes, for callers that read several objects in order. Raise
        OpenError if the offset is beyond the end of the file.
        """
        if self._map is not None:
            # MapSource calls `map` to check the size again, because reading past the end of a file that has shrunk
            # would kill the process.
            return MapSource(self.map(), offset, self.path, self.map)
        if offset > self.size:
            self.size = os.fstat(self.descriptor).st_size  # The file may have grown.
            if offset > self.size:
                raise OpenError(f"the offset is beyond the end of the file, which has {self.size} bytes: correct the "
                                "offset, or create the script file again", file=self.path, offset=offset)  # fmt: skip
        return FileSource(self.descriptor, offset, self.size, self.path, self, ahead)

    def __del__(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)


def describe_error(error: OSError | ValueError) -> str:
    """Return the message of an error, without the error number and the file name that Python adds.

    The message about a null byte in a file name is replaced by advice.
    """
    if str(error).startswith("embedded null"):
        return "the name has a null byte (\\0), which the system does not allow: correct the name"
    return str((isinstance(error, OSError) and error.strerror) or error)


def open_file(path: str, access: Access, *, mmap: bool = False) -> OpenFile | RemoteFile:
    """Open a local file, or a URL that ``access`` allows. ``mmap`` maps a local file into memory.

    Raise OpenError if the file cannot be opened, and NetworkRefusedError if the URL is not allowed.
    """
    return RemoteFile(path, access) if is_url(path) else OpenFile(path, mmap=mmap)


class OpenFiles:
    """Cache of open files by path, for the files that the lines of script files name. Its size is limited.

    A stranger may have written a script file, so URLs at private addresses are refused. The cache closes the least
    recently used file first.

    When the process runs out of descriptors, all cached files are closed. The cache is thread-safe without a lock,
    because each operation on the dictionary is atomic. At worst a file is opened twice.

    Args:
        limit: maximum number of files that the cache keeps open.
        mmap: True to map local files into memory.
        access: permission to open URLs. By default, URLs at public addresses are allowed.

    Attributes:
        idle_sources: sources that no reader uses. A reader takes one out and puts it back.
    """

    def __init__(self, limit: int = MAX_OPEN_FILES, *, mmap: bool = False, access: Access | None = None) -> None:
        self._limit = max(1, limit)
        self._mmap = mmap
        self._access = Access(private=False) if access is None else access._replace(private=False)
        self._files: dict[str, OpenFile | RemoteFile] = {}
        self.idle_sources: list[FileSource] = []
        _caches.add(weakref.ref(self, _caches.discard))

    def get_file(self, path: str) -> OpenFile | RemoteFile:
        """Return the open file at a path or URL. Open it if the cache does not have it (see :func:`open_file`)."""
        file = self._files.pop(path, None) or open_file(path, self._access, mmap=self._mmap)
        if file.is_regular:  # A device or named pipe has a state, so it is opened again for each use.
            self._files[path] = file
            if len(self._files) > self._limit:
                for oldest in list(self._files)[: -self._limit]:
                    self._files.pop(oldest, None)
        return file

    def __reduce__(self) -> tuple[Any, ...]:
        # The copy in another process starts with an empty cache, because descriptors are invalid there.
        return partial(OpenFiles, self._limit, mmap=self._mmap, access=self._access), ()

    def clear(self, keep_fewer: bool = False) -> None:
        """Empty the cache, which closes files that no reader uses. If ``keep_fewer``, also halve the cache's limit."""
        if keep_fewer:
            self._limit = max(1, self._limit // 2)
        self._files.clear()
        self.idle_sources.clear()


# All caches of this process. A set of references can be copied while other threads add caches. Iterating over a WeakSet
# would then fail.
_caches: set[weakref.ref[OpenFiles]] = set()


# Seconds to wait before each further attempt. One attempt may not be enough, because other threads may take the
# descriptors that closing cached files frees.
_RETRY_SECONDS = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
_retry_lock = threading.Lock()


def _renew_lock() -> None:
    """Replace the lock in a forked process, because a thread of the parent process may hold the old lock."""
    global _retry_lock
    _retry_lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def retry_when_out_of_descriptors(function: Callable[..., Opened], *arguments: Any) -> Opened:
    """Call ``function(*arguments)``, which opens a file or a pipe, and return the result.

    If the process has no free descriptors, close cached files, and try again several times before raising the error.
    """
    # No variable may hold an exception, because its traceback would keep files open.
    try:
        return function(*arguments)
    except OSError as error:
        if not _is_out_of_descriptors(error):
            raise
    for seconds in _RETRY_SECONDS:
        time.sleep(seconds)
        with _retry_lock:
            _close_cached_files(keep_fewer=not seconds)  # The first retry, after 0 seconds, also reduces the limits.
            try:
                return function(*arguments)
            except OSError as error:
                if not _is_out_of_descriptors(error):
                    raise
    with _retry_lock:
        _close_cached_files(keep_fewer=False)
        return function(*arguments)


def _close_cached_files(keep_fewer: bool) -> None:
    """Call :meth:`OpenFiles.clear` for all caches of this process."""
    for reference in tuple(_caches):
        files = reference()
        if files is not None:
            files.clear(keep_fewer)


def _is_out_of_descriptors(error: OSError) -> bool:
    return error.errno in (errno.EMFILE, errno.ENFILE)
