"""Convert between io_ark's sources and outputs and Python's file objects, for libraries whose users pass open files."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import PathLike
from typing import IO, Any
from weakref import WeakKeyDictionary, WeakSet

from io_ark.errors import MissingFileError, OpenError, WriteError
from io_ark.specifier import decode_file_name, is_url, parse_rxfilename, parse_wxfilename
from io_ark.streams.access import Access
from io_ark.streams.files import describe_error
from io_ark.streams.input import Input, open_input
from io_ark.streams.output import OPENED_AGAIN, Output, WholeWrites, claim_file, open_output
from io_ark.streams.source import BytesSource, FileSource, Source, StreamSource
from io_ark.tables import keys

Stream = IO[bytes] | IO[str]
FileOrName = str | PathLike[str] | Stream

# Sources of open streams that cannot seek. They are kept, because the bytes that a source has read ahead belong to the
# next call on its stream.
_sources: WeakKeyDictionary[Any, Source] = WeakKeyDictionary()


# Streams to which a write failed or was interrupted. Further writes are refused, because no entry after the incomplete
# entry could be read.
_broken: WeakSet[Any] = WeakSet()


def check_writable(stream: Any) -> None:
    """Raise :class:`WriteError` if an earlier write to a stream failed or was interrupted."""
    if stream in _broken:
        WholeWrites(get_stream_name(stream), is_broken=True).raise_error()


def mark_broken(stream: Any) -> None:
    """Mark a stream as broken, so that :func:`check_writable` raises for it from now on."""
    with suppress(TypeError):  # A set of weak references cannot hold every stream.
        _broken.add(stream)


def is_name(target: object) -> bool:
    """Return True if ``target`` is a string or path, and False if it is an open file."""
    return isinstance(target, str | PathLike)


def get_stream_name(target: FileOrName) -> str:
    """Return the name of a path or stream for messages. A stream without a name is called "<stream>"."""
    return decode_file_name(target) if isinstance(target, str | PathLike) else str(getattr(target, "name", "<stream>"))


@contextmanager
def open_source(target: FileOrName, access: Access | None = None, *, whole: bool = False) -> Iterator[Source]:
    """Yield the source of an rxfilename, path or open file. Leave an open file's position after the consumed bytes.

    If the file cannot seek, the next call on it continues with the bytes that its source has read ahead. ``access``
    permits commands and URLs, and None permits both. ``whole`` is True if the caller reads the source to its end. A
    failed command then raises an error, because its output may be incomplete.

    Raises:
        ArkError: the file cannot be opened, or the command failed.
    """
    if isinstance(target, str | PathLike):
        with open_input(decode_file_name(target), access=access) as opened:
            yield opened.source
            if whole:
                opened.finish()
        return
    stream: Any = getattr(target, "buffer", target)
    if isinstance(stream, io.TextIOBase):
        message = "is a text stream without a binary buffer: open it in binary mode"
        raise OpenError(message, file=get_stream_name(target))
    # The position of a FileSource counts from the start of its file. A StreamSource counts from ``start``.
    source, start = _open_regular_file(stream, whole), 0
    if source is None:
        name, position = str(getattr(target, "name", "<stream>")), find_position(stream)
        if position is None:
            source = _sources.get(stream)
            if source is None:
                source = _sources[stream] = StreamSource(_make_readable(stream), name)
            yield source
            return
        source, start = StreamSource(_make_readable(stream), name), position
    try:
        yield source
    finally:
        if not stream.closed:
            stream.seek(start + source.tell())


def read_key(fd: Any) -> str | None:
    """Read the next key of an archive, and the space after it, from an open binary file. Return None at the end.

    Raise :class:`~io_ark.ArkError` if the bytes are not the start of an entry.
    """
    buffered = fd.peek() if type(fd) is io.BufferedReader else b""
    if b" " in buffered.lstrip():  # The buffer has the whole key, so it can be read without a source of ``fd``.
        source: Source = BytesSource(buffered, name=get_stream_name(fd))
        key = keys.read_key(source)
        fd.read(source.tell())
        return key
    with open_source(fd) as source:
        return keys.read_key(source)


def _open_regular_file(stream: Any, may_read_ahead: bool) -> Source | None:
    """Return a source at the position of a regular file that ``open(path, "rb")`` opened, or None for any other stream.

    ``may_read_ahead`` is True if the source may read beyond an object (:class:`~io_ark.streams.source.FileSource`).
    """
    if type(stream) is not io.BufferedReader or stream.closed or type(stream.raw) is not io.FileIO:
        return None
    status = os.fstat(stream.fileno())
    if not stat.S_ISREG(status.st_mode):
        return None
    return FileSource(stream.fileno(), stream.tell(), status.st_size, str(stream.name), stream, may_read_ahead)


def find_position(stream: Any) -> int | None:
    """Return the position of a stream in bytes, or None if the stream cannot seek to its position."""
    try:
        position: int = stream.tell()
        stream.seek(position)
    except (OSError, ValueError, AttributeError):
        return None
    return position


def _make_readable(stream: Any) -> Any:
    return stream if hasattr(stream, "readinto") else _SourceOfRead(stream)


def open_sink(target: FileOrName, access: Access | None = None, *, append: bool = False) -> Output:
    """Return the output for a wxfilename or a path, or for an open file, which stays open.

    ``access`` permits commands and URLs, and None permits both. ``append`` is True to append to an existing file
    instead of replacing it. Raise ArkError if the file cannot be opened, or an earlier write to it failed.
    """
    if isinstance(target, str | PathLike):
        return open_output(decode_file_name(target), access=access, append=append)
    if isinstance(target, io.TextIOBase):
        target.flush()
    binary: Any = getattr(target, "buffer", target)
    check_writable(binary)
    raw = _SinkOfText(target) if isinstance(target, io.StringIO) else binary
    start = 0
    with suppress(OSError, AttributeError):
        start = binary.tell()
    return Output(
        get_stream_name(target), raw, lambda: None, discard=lambda: mark_broken(binary), flush_raw=True, start=start
    )


def open_input_file(name: str, access: Access) -> Any:
    """Open the rxfilename ``name`` as a binary file object, or raise ArkError. ``access`` permits commands and URLs.

    A file can seek. A pipe, standard input and a URL cannot.
    """
    target = parse_rxfilename(name)
    if target.kind == "file" and not is_url(target.path):
        file = _open_file(target.path, "rb")
        if target.offset:
            file.seek(target.offset)
        return file
    return io.BufferedReader(_SourceFile(open_input(target, access=access)))


def open_output_file(name: str, access: Access, *, append: bool = False) -> Any:
    """Open the wxfilename ``name`` as a binary file object, or raise ArkError.

    ``access`` permits commands and URLs. ``append`` is True to append to an existing file instead of replacing it.
    """
    target = parse_wxfilename(name)
    if target.kind == "file" and not is_url(target.path):
        # The raw file is unbuffered, because _OutputFile has the buffer.
        file = _OutputFile(_open_file(target.path, "ab" if append else "wb", 0))
        claim_file(file, file.fileno())
        return file
    return io.BufferedWriter(SinkFile(open_output(target, access=access, append=append)))


class _OutputFile(io.BufferedWriter):
    """A file that refuses further writes, with an error, after the same path has been opened for writing again."""

    _is_lost = False

    def give_up(self) -> None:
        """Discard the buffer and close the file. :func:`claim_file` calls this when the same path is opened again."""
        if not self.closed:
            self._is_lost = True
            mark_broken(self)
            self.raw.close()

    def close(self) -> None:
        """Close the file, or raise :class:`WriteError` if the same path was opened again in the meantime."""
        super().close()
        if self._is_lost:
            raise WriteError(OPENED_AGAIN, file=str(self.name))


def _open_file(path: str, mode: str, buffering: int = -1) -> Any:
    """Open a file like Python's ``open``. Its errors become MissingFileError or OpenError."""
    try:
        return open(path, mode, buffering)
    except (OSError, ValueError) as error:
        error_type = MissingFileError if isinstance(error, FileNotFoundError) else OpenError
        raise error_type(f"cannot be opened: {describe_error(error)}", file=path) from error


class _SourceOfRead:
    """Adapter that gives ``readinto`` to a stream that has only ``read``."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def readinto(self, buffer: memoryview) -> int | None:
        data = self._stream.read(len(buffer))
        if data is None:  # The stream does not block, and has no bytes yet.
            return None
        buffer[: len(data)] = data
        return len(data)


class _SinkOfText:
    """Adapter that writes bytes to a text stream in memory."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, data: memoryview) -> int:
        self._stream.write(bytes(data).decode("utf-8", "surrogateescape"))
        return len(data)

    def flush(self) -> None:
        """Do nothing, because this adapter has no buffer."""


class _SourceFile(io.RawIOBase):
    """File object that reads an :class:`Input`."""

    mode = "rb"

    def __init__(self, opened: Input) -> None:
        self._opened = opened
        self.name = opened.source.name

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._opened.source.read_some(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._opened.close()
        super().close()


class SinkFile(io.RawIOBase):
    """File object that writes to an :class:`Output`. Positions count the bytes before the output was opened, too."""

    mode = "wb"

    def __init__(self, output: Output) -> None:
        self._output = output
        self.name = output.name

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._output.write(bytes(data))
        return len(data)

    def tell(self) -> int:
        return self._output.start + self._output.tell()

    def flush(self) -> None:
        if not self.closed:
            self._output.flush()

    def close(self) -> None:
        if not self.closed:
            self._output.close()
        super().close()
