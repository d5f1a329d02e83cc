"""Open rxfilenames: files, offsets into files, standard input, pipes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from io import BytesIO
from typing import Any

from io_ark.errors import OpenError, PipeError, hide_secrets
from io_ark.logs import logger
from io_ark.specifier import Rxfilename, parse_rxfilename
from io_ark.streams.access import Access
from io_ark.streams.files import OpenFile, OpenFiles, open_file
from io_ark.streams.pipes import STANDARD_STREAMS, describe_status, run_in_process, spawn, wait_for
from io_ark.streams.source import Source, StreamSource
from io_ark.streams.system import SIGPIPE

# Exit statuses of a command that was killed because its output was not read to the end, and of a shell that ran such a
# command. They are not failures.
STOPPED_READING = (-SIGPIPE, 128 + SIGPIPE)


class Input(AbstractContextManager["Input"]):
    """An open rxfilename. Leaving its context closes it.

    As in Kaldi, leaving the context of a pipe without an exception logs a warning if its command failed.

    Args:
        source: source of the bytes of the file or pipe.
        close: function that closes a pipe or releases standard input, and returns the exit status of the command of a
            pipe, or 0. None for other inputs.
        keep: object that must stay alive until the input is closed.
    """

    __slots__ = ("_close", "_keep", "source")

    def __init__(self, source: Source, close: Callable[[], int] | None = None, keep: object = None) -> None:
        self.source = source
        self._close = close
        self._keep = keep

    def close(self) -> int:
        """Close the input. Return the exit status of a pipe's command, or 0 for other inputs and in later calls."""
        self._keep = None
        if self._close is None:
            return 0
        close, self._close = self._close, None
        return close()

    def finish(self) -> None:
        """Close the input after all bytes have been read, and raise :class:`PipeError` if a pipe's command failed."""
        status = self.close()
        if status:
            message = f"the command {describe_status(status)}, so the table may be incomplete: correct the command"
            raise PipeError(message, file=self.source.name)

    def __exit__(self, kind: object, *_: object) -> None:
        status = self.close()
        if kind is None and status not in (0, *STOPPED_READING):
            logger.warning("Pipe %s %s", hide_secrets(self.source.name), describe_status(status))


def open_input(rxfilename: str | Rxfilename, access: Access | None = None, files: OpenFiles | None = None) -> Input:
    """Open an rxfilename for reading, at the offset that it may contain.

    Args:
        rxfilename: the name as a string or in parsed form.
        access: permission to run commands and to open URLs. By default, both are allowed.
        files: cache of open regular files. Its permissions decide about URLs.

    Raises:
        SpecifierError: the rxfilename is invalid.
        OpenError: the file or standard input cannot be opened, or the name has an offset above 0 and the file is not a
            regular file.
        PipeError: the command cannot be started.
        PipesRefusedError: the name is a command, and pipes are disabled.
        NetworkRefusedError: the name is a URL, and the URL is not allowed (see :class:`Access`).

    >>> from io_ark.streams import open_input
    >>> with open_input("echo utt1 1 2 3 |") as opened:
    ...     opened.source.read_line()
    b'utt1 1 2 3'
    """
    access = access or Access()
    target = parse_rxfilename(rxfilename) if isinstance(rxfilename, str) else rxfilename
    kind, path, offset, command = target
    if kind == "stdin":
        return Input(open_standard_input(), _release_standard_input)
    if kind == "pipe":
        return _open_pipe(command, access)
    file = files.get_file(path) if files else open_file(path, access)
    if file.is_regular:
        return Input(file.open_source(offset or 0))
    if offset:
        message = "is not a regular file, so it has no offsets: copy its data to a file first"
        raise OpenError(message, file=path, offset=offset)
    assert isinstance(file, OpenFile)
    raw = open(file.descriptor, "rb", buffering=0, closefd=False)  # noqa: SIM115 (the Input closes it)
    return Input(StreamSource(raw, path), keep=file)


# All tables that read standard input share one stream, because a table may read ahead into the next table's bytes.
_standard_input: tuple[Any, Source] | None = None
_standard_input_taken = False


def open_standard_input() -> Source:
    """Return the source of standard input, which no other table can read until it is released.

    Raise OpenError if a table is reading standard input already, or standard input is closed or not a stream of bytes.
    """
    global _standard_input, _standard_input_taken
    if (redirected := STANDARD_STREAMS.get()) is not None:
        return StreamSource(redirected[0], "standard input")
    stream = getattr(sys.stdin, "buffer", sys.stdin)
    if stream is None:
        raise OpenError("cannot be read because it is closed: name a file", file="standard input")
    if not hasattr(stream, "readinto"):
        raise OpenError(f"cannot be read: sys.stdin is a {type(stream).__name__} without a binary buffer; name a file",
                        file="standard input")  # fmt: skip
    if _standard_input is None or _standard_input[0] is not stream:
        _standard_input = stream, StreamSource(_SingleReads(stream), "standard input")
        _standard_input_taken = False
    if _standard_input_taken:
        raise OpenError("is named twice, but only one table can be read from it: use a file for the other table",
                        file="standard input")  # fmt: skip
    _standard_input_taken = True
    return _standard_input[1]


def _release_standard_input() -> int:
    """Let the next table read standard input, and return the exit status 0."""
    global _standard_input_taken
    _standard_input_taken = False
    return 0


class _SingleReads:
    """Reads a buffered stream with one system call per read, so that no read waits until the buffer is full."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def readinto(self, buffer: memoryview) -> int | None:
        read: Callable[[memoryview], int | None] = getattr(self._stream, "readinto1", self._stream.readinto)
        return read(buffer)


def _open_pipe(command: str, access: Access) -> Input:
    """Return the output of a command as an open input. The command runs in this process if possible, or in a shell."""
    access.check_command(command)
    start = partial(spawn, target=1, name=f"{command}|")
    if (status_and_data := run_in_process(command, start)) is not None:
        status, data = status_and_data
        return Input(StreamSource(BytesIO(data), f"{command}|"), lambda: status)
    process, read_end = start(command)
    raw = open(read_end, "rb", buffering=0)  # noqa: SIM115 (closed below)
    parent = os.getpid()

    def close() -> int:
        raw.close()
        if os.getpid() != parent:
            return 0  # A forked process cannot wait for a command that its parent started.
        return wait_for(process)

    return Input(StreamSource(raw, f"{command}|"), close)
