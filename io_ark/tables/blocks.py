"""Read the entries of tables in blocks: many small ones at a time, large ones alone.

A block holds only what has arrived: entries that come through a pipe are handed out without waiting for more.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Generator
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.blocks import ObjectBlock
from io_ark.blocks.base import join_keys
from io_ark.codecs import Codec
from io_ark.codecs.blocks import BLOCK_BYTES, MAX_ENTRIES, ArrayBlock, Block, BlockScanner, ScannedBlock
from io_ark.errors import ArkError
from io_ark.native.scan import Scanner
from io_ark.streams.files import OpenFiles
from io_ark.streams.source import FileSource, Source
from io_ark.streams.system import OPEN_FLAGS
from io_ark.tables.entries import read_entry

__all__ = ["BlockLoader", "FileMemory", "as_block", "read_blocks"]

Item = Block | tuple[str, Any]

# Maximum number of entries or lines read one by one after some that could not be read together.
_LONGEST_PAUSE = 64
_LARGE = BLOCK_BYTES // 2
# Digits of an offset; parse_rxfilename refuses longer ones.
_LONGEST_OFFSET = 19
# Names of files that have no other meaning, such as a command or an offset.
_PLAIN_NAME = re.compile(rb"[\w./+@%,=][\w./+@%,=-]*", re.ASCII)
_ALIGNMENT = 64
_FILES_BYTES = 2 * BLOCK_BYTES


def as_block(key: str, value: Any) -> Block | None:
    """Return the block of one entry; None if its value is not an array of float32 or float64 with elements."""
    if type(value) is np.ndarray and value.dtype.kind == "f" and 0 < value.ndim <= 2 and value.size:
        return ArrayBlock.of([key], [value])
    return None


def read_blocks(source: Source, codec: Codec[Any]) -> Generator[Item, None, None]:
    """Yield blocks of entries of an archive, or single entries where a block cannot be read, from the next byte on.

    Raises:
        ArkError: an entry cannot be read; those before it have been yielded.
    """
    scanner = codec.block_scanner() or _ListScanner.of(codec)
    # The first entry is read alone: if it is large, nothing is read ahead.
    pause, longer_pause = 1, 0
    while True:
        if scanner is not None and pause == 0:
            window, begin, end = source.buffered(BLOCK_BYTES)
            found = scanner.entries(window, begin, end)
            if found is not None:
                del window  # a source that is memory cannot be closed while its window is in use
                source.skip(found.end)
                yield found.block
                longer_pause = 0
                continue
            longer_pause = min(2 * longer_pause + 1, _LONGEST_PAUSE)
            pause = longer_pause
        start = source.tell()
        entry = read_entry(source, codec)
        if entry is None:
            return
        yield entry
        del entry
        # After a large object another one is likely, and large objects are not read ahead.
        pause = max(pause - 1, int(source.tell() - start > _LARGE))


class _ListScanner:
    """Reads blocks of objects that are not arrays."""

    reads_files, reads_places = False, True

    def __init__(self, scanner: Scanner) -> None:
        self._scanner = scanner

    @classmethod
    def of(cls, codec: Codec[Any]) -> _ListScanner | None:
        """Return a scanner; None if there is none for a kind of object."""
        scanner = codec.scanner()
        return None if scanner is None else cls(scanner)

    def entries(self, window: Any, begin: int, end: int) -> ScannedBlock | None:
        found = self._scanner.scan(window, begin, end)
        if found is None:
            return None
        size = int(found.ends[-1])
        data = np.frombuffer(window, np.uint8, size, begin).copy()
        return ScannedBlock(
            ObjectBlock(found.keys, lambda: found.values_of(found), len(found.ends), data, found.ends), size
        )

    def objects(self, window: Any, begin: int, end: int, keys: list[bytes], places: list[int]) -> ScannedBlock | None:
        values = self._scanner.objects(window, begin, end, places)
        block = ObjectBlock(join_keys(keys[: len(values)]), lambda: values, len(values))
        return ScannedBlock(block, 0) if values else None


class FileMemory:
    """Memory that files are read to, one after the other."""

    def allocate(self, size: int) -> npt.NDArray[np.uint8]:
        """Return memory of at least this many bytes."""
        return np.empty(size, np.uint8)

    def place(self, end: int) -> int:
        """Return where a file is read to, after one that ends at ``end``."""
        return -(-end // _ALIGNMENT) * _ALIGNMENT


class BlockLoader:
    """Loads the objects of lines of a script file together: objects close to each other in one file, or small files.

    Args:
        codec: codec of the objects.
        files: cache of open files.
        largest: bytes of an object that is a file of its own, at most; larger ones are left to the usual way.
        memory: where objects that are files of their own are read to.
    """

    def __init__(
        self, codec: Codec[Any], files: OpenFiles, largest: int = sys.maxsize, memory: FileMemory | None = None
    ) -> None:
        self._scanner: BlockScanner | None = codec.block_scanner() or _ListScanner.of(codec)
        self._files = files
        self._largest = largest
        self._memory = FileMemory() if memory is None else memory
        self._source: FileSource | None = None
        self._path = b""
        self._pause = 0
        self._longer_pause = 0

    def load(self, lines: list[bytes], first: int) -> Block | None:
        """Return a block of the objects of lines from ``first`` on, as many as can be read together; None if none can.

        Errors are left to the usual way of reading.
        """
        if self._scanner is None or not self._scanner.reads_places:
            return None
        if self._pause:
            self._pause -= 1
            return None
        found = self._load(self._scanner, lines, first)
        if found is None:
            self._longer_pause = min(2 * self._longer_pause + 1, _LONGEST_PAUSE)
            self._pause = self._longer_pause
            return None
        self._longer_pause = 0
        block: Block = found.block
        return block

    def _load(self, scanner: BlockScanner, lines: list[bytes], first: int) -> ScannedBlock | None:
        rest = lines[first].partition(b" ")[2]
        path, colon, offset = rest.rpartition(b":")
        if colon and offset.isdigit() and _PLAIN_NAME.fullmatch(path):
            return self._load_places(scanner, path, *_places(lines, first, path + b":"))
        if scanner.reads_files and _PLAIN_NAME.fullmatch(rest):
            return self._load_files(scanner, lines, first)
        return None

    def _load_places(
        self, scanner: BlockScanner, path: bytes, keys: list[bytes], places: list[int]
    ) -> ScannedBlock | None:
        if not keys:
            return None
        with suppress(ArkError):  # which is raised when the first of the lines is read alone
            source = self._reach(path, places[0])
            if source is not None:
                window, begin, end = source.buffered(BLOCK_BYTES)
                return scanner.objects(window, begin, end, keys, [place - places[0] for place in places])
        return None

    def _reach(self, path: bytes, offset: int) -> FileSource | None:
        """Return a regular file from an offset on."""
        if self._source is None or self._path != path or not self._source.reach(offset):
            self._source = None
            name = os.fsdecode(path)
            if not stat.S_ISREG(_mode(name)):
                return None
            source = self._files.get(name).source(offset, ahead=True)
            self._source, self._path = source if isinstance(source, FileSource) else None, path
        return self._source

    def _load_files(self, scanner: BlockScanner, lines: list[bytes], first: int) -> ScannedBlock | None:
        files = _Files(self._largest, self._memory)
        for line in lines[first : first + MAX_ENTRIES]:
            key, _, path = line.partition(b" ")
            if not _PLAIN_NAME.fullmatch(path) or not files.add(key, path):
                break
        if not files.keys or not _without_white_space(files.keys):
            return None
        return scanner.objects(files.contents, 0, files.end, files.keys, files.starts)


def _mode(path: str) -> int:
    try:
        return os.stat(path).st_mode
    except (OSError, ValueError):
        return 0


def _without_white_space(keys: list[bytes]) -> bool:
    return len(b"\n".join(keys).split()) == len(keys)


def _places(lines: list[bytes], first: int, prefix: bytes) -> tuple[list[bytes], list[int]]:
    """Return the keys and offsets of lines from ``first`` on that name ascending places of one file, close together."""
    keys: list[bytes] = []
    places: list[int] = []
    start = len(prefix)
    least = most = -1
    for line in lines[first : first + MAX_ENTRIES]:
        key, _, rest = line.partition(b" ")
        digits = rest[start:]
        if not rest.startswith(prefix) or not digits.isdigit() or len(digits) >= _LONGEST_OFFSET:
            break
        place = int(digits)
        if not keys:
            most = place + BLOCK_BYTES
        elif not least < place < most:
            break
        least = place
        keys.append(key)
        places.append(place)
    return (keys, places) if _without_white_space(keys) else ([], [])


class _Files:
    """Contents of regular files in one array: as many as fit into a block, or one that is larger.

    Args:
        largest: bytes of a file at most.
        memory: gives the array.

    Attributes:
        keys: of each file.
        starts: where each file starts.
        contents: the bytes of the files.
        end: where the last file ends.
    """

    def __init__(self, largest: int, memory: FileMemory) -> None:
        self._largest = largest
        self._memory = memory
        self.keys: list[bytes] = []
        self.starts: list[int] = []
        self.contents = np.empty(0, np.uint8)
        self.end = 0

    def add(self, key: bytes, path: bytes) -> bool:
        """Read a file; return False if it is not a regular file, cannot be read, or does not fit."""
        at = self._memory.place(self.end)
        try:
            status = os.stat(path)
            size = status.st_size
            fits = size <= self._largest and (not self.keys or at + size <= len(self.contents))
            if not stat.S_ISREG(status.st_mode) or not fits:
                return False
            if not self.keys:
                self.contents = self._memory.allocate(max(at + size, _FILES_BYTES))
            if _read_file(path, self.contents[at : at + size]) < size:
                return False
        except OSError:
            return False
        self.keys.append(key)
        self.starts.append(at)
        self.end = at + size
        return True


def _read_file(path: bytes, target: npt.NDArray[np.uint8]) -> int:
    """Read the start of a file and return the number of bytes, fewer only if the file is shorter."""
    descriptor = os.open(path, OPEN_FLAGS)
    try:
        got = 0
        while got < len(target):
            more = os.readv(descriptor, [target[got:].data])
            if more == 0:
                break
            got += more
        return got
    finally:
        os.close(descriptor)
