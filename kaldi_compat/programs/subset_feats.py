"""subset-feats: the first few utterances of a table, or those in a list, or those that are not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import io_ark
from io_ark.text import split_words
from kaldi_compat.cli.files import text_lines
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import Skip, map_table
from kaldi_compat.cli.objects import Matrix
from kaldi_compat.cli.program import program
from kaldi_compat.options.base import option, require

USAGE = """
Copies the features of some utterances: the first n, or those that a file lists, or those that it does not list.

Usage: subset-feats [options] <feats-rspecifier> <feats-wspecifier>
e.g.:  subset-feats --n=10 ark:- ark:-
       subset-feats --include=utterances ark:- ark:-
"""

DEFAULT_N = 10


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of subset-feats."""

    n: int = option(DEFAULT_N, "copy the first n utterances")
    include: str = option("", "file whose lines start with the utterances to copy")
    exclude: str = option("", "file whose lines start with the utterances to leave out")

    def __post_init__(self) -> None:
        require(self.n >= 1, f"--n={self.n}: must be at least 1")
        require(not (self.include and self.exclude), "--include and --exclude cannot both be given")
        require(
            self.n == DEFAULT_N or not (self.include or self.exclude), "--n goes with neither --include nor --exclude"
        )


@program("subset-feats", USAGE, Options)
def main(options: Options, source: str, target: str) -> int:
    """Copy the subset; success without a list, even of an empty table, as in Kaldi."""
    with io_ark.Writer[Matrix]("matrix", target) as writer, io_ark.SequentialReader[Matrix]("matrix", source) as reader:
        if not options.include and not options.exclude:
            map_table(islice(reader, options.n), writer, lambda _, feats: feats)
            return 0
        listed = first_fields(text_lines(options.include or options.exclude))

        def copy(key: str, feats: Any) -> Any:
            if (key in listed) != bool(options.include):
                raise Skip
            return feats

        counts = map_table(reader, writer, copy)
    logger.info("Wrote %d out of %d utterances.", counts.done, counts.total)
    return counts.status


def first_fields(lines: Iterable[str]) -> frozenset[str]:
    """The first word of each line."""
    fields = [split_words(line) for line in lines]
    require(all(fields), "the list of utterances has an empty line")
    return frozenset(field[0] for field in fields)
