"""Statistics and normalization of blocks of features."""

from __future__ import annotations

import numpy as np

from kaldi_compat import native
from kaldi_compat.blocks.base import Doubles, Floats, Integers, for_c, utterances
from kaldi_compat.exact.sliding import normalized_by_windows
from kaldi_compat.functional.cmvn import SLIDING_VARIANCE_FLOOR, cmvn_stats, sliding_windows
from kaldi_compat.options.postprocessing import SlidingCmvnOptions


def stats(x: Floats, bounds: Integers, *, onto: Doubles | None = None) -> Doubles:
    """Compute CMVN statistics (utterances, 2, dim + 1): :func:`~kaldi_compat.functional.cmvn.cmvn_stats`.

    Args:
        x, bounds: the features.
        onto: statistics (utterances, 2, dim + 1) onto which the frames are added one by one.
    """
    total = np.zeros((len(bounds) - 1, 2, x.shape[1] + 1)) if onto is None else onto.copy()
    if total.shape != (len(bounds) - 1, 2, x.shape[1] + 1):
        raise ValueError("statistics must have the shape (utterances, 2, dim + 1)")
    if native.library():
        native.function("ragged_stats")(*for_c(x, bounds), total)
    else:
        for u, frames in enumerate(utterances(x, bounds)):
            total[u] = cmvn_stats(frames, onto=None if onto is None else onto[u])
    return total


def weighted_stats(x: Floats, bounds: Integers, weights: Floats) -> Doubles:
    """Compute CMVN statistics (utterances, 2, dim + 1) of frames with weights (frames,), as :func:`stats` does."""
    total = np.zeros((len(bounds) - 1, 2, x.shape[1] + 1))
    weights = np.ascontiguousarray(weights, np.float32)
    if weights.shape != (len(x),):
        raise ValueError(f"{weights.size} weights do not belong to {len(x)} rows")
    if native.library():
        native.function("ragged_weighted_stats")(*for_c(x, bounds), weights, total)
    else:
        for u, (frames, own) in enumerate(zip(utterances(x, bounds), utterances(weights, bounds), strict=True)):
            total[u] = cmvn_stats(frames, weights=own)
    return total


def normalized(x: Floats, bounds: Integers, scale: Floats | None, offset: Floats) -> Floats:
    """Return features times a factor plus an offset of each utterance and column: both (utterances, dim).

    Args:
        x, bounds: the features.
        scale: factors; None for 1.
        offset: offsets.
    """
    shape = (len(bounds) - 1, x.shape[1])
    if offset.shape != shape or (scale is not None and scale.shape != shape):
        raise ValueError(f"factors and offsets must have the shape {shape}")
    if native.library():
        factor = None if scale is None else np.ascontiguousarray(scale, np.float32)
        out = np.empty_like(x)
        native.function("ragged_affine")(*for_c(x, bounds), factor, np.ascontiguousarray(offset, np.float32), out)
        return out
    counts = np.diff(bounds)
    result: Floats = x if scale is None else x * np.repeat(scale, counts, axis=0)
    return result + np.repeat(offset, counts, axis=0)


def sliding_cmvn(x: Floats, bounds: Integers, options: SlidingCmvnOptions) -> Floats | None:
    """Normalize each frame over a window around or before it; None if a variance is below Kaldi's floor.

    Args:
        x, bounds: the features.
        options: the window, and whether to normalize variances.
    """
    if native.library():
        out = np.empty_like(x)
        window = options.cmn_window, options.min_cmn_window, options.center, options.norm_vars
        status = native.function("ragged_sliding")(*for_c(x, bounds), *window, out)
        if status == 1:
            raise MemoryError("no memory for the sums over a window")
        return None if status else out
    parts = []
    for each in utterances(x, bounds):
        start, end = sliding_windows(np.arange(len(each)), len(each), options)
        part, variance = normalized_by_windows(each, start, end, norm_vars=options.norm_vars)
        if ((variance < SLIDING_VARIANCE_FLOOR).any(axis=-1) & (end - start > 1)[: len(variance)]).any():
            return None
        parts.append(part)
    return np.concatenate(parts)
