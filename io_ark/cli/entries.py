"""Iterate over the entries of a table, with the storage format and location of each object."""

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

# Maps the first tokens of binary objects to descriptions of the storage format.
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


def get_access(arguments: argparse.Namespace) -> Access:
    """Return the permission to run commands (unless ``--no-pipes``) and to open URLs (unless ``--no-network``)."""
    return Access(not arguments.no_pipes, not arguments.no_network)


@dataclass(frozen=True)
class StoredEntry:
    """Entry of a table, with the storage format and location of the object."""

    key: str  # Key, or "" for a single object, a line of a script file without a key, and an unreadable key.
    where: str  # rxfilename of the object, such as `feats.ark:17`. It has no offset if the table is a pipe.
    stored: str  # Description of the storage format.
    value: Any = None  # The object, or its kind and shape (see InfoCodec). None if the object is unreadable.
    error: ArkError | None = None  # Error of an unreadable object.
    is_single: bool = False  # True if the file is a single object and not a table.

    @property
    def is_without_key(self) -> bool:
        """True for a line of a script file without a key or rxfilename, and for an unreadable key of an archive."""
        return not self.key and self.error is not None and not self.is_single

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape (rows, columns) of a matrix, (length,) of a vector or list, (channels, samples) of audio, else ()."""
        value = getattr(self.value, "samples", self.value)
        if isinstance(value, list):
            return (len(value),)
        return tuple(getattr(value, "shape", ()))

    @property
    def numbers(self) -> np.ndarray[Any, Any] | None:
        """An array, a number or the samples of audio, as an array. None for other objects and unreadable entries."""
        value = getattr(self.value, "samples", self.value)
        if isinstance(value, np.ndarray) and value.dtype.kind in "fiu":
            return value
        if isinstance(value, int | float) and not isinstance(value, bool):
            return np.array(value)
        return None


def parse_table(name: str) -> Rspecifier:
    """Parse an rspecifier or a file name. A file ``*.scp`` is a script file, and any other file is an archive."""
    return classify_rspecifier(name) or Rspecifier("scp" if name.endswith(".scp") else "ark", name)


def iterate_entries(table: Rspecifier, access: Access, *, info_only: bool = False) -> Iterator[StoredEntry]:
    """Iterate over the entries of a table in order. An unreadable entry is yielded with its error.

    An unreadable entry of an archive is the last entry, because the offset of the next object is unknown. With
    ``info_only``, the values are kinds and shapes, which :class:`InfoCodec` reads without the data where possible.
    Raise ArkError if the table cannot be opened, or if the command that prints it fails.
    """
    with open_input(table.rxfilename, access=access) as opened:
        if table.kind == "ark":
            yield from _iterate_archive(opened.source, info_only=info_only)
        else:
            yield from _iterate_script(_iterate_lines(opened.source), access, info_only=info_only)
        status = opened.close()
        if status:
            raise ArkError(f"the command {describe_status(status)}, so entries may be missing", file=table.rxfilename)


def find_entry(name: str, key: str, access: Access) -> StoredEntry:
    """Return the first entry with ``key`` in the table ``name``. Raise MissingKeyError if the table lacks the key.

    An archive is read up to the entry. If the table is a script file, only the object of the key is read. Raise
    ArkError if the entry cannot be read, or if the key is missing and a part of the table cannot be read.
    """
    table = parse_table(name)
    errors: list[ArkError] = []
    if table.kind == "ark":

        def has_key(entry: StoredEntry) -> bool:
            """Return True for the entry of ``key``. Collect the errors of other entries."""
            if entry.error is not None and entry.key != key:
                errors.append(entry.error)
            return entry.key == key

        entry = next(filter(has_key, iterate_entries(table, access)), None)
    else:

        def select_lines(lines: Iterable[tuple[str, str] | ArkError]) -> Iterator[tuple[str, str]]:
            """Yield the lines with ``key``. Collect the errors of invalid lines."""
            for line in lines:
                if isinstance(line, ArkError):
                    errors.append(line)
                    continue
                line_key, _location = line
                if line_key == key:
                    yield line

        with open_input(table.rxfilename, access=access) as opened:
            lines = select_lines(_iterate_lines(opened.source))
            entry = next(_iterate_script(lines, access, info_only=False), None)
    if entry is None:
        if errors:  # An invalid line, or the rest of a damaged archive, may have the key.
            raise errors[0]
        raise MissingKeyError("the table does not have the key: `ark ls` lists the keys", file=name, key=key)
    if entry.error is not None:
        raise entry.error
    return entry


def _iterate_archive(source: Source, *, info_only: bool) -> Iterator[StoredEntry]:
    """Yield the entries of an archive, or the single object of a file.

    An unreadable entry is yielded with its error, and is the last entry. If ``info_only`` is true, only kinds and
    shapes are read. Raise ArkError if the file has the format of another program, or if its first key is unreadable,
    because the file may then not be an archive.
    """
    refuse_foreign_file(source, "ark")
    recorder, codec = _make_codecs(info_only)
    if is_single_object(source):
        try:
            value = codec.read(source)
        except ArkError as error:
            yield StoredEntry("", source.name, recorder.stored, error=error, is_single=True)
        else:
            yield StoredEntry("", source.name, recorder.stored, value, is_single=True)
        return
    key = read_key(source)
    while key is not None:
        location = f"{source.name}:{source.tell()}" if isinstance(source, FileSource) else source.name
        try:
            value = codec.read(source)
        except ArkError as error:
            yield StoredEntry(key, location, recorder.stored, error=name_key(error, key))
            return
        yield StoredEntry(key, location, recorder.stored, value)
        try:
            key = read_key(source)
        except ArkError as error:
            yield StoredEntry("", source.name, "", error=error)
            return


def _iterate_lines(source: Source) -> Iterator[tuple[str, str] | ArkError]:
    """Yield the key and rxfilename of each line of a script file, or an error for an invalid line."""
    refuse_foreign_file(source, "scp")
    splitter = LineSplitter(source.name)
    for line in source.read_lines():
        yield from splitter.split(line)
    splitter.finish()


def _iterate_script(
    lines: Iterable[tuple[str, str] | ArkError], access: Access, *, info_only: bool
) -> Iterator[StoredEntry]:
    """Yield the entry of each line of a script file, with an error if the line is invalid or the object is unreadable.

    If ``info_only`` is true, only the kinds and shapes of the objects are read.
    """
    recorder, codec = _make_codecs(info_only)
    loader = Loader(codec, access)
    for line in lines:
        if isinstance(line, ArkError):
            yield StoredEntry("", line.file, "", error=line)
            continue
        key, location = line
        try:
            value = loader.load(location)
            yield StoredEntry(key, location, recorder.stored, value)
        except ArkError as error:
            yield StoredEntry(key, location, "", error=name_key(error, key))
    loader.close()


def describe_storage(source: Source) -> str:
    """Describe the storage format of the object at the position of the source, such as "float32" or "text"."""
    head = source.peek(8)
    if head[:3] == b"RIF":  # WAV files begin with RIFF, or with RIFX if they are big-endian.
        return "WAV"
    if head[:2] != b"\0B":
        return "text"
    return _STORED_AS.get(head[2:].split(b" ")[0], "binary")


class _RecordingCodec(AnyCodec):
    """Reads objects of any kind and records their storage format."""

    stored = ""

    def detect_codec(self, source: Source) -> Codec[Any]:
        """Record the storage format of the next object, and return the codec of its kind."""
        self.stored = describe_storage(source)
        return super().detect_codec(source)


def _make_codecs(info_only: bool) -> tuple[_RecordingCodec, Codec[Any]]:
    """Return a codec that records storage formats, and a codec that reads objects, or their shapes if ``info_only``.

    The second codec calls the first codec, or is the first codec.
    """
    recorder = _RecordingCodec()
    return recorder, InfoCodec(recorder) if info_only else recorder
