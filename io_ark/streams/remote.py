"""Files at URLs (``https://``, ``s3://``, ``gs://``, ``hf://``), by fsspec: range requests, uploads, retries.

A file that is read in order is read ahead by more and more bytes, up to 8 MiB per request. After a jump, about as
many bytes are requested as the last objects took, so a random look-up is usually one request.

Servers are not trusted: no more bytes than asked for are taken, a request may take a minute and as long as its bytes
need, and all bytes of a file come from one version of it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from io_ark.errors import ArkError, MissingFileError, NetworkRefusedError, OpenError, WriteError
from io_ark.extras import not_installed
from io_ark.streams.access import Access, refuse_private
from io_ark.streams.process import current_process
from io_ark.streams.source import FileSource

Result = TypeVar("Result")

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)")
_SMALLEST, _LARGEST = 1 << 14, 1 << 23
# Seconds to wait before each new attempt; about as much again is added at random, so that workers do not retry at once.
_BACK_OFF = (0.1, 0.3, 1.0, 3.0)
_SECONDS = 60  # to wait for an answer, or for its next bytes
_SLOWEST = 1 << 15  # bytes per second after the first minute
# Statuses of HTTP that may be temporary. Other client errors (400 to 499) are final.
_TEMPORARY = (408, 425, 429)
_CHANGED = "has changed since it was opened: open it again"
_NO_VERSIONS = (
    "the server sends neither a strong ETag nor a Last-Modified that is a second old, so parts of two versions of the "
    "file could be mixed: copy the file, or use a pipe such as 'curl -s URL |'"
)
_NO_RANGES = (
    "the server ignores ranges of bytes and sends whole files: copy the file, or use a pipe such as 'curl -s URL |'"
)


def is_url(path: str) -> bool:
    """Return True for a URL, and False for the path of a local file.

    >>> is_url("s3://bucket/feats.ark"), is_url("exp/feats.ark")
    (True, False)
    """
    return "://" in path and _URL.match(path) is not None


class _Connection:
    """The file system of a URL. A forked process makes its own: sockets cannot be shared."""

    def __init__(self, url: str, access: Access) -> None:
        self.url = url
        self.access = access
        self._opened: tuple[object, Any, str] | None = None

    def __call__(self) -> tuple[Any, str]:
        process = current_process()
        if self._opened is None or self._opened[0] is not process:
            self._opened = process, *_file_system(self.url, self.access)
        return self._opened[1], self._opened[2]

    def __reduce__(self) -> tuple[Any, ...]:
        return _Connection, (self.url, self.access)


def _file_system(url: str, access: Access) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise OpenError(f"{not_installed('fsspec', 'URLs')}, or use a pipe such as 'curl -s URL |'",
                        file=url) from None  # fmt: skip
    try:
        system, path = url_to_fs(
            url, **({"get_client": _public_client} if _is_http(url) and not access.private else {})
        )
    except (ImportError, ValueError) as error:
        raise OpenError(f"cannot be opened: {error}", file=url) from error
    return system, path


def _is_http(url: str) -> bool:
    return url.lower().startswith(("http://", "https://"))


async def _public_client(**options: Any) -> Any:
    """Return a session of HTTP that connects to public addresses only, whoever names or redirects to another one."""
    from aiohttp import ClientSession, TCPConnector, ThreadedResolver

    class Resolver(ThreadedResolver):
        async def resolve(self, host: str, *arguments: Any, **named: Any) -> Any:
            found = await super().resolve(host, *arguments, **named)
            refuse_private(host, [each["host"] for each in found])
            return found

    class Connector(TCPConnector):
        async def connect(self, req: Any, traces: Any, timeout: Any) -> Any:
            host = req.url.raw_host or ""
            if ":" in host or host.replace(".", "").isdigit():  # an address, for which no resolver is asked
                refuse_private(host, [host])
            return await super().connect(req, traces, timeout)

    return ClientSession(**options | {"connector": Connector(resolver=Resolver())})


class _Answer(NamedTuple):
    """A range of bytes of a file."""

    data: bytes  # the bytes; one more than asked for if the server sends too many
    first: int  # offset of the first byte
    size: int | None  # size of the whole file; None if the server does not tell it
    version: str  # what differs between two versions of the file ("" if unknown)
    is_strong: bool = True  # False if two versions of the file may have the same


class _StatusError(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(f"HTTP status {status}")
        self.status = status


async def _take(stream: Any, most: int) -> bytes:
    """Read a stream up to its end, but no more than this number of bytes."""
    data = bytearray()
    while len(data) < most and (part := await stream.read(most - len(data))):
        data += part
    return bytes(data)


def _version_of(headers: Mapping[str, str]) -> tuple[str, bool]:
    """Return what identifies the version of a file, and whether it is strong (RFC 9110, sections 8.8.1 and 8.8.2.2).

    A weak ETag is that of all versions which the server holds to be equivalent. A Last-Modified is that of all versions
    of one second: it is strong if the server's clock has passed that second.
    """
    from email.utils import parsedate_to_datetime  # slow to import; whoever is here has it

    etag, modified = headers.get("ETag", ""), headers.get("Last-Modified", "")
    if etag.startswith('"'):
        return etag, True
    try:
        age = parsedate_to_datetime(headers.get("Date", "")) - parsedate_to_datetime(modified)
        is_strong = age.total_seconds() >= 1
    except (TypeError, ValueError, OverflowError):  # one is missing or invalid
        is_strong = False
    return f"{etag} {modified}".strip(), is_strong


async def _get(system: Any, url: str, start: int, stop: int, version: str) -> _Answer:
    """Request a range of bytes by HTTP, of this version of the file if it has a strong one."""
    import asyncio  # slow to import; whoever is here has it

    from aiohttp import ClientTimeout

    options: dict[str, Any] = {"timeout": ClientTimeout(_SECONDS + (stop - start) / _SLOWEST, None, _SECONDS, _SECONDS)}
    if "timeout" in system.client_kwargs:  # which the user has configured
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
        version_of_answer = _version_of(answer.headers)
        told = _CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", ""))
        size = int(told[3]) if told and told[3] != "*" else None
        if answer.status == 416:
            return _Answer(b"", start, size, *version_of_answer)
        if answer.status == 200 and size is None:
            size = answer.content_length
        try:
            data = await _take(answer.content, stop - start + 1)
        except asyncio.TimeoutError as error:
            if type(error) is asyncio.TimeoutError:  # of the whole request; others have types of their own
                raise OpenError("cannot be read: the server is too slow", file=url, offset=start) from error
            raise
        first = int(told[1]) if told and told[1] and answer.status == 206 else 0
        return _Answer(data, first, size, *version_of_answer)


async def _get_s3(system: Any, path: str, start: int, stop: int, version: str) -> _Answer:
    """Request a range of bytes of an object in S3, of this version of it."""
    bucket, key, _ = system.split_path(path)
    answer = await system._call_s3(
        "get_object", Bucket=bucket, Key=key, Range=f"bytes={start}-{stop - 1}", IfMatch=version
    )
    try:
        return _Answer(await _take(answer["Body"], stop - start + 1), start, None, answer["ETag"])
    finally:
        answer["Body"].close()


# What file systems of fsspec tell of a file, which differs between two versions of it.
_VERSIONS = ("ETag", "etag", "generation", "md5Hash", "blob_id", "mtime", "last_modified", "LastModified", "created",
             "modify", "modificationTime", "sha")  # fmt: skip


def _size_and_version(system: Any, path: str) -> tuple[Any, str]:
    """Return size and version of a file as they are now; the version is "" if the file system tells none."""
    system.invalidate_cache(path)
    info = system.info(path)
    return info.get("size"), str(next(filter(None, map(info.get, _VERSIONS)), ""))


def _range(system: Any, path: str, start: int, stop: int, version: str) -> _Answer:
    """Request a range of bytes of a file."""
    protocol = system.protocol if isinstance(system.protocol, str) else system.protocol[0]
    get = {"http": _get, "https": _get, "s3": _get_s3}.get(protocol)
    if get is None or (get is _get_s3 and not version):
        data = system.cat_file(path, start=start, end=stop)
        return _Answer(data, start, *_size_and_version(system, path))  # asked after the bytes have been read
    from fsspec.asyn import sync

    answer: _Answer = sync(system.loop, get, system, path, start, stop, version)
    return answer


class RemoteFile:
    """A file at a URL, read by ranges of bytes. May be shared by threads, forked processes, and pickled.

    Attributes:
        path: the URL.
        regular: True: it has offsets.
        size: size of the file in bytes.
    """

    regular = True

    def __init__(self, url: str, access: Access) -> None:
        access.check_url(url)
        self.path = url
        self._access = access
        self._connection = _Connection(url, access)
        self._span = 0, b""  # bytes that have been read ahead, and their offset
        self._ahead = _SMALLEST
        self._typical = _SMALLEST  # bytes that were read between two jumps
        self._run = 0  # where reading in order began
        self.size, self._version = self._first_contact()

    def _first_contact(self) -> tuple[int, str]:
        """Return size and version of the file; by HTTP, read its first bytes, too."""

        def ask(system: Any, path: str) -> tuple[object, str]:
            if not _is_http(self.path):
                return _size_and_version(system, path)
            answer = _range(system, path, 0, _SMALLEST, "")
            if answer.first == 0 and len(answer.data) in (_SMALLEST, answer.size):
                self._span = 0, answer.data
            return answer.size, answer.version if answer.is_strong else ""

        size, version = self._attempt(ask)
        if not isinstance(size, int):
            raise OpenError("the server does not tell the size of the file, so it has no offsets: use a pipe such as "
                            "'curl -s URL |'", file=self.path)  # fmt: skip
        if not version and size > len(self._span[1]):  # two requests could see two versions of the file
            if size > _LARGEST:
                raise OpenError(_NO_VERSIONS, file=self.path)
            self.size, self._version = size, version
            self._span = 0, self._fetch(0, size)
        return size, version

    def source(self, offset: int, *, ahead: bool = True) -> RemoteSource:
        """Return the bytes of the file from an offset on."""
        if offset > self.size:
            raise OpenError(f"the offset is beyond the end: the file has {self.size} bytes",
                            file=self.path, offset=offset)  # fmt: skip
        return RemoteSource(self, offset, ahead)

    def read(self, count: int, offset: int) -> bytes:
        """Read up to ``count`` bytes; fewer only at the end of the file."""
        end = min(offset + count, self.size)
        begin, data = self._span
        if begin <= offset and end <= begin + len(data):
            return data[offset - begin : end - begin]
        if end <= offset:
            return b""
        known = data[offset - begin :] if begin <= offset < begin + len(data) else b""
        self._plan(offset, begin, begin + len(data))
        start = offset + len(known)
        stop = min(max(end, start + self._ahead), self.size)
        fresh = self._fetch(start, stop)
        self._span = offset, known + fresh
        return self._span[1][: end - offset]

    def _plan(self, offset: int, begin: int, end: int) -> None:
        """Decide how many bytes to request: more if reading goes on in order, else as many as an object had."""
        if begin <= offset <= end + self._ahead and end > 0:
            self._ahead = min(2 * self._ahead, _LARGEST)
        else:
            read = max(end - self._run - self._ahead // 2, _SMALLEST)
            self._typical = (self._typical + min(read, _LARGEST // 8)) // 2
            self._ahead = max(_SMALLEST, self._typical)
            self._run = offset

    def _fetch(self, start: int, stop: int) -> bytes:
        def get(system: Any, path: str) -> bytes:
            answer = _range(system, path, start, stop, self._version)
            # An answer to If-Range need not tell the version.
            version = answer.version or (self._version if self._version.startswith('"') else "")
            if (self._version and version != self._version) or answer.size not in (None, self.size):
                raise OpenError(_CHANGED, file=self.path, offset=start)
            if len(answer.data) > stop - start or (start and not answer.first):
                raise OpenError(_NO_RANGES, file=self.path)
            if answer.first != start:
                raise OpenError(f"the server sends the bytes from {answer.first} on", file=self.path, offset=start)
            if len(answer.data) < stop - start:
                raise ConnectionError(f"{len(answer.data)} of {stop - start} bytes arrived")
            return answer.data

        return self._attempt(get, start)

    def _attempt(self, work: Callable[[Any, str], Result], offset: int | None = None) -> Result:
        """Call a function with the file system and the path, and try again after temporary errors.

        No attempt begins after half a minute, so that with a slow server all of them take a minute and a half, and the
        time of the bytes.
        """
        begin = time.monotonic()
        for attempt, seconds in enumerate((*_BACK_OFF, None), 1):
            system, path = self._connection()
            try:
                return work(system, path)
            except ArkError:
                raise
            except FileNotFoundError as error:
                raise MissingFileError("cannot be opened: there is no such file", file=self.path) from error
            except Exception as error:  # each library of a protocol has errors of its own
                if isinstance(error.__cause__, NetworkRefusedError):
                    raise NetworkRefusedError(error.__cause__.message, file=self.path) from error
                if isinstance(error, OSError) and "PreconditionFailed" in repr(error.__cause__):  # of S3
                    raise OpenError(_CHANGED, file=self.path, offset=offset) from error
                if seconds is None or _is_final(error) or time.monotonic() - begin > _SECONDS / 2:
                    tried = "" if attempt == 1 else f" ({attempt} attempts)"
                    raise OpenError(
                        f"cannot be read: {_reason(error)}{tried}", file=self.path, offset=offset
                    ) from error
            from random import random  # which would delay every program

            time.sleep(seconds * (1 + random()))
        raise AssertionError("unreachable")

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteFile, (self.path, self._access)


def _is_final(error: Exception) -> bool:
    status = getattr(error, "status", None)
    if isinstance(status, int):
        return 400 <= status < 500 and status not in _TEMPORARY
    return isinstance(error, PermissionError | NotImplementedError | ImportError | TypeError | ValueError)


def _reason(error: Exception) -> str:
    status = getattr(error, "status", None)
    description = f"HTTP status {status}" if isinstance(status, int) else " ".join(str(error).split())
    return description or type(error).__name__


class RemoteSource(FileSource):
    """Part of a remote file. All reads go through the file's read-ahead."""

    def __init__(self, file: RemoteFile, offset: int, ahead: bool) -> None:
        self._file = file
        super().__init__(-1, offset, file.size, file.path, file, ahead)

    def _pread(self, size: int, offset: int) -> bytes:
        return self._file.read(size, offset)

    def _preadv(self, targets: Sequence[Any], offset: int) -> int:
        views = [memoryview(target).cast("B") for target in targets]
        needed = len(views[0])
        data = memoryview(self._file.read(needed, offset))
        done = len(data)
        views[0][:done] = data
        if done == needed and len(views) > 1:  # the bytes after the array, if they are there already
            begin, span = self._file._span
            at = offset + done - begin
            tail = span[at : at + len(views[1])] if at >= 0 else b""
            views[1][: len(tail)] = tail
            done += len(tail)
        return done

    def remaining(self) -> int:
        return max(0, self._size - self._base - self._at)

    def read_array(self, dtype: npt.DTypeLike, count: int) -> npt.NDArray[Any]:
        kind = np.dtype(dtype)
        if count * kind.itemsize <= _LARGEST:
            return super().read_array(kind, count)
        self.check(count * kind.itemsize)
        return np.frombuffer(self._read_chunks(count * kind.itemsize), kind)  # the size is only a server's word

    def take(self, count: int) -> tuple[Any, int]:
        return super().take(count) if count <= _LARGEST else (self.read_array(np.uint8, count), 0)


class Upload:
    """A file at a URL while it is written. It appears there when it is closed."""

    def __init__(self, url: str, access: Access) -> None:
        access.check_url(url)
        self._url = url
        self._process = current_process()
        system, path = _Connection(url, access)()
        try:
            self._file = system.open(path, "wb")
        except NotImplementedError as error:
            raise OpenError("cannot be opened for writing: this protocol only reads", file=url) from error
        except Exception as error:
            raise OpenError(f"cannot be opened for writing: {_reason(error)}", file=url) from error

    def write(self, data: Any) -> int:
        """Write bytes; they are sent in large parts."""
        return self._done(lambda: int(self._file.write(bytes(data))))

    def close(self) -> None:
        """Do nothing: a process that only inherited this must not complete the file."""

    def discard(self) -> None:
        """Give up the file, so that nothing appears at the URL."""
        self._done(self._file.discard)

    def finish(self) -> None:
        """Send the last bytes and complete the file."""
        self._done(self._file.close)

    def _done(self, work: Callable[[], Result]) -> Result:
        try:
            return work()
        except Exception as error:
            raise WriteError(
                f"cannot be written to: {_reason(error)}; the output is incomplete", file=self._url
            ) from error
