"""Deltas and shifted deltas of blocks of features."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kaldi_compat import native
from kaldi_compat.blocks.base import by_utterance, for_c
from kaldi_compat.exact.arrays import Floats, Integers
from kaldi_compat.functional.deltas import (
    Filter,
    add_deltas,
    add_shifted_deltas,
    delta_filters,
    shifted_delta_filters,
)
from kaldi_compat.options.postprocessing import DeltaOptions, ShiftedDeltaOptions


def _deltas_in_c(x: Floats, bounds: Integers, options: DeltaOptions) -> Floats:
    firsts = [-order * options.delta_window for order in range(options.delta_order + 1)]
    return filtered(x, bounds, delta_filters(options), firsts)


@native.twin(_deltas_in_c)
def deltas(x: Floats, bounds: Integers, options: DeltaOptions) -> Floats:
    """Append deltas: :func:`~kaldi_compat.functional.deltas.add_deltas` of each utterance.

    >>> deltas(np.float32([[0], [1], [7]]), np.array([0, 2, 3]), DeltaOptions(delta_order=1, delta_window=1)).tolist()
    [[0.0, 0.5], [1.0, 0.5], [7.0, 0.0]]
    """
    return by_utterance(x, bounds, lambda each: add_deltas(each, options))


def _shifted_deltas_in_c(x: Floats, bounds: Integers, options: ShiftedDeltaOptions) -> Floats:
    blocks = [block * options.block_shift - options.delta_window for block in range(options.num_blocks)]
    return filtered(x, bounds, shifted_delta_filters(options), [0, *blocks])


@native.twin(_shifted_deltas_in_c)
def shifted_deltas(x: Floats, bounds: Integers, options: ShiftedDeltaOptions) -> Floats:
    """Append shifted deltas: :func:`~kaldi_compat.functional.deltas.add_shifted_deltas` of each utterance."""
    return by_utterance(x, bounds, lambda each: add_shifted_deltas(each, options))


def filtered(x: Floats, bounds: Integers, filters: Sequence[Filter], firsts: Sequence[int]) -> Floats:
    """Filter each utterance along time, in C; filter ``i`` starts ``firsts[i]`` frames from the current one."""
    weights = np.array([weight for each in filters for weight in each], np.float32)
    taps, starts = np.array([len(each) for each in filters], np.int32), np.array(firsts, np.int32)
    out = np.empty((len(x), x.shape[1] * len(filters)), np.float32)
    if native.function("ragged_filter")(*for_c(x, bounds), weights, taps, starts, len(filters), out):
        raise MemoryError("no memory for the context of some frames")
    return out
