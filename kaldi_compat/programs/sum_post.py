"""sum-post: add up two sets of posteriors."""

import numpy as np

from io_ark.blocks import PosteriorArrays, PosteriorBlock, Skip
from io_ark.codecs import PosteriorArraysCodec
from kaldi_compat.cli.alignments import (
    Integers,
    Weights,
    get_pair_frames,
    interleave_frames,
    replace_posteriors,
    scale_posteriors,
    select_pairs,
    split_for_cache,
    sum_runs,
)
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import map_table
from kaldi_compat.cli.orders import order_keys_by_sort
from kaldi_compat.cli.program import program
from kaldi_compat.cli.tables import Tables
from kaldi_compat.options.base import BaseOptions
from kaldi_compat.options.declaration import option

USAGE = """
Adds up two sets of posteriors for each utterance. --scale2=-1 gives their difference.

Usage: sum-post [options] <posteriors-rspecifier1> <posteriors-rspecifier2> <posteriors-wspecifier>
e.g.:  sum-post --scale2=-1.0 ark:num.post ark:den.post ark:diff.post
"""


class Options(BaseOptions):
    drop_frames: bool = option(False, "remove the entries of frames in which the two sets have no integer in common")
    merge: bool = option(True, "add up the weights of an integer, and leave out sums of 0")
    scale1: float = option(1.0, "factor on the first set")
    scale2: float = option(1.0, "factor on the second set")
    zero_if_disjoint: bool = option(False, "older name of --drop-frames")


@program("sum-post", USAGE, Options)
def main(options: Options, first: str, second: str, target: str) -> int:
    """Add the posteriors of each key in the tables ``first`` and ``second``. Return 0 if a sum is written, else 1."""
    num_frames = num_disjoint = 0
    codec = PosteriorArraysCodec()
    with Tables() as tables:
        blocks, table = tables.read(codec, first), tables.open_lookup(codec, second)
        writer = tables.open_writer(codec, target)

        def add_second_set(block: PosteriorBlock) -> PosteriorBlock:
            """Add the posteriors of the second table to a block of the first table, and count frames.

            Raise Skip if the second table lacks an utterance, or has a different number of its frames.
            """
            nonlocal num_frames, num_disjoint
            warning = "Second set of posteriors has nothing for key {}, producing no output."
            addends = table.require_values(block, warning.format)
            if [len(posterior.counts) for posterior in addends] != block.frames.tolist():
                key, lengths = block.decode_keys()[0], (len(block.posteriors.counts), len(addends[0].counts))
                raise Skip(f"Posteriors have mismatched sizes {lengths[0]} vs. {lengths[1]} for key {key}")
            parts = split_for_cache(block.posteriors, PosteriorArrays.concatenate(addends))
            sums = [add_posteriors(first_part, second_part, options) for first_part, second_part in parts]
            num_frames += int(block.frames.sum())
            num_disjoint += sum(count for _, count in sums)
            return replace_posteriors(block, PosteriorArrays.concatenate([total for total, _ in sums]))

        counts = map_table(blocks, writer, add_second_set)
    logger.info(
        "Processed %d frames; for %d frames there was no overlap, i.e. %s%% (e.g. numerator path not in denominator "
        "lattice)",
        num_frames, num_disjoint, f"{num_disjoint * 100.0 / num_frames:g}" if num_frames else "-nan",
    )  # fmt: skip
    logger.info("Done adding %d posteriors;  %d with errors.", counts.done, counts.failed)
    return counts.status


def add_posteriors(first: PosteriorArrays, second: PosteriorArrays, options: Options) -> tuple[PosteriorArrays, int]:
    """Add two sets of posteriors of the same frames.

    The pairs (integer, weight) of a frame are sorted by integer, so that pairs with the same integer form a run. With
    ``merge``, a run becomes one pair with the sum of its weights, or is removed if the sum is 0. Otherwise, its pairs
    are sorted by weight as in Kaldi. With ``drop_frames`` or ``zero_if_disjoint``, frames without a common integer lose
    all pairs.

    Returns:
        The sum, and the number of frames in which the two sets have no integer in common.
    """
    pairs, is_second = interleave_frames(
        scale_posteriors(first, options.scale1), scale_posteriors(second, options.scale2)
    )
    # The sort key of a pair has the frame in the upper 32 bits and integer + 2^31 in the lower 32 bits, so that pairs
    # are sorted by frame and then by integer.
    keys = get_pair_frames(pairs) << 32 | (pairs.integers.astype(np.int64) + (1 << 31))
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    starts = np.flatnonzero(np.diff(keys, prepend=-1))  # Index of the first pair of each run of equal keys.
    sizes = np.diff(starts, append=len(keys))
    # Both sets share a run if it begins with a pair of the first set and ends with a pair of the second set.
    is_shared = is_second[order[starts + sizes - 1]] & ~is_second[order[starts]]
    is_disjoint = np.ones(len(pairs.counts), bool)
    is_disjoint[keys[starts[is_shared]] >> 32] = False
    ends = np.cumsum(pairs.counts)
    # A rounded sum of more than two terms depends on their order: sort frames with such runs as std::sort does.
    for frame in np.unique(keys[starts[sizes > 2]] >> 32).tolist():
        begin, end = ends[frame] - pairs.counts[frame], ends[frame]
        order[begin:end] = begin + order_keys_by_sort(pairs.integers[begin:end].tolist())
    if options.merge:
        counts = np.bincount(keys[starts] >> 32, minlength=len(pairs.counts))
        result = PosteriorArrays(counts, pairs.integers[order[starts]], sum_runs(pairs.weights[order], starts, sizes))
        is_kept = result.weights != 0
    else:
        sort_runs_by_weight(order, pairs.weights, keys, starts, sizes)
        result = PosteriorArrays(pairs.counts, pairs.integers[order], pairs.weights[order])
        is_kept = np.ones(len(order), bool)
    if options.drop_frames or options.zero_if_disjoint:
        is_kept &= ~np.repeat(is_disjoint, result.counts)
    return select_pairs(result, is_kept), int(is_disjoint.sum())


def sort_runs_by_weight(order: Integers, weights: Weights, keys: Integers, starts: Integers, sizes: Integers) -> None:
    """Sort ``order``, indices of ``weights``, in place by ascending weight within each run of equal ``keys``.

    ``keys`` has the sort key of each position in ``order``. ``starts`` (runs,) and ``sizes`` (runs,) have the first
    position and the number of positions of each run.
    """
    # Most runs have two positions or one, which are exchanged or kept without a sort.
    firsts = starts[sizes == 2]
    firsts = firsts[weights[order[firsts]] > weights[order[firsts + 1]]]
    order[firsts], order[firsts + 1] = order[firsts + 1], order[firsts]
    longer = np.flatnonzero(np.repeat(sizes > 2, sizes))  # Positions of longer runs.
    order[longer] = order[longer][np.lexsort((weights[order[longer]], keys[longer]))]
