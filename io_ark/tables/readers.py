"""Keyed tables over streams and codecs: sequential reading, random access, writing.

The rules are those of Kaldi's src/util/kaldi-table-inl.h: what each option does, what is an error at once and what only
ends a permissive reader. Where Kaldi stops in the middle of a table and says nothing, these raise.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from functools import partial
from typing import Any, Generic, TypeVar

from io_ark.codecs import Codec
from io_ark.errors import ArkError, ClosedError, FormatError, MissingKeyError, OpenError, PipeError, RangeError
from io_ark.specifier import Rspecifier, parse_rspecifier
from io_ark.streams.input import open_input
from io_ark.streams.source import Source
from io_ark.tables.entries import read_entries
from io_ark.tables.keys import check_key
from io_ark.tables.loader import Loader, codec_of, ready
from io_ark.tables.random_access import open_lookup
from io_ark.tables.script import split_line

logger = logging.getLogger("io_ark")

Value = TypeVar("Value")
Entry = tuple[str, Any]
Entries = Generator[Entry, None, None]


class SequentialReader(Generic[Value]):
    """Reads a table from its start to its end.

    Iterating gives ``(key, value)`` pairs. The first object is read when the reader is made, so that a wrong file name
    is noticed then. Errors are raised where they are met; with the option ``p``, objects that cannot be read are passed
    over with a warning (the rest of an archive too: where its next object starts is not known), and counted.

    Args:
        kind: what the objects are, such as "matrix" (see :mod:`io_ark.codecs`), or a codec of your own.
        rspecifier: the table, such as ``scp:feats.scp`` or ``ark:gunzip -c feats.gz |``, or the parsed form.
        pipes: whether commands may be run.
        background: read ahead in a thread, as the option ``bg`` asks.
        options: what the codec takes.

    Raises:
        ArkError: the table cannot be opened, or an object not be read.

    >>> with SequentialReader("matrix", "ark:feats.ark") as reader:  # doctest: +SKIP
    ...     for key, matrix in reader:
    ...         print(key, matrix.shape)
    """

    def __init__(
        self,
        kind: str | Codec[Any],
        rspecifier: str | Rspecifier,
        *,
        pipes: bool = True,
        background: bool = False,
        **options: Any,
    ) -> None:
        self._table = table = parse_rspecifier(rspecifier) if isinstance(rspecifier, str) else rspecifier
        self._closed = False
        self._passed_over = _PassedOver()
        # What runs in a thread does not refer to this reader, which so can be dropped while the thread waits.
        entries_of = self._archive if table.kind == "ark" else self._script
        entries = entries_of(table, kind, pipes, options, self._passed_over)
        self._stop: Callable[[], None] = entries.close
        self._entries: Iterator[Entry] = entries
        self._lazy = table.kind == "scp"  # entries have functions that read the values
        if table.background or background:
            from io_ark.tables.prefetch import ReadAhead

            ahead = ReadAhead(_loaded(entries) if self._lazy else entries)
            self._entries = ahead
            self._stop = ahead.close
            self._lazy = False
        self._first = next(self._entries, None)

    @property
    def skipped(self) -> int:
        """How many objects were passed over so far."""
        return self._passed_over.count

    def __iter__(self) -> Iterator[tuple[str, Value]]:
        entries = self._all()
        yield from _loaded(entries) if self._lazy else entries

    def entries(self) -> Iterator[tuple[str, Callable[[], Value]]]:
        """Pairs of a key and a function that reads its value: for those who do not need each one.

        An object of a script file is read by that call only (at once with ``p``, which must know whether it can be).
        """
        entries = self._all()
        yield from entries if self._lazy else ((key, ready(value)) for key, value in entries)

    def _all(self) -> Entries:
        if self._closed:
            raise ClosedError("the reader is closed", file=self._table.rxfilename)
        if self._first is not None:
            first, self._first = self._first, None
            yield first
        yield from self._entries

    def close(self) -> None:
        """Close the table, in the middle or at its end."""
        self._closed = True
        self._first = None
        self._stop()

    def __enter__(self) -> SequentialReader[Value]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @staticmethod
    def _archive(
        table: Rspecifier, kind: str | Codec[Any], pipes: bool, options: dict[str, Any], passed_over: _PassedOver
    ) -> Entries:
        decoder = codec_of(kind, options)
        with open_input(table.rxfilename, pipes=pipes) as opened:
            begun = False
            try:
                with closing(read_entries(opened.source, decoder)) as entries:
                    for first in entries:
                        begun = True
                        yield first
                        yield from entries
                opened.finish()
            except (FormatError, OpenError, PipeError) as error:
                # Where not even the first object can be read, this is no archive: an error even if permissive.
                if not table.permissive or not (begun or isinstance(error, PipeError)):
                    raise
                passed_over.add(error, "the rest of the archive is passed over")

    @staticmethod
    def _script(
        table: Rspecifier, kind: str | Codec[Any], pipes: bool, options: dict[str, Any], passed_over: _PassedOver
    ) -> Entries:
        loader = Loader(kind, pipes=pipes, in_order=True, **options)
        with open_input(table.rxfilename, pipes=pipes) as opened:
            name = opened.source.name
            for number, line, run in _lines_in_runs(opened.source, loader):
                try:
                    key, rxfilename = split_line(line, name, number)
                    load: Callable[[], Any] = partial(run, key, rxfilename)
                    if table.permissive:
                        load = ready(load())
                except RangeError:
                    raise  # even if permissive, as in Kaldi: the script is wrong, not the data
                except ArkError as error:
                    if not table.permissive:
                        raise
                    passed_over.add(error, "passed over")
                else:
                    yield key, load
            try:
                opened.finish()
            except PipeError as error:
                if not table.permissive:
                    raise
                passed_over.add(error, "what came of it is used")
            loader.close()


def _lines_in_runs(source: Source, loader: Loader) -> Iterator[tuple[int, bytes, Callable[[str, str], Any]]]:
    """Yield the number of each line of a script, the line, and a function that loads its object by key and name."""
    number = 0
    for lines in source.read_line_lists():
        run = _Run(loader, lines)
        for i, line in enumerate(lines):
            number += 1
            yield number, line, partial(run.load, i)


class _Run:
    """Lines of a script, of which objects that follow each other in a file are read together.

    No object is read before one is asked for.
    """

    def __init__(self, loader: Loader, lines: list[bytes]) -> None:
        self._loader = loader
        self._lines = lines
        self._begin = 0  # the line of the first value
        self._values: list[Any] = []

    def load(self, i: int, key: str, rxfilename: str) -> Any:
        """Return the object of line ``i``."""
        at = i - self._begin
        if not 0 <= at < len(self._values):
            self._values = self._loader.load_run(self._lines, i)
            self._begin, at = i, 0
        if not self._values or self._values[at] is None:
            return self._loader.load_value(key, rxfilename)
        value, self._values[at] = self._values[at], None  # not to be held longer than by who has it
        return value


def _loaded(entries: Entries) -> Entries:
    """Call the functions that read the values."""
    for key, load in entries:
        yield key, load()


class _PassedOver:
    """Counts what a permissive reader passes over, and tells."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, error: ArkError, what: str) -> None:
        self.count += 1
        logger.warning("%s (%s, as the option p asks)", error, what)


class RandomAccessReader(Generic[Value]):
    """Looks up values of a table by key.

    A script file is read at once, its objects when they are asked for. An archive is read as far as a key needs; what
    is read stays in memory unless the options promise that it is not needed again: ``o`` (a key is asked for once),
    ``s`` (the archive is sorted), ``s,cs`` (and so are the calls: then one object is held at a time).

    Args:
        kind: what the objects are, such as "matrix" (see :mod:`io_ark.codecs`), or a codec of your own.
        rspecifier: the table, such as ``scp:feats.scp`` or ``ark,s,cs:-``.
        utt2spk: a table of tokens; if given, a key asked for is first looked up there, and the value is its speaker's.
        pipes: whether commands may be run.
        options: what the codec takes.

    Raises:
        ArkError: the table cannot be opened, read, or is not what the options promise.
        MissingKeyError: the key is not there (``reader[key]``), or not in ``utt2spk`` (any call).

    >>> with RandomAccessReader("matrix", "scp:feats.scp") as reader:  # doctest: +SKIP
    ...     if "utt1" in reader:
    ...         print(reader["utt1"].shape)
    """

    def __init__(
        self, kind: str | Codec[Any], rspecifier: str, *, utt2spk: str = "", pipes: bool = True, **options: Any
    ) -> None:
        table = parse_rspecifier(rspecifier)
        self._speakers: RandomAccessReader[str] | None = None
        self._lookup = open_lookup(table, kind, pipes, options)
        if utt2spk:
            self._speakers = RandomAccessReader("token", utt2spk, pipes=pipes)

    def __contains__(self, key: str) -> bool:
        check_key(key)
        return self._lookup.has(self._mapped(key))

    def __getitem__(self, key: str) -> Value:
        check_key(key)
        value: Value = self._lookup.value(self._mapped(key))
        return value

    def get(self, key: str, default: Value | None = None) -> Value | None:
        """The value of a key, or ``default`` if it is not there."""
        return self[key] if key in self else default  # noqa: SIM401 (this is that method)

    def _mapped(self, key: str) -> str:
        if self._speakers is None:
            return key
        if key not in self._speakers:
            raise MissingKeyError("is not in the utt2spk map, so it has no speaker to look up", key=key)
        return self._speakers[key]

    def close(self) -> None:
        """Close the table; a second call does nothing."""
        self._lookup.close()
        if self._speakers is not None:
            self._speakers.close()

    def __enter__(self) -> RandomAccessReader[Value]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
