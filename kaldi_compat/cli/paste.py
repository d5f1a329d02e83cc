"""Shared code of the programs that combine entries of several tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.blocks import ArrayBlock, Skip
from kaldi_compat.cli.log import vlog
from kaldi_compat.cli.objects import Matrix
from kaldi_compat.cli.tables import LookupReader, Tables

Array = npt.NDArray[Any]


class OtherTables:
    """The tables whose entries are combined with those of the first table."""

    def __init__(self, tables: Tables, kind: Any, names: Sequence[str]) -> None:
        self._tables: list[tuple[str, LookupReader[Array]]] = [(name, tables.lookup(kind, name)) for name in names]

    def find(self, block: ArrayBlock) -> list[list[Array]]:
        """Return the arrays of each entry of a block: its own, then those of each table under the same keys.

        Raises:
            Skip: a table lacks a key; with Kaldi's warning.
        """
        others = [
            table.find(block, lambda key, name=name: f"Missing utt {key} from input {name}")  # type: ignore[misc]
            for name, table in self._tables
        ]
        return [[array for _, array in block.entries()], *others]


def common_lengths(parts: Sequence[Sequence[Array]], tolerance: int, keys: Sequence[str]) -> list[int]:
    """Return the smallest length of the arrays of each entry.

    Args:
        parts: of each table, the array of each entry.
        tolerance: by how much the lengths of an entry's arrays may differ.
        keys: of the entries.

    Raises:
        Skip: lengths differ by more than the tolerance, or one is zero.
    """
    lengths = np.array([[len(array) for array in arrays] for arrays in parts])
    shortest, longest = lengths.min(axis=0), lengths.max(axis=0)
    differ = np.flatnonzero(longest > shortest).tolist()

    def mismatch(entry: int) -> str:
        key = f" for utt {keys[entry]}" if keys[entry] else ""
        return f"Length mismatch {longest[entry]} vs. {shortest[entry]}{key}"

    if ((longest - shortest > tolerance) | (shortest == 0)).any():
        raise Skip(f"{mismatch(0)} exceeds tolerance {tolerance}")
    for entry in differ:
        vlog(2, "%s within tolerance %d", mismatch(entry), tolerance)
    common: list[int] = shortest.tolist()
    return common


def joined(arrays: Iterable[Array], lengths: Iterable[int]) -> Array:
    """Concatenate arrays, each cut to a length. One that is alone is not copied."""
    parts = [array[:length] for array, length in zip(arrays, lengths, strict=True)]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def pasted(
    parts: Sequence[Sequence[Matrix]], tolerance: int, keys: Sequence[str]
) -> tuple[Matrix, npt.NDArray[np.int64]]:
    """Concatenate the columns of matrices, cut to the rows of the shortest one.

    Args:
        parts: of each table, the matrix of each entry.
        tolerance: by how much the numbers of rows of an entry's matrices may differ.
        keys: of the entries.

    Returns:
        The rows of all results, and how many each has.

    Raises:
        Skip: the numbers of rows differ by more than the tolerance, or a matrix has no rows; or the matrices of a table
            differ in their columns.
    """
    if any(len({matrix.shape[1] for matrix in matrices}) > 1 for matrices in parts):
        raise Skip
    lengths = common_lengths(parts, tolerance, keys)
    return np.concatenate([joined(each, lengths) for each in parts], axis=1), np.array(lengths)
