"""Read an archive in every way, with and without the C library, and return the outcomes, which must agree."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from io_ark.api import load_scp
from io_ark.blocks import Block
from io_ark.codecs import Codec, codec
from io_ark.codecs.compressed import CompressedMatrix
from io_ark.errors import ArkError
from io_ark.native import NATIVE
from io_ark.streams.source import BytesSource, Source, StreamSource
from io_ark.tables.blocks import read_archive, read_entries
from io_ark.tables.readers import SequentialReader

Outcome = tuple[list[Any], tuple[Any, ...]]
"""Entries, and type, key and offset of the error after them."""
Way = Callable[[bytes, str, Path], Outcome]


def without_library() -> AbstractContextManager[Any]:
    """Let io_ark do without the C library."""
    return patch.object(NATIVE, "in_use", False)


class Trickle(io.RawIOBase):
    """A stream that gives a few bytes a call, as a pipe or terminal may."""

    def __init__(self, data: bytes, step: int) -> None:
        self._data = io.BytesIO(data)
        self._step = step

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._data.read(min(self._step, len(memoryview(buffer))))
        memoryview(buffer)[: len(piece)] = piece
        return len(piece)


def frozen(value: Any) -> Any:
    """Return a value and its types as something that compares equal to the bit."""
    if isinstance(value, np.ndarray):
        return "array", value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, list | tuple):
        return type(value).__name__, [frozen(element) for element in value]
    if isinstance(value, dict):
        return [(key, frozen(element)) for key, element in value.items()]
    if isinstance(value, CompressedMatrix):
        numbers = np.array([value.minimum, value.range], np.float32)
        return value.format, frozen(numbers), frozen(value.codes), frozen(value.percentiles)
    if isinstance(value, float):
        return "float", np.float64(value).tobytes()
    return type(value).__name__, value


def same(actual: Any, expected: Any) -> None:
    """Check that two values have the same types and the same bits, however deep, and dictionaries the same order."""
    assert frozen(actual) == frozen(expected)


def _outcome(entries: Iterable[Any]) -> Outcome:
    """Read entries up to the first error."""
    values: list[Any] = []
    try:
        values.extend((key, frozen(value)) for key, value in entries)
    except ArkError as error:
        return values, (type(error), error.key, error.offset)
    return values, ()


def without_offset(outcome: Outcome) -> Outcome:
    """Return an outcome without the offset of the error: a stream is not known to be too short before its end."""
    entries, error = outcome
    return entries, error[:2]


def _block_entries(source: Source, reader: Codec[Any]) -> Iterator[tuple[str, Any]]:
    for item in read_archive(source, reader, lambda: True):
        yield from item.entries() if isinstance(item, Block) else (item,)


def _of_reader(kind: str, rspecifier: str, blocks: bool) -> Iterator[tuple[str, Any]]:
    with SequentialReader(rspecifier, kind=kind) as reader:
        if not blocks:
            yield from reader
            return
        for block in reader.blocks():
            yield from block.entries()


def expected(data: bytes, kind: str) -> Outcome:
    """Read an archive entry by entry from memory, without the C library."""
    with without_library():
        return _outcome(read_entries(BytesSource(data), codec(kind)))


def sequential_ways(step: int) -> dict[str, Way]:
    """Return the ways to read an archive from its start; streams give ``step`` bytes at a time.

    Each takes the bytes, the kind of the objects and a folder for files.
    """

    def of_file(blocks: bool) -> Way:
        def read(data: bytes, kind: str, folder: Path) -> Outcome:
            path = folder / "table.ark"
            path.write_bytes(data)
            return _outcome(_of_reader(kind, f"ark:{path}", blocks))

        return read

    return {
        "memory": lambda data, kind, _: _outcome(read_entries(BytesSource(data), codec(kind))),
        "memory, in blocks": lambda data, kind, _: _outcome(_block_entries(BytesSource(data), codec(kind))),
        "stream": lambda data, kind, _: _outcome(read_entries(StreamSource(Trickle(data, step)), codec(kind))),
        "stream, in blocks": lambda data, kind, _: _outcome(
            _block_entries(StreamSource(Trickle(data, step)), codec(kind))
        ),
        "file": of_file(blocks=False),
        "file, in blocks": of_file(blocks=True),
    }


def by_lookup(good: bytes, data: bytes, kind: str, folder: Path) -> tuple[list[Any], list[Any]]:
    """Look up the bytes after each space of an archive, and read the same bytes from memory without the C library.

    Args:
        good: valid object that is looked up between the others.
        data: the archive.
        kind: kind of the objects.
        folder: for files.

    Returns:
        The outcomes of the look-ups, and those that they should have.
    """
    path = folder / "table.ark"
    data = good + data
    path.write_bytes(data)
    places = [space.end() for space in re.finditer(b" ", data)][:20]
    lines = "".join(f"k{place} {path}:{place}\n" for place in (0, *places))
    (folder / "table.scp").write_text(lines)
    table = load_scp(folder / "table.scp", kind=kind)  # type: ignore[call-overload]  # any kind

    def look_up(place: int) -> Any:
        try:
            return frozen(table[f"k{place}"])
        except ArkError as error:
            return type(error), error.offset

    def read(place: int) -> Any:
        try:
            return frozen(codec(kind).read(BytesSource(data, place)))
        except ArkError as error:
            return type(error), error.offset

    order = [chosen for place in places for chosen in (0, place)]
    looked_up = [look_up(place) for place in order]
    with without_library():
        return looked_up, [read(place) for place in order]


def by_script(data: bytes, kind: str, folder: Path) -> tuple[list[Outcome], Outcome]:
    """Read the bytes after each space of an archive with a script file: the readable objects, then an unreadable one.

    Returns:
        The outcome of each way, and the expected outcome, which comes from reading memory without the C library.
    """
    path, script = folder / "table.ark", folder / "table.scp"
    path.write_bytes(data)
    good: list[tuple[int, Any]] = []
    bad: list[tuple[int, tuple[Any, ...]]] = []
    with without_library():
        for place in [outcomes.end() for outcomes in re.finditer(b" ", data)][:40]:
            try:
                good.append((place, frozen(codec(kind).read(BytesSource(data, place)))))
            except ArkError as error:
                bad.append((place, (type(error), f"k{place}", error.offset)))
    lines = [*good, *bad[:1]]
    script.write_text("".join(f"k{place} {path}:{place}\n" for place, _ in lines))
    ways = [(options, blocks) for options in ("", ",bg") for blocks in (False, True)]
    outcomes = [_outcome(_of_reader(kind, f"scp{options}:{script}", blocks)) for options, blocks in ways]
    return outcomes, ([(f"k{place}", value) for place, value in good], bad[0][1] if bad else ())
