"""Statistics and normalization of blocks of features."""

from __future__ import annotations

import numpy as np

from kaldi_compat import native
from kaldi_compat.exact.arrays import Doubles, Floats, Integers
from kaldi_compat.exact.sliding import normalize_by_windows
from kaldi_compat.functional.blocks import make_c_arguments, split_utterances
from kaldi_compat.functional.cmvn import SLIDING_VARIANCE_FLOOR, cmvn_statistics, compute_sliding_windows
from kaldi_compat.options.postprocessing import SlidingCmvnOptions


def _compute_statistics_in_c(
    x: Floats, bounds: Integers, *, weights: Floats | None = None, onto: Doubles | None = None
) -> Doubles:
    """Compute CMVN statistics in C: see :func:`compute_statistics`. Raise ValueError for invalid shapes or bounds."""
    shape = (len(bounds) - 1, 2, x.shape[1] + 1)
    total = np.zeros(shape) if onto is None else onto.copy()
    if total.shape != shape:
        raise ValueError(f"onto must have the shape {shape}, not {total.shape}")
    if weights is not None and weights.shape != (len(x),):
        raise ValueError(f"weights must have the shape {(len(x),)}, not {weights.shape}: pass one weight per frame")
    factors = None if weights is None else np.ascontiguousarray(weights, np.float32)
    native.get_function("ragged_stats")(*make_c_arguments(x, bounds), factors, total)
    return total


@native.twin(_compute_statistics_in_c)
def compute_statistics(
    x: Floats, bounds: Integers, *, weights: Floats | None = None, onto: Doubles | None = None
) -> Doubles:
    """Compute the CMVN statistics (utterances, 2, dim + 1) of each utterance, as ``cmvn_statistics`` does.

    Args:
        x, bounds: frames (frames, dim) of all utterances, and their boundaries (utterances + 1,).
        weights: weight of each frame, (frames,); None for 1.
        onto: statistics (utterances, 2, dim + 1), to which the frames are added in order; None for zeros.
    """
    no_arrays = [None] * (len(bounds) - 1)
    utterance_weights = no_arrays if weights is None else split_utterances(weights, bounds)
    utterances = zip(split_utterances(x, bounds), utterance_weights, no_arrays if onto is None else onto, strict=True)
    return np.stack([cmvn_statistics(frames, weights=weight, onto=sums) for frames, weight, sums in utterances])


def scale_and_shift_features(x: Floats, bounds: Integers, scale: Floats | None, offset: Floats) -> Floats:
    """Return the features (frames, dim) of utterances, times the scale of each utterance, plus its offset.

    Args:
        x, bounds: frames (frames, dim) of all utterances, and their boundaries (utterances + 1,).
        scale: factor on each column of each utterance, (utterances, dim); None for a factor of 1.
        offset: offset of each column of each utterance, (utterances, dim).
    """
    counts = np.diff(bounds)
    result: Floats = x if scale is None else x * np.repeat(scale, counts, axis=0)
    return result + np.repeat(offset, counts, axis=0)


def _normalize_by_sliding_windows_in_c(x: Floats, bounds: Integers, options: SlidingCmvnOptions) -> Floats | None:
    """Normalize frames in C: see :func:`normalize_by_sliding_windows`. Also return None if a window is empty.

    Raise MemoryError if the memory for the sums over a window cannot be allocated.
    """
    settings = options.cmn_window, options.min_cmn_window, options.center, options.norm_vars
    out = np.empty_like(x)
    status = native.get_function("ragged_sliding")(*make_c_arguments(x, bounds), *settings, out)
    if status == 1:
        raise MemoryError("not enough memory for sliding CMVN: use shorter utterances, or a machine with more memory")
    return None if status else out  # Status 2 means that a variance must be floored, or that a window is empty.


@native.twin(_normalize_by_sliding_windows_in_c)
def normalize_by_sliding_windows(x: Floats, bounds: Integers, options: SlidingCmvnOptions) -> Floats | None:
    """Normalize each frame over a sliding window: see :func:`~kaldi_compat.functional.cmvn.sliding_cmvn`.

    Args:
        x, bounds: frames (frames, dim) of all utterances, and their boundaries (utterances + 1,).

    Returns:
        Features (frames, dim), or None if ``norm_vars`` is set and a variance must be floored, for which Kaldi warns.
    """
    features = []
    for frames in split_utterances(x, bounds):
        start, end = compute_sliding_windows(np.arange(len(frames)), len(frames), options)
        normalized, variance = normalize_by_windows(frames, start, end, norm_vars=options.norm_vars)
        # Without ``norm_vars``, ``variance`` has no rows. Windows of one frame give zeros, so their variance is unused.
        if ((variance < SLIDING_VARIANCE_FLOOR).any(axis=-1) & (end - start > 1)[: len(variance)]).any():
            return None
        features.append(normalized)
    return np.concatenate(features)
