"""Files at URLs (``https://``, ``s3://``, ``gs://``, ``hf://``, ...), by fsspec: range requests, uploads, retries.

A file that is read in order is read ahead by more and more bytes, up to 8 MiB per request. After a jump, about as
many bytes are requested as the last objects took, so a random look-up is usually one request.
"""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from io_ark.errors import ArkError, MissingFileError, NetworkRefusedError, OpenError, WriteError
from io_ark.extras import missing
from io_ark.streams.process import current_process
from io_ark.streams.source import FileSource

__all__ = ["NO_NETWORK_VARIABLE", "RemoteFile", "Upload", "is_url", "refuse_network"]

Result = TypeVar("Result")

NO_NETWORK_VARIABLE = "IO_ARK_NO_NETWORK"

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_SMALLEST, _LARGEST = 1 << 14, 1 << 23
# Seconds to wait before each new attempt; about as much again is added at random, so that workers do not retry at once.
_BACK_OFF = (0.1, 0.3, 1.0, 3.0)
_SECONDS = 60  # to wait for an answer
# Statuses of HTTP that may be temporary. Other client errors (400 to 499) are final.
_TEMPORARY = (408, 425, 429)


def is_url(path: str) -> bool:
    """Return True for a URL, and False for the path of a local file.

    >>> is_url("s3://bucket/feats.ark"), is_url("exp/feats.ark")
    (True, False)
    """
    return _URL.match(path) is not None


def refuse_network(url: str, network: bool) -> None:
    """Raise :class:`NetworkRefusedError` if the network is disabled, by the argument or by the environment."""
    if not network or os.environ.get(NO_NETWORK_VARIABLE, "") not in ("", "0"):
        why = f"{NO_NETWORK_VARIABLE} is set in the environment" if network else "it is disabled (network=False)"
        raise NetworkRefusedError(f"the network is not used: {why}", file=url)


class _Connection:
    """The file system of a URL. A forked process makes its own: sockets cannot be shared."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._opened: tuple[object, Any, str] | None = None

    def __call__(self) -> tuple[Any, str]:
        process = current_process()
        if self._opened is None or self._opened[0] is not process:
            self._opened = process, *_file_system(self.url)
        return self._opened[1], self._opened[2]

    def __reduce__(self) -> tuple[Any, ...]:
        return _Connection, (self.url,)


def _file_system(url: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise OpenError(f"{missing('fsspec', 'URLs')}, or use a pipe such as 'curl -s URL |'",
                        file=url) from None  # fmt: skip
    try:
        system, path = url_to_fs(url, **_options(url))
    except (ImportError, ValueError) as error:
        raise OpenError(f"cannot be opened: {error}", file=url) from error
    return system, path


def _options(url: str) -> dict[str, Any]:
    """Return options of the file system: for HTTP, a limit to the time without an answer."""
    from fsspec.config import conf

    protocol = url.partition(":")[0]
    if protocol not in ("http", "https") or "client_kwargs" in conf.get(protocol, {}):
        return {}
    from aiohttp import ClientTimeout

    return {"client_kwargs": {"timeout": ClientTimeout(total=None, sock_connect=_SECONDS, sock_read=_SECONDS)}}


class RemoteFile:
    """A file at a URL, read by ranges of bytes. May be shared by threads, forked processes, and pickled.

    Args:
        url: the URL.

    Attributes:
        path: the URL.
        regular: True: it has offsets.
        size: size of the file in bytes.
    """

    regular = True

    def __init__(self, url: str) -> None:
        self.path = url
        self._connection = _Connection(url)
        self.size = self._size()
        self._span = 0, b""  # bytes that have been read ahead, and their offset
        self._ahead = _SMALLEST
        self._typical = _SMALLEST  # bytes that were read between two jumps
        self._run = 0  # where reading in order began

    def _size(self) -> int:
        def ask(system: Any, path: str) -> Any:
            return system.info(path).get("size")

        size = self._attempt(ask)
        if not isinstance(size, int):
            raise OpenError("the server does not tell the size of the file, so it has no offsets: use a pipe such as "
                            "'curl -s URL |'", file=self.path)  # fmt: skip
        return size

    def source(self, offset: int, *, ahead: bool = True) -> RemoteSource:
        """Return the bytes of the file from an offset on.

        Raises:
            OpenError: the offset is beyond the end, or the bytes cannot be read.
        """
        if offset > self.size:
            raise OpenError(f"the offset is beyond the end: the file has {self.size} bytes",
                            file=self.path, offset=offset)  # fmt: skip
        return RemoteSource(self, offset, ahead)

    def read(self, count: int, offset: int) -> bytes:
        """Read up to ``count`` bytes; fewer only at the end of the file.

        Raises:
            OpenError: the bytes cannot be read.
        """
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
            data: bytes = system.cat_file(path, start=start, end=stop)
            if len(data) > stop - start:
                raise OpenError("the server ignores ranges of bytes and sends whole files: copy the file, or use a "
                                "pipe such as 'curl -s URL |'", file=self.path)  # fmt: skip
            if len(data) < stop - start:
                raise ConnectionError(f"{len(data)} of {stop - start} bytes arrived")
            return data

        return self._attempt(get, start)

    def _attempt(self, work: Callable[[Any, str], Result], offset: int | None = None) -> Result:
        """Call a function with the file system and the path, and try again after temporary errors."""
        for seconds in (*_BACK_OFF, None):
            system, path = self._connection()
            try:
                return work(system, path)
            except ArkError:
                raise
            except FileNotFoundError as error:
                raise MissingFileError("cannot be opened: there is no such file", file=self.path) from error
            except Exception as error:  # each library of a protocol has errors of its own
                if seconds is None or _is_final(error):
                    tried = "" if seconds is not None else f" ({len(_BACK_OFF) + 1} attempts)"
                    raise OpenError(
                        f"cannot be read: {_reason(error)}{tried}", file=self.path, offset=offset
                    ) from error
            time.sleep(seconds * (1 + random.random()))
        raise AssertionError("unreachable")

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteFile, (self.path,)


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


class Upload:
    """A file at a URL while it is written. It appears there when it is closed."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._process = current_process()
        system, path = _Connection(url)()
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
