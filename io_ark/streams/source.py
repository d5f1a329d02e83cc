"""Sources of bytes, from which codecs read objects.

A :class:`Source` knows its name and the offset of the next byte, so that every error can name both. A size in a header
is checked against the number of available bytes before memory is allocated. For a pipe, whose length is unknown,
memory grows only as bytes arrive.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from io_ark.errors import ArkError, FormatError, OpenError, TruncatedError
from io_ark.streams.system import pread, preadv, wait_for_bytes
from io_ark.text import format_count

HEADER_WINDOW = 512  # Bytes to read after a jump if a large array, which is read separately, is likely.
SMALL_WINDOW = 4096  # Bytes to read first if small objects are likely.
LARGE_WINDOW = 1 << 18  # Maximum bytes of a read while text or many small objects are read in order.
# Bytes after a large array that the same call reads. They usually hold the key and header of the next array, which
# saves a call.
TAIL_BYTES = 128
# Minimum bytes of a read while compressed arrays follow each other. This many bytes fit into a processor cache.
SUCCESSIVE_READ_BYTES = 1 << 19
# Bytes of the first chunk of a large object in a stream of unknown length. Each further chunk doubles the memory, so
# that a wrong size in a header takes little memory.
FIRST_CHUNK = 1 << 20
# In practice, only an endless stream such as /dev/zero, or a binary file that is read as text, exceeds these limits.
MAX_WORD_BYTES = 1 << 24  # Maximum bytes of a word, such as a key.
MAX_LINE_BYTES = 1 << 26  # Maximum bytes of a line of a text file.


class RawInput(Protocol):
    """Protocol of streams, such as an unbuffered binary file, a pipe, or the file of a socket."""

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Read into the buffer with one system call, and return the number of bytes, or 0 at the end."""


@lru_cache(maxsize=64)
def _compile_stops(stops: bytes) -> re.Pattern[bytes]:
    return re.compile(b"[" + re.escape(stops) + b"]")


_SPACE = b" \t\n\v\f\r"
_NOT_SPACE = re.compile(rb"[^ \t\n\v\f\r]")
_TOKEN = re.compile(rb"[ \t\n\v\f\r]*([^ \t\n\v\f\r]+)(?=[ \t\n\v\f\r])")


class Source:
    """Base class of sources, from which codecs read bytes. Subclasses fill a window that moves over the bytes.

    Attributes:
        name: name for error messages.
        max_copied_bytes: maximum bytes of an array that codecs copy from the window. Larger arrays are read directly.
    """

    max_copied_bytes = SMALL_WINDOW

    def __init__(self, name: str) -> None:
        self.name = name
        self._window: Any = b""  # The bytes from offset _base on, as bytes, memoryview or mmap.
        self._at = 0  # Position of the next byte in the window.
        self._end = 0  # Length of the window in bytes.
        self._base = 0  # Offset of the window's first byte in the source.

    def tell(self) -> int:
        """Return the offset of the next byte from the start of the source."""
        return self._base + self._at

    def fail(self, message: str, offset: int | None = None) -> NoReturn:
        """Raise a :class:`FormatError` with the name of this source and an offset (default: the next byte)."""
        raise FormatError(message, file=self.name, offset=self.tell() if offset is None else offset)

    def count_remaining(self) -> int | None:
        """Return the number of bytes left at this moment, or None if it is unknown, as for a pipe."""
        return None

    def has_bytes(self, count: int) -> bool:
        """Return True if ``count`` more bytes are certainly available. The answer for a pipe is always False."""
        remaining = self.count_remaining()
        return remaining is not None and remaining >= count

    def peek(self, count: int) -> bytes:
        """Return the next ``count`` bytes without consuming them, or fewer bytes at the end of the source."""
        if self._end - self._at < count:
            self._fill(count)
        return bytes(self._window[self._at : self._at + count])

    def peek_buffered(self, limit: int) -> bytes:
        """Return up to ``limit`` buffered bytes without consuming them or waiting for more."""
        return bytes(self._window[self._at : min(self._at + limit, self._end)])

    def get_window(self, count: int) -> tuple[Any, int, int]:
        """Return the window, and the positions in it of the first unread byte and of its end.

        The positions are equal only at the end of the source. A regular file is read ahead by about ``count`` bytes. A
        stream waits for one byte only.
        """
        if self._at == self._end:
            self._fill(1)
        return self._window, self._at, self._end

    def move_back(self, count: int) -> None:
        """Move back by ``count`` bytes. Raise ValueError if they are no longer in the window."""
        if not 0 <= count <= self._at:
            raise ValueError(f"{count} bytes are no longer in memory")
        self._at -= count

    def read(self, count: int) -> bytes | memoryview:
        """Read exactly ``count`` bytes. The result may be a view of the bytes in memory.

        Raise TruncatedError if fewer bytes are available, and FormatError if ``count`` is negative.
        """
        at = self._at
        if self._end - at >= count >= 0:
            self._at = at + count
            return self._window[at : self._at]  # type: ignore[no-any-return]
        return self.read_array(np.uint8, count).data

    def take(self, count: int) -> tuple[Any, int]:
        """Consume ``count`` bytes without copying them out of the window.

        Return a buffer that contains the bytes, and their position in the buffer. For the errors, see :meth:`read`.
        """
        at = self._at
        if self._end - at >= count >= 0:
            self._at = at + count
            return self._window, at
        return self.read_array(np.uint8, count), 0

    def read_array(self, dtype: npt.DTypeLike, count: int) -> npt.NDArray[Any]:
        """Read ``count`` elements of type ``dtype``. The array is writable unless the source is a buffer in memory.

        Raises:
            FormatError: ``count`` is negative.
            TruncatedError: fewer bytes are available. If the length of the source is known, this is checked before
                memory is allocated.
        """
        element_type = np.dtype(dtype)
        size = count * element_type.itemsize
        buffered = self._end - self._at
        if 0 <= size <= buffered:
            at, self._at = self._at, self._at + size
            return np.frombuffer(self._window, element_type, count, at).copy() if count else np.empty(0, element_type)
        self.check_available(size)
        if self.count_remaining() is None and size > buffered + FIRST_CHUNK:
            return np.frombuffer(self._read_chunks(size), element_type)  # The view of a bytearray is writable.
        array = np.empty(count, element_type)
        target = array.view(np.uint8).data
        target[:buffered] = memoryview(self._window)[self._at : self._end]
        self._at = self._end
        self._read_past_window(target[buffered:], size)
        return array

    def skip(self, count: int) -> None:
        """Skip ``count`` bytes. For the errors, see :meth:`read`."""
        if 0 <= count <= self._end - self._at:
            self._at += count
            return
        self.check_available(count)
        skipped = 0
        while skipped < count:
            if self._at == self._end and not self._fill(1):
                self._raise_truncated(count, skipped)
            step = min(count - skipped, self._end - self._at)
            self._at += step
            skipped += step

    def read_rest(self, limit: int = sys.maxsize) -> bytes:
        """Read all bytes up to the end of the source. Raise FormatError if more than ``limit`` bytes follow."""
        pieces, size = [], 0
        while self._at < self._end or self._fill(1):
            pieces.append(bytes(self._window[self._at : self._end]))
            size += len(pieces[-1])
            self._at = self._end
            if size > limit:
                self.fail(f"more than {limit >> 20} MiB follow: check that the input is not an endless device or pipe")
        return b"".join(pieces)

    def read_some(self, limit: int) -> bytes:
        """Read up to ``limit`` bytes. Wait for one byte, but not for more bytes. Return b"" at the end."""
        if self._at == self._end:
            self._fill(1)
        at = self._at
        self._at = min(at + limit, self._end)
        return bytes(self._window[at : self._at])

    def read_text(self) -> bytes:
        """Read all bytes up to the end of a text file.

        Raise FormatError if the source has no line break in 64 MiB, like an endless device.
        """
        pieces, unbroken = [], 0
        while piece := self.read_some(LARGE_WINDOW):
            pieces.append(piece)
            unbroken = 0 if b"\n" in piece else unbroken + len(piece)
            self._check_line_length(unbroken)
        return b"".join(pieces)

    def _check_line_length(self, length: int) -> None:
        """Raise FormatError if a line, or its part so far, has more than 64 MiB."""
        if length > MAX_LINE_BYTES:
            self.fail(f"no line break in {MAX_LINE_BYTES >> 20} MiB: check that the file is a text file")

    def read_lines(self) -> Iterator[bytes]:
        r"""Yield the lines up to the end of the source, without ``\n``. A line is yielded as soon as it arrives."""
        return chain.from_iterable(self.read_line_lists())

    def read_line_lists(self) -> Iterator[list[bytes]]:
        """Yield the lines of :meth:`read_lines` in lists of lines that arrive together.

        Raise FormatError if no line break follows in about 64 MiB.
        """
        unfinished: list[bytes] = []  # Parts of a line whose end has not arrived.
        while piece := self.read_some(LARGE_WINDOW):
            first, newline, remainder = piece.partition(b"\n")
            unfinished.append(first)
            if newline:
                *lines, last = remainder.split(b"\n")
                yield [b"".join(unfinished), *lines]
                unfinished = [last]
            elif len(unfinished) * LARGE_WINDOW > MAX_LINE_BYTES:
                self._check_line_length(sum(map(len, unfinished)))
        if any(unfinished):
            yield [b"".join(unfinished)]

    def read_line(self) -> bytes:
        r"""Read the bytes before the next ``\n``, or before the end of the source, and skip the ``\n``."""
        line = self.read_until(b"\n")
        if self._at < self._end:
            self._at += 1
        return line

    def read_until(self, stops: bytes, limit: int = sys.maxsize) -> bytes:
        """Read the bytes before the first byte that occurs in ``stops``, or before the end of the source.

        Raise FormatError if no stop byte follows in ``limit`` bytes. The limit is checked only between windows, so a
        later stop byte in the same window is accepted.
        """
        pieces: list[bytes] = []
        begin = self.tell()
        while True:
            stop = self._find(stops)
            piece = bytes(self._window[self._at : stop])
            self._at = stop
            if stop < self._end:
                break
            pieces.append(piece)
            if self.tell() - begin > limit:
                self.fail(f"no white space or line break in {limit >> 20} MiB: check that the file is a table", begin)
            if not self._fill(1):
                return b"".join(pieces)
        return b"".join((*pieces, piece)) if pieces else piece

    def skip_space(self) -> None:
        """Skip white space, as defined by C's ``isspace``."""
        while True:
            match = _NOT_SPACE.search(self._window, self._at, self._end)
            self._at = match.start() if match else self._end
            if match or not self._fill(1):
                return

    def read_token(self) -> bytes:
        """Skip white space and read the bytes before the next white space. Return b"" at the end of the source.

        Raise FormatError if neither white space nor the end follows in about ``MAX_WORD_BYTES`` bytes.
        """
        if self.at_end():
            return b""
        if token := self.match(_TOKEN):
            return token[1]
        self.skip_space()
        return self.read_until(_SPACE, MAX_WORD_BYTES)

    def match(self, pattern: re.Pattern[bytes]) -> re.Match[bytes] | None:
        """Consume the bytes that ``pattern`` matches at the current position, and return the match.

        Return None if the unread bytes of the window do not match, even if more bytes would.
        """
        match = pattern.match(self._window, self._at, self._end)
        if match:
            self._at = match.end()
        return match

    def at_end(self) -> bool:
        """Return True if all bytes have been read."""
        return self._at == self._end and not self._fill(1)

    def _find(self, stops: bytes) -> int:
        """Return the position of the first stop byte in the window, or the window's end."""
        if len(stops) == 1 and type(self._window) is bytes:
            position: int = self._window.find(stops, self._at)
            return position if position >= 0 else self._end
        match = _compile_stops(stops).search(self._window, self._at, self._end)
        return match.start() if match else self._end

    def check_available(self, count: int) -> None:
        """Raise TruncatedError if fewer than ``count`` more bytes are available, or FormatError if ``count`` < 0.

        Nothing is read. A source of unknown length does not raise TruncatedError.
        """
        if count < 0:
            self.fail(f"invalid size: {count} bytes; the file is damaged, or has another kind of object")
        remaining = self.count_remaining()
        if remaining is not None and count > remaining:
            self._raise_truncated(count, remaining)

    def _raise_truncated(self, size: int, available: int, offset: int | None = None) -> NoReturn:
        """Raise TruncatedError, because only ``available`` of ``size`` bytes can be read at ``offset``.

        If ``offset`` is None, the error names the offset of the next byte.
        """
        raise TruncatedError(f"ends too early: expected {format_count(size, 'more byte')}, but only {available} "
                             f"{'is' if available == 1 else 'are'} available", file=self.name,
                             offset=self.tell() if offset is None else offset)  # fmt: skip

    def _fill(self, count: int) -> bool:
        """Fill the window with ``count`` or more unread bytes, or fewer at the end. Return False if no byte is left."""
        return self._at < self._end  # The window of this class already has all bytes.

    def _read_past_window(self, target: memoryview, size: int) -> None:
        """Fill ``target`` with the bytes after the window. Errors contain ``size``, the size of the object in bytes."""
        self._raise_truncated(size, size - len(target))  # The window of this class already has all bytes.

    def _read_chunks(self, size: int) -> bytearray:
        """Read ``size`` bytes of a stream that may end earlier. Memory grows only as bytes arrive."""
        data = bytearray()
        chunk_size = FIRST_CHUNK
        while len(data) < size:
            step = min(chunk_size, size - len(data))
            try:
                data += self.read_array(np.uint8, step).data
            except TruncatedError:
                self._raise_truncated(size, len(data))
            chunk_size = max(FIRST_CHUNK, len(data))
        return data


class BytesSource(Source):
    """Source of bytes in memory: ``bytes``, a memory map, or the buffer of an array. Arrays are read as views.

    Args:
        buffer: object with the buffer protocol that contains the bytes.
        offset: offset of the first byte to read. Raise OpenError if it is outside the buffer.
        name: name for error messages.
    """

    max_copied_bytes = 0

    def __init__(self, buffer: Any, offset: int = 0, name: str = "<bytes>") -> None:
        super().__init__(name)
        self._window = buffer if isinstance(buffer, bytes) else memoryview(buffer).cast("B")
        self._at = offset
        self._end = len(self._window)
        if not 0 <= offset <= self._end:
            self._at = self._end
            raise OpenError(f"the offset {offset} is outside the {self._end} bytes: correct the offset", file=name)

    def count_remaining(self) -> int:
        return self._end - self._at

    def read_array(self, dtype: npt.DTypeLike, count: int) -> npt.NDArray[Any]:
        element_type = np.dtype(dtype)
        size = count * element_type.itemsize
        self.check_available(size)
        at = self._at
        self._at = at + size
        return np.frombuffer(self._window, element_type, count, at) if count else np.empty(0, element_type)


class MapSource(BytesSource):
    """Source of a file that is mapped into memory and may grow. Its arrays are read-only views of the map.

    Args:
        buffer, offset, name: memory map of the file, and arguments of :class:`BytesSource`.
        map_again: function that returns a map of the file at its present size.
    """

    def __init__(self, buffer: Any, offset: int, name: str, map_again: Callable[[], Any]) -> None:
        super().__init__(buffer, offset, name)
        self._map_again = map_again

    def count_remaining(self) -> int:
        """Map the file again, because its size may have changed, and return the number of bytes left."""
        self._window = memoryview(self._map_again())
        self._end = len(self._window)
        return self._end - self._at

    def check_available(self, count: int) -> None:
        if not 0 <= count <= self._end - self._at:
            super().check_available(count)  # The file may have grown.

    def _fill(self, count: int) -> bool:
        return self.count_remaining() > 0


class StreamSource(Source):
    """Source of the bytes of a stream, such as a pipe or standard input.

    Args:
        raw: object with the method ``readinto``, such as an unbuffered binary file.
        name: name for error messages.
    """

    def __init__(self, raw: RawInput, name: str = "<stream>") -> None:
        super().__init__(name)
        self._raw = raw
        self._window_bytes = SMALL_WINDOW  # Minimum bytes of the next window.

    def _readinto(self, target: memoryview, offset: int) -> int:
        """Read bytes of the stream into ``target``. Return the byte count, or 0 at the end. Errors name ``offset``."""
        try:
            return wait_for_bytes(self._raw.readinto, target)
        except ArkError:
            raise
        except Exception as error:  # Streams of callers may raise any error. gzip raises three types.
            raise OpenError(f"cannot be read: {error}", file=self.name, offset=offset) from error

    def _fill(self, count: int) -> bool:
        unread = bytes(self._window[self._at : self._end])
        self._base += self._at
        # The window grows while objects are small. A large object makes it small again (see _read_past_window),
        # because bytes that go through the window are copied twice.
        view = memoryview(bytearray(max(count, self._window_bytes)))
        self._window_bytes = min(2 * self._window_bytes, LARGE_WINDOW)
        filled = 0
        while len(unread) + filled < count or filled == 0:
            received = self._readinto(view[filled:], self._base + len(unread) + filled)
            if received == 0:
                break
            filled += received
        self._window = unread + view[:filled]
        self._at = 0
        self._end = len(self._window)
        return self._end > 0

    def _read_past_window(self, target: memoryview, size: int) -> None:
        self._base += self._end
        self._window = b""
        self._at = self._end = 0
        self._window_bytes = SMALL_WINDOW
        filled = 0
        while filled < len(target):
            received = self._readinto(target[filled:], self._base)
            if received == 0:
                self._raise_truncated(size, size - len(target) + filled)
            self._base += received
            filled += received


class FileSource(StreamSource):
    """Source of a regular file's bytes. It uses ``pread``, so that readers of the descriptor share no file position.

    Args:
        descriptor: descriptor of the open file.
        offset: offset of the first byte to read.
        size: size of the file in bytes.
        name: name for error messages.
        owner: object that closes the descriptor when it is deleted.
        ahead: True to read bytes after an object in the same call, for callers that read several objects in order.
    """

    _bytes_after_jump = HEADER_WINDOW  # Becomes SMALL_WINDOW once a small object needs more bytes.
    _window_bytes = 2 * SMALL_WINDOW
    _is_successive = False  # True while successive objects are read with `take`, which then reads more bytes at once.

    def __init__(
        self, descriptor: int, offset: int, size: int, name: str, owner: object = None, ahead: bool = True
    ) -> None:
        self.name = name
        self._owner = owner
        self._ahead = ahead
        self._descriptor = descriptor
        self._size = size
        self._base = offset
        self._at = 0
        self._window = window = self._pread(SMALL_WINDOW if ahead else HEADER_WINDOW, offset)
        self._end = len(window)

    def peek_buffered(self, limit: int) -> bytes:
        at = self._at
        return self._window[at : at + limit]  # type: ignore[no-any-return]

    def reach(self, offset: int) -> bool:
        """Seek to an offset and return True. Return False if the offset is beyond the known end of the file.

        The window is read again, unless this source reads ahead and the window contains the offset.
        """
        if self._ahead and 0 <= offset - self._base < self._end:
            self._at = offset - self._base
        elif offset > self._size:
            return False
        else:
            self._window = window = self._pread(SMALL_WINDOW if self._ahead else self._bytes_after_jump, offset)
            self._base = offset
            self._at = 0
            self._end = len(window)
            self._window_bytes = 2 * SMALL_WINDOW
            self._is_successive = False
        return True

    def read_at(self, size: int, offset: int) -> bytes:
        """Read ``size`` bytes at an offset of the file, and keep the position of this source.

        Raise TruncatedError if the file has fewer bytes after the offset.
        """
        data = self._pread(size, offset)
        if len(data) < size:
            self._raise_truncated(size, len(data), offset)
        return data

    def _pread(self, size: int, offset: int) -> bytes:
        """Read up to ``size`` bytes of the file from an offset on."""
        try:
            return pread(self._descriptor, size, offset)
        except OSError as error:
            raise OpenError(f"cannot be read: {error.strerror}", file=self.name, offset=offset) from error

    def count_remaining(self) -> int:
        self._size = os.fstat(self._descriptor).st_size
        return max(0, self._size - self._base - self._at)

    def has_bytes(self, count: int) -> bool:
        return count <= self._size - self._base - self._at or super().has_bytes(count)  # The file may have grown.

    def check_available(self, count: int) -> None:
        if not 0 <= count <= self._size - self._base - self._at:
            super().check_available(count)  # The file may have grown.

    def get_window(self, count: int) -> tuple[Any, int, int]:
        if self._end - self._at < count // 2:  # Filling the window after every read would be slow, so half is enough.
            self._fill(count)
        return self._window, self._at, self._end

    def skip(self, count: int) -> None:
        """Skip ``count`` bytes without reading them. For the errors, see :meth:`Source.read`."""
        if 0 <= count <= self._end - self._at:
            self._at += count
            return
        self.check_available(count)
        self._base = self.tell() + count
        self._window = b""
        self._at = self._end = 0
        self._window_bytes = SMALL_WINDOW

    def _fill(self, count: int) -> bool:
        start = self._base + self._at
        window: bytes = self._window[self._at : self._end]
        size = max(count, min(self._window_bytes, self._size - start), SMALL_WINDOW)
        self._window_bytes = min(2 * self._window_bytes, LARGE_WINDOW)
        while len(window) < count:
            data = self._pread(size - len(window), start + len(window))
            if not data:
                break
            window = window + data if window else data
        self._window = window
        self._base = start
        self._at = 0
        self._end = len(window)
        return self._end > 0

    def take(self, count: int) -> tuple[Any, int]:
        """Consume ``count`` bytes. If the window lacks them, read a new window, which is larger in successive calls."""
        at = self._at
        if not 0 <= count <= self._end - at:
            # The part in the window is read again, which is faster than joining two parts.
            start = self._base + at
            if not 0 <= count <= self._size - start:
                self.check_available(count)
            if count <= SMALL_WINDOW:
                self._bytes_after_jump = SMALL_WINDOW
            size = count + TAIL_BYTES if self._ahead else count
            if self._is_successive and size < SUCCESSIVE_READ_BYTES:
                size = SUCCESSIVE_READ_BYTES
            window = self._pread(min(size, self._size - start), start)
            if len(window) < count:
                return super().take(count)
            self._window = window
            self._base = start
            self._end = len(window)
            self._window_bytes = SMALL_WINDOW
            self._is_successive = self._ahead
            at = 0
        self._at = at + count
        return self._window, at

    def read_array(self, dtype: npt.DTypeLike, count: int) -> npt.NDArray[Any]:
        element_type = np.dtype(dtype)
        size = count * element_type.itemsize
        if 0 <= size <= self._end - self._at:
            return super().read_array(element_type, count)
        # The part in the window is read again, which is faster than joining two parts.
        start = self._base + self._at
        if not 0 <= size <= self._size - start:
            self.check_available(size)
        if size < SMALL_WINDOW:
            self._bytes_after_jump = SMALL_WINDOW
        array = np.empty(count, element_type)
        # The same call reads TAIL_BYTES after the array, which usually hold the next key and header.
        tail = bytearray(TAIL_BYTES) if self._ahead else b""
        targets = (array, tail) if self._ahead else (array,)
        filled = self._preadv(targets, start)
        while filled < size:
            received = self._preadv((array.view(np.uint8)[filled:], *targets[1:]), start + filled)
            if received == 0:
                self._raise_truncated(size, filled)
            filled += received
        self._base = start + size
        self._window = window = bytes(tail if filled - size == len(tail) else tail[: filled - size])
        self._at = 0
        self._end = len(window)
        self._window_bytes = SMALL_WINDOW
        return array

    def _preadv(self, targets: Sequence[Any], offset: int) -> int:
        """Fill buffers with the bytes of the file from an offset on, and return the number of bytes read."""
        try:
            return preadv(self._descriptor, targets, offset)
        except OSError as error:
            raise OpenError(f"cannot be read: {error.strerror}", file=self.name, offset=offset) from error
