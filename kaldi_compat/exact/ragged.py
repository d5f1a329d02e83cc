"""Post-processing of features of many utterances at once, with Kaldi's bits: in C, or in NumPy utterance by utterance.

A ragged batch is a matrix with the frames of all utterances, ``(frames, dim)`` in float32, and the boundaries of the
utterances: rows ``bounds[u]`` to ``bounds[u + 1]`` are those of utterance ``u``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat import native
from kaldi_compat.exact.sliding import normalized_by_windows, window_sums
from kaldi_compat.exact.sums import dot
from kaldi_compat.functional.cmvn import SLIDING_VARIANCE_FLOOR, cmvn_stats, sliding_windows
from kaldi_compat.functional.deltas import (
    add_deltas,
    add_shifted_deltas,
    delta_filters,
    shifted_delta_filters,
)
from kaldi_compat.functional.splice import splice
from kaldi_compat.functional.vad import compute_vad
from kaldi_compat.native import ragged as compiled
from kaldi_compat.options.postprocessing import (
    DeltaOptions,
    ShiftedDeltaOptions,
    SlidingCmvnOptions,
    SpliceOptions,
    VadOptions,
)

__all__ = [
    "appended",
    "deltas",
    "normalized",
    "products",
    "rows_of",
    "select_columns",
    "shifted_deltas",
    "sliding_cmvn",
    "spliced",
    "stats",
    "voiced",
    "weighted_stats",
    "window_means",
]

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


def _each(x: Floats, bounds: Integers) -> list[Floats]:
    return [x[first:end] for first, end in itertools.pairwise(bounds.tolist())]


def _joined(x: Floats, bounds: Integers, function: Callable[[Floats], Any]) -> Floats:
    parts: Floats = np.concatenate([function(each) for each in _each(x, bounds)])
    return parts


def deltas(x: Floats, bounds: Integers, options: DeltaOptions) -> Floats:
    """Append deltas: :func:`~kaldi_compat.functional.deltas.add_deltas` of each utterance.

    >>> deltas(np.float32([[0], [1], [7]]), np.array([0, 2, 3]), DeltaOptions(delta_order=1, delta_window=1)).tolist()
    [[0.0, 0.5], [1.0, 0.5], [7.0, 0.0]]
    """
    if not native.library():
        return _joined(x, bounds, lambda each: add_deltas(each, options))
    firsts = [-order * options.delta_window for order in range(options.delta_order + 1)]
    return compiled.filtered(x, bounds, delta_filters(options), firsts)


def shifted_deltas(x: Floats, bounds: Integers, options: ShiftedDeltaOptions) -> Floats:
    """Append shifted deltas: :func:`~kaldi_compat.functional.deltas.add_shifted_deltas` of each utterance."""
    if not native.library():
        return _joined(x, bounds, lambda each: add_shifted_deltas(each, options))
    blocks = [block * options.block_shift - options.delta_window for block in range(options.num_blocks)]
    return compiled.filtered(x, bounds, shifted_delta_filters(options), [0, *blocks])


def spliced(x: Floats, bounds: Integers, options: SpliceOptions) -> Floats:
    """Concatenate frames with their neighbours: :func:`~kaldi_compat.functional.splice.splice` of each utterance."""
    if not native.library():
        return _joined(x, bounds, lambda each: splice(each, options))
    return compiled.spliced(x, bounds, options.left_context, options.right_context)


def select_columns(x: Floats, columns: Sequence[int]) -> Floats:
    """Return some columns of a matrix, in this order."""
    return compiled.columns(x, columns) if native.library() else x[:, columns]


def rows_of(bounds: Integers) -> Integers:
    """Return the first row of the utterance of each row.

    >>> rows_of(np.array([0, 2, 3])).tolist()
    [0, 0, 2]
    """
    return np.repeat(bounds[:-1], np.diff(bounds))


def normalized(x: Floats, bounds: Integers, scale: Floats | None, offset: Floats) -> Floats:
    """Return features times a factor plus an offset of each utterance and column: both (utterances, dim).

    Args:
        x, bounds: the features.
        scale: factors; None for 1.
        offset: offsets.
    """
    if native.library():
        return compiled.affine(x, bounds, scale, offset)
    counts = np.diff(bounds)
    added = np.repeat(offset, counts, axis=0)
    result: Floats = x + added if scale is None else x * np.repeat(scale, counts, axis=0) + added
    return result


def stats(x: Floats, bounds: Integers, *, onto: Doubles | None = None) -> Doubles:
    """Compute CMVN statistics (utterances, 2, dim + 1): :func:`~kaldi_compat.functional.cmvn.cmvn_stats`.

    Args:
        x, bounds: the features.
        onto: statistics (utterances, 2, dim + 1) onto which the frames are added one by one.
    """
    if native.library():
        total = np.zeros((len(bounds) - 1, 2, x.shape[1] + 1)) if onto is None else onto.copy()
        compiled.stats(x, bounds, total)
        return total
    before = [None] * (len(bounds) - 1) if onto is None else list(onto)
    each: Doubles = np.stack([cmvn_stats(e, onto=b) for e, b in zip(_each(x, bounds), before, strict=True)])
    return each


def weighted_stats(x: Floats, bounds: Integers, weights: Floats) -> Doubles:
    """Compute CMVN statistics (utterances, 2, dim + 1) of frames with weights (frames,), as :func:`stats` does."""
    if native.library():
        return compiled.weighted_stats(x, bounds, weights)
    of_frames = zip(_each(x, bounds), np.split(weights, bounds[1:-1]), strict=True)
    each: Doubles = np.stack([cmvn_stats(frames, weights=of_each) for frames, of_each in of_frames])
    return each


def products(x: Floats, bounds: Integers, y: Floats) -> Floats:
    """Return sums of products over the frames of each utterance: x * x, y * y and x * y, shape (utterances, 3, dim).

    The order is that of Kaldi's ``compare-feats`` with OpenBLAS's ``sdot``.

    Args:
        x, bounds: the features.
        y: other features of the same shape.

    >>> products(np.float32([[1], [2]]), np.array([0, 2]), np.float32([[3], [5]])).tolist()
    [[[5.0], [34.0], [13.0]]]
    """
    if native.library():
        return compiled.products(x, bounds, y)
    columns = zip(_each(x, bounds), _each(y, bounds), strict=True)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.stack([np.stack([dot(a.T, a.T), dot(b.T, b.T), dot(a.T, b.T)]) for a, b in columns])


def appended(x: Floats, bounds: Integers, vectors: Floats) -> Floats:
    """Append to each frame the vector of its utterance; ``vectors`` is (utterances, width).

    >>> appended(np.float32([[0], [1], [7]]), np.array([0, 2, 3]), np.float32([[5], [6]])).tolist()
    [[0.0, 5.0], [1.0, 5.0], [7.0, 6.0]]
    """
    if native.library():
        return compiled.appended(x, bounds, vectors)
    return np.concatenate((x, np.repeat(vectors, np.diff(bounds), axis=0)), axis=1)


def sliding_cmvn(x: Floats, bounds: Integers, options: SlidingCmvnOptions) -> Floats | None:
    """Normalize each frame over a window around or before it; None if a variance is below Kaldi's floor.

    Args:
        x, bounds: the features.
        options: the window, and whether to normalize variances.
    """
    if native.library():
        return compiled.sliding(
            x, bounds, options.cmn_window, options.min_cmn_window, options.center, options.norm_vars
        )
    parts = []
    for each in _each(x, bounds):
        start, end = sliding_windows(np.arange(len(each)), len(each), options)
        part, variance = normalized_by_windows(each, start, end, norm_vars=options.norm_vars)
        if ((variance < SLIDING_VARIANCE_FLOOR).any(axis=-1) & (end - start > 1)[: len(variance)]).any():
            return None
        parts.append(part)
    return np.concatenate(parts)


def voiced(x: Floats, bounds: Integers, options: VadOptions) -> tuple[Floats, Integers]:
    """Detect voiced frames by the log energies in the first column.

    Args:
        x, bounds: the features.
        options: see :func:`~kaldi_compat.functional.vad.compute_vad`.

    Returns:
        1 or 0 for each frame, and the number of voiced frames of each utterance.
    """
    if native.library():
        return compiled.vad(
            x,
            bounds,
            options.vad_energy_threshold,
            options.vad_energy_mean_scale,
            options.vad_frames_context,
            options.vad_proportion_threshold,
        )
    decisions = [compute_vad(each, options) for each in _each(x, bounds)]
    return np.concatenate(decisions), np.array([int(each.sum(dtype=int)) for each in decisions])


def window_means(weights: Floats, weighted: Floats, bounds: Integers, left: int, right: int) -> Floats:
    """Compute weighted means over windows that slide by a frame, with Kaldi's running sums.

    Args:
        weights: (rows,): of the frames of all utterances.
        weighted: (rows,): the frames' values times their weights.
        bounds: of the utterances.
        left, right: frames before and after each frame that belong to its window.

    Returns:
        (rows,): NaN for a window without frames.
    """
    if native.library():
        return compiled.window_means(weights, weighted, bounds, left, right)
    means = np.empty_like(weights)
    for first, end in itertools.pairwise(bounds.tolist()):
        if first == end:
            continue
        now = np.arange(end - first)
        values = np.stack((weights[first:end], weighted[first:end]), -1).astype(np.float64)
        sums = window_sums(values, np.clip(now - left, 0, None), np.clip(now + right + 1, None, end - first))
        with np.errstate(divide="ignore", invalid="ignore"):
            means[first:end] = sums[:, 1] / sums[:, 0]
    return means
