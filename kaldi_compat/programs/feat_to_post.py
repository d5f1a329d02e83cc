"""feat-to-post: convert features to posteriors."""

import numpy as np

from io_ark.blocks import ArrayBlock, PosteriorArrays, PosteriorBlock
from io_ark.codecs import PosteriorArraysCodec
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import convert_table
from kaldi_compat.cli.program import NoOptions, program

USAGE = """
Converts features to posteriors. Each frame lists all dimensions with their values as weights.

Usage: feat-to-post [options] <feats-rspecifier> <posteriors-wspecifier>
e.g.:  feat-to-post scp:feats.scp ark:feats.post
"""


@program("feat-to-post", USAGE)
def main(options: NoOptions, source: str, target: str) -> int:
    """Convert a table of features to posteriors. The exit status is 0 if an utterance is written, otherwise 1."""
    counts = convert_table(make_posteriors, "matrix", source, target, kind_out=PosteriorArraysCodec())
    logger.info("Converted %d alignments.", counts.done)
    return counts.status


def make_posteriors(block: ArrayBlock) -> PosteriorBlock:
    """Convert features to posteriors: a frame lists all dimensions with their values as weights."""
    rows, columns = block.shapes.T
    counts = np.repeat(columns, rows)
    indices = np.arange(len(block.values)) - np.repeat(np.cumsum(counts) - counts, counts)
    return PosteriorBlock(block.keys, rows, PosteriorArrays(counts, indices.astype(np.int32), block.values))
