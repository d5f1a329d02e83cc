"""post-to-weights: add up the posteriors of each frame."""

from io_ark.blocks import ArrayBlock, PosteriorBlock
from io_ark.codecs import PosteriorArraysCodec
from kaldi_compat.cli.alignments import get_pair_frames, make_frame_vectors, sum_by_frame
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import convert_table
from kaldi_compat.cli.program import NoOptions, program

USAGE = """
Computes a weight for each frame, the sum of its posteriors. Used, for example, after weight-silence-post.

Usage: post-to-weights [options] <posteriors-rspecifier> <weights-wspecifier>
e.g.:  post-to-weights ark:nosil.post ark:weights.ark
"""


@program("post-to-weights", USAGE)
def main(options: NoOptions, source: str, target: str) -> int:
    """Write the sum of the weights of each frame. The exit status is 0 if an utterance is written, otherwise 1."""
    counts = convert_table(sum_weights, PosteriorArraysCodec(), source, target, kind_out="vector")
    logger.info("Done converting %d posteriors to weights.", counts.done)
    return counts.status


def sum_weights(block: PosteriorBlock) -> ArrayBlock:
    """Return the sum of the weights of each frame, as a vector (frames,) for each utterance."""
    posteriors = block.posteriors
    sums = sum_by_frame(get_pair_frames(posteriors), posteriors.weights, len(posteriors.counts))
    return make_frame_vectors(block, sums)
