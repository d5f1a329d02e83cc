"""shift-feats: shift features in time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import io_ark
from io_ark.codecs.blocks import ArrayBlock
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import Skip, convert
from kaldi_compat.cli.objects import Matrix
from kaldi_compat.cli.program import program
from kaldi_compat.options.base import BaseOptions, option

USAGE = """
Shifts features in time, keeping the number of frames: the first or last frame is repeated.

Usage: shift-feats [options] <feats-rspecifier> <feats-wspecifier>
   or: shift-feats [options] <feats-rxfilename> <feats-wxfilename>
e.g.:  shift-feats --shift=-1 scp:foo.scp ark:bar.ark
       shift-feats --shift=1 foo.mat bar.mat
"""


@dataclass(frozen=True, kw_only=True)
class Options(BaseOptions):
    """Options of shift-feats."""

    shift: int = option(0, "number of frames by which the features move towards the end")
    binary: bool = option(True, "write a single file in binary (for tables, the wspecifier decides)")


@program("shift-feats", USAGE, Options)
def main(options: Options, source: str, target: str) -> int:
    """Shift a table, or a single file."""

    def of_block(block: ArrayBlock) -> ArrayBlock | None:
        feats = block.matrix()
        if feats is None:
            return None
        first, end = np.repeat(block.rows()[:-1], block.shapes[:, 0]), np.repeat(block.rows()[1:], block.shapes[:, 0])
        return block.with_rows(feats[np.clip(np.arange(len(feats)) - options.shift, first, end - 1)])

    counts = convert(
        "matrix",
        source,
        target,
        lambda key, m: shifted(m, options.shift, key),
        binary=options.binary,
        block_function=of_block,
    )
    if io_ark.is_table_wspecifier(target):
        logger.info("Shifted %d features by %d frames; %d with errors.", counts.done, options.shift, counts.failed)
    return counts.status


def shifted(matrix: Matrix, shift: int, key: str = "") -> Matrix:
    """Shift rows: row ``r`` of the result is row ``r - shift``, limited to the first and last row.

    Raises:
        Skip: the matrix is empty.
    """
    if len(matrix) == 0:
        raise Skip(f"Empty matrix for key {key}" if key else "Empty input matrix")
    return matrix[np.clip(np.arange(len(matrix)) - shift, 0, len(matrix) - 1)]
