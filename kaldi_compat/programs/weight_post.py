"""weight-post: weight posteriors by a number for each frame."""

import numpy as np

from io_ark.blocks import PosteriorBlock, Skip
from io_ark.codecs import PosteriorArraysCodec
from kaldi_compat.cli.alignments import replace_posteriors, select_pairs
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import map_table
from kaldi_compat.cli.objects import Vector
from kaldi_compat.cli.program import program
from kaldi_compat.cli.tables import Tables
from kaldi_compat.options.base import BaseOptions
from kaldi_compat.options.declaration import option

USAGE = """
Multiplies the posteriors of each frame by its weight. A weight of 0 removes the entries of its frame.

Usage: weight-post [options] <posteriors-rspecifier> <weights-rspecifier> <posteriors-wspecifier>
e.g.:  weight-post ark:1.post ark:weights.ark ark:2.post
"""


class Options(BaseOptions):
    length_tolerance: int = option(2, "accept this many weights more or fewer than frames; frames without weight get 0")


@program("weight-post", USAGE, Options)
def main(options: Options, source: str, weights: str, target: str) -> int:
    """Multiply a table of posteriors by a table of frame weights. Return 0 if an utterance is written, otherwise 1."""
    codec = PosteriorArraysCodec()
    with Tables() as tables:
        blocks = tables.read(codec, source)
        table, writer = tables.open_lookup("vector", weights), tables.open_writer(codec, target)

        def look_up_and_weight(block: PosteriorBlock) -> PosteriorBlock:
            """Multiply the posteriors of a block by the weights of its utterances in the table."""
            vectors = table.require_values(block, lambda key: f"No weights for utterance {key}")
            return weight_block(block, vectors, options.length_tolerance)

        counts = map_table(blocks, writer, look_up_and_weight)
    logger.info("Scaled %d posteriors; errors on %d", counts.done, counts.failed)
    return counts.status


def weight_block(block: PosteriorBlock, weights: list[Vector], tolerance: int) -> PosteriorBlock:
    """Multiply the posteriors of each frame by the frame's weight. A weight of 0, or no weight, removes them.

    Args:
        block: posteriors of the utterances.
        weights: weights (frames,) of the frames of each utterance.
        tolerance: largest difference between the numbers of weights and frames.

    Raises:
        Skip: the numbers of weights and frames differ by more than ``tolerance``.
    """
    frame_weights = []
    for key, num_frames, vector in zip(block.decode_keys(), block.frames.tolist(), weights, strict=True):
        if abs(len(vector) - num_frames) > tolerance:
            raise Skip(f"Weights for utterance {key} have wrong size, {len(vector)} vs. {num_frames}")
        frame_weights.append(np.append(vector[:num_frames], np.zeros(max(num_frames - len(vector), 0), np.float32)))
    pair_weights = np.repeat(np.concatenate(frame_weights), block.posteriors.counts)
    product = block.posteriors._replace(weights=block.posteriors.weights * pair_weights)
    return replace_posteriors(block, select_pairs(product, pair_weights != 0))
