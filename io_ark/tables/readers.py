"""Read tables sequentially, and prevent readers from mistaking a failure for the end of a table.

The options, and the errors that end a permissive reader, follow Kaldi's src/util/kaldi-table-inl.h. Where Kaldi stops
in the middle of a table without an error, these readers raise an error.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from copy import copy
from dataclasses import dataclass
from functools import partial, wraps
from itertools import chain
from typing import Any, Generic, Literal, NamedTuple, ParamSpec, TypeVar

from io_ark.blocks import BLOCK_BYTES, Block, create_block
from io_ark.codecs import Codec
from io_ark.codecs.kinds import Kind
from io_ark.errors import (
    INVALID_LINE,
    LOAD_FAILED,
    READ_FAILED,
    ArkError,
    ClosedError,
    FormatError,
    OpenError,
    PipeError,
    RangeError,
    format_warning,
)
from io_ark.logs import logger
from io_ark.specifier import Rspecifier, parse_rspecifier, split_brackets
from io_ark.streams.access import Access
from io_ark.streams.files import MAX_OPEN_FILES_SEQUENTIAL, OpenFiles
from io_ark.streams.foreign import BINARY_SCRIPT, refuse_foreign_file
from io_ark.streams.input import open_input
from io_ark.tables.blocks import ENTRY_BYTES, BlockLoader, Item, read_archive
from io_ark.tables.loader import Loader, name_key, resolve_codec, wrap_value
from io_ark.tables.script import LineSplitter

Entry = TypeVar("Entry")
Parameters = ParamSpec("Parameters")
Value = TypeVar("Value", covariant=True)


class _ClosableChain(chain[Entry]):
    """A generator that is followed by another iterator. Closing the chain closes the generator."""

    close: Callable[[], None]


class WholeReads(Iterator[Any]):
    """Context of all reads of the table ``name``. After a read fails or is interrupted, later reads raise an error.

    An exception such as KeyboardInterrupt ends a generator, and a loop would mistake this for the end of the table.
    This class is therefore also an empty iterator, which :meth:`guard_entries` chains to a generator that reads in
    this context. Instead of ending, the iterator raises the error of the failed read.
    """

    def __init__(self, name: str = "") -> None:
        self._name = name
        self._error: ArkError | None = None
        self._is_over = False  # True after the end of the table, or after the user has stopped reading.

    def record_failure(self, error: BaseException | None) -> None:
        """Make later reads raise ``error`` if it is an ArkError, else an OpenError. Later calls do nothing."""
        if self._error is None:
            open_error = OpenError("an earlier read failed or was interrupted: open the table again", file=self._name)
            # A copy has no traceback. The frames of a traceback would keep files and memory alive.
            self._error = copy(error) if isinstance(error, ArkError) else open_error

    def raise_failure(self) -> None:
        """Raise the error of an earlier read that failed, if there is one."""
        if self._error is not None:
            raise copy(self._error)

    def guard_entries(self, entries: Generator[Entry, None, None]) -> Iterator[Entry]:
        """Return an iterator over ``entries``. After a failed read, the iterator raises an error instead of ending."""
        self._is_over = False
        iterator = _ClosableChain(entries, self)
        iterator.close = entries.close
        return iterator

    def __next__(self) -> Any:
        if self._error is None:
            if self._is_over:
                raise StopIteration
            self.record_failure(None)  # The read was interrupted before `__enter__` of this context.
        self.raise_failure()

    def __enter__(self) -> None:
        self._is_over = False
        if self._error is not None:
            self.raise_failure()

    def __exit__(self, error_type: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if error_type is None or error_type is GeneratorExit:  # A GeneratorExit shows that the user has stopped.
            self._is_over = True
        else:
            self.record_failure(error)


def repeat_errors(function: Callable[Parameters, Iterator[Entry]]) -> Callable[Parameters, Iterator[Entry]]:
    """Decorate a generator function, so that after an exception its iterators raise an error instead of ending."""

    @wraps(function)
    def iterate_guarded(*arguments: Parameters.args, **keywords: Parameters.kwargs) -> Iterator[Entry]:
        reads = WholeReads()

        def iterate_entries() -> Generator[Entry, None, None]:
            with reads:
                yield from function(*arguments, **keywords)

        return reads.guard_entries(iterate_entries())

    return iterate_guarded


class _UnreadEntry(NamedTuple):
    """Entry of a script file whose object has not been read."""

    key: str
    load: Callable[[], Any]


Entries = Generator[Item | _UnreadEntry, None, None]


class SequentialReader(Generic[Value]):
    """Reads a table from its start to its end.

    Iterating yields ``(key, value)`` pairs. The constructor reads the first object, so it raises an error for a wrong
    file name immediately. Iterating raises the errors of later objects. With the option ``p``, unreadable objects are
    counted and skipped with a warning. In an archive, all later objects are skipped, because the offsets are unknown.

    Args:
        rspecifier: the table, such as ``scp:feats.scp`` or ``ark:gunzip -c feats.gz |``, or the parsed form.
        kind: kind of the objects, such as "matrix" (see :mod:`io_ark.codecs`), or your own codec.
        pipes: False to refuse commands.
        network: False to refuse URLs.
        background: read ahead in a thread, as with the option ``bg``.
        options: arguments of the codec.

    Raises:
        ArkError: the table cannot be opened, or an object cannot be read.

    >>> import io_ark, numpy as np, tempfile
    >>> name = tempfile.mkdtemp() + "/feats.ark"
    >>> with io_ark.writer(name) as writer:
    ...     writer["utt1"] = np.zeros((98, 40), np.float32)
    >>> with io_ark.SequentialReader(f"ark:{name}", kind="matrix") as reader:
    ...     for key, matrix in reader:
    ...         print(key, matrix.shape)
    utt1 (98, 40)
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
        entries: Entries = read(table, resolve_codec(kind, options), Access(pipes, network), self._state)
        self._stop: Callable[[], None] = partial(_close_entries, entries)
        self._entries: Iterator[Item | _UnreadEntry] = entries
        if table.background or background:
            from io_ark.tables.prefetch import ReadAhead

            self._state.form = "entries"
            thread_entries = ReadAhead(entries)
            self._entries = thread_entries
            self._stop = thread_entries.close
        self._first = next(self._entries, None)

    @property
    def skipped(self) -> int:
        """Number of objects skipped so far. The unreadable rest of an archive, or a failed command, counts as one."""
        return self._state.skipped

    def __iter__(self) -> Iterator[tuple[str, Value]]:
        return self._reads.guard_entries(self._iterate_pairs())

    def _iterate_pairs(self) -> Generator[tuple[str, Value], None, None]:
        """Yield pairs of a key and a value for the remaining entries."""
        with self._reads:
            for item in self._iterate_items("entries"):
                if type(item) is tuple:
                    yield item
                elif isinstance(item, Block):
                    # This block was read before the caller changed from blocks to single entries.
                    self._entries = chain(item.entries(), self._entries)
                    yield from self._iterate_pairs()
                else:
                    yield item.key, item.load()

    def blocks(self) -> Iterator[Block]:
        """Iterate over blocks of entries (see :mod:`io_ark.blocks`). A large entry becomes a block with one entry."""
        return self._reads.guard_entries(self._iterate_blocks())

    def _iterate_blocks(self) -> Generator[Block, None, None]:
        """Yield the remaining entries in blocks. An entry that was read alone becomes a block with one entry."""
        with self._reads:
            for item in self._iterate_items("blocks"):
                if isinstance(item, _UnreadEntry):
                    yield create_block([item.key], [item.load()])
                else:
                    yield item if isinstance(item, Block) else create_block([item[0]], [item[1]])

    def entries(self) -> Iterator[tuple[str, Callable[[], Value]]]:
        """Iterate over pairs of a key and a function that returns the value, for callers that skip values.

        For a script file, the function reads the object. With the option ``p``, the objects are read before the pairs
        are yielded, because unreadable objects are skipped.
        """
        return self._reads.guard_entries(self._iterate_loaders())

    def _iterate_loaders(self) -> Generator[tuple[str, Callable[[], Value]], None, None]:
        """Yield pairs of a key and a function that returns the value, for the remaining entries."""
        with self._reads:
            for item in self._iterate_items("keys"):
                if isinstance(item, Block):
                    self._entries = chain(item.entries(), self._entries)
                    yield from self._iterate_loaders()
                else:
                    yield item if isinstance(item, _UnreadEntry) else (item[0], wrap_value(item[1]))

    def _iterate_items(self, form: _Form) -> Iterator[Any]:
        """Return an iterator over the remaining entries. Entries that are read from now on have the form ``form``.

        Raise ClosedError if the reader is closed.
        """
        if self._closed:
            raise ClosedError("the reader is closed: open a new reader", file=self._table.rxfilename)
        self._state.form = form
        first, self._first = self._first, None
        # Leaving a loop over a chain, unlike over a generator, does not close the entries, so the next loop continues.
        return chain(() if first is None else (first,), self._entries)

    def close(self) -> None:
        """Close the table. All entries need not have been read."""
        self._closed = True
        self._first = None
        self._stop()

    def __enter__(self) -> SequentialReader[Value]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_Form = Literal["keys", "entries", "blocks"]


def _close_entries(entries: Entries) -> None:
    """Close a generator, unless another thread is running it, because ``close`` would raise ValueError.

    Such a thread is waiting for a command, and ends with the process.
    """
    if not entries.gi_running:  # type: ignore[attr-defined]
        entries.close()


@dataclass
class _State:
    """State that a reader shares with the generator of its entries."""

    skipped: int = 0  # Number of objects that a permissive reader has skipped.
    form: _Form = "keys"  # Form in which the caller iterates over the table.

    def record_skip(self, warning: str, consequence: str) -> None:
        """Count a skipped object. Log ``warning`` and the ``consequence`` of the option ``p``, such as "skipped"."""
        self.skipped += 1
        logger.warning("%s (%s, because of the option p)", warning, consequence)


def _read_archive(table: Rspecifier, codec: Codec[Any], access: Access, state: _State) -> Entries:
    """Yield the entries of an archive as keys and values, or as blocks if ``state.form`` is "blocks".

    With the option ``p``, an unreadable entry after the first, or a failed command, ends the archive with a warning.
    """
    with open_input(table.rxfilename, access=access) as opened:
        has_begun = False
        try:
            with closing(read_archive(opened.source, codec, lambda: state.form == "blocks")) as entries:
                for first in entries:
                    has_begun = True
                    yield first
                    del first  # Otherwise, the first entry would stay in memory during the whole loop.
                    yield from entries
            opened.finish()
        except (FormatError, OpenError, PipeError) as error:
            # If the first object is unreadable, the file is not an archive. This is an error even with the option p.
            if not table.permissive or not (has_begun or isinstance(error, PipeError)):
                raise
            state.record_skip(format_warning(error, READ_FAILED), "the rest of the archive is skipped")


def _read_script(table: Rspecifier, codec: Codec[Any], access: Access, state: _State) -> Entries:
    """Yield the entries of a script file in the form ``state.form``.

    In the form "blocks", entries that are read alone are pairs of a key and a value.
    """
    with open_input(table.rxfilename, access=access) as opened:
        source = opened.source
        refuse_foreign_file(source, "scp")
        files = OpenFiles(MAX_OPEN_FILES_SEQUENTIAL, access=access)
        splitter = LineSplitter(source.name)
        read_line = partial(_read_line, Loader(codec, access, files=files, in_order=True), table.permissive, state)
        scan = codec.create_scan()
        block_loader = BlockLoader(scan, files) if scan is not None and scan.can_scan_at else None
        for lines in source.read_line_lists():
            if b"\0" in lines[0]:  # The file is an archive, and must not be read as a list of file names.
                raise FormatError(BINARY_SCRIPT, file=source.name)
            index = 0  # Index of the next line to read.
            while index < len(lines):
                block = None  # Release the memory of the previous block before the next block is read.
                form = state.form
                if block_loader is not None and form != "keys" and not splitter.blank:
                    block = block_loader.load(lines, index, BLOCK_BYTES if form == "blocks" else ENTRY_BYTES)
                if block is None:
                    yield from filter(None, map(read_line, splitter.split(lines[index])))
                    index += 1
                else:
                    index += len(block)
                    splitter.skip_lines(len(block))
                    yield from (block,) if form == "blocks" else block.entries()
        splitter.finish()
        try:
            opened.finish()
        except PipeError as error:
            if not table.permissive:
                raise
            state.record_skip(str(error), "its output is used")


def _read_line(
    loader: Loader, permissive: bool, state: _State, line: tuple[str, str] | FormatError
) -> Item | _UnreadEntry | None:
    """Return the entry of a line of a script file, or None if the option ``p`` (``permissive``) skips the line.

    ``line`` is a key and an rxfilename, or the error of an invalid line. If ``state.form`` is "keys", the caller loads
    the value later, except with the option ``p``, which has to know whether the value is readable.
    """
    try:
        if isinstance(line, FormatError):
            raise line
        key, rxfilename = line
        if state.form == "keys" and not permissive:
            if rxfilename.endswith("]"):
                split_brackets(rxfilename)  # Refuse wrong brackets of the first line before an output is opened.
            return _UnreadEntry(key, partial(loader.load_value, key, rxfilename))
        return key, loader.load_value(key, rxfilename)
    except RangeError as error:  # As in Kaldi, a wrong range is an error even with the option p.
        raise name_key(error, key) from error.__cause__
    except ArkError as error:
        if not permissive:
            raise
        state.record_skip(format_warning(error, INVALID_LINE if error is line else LOAD_FAILED), "skipped")
        return None
