"""Deltas and shifted deltas of blocks of features."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from kaldi_compat import native
from kaldi_compat.exact.arrays import Floats, Integers
from kaldi_compat.functional import deltas as functional
from kaldi_compat.functional.batches import repeat_edge_frames
from kaldi_compat.functional.blocks import make_c_arguments, map_utterances
from kaldi_compat.functional.deltas import Filter, compute_delta_filters, compute_shifted_delta_filters
from kaldi_compat.options.postprocessing import DeltaOptions, ShiftedDeltaOptions

_cached_filters = functools.lru_cache(maxsize=16)(compute_delta_filters)  # The cache saves 20 us per utterance.


def append_deltas(x: Floats, bounds: Integers, options: DeltaOptions) -> Floats:
    """Append deltas to each utterance as ``add_deltas`` does, and return (frames, columns * (delta_order + 1)).

    Args:
        x, bounds: frames (frames, columns) of all utterances, and their boundaries (utterances + 1,).
        options: order and window of the deltas.
    """
    offsets = [-order * options.delta_window for order in range(options.delta_order + 1)]
    return filter_block(x, bounds, _cached_filters(options), offsets)


def append_shifted_deltas(x: Floats, bounds: Integers, options: ShiftedDeltaOptions) -> Floats:
    """Append shifted deltas as ``add_shifted_deltas`` does, and return (frames, columns * (num_blocks + 1)).

    Args:
        x, bounds: frames (frames, columns) of all utterances, and their boundaries (utterances + 1,).
        options: window of the deltas, number of blocks, and shift from block to block in frames.
    """
    block_offsets = [block * options.block_shift - options.delta_window for block in range(options.num_blocks)]
    return filter_block(x, bounds, compute_shifted_delta_filters(options), [0, *block_offsets])


def _filter_block_in_c(x: Floats, bounds: Integers, filters: Sequence[Filter], offsets: Sequence[int]) -> Floats:
    """Filter utterances in C: see :func:`filter_block`. Raise MemoryError if memory is exhausted."""
    weights = np.array([weight for taps in filters for weight in taps], np.float32)
    sizes, firsts = np.array(list(map(len, filters)), np.int32), np.array(offsets, np.int32)
    out = np.empty((len(x), x.shape[1] * len(filters)), np.float32)
    if native.get_function("ragged_filter")(*make_c_arguments(x, bounds), weights, sizes, firsts, len(filters), out):
        raise MemoryError(
            "cannot allocate memory for a context of frames: use shorter utterances, or a machine with more memory"
        )
    return out


@native.twin(_filter_block_in_c)
def filter_block(x: Floats, bounds: Integers, filters: Sequence[Filter], offsets: Sequence[int]) -> Floats:
    """Filter utterances along time, and return the results of all filters side by side, (frames, columns * filters).

    Args:
        x, bounds: frames (frames, columns) of all utterances, and their boundaries (utterances + 1,).
        filters: weights of each filter. A filter without weights copies a frame.
        offsets: offset in frames of each filter's first input frame from the output frame. Edge frames are repeated.
    """
    left = max(0, -min(offsets))
    right = max(0, *(offset + max(len(taps), 1) - 1 for taps, offset in zip(filters, offsets, strict=True)))
    starts = [left + offset for offset in offsets]
    return map_utterances(
        x,
        bounds,
        lambda frames: functional.filter_frames(repeat_edge_frames(frames, left, right), filters, starts, len(frames)),
    )
