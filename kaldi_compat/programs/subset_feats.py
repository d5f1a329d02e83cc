"""subset-feats: copy the first utterances of a table, those in a list, or those not in a list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import io_ark
from io_ark.codecs.blocks import ArrayBlock
from io_ark.specifier import parse_rspecifier
from io_ark.text import split_words
from kaldi_compat.cli.files import text_lines
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import Collector, Counts, Skip, items_of, map_table
from kaldi_compat.cli.objects import Matrix
from kaldi_compat.cli.program import program
from kaldi_compat.options.base import BaseOptions, option, require

USAGE = """
Copies the features of some utterances: the first n, those in a list, or those not in a list.

Usage: subset-feats [options] <feats-rspecifier> <feats-wspecifier>
e.g.:  subset-feats --n=10 ark:- ark:-
       subset-feats --include=utterances ark:- ark:-
"""

DEFAULT_N = 10


@dataclass(frozen=True, kw_only=True)
class Options(BaseOptions):
    """Options of subset-feats."""

    n: int = option(DEFAULT_N, "copy the first n utterances", ge=1)
    include: str = option("", "file with an utterance to copy at the start of each line")
    exclude: str = option("", "file with an utterance to leave out at the start of each line")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(not (self.include and self.exclude), "--include and --exclude cannot both be given")
        require(
            self.n == DEFAULT_N or not (self.include or self.exclude),
            "--n cannot be combined with --include or --exclude",
        )


@program("subset-feats", USAGE, Options)
def main(options: Options, source: str, target: str) -> int:
    """Copy the subset. As in Kaldi, the status without a list is 0 even for an empty table."""
    has_list = bool(options.include or options.exclude)
    # Of a script file, only the utterances that are copied need to be readable.
    one_by_one = has_list and parse_rspecifier(source).kind == "scp"
    with (
        io_ark.Writer[Matrix]("matrix", target) as writer,
        io_ark.SequentialReader[Matrix]("matrix", source, blocks=not one_by_one) as reader,
    ):
        if not has_list:
            map_table(first_items(items_of(reader), options.n), writer, lambda _, feats: feats, lambda block: block)
            return 0
        listed = first_fields(text_lines(options.include or options.exclude))

        def is_chosen(key: str) -> bool:
            return (key in listed) == bool(options.include)

        def copy(key: str, feats: Any) -> Any:
            if not is_chosen(key):
                raise Skip
            return feats

        def of_block(block: ArrayBlock) -> ArrayBlock:
            return block.chosen(np.array([is_chosen(key) for key in block.names()]))

        if one_by_one:
            counts = Counts()
            with Collector(writer) as collector:
                for key, read in reader.entries():
                    if is_chosen(key):
                        collector[key] = read()
                        counts.done += 1
                    else:
                        counts.failed += 1
        else:
            counts = map_table(reader, writer, copy, of_block)
    logger.info(" Wrote %d out of %d utterances.", counts.done, counts.total)
    return counts.status


def first_items(items: Iterable[Any], count: int) -> Iterator[Any]:
    """Yield the first ``count`` entries of blocks and single entries."""
    for item in items:
        size = 1 if isinstance(item, tuple) else len(item)
        if isinstance(item, ArrayBlock) and size > count:
            yield item.chosen(np.arange(size) < count)
        else:
            yield item
        count -= size
        if count <= 0:
            return


def first_fields(lines: Iterable[str]) -> frozenset[str]:
    """Return the first word of each line."""
    fields = [split_words(line) for line in lines]
    require(all(fields), "the list of utterances has an empty line")
    return frozenset(field[0] for field in fields)
