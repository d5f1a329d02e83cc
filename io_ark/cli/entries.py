"""Goes through a table and tells of each entry what it is and where."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from io_ark.api import AnyCodec
from io_ark.codecs import Codec
from io_ark.codecs.info import InfoCodec
from io_ark.errors import ArkError
from io_ark.specifier import Rspecifier, classify_rspecifier
from io_ark.streams.input import open_input
from io_ark.streams.pipes import describe_status
from io_ark.streams.source import FileSource, Source
from io_ark.tables.keys import read_key
from io_ark.tables.loader import Loader, name_key
from io_ark.tables.script import split_lines

_STORED_AS = {
    b"FM": "float32",
    b"DM": "float64",
    b"CM": "compressed: 1 byte a value, 4 percentiles a column",
    b"CM2": "compressed: 2 bytes a value",
    b"CM3": "compressed: 1 byte a value",
    b"FV": "float32",
    b"DV": "float64",
    b"FP": "float32, packed",
    b"DP": "float64, packed",
    b"SV": "sparse",
    b"SM": "sparse",
}


@dataclass(frozen=True)
class Entry:
    """One entry of a table.

    Attributes:
        key: its key; empty for a line of a script file that has none.
        where: the rxfilename of its object: ``feats.ark:17`` (no offset where the table is a pipe).
        stored: how it is stored, in words.
        value: the object, or something of its shape (see :class:`InfoCodec`); None if it could not be read, and
        error: why.
    """

    key: str
    where: str
    stored: str
    value: Any = None
    error: ArkError | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns of a matrix, length of a vector or list, channels and samples of audio; () for a scalar."""
        value = getattr(self.value, "samples", self.value)
        if isinstance(value, list):
            return (len(value),)
        return tuple(getattr(value, "shape", ()))

    @property
    def numbers(self) -> np.ndarray[Any, Any] | None:
        """The object's numbers as an array; None for words, lists and what could not be read."""
        value = getattr(self.value, "samples", self.value)
        if isinstance(value, np.ndarray) and value.dtype.kind in "fiu":
            return value
        if isinstance(value, int | float) and not isinstance(value, bool):
            return np.array(value)
        return None


def table_of(name: str) -> Rspecifier:
    """The table meant by an rspecifier or by a file's name: ``*.scp`` is a script file, all else an archive."""
    return classify_rspecifier(name) or Rspecifier("scp" if name.endswith(".scp") else "ark", name)


def entries(table: Rspecifier, *, pipes: bool = True, outlines: bool = False) -> Iterator[Entry]:
    """The entries of a table in order; one that cannot be read is an entry with its error.

    After such an entry an archive ends, since where the next object starts is not known; a script file goes on.

    Args:
        table: the table.
        pipes: whether commands may be run.
        outlines: whether no more is wanted of an object than its shape, for which a header will do.

    Raises:
        ArkError: the table itself cannot be opened or read on.
    """
    with open_input(table.rxfilename, pipes=pipes) as opened:
        if table.kind == "ark":
            yield from _of_archive(opened.source, outlines)
        else:
            yield from _of_script(_lines(opened.source), pipes, outlines)
        status = opened.close()
        if status:
            raise ArkError(f"the command {describe_status(status)}: the table is not complete", file=table.rxfilename)


def find(table: Rspecifier, key: str, *, pipes: bool = True) -> Entry | None:
    """The entry of this key, or None. Of a script file only that object is read; an archive is read up to it.

    Raises:
        ArkError: the table itself cannot be opened or read on.
    """
    if table.kind == "ark":
        return next((entry for entry in entries(table, pipes=pipes) if entry.key == key), None)
    with open_input(table.rxfilename, pipes=pipes) as opened:
        lines = (line for line in _lines(opened.source) if not isinstance(line, ArkError) and line[0] == key)
        return next(_of_script(lines, pipes), None)


def _of_archive(source: Source, outlines: bool) -> Iterator[Entry]:
    noting, codec = _codecs(outlines)
    while (key := read_key(source)) is not None:
        where = f"{source.name}:{source.tell()}" if isinstance(source, FileSource) else source.name
        try:
            value = codec.read(source)
        except ArkError as error:
            yield Entry(key, where, noting.stored, error=name_key(error, key))
            return
        yield Entry(key, where, noting.stored, value)


def _lines(source: Source) -> Iterator[tuple[str, str] | ArkError]:
    """Key and rxfilename of each line of a script file, or what is wrong with the line."""
    return split_lines(source.read_lines(), source.name)


def _of_script(lines: Iterable[tuple[str, str] | ArkError], pipes: bool, outlines: bool = False) -> Iterator[Entry]:
    noting, codec = _codecs(outlines)
    loader = Loader(codec, pipes=pipes)
    for line in lines:
        if isinstance(line, ArkError):
            yield Entry("", line.file, "", error=line)
            continue
        key, where = line
        try:
            value = loader.load(where)
            yield Entry(key, where, noting.stored, value)
        except ArkError as error:
            yield Entry(key, where, "", error=name_key(error, key))
    loader.close()


def stored_as(source: Source) -> str:
    """How the object that starts here, and stays unread, is stored."""
    head = source.peek(8)
    if head[:3] == b"RIF":
        return "WAV"
    if head[:2] != b"\0B":
        return "text"
    return _STORED_AS.get(head[2:].split(b" ")[0], "binary")


class _RecordingCodec(AnyCodec):
    """Reads an object of any kind, and notes how it was stored."""

    stored = ""

    def _tell(self, source: Source) -> Codec[Any]:
        self.stored = stored_as(source)
        return super()._tell(source)


def _codecs(outlines: bool) -> tuple[_RecordingCodec, Codec[Any]]:
    """What notes, and what reads."""
    noting = _RecordingCodec()
    return noting, InfoCodec(noting) if outlines else noting
