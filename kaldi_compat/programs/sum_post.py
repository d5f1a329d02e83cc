"""sum-post: add up two sets of posteriors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from io_ark.blocks import PosteriorArrays, PosteriorBlock, Skip
from io_ark.codecs import PosteriorArraysCodec
from kaldi_compat.cli.alignments import changed, frame_sums, frames_of_entries, kept, scaled
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import map_table
from kaldi_compat.cli.program import program
from kaldi_compat.cli.tables import Tables
from kaldi_compat.options.base import BaseOptions, option

USAGE = """
Adds up two sets of posteriors for each utterance; their difference has --scale2=-1.

Usage: sum-post [options] <posteriors-rspecifier1> <posteriors-rspecifier2> <posteriors-wspecifier>
e.g.:  sum-post --scale2=-1.0 ark:num.post ark:den.post ark:diff.post
"""


@dataclass(frozen=True, kw_only=True)
class Options(BaseOptions):
    """Options of sum-post."""

    drop_frames: bool = option(False, "remove the entries of frames in which the two sets have no integer in common")
    merge: bool = option(True, "add up the weights of an integer, and leave out sums of 0")
    scale1: float = option(1.0, "factor on the first set")
    scale2: float = option(1.0, "factor on the second set")
    zero_if_disjoint: bool = option(False, "older name of --drop-frames")


@program("sum-post", USAGE, Options)
def main(options: Options, first: str, second: str, target: str) -> int:
    """Add up tables."""
    frames = disjoint = 0
    codec = PosteriorArraysCodec()
    with Tables() as tables:
        blocks, others, writer = tables.read(codec, first), tables.lookup(codec, second), tables.write(codec, target)

        def add(block: PosteriorBlock) -> PosteriorBlock:
            nonlocal frames, disjoint
            found = others.find(block, missing)
            if [len(each.counts) for each in found] != block.frames.tolist():
                key, lengths = block.names()[0], (len(block.posteriors.counts), len(found[0].counts))
                raise Skip(f"Posteriors have mismatched sizes {lengths[0]} vs. {lengths[1]} for key {key}")
            result, apart = added(block.posteriors, PosteriorArrays.joined(found), options)
            frames, disjoint = frames + len(result.counts), disjoint + apart
            return changed(block, result)

        counts = map_table(blocks, writer, add)
    logger.info(
        "Processed %d frames; for %d frames there was no overlap, i.e. %s%% (e.g. numerator path not in denominator "
        "lattice)",
        frames,
        disjoint,
        f"{disjoint * 100.0 / frames:g}" if frames else "-nan",
    )
    logger.info("Done adding %d posteriors;  %d with errors.", counts.done, counts.failed)
    return counts.status


def missing(key: str) -> str:
    """Return the warning for an utterance that only the first set has."""
    return f"Second set of posteriors has nothing for key {key}, producing no output."


def added(first: PosteriorArrays, second: PosteriorArrays, options: Options) -> tuple[PosteriorArrays, int]:
    """Return the entries of two sets of posteriors of the same frames, and in how many frames they are disjoint."""
    count = len(first.counts)
    first = scaled(first, np.full(count, options.scale1, np.float32))
    second = scaled(second, np.full(count, options.scale2, np.float32))
    places = [frames_of_entries(each) << 32 | each.integers.astype(np.uint32) for each in (first, second)]
    shared = np.unique(places[0][np.isin(places[0], places[1])] >> 32)
    is_disjoint = np.ones(count, bool)
    is_disjoint[shared] = False
    frames = np.concatenate([frames_of_entries(each) for each in (first, second)])
    integers = np.concatenate((first.integers, second.integers))
    weights = np.concatenate((first.weights, second.weights))
    order = np.lexsort((integers, frames) if options.merge else (weights, integers, frames))
    frames, integers, weights = frames[order], integers[order], weights[order]
    if options.merge:
        is_new = np.ones(len(frames), bool)
        is_new[1:] = (frames[1:] != frames[:-1]) | (integers[1:] != integers[:-1])
        weights = frame_sums(np.cumsum(is_new) - 1, weights, int(is_new.sum()))
        frames, integers = frames[is_new], integers[is_new]
    result = PosteriorArrays(np.bincount(frames, minlength=count), integers, weights)
    keep = weights != 0 if options.merge else np.ones(len(weights), bool)
    if options.drop_frames or options.zero_if_disjoint:
        keep &= ~is_disjoint[frames]
    return kept(result, keep), int(is_disjoint.sum())
