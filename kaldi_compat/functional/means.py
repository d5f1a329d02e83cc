"""Means over the frames of blocks."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from kaldi_compat import native
from kaldi_compat.exact.arrays import Floats, Integers
from kaldi_compat.exact.sliding import compute_window_sums
from kaldi_compat.functional.blocks import make_c_arguments


def _compute_window_means_in_c(weights: Floats, weighted: Floats, bounds: Integers, left: int, right: int) -> Any:
    """Compute weighted means over windows in C: see :func:`compute_window_means`.

    Return NotImplemented unless the weights are float32. Raise ValueError for invalid shapes, bounds or windows.
    """
    if weighted.shape != weights.shape:
        raise ValueError(f"weighted must have the shape of weights, {weights.shape}, not {weighted.shape}")
    if min(left, right) < -1:
        raise ValueError(f"left and right must be at least -1, not {left} and {right}")
    if weights.dtype != np.float32:
        return NotImplemented
    column, _, count, _ = make_c_arguments(np.ascontiguousarray(weights)[:, None], bounds)
    values, means = np.ascontiguousarray(weighted), np.empty(len(weights), np.float32)
    native.get_function("ragged_window_means")(column, values, bounds, count, left, right, means)
    return means


@native.twin(_compute_window_means_in_c)
def compute_window_means(weights: Floats, weighted: Floats, bounds: Integers, left: int, right: int) -> Floats:
    """Return the weighted mean (rows,) over the window around each frame, with Kaldi's running sums.

    The mean is the sum of ``weighted`` divided by the sum of ``weights``, or NaN for 0 / 0.

    Args:
        weights: (rows,): weights of the frames of the utterances.
        weighted: (rows,): values of the frames times their weights.
        bounds: (utterances + 1,): first row of each utterance, followed by the number of rows.
        left, right: number of frames before and after a frame that belong to its window. -1 excludes the frame itself.
    """
    means = np.empty(len(weights), weights.dtype)
    for first, end in itertools.pairwise(bounds.tolist()):
        if first == end:
            continue
        frames = np.arange(end - first)
        pairs = np.stack((weights[first:end], weighted[first:end]), -1).astype(np.float64)
        starts, ends = np.clip(frames - left, 0, None), np.clip(frames + right + 1, None, end - first)
        sums = compute_window_sums(pairs, starts, ends)
        with np.errstate(divide="ignore", invalid="ignore"):
            means[first:end] = sums[:, 1] / sums[:, 0]
    return means
