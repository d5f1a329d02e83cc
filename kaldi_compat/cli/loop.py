"""The loop over a table that most programs run, and its counts."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

import io_ark
from io_ark.codecs import Codec
from io_ark.codecs.blocks import ArrayBlock, Block, ListBlock, PosteriorBlock
from io_ark.errors import ArkError, PipeError
from io_ark.specifier import parse_rspecifier
from io_ark.streams.system import WRITE_FLAGS
from kaldi_compat.cli.log import logger
from kaldi_compat.errors import KaldiCompatError, OptionError

__all__ = [
    "BlockFunction",
    "BlockTable",
    "Collector",
    "Counts",
    "FileSink",
    "LookupReader",
    "Sink",
    "Skip",
    "Table",
    "are_tables",
    "convert",
    "convert_table",
    "copied",
    "finds_many",
    "items_of",
    "lookup",
    "map_lines",
    "map_table",
    "write_block",
    "write_file",
]

In = TypeVar("In")
Out = TypeVar("Out", covariant=True)
Value = TypeVar("Value")
# Larger arrays are not collected.
_MOST_BYTES = 1 << 15
# Keys and names of files that have no other meaning, such as a command or a URL.
_PLAIN_NAMES = re.compile(rb"[\w./+@%,=\n-]*", re.ASCII)
BlockFunction = Callable[[Any], Any]
Array = npt.NDArray[Any]


class Skip(Exception):
    """An entry of a table that has no output. The message, if any, is logged as a warning."""


class Table(Protocol[Out]):
    """Entries by key, such as a random-access reader."""

    def __contains__(self, key: str, /) -> bool: ...

    def __getitem__(self, key: str, /) -> Out: ...


class Sink(Protocol):
    """Takes a table's entries, such as a writer."""

    def __setitem__(self, key: str, value: Any, /) -> None: ...


class LookupReader(io_ark.RandomAccessReader[Value]):
    """Random-access reader of a program's second table.

    If the command of a pipe fails, keys that did not arrive are missing, with a warning, as in Kaldi: each costs its
    utterance, not the job.
    """

    def __contains__(self, key: str) -> bool:
        try:
            return super().__contains__(key)
        except PipeError as error:
            logger.warning("%s", error)
            return super().__contains__(key)

    def values_of(self, keys: Sequence[str]) -> list[Value] | None:
        try:
            return super().values_of(keys)
        except PipeError as error:
            logger.warning("%s", error)
            return None

    def __enter__(self) -> LookupReader[Value]:
        super().__enter__()
        return self


@dataclass
class Counts:
    """Numbers of entries with and without an output."""

    done: int = 0
    failed: int = 0

    @property
    def total(self) -> int:
        """Number of entries read."""
        return self.done + self.failed

    def __iadd__(self, other: Counts) -> Counts:
        self.done += other.done
        self.failed += other.failed
        return self

    @property
    def status(self) -> int:
        """Exit status of most of Kaldi's programs: 0 if anything was done, else 1."""
        return 0 if self.done else 1


def map_table(
    entries: Iterable[tuple[str, In]],
    writer: Sink,
    function: Callable[[str, In], Any],
    block_function: BlockFunction | None = None,
) -> Counts:
    """Write ``function(key, value)`` under each key and count; entries for which it raises :class:`Skip` are left out.

    Args:
        entries: the entries; a reader that was made with ``blocks=True`` if there is a block function.
        writer: takes the results.
        function: takes a key and a value.
        block_function: does the same for a block of entries at once. It returns a block of results, without those
            of entries that are to be left out; or None to leave all entries to ``function``, because there is
            something to warn of or unusual.

    Raises:
        KaldiCompatError: the function's error, with the key before its message.
    """
    counts = Counts()
    for item in items_of(entries, only_blocks=block_function is not None):
        if not isinstance(item, tuple):
            if block_function is not None and (results := block_function(item)) is not None:
                write_block(writer, results)
                counts.done += len(results)
                counts.failed += len(item) - len(results)
            else:
                with Collector(writer) as collector:
                    _map_each(item.entries(), collector, function, counts)
        else:
            _map_each((item,), writer, function, counts)
    return counts


def _map_each(
    entries: Iterable[tuple[str, In]], writer: Sink, function: Callable[[str, In], Any], counts: Counts
) -> None:
    for key, value in entries:
        try:
            result = function(key, value)
        except Skip as reason:
            counts.failed += 1
            if str(reason):
                logger.warning("%s", reason)
        except KaldiCompatError as error:
            raise type(error)(f"{key}: {error}") from error
        else:
            writer[key] = result
            counts.done += 1


class Collector:
    """Collects the arrays that become of a block's entries and writes them together when the context ends.

    Args:
        writer: the table that they are written to.
    """

    def __init__(self, writer: Sink) -> None:
        self._writer = writer
        self._keys: list[str] = []
        self._arrays: list[Any] = []
        self._type: tuple[Any, int] | None = None

    def __setitem__(self, key: str, value: Any, /) -> None:
        if type(value) is not np.ndarray or not 0 < value.nbytes < _MOST_BYTES or value.dtype.kind != "f":
            self.flush()
            self._writer[key] = value
            return
        if self._type != (value.dtype, value.ndim):
            self.flush()
            self._type = value.dtype, value.ndim
        self._keys.append(key)
        self._arrays.append(value)

    def flush(self) -> None:
        """Write what has been collected."""
        keys, arrays = self._keys, self._arrays
        if keys:
            self._keys, self._arrays = [], []
            if 0 < arrays[0].ndim < 3:
                write_block(self._writer, ArrayBlock.of(keys, arrays))
            else:
                for key, value in zip(keys, arrays, strict=True):
                    self._writer[key] = value

    def __enter__(self) -> Collector:
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()


def copied(block: Any, writer: io_ark.Writer[Any]) -> Any:
    """Return a block in the form in which it was read, to copy it to a table of the same kind.

    Returns:
        None if the table takes another form.
    """
    if not isinstance(block, (ListBlock, PosteriorBlock)):
        return block
    packed = block.packed()
    return packed if packed is not None and writer.takes_packed(packed.keys) else None


def items_of(entries: Iterable[tuple[str, In]], *, only_blocks: bool = True) -> Iterator[Block | tuple[str, In]]:
    """Iterate over the blocks of a reader, and single entries.

    Args:
        entries: a reader, or single entries and blocks.
        only_blocks: make arrays that were read alone blocks of one entry.
    """
    if not isinstance(entries, io_ark.SequentialReader):
        yield from entries
        return
    for block in entries.blocks():
        yield from block.entries() if is_single(block, only_blocks) else (block,)


def is_single(block: Block, only_blocks: bool) -> bool:
    """Return True for a block that is taken as a single entry."""
    return len(block) == 1 and (isinstance(block, ListBlock) or not only_blocks)


def write_block(writer: Sink, block: Block) -> None:
    """Write the entries of a block, together if the writer can do that."""
    write = getattr(writer, "write_block", None)
    if write is not None:
        write(block)
        return
    for key, value in block.entries():
        writer[key] = value


def map_lines(lines: Iterable[str], writer: Sink, function: Callable[[str], tuple[str, Any]]) -> Counts:
    """Write the key and value that ``function(line)`` returns and count; lines that raise Skip are left out."""
    counts = Counts()
    for line in lines:
        try:
            key, value = function(line)
        except Skip as reason:
            counts.failed += 1
            logger.warning("%s", reason)
        else:
            writer[key] = value
            counts.done += 1
    return counts


def lookup(key: str, table: Table[Out], warning: str) -> Out:
    """Return the entry of another table under the same key.

    Raises:
        Skip: there is none; with the warning to log.
    """
    if key not in table:
        raise Skip(warning)
    return table[key]


def finds_many(table: LookupReader[Any], rspecifier: str) -> bool:
    """Return True if many keys of a table can be looked up at once without taking more memory or time.

    This holds for archives that keep what has been read. It does not hold for standard input and named pipes, from
    which the entries of one key may arrive long before those of the next.
    """
    if table.values_of([]) is None:
        return False
    name = parse_rspecifier(rspecifier).rxfilename
    return name.endswith("|") or os.path.isfile(name)


class BlockTable(Generic[Value]):
    """Another table of a program that works on blocks: looks up each key once, which is as often as some tables allow.

    Args:
        table: the table.
    """

    def __init__(self, table: Table[Value]) -> None:
        self._table = table
        self._asked: set[str] = set()
        self._found: dict[str, Value] = {}
        self._failed: tuple[str, ArkError] | None = None

    def values(self, keys: Sequence[str]) -> list[Value] | None:
        """Look up the keys of a block; None if one is missing or cannot be read.

        Then the results wait for the program to look up one key after the other, and an error is raised at its key.
        """
        table = self._table
        failure: ArkError | None = None
        if isinstance(table, io_ark.RandomAccessReader):
            try:
                values = table.values_of(keys)
            except ArkError as error:  # a table that was read up to there raises it once only
                failure, values = error, None
            if values is not None:
                self._asked, self._found, self._failed = set(keys), dict(zip(keys, values, strict=True)), None
                return values
        found: dict[str, Value] = {}
        self._asked, self._found, self._failed = set(keys), found, None
        for key in keys:
            try:
                if key in table:
                    found[key] = table[key]
                elif failure is not None:
                    raise failure
            except ArkError as error:
                # Reading on from the middle of a damaged object raises another error than the first time.
                self._failed = key, error if failure is None else failure
                return None
        return [found[key] for key in keys] if len(found) == len(self._asked) else None

    def __contains__(self, key: str) -> bool:
        if self._failed is not None and key == self._failed[0]:
            raise self._failed[1]
        return key in self._found if key in self._asked else key in self._table

    def __getitem__(self, key: str) -> Value:
        return self._found[key] if key in self._asked else self._table[key]

    def get(self, key: str) -> Value | None:
        """Return the entry of a key; None if there is none."""
        return self[key] if key in self else None  # noqa: SIM401 (this is that method)


class FileSink:
    """Writes each matrix to a file ``directory/key.extension``. Creates the directory if its parent exists.

    Args:
        directory: directory of the files.
        extension: extension of the files.
        write: writes a matrix to a file.
        encode_block: returns the bytes of a block's files: headers ``(entries, bytes)`` and the numbers of all
            matrices; or None if each has to be written by ``write``.

    Raises:
        OptionError: the directory cannot be created.
    """

    def __init__(
        self,
        directory: str,
        extension: str,
        write: Callable[[str, Array], None],
        encode_block: Callable[[ArrayBlock], tuple[Array, Array] | None],
    ) -> None:
        self.directory = directory
        self.extension = extension
        self._write = write
        self._encode_block = encode_block
        if not os.path.exists(directory):
            try:
                os.mkdir(directory)
            except OSError as error:
                raise OptionError(f"Could not create output directory: {directory}: {error.strerror}") from error

    def __setitem__(self, key: str, value: Array, /) -> None:
        self._write(os.path.join(self.directory, f"{key}.{self.extension}"), value)

    def write_block(self, block: ArrayBlock) -> None:
        """Write the files of a block."""
        prefix, suffix = os.path.join(self.directory, ""), f".{self.extension}"
        names = block.keys + f"{prefix}{suffix}".encode(errors="surrogateescape")
        encoded = self._encode_block(block) if _PLAIN_NAMES.fullmatch(names) else None
        if encoded is None or b"\n/" in b"\n" + block.keys:
            for key, value in block.entries():
                self[key] = value
            return
        headers, numbers = encoded
        ends = np.cumsum(block.sizes() * block.values.itemsize).tolist()
        data, begin = numbers.data, 0
        for (key, value), header, end in zip(block.entries(), headers, ends, strict=True):
            try:
                write_file(f"{prefix}{key}{suffix}", header.data, data[begin:end])
            except OSError:
                self[key] = value  # raises the error with the file's name
            begin = end


def write_file(path: str, *parts: memoryview) -> None:
    """Write bytes to a file, which is created or truncated.

    Raises:
        OSError: the file cannot be written.
    """
    descriptor = os.open(path, WRITE_FLAGS, 0o666)
    try:
        for part in parts:
            while part:
                part = part[os.write(descriptor, part) :]
    finally:
        os.close(descriptor)


def are_tables(source: str, target: str) -> bool:
    """Return True if source and target are tables, False if both are single files.

    Raises:
        OptionError: one is a table, the other a file.
    """
    source_is: bool = io_ark.is_table_rspecifier(source)
    target_is: bool = io_ark.is_table_wspecifier(target)
    if source_is != target_is:
        table, file = (source, target) if source_is else (target, source)
        raise OptionError(f"{table} is a table and {file or 'the other'} a single file: both must be the same")
    return source_is


def convert(
    kind: io_ark.Kind | Codec[Any],
    source: str,
    target: str,
    function: Callable[[str, Any], Any],
    *,
    binary: bool = True,
    kind_out: io_ark.Kind | Codec[Any] | None = None,
    output_first: bool = False,
    block_function: BlockFunction | None = None,
) -> Counts:
    """Apply a function to each object of a table, or to the object in a single file.

    Args:
        kind: type of the objects, by its name in ``io_ark``, or a codec.
        source: an rspecifier, or a file name.
        target: a wspecifier, or a file name.
        function: takes the key (empty for a single file) and the object; may raise :class:`Skip`.
        binary: write a single file in binary.
        kind_out: type of the objects that are written, if it is another one.
        output_first: open the target table before the source (see :func:`convert_table`).
        block_function: see :func:`map_table`.

    Raises:
        OptionError: one of the names is a table and the other a file; or a single file has no output.
    """
    written: Any = kind_out or kind
    if are_tables(source, target):
        return convert_table(
            kind, source, target, function, kind_out=written, output_first=output_first, block_function=block_function
        )
    try:
        result = function("", io_ark.read_object(kind, source))
    except Skip as reason:
        raise OptionError(f"{source}: {reason}") from None
    io_ark.write_object(written, target, result, binary=binary)
    return Counts(done=1)


def convert_table(
    kind: io_ark.Kind | Codec[Any],
    source: str,
    target: str,
    function: Callable[[str, Any], Any],
    *,
    kind_out: io_ark.Kind | Codec[Any] | None = None,
    output_first: bool = False,
    block_function: BlockFunction | None = None,
) -> Counts:
    """Apply a function to each object of a table, as :func:`convert` does, for programs that take no single files.

    Args:
        kind, source, target, function, kind_out: see :func:`convert`.
        output_first: open the target before the source, as some of Kaldi's programs do. If the source cannot be
            opened, an older target of that name is then empty, and a recipe that ignores the exit status cannot take
            it for this run's output.
    """
    with ExitStack() as stack:
        opened: Any = stack.enter_context(io_ark.Writer[Any](kind_out or kind, target)) if output_first else None
        reader = stack.enter_context(io_ark.SequentialReader[Any](kind, source, blocks=True))
        writer = opened or stack.enter_context(io_ark.Writer[Any](kind_out or kind, target))
        return map_table(reader, writer, function, block_function)
