"""subsample-feats: keep every n-th frame, or repeat each frame."""

import numpy as np
import numpy.typing as npt

from io_ark.blocks import ArrayBlock, Skip
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import convert_table, require_one_entry, stack_rows
from kaldi_compat.cli.program import program
from kaldi_compat.options.base import BaseOptions, require
from kaldi_compat.options.declaration import option

USAGE = """
Keeps every n-th frame of features. With a negative n, repeats each frame -n times.

Usage: subsample-feats [options] <feats-rspecifier> <feats-wspecifier>
e.g.:  subsample-feats --n=2 ark:- ark:-
"""

Integers = npt.NDArray[np.int64]


class Options(BaseOptions):
    n: int = option(1, "keep every n-th frame; negative: repeat each frame -n times")
    offset: int = option(0, "first frame to keep (with a positive n)")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.n != 0, "n=0 is invalid: set n to a positive number, or to a negative number to repeat frames")
        require(self.n < 0 or self.offset >= 0, f"offset must be at least 0, not {self.offset}")


@program("subsample-feats", USAGE, Options)
def main(options: Options, source: str, target: str) -> int:
    """Choose or repeat the frames of a table. The exit status is 0 if an utterance is written, otherwise 1."""
    if options.n < 0 and options.offset:
        logger.warning("--offset=%d has no effect with a negative --n", options.offset)
    num_frames_in = num_frames_out = 0

    def subsample_block(block: ArrayBlock) -> ArrayBlock:
        """Choose or repeat frames of a block, and count the frames. Raise Skip if no frame of an utterance is left."""
        nonlocal num_frames_in, num_frames_out
        feats = stack_rows(block)
        chosen_rows, counts = choose_rows(block.shapes[:, 0], options.n, options.offset)
        if options.n > 0 and not counts.all():
            num_frames_in += require_one_entry(block, len(feats))
            raise Skip(f"For utterance {block.decode_keys()[0]}, output would have no rows, producing no output.")
        num_frames_in += len(feats)
        num_frames_out += len(chosen_rows)
        return block.with_rows(feats[chosen_rows], counts)

    counts = convert_table(subsample_block, "matrix", source, target)
    logger.info("Processed %d feature matrices; %d with errors.", counts.done, counts.failed)
    logger.info("Processed %d input frames and %d output frames.", num_frames_in, num_frames_out)
    return counts.status


def choose_rows(lengths: Integers, n: int, offset: int) -> tuple[Integers, Integers]:
    """Choose rows ``offset``, ``offset + n`` and so on of each utterance or, if ``n`` is negative, repeat each row.

    Args:
        lengths: numbers (utterances,) of rows of the utterances.
        n: distance between chosen rows. If negative, choose each row ``-n`` times.
        offset: first row of an utterance to choose, if ``n`` is positive.

    Returns:
        Indices of the chosen rows in the concatenated utterances, and the number of chosen rows of each utterance.
    """
    if n < 0:
        return np.repeat(np.arange(lengths.sum()), -n), lengths * -n
    counts = np.maximum(-(-(lengths - offset) // n), 0)
    # The first chosen row is row `offset` of its utterance, and further rows are `n` apart.
    chosen_index = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(np.cumsum(lengths) - lengths + offset, counts) + chosen_index * n, counts
