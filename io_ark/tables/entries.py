"""The entries of an archive, many small ones at a time where the C library is there."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from io_ark.codecs import Codec
from io_ark.errors import ArkError
from io_ark.native.scan import BLOCK, LARGEST_OBJECT, Block
from io_ark.streams.source import Source
from io_ark.tables.keys import read_key
from io_ark.tables.loader import name_key

__all__ = ["read_entries"]

Entries = Generator[tuple[str, Any], None, None]
# Entries that are read one by one, at most, before another block is tried where the last one gave nothing.
_LONGEST_PAUSE = 64


def read_entries(source: Source, codec: Codec[Any]) -> Entries:
    """Yield the keys and values of an archive, from here to its end.

    Small objects are read a block at a time, as far as they are in memory; so an entry that arrives through a pipe is
    yielded at once. When the generator is closed, the source is behind the last entry that it yielded.

    Raises:
        ArkError: an entry cannot be read; those before it have been yielded.
    """
    scanner = codec.scanner()
    pause = longer_pause = 0
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
        try:
            value = codec.read(source)
        except ArkError as error:
            raise name_key(error, key) from error.__cause__
        # After a large object a large one is likely, which is not read ahead.
        pause = max(pause - 1, int(source.tell() - start > LARGEST_OBJECT))
        yield key, value


def _each(block: Block, source: Source) -> Entries:
    """Yield a block's entries; the source, which is behind the block, goes back to the first that is not taken."""
    entries = iter(block.entries)
    try:
        yield from entries
    finally:
        left = sum(1 for _ in entries)
        if left:
            source.unread(block.ends[-1] - block.ends[-1 - left])
