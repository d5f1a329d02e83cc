"""Ways to find a key's value in a table: what each holds in memory is what the table's options promise it may.

Source of the rules: Kaldi's src/util/kaldi-table-inl.h (RandomAccessTableReader...Impl).
"""

from __future__ import annotations

import logging
from typing import Any, NoReturn

from io_ark.codecs import Codec
from io_ark.errors import (
    ArkError,
    ClosedError,
    FormatError,
    MissingKeyError,
    OpenError,
    OrderError,
    PipeError,
    RangeError,
)
from io_ark.specifier import Rspecifier
from io_ark.streams.input import Input, open_input
from io_ark.tables.entries import read_entries
from io_ark.tables.keys import decode_key, encode_key
from io_ark.tables.loader import Loader, codec_of
from io_ark.tables.script import Script

logger = logging.getLogger("io_ark")


def open_lookup(table: Rspecifier, kind: str | Codec[Any], pipes: bool, options: dict[str, Any]) -> Lookup:
    """The way that suits a table's options."""
    if table.kind == "scp":
        return ScriptLookup(table, Loader(kind, pipes=pipes, **options), pipes)
    if table.sorted and table.called_sorted:
        return OrderedLookup(table, kind, pipes, options)
    return ArchiveLookup(table, kind, pipes, options)


class Lookup:
    """A way to find a key's value; each has its own promise about memory."""

    def __init__(self, table: Rspecifier) -> None:
        self.table = table
        self.closed = False

    def has(self, key: str) -> bool:
        raise NotImplementedError

    def value(self, key: str) -> Any:
        raise NotImplementedError

    def close(self) -> None:
        self.closed = True

    def missing(self, key: str) -> NoReturn:
        raise MissingKeyError("the table has no such key", file=self.table.rxfilename, key=key)

    def check_open(self) -> None:
        if self.closed:
            raise ClosedError("the reader is closed", file=self.table.rxfilename)


class ScriptLookup(Lookup):
    """A script file, held as its bytes and an index."""

    def __init__(self, table: Rspecifier, loader: Loader, pipes: bool) -> None:
        super().__init__(table)
        self._loader = loader
        self._script = Script.open(table.rxfilename, pipes=pipes)
        if table.sorted:
            self._script.check_sorted()
        else:
            self._script.check_unique()
        self._loaded: tuple[str, Any] | None = None  # what `has` had to read, for `value` to return

    def has(self, key: str) -> bool:
        self.check_open()
        rxfilename = self._script.get(key)
        if rxfilename is None or not self.table.permissive:
            return rxfilename is not None
        try:
            self._loaded = key, self._loader.load_value(key, rxfilename)
        except RangeError:
            raise
        except ArkError as error:
            logger.warning("%s (taken as not there, as the option p asks)", error)
            return False
        return True

    def value(self, key: str) -> Any:
        self.check_open()
        loaded, self._loaded = self._loaded, None
        if loaded is not None and loaded[0] == key:
            return loaded[1]
        rxfilename = self._script.get(key)
        if rxfilename is None:
            self.missing(key)
        return self._loader.load_value(key, rxfilename)

    def close(self) -> None:
        super().close()
        self._loader.close()


class ArchiveReading(Lookup):
    """An archive read from start to end, as far as a key needs; the stream is not opened before the first call.

    With ``p``, an error while reading ends the archive with a warning.
    """

    def __init__(self, table: Rspecifier, kind: str | Codec[Any], pipes: bool, options: dict[str, Any]) -> None:
        super().__init__(table)
        self._codec = codec_of(kind, options)
        self._input: Input | None = open_input(table.rxfilename, pipes=pipes)
        self._entries = read_entries(self._input.source, self._codec)
        self._previous: bytes | None = None

    def read_next(self) -> tuple[str, Any] | None:
        """The next entry, or None at the end."""
        self.check_open()
        if self._input is None:
            return None
        try:
            entry: tuple[str, Any] | None = next(self._entries, None)
            if entry is None:
                opened, self._input = self._input, None
                opened.finish()
                return None
        except (FormatError, OpenError, PipeError) as error:
            if not self.table.permissive:
                if self._input is not None:  # a generator is at its end after an error, the archive is not
                    self._entries = read_entries(self._input.source, self._codec)
                raise
            logger.warning("%s (taken as the archive's end, as the option p asks)", error)
            self._end()
            return None
        if self.table.sorted:
            self._check_order(entry[0])
        return entry

    def _check_order(self, key: str) -> None:
        current = encode_key(key)
        if self._previous is not None and current <= self._previous:
            raise OrderError(
                f"comes after {decode_key(self._previous)!r}: the table is not sorted (or has a key twice), as the "
                "option s promised",
                file=self.table.rxfilename,
                key=key,
            )
        self._previous = current

    def _end(self) -> None:
        opened, self._input = self._input, None
        self._entries.close()
        if opened is not None:
            opened.close()

    def close(self) -> None:
        super().close()
        self._end()


class ArchiveLookup(ArchiveReading):
    """An archive of which all that was read is held, unless ``o`` lets go of what was asked for.

    If the archive is sorted, reading stops at the first key that is greater.
    """

    def __init__(self, table: Rspecifier, kind: str | Codec[Any], pipes: bool, options: dict[str, Any]) -> None:
        super().__init__(table, kind, pipes, options)
        self._values: dict[str, Any] = {}
        self._given: dict[str, None] = {}  # in the order in which they were asked for

    def has(self, key: str) -> bool:
        self.check_open()
        if key in self._values:
            return True
        goal = encode_key(key)
        while not (self.table.sorted and self._previous is not None and goal <= self._previous):
            entry = self.read_next()
            if entry is None:
                break
            name, value = entry
            if name in self._values:
                raise OrderError("is twice in the archive", file=self.table.rxfilename, key=name)
            self._values[name] = value
            if name == key:
                return True
        if key in self._given:
            # Kaldi remembers the first key that it let go of; in a sorted table, all of them.
            if self.table.sorted or key == next(iter(self._given)):
                self._refuse_again(key)
            logger.warning(
                "%s: %s: was let go of as the option o asks (taken as not there)", self.table.rxfilename, key
            )
        return False

    def value(self, key: str) -> Any:
        if not self.has(key):
            if key in self._given:
                self._refuse_again(key)
            self.missing(key)
        if not self.table.once:
            return self._values[key]
        self._given[key] = None
        return self._values.pop(key)

    def _refuse_again(self, key: str) -> NoReturn:
        raise OrderError("was asked for twice, where the option o promised once", file=self.table.rxfilename, key=key)

    def close(self) -> None:
        super().close()
        self._values.clear()


class OrderedLookup(ArchiveReading):
    """A sorted archive whose keys are asked for in order: one object is held at a time."""

    def __init__(self, table: Rspecifier, kind: str | Codec[Any], pipes: bool, options: dict[str, Any]) -> None:
        super().__init__(table, kind, pipes, options)
        self._current: tuple[str, Any] | None = None
        self._asked = b""

    def has(self, key: str) -> bool:
        self.check_open()
        goal = encode_key(key)
        if goal < self._asked:
            raise OrderError(
                f"is asked for after {decode_key(self._asked)!r}, where the option cs promised sorted calls",
                file=self.table.rxfilename,
                key=key,
            )
        self._asked = goal
        while self._previous is None or self._previous < goal:
            self._current = None
            self._current = self.read_next()
            if self._current is None:
                return False
        return self._current is not None and self._current[0] == key

    def value(self, key: str) -> Any:
        if not self.has(key):
            self.missing(key)
        assert self._current is not None
        return self._current[1]
