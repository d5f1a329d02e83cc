"""Iterate over the entries of a table together with their kind, storage and location."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from io_ark.codecs import AnyCodec, Codec
from io_ark.codecs.detect import is_single_object
from io_ark.codecs.info import InfoCodec
from io_ark.errors import ArkError, MissingKeyError
from io_ark.specifier import Rspecifier, classify_rspecifier
from io_ark.streams.access import Access
from io_ark.streams.foreign import refuse_foreign_file
from io_ark.streams.input import open_input
from io_ark.streams.pipes import describe_status
from io_ark.streams.source import FileSource, Source
from io_ark.tables.keys import read_key
from io_ark.tables.loader import Loader, name_key
from io_ark.tables.script import LineSplitter

_STORED_AS = {
    b"FM": "float32",
    b"DM": "float64",
    b"CM": "compressed: 1 byte per value, 4 percentiles per column",
    b"CM2": "compressed: 2 bytes per value",
    b"CM3": "compressed: 1 byte per value",
    b"FV": "float32",
    b"DV": "float64",
    b"FP": "float32, packed",
    b"DP": "float64, packed",
    b"SV": "sparse",
    b"SM": "sparse",
}


def allowed_access(chosen: argparse.Namespace) -> Access:
    """Return the permissions that the options of a command line grant."""
    return Access(not chosen.no_pipes, not chosen.no_network)


@dataclass(frozen=True)
class Entry:
    """One entry of a table."""

    key: str  # empty for a single object, and for a line of a script file without a key
    where: str  # rxfilename of the object, such as `feats.ark:17` (without an offset if the table is a pipe)
    stored: str  # description of the storage format
    value: Any = None  # the object, or its shape (see InfoCodec); None if the object is unreadable
    error: ArkError | None = None  # the error of an unreadable object
    single: bool = False  # True if the file is a single object and not a table

    @property
    def shape(self) -> tuple[int, ...]:
        """(rows, columns) of a matrix, (length,) of a vector or list, (channels, samples) of audio, () of a scalar."""
        value = getattr(self.value, "samples", self.value)
        if isinstance(value, list):
            return (len(value),)
        return tuple(getattr(value, "shape", ()))

    @property
    def numbers(self) -> np.ndarray[Any, Any] | None:
        """The numbers of the object as an array, or None for words, lists and unreadable entries."""
        value = getattr(self.value, "samples", self.value)
        if isinstance(value, np.ndarray) and value.dtype.kind in "fiu":
            return value
        if isinstance(value, int | float) and not isinstance(value, bool):
            return np.array(value)
        return None


def table_of(name: str) -> Rspecifier:
    """Return the table of an rspecifier or file name: ``*.scp`` is a script file, any other file an archive."""
    return classify_rspecifier(name) or Rspecifier("scp" if name.endswith(".scp") else "ark", name)


def entries(table: Rspecifier, access: Access, *, info_only: bool = False) -> Iterator[Entry]:
    """Iterate over the entries of a table in order. An unreadable entry is yielded with its error.

    An archive ends at an unreadable entry, because the start of the next object is unknown. A script file continues.
    """
    with open_input(table.rxfilename, access=access) as opened:
        if table.kind == "ark":
            yield from _archive_entries(opened.source, info_only)
        else:
            yield from _script_entries(_lines(opened.source), access, info_only)
        status = opened.close()
        if status:
            raise ArkError(f"the command {describe_status(status)}: the table is not complete", file=table.rxfilename)


def find(name: str, key: str, access: Access) -> Entry:
    """Return the entry of a key. An archive is read up to this entry, from a script file only the object is read."""
    table = table_of(name)
    if table.kind == "ark":
        entry = next((entry for entry in entries(table, access) if entry.key == key), None)
    else:
        with open_input(table.rxfilename, access=access) as opened:
            lines = (line for line in _lines(opened.source) if not isinstance(line, ArkError) and line[0] == key)
            entry = next(_script_entries(lines, access), None)
    if entry is None:
        raise MissingKeyError("the table has no such key; `ark ls` lists them", file=name, key=key)
    if entry.error is not None:
        raise entry.error
    return entry


def _archive_entries(source: Source, info_only: bool) -> Iterator[Entry]:
    refuse_foreign_file(source, "ark")
    recording, codec = _codecs(info_only)
    if is_single_object(source):
        try:
            value = codec.read(source)
        except ArkError as error:
            yield Entry("", source.name, recording.stored, error=error)
        else:
            yield Entry("", source.name, recording.stored, value, single=True)
        return
    while (key := read_key(source)) is not None:
        where = f"{source.name}:{source.tell()}" if isinstance(source, FileSource) else source.name
        try:
            value = codec.read(source)
        except ArkError as error:
            yield Entry(key, where, recording.stored, error=name_key(error, key))
            return
        yield Entry(key, where, recording.stored, value)


def _lines(source: Source) -> Iterator[tuple[str, str] | ArkError]:
    """Yield key and rxfilename of each line of a script file, or the error of an invalid line."""
    refuse_foreign_file(source, "scp")
    splitter = LineSplitter(source.name)
    for line in source.read_lines():
        yield from splitter.split(line)
    splitter.finish()


def _script_entries(
    lines: Iterable[tuple[str, str] | ArkError], access: Access, info_only: bool = False
) -> Iterator[Entry]:
    recording, codec = _codecs(info_only)
    loader = Loader(codec, access)
    for line in lines:
        if isinstance(line, ArkError):
            yield Entry("", line.file, "", error=line)
            continue
        key, where = line
        try:
            value = loader.load(where)
            yield Entry(key, where, recording.stored, value)
        except ArkError as error:
            yield Entry(key, where, "", error=name_key(error, key))
    loader.close()


def stored_as(source: Source) -> str:
    """Describe the storage format of the object at the next byte without consuming it."""
    head = source.peek(8)
    if head[:3] == b"RIF":
        return "WAV"
    if head[:2] != b"\0B":
        return "text"
    return _STORED_AS.get(head[2:].split(b" ")[0], "binary")


class _RecordingCodec(AnyCodec):
    """Reads objects of any kind and records their storage format."""

    stored = ""

    def detect(self, source: Source) -> Codec[Any]:
        self.stored = stored_as(source)
        return super().detect(source)


def _codecs(info_only: bool) -> tuple[_RecordingCodec, Codec[Any]]:
    """Return the codec that records the storage format, and the codec to read with."""
    recording = _RecordingCodec()
    return recording, InfoCodec(recording) if info_only else recording
