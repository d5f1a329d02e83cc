"""select-feats: select dimensions of features, in any order."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

import io_ark
from io_ark.codecs.blocks import ArrayBlock
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import items_of, map_table
from kaldi_compat.cli.objects import Matrix
from kaldi_compat.cli.program import NoOptions, program
from kaldi_compat.errors import FeatureError
from kaldi_compat.exact.ragged import select_columns
from kaldi_compat.options.base import require

USAGE = """
Selects dimensions of features, similar to the Unix command cut: comma-separated indices from 0 and ranges, which may
be descending.

Usage: select-feats [options] <selection> <feats-rspecifier> <feats-wspecifier>
e.g.:  select-feats 0,24-22,3-12 scp:feats.scp ark,scp:selected.ark,selected.scp
"""
PLAIN = re.compile(r"\s*[0-9]+\s*(-\s*[0-9]+\s*)?", re.ASCII)  # an index or a range


@program("select-feats", USAGE)
def main(options: NoOptions, selection: str, source: str, target: str) -> int:
    """Select columns of each utterance. The selection must fit the dimension of the first one."""
    with io_ark.SequentialReader[Matrix]("matrix", source, blocks=True) as reader:
        entries: Iterator[Any] = items_of(reader)
        first = next(entries, None)
        if first is None:
            logger.warning("Empty archive provided.")
            return 0
        dim = int(first[1].shape[1] if isinstance(first, tuple) else first.shapes[0, 1])
        columns = selected(selection, dim)

        def of_block(block: ArrayBlock) -> ArrayBlock | None:
            feats = block.matrix()
            if feats is None or feats.shape[1] <= max(columns):
                return None
            return block.with_rows(select_columns(feats, columns))

        with io_ark.Writer[Matrix]("matrix", target) as writer:
            chained = itertools.chain([first], entries)
            map_table(chained, writer, lambda _, feats: picked(feats, columns), of_block)
    return 0


def picked(feats: Matrix, columns: list[int]) -> Matrix:
    """Return these columns of the features.

    Raises:
        FeatureError: the features have fewer columns than the first utterance.
    """
    if max(columns) >= feats.shape[1]:
        raise FeatureError(f"the selection needs {max(columns) + 1} columns, but there are {feats.shape[1]}")
    return feats[:, columns]


def selected(selection: str, dim: int) -> list[int]:
    """Return the columns that a selection names.

    Args:
        selection: indices and ranges, separated by commas.
        dim: number of columns of the features.

    Raises:
        OptionError: a part of the selection is invalid, or names a column that does not exist.

    >>> selected("0,12-10,3-5", 13)
    [0, 12, 11, 10, 3, 4, 5]
    """
    require(selection != "", "No ranges or indices in selection string!")
    columns: list[int] = []
    for part in selection.removesuffix(",").split(","):  # like Kaldi, ignore one comma at the end
        start, end = bounds(part)
        require(0 <= start < dim, f"Invalid range start: {start} in {part!r}: indices are 0 to {dim - 1}")
        require(0 <= end < dim, f"Invalid range end: {end} in {part!r}: indices are 0 to {dim - 1}")
        columns += range(start, end + 1) if start <= end else range(start, end - 1, -1)
    return columns


def bounds(part: str) -> tuple[int, int]:
    """Return the first and last column of a part of a selection, as Kaldi parses it (select-feats.cc).

    Of a range, Kaldi parses as many characters for the start as follow the hyphen, and of each number as much as looks
    like one, or else 0. So its 24-3 means 2-3, and -3 means 0-3. Parts that users may have meant otherwise are logged.

    Raises:
        OptionError: Kaldi's result depends on uninitialized memory.
    """
    before, hyphen, after = part.partition("-")
    if not hyphen:
        start = end = leading_integer(part)
    else:
        require(after != "", f"Invalid range end: there is no number after the hyphen in {part!r}")
        start, end = leading_integer(part[: len(after)]), leading_integer(after)
    as_written = PLAIN.fullmatch(part) and (not hyphen or int(before) == start)
    if not as_written:
        shown = f"{start}-{end}" if hyphen else str(start)
        logger.warning("Kaldi reads the selection %s as %s; so does this program", part, shown)
    return start, end


def leading_integer(text: str) -> int:
    """Return the integer at the start of a string, or 0 if there is none, as C++ streams do."""
    match = re.match(r"\s*([+-]?[0-9]+)", text, re.ASCII)
    return int(match[1]) if match else 0
