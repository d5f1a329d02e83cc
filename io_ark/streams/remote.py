"""Read and write files at URLs (``https://``, ``s3://``, ``gs://``, ``hf://``) with fsspec.

While a file is read in order, each request reads further ahead, up to 8 MiB. After a jump, a request has about the size
of the last objects, so that a random look-up is usually one request.

Servers are not trusted. No more bytes than requested are read, the time of a request is limited, and all bytes of a
file come from one version of the file.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from io_ark.errors import ArkError, MissingFileError, NetworkRefusedError, OpenError, WriteError
from io_ark.extras import format_missing_package
from io_ark.streams import process
from io_ark.streams.access import Access, refuse_private
from io_ark.streams.source import FileSource

Result = TypeVar("Result")

_CONTENT_RANGE = re.compile(r"bytes (?:(\d{1,99})-(\d{1,99})|\*)/(\d{1,99}|\*)")
# Bounds of the bytes of a request with its read-ahead. Large requests save round trips, but take memory.
_MIN_REQUEST_BYTES, _MAX_REQUEST_BYTES = 1 << 14, 1 << 23
_MAX_TYPICAL_BYTES = 1 << 20  # Maximum bytes of a request after a jump, unless the reader needs more.
# Seconds to wait before each further attempt. Up to the same time is added at random, so that workers do not retry at
# the same moment.
_RETRY_SECONDS = (0.1, 0.3, 1.0, 3.0)
# Maximum seconds to wait for a connection, and for the next bytes of an answer.
_TIMEOUT_SECONDS = 60
# A request may take _TIMEOUT_SECONDS, and in addition the time for its bytes at this rate. Without this limit, a server
# that sends single bytes could keep a program waiting forever.
_MIN_BYTES_PER_SECOND = 1 << 15
# HTTP statuses of client errors (400 to 499) that may be temporary. After other client errors, no request is repeated.
_TEMPORARY_STATUSES = (408, 425, 429)
_CHANGED = "has changed since it was opened: open it again"
_NO_VERSIONS = (
    "the server sends neither a strong ETag nor a Last-Modified that is a second old, so parts of two versions of the "
    "file could be mixed: copy the file, or use a pipe such as 'curl -s URL |'"
)
# All file systems that this process and its parents have opened. fsspec forgets the parent's file systems in a forked
# process, and this list keeps them alive there. If Python deleted them, they would close their connections and remove
# them from the event loop's epoll instance, which the parent shares. The parent would then wait until the timeout.
_file_systems: list[Any] = []
_NO_RANGES = (
    "the server ignores ranges of bytes and sends whole files: copy the file, or use a pipe such as 'curl -s URL |'"
)


class _Connection:
    """The file system of a URL. A forked process opens a new file system, because it cannot share sockets."""

    def __init__(self, url: str, access: Access) -> None:
        self.url = url
        self.access = access
        self._opened: tuple[object, Any, str] | None = None

    def __call__(self) -> tuple[Any, str]:
        """Return the file system, which is opened once in each process, and the path of the file in it."""
        if self._opened is None or self._opened[0] is not process.current:
            self._opened = process.current, *_open_file_system(self.url, self.access)
        return self._opened[1], self._opened[2]

    def __reduce__(self) -> tuple[Any, ...]:
        return _Connection, (self.url, self.access)


def _open_file_system(url: str, access: Access) -> tuple[Any, str]:
    """Return fsspec's file system for a URL, and the path of the file in it.

    Without ``access.private``, the file system connects only to public addresses by HTTP. Raise OpenError if fsspec or
    the package for the protocol is not installed, or the URL is invalid.
    """
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise OpenError(f"{format_missing_package('fsspec', 'URLs')}, or use a pipe such as 'curl -s URL |'",
                        file=url) from None  # fmt: skip
    only_public = _is_http(url) and not access.private
    try:
        system, path = url_to_fs(url, **({"get_client": _create_public_client} if only_public else {}))
    except (ImportError, ValueError) as error:
        advice = "correct the URL, or install the package for its protocol"
        raise OpenError(f"cannot be opened: {error}; {advice}", file=url) from error
    if not any(system is opened for opened in _file_systems):
        _file_systems.append(system)
    return system, path


def _is_http(url: str) -> bool:
    return url.lower().startswith(("http://", "https://"))


async def _create_public_client(**options: Any) -> Any:
    """Return an HTTP session that connects only to public addresses, even after a redirect to a private address."""
    from aiohttp import ClientSession, TCPConnector, ThreadedResolver

    class Resolver(ThreadedResolver):
        async def resolve(self, host: str, *arguments: Any, **options: Any) -> Any:
            addresses = await super().resolve(host, *arguments, **options)
            refuse_private(host, [address["host"] for address in addresses])
            return addresses

    class Connector(TCPConnector):
        async def connect(self, req: Any, traces: Any, timeout: Any) -> Any:
            host = req.url.raw_host or ""
            # aiohttp does not resolve numeric addresses, so they would bypass Resolver.
            if ":" in host or host.replace(".", "").isdigit():
                refuse_private(host, [host])
            return await super().connect(req, traces, timeout)

    return ClientSession(**options | {"connector": Connector(resolver=Resolver())})


class _Answer(NamedTuple):
    """Answer of a server to a request for a range of bytes of a file.

    Attributes:
        data: the bytes, or one byte more than requested if the server sends too many.
        first: offset of the first byte.
        size: size of the whole file, or None if the server does not tell it.
        version: identifier of the file's version, or "" if the server does not tell it.
        is_strong: False if two versions of the file may have the same identifier.
    """

    data: bytes
    first: int
    size: int | None
    version: str
    is_strong: bool = True


class _StatusError(Exception):
    """An HTTP status that is an error, other than a missing file."""

    def __init__(self, status: int) -> None:
        super().__init__(f"HTTP status {status}")
        self.status = status


async def _read_up_to(stream: Any, limit: int) -> bytes:
    """Read the bytes of a stream up to its end, but at most ``limit`` bytes."""
    data = bytearray()
    while len(data) < limit and (part := await stream.read(limit - len(data))):
        data += part
    return bytes(data)


def _parse_version(headers: Mapping[str, str]) -> tuple[str, bool]:
    """Return an identifier of a file's version, and True if it is strong (RFC 9110, sections 8.8.1 and 8.8.2.2).

    Two versions that the server considers equivalent may share a weak ETag, and two versions of the same second share a
    Last-Modified. A Last-Modified is strong if the server's clock has passed that second.
    """
    from email.utils import parsedate_to_datetime  # Imported here, because an import at the top delays every program.

    etag, modified = headers.get("ETag", ""), headers.get("Last-Modified", "")
    if etag.startswith('"'):
        return etag, True
    try:
        age = parsedate_to_datetime(headers.get("Date", "")) - parsedate_to_datetime(modified)
        is_strong = age.total_seconds() >= 1
    except (TypeError, ValueError, OverflowError):  # Without two valid dates, the version is weak.
        is_strong = False
    return f"{etag} {modified}".strip(), is_strong


async def _request_by_http(system: Any, url: str, start: int, stop: int, version: str) -> _Answer:
    """Request the bytes ``start`` to ``stop - 1`` of a file by HTTP, with If-Range if ``version`` is a strong ETag.

    With If-Range, the server sends the whole file if its version differs.

    Raises:
        FileNotFoundError: the server does not have the file.
        _StatusError: the status of the answer is not 200, 206, 404, 410 or 416.
        OpenError: the server sends the bytes too slowly.
    """
    from aiohttp import ClientTimeout  # Imported here, because an import at the top delays every program.

    total_seconds = _TIMEOUT_SECONDS + (stop - start) / _MIN_BYTES_PER_SECOND
    timeout = ClientTimeout(total_seconds, sock_read=_TIMEOUT_SECONDS, sock_connect=_TIMEOUT_SECONDS)
    options: dict[str, Any] = {"timeout": timeout}
    if "timeout" in system.client_kwargs:  # A timeout that the user has configured replaces this timeout.
        options.clear()
    options |= system.kwargs
    headers = {**options.pop("headers", {}), "Range": f"bytes={start}-{stop - 1}", "Accept-Encoding": "identity"}
    if version.startswith('"'):
        headers["If-Range"] = version
    session = await system.set_session()
    async with session.get(system.encode_url(url), headers=headers, **options) as answer:
        if answer.status in (404, 410):
            raise FileNotFoundError
        if answer.status not in (200, 206, 416):
            raise _StatusError(answer.status)
        return await _read_http_answer(answer, url, start, stop)


async def _read_http_answer(answer: Any, url: str, start: int, stop: int) -> _Answer:
    """Read aiohttp's answer, whose status is 200, 206 or 416, to a request for the bytes ``start`` to ``stop - 1``.

    If the status is 416, the result has no bytes. Raise OpenError if the server sends the bytes too slowly.
    """
    import asyncio  # Imported here, because an import at the top delays every program.

    version_and_strength = _parse_version(answer.headers)
    content_range = _CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", ""))
    first_byte, file_size = content_range.group(1, 3) if content_range else (None, "*")
    size = int(file_size) if file_size != "*" else None
    if answer.status == 416:
        return _Answer(b"", start, size, *version_and_strength)
    if answer.status == 200 and size is None:
        size = answer.content_length
    try:
        # One byte more than requested would show that the server ignores the range.
        data = await _read_up_to(answer.content, stop - start + 1)
    except asyncio.TimeoutError as error:
        if type(error) is asyncio.TimeoutError:  # aiohttp raises subclasses for its other timeouts.
            raise OpenError("cannot be read: the server is too slow; copy the file", file=url, offset=start) from error
        raise
    first = int(first_byte) if first_byte and answer.status == 206 else 0
    return _Answer(data, first, size, *version_and_strength)


async def _request_from_s3(system: Any, path: str, start: int, stop: int, version: str) -> _Answer:
    """Request the bytes ``start`` to ``stop - 1`` of an S3 object. Raise OSError if its version is not ``version``."""
    bucket, key, _ = system.split_path(path)
    answer = await system._call_s3(
        "get_object", Bucket=bucket, Key=key, Range=f"bytes={start}-{stop - 1}", IfMatch=version
    )
    try:
        data = await _read_up_to(answer["Body"], stop - start + 1)
        return _Answer(data, first=start, size=None, version=answer["ETag"])
    finally:
        answer["Body"].close()


# Fields in which fsspec's file systems store a checksum, a generation or a time of a file. The value of the first field
# that a file system has identifies the version of the file.
_VERSION_FIELDS = ("ETag", "etag", "generation", "md5Hash", "blob_id", "mtime", "last_modified", "LastModified",
                   "created", "modify", "modificationTime", "sha")  # fmt: skip


def _request_size_and_version(system: Any, path: str) -> tuple[Any, str]:
    """Return the present size (None if it is not reported) and version ("" if it is not reported) of a file."""
    system.invalidate_cache(path)
    info = system.info(path)
    return info.get("size"), str(next(filter(None, map(info.get, _VERSION_FIELDS)), ""))


def _request_range(system: Any, path: str, start: int, stop: int, version: str) -> _Answer:
    """Request the bytes ``start`` to ``stop - 1`` of a file. ``version`` is the expected version, or "" if unknown.

    The answer may have a different version, which the caller must refuse.
    """
    protocol = system.protocol if isinstance(system.protocol, str) else system.protocol[0]
    request = {"http": _request_by_http, "https": _request_by_http, "s3": _request_from_s3}.get(protocol)
    if request is None or (request is _request_from_s3 and not version):
        data = system.cat_file(path, start=start, end=stop)
        # The version is requested after the bytes, so that it also shows a change during the first request.
        return _Answer(data, start, *_request_size_and_version(system, path))
    from fsspec.asyn import sync

    answer: _Answer = sync(system.loop, request, system, path, start, stop, version)
    return answer


class RemoteFile:
    """A file at a URL, read by ranges of bytes. Threads and forked processes may share it, and it can be pickled.

    ``access`` is the permission to open the URL. Raise NetworkRefusedError if the URL is not allowed, and OpenError if
    the server cannot be reached, does not have the file, or does not tell its size.

    Attributes:
        path: the URL.
        is_regular: always True, because the file has offsets.
        size: size of the file in bytes.
    """

    is_regular = True

    def __init__(self, url: str, access: Access) -> None:
        access.check_url(url)
        self.path = url
        self._access = access
        self._connection = _Connection(url, access)
        self._span = 0, b""  # Offset and content of the bytes that were fetched last.
        self._ahead = _MIN_REQUEST_BYTES  # Minimum number of bytes of the next request.
        self._typical = _MIN_REQUEST_BYTES  # Running mean of the number of bytes read between two jumps.
        self._run_start = 0  # Offset to which the last jump led.
        self.size, self._version = self._request_first_bytes()

    def _request_first_bytes(self) -> tuple[int, str]:
        """Return the size and version of the file. With HTTP, the same request reads the first bytes.

        A file without versions is read as a whole if it has at most 8 MiB. Raise OpenError for a larger file without
        versions, or if the server does not send the size.
        """

        def request_size(system: Any, path: str) -> tuple[object, str]:
            """Return the size and version from the server. With HTTP, keep the first bytes, and omit weak versions."""
            if not _is_http(self.path):
                return _request_size_and_version(system, path)
            answer = _request_range(system, path, start=0, stop=_MIN_REQUEST_BYTES, version="")
            if answer.first == 0 and len(answer.data) in (_MIN_REQUEST_BYTES, answer.size):
                self._span = 0, answer.data
            return answer.size, answer.version if answer.is_strong else ""

        size, version = self._call_with_retries(request_size)
        if not isinstance(size, int):
            raise OpenError("the server does not send the size of the file, so parts of it cannot be read: use a "
                            "pipe such as 'curl -s URL |'", file=self.path)  # fmt: skip
        if not version and size > len(self._span[1]):  # Two requests could mix two versions.
            if size > _MAX_REQUEST_BYTES:
                raise OpenError(_NO_VERSIONS, file=self.path)
            self.size, self._version = size, version
            self._span = 0, self._fetch(0, size)
        return size, version

    def open_source(self, offset: int, *, ahead: bool = True) -> RemoteSource:
        """Return a source that reads the file from the byte ``offset`` to its end.

        If ``ahead`` is True, each request also fetches later bytes, for callers that read several objects in order.
        Raise OpenError if the offset is beyond the end of the file.
        """
        if offset > self.size:
            raise OpenError(f"the offset is beyond the end of the file, which has {self.size} bytes: correct the "
                            "offset, or create the script file again", file=self.path, offset=offset)  # fmt: skip
        return RemoteSource(self, offset, ahead)

    def read(self, count: int, offset: int) -> bytes:
        """Read ``count`` bytes from ``offset`` on, or fewer bytes at the end of the file.

        Raise OpenError if the server cannot be reached, or if the file has changed.
        """
        end = min(offset + count, self.size)
        begin, data = self._span
        if begin <= offset and end <= begin + len(data):
            return data[offset - begin : end - begin]
        if end <= offset:
            return b""
        buffered = data[offset - begin :] if begin <= offset < begin + len(data) else b""
        self._adapt_read_ahead(offset, begin, begin + len(data))
        start = offset + len(buffered)
        stop = min(max(end, start + self._ahead), self.size)
        fetched = self._fetch(start, stop)
        self._span = offset, buffered + fetched
        return self._span[1][: end - offset]

    def _adapt_read_ahead(self, offset: int, begin: int, end: int) -> None:
        """Double the number of bytes to read ahead while reading in order.

        After a jump, set this number to about the mean number of bytes that were read between two jumps, up to 1 MiB.

        Args:
            offset: offset of the next read.
            begin, end: offsets of the bytes that the last request fetched (``end`` exclusive).
        """
        if begin <= offset <= end + self._ahead and end > 0:
            self._ahead = min(2 * self._ahead, _MAX_REQUEST_BYTES)
        else:
            # About half of the bytes of the last request are assumed to be unread.
            bytes_read = max(end - self._run_start - self._ahead // 2, _MIN_REQUEST_BYTES)
            self._typical = (self._typical + min(bytes_read, _MAX_TYPICAL_BYTES)) // 2
            self._ahead = max(_MIN_REQUEST_BYTES, self._typical)
            self._run_start = offset

    def _fetch(self, start: int, stop: int) -> bytes:
        """Request the bytes ``start`` to ``stop - 1``. Raise OpenError if other bytes arrive or the file changed."""

        def request_bytes(system: Any, path: str) -> bytes:
            """Request the bytes once, and check the answer. Raise ConnectionError if bytes are missing."""
            answer = _request_range(system, path, start, stop, self._version)
            # An answer to If-Range may omit the version, because it is the requested version.
            version = answer.version or (self._version if self._version.startswith('"') else "")
            if (self._version and version != self._version) or answer.size not in (None, self.size):
                raise OpenError(_CHANGED, file=self.path, offset=start)
            if len(answer.data) > stop - start or (start and not answer.first):
                raise OpenError(_NO_RANGES, file=self.path)
            if answer.first != start:
                raise OpenError(f"the server sends bytes from offset {answer.first} instead of the requested bytes: "
                                "copy the file", file=self.path, offset=start)  # fmt: skip
            if len(answer.data) < stop - start:
                raise ConnectionError(f"{len(answer.data)} of {stop - start} bytes arrived")
            return answer.data

        return self._call_with_retries(request_bytes, start)

    def _call_with_retries(self, work: Callable[[Any, str], Result], offset: int | None = None) -> Result:
        """Call ``work`` with the file system and the path, and call it again after temporary errors.

        An error after half a minute is final, so that all attempts together take about a minute and a half at most,
        plus the time for the bytes. Errors name the byte ``offset``.
        """
        begin = time.monotonic()
        for attempt, seconds in enumerate((*_RETRY_SECONDS, None), 1):  # After the last attempt, there is no wait.
            system, path = self._connection()
            try:
                return work(system, path)
            except ArkError:
                raise
            except FileNotFoundError as error:
                message = "cannot be opened: the server has no such file; correct the URL"
                raise MissingFileError(message, file=self.path) from error
            except Exception as error:  # Each protocol has its own exceptions.
                if isinstance(error.__cause__, NetworkRefusedError):
                    raise NetworkRefusedError(error.__cause__.message, file=self.path) from error
                if isinstance(error, OSError) and "PreconditionFailed" in repr(error.__cause__):  # If-Match has failed.
                    raise OpenError(_CHANGED, file=self.path, offset=offset) from error
                if seconds is None or _is_final(error) or time.monotonic() - begin > _TIMEOUT_SECONDS / 2:
                    attempts = "" if attempt == 1 else f" ({attempt} attempts)"
                    message = f"cannot be read: {_describe_error(error)}{attempts}"
                    raise OpenError(message, file=self.path, offset=offset) from error
            from random import random  # Imported here, because an import at the top delays every program.

            time.sleep(seconds * (1 + random()))
        raise AssertionError("unreachable")

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteFile, (self.path, self._access)


def _is_final(error: Exception) -> bool:
    """Return True for an error that a repeated request would raise again."""
    status = getattr(error, "status", None)
    if isinstance(status, int):
        return 400 <= status < 500 and status not in _TEMPORARY_STATUSES
    return isinstance(error, PermissionError | NotImplementedError | ImportError | TypeError | ValueError)


def _describe_error(error: Exception) -> str:
    """Describe an error by its HTTP status, its message on one line, or its type."""
    status = getattr(error, "status", None)
    description = f"HTTP status {status}" if isinstance(status, int) else " ".join(str(error).split())
    name = type(error).__name__  # FSTimeoutError of fsspec has no text.
    return description or ("the server does not respond" if name.endswith("TimeoutError") else name)


class RemoteSource(FileSource):
    """Source of the bytes of a :class:`RemoteFile`. All reads go through the read-ahead of the file.

    Args:
        file: the file.
        offset: offset of the first byte to read.
        ahead: True to fetch later bytes with each request, for callers that read several objects in order.
    """

    def __init__(self, file: RemoteFile, offset: int, ahead: bool) -> None:
        self._file = file
        super().__init__(-1, offset, file.size, file.path, owner=file, ahead=ahead)  # -1: no descriptor.

    def _pread(self, size: int, offset: int) -> bytes:
        return self._file.read(size, offset)

    def _preadv(self, targets: Sequence[Any], offset: int) -> int:
        """Read bytes of the file from position ``offset`` into the first buffer.

        If there is a second buffer, copy the bytes that follow into it if they have been read ahead. Return the total
        number of bytes.
        """
        views = [memoryview(target).cast("B") for target in targets]
        needed = len(views[0])
        data = memoryview(self._file.read(needed, offset))
        byte_count = len(data)
        views[0][:byte_count] = data
        if byte_count == needed and len(views) > 1:  # The second buffer is optional, so no request is sent for it.
            begin, span = self._file._span
            position = offset + byte_count - begin
            tail = span[position : position + len(views[1])] if position >= 0 else b""
            views[1][: len(tail)] = tail
            byte_count += len(tail)
        return byte_count

    def count_remaining(self) -> int:
        return max(0, self._size - self._base - self._at)

    def read_array(self, dtype: npt.DTypeLike, count: int) -> npt.NDArray[Any]:
        element_type = np.dtype(dtype)
        if count * element_type.itemsize <= _MAX_REQUEST_BYTES:
            return super().read_array(element_type, count)
        self.check_available(count * element_type.itemsize)
        # A server may lie about the size of the file, so memory grows only as bytes arrive.
        return np.frombuffer(self._read_chunks(count * element_type.itemsize), element_type)

    def take(self, count: int) -> tuple[Any, int]:
        return super().take(count) if count <= _MAX_REQUEST_BYTES else (self.read_array(np.uint8, count), 0)


class Upload:
    """A file that is being uploaded to a URL. It appears at the URL when it is complete.

    Raise NetworkRefusedError if ``access`` does not allow the URL, and OpenError if the file cannot be created.
    """

    def __init__(self, url: str, access: Access) -> None:
        access.check_url(url)
        self._url = url
        system, path = _Connection(url, access)()
        try:
            self._file = system.open(path, "wb")
        except NotImplementedError as error:
            message = "cannot be opened for writing, because the protocol is read-only: write to a local file"
            raise OpenError(message, file=url) from error
        except Exception as error:
            raise OpenError(f"cannot be opened for writing: {_describe_error(error)}", file=url) from error

    def write(self, data: Any) -> int:
        """Add ``data`` to the bytes that are collected and sent in large parts. Return its number of bytes."""
        return self._convert_errors(lambda: int(self._file.write(bytes(data))))

    def close(self) -> None:
        """Do nothing, because a forked process that only inherited the upload must not complete the file."""

    def discard(self) -> None:
        """Cancel the upload, so that nothing appears at the URL."""
        self._convert_errors(self._file.discard)
        with contextlib.suppress(AttributeError):
            self._file.closed = True  # s3fs leaves the file open, and its finalizer would print an error.

    def finish(self) -> None:
        """Send the last bytes and complete the file."""
        self._convert_errors(self._file.close)

    def _convert_errors(self, work: Callable[[], Result]) -> Result:
        """Call ``work``. Raise a WriteError that names the URL for any exception."""
        try:
            return work()
        except Exception as error:
            message = f"cannot be written to: {_describe_error(error)}; the output is incomplete"
            raise WriteError(message, file=self._url) from error
