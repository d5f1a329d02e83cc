"""The loop over a table that programs run: a program is a function from blocks of entries to blocks of results.

A function that works on all entries of a block at once may refuse a block by raising :class:`Skip` or an error. The
loop then calls it with parts of the block, and with parts of these, until each refused entry is alone in its block. The
warning or error is logged with the entry's key, after the results of the entries before it. So a function needs no
second body for unusual entries, but it must change and log nothing before it refuses a block. To process one entry at a
time, use :meth:`io_ark.blocks.Block.map`. A single file is a block of one entry.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import Any, NoReturn, Protocol

import io_ark
from io_ark.blocks import ArrayBlock, Block, MapError, Skip, block_of
from io_ark.codecs import Codec
from io_ark.errors import ArkError
from kaldi_compat.cli.log import logger, vlog
from kaldi_compat.cli.objects import Matrix, Vector
from kaldi_compat.cli.tables import Missing, Tables
from kaldi_compat.errors import KaldiCompatError, OptionError

BlockFunction = Callable[[Any], Block]
# Number of parts that a refused block is divided into. Fewer parts take longer to find one refused entry, more parts
# take longer if all entries are refused.
_PARTS = 8
_LOG_EVERY = 10  # Utterances between two lines of progress.


class Sink(Protocol):
    """Takes blocks of entries, such as a writer."""

    def write_block(self, block: Any, /) -> None: ...


@dataclass
class Counts:
    """Numbers of entries with and without an output."""

    done: int = 0
    failed: int = 0

    @property
    def total(self) -> int:
        """Number of entries read."""
        return self.done + self.failed

    @property
    def status(self) -> int:
        """Exit status of most of Kaldi's programs: 0 if an entry was done, else 1."""
        return 0 if self.done else 1


def results(function: BlockFunction, blocks: Iterable[Block], counts: Counts) -> Iterator[Block]:
    """Yield ``function(block)`` for each block or part of one, and count the entries with and without a result.

    Raises:
        KaldiCompatError: the function's error, with the key before its message, after the results before it.
    """
    for block in blocks:
        try:
            result = function(block)
        except MapError as error:
            counts.done += len(error.done)
            counts.failed += error.skipped
            yield error.done
            raise_with_key(error.key, error.__cause__ or error)
        except (Skip, KaldiCompatError, ArkError) as refusal:
            if isinstance(refusal, Missing) and len(refusal.warnings) == len(block):
                yield from _results_around(refusal.warnings, function, block, counts)
            elif len(block) > 1:
                yield from results(function, parts(block), counts)
            elif isinstance(refusal, Skip):
                _skip(str(refusal), counts)
            else:
                raise_with_key(block.names()[0], refusal)
        else:
            counts.done += len(result)
            counts.failed += len(block) - len(result)
            yield result


def _results_around(
    warnings: list[str | None], function: BlockFunction, block: Block, counts: Counts
) -> Iterator[Block]:
    """Yield the results of entries without a warning, and log the warnings, in the order of the entries."""
    runs = [list(run) for _, run in groupby(warnings, lambda warning: warning is None)]
    bounds = accumulate(map(len, runs), initial=0)
    for run, part in zip(runs, block.split([*bounds]), strict=True):
        if run[0] is None:
            yield from results(function, [part], counts)
        else:
            for warning in run:
                _skip(warning or "", counts)


def _skip(warning: str, counts: Counts) -> None:
    counts.failed += 1
    if warning:
        logger.warning("%s", warning)


def with_progress(blocks: Iterable[Block], count: Callable[[], int]) -> Iterator[Block]:
    """Yield blocks of results, and log how many utterances have been processed: after every tenth, as some programs do.

    Args:
        blocks: the results.
        count: returns the number of utterances up to the end of the last block.
    """
    for block in blocks:
        first = count() - len(block) + 1
        if logger.isEnabledFor(logging.INFO - 2):
            for total, key in enumerate(block.names(), first):
                _log_progress(total)
                vlog(2, "Processed features for key %s", key)
        else:
            for total in range(first + -first % _LOG_EVERY, count() + 1, _LOG_EVERY):
                _log_progress(total)
        yield block


def _log_progress(total: int) -> None:
    if total % _LOG_EVERY == 0:
        logger.info("Processed %d utterances", total)


def for_each(function: BlockFunction, blocks: Iterable[Block], counts: Counts | None = None) -> Counts:
    """Call ``function(block)`` for each block, as :func:`map_table` does, and count without writing a table."""
    counts = counts or Counts()
    for _ in results(function, blocks, counts):
        pass
    return counts


def map_lines(lines: Iterable[str], writer: Sink, function: Callable[[str], Block]) -> Counts:
    """Write the block that ``function(line)`` returns for each line and count; lines that raise Skip are left out."""
    counts = Counts()
    for line in lines:
        try:
            block = function(line)
        except Skip as reason:
            counts.failed += 1
            logger.warning("%s", reason)
        else:
            writer.write_block(block)
            counts.done += 1
    return counts


def raise_with_key(key: str, error: BaseException) -> NoReturn:
    """Raise an error with the key before its message, unless it is an error of a table that names the key."""
    if isinstance(error, ArkError) and error.key is None and key:
        error.key = key
    if isinstance(error, KaldiCompatError) and key:
        raise type(error)(f"{key}: {error}") from error
    raise error


def parts(block: Block) -> Iterator[Block]:
    """Return the parts of a block of several entries, in order."""
    bounds = {len(block) * part // _PARTS for part in range(_PARTS + 1)}
    return block.split(sorted(bounds))


def map_table(blocks: Iterable[Block], writer: Sink, function: BlockFunction, *, progress: bool = False) -> Counts:
    """Write ``function(block)`` for each block of a table, and count the entries with and without a result.

    With ``progress``, log how many results there are (see :func:`with_progress`).
    """
    counts = Counts()
    computed = results(function, blocks, counts)
    for result in with_progress(computed, lambda: counts.done) if progress else computed:
        writer.write_block(result)
    return counts


def features(block: ArrayBlock) -> Matrix:
    """Return the rows of all matrices of a block, (rows, columns).

    Raises:
        Skip: several matrices differ in their columns, or a matrix is empty.
    """
    rows = block.matrix()
    if rows is None:
        rows = only(block, block.values).reshape(block.shapes[0].tolist())
    return rows


def stack_matrices(block: ArrayBlock) -> Matrix:
    """Return the matrices of a block, (entries, rows, columns).

    Raises:
        Skip: several matrices differ in shape, or a matrix is empty.
    """
    matrices = block.stack()
    if matrices is None:
        matrices = only(block, block.values).reshape(1, *block.shapes[0].tolist())
    return matrices


def vectors(block: ArrayBlock) -> Vector:
    """Return the vectors of a block, (entries, length).

    Raises:
        Skip: the vectors of several entries differ in length.
    """
    length = int(block.shapes[0, 0])
    if (block.shapes[:, 0] != length).any():
        raise Skip
    return block.values.reshape(len(block), length)


def only(block: Block, value: Any) -> Any:
    """Return ``value`` if a block has one entry.

    Raises:
        Skip: the block has several entries.
    """
    if len(block) > 1:
        raise Skip
    return value


def are_tables(source: str, target: str) -> bool:
    """Return True if source and target are tables, False if both are single files.

    Raises:
        OptionError: source and target are a table and a file.
    """
    source_is: bool = io_ark.is_table_rspecifier(source)
    target_is: bool = io_ark.is_table_wspecifier(target)
    if source_is != target_is:
        table, file = (source, target) if source_is else (target, source)
        raise OptionError(f"{table} is a table and {file or 'the other'} a single file: use two tables or two files")
    return source_is


def convert(
    function: BlockFunction,
    kind: io_ark.Kind | Codec[Any],
    source: str,
    target: str,
    *,
    binary: bool = True,
    kind_out: io_ark.Kind | Codec[Any] | None = None,
    output_first: bool = False,
) -> Counts:
    """Apply a function to the blocks of a table, or to the object in a single file.

    Args:
        function: takes and returns a block; the key of a single file's object is empty.
        kind: type of the objects, by its name in ``io_ark``, or a codec.
        source: an rspecifier, or a file name.
        target: a wspecifier, or a file name.
        binary: write a single file in binary.
        kind_out: type of the objects that are written; None for ``kind``.
        output_first: open the target table before the source (see :class:`~kaldi_compat.cli.tables.Tables`).

    Raises:
        OptionError: source and target are a table and a file, or a single file has no output.
    """
    if are_tables(source, target):
        return convert_table(function, kind, source, target, kind_out=kind_out, output_first=output_first)
    convert_file(function, io_ark.load(source, kind=kind), source, target, binary=binary, kind_out=kind_out or kind)
    return Counts(done=1)


def convert_file(
    function: BlockFunction,
    value: Any,
    source: str,
    target: str,
    *,
    binary: bool,
    kind_out: io_ark.Kind | Codec[Any] = "matrix",
) -> None:
    """Write the result of a function for the object of a single file.

    Raises:
        OptionError: the function skipped the object.
    """
    try:
        ((_, result),) = function(block_of([""], [value])).entries()
    except Skip as reason:
        raise OptionError(f"{source}: {reason}") from None
    io_ark.save(target, result, kind=kind_out, binary=binary)


def convert_table(
    function: BlockFunction,
    kind: io_ark.Kind | Codec[Any],
    source: str,
    target: str,
    *,
    kind_out: io_ark.Kind | Codec[Any] | None = None,
    output_first: bool = False,
    progress: bool = False,
) -> Counts:
    """Apply a function to the blocks of a table: :func:`convert` for programs without single files."""
    with Tables() as tables:
        writer = tables.write(kind_out or kind, target) if output_first else None
        blocks = tables.read(kind, source)
        return map_table(blocks, writer or tables.write(kind_out or kind, target), function, progress=progress)


def packed_or_same(block: Block, writer: io_ark.Writer[Any]) -> Block:
    """Return the packed form of a block if it has one that the writer accepts; otherwise the block."""
    packed = block.pack()
    return packed if packed is not None and writer.takes_packed(packed.keys) else block
