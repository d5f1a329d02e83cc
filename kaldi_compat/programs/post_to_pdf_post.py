"""post-to-pdf-post: convert posteriors from transition-ids to pdfs."""

import numpy as np

import io_ark
from io_ark.blocks import PosteriorArrays, PosteriorBlock
from io_ark.codecs import PosteriorArraysCodec
from io_ark.models import TransitionModel
from kaldi_compat.cli.alignments import (
    interleave_frames,
    map_parts,
    merge_in_hash_order,
    replace_posteriors,
    reverse_pairs,
    select_pairs,
)
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import convert_table
from kaldi_compat.cli.orders import find_collisions
from kaldi_compat.cli.program import NoOptions, program

USAGE = """
Converts posteriors of transition-ids to posteriors of pdfs. Adds up the weights of each pdf.

Usage: post-to-pdf-post [options] <model> <posteriors-rspecifier> <posteriors-wspecifier>
e.g.:  post-to-pdf-post final.mdl ark:- ark:-
"""


@program("post-to-pdf-post", USAGE)
def main(options: NoOptions, model: str, source: str, target: str) -> int:
    """Convert posteriors of transition-ids to posteriors of pdfs. As in Kaldi, the exit status is always 0."""
    transitions = io_ark.load(model, kind="transition-model")

    def convert_to_pdfs(block: PosteriorBlock) -> PosteriorBlock:
        return replace_posteriors(block, map_parts(lambda part: sum_by_pdf(part, transitions), block.posteriors))

    counts = convert_table(convert_to_pdfs, PosteriorArraysCodec(), source, target)
    logger.info("Done converting posteriors to pdf-level posteriors for %d utterances.", counts.done)
    return 0


def sum_by_pdf(posteriors: PosteriorArrays, model: TransitionModel) -> PosteriorArrays:
    """Add up the weights of each pdf in a frame, and remove pdfs of weight 0.

    As in Kaldi, the pdfs of a frame are in the order of a hash table.
    """
    pdfs = model.pdfs(posteriors.integers)
    posteriors = posteriors._replace(integers=pdfs)
    has_collision = np.repeat(find_collisions(pdfs, posteriors.counts), posteriors.counts)
    # Without collisions in a frame, the hash table lists the pdfs of the frame in reverse order.
    distinct, colliding = select_pairs(posteriors, ~has_collision), select_pairs(posteriors, has_collision)
    result, _ = interleave_frames(reverse_pairs(distinct), merge_in_hash_order(colliding))
    return select_pairs(result, result.weights != 0)
