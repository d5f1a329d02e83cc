"""ali-to-post: convert alignments to posteriors."""

import numpy as np

from io_ark.blocks import ArrayBlock, PosteriorArrays, PosteriorBlock
from io_ark.codecs import PosteriorArraysCodec
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import convert_table
from kaldi_compat.cli.program import NoOptions, program

USAGE = """
Converts alignments to posteriors. Each frame has one entry, its integer with the weight 1.

Usage: ali-to-post [options] <alignments-rspecifier> <posteriors-wspecifier>
e.g.:  ali-to-post ark:1.ali ark:1.post
"""


@program("ali-to-post", USAGE)
def main(options: NoOptions, source: str, target: str) -> int:
    """Convert a table of alignments to posteriors. The exit status is 0 if an utterance is written, otherwise 1."""
    counts = convert_table(make_posteriors, "int-vector", source, target, kind_out=PosteriorArraysCodec())
    logger.info("Converted %d alignments.", counts.done)
    return counts.status


def make_posteriors(block: ArrayBlock) -> PosteriorBlock:
    """Convert alignments to posteriors, which have the frame's integer with the weight 1 in each frame."""
    ids = block.values
    arrays = PosteriorArrays(np.ones(len(ids), np.int64), ids, np.ones(len(ids), np.float32))
    return PosteriorBlock(block.keys, block.shapes[:, 0], arrays)
