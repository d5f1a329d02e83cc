"""select-feats: some of the features' dimensions, in any order."""

from __future__ import annotations

import itertools
import re

import io_ark
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import map_table
from kaldi_compat.cli.objects import Matrix
from kaldi_compat.cli.program import NoOptions, program
from kaldi_compat.options.base import require

USAGE = """
Selects dimensions of features, as the Unix command cut selects columns: indices from 0 and ranges, which may run
backwards, separated by commas.

Usage: select-feats [options] <selection> <feats-rspecifier> <feats-wspecifier>
e.g.:  select-feats 0,24-22,3-12 scp:feats.scp ark,scp:selected.ark,selected.scp
"""


@program("select-feats", USAGE)
def main(options: NoOptions, selection: str, source: str, target: str) -> int:
    """Select from each utterance; the dimension is the first utterance's."""
    with io_ark.SequentialReader[Matrix]("matrix", source) as reader:
        entries = iter(reader)
        first = next(entries, None)
        if first is None:
            logger.warning("%s holds no features", source)
            return 0
        columns = selected(selection, first[1].shape[1])
        with io_ark.Writer[Matrix]("matrix", target) as writer:
            map_table(itertools.chain([first], entries), writer, lambda _, feats: feats[:, columns])
    return 0


def selected(selection: str, dim: int) -> list[int]:
    """The columns that a selection names.

    Args:
        selection: indices and ranges, separated by commas.
        dim: the number of columns there are.

    Raises:
        OptionError: it cannot be read, or names a column that is not there.

    >>> selected("0,12-10,3-5", 13)
    [0, 12, 11, 10, 3, 4, 5]
    """
    columns: list[int] = []
    for part in selection.removesuffix(",").split(","):  # Kaldi overlooks one comma at the end
        match = re.fullmatch(r"\s*([0-9]+)\s*(?:-\s*([0-9]+)\s*)?", part, re.ASCII)
        require(match is not None, f"selection {selection!r}: {part!r} is neither an index nor a range such as 3-12")
        assert match is not None
        start, end = _bounds(match[1], match[2])
        require(max(start, end) < dim, f"selection {selection!r}: {part!r} is beyond the features' dimension {dim}")
        columns += range(start, end + 1) if start <= end else range(start, end - 1, -1)
    return columns


def _bounds(start: str, end: str | None) -> tuple[int, int]:
    if end is None:
        return int(start), int(start)
    # Kaldi takes as many characters for the start as the end has, so that its 24-3 means 2-3 (select-feats.cc).
    if len(end) < len(start):
        logger.warning(
            "Kaldi reads the selection %s-%s as %s-%s; so does this program", start, end, start[: len(end)], end
        )
        start = start[: len(end)]
    return int(start), int(end)
