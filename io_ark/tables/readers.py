"""Read tables sequentially and by key.

Options and errors follow Kaldi's src/util/kaldi-table-inl.h: which errors are raised at once, and which end a
permissive reader. Where Kaldi stops in the middle of a table without an error, these readers raise one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from io_ark.codecs import Codec
from io_ark.codecs.blocks import Block
from io_ark.codecs.kinds import (
    Float32,
    Float32Kind,
    Float64,
    Float64Kind,
    FloatKind,
    Int32,
    Int32Kind,
    Kind,
)
from io_ark.errors import ArkError, ClosedError, FormatError, MissingKeyError, OpenError, PipeError, RangeError
from io_ark.specifier import Rspecifier, parse_rspecifier
from io_ark.streams.files import MAX_OPEN_FILES_SEQUENTIAL, OpenFiles
from io_ark.streams.input import open_input
from io_ark.tables.blocks import BlockLoader, read_blocks
from io_ark.tables.entries import read_entries
from io_ark.tables.keys import check_key
from io_ark.tables.loader import Loader, as_codec, ready
from io_ark.tables.random_access import open_lookup
from io_ark.tables.script import LineSplitter

if TYPE_CHECKING:
    from io_ark.codecs.compressed import CompressedMatrix
    from io_ark.codecs.posterior import Posterior
    from io_ark.codecs.wave import Wave, WaveInfo

__all__ = ["RandomAccessReader", "SequentialReader"]

logger = logging.getLogger("io_ark")

T = TypeVar("T")
Value = TypeVar("Value", covariant=True)
Item = Block | tuple[str, Any]
Entries = Generator[Item, None, None]
# The same of a script file, whose tuples have functions that read the values; the generators yield keys and values.
LazyItem = Item | Generator[tuple[str, Any], None, None]
LazyEntries = Generator[LazyItem, None, None]


class SequentialReader(Generic[Value]):
    """Reads a table from its start to its end.

    Iterating gives ``(key, value)`` pairs. The first object is read by the constructor, so that a wrong file name is
    reported there. Errors are raised when they occur. With the option ``p``, unreadable objects are skipped with a
    warning and counted (and the rest of an archive, because the start of its next object is unknown).

    Args:
        kind: kind of the objects, such as "matrix" (see :mod:`io_ark.codecs`), or a codec of your own.
        rspecifier: the table, such as ``scp:feats.scp`` or ``ark:gunzip -c feats.gz |``, or the parsed form.
        pipes: allow commands.
        network: allow URLs.
        background: read ahead in a thread, as with the option ``bg``.
        blocks: read many small entries at a time (see :meth:`blocks`).
        options: arguments of the codec.

    Raises:
        ArkError: the table cannot be opened, or an object cannot be read.

    >>> with SequentialReader("matrix", "ark:feats.ark") as reader:  # doctest: +SKIP
    ...     for key, matrix in reader:
    ...         print(key, matrix.shape)
    """

    @overload
    def __init__(
        self: SequentialReader[Float32],
        kind: Float32Kind,
        rspecifier: str | Rspecifier,
        *,
        pipes: bool = ...,
        network: bool = ...,
        background: bool = ...,
        blocks: bool = ...,
        **options: Any,
    ) -> None: ...
    @overload
    def __init__(
        self: SequentialReader[Float64],
        kind: Float64Kind,
        rspecifier: str | Rspecifier,
        *,
        pipes: bool = ...,
        network: bool = ...,
        background: bool = ...,
        blocks: bool = ...,
        **options: Any,
    ) -> None: ...
    @overload
    def __init__(
        self: SequentialReader[Int32],
        kind: Int32Kind,
        rspecifier: str | Rspecifier,
        *,
        pipes: bool = ...,
        network: bool = ...,
        background: bool = ...,
        blocks: bool = ...,
        **options: Any,
    ) -> None: ...
    @overload
    def __init__(
        self: SequentialReader[int],
        kind: Literal["int"],
        rspecifier: str | Rspecifier,
        *,
        pipes: bool = ...,
        network: bool = ...,
        background: bool = ...,
        blocks: bool = ...,
        **options: Any,
    ) -> None: ...
    @overload
    def __init__(
        self: SequentialReader[float],
        kind: FloatKind,
        rspecifier: str | Rspecifier,
        *,
        pipes: bool = ...,
        network: bool = ...,
        background: bool = ...,
        blocks: bool = ...,
        **options: Any,
    ) -> None: ...
    @overload
    def __init__(
        self: SequentialReader[str],
        kind: Literal["token"],
        rspecifier: str | Rspecifier,
        *,
        pipes: bool = ...,
        network: bool = ...,
        background: bool = ...,
        blocks: bool = ...,
        **options: Any,
    ) -> None: ...
    @overload
    def __init__(
        self: SequentialReader[list[str]],
        kind: Literal["token-vector"],
        rspecifier: str | Rspecifier,
        *,
        pipes: bool = ...,
        network: bool = ...,
        background: bool = ...,
        blocks: bool = ...,
        **options: Any,
    ) -> None: ...
    @overload
    def __init__(
        self: SequentialReader[CompressedMatrix],
        kind: Literal["compressed-matrix"],
        rspecifier: str | Rspecifier,
        *,
        pipes: bool = ...,
        network: bool = ...,
        background: bool = ...,
        blocks: bool = ...,
        **options: Any,
    ) -> None: ...
    @overload
    def __init__(
        self: SequentialReader[Posterior],
        kind: Literal["posterior"],
        rspecifier: str | Rspecifier,
        *,
        pipes: bool = ...,
        network: bool = ...,
        background: bool = ...,
        blocks: bool = ...,
        **options: Any,
    ) -> None: ...
    @overload
    def __init__(
        self: SequentialReader[Wave],
        kind: Literal["wave"],
        rspecifier: str | Rspecifier,
        *,
        pipes: bool = ...,
        network: bool = ...,
        background: bool = ...,
        blocks: bool = ...,
        **options: Any,
    ) -> None: ...
    @overload
    def __init__(
        self: SequentialReader[WaveInfo],
        kind: Literal["wave-info"],
        rspecifier: str | Rspecifier,
        *,
        pipes: bool = ...,
        network: bool = ...,
        background: bool = ...,
        blocks: bool = ...,
        **options: Any,
    ) -> None: ...
    @overload
    def __init__(
        self: SequentialReader[Any],
        kind: Kind,
        rspecifier: str | Rspecifier,
        *,
        pipes: bool = ...,
        network: bool = ...,
        background: bool = ...,
        blocks: bool = ...,
        **options: Any,
    ) -> None: ...
    @overload
    def __init__(
        self: SequentialReader[Value],
        kind: Codec[Value],
        rspecifier: str | Rspecifier,
        *,
        pipes: bool = ...,
        network: bool = ...,
        background: bool = ...,
        blocks: bool = ...,
        **options: Any,
    ) -> None: ...
    def __init__(
        self,
        kind: Kind | Codec[Any],
        rspecifier: str | Rspecifier,
        *,
        pipes: bool = True,
        network: bool = True,
        background: bool = False,
        blocks: bool = False,
        **options: Any,
    ) -> None:
        self._table = table = parse_rspecifier(rspecifier) if isinstance(rspecifier, str) else rspecifier
        self._closed = False
        self._progress = _Progress()
        # The generator does not refer to this reader, so the reader can be deleted while a thread runs the generator.
        entries_of = self._archive if table.kind == "ark" else self._script
        entries: LazyEntries = entries_of(table, kind, pipes, network, options, self._progress, blocks)
        self._stop: Callable[[], None] = entries.close
        self._entries: Iterator[LazyItem] = entries
        self._lazy = table.kind == "scp"  # entries have functions that read the values, in place of values
        if table.background or background:
            from io_ark.tables.prefetch import ReadAhead

            self._progress.reads_all = True
            ahead = ReadAhead(_loaded(entries) if self._lazy else entries)
            self._entries = ahead
            self._stop = ahead.close
            self._lazy = False
        self._first = next(self._entries, None)

    @property
    def skipped(self) -> int:
        """Number of objects skipped so far."""
        return self._progress.skipped

    def __iter__(self) -> Iterator[tuple[str, Value]]:
        for item in self.blocks():
            if isinstance(item, tuple):
                yield item
            else:
                yield from item.entries()

    def blocks(self) -> Iterator[Block | tuple[str, Value]]:
        """Iterate over blocks of entries (see :mod:`io_ark.codecs.blocks`), and single entries in between.

        There are only single entries unless the reader was made with ``blocks=True``.
        """
        self._progress.reads_all = True
        entries = self._all()
        yield from _loaded(entries) if self._lazy else entries

    def entries(self) -> Iterator[tuple[str, Callable[[], Value]]]:
        """Iterate over pairs of a key and a function that returns its value, for users who skip some values.

        An object of a script file is read by calling the function; with ``p`` at once, to know if it is readable.
        """
        self._progress.reads_all = False
        entries = self._all()
        if self._lazy:
            yield from _unpacked(entries)
        else:
            yield from ((key, ready(value)) for key, value in _unpacked(entries))

    def _all(self) -> Generator[Any, None, None]:
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
        table: Rspecifier,
        kind: str | Codec[Any],
        pipes: bool,
        network: bool,
        options: dict[str, Any],
        progress: _Progress,
        blocks: bool,
    ) -> Entries:
        read = read_blocks if blocks else read_entries
        decoder = as_codec(kind, options)
        with open_input(table.rxfilename, pipes=pipes, network=network) as opened:
            begun = False
            try:
                with closing(read(opened.source, decoder)) as entries:
                    for first in entries:
                        begun = True
                        yield first
                        yield from entries
                opened.finish()
            except (FormatError, OpenError, PipeError) as error:
                # If the first object is unreadable, the file is not an archive: an error even if permissive.
                if not table.permissive or not (begun or isinstance(error, PipeError)):
                    raise
                progress.skip(error, "the rest of the archive is skipped")

    @staticmethod
    def _script(
        table: Rspecifier,
        kind: str | Codec[Any],
        pipes: bool,
        network: bool,
        options: dict[str, Any],
        progress: _Progress,
        blocks: bool,
    ) -> LazyEntries:
        decoder, files = as_codec(kind, options), OpenFiles(MAX_OPEN_FILES_SEQUENTIAL, network=network)
        loader = Loader(decoder, pipes=pipes, network=network, files=files, in_order=True)
        block_loader = BlockLoader(decoder, files) if blocks else None
        one_by_one = not (blocks or table.permissive)
        with open_input(table.rxfilename, pipes=pipes, network=network) as opened:
            splitter = LineSplitter(opened.source.name)
            for lines in opened.source.read_line_lists():
                run = _Run(loader, lines)
                i = 0
                while i < len(lines):
                    if block_loader is not None and not splitter.has_blank_lines:
                        block = block_loader.load(lines, i)
                        if block is not None:
                            i += len(block)
                            splitter.skip(len(block))
                            yield block
                            del block
                            continue
                    if one_by_one and progress.reads_all and loader.reads_alone and not splitter.has_blank_lines:
                        before = loader.successive
                        yield loader.load_successive(lines, i)
                        count = loader.successive - before
                        if count:
                            i += count
                            splitter.skip(count)
                            continue
                    for line in splitter.split(lines[i]):
                        try:
                            if isinstance(line, FormatError):
                                raise line
                            key, rxfilename = line
                            load: Callable[[], Any] = partial(run.load, i, key, rxfilename)
                            if table.permissive:
                                load = ready(load())
                        except RangeError:
                            raise  # even if permissive, as in Kaldi: the script file is wrong and not the data
                        except ArkError as error:
                            if not table.permissive:
                                raise
                            progress.skip(error, "skipped")
                        else:
                            yield key, load
                    i += 1
            splitter.finish()
            try:
                opened.finish()
            except PipeError as error:
                if not table.permissive:
                    raise
                progress.skip(error, "its output is used")
            loader.close()


class _Run:
    """Lines of a script file, whose objects are read together if they are adjacent in a file.

    No object is read before one of them is needed.
    """

    def __init__(self, loader: Loader, lines: list[bytes]) -> None:
        self._loader = loader
        self._lines = lines
        self._begin = 0  # line of the first value
        self._values: list[Any] = []

    def load(self, i: int, key: str, rxfilename: str) -> Any:
        """Return the object of line ``i``."""
        at = i - self._begin
        if not 0 <= at < len(self._values):
            self._values = self._loader.load_run(self._lines, i)
            self._begin, at = i, 0
        if not self._values or self._values[at] is None:
            return self._loader.load_value(key, rxfilename)
        value, self._values[at] = self._values[at], None  # the caller decides how long it is kept
        return value


def _loaded(entries: LazyEntries) -> Entries:
    """Replace the functions in entries with the values that they read."""
    for item in entries:
        if isinstance(item, tuple):
            key, load = item
            yield key, load()
        elif isinstance(item, Generator):
            yield from item
        else:
            yield item


def _unpacked(entries: Entries) -> Iterator[tuple[str, Any]]:
    """Replace blocks with their entries, whose values are ready."""
    for item in entries:
        if isinstance(item, tuple):
            yield item
        else:
            yield from ((key, ready(value)) for key, value in item.entries())


class _Progress:
    """State that a reader shares with the generator of its entries.

    Attributes:
        skipped: number of objects that a permissive reader has skipped.
        reads_all: True if the user of the reader wants every value.
    """

    def __init__(self) -> None:
        self.skipped = 0
        self.reads_all = False

    def skip(self, error: ArkError, what: str) -> None:
        """Count and log an object that is skipped."""
        self.skipped += 1
        logger.warning("%s (%s, because of the option p)", error, what)


class RandomAccessReader(Generic[Value]):
    """Looks up values of a table by key.

    A script file is read at once, its objects on access. An archive is read as far as a key needs, and its values stay
    in memory unless the options promise that they are not needed again: ``o`` (each key is looked up once), ``s`` (the
    archive is sorted), ``s,cs`` (the calls are sorted, too: one object is kept at a time).

    Args:
        kind: kind of the objects, such as "matrix" (see :mod:`io_ark.codecs`), or a codec of your own.
        rspecifier: the table, such as ``scp:feats.scp`` or ``ark,s,cs:-``.
        utt2spk: a table of tokens. If given, keys are utterances, and their values are those of their speakers.
        pipes: allow commands.
        network: allow URLs.
        options: arguments of the codec.

    Raises:
        ArkError: the table cannot be opened or read, or does not keep the promises of its options.
        MissingKeyError: the key is not in the table (``reader[key]``), or not in ``utt2spk`` (any call).

    >>> with RandomAccessReader("matrix", "scp:feats.scp") as reader:  # doctest: +SKIP
    ...     if "utt1" in reader:
    ...         print(reader["utt1"].shape)
    """

    @overload
    def __init__(
        self: RandomAccessReader[Float32],
        kind: Float32Kind,
        rspecifier: str,
        *,
        utt2spk: str = ...,
        pipes: bool = ...,
        network: bool = ...,
        **options: Any,
    ) -> None: ...
    @overload
    def __init__(
        self: RandomAccessReader[Float64],
        kind: Float64Kind,
        rspecifier: str,
        *,
        utt2spk: str = ...,
        pipes: bool = ...,
        network: bool = ...,
        **options: Any,
    ) -> None: ...
    @overload
    def __init__(
        self: RandomAccessReader[Int32],
        kind: Int32Kind,
        rspecifier: str,
        *,
        utt2spk: str = ...,
        pipes: bool = ...,
        network: bool = ...,
        **options: Any,
    ) -> None: ...
    @overload
    def __init__(
        self: RandomAccessReader[int],
        kind: Literal["int"],
        rspecifier: str,
        *,
        utt2spk: str = ...,
        pipes: bool = ...,
        network: bool = ...,
        **options: Any,
    ) -> None: ...
    @overload
    def __init__(
        self: RandomAccessReader[float],
        kind: FloatKind,
        rspecifier: str,
        *,
        utt2spk: str = ...,
        pipes: bool = ...,
        network: bool = ...,
        **options: Any,
    ) -> None: ...
    @overload
    def __init__(
        self: RandomAccessReader[str],
        kind: Literal["token"],
        rspecifier: str,
        *,
        utt2spk: str = ...,
        pipes: bool = ...,
        network: bool = ...,
        **options: Any,
    ) -> None: ...
    @overload
    def __init__(
        self: RandomAccessReader[list[str]],
        kind: Literal["token-vector"],
        rspecifier: str,
        *,
        utt2spk: str = ...,
        pipes: bool = ...,
        network: bool = ...,
        **options: Any,
    ) -> None: ...
    @overload
    def __init__(
        self: RandomAccessReader[CompressedMatrix],
        kind: Literal["compressed-matrix"],
        rspecifier: str,
        *,
        utt2spk: str = ...,
        pipes: bool = ...,
        network: bool = ...,
        **options: Any,
    ) -> None: ...
    @overload
    def __init__(
        self: RandomAccessReader[Posterior],
        kind: Literal["posterior"],
        rspecifier: str,
        *,
        utt2spk: str = ...,
        pipes: bool = ...,
        network: bool = ...,
        **options: Any,
    ) -> None: ...
    @overload
    def __init__(
        self: RandomAccessReader[Wave],
        kind: Literal["wave"],
        rspecifier: str,
        *,
        utt2spk: str = ...,
        pipes: bool = ...,
        network: bool = ...,
        **options: Any,
    ) -> None: ...
    @overload
    def __init__(
        self: RandomAccessReader[WaveInfo],
        kind: Literal["wave-info"],
        rspecifier: str,
        *,
        utt2spk: str = ...,
        pipes: bool = ...,
        network: bool = ...,
        **options: Any,
    ) -> None: ...
    @overload
    def __init__(
        self: RandomAccessReader[Any],
        kind: Kind,
        rspecifier: str,
        *,
        utt2spk: str = ...,
        pipes: bool = ...,
        network: bool = ...,
        **options: Any,
    ) -> None: ...
    @overload
    def __init__(
        self: RandomAccessReader[Value],
        kind: Codec[Value],
        rspecifier: str,
        *,
        utt2spk: str = ...,
        pipes: bool = ...,
        network: bool = ...,
        **options: Any,
    ) -> None: ...
    def __init__(
        self,
        kind: Kind | Codec[Any],
        rspecifier: str,
        *,
        utt2spk: str = "",
        pipes: bool = True,
        network: bool = True,
        **options: Any,
    ) -> None:
        table = parse_rspecifier(rspecifier)
        self._speakers: RandomAccessReader[str] | None = None
        self._lookup = open_lookup(table, kind, pipes, network, options)
        if utt2spk:
            self._speakers = RandomAccessReader("token", utt2spk, pipes=pipes, network=network)

    def __contains__(self, key: str) -> bool:
        check_key(key)
        return self._lookup.has(self._mapped(key))

    def __getitem__(self, key: str) -> Value:
        check_key(key)
        value: Value = self._lookup.value(self._mapped(key))
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
            The values; None if one is missing, or if the table cannot do that: then nothing has been looked up that
            cannot be looked up again.
        """
        names: Sequence[str] | None = keys if self._speakers is None else self._speakers.values_of(keys)
        return None if names is None else self._lookup.values_of(names)

    def _mapped(self, key: str) -> str:
        if self._speakers is None:
            return key
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
