"""post-to-pdf-post: convert posteriors from transition-ids to pdfs."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from io_ark.blocks import PosteriorArrays, PosteriorBlock
from io_ark.codecs import PosteriorArraysCodec
from io_ark.models import TransitionModel, read_transition_model
from kaldi_compat.cli.alignments import changed, frames_of_entries, kept
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import convert_table
from kaldi_compat.cli.program import NoOptions, program

USAGE = """
Converts posteriors of transition-ids to posteriors of pdfs: adds up the weights of each pdf.

Usage: post-to-pdf-post [options] <model> <posteriors-rspecifier> <posteriors-wspecifier>
e.g.:  post-to-pdf-post final.mdl ark:- ark:-
"""

# Numbers of buckets of C++'s std::unordered_map as it grows, in GNU's library. There are never fewer than entries.
BUCKETS = (13, 29, 59, 127, 257, 541, 1109, 2357, 5087, 10273, 20753, 42043, 85229, 172933)


@program("post-to-pdf-post", USAGE)
def main(options: NoOptions, model: str, source: str, target: str) -> int:
    """Convert a table. As in Kaldi, the status is 0 even for an empty table."""
    transitions = read_transition_model(model)

    def convert(block: PosteriorBlock) -> PosteriorBlock:
        return changed(block, of_pdfs(block.posteriors, transitions))

    counts = convert_table(convert, PosteriorArraysCodec(), source, target)
    logger.info("Done converting posteriors to pdf-level posteriors for %d utterances.", counts.done)
    return 0


def of_pdfs(posteriors: PosteriorArrays, model: TransitionModel) -> PosteriorArrays:
    """Add up the weights of each pdf of a frame; pdfs of weight 0 are left out.

    The pdfs of a frame are in the order of a hash table, as in Kaldi.
    """
    pdfs = model.pdfs(posteriors.integers).astype(np.int64)
    pairs = frames_of_entries(posteriors) * model.num_pdfs + pdfs
    places, firsts, inverse = np.unique(pairs, return_index=True, return_inverse=True)
    weights = np.zeros(len(places), np.float32)
    np.add.at(weights, inverse, posteriors.weights)
    in_order = np.argsort(firsts)  # frame by frame, in the order of insertion
    frames, pdfs = np.divmod(places[in_order], max(model.num_pdfs, 1))
    counts = np.bincount(frames, minlength=len(posteriors.counts))
    order = in_order[hash_order(pdfs, frames, counts)]
    merged = PosteriorArrays(counts, (places[order] % max(model.num_pdfs, 1)).astype(np.int32), weights[order])
    return kept(merged, merged.weights != 0)


def hash_order(
    pdfs: npt.NDArray[np.int64], frames: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the order in which hash tables, one for each frame, have their keys.

    Args:
        pdfs: (entries,): the keys in the order in which they were inserted, frame by frame.
        frames: (entries,): their frames.
        counts: (frames,): number of entries of each frame.
    """
    # A new key comes first; or first of its bucket, if that has others.
    times = np.arange(len(pdfs))
    _, first, bucket = np.unique(frames * BUCKETS[0] + pdfs % BUCKETS[0], return_index=True, return_inverse=True)
    order = np.lexsort((-times, -first[bucket], frames))
    ends = np.cumsum(counts)
    for frame in np.flatnonzero(counts > BUCKETS[0]).tolist():
        begin, end = int(ends[frame] - counts[frame]), int(ends[frame])
        order[begin:end] = begin + np.array(large_hash_order(pdfs[begin:end].tolist()))
    return order


def large_hash_order(keys: list[int]) -> list[int]:
    """Return the order of a hash table that grows while the keys are inserted, as their positions."""
    order: list[int] = []
    for begin, end in pairwise((0, *BUCKETS, len(keys))):
        buckets = next(each for each in BUCKETS if each >= min(end, len(keys)))
        chain: dict[int, list[int]] = {}
        for place in [*order, *range(begin, min(end, len(keys)))]:
            chain.setdefault(keys[place] % buckets, []).append(place)
        order = [place for chained in reversed(chain.values()) for place in reversed(chained)]
        if end >= len(keys):
            break
    return order
