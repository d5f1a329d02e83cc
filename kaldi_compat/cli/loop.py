"""Apply functions to tables: a program is a function from blocks of entries to blocks of results.

A function that works on all entries of a block at once may refuse a block by raising :class:`Skip` or an error. The
loop then splits the block, and splits refused parts again, until each refused entry is alone in its block. The warning
or error is logged with the entry's key, after the results of earlier entries. Therefore, a function needs no second
body for unusual entries, but it must not change state or log anything before it refuses a block. To process one entry
at a time, use :meth:`io_ark.blocks.Block.map`. A single file is a block of one entry.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import Any, NoReturn, Protocol

import io_ark
from io_ark.blocks import ArrayBlock, Block, MapError, Skip, create_block
from io_ark.codecs import Codec
from io_ark.errors import ArkError
from kaldi_compat.cli.log import log_verbose, logger
from kaldi_compat.cli.objects import Matrix, Vector
from kaldi_compat.cli.tables import Missing, Tables
from kaldi_compat.errors import KaldiCompatError, OptionError

BlockFunction = Callable[[Any], Block]
# Number of parts that a refused block is divided into. With fewer parts, finding a single refused entry takes longer.
# With more parts, a block whose entries are all refused takes longer.
_PARTS = 8
_LOG_EVERY = 10  # Number of utterances after which progress is logged, as in Kaldi.


class Sink(Protocol):
    """Destination of blocks of entries, such as a writer."""

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
        """Exit status of most of Kaldi's programs: 0 if at least one entry has an output, else 1."""
        return 0 if self.done else 1


def compute_results(function: BlockFunction, blocks: Iterable[Block], counts: Counts) -> Iterator[Block]:
    """Yield ``function(block)`` for blocks, or for parts of blocks, and count entries with and without a result.

    If the function raises Skip or an error for a block of several entries, the block is split. If it raises Skip for a
    single entry, the entry is skipped with a warning. ``counts`` is updated before each result is yielded.

    Raises:
        KaldiCompatError, ArkError: the function raised it for one entry. The message names the key of the entry.
            Earlier results have been yielded.
    """
    for block in blocks:
        try:
            result = function(block)
        except MapError as error:  # The function has mapped the entries before an entry that caused an error.
            counts.done += len(error.done)
            counts.failed += error.skipped
            yield error.done
            raise_with_key(error.key, error.__cause__ or error)
        except (Skip, KaldiCompatError, ArkError) as refusal:
            if isinstance(refusal, Missing) and len(refusal.warnings) == len(block):
                yield from _compute_around_missing(refusal.warnings, function, block, counts)
            elif len(block) > 1:
                yield from compute_results(function, split_block(block), counts)
            elif isinstance(refusal, Skip):
                _skip_entry(str(refusal), counts)
            else:
                raise_with_key(block.decode_keys()[0], refusal)
        else:
            counts.done += len(result)
            counts.failed += len(block) - len(result)
            yield result


def _compute_around_missing(
    warnings: list[str | None], function: BlockFunction, block: Block, counts: Counts
) -> Iterator[Block]:
    """Yield results for the entries with None in ``warnings`` (one item per entry). Log the other entries' warnings."""
    runs = [list(run) for _, run in groupby(warnings, lambda warning: warning is None)]
    bounds = accumulate(map(len, runs), initial=0)
    for run, part in zip(runs, block.split([*bounds]), strict=True):
        if run[0] is None:  # The entries of a run are all present or all missing.
            yield from compute_results(function, [part], counts)
        else:
            for warning in run:
                _skip_entry(warning or "", counts)


def _skip_entry(warning: str, counts: Counts) -> None:
    """Count an entry as failed, and log the warning unless it is empty."""
    counts.failed += 1
    if warning:
        logger.warning("%s", warning)


def log_progress(blocks: Iterable[Block], count: Callable[[], int]) -> Iterator[Block]:
    """Yield blocks of results, and log the number of processed utterances after every tenth utterance.

    With ``--verbose=2``, also log the keys. ``count`` returns the number of utterances up to the end of the current
    block.
    """
    for block in blocks:
        first = count() - len(block) + 1
        if logger.isEnabledFor(logging.INFO - 2):
            for total, key in enumerate(block.decode_keys(), first):
                _log_every_tenth(total)
                log_verbose(2, "Processed features for key %s", key)
        else:
            next_multiple = first + -first % _LOG_EVERY  # The smallest multiple of _LOG_EVERY that is at least `first`.
            for total in range(next_multiple, count() + 1, _LOG_EVERY):
                _log_every_tenth(total)
        yield block


def _log_every_tenth(total: int) -> None:
    if total % _LOG_EVERY == 0:
        logger.info("Processed %d utterances", total)


def visit_blocks(function: BlockFunction, blocks: Iterable[Block], counts: Counts | None = None) -> Counts:
    """Call ``function(block)`` for each block, and discard the results. Return the updated, or new, ``counts``."""
    counts = counts or Counts()
    for _ in compute_results(function, blocks, counts):
        pass
    return counts


def map_lines(lines: Iterable[str], writer: Sink, function: Callable[[str], Block]) -> Counts:
    """Write the block ``function(line)`` for each line, and return the numbers of lines with and without a block.

    A line for which the function raises Skip has no block, and the exception's message is logged as a warning.
    """
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
    """Raise an error of an entry, after adding the key to its message.

    Errors of other libraries, ArkErrors that already have a key, and all errors if ``key`` is "" are raised unchanged.
    """
    if isinstance(error, ArkError) and error.key is None and key:
        error.key = key
    if isinstance(error, KaldiCompatError) and key:
        raise type(error)(f"{key}: {error}") from error
    raise error


def split_block(block: Block) -> Iterator[Block]:
    """Split a block of several entries into at most :data:`_PARTS` parts, in order."""
    bounds = {len(block) * part // _PARTS for part in range(_PARTS + 1)}
    return block.split(sorted(bounds))


def map_table(blocks: Iterable[Block], writer: Sink, function: BlockFunction, *, progress: bool = False) -> Counts:
    """Write ``function(block)`` for each block of a table, and return the numbers of entries with and without a result.

    If ``progress`` is True, log the number of results (see :func:`log_progress`).
    """
    counts = Counts()
    results = compute_results(function, blocks, counts)
    if progress:
        results = log_progress(results, lambda: counts.done)
    for result in results:
        writer.write_block(result)
    return counts


def stack_rows(block: ArrayBlock) -> Matrix:
    """Return the rows of all matrices of a block as one matrix, (rows, columns).

    Raise Skip if a block of several matrices has different numbers of columns or an empty matrix.
    """
    rows = block.join_rows()
    if rows is None:
        rows = require_one_entry(block, block.values).reshape(block.shapes[0].tolist())
    return rows


def stack_matrices(block: ArrayBlock) -> Matrix:
    """Return the matrices of a block as one array, (entries, rows, columns).

    Raise Skip if a block of several matrices has different shapes or an empty matrix.
    """
    matrices = block.stack()
    if matrices is None:
        matrices = require_one_entry(block, block.values).reshape(1, *block.shapes[0].tolist())
    return matrices


def stack_vectors(block: ArrayBlock) -> Vector:
    """Return the vectors of a block as one array, (entries, length). Raise Skip if the vectors differ in length."""
    length = int(block.shapes[0, 0])
    if (block.shapes[:, 0] != length).any():
        raise Skip  # An empty Skip asks the caller to split the block.
    return block.values.reshape(len(block), length)


def require_one_entry(block: Block, value: Any) -> Any:
    """Return ``value``. Raise Skip if the block has several entries, so that the caller splits the block."""
    if len(block) > 1:
        raise Skip  # An empty Skip asks the caller to split the block.
    return value


def are_tables(source: str, target: str) -> bool:
    """Return True if both arguments are tables, and False if both are files. Otherwise, raise :class:`OptionError`."""
    reads_table: bool = io_ark.is_table_rspecifier(source)
    writes_table: bool = io_ark.is_table_wspecifier(target)
    if reads_table != writes_table:
        table, file = (source, target) if reads_table else (target, source)
        raise OptionError(
            f"{table} is a table, but {file or 'the other argument'} is a single file: use two tables or two files"
        )
    return reads_table


def convert_table_or_file(
    function: BlockFunction,
    kind: io_ark.Kind | Codec[Any],
    source: str,
    target: str,
    *,
    binary: bool = True,
    kind_out: io_ark.Kind | Codec[Any] | None = None,
    output_first: bool = False,
) -> Counts:
    """Apply a function to a table or a single file, and return the numbers of entries with and without a result.

    Args:
        function: function from a block to a block of results. The object in a single file has the file's name as key.
        kind: type of the objects, by its name in ``io_ark``, or a codec.
        source: rspecifier or file name of the input.
        target: wspecifier or file name of the output.
        binary: True to write a single file in binary format.
        kind_out: type of the output's objects; the same as ``kind`` if None.
        output_first: True to open the target table before the source (see :class:`~kaldi_compat.cli.tables.Tables`).

    Raises:
        OptionError: only one of source and target is a table, or the function skipped the object of a single file.
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
    """Write the result of ``function`` for ``value``, which was read from the file ``source``, to the file ``target``.

    For ``binary`` and ``kind_out``, see :func:`convert_table_or_file`. Raise OptionError if the function skips the
    object.
    """
    try:
        key = source.replace("\n", " ") or "-"  # The name of the file is the key in errors. A key must not be empty.
        ((_, result),) = function(create_block([key], [value])).entries()
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
    """Apply a function to the blocks of a table, and return the numbers of entries with and without a result.

    With ``progress``, log the number of results (see :func:`map_table`). For the other arguments, see
    :func:`convert_table_or_file`.
    """
    with Tables() as tables:
        writer = tables.open_writer(kind_out or kind, target) if output_first else None
        blocks = tables.read(kind, source)
        return map_table(blocks, writer or tables.open_writer(kind_out or kind, target), function, progress=progress)


def pack_if_possible(block: Block, writer: io_ark.Writer[Any]) -> Block:
    """Return the packed block, for faster writing, or ``block`` if the block or the writer does not support packing."""
    packed = block.pack()
    return packed if packed is not None and writer.takes_packed(packed.keys) else block
