"""select-feats: select dimensions of features, in any order."""

import itertools
import re

from io_ark.blocks import ArrayBlock
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import features, map_table
from kaldi_compat.cli.program import NoOptions, program
from kaldi_compat.cli.tables import Tables
from kaldi_compat.errors import FeatureError
from kaldi_compat.functional.columns import select_columns
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
    """Select columns of each utterance. The selection must fit the dimension of the first matrix."""
    with Tables() as tables:
        blocks = tables.read("matrix", source)
        first = next(blocks, None)
        if first is None:
            logger.warning("Empty archive provided.")
            return 0
        columns = parse_selection(selection, int(first.shapes[0, 1]))
        blocks = itertools.chain([first], blocks)
        map_table(blocks, tables.write("matrix", target), lambda block: pick_columns(block, columns))
    return 0


def pick_columns(block: ArrayBlock, columns: list[int]) -> ArrayBlock:
    """Return these columns of the features.

    Raises:
        FeatureError: the features have fewer columns than the first utterance.
    """
    feats = features(block)
    if max(columns) >= feats.shape[1]:
        raise FeatureError(f"the selection needs {max(columns) + 1} columns, but there are {feats.shape[1]}")
    return block.with_rows(select_columns(feats, columns))


def parse_selection(selection: str, dim: int) -> list[int]:
    """Return the columns that a selection names.

    Args:
        selection: indices and ranges, separated by commas.
        dim: number of columns of the features.

    Raises:
        OptionError: a part of the selection is invalid, or names a column that does not exist.

    >>> parse_selection("0,12-10,3-5", 13)
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

    Kaldi parses the start of a range from as many characters as follow the hyphen. It parses the longest prefix that is
    a number, or else 0. So its 24-3 means 2-3, and -3 means 0-3. Parts that users may have meant otherwise are logged.

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
    """Return the integer at the start of a string, or 0 if there is none, as C++ streams do.

    Raises:
        OptionError: the string is blank, and Kaldi would read memory that is not set.
    """
    require(text.strip(" \t\n\v\f\r") != "", "Invalid selection: a number is missing before or after a comma or hyphen")
    match = re.match(r"\s*([+-]?[0-9]+)", text, re.ASCII)
    return int(match[1]) if match else 0
