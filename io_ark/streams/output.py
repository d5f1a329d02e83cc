"""Open wxfilenames: files, standard output, pipes."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import TracebackType
from typing import Any, NoReturn, TypeVar
from weakref import WeakValueDictionary

from io_ark.errors import ArkError, ClosedError, OpenError, PipeError, ReaderGoneError, WriteError
from io_ark.logs import logger
from io_ark.specifier import Wxfilename, is_url, parse_wxfilename
from io_ark.streams import process
from io_ark.streams.access import Access
from io_ark.streams.files import describe_error, retry_when_out_of_descriptors
from io_ark.streams.pipes import STANDARD_STREAMS, describe_status, spawn, wait_for
from io_ark.streams.remote import Upload

# Size in bytes of the buffer of a pipe or standard output. It is small, because the reader waits until it is full.
OUTPUT_BUFFER = 1 << 17
# Size in bytes of the buffer of a file. A larger buffer takes fewer system calls, and this size still fits into a
# processor cache.
FILE_BUFFER = 1 << 19
Entered = TypeVar("Entered")
OPENED_AGAIN = (
    "was opened for writing again before it was closed, and its bytes are lost: close it before you open it again"
)
# Maps each file that is being written, by its device and inode or by its URL, to the object that writes it.
_writers: WeakValueDictionary[object, Any] = WeakValueDictionary()


def claim_file(owner: Any, target: int | str) -> None:
    """Record that ``owner`` writes to a regular file or a URL. An earlier output to the same file then refuses writes.

    ``target`` is the descriptor of the file, or the URL. Files that are not regular, such as pipes, are ignored.
    """
    identity: object = target
    if isinstance(target, int):
        status = os.fstat(target)
        if not stat.S_ISREG(status.st_mode):
            return
        identity = status.st_dev, status.st_ino
    if (older := _writers.get(identity)) is not None:
        older.give_up()
    _writers[identity] = owner


class WholeWrites:
    """Context for writes that belong together. An exception between the first and the last write breaks the output.

    The output counts as broken from the first write to the last, so no exception goes unnoticed, not even an exception
    that a signal handler raises.

    Attributes:
        is_broken: True after a failure.
        reason: message of the error that later writes to a broken output raise.
    """

    def __init__(self, name: str, is_broken: bool = False) -> None:
        self.name = name
        self.is_broken = is_broken
        self.reason = "an earlier write failed or was interrupted, so the output is incomplete: write it again"

    def raise_error(self) -> NoReturn:
        """Raise the :class:`WriteError` of a broken output."""
        raise WriteError(self.reason, file=self.name)

    def __enter__(self) -> None:
        if self.is_broken:
            self.raise_error()
        self.is_broken = True

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None) -> None:
        if kind is None:
            self.is_broken = False


class ClosedOnExit:
    """Base class of outputs that ``with`` closes.

    If the ``with`` block raises an error, a second error on closing is logged and not raised.
    """

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self: Entered) -> Entered:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None) -> None:
        try:
            self.close()
        except ArkError as failure:
            if kind is None:
                raise
            if not isinstance(error, WriteError):
                logger.error("%s", failure)  # The exception of the block occurred first and is raised.


class Output(ClosedOnExit):
    """An open wxfilename with a buffer. All write errors are raised, at the latest on closing.

    Args:
        name: name for error messages.
        raw: unbuffered stream.
        finish: function that closes the stream after all bytes have been written.
        discard: function that closes the stream of an incomplete output. The default is ``finish``.
        flush_raw: True to flush the stream after each write, because other code writes to it as well.
        buffer_bytes: maximum number of buffered bytes. The default is :data:`OUTPUT_BUFFER`.
        start: number of bytes in the file when it was opened.

    Attributes:
        entry: context for the writes of one entry. If a write fails or is interrupted, the output is broken.
        archive: archive to which the lines of this output point if it is a script file, or None. The bytes of the
            archive are sent before these lines. After a failure, the script file ends with a complete line, unless it
            is a pipe or other code uses it as well.
    """

    archive: Output | None = None

    def __init__(
        self,
        name: str,
        raw: Any,
        finish: Callable[[], None],
        *,
        discard: Callable[[], None] | None = None,
        flush_raw: bool = False,
        buffer_bytes: int | None = None,
        start: int = 0,
    ) -> None:
        self.name = name
        self.start = start
        self.entry = WholeWrites(name)
        self._is_broken = False  # True while bytes are sent, and after sending has failed or was interrupted.
        self._finish = finish
        self._discard = discard or finish
        self._flush_raw = flush_raw
        self._max_pending_bytes = OUTPUT_BUFFER if buffer_bytes is None else buffer_bytes
        self._pending = bytearray()
        self._sent_bytes = 0
        self._process = process.current
        self._raw = raw

    @property
    def closed(self) -> bool:
        """True after :meth:`close`."""
        return self._raw is None

    def write(self, data: Any) -> None:
        """Write a bytes-like object. If it does not fit into the buffer, all bytes are passed to the system at once.

        Raises:
            WriteError: the write failed. The subclass ReaderGoneError means that the reader has closed the pipe.
            ClosedError: the output is closed, or was opened before the process was forked.
        """
        self.write_all((data,))

    def write_all(self, parts: Iterable[Any]) -> None:
        """Write several bytes-like objects one after another (see :meth:`write`)."""
        if self._is_broken or self._raw is None or process.current is not self._process:
            self._refuse_write()
        pending = self._pending
        room = self._max_pending_bytes - len(pending)
        for data in parts:
            size = data.nbytes if type(data) is memoryview else len(data)
            if size <= room:
                pending += data
                room -= size
            else:
                self._send(data)
                pending = self._pending
                room = self._max_pending_bytes

    def tell(self) -> int:
        """Return the number of bytes written so far, including buffered bytes. The ``start`` bytes do not count."""
        return self._sent_bytes + len(self._pending)

    def flush(self) -> None:
        """Pass all buffered bytes to the operating system.

        Raises:
            WriteError: the bytes cannot be written, or an earlier write failed.
            ClosedError: the output was opened before the process was forked.
        """
        if self._is_broken or (self._raw is not None and process.current is not self._process):
            self._refuse_write()
        if self._raw is not None:
            self._send(b"")

    def close(self) -> None:
        """Flush and close the output. After a call without an error, further calls do nothing.

        In a process that was forked after the output had been opened, the buffered bytes are discarded.

        Raises:
            WriteError: not all bytes could be written, or an earlier write failed or was interrupted.
            PipeError: the command that reads the output failed.
        """
        if process.current is not self._process:
            self._close_in_forked_process()
            return
        if self.entry.is_broken:
            self._is_broken = True
        if self._raw is not None:
            close_raw = self._discard  # Discard an output that is broken or cannot be flushed.
            try:
                if self._is_broken:
                    self._refuse_write()
                self._send(b"")
                close_raw = self._finish
            finally:
                self._is_broken = True
                self._raw = None
                try:
                    close_raw()
                except (WriteError, PipeError):
                    raise
                except (OSError, ValueError) as error:
                    self._raise_write_error(error)
            self._is_broken = False
        if self._is_broken:
            self._refuse_write()

    def _close_in_forked_process(self) -> None:
        """Discard the buffered bytes, which the parent process writes. Close the stream, unless other code uses it."""
        raw, self._raw = self._raw, None
        self._pending.clear()
        if raw is not None and not self._flush_raw:
            raw.close()

    def give_up(self) -> None:
        """Mark this output as broken, because its file was opened for writing again. The file is not changed."""
        if self._raw is None:
            return
        self._is_broken = self.entry.is_broken = True
        self.entry.reason = OPENED_AGAIN
        if not isinstance(self._raw, Upload):
            self._discard = self._raw.close

    def _refuse_write(self) -> NoReturn:
        """Raise the error for a write to an output that is broken, is closed, or was opened in the parent process."""
        if self._is_broken:
            self.entry.raise_error()
        if self._raw is None:
            raise ClosedError("was written to after it was closed: open it again", file=self.name)
        raise ClosedError("was opened in the parent of this process: write in the parent, or open a new output in this "
                          "process", file=self.name)  # fmt: skip

    def _send(self, data: Any) -> None:
        """Flush the archive of a script file, then send buffered bytes and ``data``. Raise WriteError on failure."""
        self._is_broken = True
        if self.archive is not None:
            self.archive.flush()
        try:
            for part in filter(len, (self._pending, data)):
                view = memoryview(part).cast("B")
                begin = self.start + self._sent_bytes
                self._sent_bytes += len(view)
                try:
                    while len(view):
                        view = view[self._raw.write(view) :]
                except BaseException:
                    self._remove_incomplete_line(part, begin)
                    raise
            if self._flush_raw:
                self._raw.flush()  # A forked process must not inherit bytes in the stream's buffer.
        except (OSError, ValueError) as error:
            self._raise_write_error(error)
        self._pending = bytearray()
        self._is_broken = False

    def _remove_incomplete_line(self, part: Any, begin: int) -> None:
        """Remove an incomplete last line, which could point to a wrong object, from a script file.

        Other outputs, pipes, and streams that other code uses (``flush_raw``) are not changed.

        Args:
            part: bytes that were being written, from the start of a line.
            begin: position of these bytes in the file.
        """
        if self.archive is not None and not self._flush_raw:
            with suppress(OSError, ValueError):  # A pipe has no position and cannot be truncated.
                written = bytes(part)[: self._raw.tell() - begin]
                self._raw.truncate(begin + written.rfind(b"\n") + 1)

    def _raise_write_error(self, error: Exception) -> NoReturn:
        """Raise a WriteError that names this output and the cause ``error``, or ReaderGoneError for a closed pipe."""
        if isinstance(error, BrokenPipeError):
            raise ReaderGoneError("the reader of this pipe has closed it", file=self.name) from error
        reason = error.strerror if isinstance(error, OSError) else error
        hint = "; the output is incomplete" if getattr(error, "errno", 0) == errno.ENOSPC else ""
        raise WriteError(f"cannot be written to: {reason}{hint}", file=self.name) from error

    def __del__(self) -> None:
        if getattr(self, "_raw", None) is not None:
            with process.Deletion():
                self.close()


def open_output(wxfilename: str | Wxfilename, *, access: Access | None = None, append: bool = False) -> Output:
    """Open a wxfilename for writing.

    Args:
        wxfilename: the name as a string or in parsed form.
        access: permission to run commands and to open URLs. None allows both.
        append: True to extend an existing file, False to truncate it.

    Raises:
        SpecifierError: the wxfilename is invalid.
        OpenError: the file or standard output cannot be opened, or ``append`` is true for a URL.
        WriteError: bytes that Python has buffered for standard output cannot be written.
        PipeError: the command cannot be started.
        PipesRefusedError: the name is a command, and pipes are disabled.
        NetworkRefusedError: the name is a URL, and the URL is not allowed (see :class:`Access`).

    >>> import tempfile
    >>> from io_ark.streams import open_output
    >>> with open_output(tempfile.mkdtemp() + "/a.txt") as output:
    ...     output.write(b"utt1 1 2 3")
    ...     output.tell()
    10
    """
    access = access or Access()
    target = parse_wxfilename(wxfilename) if isinstance(wxfilename, str) else wxfilename
    if target.kind == "stdout":
        return _open_standard_output()
    if target.kind == "pipe":
        return _open_output_pipe(target.command, access)
    if is_url(target.path):
        access.check_url(target.path)
        if append:
            message = "cannot be appended to, because a URL is written as a whole: write to a local file"
            raise OpenError(message, file=target.path)
        upload = Upload(target.path, access)
        output = Output(target.path, upload, upload.finish, discard=upload.discard)
        claim_file(output, target.path)
        return output
    try:
        raw = retry_when_out_of_descriptors(lambda: open(target.path, "ab" if append else "wb", buffering=0))  # noqa: SIM115
    except (OSError, ValueError) as error:
        raise OpenError(f"cannot be opened for writing: {describe_error(error)}", file=target.path) from error
    start = raw.tell() if append and raw.seekable() else 0
    if not raw.seekable():  # A FIFO has a reader, as a command has.
        process.close_in_forks(raw)

    def discard() -> None:
        with raw:
            if append and raw.seekable():  # An incomplete entry would make later entries unreadable.
                raw.truncate(start)

    buffer_bytes = FILE_BUFFER if raw.seekable() else None
    output = Output(target.path, raw, raw.close, discard=discard, buffer_bytes=buffer_bytes, start=start)
    claim_file(output, raw.fileno())
    return output


def _open_standard_output() -> Output:
    """Return standard output. Raise OpenError if it is closed or not binary, and WriteError if flushing fails."""
    if (redirected := STANDARD_STREAMS.get()) is not None:
        return Output("standard output", redirected[1], finish=lambda: None)
    if sys.stdout is None:
        message = "cannot be written to because it is closed: open standard output, or name a file"
        raise OpenError(message, file="standard output")
    if not hasattr(sys.stdout, "buffer"):
        raise OpenError(f"cannot be written to: sys.stdout is a {type(sys.stdout).__name__} without a binary buffer; "
                        "name a file", file="standard output")  # fmt: skip
    try:
        sys.stdout.flush()
    except (OSError, ValueError) as error:
        raise WriteError(f"cannot be written to: {describe_error(error)}", file="standard output") from error
    return Output("standard output", sys.stdout.buffer, finish=lambda: None, flush_raw=True)


def _open_output_pipe(command: str, access: Access) -> Output:
    """Start a command in a shell, and return an output that writes to it. Closing the output waits for the command."""
    access.check_command(command)
    child, write_end = spawn(command, target=0, name=f"|{command}")
    raw = open(write_end, "wb", buffering=0)  # noqa: SIM115 (closed below)
    process.close_in_forks(raw)

    def finish() -> None:  # A forked process does not call this, because it cannot wait for the command.
        raw.close()
        status = wait_for(child)
        if status:
            message = f"the command {describe_status(status)}, so the output is incomplete: correct the command"
            raise PipeError(message, file=f"|{command}")

    return Output(f"|{command}", raw, finish)
