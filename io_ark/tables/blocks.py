"""Read blocks of entries from an archive, or from the locations in a script file.

A scan reads many small objects in one call of C. The codec reads large objects, objects of kinds without a scan, and
damaged objects one by one, because only the codec raises errors. A block holds only entries that have arrived, so the
entries of a pipe are delivered without waiting for more bytes.
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
from io_ark.codecs.scan import Scan, Scanned, Window
from io_ark.errors import ArkError
from io_ark.native import NATIVE
from io_ark.streams.files import OpenFiles
from io_ark.streams.foreign import refuse_foreign_file
from io_ark.streams.source import FileSource, Source
from io_ark.tables.keys import read_key
from io_ark.tables.loader import MAX_OFFSET_DIGITS, name_key

# A block, or the key and the value of an entry that was read alone.
Item = Block | tuple[str, Any]

# Maximum bytes of a block whose entries are delivered one by one. An array keeps the memory of its whole block alive.
ENTRY_BYTES = 1 << 16
# Maps the maximum bytes of a block to the maximum bytes of an object in it. Larger objects are read without a copy.
_MAX_OBJECT_BYTES = {BLOCK_BYTES: BLOCK_BYTES // 2, ENTRY_BYTES: ENTRY_BYTES // 4}
# Maximum number of objects that are read one by one before the next scan, after several failed scans.
_MAX_PAUSE_OBJECTS = 64
# Number of objects that are read one by one after a large object, because more large objects are likely.
_PAUSE_AFTER_LARGE = 4
# Matches file names that cannot be commands and contain no offset or range.
_PLAIN_NAME = re.compile(rb"[\w./+@%,=][\w./+@%,=-]*", re.ASCII)
# For C: one byte for each of the 256 characters, which is 1 if such a file name may contain the character.
_IN_PLAIN_NAMES = bytes(_PLAIN_NAME.fullmatch(b"a%c" % byte) is not None for byte in range(256))
# Maximum number of files that one call of the C function reads. A call ends at the first file that it cannot read, and
# the work of preparing the remaining lines is lost. Larger numbers save little, because a call takes far less time than
# reading 128 files.
_FILES_PER_CALL = 128


@dataclass
class _Pause:
    """Number of objects to read one by one before the next scan. It grows with each failed scan in succession."""

    remaining: int = 0  # Number of objects that are still to be read one by one.
    _next: int = 1  # Value of `remaining` after the next failed scan.

    def record_scan(self, scanned: Scanned | None) -> None:
        """Start a pause after a failed scan (None), and make the next pause longer.

        After a successful scan, the next pause has one object again.
        """
        if scanned is None:
            self.remaining = self._next
            self._next = min(8 * self._next, _MAX_PAUSE_OBJECTS)
        else:
            self._next = 1


def read_entries(source: Source, codec: Codec[Any]) -> Generator[tuple[str, Any], None, None]:
    """Yield keys and values from the current position in an archive to its end, like :func:`read_archive`."""
    return cast(Generator[tuple[str, Any], None, None], read_archive(source, codec, lambda: False))


def read_archive(source: Source, codec: Codec[Any], in_blocks: Callable[[], bool]) -> Generator[Item, None, None]:
    """Yield the entries of an archive from the current position to the end.

    Args:
        source: the archive.
        codec: codec of the objects of the archive.
        in_blocks: function that is called before a block is read. If it returns True, the generator yields blocks, and
            pairs of a key and a value for objects that are read alone. If it returns False, the generator yields only
            pairs, and closing the generator leaves the source after the last yielded entry.

    Raises:
        ArkError: the source is not an archive, or an entry cannot be read. All earlier entries have then been yielded.
    """
    refuse_foreign_file(source, "ark")
    if not source.tell() and codec.starts_object(source):
        source.fail("is a single object, not an archive: read it with io_ark.load, or omit 'ark:' before the name")
    scan = codec.create_scan()
    # The first entry is read alone, so that nothing is read ahead if it is large.
    pause = _Pause(int(scan is not None and not scan.reads_any_size))
    while True:
        if scan is not None and pause.remaining == 0:
            window = _peek_window(source, _get_max_block_bytes(in_blocks))
            if window.begin == window.end:
                return
            scanned = scan.scan_entries(window)
            pause.record_scan(scanned)
            if scanned is not None:
                source.skip(scanned.size)
                if in_blocks():
                    yield scanned.block
                else:
                    yield from _iterate_block(scanned, source, codec)
                del scanned  # Otherwise, this block would stay in memory while the next block is read.
                continue
        key = read_key(source)
        if key is None:
            return
        is_last_of_pause = pause.remaining == 1
        start = source.tell() if is_last_of_pause else 0
        try:
            yield key, codec.read(source)  # A variable would keep the value alive.
        except ArkError as error:
            raise name_key(error, key) from error.__cause__
        if scan is not None:
            pause.remaining -= 1
            # Extend the pause if its last object is too large for a scan.
            max_bytes = _MAX_OBJECT_BYTES[_get_max_block_bytes(in_blocks)]
            if is_last_of_pause and not scan.reads_any_size and source.tell() - start > max_bytes:
                pause.remaining = _PAUSE_AFTER_LARGE


def _get_max_block_bytes(in_blocks: Callable[[], bool]) -> int:
    return BLOCK_BYTES if in_blocks() else ENTRY_BYTES


def _peek_window(source: Source, size: int) -> Window:
    """Return up to ``size`` buffered bytes of a source as a window to scan, which is empty only at the source's end."""
    data, begin, end = source.get_window(size)
    return Window(data, begin, min(end, begin + size), max_object_bytes=_MAX_OBJECT_BYTES[size])


def _iterate_block(scanned: Scanned, source: Source, codec: Codec[Any]) -> Generator[tuple[str, Any], None, None]:
    """Yield the entries of a block. When closed early, move ``source`` back to the first entry that was not yielded."""
    count = 0
    try:
        for entry in scanned.block.entries():
            count += 1
            yield entry
    finally:
        if count < len(scanned.block):
            source.move_back(scanned.size)
            # Reading the yielded entries again moves the source to the next entry.
            for _ in range(count):
                read_key(source)
                codec.read(source)


class FileMemory:
    """Allocator of memory for the contents of several files.

    Attributes:
        size: bytes of memory for several files. A file that does not fit is read alone.
        lead, alignment: each file starts ``lead`` bytes before an offset that is a multiple of ``alignment``.
    """

    size = 2 * BLOCK_BYTES
    lead, alignment = 0, 64

    def allocate(self, size: int) -> npt.NDArray[np.uint8]:
        """Return an uninitialized array with at least ``size`` bytes."""
        return np.empty(size, np.uint8)


class BlockLoader:
    """Loads the objects of several lines of a script file at once, if they are close in one file or in small files.

    Args:
        scan: reader of blocks of objects at given offsets. If None, :meth:`load` always returns None.
        files: cache of open files.
        max_file_bytes: maximum bytes of a file with a single object that is read here. The codec reads larger files.
        memory: memory for files with a single object. By default, every block gets new memory.
    """

    def __init__(
        self, scan: Scan | None, files: OpenFiles, max_file_bytes: int = sys.maxsize, memory: FileMemory | None = None
    ) -> None:
        self._scan = scan
        self._files = files
        self._max_file_bytes = max_file_bytes
        self._memory = FileMemory() if memory is None else memory
        self._source: FileSource | None = None
        self._path = b""
        self._pause = _Pause()

    def load(self, lines: list[bytes], first: int, size: int = BLOCK_BYTES) -> Block | None:
        """Return a block with the objects of successive lines, or None if the codec has to read the first object.

        The first object is the object of ``lines[first]``. The lines have no newlines. Objects from the same file start
        fewer than ``size`` (``BLOCK_BYTES`` or ``ENTRY_BYTES``) bytes after the first object.
        """
        if self._scan is None:
            return None
        if self._pause.remaining:
            self._pause.remaining -= 1
            return None
        scanned = None
        rxfilename = lines[first].partition(b" ")[2]
        path, colon, offset = rxfilename.rpartition(b":")
        if colon and offset.isdigit() and _PLAIN_NAME.fullmatch(path):
            scanned = self._load_objects(path, *_parse_offsets(lines, first, path + b":", size), size)
        elif self._scan.file_bytes and _PLAIN_NAME.fullmatch(rxfilename):
            scanned = self._load_files(lines, first)
        self._pause.record_scan(scanned)
        return None if scanned is None else scanned.block

    def _load_objects(self, path: bytes, keys: list[bytes], offsets: list[int], size: int) -> Scanned | None:
        """Read the objects at increasing ``offsets`` of a file, or only some at the start of the list.

        ``keys`` holds the keys of the objects. All offsets are less than ``size`` bytes after the first offset. Return
        None if the codec has to read the first object.
        """
        # A scan of one object, or of objects that are large or far apart, would save no time.
        if len(keys) < 2 or offsets[1] - offsets[0] > 2 * _MAX_OBJECT_BYTES[size] or self._scan is None:
            return None
        with suppress(ArkError):  # The codec raises the error when it reads the first line alone.
            source = self._open_source_at(path, offsets[0])
            if source is not None:
                # An object ends before the next object starts. The end of the last object is unknown.
                bounds = np.array([offsets, [*offsets[1:], sys.maxsize]]).T - offsets[0]
                return self._scan.scan_at(_peek_window(source, size), keys, bounds)
        return None

    def _open_source_at(self, path: bytes, offset: int) -> FileSource | None:
        """Return a source at an offset of a file, or None if the file is not regular or is mapped into memory."""
        if self._source is None or self._path != path or not self._source.reach(offset):
            self._source = None
            name = os.fsdecode(path)
            if _measure_regular_file(name) < 0:
                return None
            source = self._files.get_file(name).open_source(offset, ahead=True)
            self._source, self._path = source if isinstance(source, FileSource) else None, path
        return self._source

    def _load_files(self, lines: list[bytes], first: int) -> Scanned | None:
        """Read the files of successive lines, from ``lines[first]`` on, into one array until it is full, and scan it.

        Return None if the codec must read the first file, for example because the file is too large or not regular.
        """
        assert self._scan is not None
        memory, file_bytes = self._memory, self._scan.file_bytes
        size = _measure_regular_file(os.fsdecode(lines[first].partition(b" ")[2]))
        if not 0 <= size <= self._max_file_bytes:
            return None
        contents = memory.allocate(max(memory.size, memory.alignment + min(size, file_bytes)))
        contents_end = np.zeros(1, np.int64)  # Number of used bytes. The C function increases it.
        keys, all_bounds = list[bytes](), list[npt.NDArray[np.int64]]()
        bounds = np.empty((_FILES_PER_CALL, 2), np.int64)  # Start and end of each file in `contents`.
        for begin in range(first, min(first + MAX_ENTRIES, len(lines)), _FILES_PER_CALL):
            batch = lines[begin : begin + _FILES_PER_CALL]
            joined_lines = b"\0".join(batch)
            # Zero bytes separate the lines for C, so a line must not contain a zero byte.
            if joined_lines.count(b"\0") >= len(batch):
                break
            count = NATIVE.get_function("ark_read_files")(
                joined_lines, len(batch), _IN_PLAIN_NAMES, file_bytes, self._max_file_bytes, memory.lead,
                memory.alignment, contents, len(contents), bounds, contents_end,
            )  # fmt: skip
            keys += [line.partition(b" ")[0] for line in batch[:count]]
            all_bounds.append(bounds[:count].copy())
            if count < len(batch):
                break
        if not keys or not _have_no_white_space(keys):
            return None
        end = int(contents_end[0])
        return self._scan.scan_at(Window(contents, 0, end, max_object_bytes=end), keys, np.concatenate(all_bounds))


def _measure_regular_file(path: str) -> int:
    """Return the size of a regular file in bytes, or -1 if the path does not exist or is not a regular file."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return -1
    return status.st_size if stat.S_ISREG(status.st_mode) else -1


def _have_no_white_space(keys: list[bytes]) -> bool:
    return len(b"\n".join(keys).split()) == len(keys)


def _parse_offsets(lines: list[bytes], first: int, prefix: bytes, size: int) -> tuple[list[bytes], list[int]]:
    """Return the keys of successive lines, from ``lines[first]`` on, and the offsets in bytes that they name.

    All lines name offsets of one file: ``prefix`` is the name of the file, followed by a colon. The lists have at most
    ``MAX_ENTRIES`` elements. They end before the first line that names no offset of this file, or an offset that is not
    greater than the previous offset or not less than the first offset plus ``size``. Both lists are empty if a key is
    empty or has white space.
    """
    keys: list[bytes] = []
    offsets: list[int] = []
    digits_begin, previous, end = len(prefix), -1, -1
    for line in lines[first : first + MAX_ENTRIES]:
        key, _, location = line.partition(b" ")
        digits = location[digits_begin:]
        if not location.startswith(prefix) or not digits.isdigit() or len(digits) >= MAX_OFFSET_DIGITS:
            break
        offset = int(digits)
        if not keys:
            end = offset + size
        elif not previous < offset < end:
            break
        previous = offset
        keys.append(key)
        offsets.append(offset)
    return (keys, offsets) if _have_no_white_space(keys) else ([], [])
