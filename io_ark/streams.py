"""Opens what an rxfilename or wxfilename names: a file, an offset into one, a standard stream, a pipe.

Files are read with ``pread`` through :class:`OpenFiles`, so that a descriptor has no position that processes, threads
or other readers could fight over. A command runs in a shell, as in Kaldi (src/util/kaldi-io.cc); ``pipes=False`` or
the environment variable ``IO_ARK_NO_PIPES=1`` refuses that.
"""

from __future__ import annotations

import errno
import logging
import os
import signal
import stat
import sys
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from io_ark.errors import ClosedError, OpenError, PipeError, PipesRefusedError, ReaderGoneError, WriteError
from io_ark.source import FileSource, MapSource, Source, StreamSource
from io_ark.specifier import Rxfilename, Wxfilename, parse_rxfilename, parse_wxfilename

logger = logging.getLogger("io_ark")

NO_PIPES_VARIABLE = "IO_ARK_NO_PIPES"
OPEN_FILES = 64
# Of files that are read from start to end one is in use at a time, and few are come back to.
OPEN_FILES_IN_ORDER = 16
OUTPUT_BUFFER = 1 << 17

Opened = TypeVar("Opened")


class OpenFile:
    """A descriptor that closes when the last one who uses it lets go, whoever dropped it from a cache before."""

    __slots__ = ("_map", "_size", "descriptor", "path", "regular")

    def __init__(self, path: str, *, mmap: bool = False) -> None:
        self.descriptor = -1
        self.path = path
        self._map: Any = b"" if mmap else None
        try:
            self.descriptor = _with_room(lambda: os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        except (OSError, ValueError) as error:
            raise OpenError(f"cannot be opened: {_reason(error)}", file=path) from error
        status = os.fstat(self.descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise OpenError("is a folder, not a file", file=path)
        self.regular = stat.S_ISREG(status.st_mode)
        self._size = status.st_size

    def mapped(self) -> Any:
        """A memory map of the whole file as it is now.

        Raises:
            OpenError: it cannot be mapped.
        """
        from mmap import ACCESS_READ
        from mmap import mmap as map_file

        size = os.fstat(self.descriptor).st_size
        if size <= len(self._map or b""):
            return self._map
        # Before Python 3.13 a map has a descriptor of its own, open for as long as an array is a view of the map.
        options: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}
        try:
            self._map = _with_room(lambda: map_file(self.descriptor, size, access=ACCESS_READ, **options))
        except (OSError, ValueError) as error:
            raise OpenError(f"cannot be mapped into memory: {_reason(error)}", file=self.path) from error
        return self._map

    def source(self, offset: int, *, ahead: bool = True) -> Source:
        """The bytes of this regular file from an offset on; views of a memory map, if it was opened so.

        ``ahead`` says whether more than one object is likely to be read.
        """
        if self._map is not None:
            mapped = self._map if offset < len(self._map) else self.mapped()
            return MapSource(mapped, offset, self.path, self.mapped)
        if offset > self._size:
            self._size = os.fstat(self.descriptor).st_size  # the file may have grown
            if offset > self._size:
                raise OpenError(
                    f"has only {self._size} bytes: there is nothing at the offset", file=self.path, offset=offset
                )
        return FileSource(self.descriptor, offset, self._size, self.path, self, ahead)

    def __del__(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)


def _reason(error: OSError | ValueError) -> str:
    return str(error.strerror if isinstance(error, OSError) else error)


class OpenFiles:
    """A bounded number of open files by path; the one not used for longest goes first.

    Where the process has no descriptor left for anything that this package opens, all kept files go.

    Safe among threads without a lock: each step on the dictionary is atomic, and at worst a file is opened twice.

    Args:
        limit: how many files stay open.
        mmap: read through memory maps, so that values are views where the layout allows (and read-only).
    """

    def __init__(self, limit: int = OPEN_FILES, *, mmap: bool = False) -> None:
        self._limit = max(1, limit)
        self._mmap = mmap
        self._files: dict[str, OpenFile] = {}
        _kept[id(self)] = self

    def get(self, path: str) -> OpenFile:
        """The open file at this path."""
        file = self._files.pop(path, None) or OpenFile(path, mmap=self._mmap)
        if file.regular:  # A device or named pipe has a state, so it is opened anew each time.
            self._files[path] = file
            if len(self._files) > self._limit:
                for oldest in list(self._files)[: -self._limit]:
                    self._files.pop(oldest, None)
        return file

    def __reduce__(self) -> tuple[Any, ...]:
        # Descriptors mean nothing in another process, which opens its own.
        return _open_files, (self._limit, self._mmap)

    def clear(self) -> None:
        """Close all files that nobody else uses at this moment."""
        self._files.clear()


def _open_files(limit: int, mmap: bool) -> OpenFiles:
    return OpenFiles(limit, mmap=mmap)


_kept: weakref.WeakValueDictionary[int, OpenFiles] = weakref.WeakValueDictionary()


def _with_room(opening: Callable[[], Opened]) -> Opened:
    """What a call that takes descriptors gives; where none is free, the kept files are closed and it is made again."""
    try:
        return opening()
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
    for reference in _kept.valuerefs():
        files = reference()
        if files is not None:
            files.clear()
    return opening()


class Input:
    """An opened rxfilename: a source, and what has to be closed after it.

    Attributes:
        source: the bytes.
    """

    def __init__(self, source: Source, close: Callable[[], int] | None = None, keep: object = None) -> None:
        self.source = source
        self._close = close
        self._keep = keep

    def close(self) -> int:
        """Close it, and return the exit status of a pipe's command (0 for all else)."""
        close, self._close, self._keep = self._close, None, None
        return close() if close else 0

    def finish(self) -> None:
        """Close it after its end: that its command failed then means that what came out of it is not complete.

        Raises:
            PipeError: the command failed.
        """
        status = self.close()
        if status:
            raise PipeError(f"the command {describe_status(status)}: the table is not complete", file=self.source.name)

    def __enter__(self) -> Input:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_input(rxfilename: str | Rxfilename, *, pipes: bool = True, files: OpenFiles | None = None) -> Input:
    """Open what an rxfilename names for reading.

    Args:
        rxfilename: its text, or the parsed form.
        pipes: whether a command may be run.
        files: where open regular files are kept for the next call.

    Raises:
        SpecifierError, OpenError, PipesRefusedError
    """
    target = parse_rxfilename(rxfilename) if isinstance(rxfilename, str) else rxfilename
    if target.kind == "stdin":
        return Input(standard_input(), _standard_input_free)
    if target.kind == "pipe":
        return _open_pipe(target.command, pipes)
    file = files.get(target.path) if files else OpenFile(target.path)
    offset = target.offset or 0
    if file.regular:
        return Input(file.source(offset))
    if offset:
        raise OpenError("is no regular file: no offset into it can be read", file=target.path, offset=offset)
    raw = open(file.descriptor, "rb", buffering=0, closefd=False)  # noqa: SIM115 (the Input closes it)
    return Input(StreamSource(raw, target.path), keep=file)


# Standard input is one stream however often it is named: what was read ahead of one table belongs to the next.
_standard_input: tuple[Any, Source] | None = None
_standard_input_taken = False


def standard_input() -> Source:
    """Standard input's bytes.

    Raises:
        OpenError: something else is reading them already.
    """
    global _standard_input, _standard_input_taken
    stream = getattr(sys.stdin, "buffer", sys.stdin)
    if stream is None:
        raise OpenError("cannot be read: it is closed", file="standard input")
    if not hasattr(stream, "readinto"):
        raise OpenError(f"cannot be read: sys.stdin is a {type(stream).__name__}, which has no bytes",
                        file="standard input")  # fmt: skip
    if _standard_input is None or _standard_input[0] is not stream:
        _standard_input = stream, StreamSource(_OneRead(stream), "standard input")
        _standard_input_taken = False
    if _standard_input_taken:
        raise OpenError("is named twice: two tables cannot both be read from it", file="standard input")
    _standard_input_taken = True
    return _standard_input[1]


def _standard_input_free() -> int:
    global _standard_input_taken
    _standard_input_taken = False
    return 0


class _OneRead:
    """A buffered stream, of which each call takes what one system call gives: nobody waits for a full buffer."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def readinto(self, buffer: memoryview) -> int | None:
        read: Callable[[memoryview], int | None] = getattr(self._stream, "readinto1", self._stream.readinto)
        return read(buffer)


def _refuse_pipes(command: str, pipes: bool) -> None:
    if not pipes or os.environ.get(NO_PIPES_VARIABLE, "") not in ("", "0"):
        why = f"the environment has {NO_PIPES_VARIABLE} set" if pipes else "pipes are switched off here"
        raise PipesRefusedError(f"the command {command.strip()!r} is not run: {why}")


def _spawn(command: str, target: int, name: str) -> tuple[int, int]:
    """Start a shell with one end of a pipe as its standard input (0) or output (1).

    Returns:
        The process id, and the other end.
    """
    try:
        ends = _with_room(os.pipe)
    except OSError as error:
        raise PipeError(f"cannot be started: {error.strerror}", file=name) from error
    ours, inherited = ends[1 - target], ends[target]
    try:
        # Python ignores SIGPIPE, and children would inherit that: `yes | head` in a script file would never end.
        process = os.posix_spawn(
            "/bin/sh",
            ["sh", "-c", command],
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, inherited, target)],
            setsigdef=[signal.SIGPIPE],
        )
    except (OSError, ValueError) as error:
        os.close(ours)
        raise PipeError(f"cannot be started: {_reason(error)}", file=name) from error
    finally:
        os.close(inherited)
    return process, ours


def _open_pipe(command: str, pipes: bool) -> Input:
    _refuse_pipes(command, pipes)
    process, reading = _spawn(command, 1, f"{command}|")
    raw = open(reading, "rb", buffering=0)  # noqa: SIM115 (closed below)

    def close() -> int:
        raw.close()
        return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])

    return Input(StreamSource(raw, f"{command}|"), close)


def describe_status(status: int) -> str:
    """What an exit status of a command means, in words."""
    return f"was ended by signal {-status}" if status < 0 else f"ended with exit status {status}"


class Output:
    """An opened wxfilename: takes bytes, knows how many it took, and complains when they did not get there.

    Attributes:
        name: what to call it in an error.
        start: how many bytes were there before.
    """

    def __init__(
        self, name: str, raw: Any, finish: Callable[[], None], *, flush_raw: bool = False, start: int = 0
    ) -> None:
        self.name = name
        self.start = start
        self._raw = raw
        self._finish = finish
        self._flush_raw = flush_raw
        self._pending = bytearray()
        self._written = 0

    def write(self, data: Any) -> None:
        """Take these bytes; large ones go on at once, small ones are gathered.

        Raises:
            WriteError: the system does not take them (ReaderGoneError: nobody reads the pipe any more).
        """
        size = data.nbytes if isinstance(data, memoryview) else len(data)
        if len(self._pending) + size <= OUTPUT_BUFFER:
            self._pending += data
            return
        self._send_pending()
        self._send(data)

    def tell(self) -> int:
        """How many bytes it took so far."""
        return self._written + len(self._pending)

    def flush(self) -> None:
        """Hand all bytes to the system."""
        self._send_pending()
        if self._flush_raw and self._raw is not None:
            try:
                self._raw.flush()
            except (OSError, ValueError) as error:
                self._complain(error)

    def close(self) -> None:
        """Hand all bytes to the system and close; a second call does nothing.

        Raises:
            WriteError: not all bytes got there.
            PipeError: the command that they went to failed.
        """
        if self._raw is None:
            return
        try:
            self.flush()
        finally:
            self._raw, finish = None, self._finish
            try:
                finish()
            except (OSError, ValueError) as error:
                if isinstance(error, (WriteError, PipeError)):
                    raise
                self._complain(error)

    def _send_pending(self) -> None:
        pending, self._pending = self._pending, bytearray()
        if pending:
            self._send(pending)

    def _send(self, data: Any) -> None:
        if self._raw is None:
            raise ClosedError("was written to after it was closed", file=self.name)
        view = memoryview(data).cast("B")
        self._written += len(view)
        try:
            while len(view):
                view = view[self._raw.write(view) :]
        except (OSError, ValueError) as error:
            self._complain(error)

    def _complain(self, error: Exception) -> None:
        if isinstance(error, BrokenPipeError):
            raise ReaderGoneError("nobody reads what is written to it any more", file=self.name) from error
        reason = error.strerror if isinstance(error, OSError) else error
        hint = "; what was written so far is not complete" if getattr(error, "errno", 0) == errno.ENOSPC else ""
        raise WriteError(f"cannot be written to: {reason}{hint}", file=self.name) from error

    def __enter__(self) -> Output:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_raw", None) is not None:
            try:
                self.close()
            except Exception as error:
                logger.error("%s", error)


def open_output(wxfilename: str | Wxfilename, *, pipes: bool = True, append: bool = False) -> Output:
    """Open what a wxfilename names for writing; a file that is there is emptied, or with ``append`` added to.

    Raises:
        SpecifierError, OpenError, PipesRefusedError
    """
    target = parse_wxfilename(wxfilename) if isinstance(wxfilename, str) else wxfilename
    if target.kind == "stdout":
        return _standard_output()
    if target.kind == "pipe":
        return _open_output_pipe(target.command, pipes)
    try:
        raw = _with_room(lambda: open(target.path, "ab" if append else "wb", buffering=0))  # noqa: SIM115
    except (OSError, ValueError) as error:
        raise OpenError(f"cannot be opened for writing: {_reason(error)}", file=target.path) from error
    return Output(target.path, raw, raw.close, start=os.fstat(raw.fileno()).st_size)


def _standard_output() -> Output:
    if sys.stdout is None:
        raise OpenError("cannot be written to: it is closed", file="standard output")
    if not hasattr(sys.stdout, "buffer"):
        raise OpenError(f"cannot be written to: sys.stdout is a {type(sys.stdout).__name__}, which takes no bytes",
                        file="standard output")  # fmt: skip
    try:
        sys.stdout.flush()
    except (OSError, ValueError) as error:
        raise WriteError(f"cannot be written to: {_reason(error)}", file="standard output") from error
    return Output("standard output", sys.stdout.buffer, lambda: None, flush_raw=True)


def _open_output_pipe(command: str, pipes: bool) -> Output:
    _refuse_pipes(command, pipes)
    process, writing = _spawn(command, 0, f"|{command}")
    raw = open(writing, "wb", buffering=0)  # noqa: SIM115 (closed below)

    def finish() -> None:
        raw.close()
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        if status:
            raise PipeError(f"the command {describe_status(status)}: its output is not complete", file=f"|{command}")

    return Output(f"|{command}", raw, finish)
