"""subsample-feats: keep every n-th frame, or repeat each frame."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from io_ark.codecs.blocks import ArrayBlock
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import Skip, convert_table
from kaldi_compat.cli.objects import Matrix
from kaldi_compat.cli.program import program
from kaldi_compat.options.base import BaseOptions, option, require

USAGE = """
Keeps every n-th frame of features; with a negative n, repeats each frame -n times.

Usage: subsample-feats [options] <feats-rspecifier> <feats-wspecifier>
e.g.:  subsample-feats --n=2 ark:- ark:-
"""


@dataclass(frozen=True, kw_only=True)
class Options(BaseOptions):
    """Options of subsample-feats."""

    n: int = option(1, "keep every n-th frame; negative: repeat each frame -n times")
    offset: int = option(0, "first frame to keep (with a positive n)")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.n != 0, "n=0 must be positive, or negative to repeat frames")
        require(self.n < 0 or self.offset >= 0, f"offset must be at least 0, not {self.offset}")


@program("subsample-feats", USAGE, Options)
def main(options: Options, source: str, target: str) -> int:
    """Subsample each utterance."""
    if options.n < 0 and options.offset:
        logger.warning("--offset=%d has no effect with a negative --n", options.offset)
    frames_in = frames_out = 0

    def subsample(key: str, feats: Matrix) -> Matrix:
        nonlocal frames_in, frames_out
        result = subsampled(feats, options.n, options.offset)
        frames_in += len(feats)
        frames_out += len(result)
        if options.n > 0 and len(result) == 0:
            raise Skip(f"For utterance {key}, output would have no rows, producing no output.")
        return result

    def of_block(block: ArrayBlock) -> ArrayBlock | None:
        nonlocal frames_in, frames_out
        feats, rows = block.matrix(), block.shapes[:, 0]
        if feats is None or options.offset < 0:
            return None
        if options.n > 0:
            counts = -(-(rows - options.offset) // options.n)
            if (counts <= 0).any():
                return None
            # The first row of an output is `offset` after its input's; the others are `n` after the one before.
            before = np.cumsum(counts) - counts
            within = np.arange(counts.sum()) - np.repeat(before, counts)
            chosen = np.repeat(block.rows()[:-1] + options.offset, counts) + within * options.n
        else:
            counts = rows * -options.n
            chosen = np.repeat(np.arange(len(feats)), -options.n)
        frames_in += len(feats)
        frames_out += len(chosen)
        return block.with_rows(feats[chosen], counts)

    counts = convert_table("matrix", source, target, subsample, block_function=of_block)
    logger.info("Processed %d feature matrices; %d with errors.", counts.done, counts.failed)
    logger.info("Processed %d input frames and %d output frames.", frames_in, frames_out)
    return counts.status


def subsampled(matrix: Matrix, n: int, offset: int = 0) -> Matrix:
    """Return rows ``offset``, ``offset + n`` and so on; with a negative ``n`` each row ``-n`` times."""
    return matrix[offset::n] if n > 0 else np.repeat(matrix, -n, axis=0)
