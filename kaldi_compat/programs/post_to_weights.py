"""post-to-weights: add up the posteriors of each frame."""

from io_ark.blocks import ArrayBlock, PosteriorBlock
from io_ark.codecs import PosteriorArraysCodec
from kaldi_compat.cli.alignments import frame_sums, frame_values, frames_of_entries
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import convert_table
from kaldi_compat.cli.program import NoOptions, program

USAGE = """
Adds up the posteriors of each frame to a weight, for instance after weight-silence-post.

Usage: post-to-weights [options] <posteriors-rspecifier> <weights-wspecifier>
e.g.:  post-to-weights ark:nosil.post ark:weights.ark
"""


@program("post-to-weights", USAGE)
def main(options: NoOptions, source: str, target: str) -> int:
    counts = convert_table(get_state_weights, PosteriorArraysCodec(), source, target, kind_out="vector")
    logger.info("Done converting %d posteriors to weights.", counts.done)
    return counts.status


def get_state_weights(block: PosteriorBlock) -> ArrayBlock:
    """Return the sum of each frame's weights."""
    posteriors = block.posteriors
    sums = frame_sums(frames_of_entries(posteriors), posteriors.weights, len(posteriors.counts))
    return frame_values(block, sums)
