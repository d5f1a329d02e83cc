"""post-to-pdf-post: convert posteriors from transition-ids to pdfs."""

from __future__ import annotations

import numpy as np

from io_ark.blocks import PosteriorArrays, PosteriorBlock
from io_ark.codecs import PosteriorArraysCodec
from io_ark.models import TransitionModel, read_transition_model
from kaldi_compat.cli.alignments import alternating, changed, frames_of_entries, kept, parts
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import convert_table
from kaldi_compat.cli.orders import frames_of_collisions, hash_order
from kaldi_compat.cli.program import NoOptions, program

USAGE = """
Converts posteriors of transition-ids to posteriors of pdfs: adds up the weights of each pdf.

Usage: post-to-pdf-post [options] <model> <posteriors-rspecifier> <posteriors-wspecifier>
e.g.:  post-to-pdf-post final.mdl ark:- ark:-
"""


@program("post-to-pdf-post", USAGE)
def main(options: NoOptions, model: str, source: str, target: str) -> int:
    """Convert a table. As in Kaldi, the status is 0 even for an empty table."""
    transitions = read_transition_model(model)

    def convert(block: PosteriorBlock) -> PosteriorBlock:
        return changed(
            block, PosteriorArrays.joined([of_pdfs(part, transitions) for (part,) in parts(block.posteriors)])
        )

    counts = convert_table(convert, PosteriorArraysCodec(), source, target)
    logger.info("Done converting posteriors to pdf-level posteriors for %d utterances.", counts.done)
    return 0


def of_pdfs(posteriors: PosteriorArrays, model: TransitionModel) -> PosteriorArrays:
    """Add up the weights of each pdf of a frame; pdfs of weight 0 are left out.

    The pdfs of a frame are in the order of a hash table, as in Kaldi.
    """
    pdfs = model.pdfs(posteriors.integers)
    posteriors = posteriors._replace(integers=pdfs)
    collides = np.repeat(frames_of_collisions(pdfs, posteriors.counts), posteriors.counts)
    apart, other = kept(posteriors, ~collides), kept(posteriors, collides)
    result, _ = alternating(in_reverse(apart), merged(other))
    return kept(result, result.weights != 0)


def in_reverse(posteriors: PosteriorArrays) -> PosteriorArrays:
    """Return each frame's entries in reverse, which is the order of a hash table in which no two share a bucket."""
    ends = np.cumsum(posteriors.counts)
    order = np.repeat(2 * ends - posteriors.counts - 1, posteriors.counts) - np.arange(len(posteriors.integers))
    return posteriors._replace(integers=posteriors.integers[order], weights=posteriors.weights[order])


def merged(posteriors: PosteriorArrays) -> PosteriorArrays:
    """Add up the weights of each integer of a frame, and return them in the order of a hash table."""
    pairs = frames_of_entries(posteriors) << 32 | posteriors.integers
    places, firsts, inverse = np.unique(pairs, return_index=True, return_inverse=True)
    weights = np.zeros(len(places), np.float32)
    np.add.at(weights, inverse, posteriors.weights)
    in_order = np.argsort(firsts)  # frame by frame, in the order of insertion
    frames, integers = np.divmod(places[in_order], 1 << 32)
    counts = np.bincount(frames, minlength=len(posteriors.counts))
    order = in_order[hash_order(integers, frames, counts)]
    return PosteriorArrays(counts, (places[order] % (1 << 32)).astype(np.int32), weights[order])
