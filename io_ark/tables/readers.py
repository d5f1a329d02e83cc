"""Read tables sequentially and by key.

Options and errors follow Kaldi's src/util/kaldi-table-inl.h: which errors are raised at once, and which end a
permissive reader. Where Kaldi stops in the middle of a table without an error, these readers raise one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Generic, Literal, NamedTuple, TypeVar, overload

from io_ark.blocks import BLOCK_BYTES, Block, block_of
from io_ark.codecs import Codec
from io_ark.codecs.kinds import Kind
from io_ark.errors import (
    INVALID_LINE,
    LOAD_FAILED,
    READ_FAILED,
    ArkError,
    ClosedError,
    FormatError,
    MissingKeyError,
    OpenError,
    PipeError,
    RangeError,
    kaldis_words,
)
from io_ark.logs import logger
from io_ark.specifier import Rspecifier, parse_rspecifier, split_brackets
from io_ark.streams.access import Access
from io_ark.streams.files import MAX_OPEN_FILES_SEQUENTIAL, OpenFiles
from io_ark.streams.foreign import HEAD_BYTES
from io_ark.streams.input import open_input
from io_ark.tables.blocks import ENTRY_BYTES, BlockLoader, Item, read_archive
from io_ark.tables.loader import Loader, as_codec, name_key, ready
from io_ark.tables.random_access import open_lookup
from io_ark.tables.script import BINARY_SCRIPT, LineSplitter, check_text
from io_ark.tables.whole_reads import WholeReads

T = TypeVar("T")
Value = TypeVar("Value", covariant=True)


class _Later(NamedTuple):
    """An entry of a script file whose object has not been read."""

    key: str
    load: Callable[[], Any]


Entries = Generator[Item | _Later, None, None]


class SequentialReader(Generic[Value]):
    """Reads a table from its start to its end.

    Iterating yields ``(key, value)`` pairs. The constructor reads the first object, so that it reports a wrong file
    name. Errors are raised when they occur. With the option ``p``, unreadable objects are skipped with a warning and
    counted. In an archive, all objects after an unreadable object are skipped, because their starts are unknown.

    Args:
        rspecifier: the table, such as ``scp:feats.scp`` or ``ark:gunzip -c feats.gz |``, or the parsed form.
        kind: kind of the objects, such as "matrix" (see :mod:`io_ark.codecs`), or your own codec.
        pipes: allow commands.
        network: allow URLs.
        background: read ahead in a thread, as with the option ``bg``.
        options: arguments of the codec.

    Raises:
        ArkError: the table cannot be opened, or an object cannot be read.

    >>> with SequentialReader("ark:feats.ark", kind="matrix") as reader:  # doctest: +SKIP
    ...     for key, matrix in reader:
    ...         print(key, matrix.shape)
    """

    def __init__(
        self,
        rspecifier: str | Rspecifier,
        *,
        kind: Kind | Codec[Any],
        pipes: bool = True,
        network: bool = True,
        background: bool = False,
        **options: Any,
    ) -> None:
        self._table = table = parse_rspecifier(rspecifier) if isinstance(rspecifier, str) else rspecifier
        self._closed = False
        self._reads = WholeReads(table.rxfilename)
        self._state = _State()
        # The generator does not refer to this reader, which can thus be deleted while a thread runs the generator.
        read = _read_archive if table.kind == "ark" else _read_script
        entries: Entries = read(table, as_codec(kind, options), Access(pipes, network), self._state)
        self._stop: Callable[[], None] = partial(_end, entries)
        self._entries: Iterator[Item | _Later] = entries
        if table.background or background:
            from io_ark.tables.prefetch import ReadAhead

            self._state.reads = "entries"
            ahead = ReadAhead(entries)
            self._entries = ahead
            self._stop = ahead.close
        self._first = next(self._entries, None)

    @property
    def skipped(self) -> int:
        """Number of objects skipped so far."""
        return self._state.skipped

    def __iter__(self) -> Iterator[tuple[str, Value]]:
        return self._reads.after(self._pairs())

    def _pairs(self) -> Generator[tuple[str, Value], None, None]:
        with self._reads:
            for item in self._all("entries"):
                if type(item) is tuple:
                    yield item
                elif isinstance(item, Block):  # A block that was read ahead before the user changed to single entries.
                    self._entries = chain(item.entries(), self._entries)
                    yield from self._pairs()
                else:
                    yield item.key, item.load()

    def blocks(self) -> Iterator[Block]:
        """Iterate over blocks of entries (see :mod:`io_ark.blocks`). A large entry becomes a block with one entry."""
        return self._reads.after(self._blocks())

    def _blocks(self) -> Generator[Block, None, None]:
        with self._reads:
            for item in self._all("blocks"):
                if isinstance(item, _Later):
                    yield block_of([item.key], [item.load()])
                else:
                    yield item if isinstance(item, Block) else block_of([item[0]], [item[1]])

    def entries(self) -> Iterator[tuple[str, Callable[[], Value]]]:
        """Iterate over pairs of a key and a function that returns its value, for users who skip some values.

        The objects of a script file are read when the function is called. With ``p``, they are read before, to skip
        unreadable objects.
        """
        return self._reads.after(self._unread())

    def _unread(self) -> Generator[tuple[str, Callable[[], Value]], None, None]:
        with self._reads:
            for item in self._all("keys"):
                if isinstance(item, Block):
                    self._entries = chain(item.entries(), self._entries)
                    yield from self._unread()
                else:
                    yield item if isinstance(item, _Later) else (item[0], ready(item[1]))

    def _all(self, reads: _Reads) -> Iterator[Any]:
        if self._closed:
            raise ClosedError("the reader is closed", file=self._table.rxfilename)
        self._state.reads = reads
        first, self._first = self._first, None
        # Leaving a loop over these entries does not close the generator. The next iteration continues after them.
        return chain(() if first is None else (first,), self._entries)

    def close(self) -> None:
        """Close the table, in the middle or at its end."""
        self._closed = True
        self._first = None
        self._stop()

    def __enter__(self) -> SequentialReader[Value]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_Reads = Literal["keys", "entries", "blocks"]


def _end(entries: Entries) -> None:
    """Close a generator, unless a thread that waits for a command runs it. Such a thread ends with the process."""
    if not entries.gi_running:  # type: ignore[attr-defined]
        entries.close()


@dataclass
class _State:
    """State that a reader shares with the generator of its entries."""

    skipped: int = 0  # Number of objects that a permissive reader has skipped.
    reads: _Reads = "keys"  # The form in which the user of the reader iterates over entries.

    def skip(self, warning: str, what: str) -> None:
        """Count and log an object that is skipped."""
        self.skipped += 1
        logger.warning("%s (%s, because of the option p)", warning, what)


def _read_archive(table: Rspecifier, codec: Codec[Any], access: Access, state: _State) -> Entries:
    with open_input(table.rxfilename, access=access) as opened:
        begun = False
        try:
            with closing(read_archive(opened.source, codec, lambda: state.reads == "blocks")) as entries:
                for first in entries:
                    begun = True
                    yield first
                    del first
                    yield from entries
            opened.finish()
        except (FormatError, OpenError, PipeError) as error:
            # If the first object is unreadable, the file is not an archive, which is an error even with the option p.
            if not table.permissive or not (begun or isinstance(error, PipeError)):
                raise
            state.skip(kaldis_words(error, READ_FAILED), "the rest of the archive is skipped")


def _read_script(table: Rspecifier, codec: Codec[Any], access: Access, state: _State) -> Entries:
    with open_input(table.rxfilename, access=access) as opened:
        script = _Script(table, codec, access, state, opened.source.name)
        if not opened.source.tell() and not opened.source.at_end():
            check_text(opened.source.peek_buffered(HEAD_BYTES), opened.source.name)
        for lines in opened.source.read_line_lists():
            if b"\0" in lines[0]:  # An archive. Its bytes must not be used as a file name.
                raise FormatError(BINARY_SCRIPT, file=opened.source.name)
            yield from script.entries(lines)
        script.close()
        try:
            opened.finish()
        except PipeError as error:
            if not table.permissive:
                raise
            state.skip(str(error), "its output is used")


class _Script:
    """Reads the objects that the lines of a script file name."""

    def __init__(self, table: Rspecifier, codec: Codec[Any], access: Access, state: _State, name: str) -> None:
        files = OpenFiles(MAX_OPEN_FILES_SEQUENTIAL, access=access)
        self._permissive = table.permissive
        self._state = state
        self._splitter = LineSplitter(name)
        self._loader = Loader(codec, access, files=files, in_order=True)
        self._blocks = BlockLoader(codec, files)

    def entries(self, lines: list[bytes]) -> Entries:
        """Yield the entries of lines. Small objects of successive lines in one file are read as a block."""
        at = 0
        while at < len(lines):
            block = None  # Releases the memory of the block before while the next one is read.
            reads = self._state.reads
            if reads != "keys" and not self._splitter.blank:
                block = self._blocks.load(lines, at, BLOCK_BYTES if reads == "blocks" else ENTRY_BYTES)
            if block is None:
                yield from filter(None, map(self._entry, self._splitter.split(lines[at])))
                at += 1
            else:
                at += len(block)
                self._splitter.skip(len(block))
                yield from (block,) if reads == "blocks" else block.entries()

    def _entry(self, line: tuple[str, str] | FormatError) -> Item | _Later | None:
        """Return the entry of a line, or None if it is skipped."""
        try:
            if isinstance(line, FormatError):
                raise line
            key, rxfilename = line
            if self._state.reads == "keys" and not self._permissive:
                split_brackets(rxfilename)  # Kaldi checks the brackets of the first line before it opens an output.
                return _Later(key, partial(self._loader.load_value, key, rxfilename))
            return key, self._loader.load_value(key, rxfilename)
        except RangeError as error:  # Even with the option p, as in Kaldi, because the script file is wrong.
            raise name_key(error, key) from error.__cause__
        except ArkError as error:
            if not self._permissive:
                raise
            self._state.skip(kaldis_words(error, INVALID_LINE if error is line else LOAD_FAILED), "skipped")
            return None

    def close(self) -> None:
        """Check the end of the script file, and close all files."""
        self._splitter.finish()
        self._loader.close()


class RandomAccessReader(Generic[Value]):
    """Looks up values of a table by key.

    The lines of a script file are read at once, and its objects on access. An archive is read up to the requested key.
    Its values stay in memory, unless the options promise that they are not needed again: ``o`` (keys are looked up
    once) or ``s,cs`` (the archive and the lookups are sorted, so only one object stays in memory). With ``s`` (the
    archive is sorted), reading stops at the first greater key.

    Args:
        rspecifier: the table, such as ``scp:feats.scp`` or ``ark,s,cs:-``.
        kind: kind of the objects, such as "matrix" (see :mod:`io_ark.codecs`), or your own codec.
        utt2spk: a table of tokens. If set, keys are utterances, and the values of their speakers are returned.
        pipes: allow commands.
        network: allow URLs.
        options: arguments of the codec.

    Raises:
        ArkError: the table cannot be opened or read, or violates its options.
        MissingKeyError: the key is not in the table (``reader[key]``), or not in ``utt2spk`` (any call).

    >>> with RandomAccessReader("scp:feats.scp", kind="matrix") as reader:  # doctest: +SKIP
    ...     if "utt1" in reader:
    ...         print(reader["utt1"].shape)
    """

    def __init__(
        self,
        rspecifier: str,
        *,
        kind: Kind | Codec[Any],
        utt2spk: str = "",
        pipes: bool = True,
        network: bool = True,
        **options: Any,
    ) -> None:
        table = parse_rspecifier(rspecifier)
        self._speakers: RandomAccessReader[str] | None = None
        self._lookup = open_lookup(table, as_codec(kind, options), Access(pipes, network))
        if utt2spk:
            self._speakers = RandomAccessReader(utt2spk, kind="token", pipes=pipes, network=network)

    def __contains__(self, key: str) -> bool:
        return self._lookup.has(key if self._speakers is None else self._speaker(key))

    def __getitem__(self, key: str) -> Value:
        value: Value = self._lookup.value(key if self._speakers is None else self._speaker(key))
        return value

    @overload
    def get(self, key: str) -> Value | None: ...
    @overload
    def get(self, key: str, default: T) -> Value | T: ...
    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or ``default`` if the table does not have it."""
        return self[key] if key in self else default  # noqa: SIM401 (this is that method)

    def values_of(self, keys: Sequence[str]) -> list[Value] | None:
        """Look up many keys at once, which is faster.

        Returns:
            The values, or None if a key is missing or the table does not support this. Single lookups still work then.
        """
        names: Sequence[str] | None = keys if self._speakers is None else self._speakers.values_of(keys)
        return None if names is None else self._lookup.values_of(names)

    def _speaker(self, key: str) -> str:
        assert self._speakers is not None
        if key not in self._speakers:
            raise MissingKeyError("is not in the utt2spk map, so its speaker is unknown", key=key)
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
