"""Read the entries of an archive, many small ones at a time if the C library is available."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from io_ark.codecs import Codec
from io_ark.errors import ArkError
from io_ark.native.scan import BLOCK, LARGEST_OBJECT, Block
from io_ark.streams.source import Source
from io_ark.tables.keys import read_key
from io_ark.tables.loader import name_key

__all__ = ["read_entries", "read_entry"]

Entries = Generator[tuple[str, Any], None, None]
# Maximum number of entries read one by one after a block that had no small entries, before the next block is tried.
_LONGEST_PAUSE = 64


def read_entries(source: Source, codec: Codec[Any]) -> Entries:
    """Yield the keys and values of an archive from the next byte to its end.

    Small objects are read a block at a time, as far as they are buffered, so an entry that arrives through a pipe is
    yielded at once. When the generator is closed, the source is after the last entry that it yielded.

    Raises:
        ArkError: an entry cannot be read; those before it have been yielded.
    """
    scanner = codec.scanner()
    pause = longer_pause = run_pause = 0
    while True:
        if scanner is not None and pause == 0:
            window, begin, end = source.buffered(BLOCK)
            block = scanner.entries(window, begin, end)
            if block is not None:
                source.skip(block.ends[-1] - begin)
                yield from _each(block, source)
                longer_pause = 0
                continue
            longer_pause = min(2 * longer_pause + 1, _LONGEST_PAUSE)
            pause = longer_pause
        start = source.tell()
        key = read_key(source)
        if key is None:
            return
        yield key, _read_value(source, codec, key)  # no variable here keeps the value in memory
        # After a large object another one is likely, and large objects are not read ahead.
        end = source.tell()
        pause = max(pause - 1, int(end - start > LARGEST_OBJECT))
        if run_pause == 0:
            yield from codec.read_run(source)
            run_pause = _LONGEST_PAUSE if source.tell() == end else 1
        run_pause -= 1


def read_entry(source: Source, codec: Codec[Any]) -> tuple[str, Any] | None:
    """Read the next key and value of an archive; None at its end."""
    key = read_key(source)
    return None if key is None else (key, _read_value(source, codec, key))


def _read_value(source: Source, codec: Codec[Any], key: str) -> Any:
    try:
        return codec.read(source)
    except ArkError as error:
        raise name_key(error, key) from error.__cause__


def _each(block: Block, source: Source) -> Entries:
    """Yield a block's entries. On closing, the source moves back from the block's end to the first unused entry."""
    entries = iter(block.entries)
    try:
        yield from entries
    finally:
        left = sum(1 for _ in entries)
        if left:
            source.unread(block.ends[-1] - block.ends[-1 - left])
