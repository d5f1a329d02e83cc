"""Read tables: from the bytes of an archive, or the places that a script file names, to blocks.

There are two ways to read. A scan reads many small objects in one call of C. The codec reads one object after the
other: large ones, those that no scan knows, and all that cannot be read, because all errors come from there. A block
holds only what has arrived: entries that come through a pipe are handed out without waiting for more.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from io_ark.blocks import BLOCK_BYTES, MAX_ENTRIES, Block
from io_ark.codecs import Codec
from io_ark.codecs.scan import Scanned, Window, in_c
from io_ark.errors import ArkError
from io_ark.native import NATIVE
from io_ark.streams.files import OpenFiles
from io_ark.streams.foreign import refuse_foreign_file
from io_ark.streams.source import FileSource, Source
from io_ark.tables.keys import read_key
from io_ark.tables.loader import LONGEST_OFFSET, name_key

# A block, or an entry that was read alone: its key and value.
Item = Block | tuple[str, Any]

# Bytes of a block whose entries are handed out one by one: an array that a user keeps holds the memory of its block.
ENTRY_BYTES = 1 << 16
# Bytes of an object that is read together with others, at most; a larger one is read without a copy.
_LARGEST = {BLOCK_BYTES: BLOCK_BYTES // 2, ENTRY_BYTES: ENTRY_BYTES // 4}
# Maximum number of objects read one by one after some that could not be read together.
_LONGEST_PAUSE = 64
# Objects read one by one after a large one.
_AFTER_LARGE = 4
# Names of files that have no other meaning, such as a command or an offset.
_PLAIN_NAME = re.compile(rb"[\w./+@%,=][\w./+@%,=-]*", re.ASCII)
_IN_PLAIN_NAMES = bytes(_PLAIN_NAME.fullmatch(b"a%c" % byte) is not None for byte in range(256))
# Files that are read by one call of C.
_TOGETHER = 128


@dataclass
class _Pause:
    """Counts objects to be read one by one, which are more after each attempt to read some together in vain."""

    left: int = 0  # Number of objects to be read one by one.
    _next: int = 1  # The same after the next attempt in vain.

    def after(self, found: Scanned | None) -> None:
        """Count the result of an attempt."""
        if found is None:
            self.left = self._next
            self._next = min(8 * self._next, _LONGEST_PAUSE)
        else:
            self._next = 1


def read_entries(source: Source, codec: Codec[Any]) -> Generator[tuple[str, Any], None, None]:
    """Yield the keys and values of an archive from the next byte to its end (see :func:`read_archive`)."""
    return cast(Generator[tuple[str, Any], None, None], read_archive(source, codec, lambda: False))


def read_archive(source: Source, codec: Codec[Any], in_blocks: Callable[[], bool]) -> Generator[Item, None, None]:
    """Yield the entries of an archive from the next byte to its end.

    Args:
        source: the archive.
        codec: codec of the objects of the archive.
        in_blocks: asked before each block: True for blocks, and keys and values only of objects that are read alone;
            False for keys and values only. When the generator is then closed, the source is after the last entry that
            it yielded.

    Raises:
        ArkError: an entry cannot be read; those before it have been yielded.
    """
    refuse_foreign_file(source, "ark")
    if not source.tell() and codec.starts_object(source):
        source.fail("is a single object, not an archive: io_ark.load reads it, or a file name without 'ark:'")
    scan = in_c(codec.scan)
    # The first entry is read alone: if it is large, nothing is read ahead.
    pause = _Pause(int(scan is not None and not scan.of_any_size))
    while True:
        if scan is not None and pause.left == 0:
            window = _window(source, _size(in_blocks))
            if window.begin == window.end:
                return
            found = scan.entries(window)
            pause.after(found)
            if found is not None:
                source.skip(found.size)
                if in_blocks():
                    yield found.block
                else:
                    yield from _each(found, source, codec)
                del found
                continue
        key = read_key(source)
        if key is None:
            return
        start = source.tell() if pause.left == 1 else -1
        try:
            yield key, codec.read(source)  # no variable here keeps the value in memory
        except ArkError as error:
            raise name_key(error, key) from error.__cause__
        if scan is not None:
            pause.left -= 1
            if start >= 0 and not scan.of_any_size and source.tell() - start > _LARGEST[_size(in_blocks)]:
                pause.left = _AFTER_LARGE  # others are likely, and large objects are not read ahead


def _size(in_blocks: Callable[[], bool]) -> int:
    return BLOCK_BYTES if in_blocks() else ENTRY_BYTES


def _window(source: Source, size: int) -> Window:
    data, begin, end = source.buffered(size)
    return Window(data, begin, min(end, begin + size), _LARGEST[size])


def _each(found: Scanned, source: Source, codec: Codec[Any]) -> Generator[tuple[str, Any], None, None]:
    """Yield a block's entries. On closing, the source moves back from the block's end to the first unused entry."""
    taken = 0
    try:
        for entry in found.block.entries():
            taken += 1
            yield entry
    finally:
        if taken < len(found.block):
            source.unread(found.size)
            for _ in range(taken):
                read_key(source)
                codec.read(source)


class FileMemory:
    """Memory that files are read to, one after the other.

    Attributes:
        size: bytes for files that are read together; a larger one is alone.
        lead, alignment: each file starts ``lead`` bytes before a multiple of ``alignment``.
    """

    size = 2 * BLOCK_BYTES
    lead, alignment = 0, 64

    def allocate(self, size: int) -> npt.NDArray[np.uint8]:
        """Return memory of at least this many bytes."""
        return np.empty(size, np.uint8)


class BlockLoader:
    """Loads the objects of lines of a script file together: objects close to each other in one file, or small files.

    Args:
        codec: codec of the objects.
        files: cache of open files.
        largest: bytes of an object that is a file of its own, at most; larger ones are left to the codec.
        memory: where objects that are files of their own are read to.
    """

    def __init__(
        self, codec: Codec[Any], files: OpenFiles, largest: int = sys.maxsize, memory: FileMemory | None = None
    ) -> None:
        scan = in_c(codec.scan)
        self._scan = scan if scan is not None and scan.reads_places else None
        self._files = files
        self._largest = largest
        self._memory = FileMemory() if memory is None else memory
        self._source: FileSource | None = None
        self._path = b""
        self._pause = _Pause()

    def load(self, lines: list[bytes], first: int, size: int = BLOCK_BYTES) -> Block | None:
        """Return a block of the objects of lines from ``first`` on, as many as can be read together; None if none can.

        Errors are left to the codec.

        Args:
            lines: the lines.
            first: index of the first one.
            size: bytes of the block at most, if they are objects in one file.
        """
        if self._scan is None:
            return None
        if self._pause.left:
            self._pause.left -= 1
            return None
        found = None
        rest = lines[first].partition(b" ")[2]
        path, colon, offset = rest.rpartition(b":")
        if colon and offset.isdigit() and _PLAIN_NAME.fullmatch(path):
            found = self._load_places(path, *places(lines, first, path + b":", size), size)
        elif self._scan.file_bytes and _PLAIN_NAME.fullmatch(rest):
            found = self._load_files(lines, first)
        self._pause.after(found)
        return None if found is None else found.block

    def _load_places(self, path: bytes, keys: list[bytes], offsets: list[int], size: int) -> Scanned | None:
        # Large objects, and some in another order than in the file, are left to the codec before any byte is read.
        if len(keys) < 2 or offsets[1] - offsets[0] > 2 * _LARGEST[size] or self._scan is None:
            return None
        with suppress(ArkError):  # which is raised when the first of the lines is read alone
            source = self._reach(path, offsets[0])
            if source is not None:
                return self._scan.objects(_window(source, size), keys, [each - offsets[0] for each in offsets])
        return None

    def _reach(self, path: bytes, offset: int) -> FileSource | None:
        """Return a regular file from an offset on."""
        if self._source is None or self._path != path or not self._source.reach(offset):
            self._source = None
            name = os.fsdecode(path)
            if _size_of_regular(name) < 0:
                return None
            source = self._files.get(name).source(offset, ahead=True)
            self._source, self._path = source if isinstance(source, FileSource) else None, path
        return self._source

    def _load_files(self, lines: list[bytes], first: int) -> Scanned | None:
        """Read files to one array: as many as fit, or one that is larger."""
        assert self._scan is not None
        memory, wanted = self._memory, self._scan.file_bytes
        size = _size_of_regular(os.fsdecode(lines[first].partition(b" ")[2]))
        if not 0 <= size <= self._largest:
            return None
        contents = memory.allocate(max(memory.size, memory.alignment + min(size, wanted)))
        keys, places, end = list[bytes](), list[list[int]](), np.zeros(1, np.int64)
        found = np.empty((_TOGETHER, 2), np.int64)
        for begin in range(first, min(first + MAX_ENTRIES, len(lines)), _TOGETHER):
            some = lines[begin : begin + _TOGETHER]
            joined = b"\0".join(some)
            if joined.count(b"\0") >= len(some):  # one has a zero itself
                break
            count = NATIVE.function("ark_read_files")(
                joined, len(some), _IN_PLAIN_NAMES, wanted, self._largest, memory.lead, memory.alignment,
                contents, len(contents), found, end,
            )  # fmt: skip
            keys += [line.partition(b" ")[0] for line in some[:count]]
            places += found[:count].tolist()
            if count < len(some):
                break
        if not keys or not _without_white_space(keys):
            return None
        starts, ends = map(list, zip(*places, strict=True))
        return self._scan.objects(Window(contents, 0, int(end[0]), int(end[0])), keys, starts, ends)


def _size_of_regular(path: str) -> int:
    """Return the bytes of a regular file; -1 if there is none."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return -1
    return status.st_size if stat.S_ISREG(status.st_mode) else -1


def _without_white_space(keys: list[bytes]) -> bool:
    return len(b"\n".join(keys).split()) == len(keys)


def places(lines: list[bytes], first: int, prefix: bytes, size: int) -> tuple[list[bytes], list[int]]:
    """Return the keys and offsets of lines from ``first`` on that name ascending places of one file."""
    keys: list[bytes] = []
    offsets: list[int] = []
    start = len(prefix)
    least = most = -1
    for line in lines[first : first + MAX_ENTRIES]:
        key, _, rest = line.partition(b" ")
        digits = rest[start:]
        if not rest.startswith(prefix) or not digits.isdigit() or len(digits) >= LONGEST_OFFSET:
            break
        offset = int(digits)
        if not keys:
            most = offset + size
        elif not least < offset < most:
            break
        least = offset
        keys.append(key)
        offsets.append(offset)
    return (keys, offsets) if _without_white_space(keys) else ([], [])
