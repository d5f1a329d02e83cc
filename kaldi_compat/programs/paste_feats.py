"""paste-feats: append features of several tables frame by frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import io_ark
from io_ark.blocks import ArrayBlock, Skip
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import map_table
from kaldi_compat.cli.paste import OtherTables, pasted
from kaldi_compat.cli.program import ERROR_STATUS, program
from kaldi_compat.cli.tables import Tables
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
    with Tables() as tables:
        writer, blocks = tables.write("matrix", target), tables.read("matrix", source)
        parts = OtherTables(tables, "matrix", others)

        def paste(block: ArrayBlock) -> ArrayBlock:
            return block.with_rows(*pasted(parts.find(block), options.length_tolerance, block.names()))

        counts = map_table(blocks, writer, paste)
    logger.info("Done %d utts, errors on %d", counts.done, counts.failed)
    return 0 if counts.done else ERROR_STATUS


def paste_files(options: Options, sources: Sequence[str], target: str) -> int:
    """Paste single files."""
    matrices = [io_ark.read_object("matrix", name) for name in sources]
    try:
        result, _ = pasted([[each] for each in matrices], options.length_tolerance, [""])
    except Skip as reason:
        logger.warning("%s", reason)
        return 1
    io_ark.write_object("matrix", target, result, binary=options.binary)
    logger.info("Wrote appended features to %s", target)
    return 0
