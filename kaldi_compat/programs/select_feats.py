"""select-feats: select dimensions of features, in any order."""

import itertools
import re

from io_ark.blocks import ArrayBlock
from io_ark.text import parse_integer
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import map_table, stack_rows
from kaldi_compat.cli.program import NoOptions, program
from kaldi_compat.cli.tables import Tables
from kaldi_compat.errors import FeatureError
from kaldi_compat.functional.columns import select_columns
from kaldi_compat.options.base import require

USAGE = """
Selects dimensions of features, similar to the Unix command cut. A selection has comma-separated indices from 0 and
ranges, which may be descending.

Usage: select-feats [options] <selection> <feats-rspecifier> <feats-wspecifier>
e.g.:  select-feats 0,24-22,3-12 scp:feats.scp ark,scp:selected.ark,selected.scp
"""
PLAIN = re.compile(r"\s*[0-9]+\s*(-\s*[0-9]+\s*)?", re.ASCII)  # An index or a range of indices, such as "3" or "0-12".


@program("select-feats", USAGE)
def main(options: NoOptions, selection: str, source: str, target: str) -> int:
    """Select columns, and return the exit status 0. Raise OptionError if the first utterance lacks a column."""
    with Tables() as tables:
        blocks = tables.read("matrix", source)
        first_block = next(blocks, None)
        if first_block is None:
            logger.warning("Empty archive provided.")
            return 0
        columns = parse_selection(selection, int(first_block.shapes[0, 1]))
        blocks = itertools.chain([first_block], blocks)
        map_table(blocks, tables.open_writer("matrix", target), lambda block: pick_columns(block, columns))
    return 0


def pick_columns(block: ArrayBlock, columns: list[int]) -> ArrayBlock:
    """Select the features' columns in the order of ``columns``. Raise FeatureError if a column does not exist."""
    feats = stack_rows(block)
    if max(columns) >= feats.shape[1]:
        raise FeatureError(
            f"the selection needs features of dimension {max(columns) + 1} or more, not {feats.shape[1]}: correct the "
            "selection"
        )
    return block.with_rows(select_columns(feats, columns))


def parse_selection(selection: str, dim: int) -> list[int]:
    """Return the columns that a selection names: 0, 12, 11 and 10 for ``0,12-10``.

    Args:
        selection: indices and ranges, separated by commas.
        dim: number of columns of the features.

    Raises:
        OptionError: a part of the selection is invalid, or names a column that does not exist.
    """
    require(selection != "", "No ranges or indices in selection string!")
    columns: list[int] = []
    for part in selection.removesuffix(",").split(","):  # As in Kaldi, a comma at the end is ignored.
        start, end = parse_range(part)
        require(0 <= start < dim, f"Invalid range start: {start} in {part!r}: indices are 0 to {dim - 1}")
        require(0 <= end < dim, f"Invalid range end: {end} in {part!r}: indices are 0 to {dim - 1}")
        columns += range(start, end + 1) if start <= end else range(start, end - 1, -1)
    return columns


def parse_range(part: str) -> tuple[int, int]:
    """Return the first and last column of a part of a selection, as Kaldi parses it (select-feats.cc).

    Kaldi parses the start of a range from only as many characters as follow the hyphen, and a missing number as 0.
    Therefore, 24-3 means 2-3, and -3 means 0-3. A warning is logged if the result differs from the part as written.

    Raises:
        OptionError: the text of a number is blank, so that Kaldi's result depends on uninitialized memory.
    """
    start_text, hyphen, end_text = part.partition("-")
    if not hyphen:
        start = end = parse_leading_integer(part)
    else:
        require(end_text != "", f"Invalid range end: there is no number after the hyphen in {part!r}")
        start, end = parse_leading_integer(part[: len(end_text)]), parse_leading_integer(end_text)
    is_as_written = PLAIN.fullmatch(part) and (not hyphen or parse_integer(start_text) == start)
    if not is_as_written:
        kaldis_range = f"{start}-{end}" if hyphen else str(start)
        logger.warning("Kaldi reads the selection %s as %s; so does this program", part, kaldis_range)
    return start, end


def parse_leading_integer(text: str) -> int:
    """Return the integer at the start of a string, or 0 if there is none, as C++ streams do.

    Raises:
        OptionError: the string is blank, for which Kaldi's result depends on uninitialized memory.
    """
    require(text.strip(" \t\n\v\f\r") != "", "Invalid selection: a number is missing before or after a comma or hyphen")
    match = re.match(r"\s*([+-]?[0-9]+)", text, re.ASCII)
    return parse_integer(match[1]) if match else 0
