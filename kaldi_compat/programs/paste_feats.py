"""paste-feats: append features of several tables frame by frame."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

import io_ark
from io_ark.codecs.blocks import ArrayBlock
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import BlockTable, LookupReader, Skip, lookup, map_table
from kaldi_compat.cli.objects import Matrix
from kaldi_compat.cli.paste import missing, pasted
from kaldi_compat.cli.program import ERROR_STATUS, program
from kaldi_compat.options.base import BaseOptions, option

USAGE = """
Appends features of several tables (or files) to each other, frame by frame.

Usage: paste-feats [options] <feats-rspecifier1> <feats-rspecifier2> [<feats-rspecifier3> ...] <feats-wspecifier>
   or: paste-feats [options] <feats-rxfilename1> <feats-rxfilename2> [<feats-rxfilename3> ...] <feats-wxfilename>
e.g.:  paste-feats ark:feats1.ark "ark:select-feats 0-3 ark:feats2.ark ark:- |" ark:feats-out.ark
       paste-feats foo.mat bar.mat baz.mat
"""


@dataclass(frozen=True, kw_only=True)
class Options(BaseOptions):
    """Options of paste-feats."""

    length_tolerance: int = option(
        0, "truncate to the shortest if numbers of frames differ by at most this; skip others"
    )
    binary: bool = option(True, "write a single file in binary (for tables, the wspecifier decides)")


@program("paste-feats", USAGE, Options, at_least=3)
def main(options: Options, source: str, *others_and_target: str) -> int:
    """Paste tables, or single files."""
    *others, target = others_and_target
    if not io_ark.is_table_rspecifier(source):
        return paste_files(options, [source, *others], target)
    with ExitStack() as stack:
        writer = stack.enter_context(io_ark.Writer[Matrix]("matrix", target))
        reader = stack.enter_context(io_ark.SequentialReader[Matrix]("matrix", source, blocks=True))
        tables = [(name, BlockTable(stack.enter_context(LookupReader[Matrix]("matrix", name)))) for name in others]

        def paste(key: str, feats: Matrix) -> Matrix:
            parts = [feats, *(lookup(key, other, missing(key, name)) for name, other in tables)]
            return pasted(parts, options.length_tolerance, key)

        def of_block(block: ArrayBlock) -> ArrayBlock | None:
            feats, names, parts = block.matrix(), block.names(), []
            if options.length_tolerance < 0:  # refuses equal lengths, too
                return None
            found = [table.values(names) for _, table in tables]
            for matrices in found:
                if feats is None or matrices is None or len({each.shape[1] for each in matrices}) > 1:
                    return None
                if not np.array_equal([len(each) for each in matrices], block.shapes[:, 0]):
                    return None
                parts.append(np.concatenate(matrices))
            return None if feats is None else block.with_rows(np.concatenate([feats, *parts], axis=1))

        counts = map_table(reader, writer, paste, of_block)
    logger.info("Done %d utts, errors on %d", counts.done, counts.failed)
    return 0 if counts.done else ERROR_STATUS


def paste_files(options: Options, sources: Sequence[str], target: str) -> int:
    """Paste single files."""
    try:
        feats = pasted([io_ark.read_object("matrix", name) for name in sources], options.length_tolerance)
    except Skip as reason:
        logger.warning("%s", reason)
        return 1
    io_ark.write_object("matrix", target, feats, binary=options.binary)
    logger.info("Wrote appended features to %s", target)
    return 0
