"""subset-feats: copy the first utterances of a table, those in a list, or those not in a list."""

from collections.abc import Iterable, Iterator

import numpy as np

from io_ark.blocks import Block
from io_ark.text import split_words
from kaldi_compat.cli.files import read_lines
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import map_table
from kaldi_compat.cli.program import program
from kaldi_compat.cli.tables import Tables
from kaldi_compat.errors import OptionError
from kaldi_compat.options.base import BaseOptions, require
from kaldi_compat.options.declaration import option

USAGE = """
Copies the features of some utterances. These are the first n utterances, the utterances in a list, or the utterances
that are not in a list.

Usage: subset-feats [options] <feats-rspecifier> <feats-wspecifier>
e.g.:  subset-feats --n=10 ark:- ark:-
       subset-feats --include=utterances ark:- ark:-
"""

DEFAULT_N = 10


class Options(BaseOptions):
    n: int = option(DEFAULT_N, "copy the first n utterances", ge=1)
    include: str = option("", "file with an utterance to copy at the start of each line")
    exclude: str = option("", "file with an utterance to leave out at the start of each line")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(not (self.include and self.exclude), "--include and --exclude exclude each other: set one of them")
        require(
            self.n == DEFAULT_N or not (self.include or self.exclude),
            "--n cannot be combined with --include or --exclude: remove one of them",
        )


@program("subset-feats", USAGE, Options)
def main(options: Options, source: str, target: str) -> int:
    """Copy the first entries (status 0, as in Kaldi), or the entries that a list selects (status 1 without output)."""
    with Tables() as tables:
        writer = tables.open_writer("matrix", target)
        if not (options.include or options.exclude):
            map_table(take_first_entries(tables.read("matrix", source), options.n), writer, lambda block: block)
            return 0
        listed_keys = read_first_fields(options.include or options.exclude)

        def is_chosen(key: str) -> bool:
            return (key in listed_keys) == bool(options.include)

        def select_chosen_entries(block: Block) -> Block:
            return block.select(np.array([is_chosen(key) for key in block.decode_keys()]))

        counts = map_table(tables.read("matrix", source, is_chosen), writer, select_chosen_entries)
    logger.info(" Wrote %d out of %d utterances.", counts.done, counts.total)
    return counts.status


def take_first_entries(blocks: Iterable[Block], count: int) -> Iterator[Block]:
    """Yield blocks of the first ``count`` entries of a table."""
    for block in blocks:
        yield block.select(np.arange(len(block)) < count)
        count -= len(block)
        if count <= 0:
            return


def read_first_fields(rxfilename: str) -> frozenset[str]:
    """Return the set of the first fields of the lines of a file. Raise :class:`OptionError` if a line is empty."""
    lines = [split_words(line) for line in read_lines(rxfilename)]
    if [] in lines:
        raise OptionError(f"line {lines.index([]) + 1} of {rxfilename} is empty: remove the line")
    return frozenset(fields[0] for fields in lines)
