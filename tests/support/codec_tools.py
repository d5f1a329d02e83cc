"""Helpers of the codec tests: objects to and from bytes without files."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any

from io_ark.codecs import codec
from io_ark.streams.source import BytesSource


def to_bytes(kind: str, value: Any, binary: bool = True, **options: Any) -> bytes:
    """One object as it would stand in a file."""
    sink = io.BytesIO()
    codec(kind, **options).write(sink, value, binary=binary)
    return sink.getvalue()


def from_bytes(kind: str, data: bytes, **options: Any) -> Any:
    """The object that ``data`` holds; whatever follows it is an error, but for white space after text."""
    source = BytesSource(data)
    value = codec(kind, **options).read(source)
    following = source.read_rest()
    assert not following.strip(b" \r\n"), following
    return value


def archive_entries(data: bytes, kind: str) -> list[tuple[bytes, Any]]:
    """Keys and objects of an archive."""
    source = BytesSource(data)
    entries = []
    while True:
        source.skip_space()
        if source.at_end():
            return entries
        key = source.read_until(b" \t\n")
        if source.peek(1) != b"\n":
            source.skip(1)
        entries.append((key, codec(kind).read(source)))


def archive_bytes(entries: Iterable[tuple[bytes, Any]], kind: str, binary: bool = True, **options: Any) -> bytes:
    """An archive of these keys and objects."""
    return b"".join([key + b" " + to_bytes(kind, value, binary, **options) for key, value in entries])
