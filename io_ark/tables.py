"""Keyed tables over streams and codecs: sequential reading, random access, writing.

The rules are those of Kaldi's src/util/kaldi-table-inl.h: what each option does, what is an error at once and what only
ends a permissive reader. Where Kaldi stops in the middle of a table and says nothing, these raise.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator
from functools import partial
from types import TracebackType
from typing import Any, Generic, NoReturn, TypeVar

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
    TruncatedError,
    WriteError,
)
from io_ark.objects import Loader, codec_of, name_key, ready
from io_ark.script import Script, split_line
from io_ark.source import Source
from io_ark.specifier import Rspecifier, Wspecifier, check_key, parse_rspecifier, parse_wspecifier, parse_wxfilename
from io_ark.streams import Input, describe_status, open_input, open_output

logger = logging.getLogger("io_ark")

Value = TypeVar("Value")
Entry = tuple[str, Callable[[], Any]]
Entries = Generator[Entry, None, None]


def decode_key(key: bytes) -> str:
    """A key as text; bytes that are not UTF-8 survive the way there and back."""
    return key.decode("utf-8", "surrogateescape")


def encode_key(key: str) -> bytes:
    """The bytes of a key: what tables are sorted by."""
    return key.encode("utf-8", "surrogateescape")


def read_key(source: Source) -> str | None:
    """The next key of an archive, and the one white character after it; None at the archive's end."""
    key = source.read_token()
    if not key:
        return None
    after = source.peek(1)
    if after == b" " or after == b"\t":
        source.skip(1)
    elif after != b"\n":  # which stays, as the end of an empty text object
        where = source.tell()
        shown = repr(decode_key(key[:40])) + ("..." if len(key) > 40 else "")
        if not after:
            raise TruncatedError(f"ends after the key {shown}, before its object", file=source.name, offset=where)
        source.fail(f"a space should follow the key {shown}, but there is {after!r}: is this an archive?")
    return decode_key(key)


def _check_pipe(opened: Input) -> None:
    """Close a table's stream after its end; that its command failed means that the table is not complete."""
    status = opened.close()
    if status:
        raise PipeError(f"the command {describe_status(status)}: the table is not complete", file=opened.source.name)


class SequentialReader(Generic[Value]):
    """Reads a table from its start to its end.

    Iterating gives ``(key, value)`` pairs. The first object is read when the reader is made, so that a wrong file name
    is noticed then. Errors are raised where they are met; with the option ``p``, objects that cannot be read are passed
    over with a warning (the rest of an archive too: where its next object starts is not known), and counted.

    Parameters:
        kind: what the objects are, such as "matrix" (see :mod:`io_ark.codecs`), or a codec of your own.
        rspecifier: the table, such as ``scp:feats.scp`` or ``ark:gunzip -c feats.gz |``.
        pipes: whether commands may be run.
        background: read ahead in a thread, as the option ``bg`` asks.
        options: what the codec takes.

    Attributes:
        skipped: how many objects were passed over so far.

    Raises:
        ArkError: the table cannot be opened, or an object not be read.

    >>> with SequentialReader("matrix", "ark:feats.ark") as reader:  # doctest: +SKIP
    ...     for key, matrix in reader:
    ...         print(key, matrix.shape)
    """

    def __init__(
        self, kind: str | Codec[Any], rspecifier: str, *, pipes: bool = True, background: bool = False, **options: Any
    ) -> None:
        self.skipped = 0
        self._table = table = parse_rspecifier(rspecifier)
        self._closed = False
        entries = (self._archive if table.kind == "ark" else self._script)(table, kind, pipes, options)
        self._stop: Callable[[], None] = entries.close
        if table.background or background:
            from io_ark.background import ReadAhead

            ahead = ReadAhead(entries)
            self._entries: Iterator[Entry] = ahead
            self._stop = ahead.close
        else:
            self._entries = entries
        self._first = next(self._entries, None)

    def __iter__(self) -> Iterator[tuple[str, Value]]:
        for key, load in self.entries():
            yield key, load()

    def entries(self) -> Iterator[tuple[str, Callable[[], Value]]]:
        """Pairs of a key and a function that reads its value: for those who do not need each one.

        An object of a script file is read by that call only (at once with ``p``, which must know whether it can be).
        """
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

    def _archive(self, table: Rspecifier, kind: str | Codec[Any], pipes: bool, options: dict[str, Any]) -> Entries:
        decoder = codec_of(kind, options)
        with open_input(table.rxfilename, pipes=pipes) as opened:
            source = opened.source
            begun = False
            try:
                while (key := read_key(source)) is not None:
                    try:
                        value = decoder.read(source)
                    except ArkError as error:
                        raise name_key(error, key) from error.__cause__
                    begun = True
                    yield key, ready(value)
                _check_pipe(opened)
            except (FormatError, OpenError, PipeError) as error:
                # Where not even the first object can be read, this is no archive: an error even if permissive.
                if not table.permissive or not (begun or isinstance(error, PipeError)):
                    raise
                self._skip(error, "the rest of the archive is passed over")

    def _script(self, table: Rspecifier, kind: str | Codec[Any], pipes: bool, options: dict[str, Any]) -> Entries:
        loader = Loader(kind, pipes=pipes, **options)
        with open_input(table.rxfilename, pipes=pipes) as opened:
            name = opened.source.name
            for number, line in enumerate(opened.source.read_lines(), 1):
                try:
                    key, rxfilename = split_line(line, name, number)
                    load: Callable[[], Any] = partial(loader.load_value, key, rxfilename)
                    if table.permissive:
                        load = ready(load())
                except RangeError:
                    raise  # even if permissive, as in Kaldi: the script is wrong, not the data
                except ArkError as error:
                    if not table.permissive:
                        raise
                    self._skip(error, "passed over")
                else:
                    yield key, load
            try:
                _check_pipe(opened)
            except PipeError as error:
                if not table.permissive:
                    raise
                self._skip(error, "what came of it is used")
            loader.close()

    def _skip(self, error: ArkError, what: str) -> None:
        self.skipped += 1
        logger.warning("%s (%s, as the option p asks)", error, what)


class RandomAccessReader(Generic[Value]):
    """Looks up values of a table by key.

    A script file is read at once, its objects when they are asked for. An archive is read as far as a key needs; what
    is read stays in memory unless the options promise that it is not needed again: ``o`` (a key is asked for once),
    ``s`` (the archive is sorted), ``s,cs`` (and so are the calls: then one object is held at a time).

    Parameters:
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
        self._lookup: _Lookup
        if table.kind == "scp":
            self._lookup = _ScriptLookup(table, Loader(kind, pipes=pipes, **options), pipes)
        elif table.sorted and table.called_sorted:
            self._lookup = _OrderedLookup(table, kind, pipes, options)
        else:
            self._lookup = _ArchiveLookup(table, kind, pipes, options)
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


class _Lookup:
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


class _ScriptLookup(_Lookup):
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


class _ArchiveReading(_Lookup):
    """An archive read from start to end, as far as a key needs; the stream is not opened before the first call.

    With ``p``, an error while reading ends the archive with a warning.
    """

    def __init__(self, table: Rspecifier, kind: str | Codec[Any], pipes: bool, options: dict[str, Any]) -> None:
        super().__init__(table)
        self._decoder = codec_of(kind, options)
        self._input: Input | None = open_input(table.rxfilename, pipes=pipes)
        self._previous: bytes | None = None

    def read_next(self) -> tuple[str, Any] | None:
        """The next entry, or None at the end."""
        self.check_open()
        if self._input is None:
            return None
        try:
            key = read_key(self._input.source)
            if key is None:
                opened, self._input = self._input, None
                _check_pipe(opened)
                return None
            try:
                value = self._decoder.read(self._input.source)
            except ArkError as error:
                raise name_key(error, key) from error.__cause__
        except (FormatError, OpenError, PipeError) as error:
            if not self.table.permissive:
                raise
            logger.warning("%s (taken as the archive's end, as the option p asks)", error)
            self._end()
            return None
        if self.table.sorted:
            self._check_order(key)
        return key, value

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
        if opened is not None:
            opened.close()

    def close(self) -> None:
        super().close()
        self._end()


class _ArchiveLookup(_ArchiveReading):
    """An archive of which all that was read is held, unless ``o`` lets go of what was asked for.

    If the archive is sorted, reading stops at the first key that is greater.
    """

    def __init__(self, table: Rspecifier, kind: str | Codec[Any], pipes: bool, options: dict[str, Any]) -> None:
        super().__init__(table, kind, pipes, options)
        self._values: dict[str, Any] = {}
        self._given: set[str] = set()

    def has(self, key: str) -> bool:
        self.check_open()
        if key in self._values:
            return True
        self._check_once(key)
        goal = encode_key(key)
        while not (self.table.sorted and self._previous is not None and goal <= self._previous):
            entry = self.read_next()
            if entry is None:
                return False
            name, value = entry
            if name in self._values or name in self._given:
                raise OrderError("is twice in the archive", file=self.table.rxfilename, key=name)
            self._values[name] = value
            if name == key:
                return True
        return False

    def value(self, key: str) -> Any:
        if not self.has(key):
            self.missing(key)
        if not self.table.once:
            return self._values[key]
        self._given.add(key)
        return self._values.pop(key)

    def _check_once(self, key: str) -> None:
        if key in self._given:
            raise OrderError(
                "was asked for twice, where the option o promised once", file=self.table.rxfilename, key=key
            )

    def close(self) -> None:
        super().close()
        self._values.clear()


class _OrderedLookup(_ArchiveReading):
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


class _Pieces:
    """Gathers what a codec writes, so that a value it refuses leaves no half object behind."""

    def __init__(self) -> None:
        self.pieces: list[Any] = []
        self.write = self.pieces.append


class Writer(Generic[Value]):
    """Writes a table.

    Parameters:
        kind: what the objects are, such as "matrix" (see :mod:`io_ark.codecs`), or a codec of your own.
        wspecifier: the table, such as ``ark:feats.ark``, ``ark,t:-`` or ``ark,scp:feats.ark,feats.scp``.
        pipes: whether commands may be run.
        options: what the codec takes, such as ``method`` for "compressed-matrix".

    Raises:
        ArkError: the table cannot be opened or written; a key or value is none that it can hold. After
            :meth:`close` returned, everything has been handed to the system.

    >>> with Writer("matrix", "ark,scp:feats.ark,feats.scp") as writer:  # doctest: +SKIP
    ...     writer["utt1"] = np.zeros((10, 3), np.float32)
    """

    def __init__(self, kind: str | Codec[Any], wspecifier: str, *, pipes: bool = True, **options: Any) -> None:
        self._encoder = codec_of(kind, options)
        self._table = parse_wspecifier(wspecifier)
        target = _ToScript if self._table.kind == "scp" else _ToArchive
        self._target: _ToScript | _ToArchive = target(self._table, pipes)
        self._closed = False

    def __setitem__(self, key: str, value: Value) -> None:
        self.write(key, value)

    def write(self, key: str, value: Value) -> None:
        """Add a key and its value to the table."""
        if self._closed:
            raise ClosedError("the writer is closed", key=key)
        check_key(key)
        gathered = _Pieces()
        try:
            self._encoder.write(gathered, value, binary=self._table.binary)
            self._target.write(key, gathered.pieces)
        except ArkError as error:
            raise name_key(error, key) from error.__cause__

    def flush(self) -> None:
        """Hand all that was written to the system."""
        self._target.flush()

    def close(self) -> None:
        """Finish the table; a second call does nothing.

        Raises:
            WriteError, PipeError: not all of it got there.
        """
        if not self._closed:
            self._closed = True
            self._target.close()

    def __enter__(self) -> Writer[Value]:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None) -> None:
        try:
            self.close()
        except ArkError as failure:
            if kind is None:
                raise
            logger.error("%s", failure)  # the exception on its way is what came first


class _ToArchive:
    """One stream for all objects, and maybe a script file that says where each one is."""

    def __init__(self, table: Wspecifier, pipes: bool) -> None:
        self._table = table
        self._archive = open_output(table.archive, pipes=pipes)
        self._script = None
        if table.kind == "both":
            if parse_wxfilename(table.archive).kind != "file":
                logger.warning("%s: a script file cannot point into what is not a file", self._archive.name)
            try:
                self._script = open_output(table.script, pipes=pipes)
            except ArkError:
                self._archive.close()
                raise

    def write(self, key: str, pieces: list[Any]) -> None:
        name = encode_key(key) + b" "
        self._archive.write(name)
        if self._script is not None:
            self._script.write(name + encode_key(f"{self._table.archive}:{self._archive.tell()}\n"))
        for piece in pieces:
            self._archive.write(piece)
        if self._table.flush:
            self.flush()

    def flush(self) -> None:
        self._archive.flush()
        if self._script is not None:
            self._script.flush()

    def close(self) -> None:
        try:
            self._archive.close()
        finally:
            if self._script is not None:
                self._script.close()


class _ToScript:
    """A stream for each object: a script file, which is there already, says which."""

    def __init__(self, table: Wspecifier, pipes: bool) -> None:
        self._table = table
        self._pipes = pipes
        self._script = Script.open(table.script, pipes=pipes)
        self._script.check_unique()

    def write(self, key: str, pieces: list[Any]) -> None:
        wxfilename = self._script.get(key)
        if wxfilename is None:
            if self._table.permissive:
                return
            raise WriteError("the script has no entry for this key: where should it go?", file=self._table.script)
        with open_output(wxfilename, pipes=self._pipes) as output:
            for piece in pieces:
                output.write(piece)

    def flush(self) -> None:
        """Each object has been handed on already."""

    def close(self) -> None:
        """Each object's stream is closed already."""
