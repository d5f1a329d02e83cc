"""Combine entries of several tables, for paste-feats, paste-vectors, multiply-vectors and append programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import io_ark
from io_ark.blocks import ArrayBlock, Skip
from kaldi_compat.cli.log import log_verbose, logger
from kaldi_compat.cli.loop import Counts, map_table
from kaldi_compat.cli.objects import Matrix
from kaldi_compat.cli.program import ERROR_STATUS
from kaldi_compat.cli.tables import LookupReader, Tables

Array = npt.NDArray[Any]
# Function from the arrays of each table and the keys to the concatenated values of all results, and their lengths.
Combine = Callable[[Sequence[Sequence[Array]], Sequence[str]], tuple[Array, npt.NDArray[np.int64]]]


def combine_tables(kind: Any, source: str, others: Sequence[str], target: str, combine: Combine) -> int:
    """Combine the entries of tables by key, write the results to the table ``target``, and return the exit status.

    The status is 0 if there is a result, otherwise 255. The keys are the keys of the table ``source``, and ``others``
    are the other tables. ``combine`` combines the objects of kind ``kind`` of a block of entries (see :data:`Combine`).
    """
    with Tables() as tables:
        writer, blocks = tables.open_writer(kind, target), tables.read(kind, source)
        lookups: list[tuple[str, LookupReader[Array]]] = [(name, tables.open_lookup(kind, name)) for name in others]

        def combine_block(block: ArrayBlock) -> ArrayBlock:
            """Combine each entry of a block with the entries that the other tables have under its key."""
            other_arrays = [
                table.require_values(block, lambda key, name=name: f"Missing utt {key} from input {name}")  # type: ignore[misc]
                for name, table in lookups
            ]
            values, lengths = combine([[array for _, array in block.entries()], *other_arrays], block.decode_keys())
            return block.with_vectors(values, lengths) if values.ndim == 1 else block.with_rows(values, lengths)

        counts = map_table(blocks, writer, combine_block)
    return log_status(counts)


def combine_files(kind: Any, sources: Sequence[str], target: str, combine: Combine, *, binary: bool, label: str) -> int:
    """Combine the objects of single files, write the result to the file ``target``, and return the exit status.

    The status is 1, after a warning, if the objects cannot be combined, and otherwise 0. ``combine`` combines the
    objects of kind ``kind`` as if they were one entry of tables (see :data:`Combine`). ``label`` names the result in
    the log.
    """
    arrays = [io_ark.load(name, kind=kind) for name in sources]
    try:
        result, _ = combine([[array] for array in arrays], [""])
    except Skip as reason:
        logger.warning("%s", reason)
        return 1
    io_ark.save(target, result, kind=kind, binary=binary)
    logger.info("Wrote %s to %s", label, target)
    return 0


def log_status(counts: Counts) -> int:
    """Log the numbers of utterances with and without a result. Return 0 if there is a result, otherwise 255."""
    logger.info("Done %d utts, errors on %d", counts.done, counts.failed)
    return 0 if counts.done else ERROR_STATUS


def find_common_lengths(tables: Sequence[Sequence[Array]], tolerance: int, keys: Sequence[str]) -> list[int]:
    """Return the length of the shortest array of each entry. Log lengths that differ within the tolerance.

    Args:
        tables: one list per table, with the array of each entry.
        tolerance: maximum difference between the lengths of an entry's arrays.
        keys: keys of the entries, for messages.

    Raises:
        Skip: lengths differ by more than the tolerance, or an array is empty.
    """
    lengths = np.array([[len(array) for array in arrays] for arrays in tables])
    shortest, longest = lengths.min(axis=0), lengths.max(axis=0)
    unequal_entries = np.flatnonzero(longest > shortest).tolist()

    def describe_mismatch(entry: int) -> str:
        """Describe the longest and the shortest array of the entry with the index ``entry``."""
        key = f" for utt {keys[entry]}" if keys[entry] else ""
        return f"Length mismatch {longest[entry]} vs. {shortest[entry]}{key}"

    if ((longest - shortest > tolerance) | (shortest == 0)).any():
        # A block of several entries is split, so that in the end the message is about its only entry.
        raise Skip(f"{describe_mismatch(0)} exceeds tolerance {tolerance}")
    for entry in unequal_entries:
        log_verbose(2, "%s within tolerance %d", describe_mismatch(entry), tolerance)
    common_lengths: list[int] = shortest.tolist()
    return common_lengths


def join_arrays(arrays: Iterable[Array], lengths: Iterable[int]) -> Array:
    """Cut arrays to their ``lengths``, and concatenate them along the first axis. A single array is not copied."""
    parts = [array[:length] for array, length in zip(arrays, lengths, strict=True)]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def paste_columns(
    tables: Sequence[Sequence[Matrix]], keys: Sequence[str], *, tolerance: int
) -> tuple[Matrix, npt.NDArray[np.int64]]:
    """Truncate the matrices of each entry to the number of rows of the shortest matrix, and concatenate their columns.

    Args:
        tables: one list per table, with the matrix of each entry.
        keys: keys of the entries, for messages.
        tolerance: maximum difference between the numbers of rows of an entry's matrices.

    Returns:
        The rows of all results, (rows, columns), and the number of rows of each result, (entries,).

    Raises:
        Skip: the numbers of rows differ by more than the tolerance, a matrix has no rows, or the matrices of a table
            have different numbers of columns.
    """
    if any(len({matrix.shape[1] for matrix in matrices}) > 1 for matrices in tables):
        raise Skip  # An empty Skip asks the caller to split the block.
    lengths = find_common_lengths(tables, tolerance, keys)
    return np.concatenate([join_arrays(matrices, lengths) for matrices in tables], axis=1), np.array(lengths)
