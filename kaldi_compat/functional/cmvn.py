"""Cepstral mean and variance normalization (Kaldi: src/transform/cmvn.cc, SlidingWindowCmn in feature-functions.cc).

Statistics have Kaldi's layout, ``(2, dim + 1)`` in double precision: the sums and the frame count, then the sums of
squares and a zero. Add the statistics of several utterances with ``+``. A speaker or a corpus has one such
matrix; a batch has ``(..., 2, dim + 1)``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kaldi_compat.errors import FeatureError
from kaldi_compat.exact.sliding import normalize_by_windows
from kaldi_compat.functional.array_api import (
    Array,
    arange,
    astype,
    convert_like,
    full,
    get_namespace,
    sum_cumulatively,
    take_frames,
    to_float64,
    widen_to_float32,
)
from kaldi_compat.functional.batches import check_features, zero_padding
from kaldi_compat.options.base import make_options, takes_options
from kaldi_compat.options.constructors import CmvnKeywords, OnlineCmvnKeywords, SlidingCmvnKeywords, Unpack
from kaldi_compat.options.postprocessing import CmvnOptions, OnlineCmvnOptions, SlidingCmvnOptions

__all__ = ["apply_cmvn", "cmvn_statistics", "online_cmvn", "sliding_cmvn"]

VARIANCE_FLOOR = 1.0e-20  # Lower bound on variances in Kaldi's ApplyCmvn.
SLIDING_VARIANCE_FLOOR = 1.0e-10  # Lower bound on variances in Kaldi's SlidingWindowCmn.


def cmvn_statistics(
    features: Array, *, weights: Any | None = None, lengths: Any | None = None, onto: Array | None = None
) -> Array:
    """Compute the statistics for mean and variance normalization (Kaldi: AccCmvnStats).

    Args:
        features: ``(..., frames, dim)``, NumPy or torch.
        weights: ``(..., frames)``: weight of each frame. Frames of weight zero are ignored, even if they are NaN.
        lengths: ``(...,)``: number of frames of each utterance in a padded batch.
        onto: ``(..., 2, dim + 1)``: statistics of other utterances, to which the frames are added one by one, in
            Kaldi's order. None for zeros.

    Returns:
        ``(..., 2, dim + 1)`` in double precision: the sums of the columns and the number of frames (or the sum of the
        weights) in the first row, the sums of squares and 0 in the second row.

    Raises:
        FeatureError: the features are not floats ``(..., frames, dim)``, or the weights or the lengths do not match.

    >>> import numpy as np
    >>> from kaldi_compat.functional.cmvn import cmvn_statistics
    >>> cmvn_statistics(np.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[4.0, 6.0, 2.0], [10.0, 20.0, 0.0]]
    """
    lengths = check_features(features, lengths)
    xp = get_namespace(features)
    features = widen_to_float32(features)
    factors: Any = full((*features.shape[:-1], 1), 1.0, features)
    if weights is not None:
        factors = astype(convert_like(weights, features), features.dtype)[..., None]
        if tuple(factors.shape[:-1]) != tuple(features.shape[:-1]):
            raise FeatureError(
                f"weights of shape {tuple(factors.shape[:-1])} do not match features of shape {tuple(features.shape)}: "
                "pass one weight for each frame"
            )
        features = xp.where(factors != 0, features, full((), 0.0, features))
    # As in Kaldi, weighted numbers are rounded to the precision of the features, and added in double precision.
    zeros = full(tuple(factors.shape), 0.0, factors)
    rows: list[Any] = []
    for row, terms in enumerate(((features * factors, factors), (features * features * factors, zeros))):
        terms_in_double = to_float64(zero_padding(xp.concatenate(terms, axis=-1), lengths))
        if onto is not None:
            terms_in_double = xp.concatenate((onto[..., row : row + 1, :], terms_in_double), axis=-2)
        rows.append(xp.sum(terms_in_double, axis=-2))
    statistics: Array = xp.stack(rows, -2)
    return statistics


def weigh_two_channels(first: Array, second: Array, quieter_channel_weight: float) -> tuple[Array, Array]:
    """Compute frame weights for the CMVN statistics of a two-channel call (Kaldi: compute-cmvn-stats-two-channel).

    In each frame, the louder channel has weight 1. The loudness is the first column of the features (energy or C0). If
    both channels are equally loud, the second channel counts as louder.

    Args:
        first, second: features of the first and the second channel, ``(..., frames, dim)``.
        quieter_channel_weight: weight of a frame in the quieter channel.

    Returns:
        The weights of both channels, each ``(..., frames)``.
    """
    is_first_louder = first[..., 0] > second[..., 0]
    louder, quieter = full((), 1.0, first), full((), quieter_channel_weight, first)
    xp = get_namespace(first)
    return xp.where(is_first_louder, louder, quieter), xp.where(is_first_louder, quieter, louder)


def _check_dims(dims: Sequence[int], dim: int) -> None:
    """Raise FeatureError unless the column indices ``dims`` are from 0 to ``dim - 1``."""
    if not all(0 <= d < dim for d in dims):
        raise FeatureError(f"dimensions to skip must be from 0 to {dim - 1}, not {':'.join(map(str, dims))}")


def replace_statistics(statistics: Array, dims: Sequence[int]) -> Array:
    """Set the statistics of some dimensions to zero mean and unit variance, so that normalization skips the dimensions.

    Args:
        statistics: ``(..., 2, dim + 1)``, or ``(..., 1, dim + 1)`` without variances.
        dims: indices of the dimensions to skip, from 0.

    Returns:
        Statistics of the same shape and dtype.

    Raises:
        FeatureError: a dimension does not exist, or the statistics do not have one or two rows.
    """
    if not dims:
        return statistics
    if statistics.shape[-2] not in (1, 2):
        raise FeatureError(
            f"CMVN statistics have two rows, or one without variances, not {statistics.shape[-2]}: "
            "pass statistics of shape (2, dim + 1)"
        )
    dim = statistics.shape[-1] - 1
    _check_dims(dims, dim)
    is_skipped = convert_like([d in dims for d in range(dim)] + [False], statistics)
    count = statistics[..., :1, -1:]
    replacement = (full(count.shape, 0.0, statistics), count)[: statistics.shape[-2]]
    xp = get_namespace(statistics)
    replaced: Array = xp.where(is_skipped, xp.concatenate(replacement, axis=-2), statistics)
    return replaced


def compute_mean_and_variance(statistics: Array) -> Array:
    """Compute the mean and the variance of each column, ``(..., 2, dim)``, from statistics ``(..., 2, dim + 1)``."""
    average = statistics[..., :-1] / statistics[..., :1, -1:]
    mean = average[..., :1, :]
    moments: Array = get_namespace(statistics).concatenate((mean, average[..., 1:, :] - mean * mean), axis=-2)
    return moments


def compute_scale_and_offset(statistics: Array, options: CmvnOptions, dtype: Any) -> tuple[Array | None, Array]:
    """Return the scale and the offset, (..., 1, dim), for which ``features * scale + offset`` are normalized.

    With ``reverse``, they restore normalized features. The scale is None without ``norm_vars``.

    Args:
        statistics: (..., 2, dim + 1), or (..., 1, dim + 1) if the options need no variances; in double precision.
        dtype: type of the features and of the results.
    """
    xp = get_namespace(statistics)
    count = xp.maximum(statistics[..., :1, -1:], full((), 1.0, statistics))
    if not options.norm_vars and not options.reverse:
        # Kaldi rounds the reciprocal of the count to single precision before it multiplies.
        rounded = astype(-1.0 / count, dtype if dtype == xp.float64 else xp.float32)
        # Kaldi adds the product to zero, which turns -0.0 into 0.0.
        return None, astype(to_float64(rounded) * statistics[..., :1, :-1] + 0.0, dtype)
    mean = statistics[..., :1, :-1] / count
    if not options.norm_vars:
        return None, astype(mean, dtype)
    variance = xp.maximum(statistics[..., 1:, :-1] / count - mean * mean, full((), VARIANCE_FLOOR, statistics))
    if options.reverse:
        return astype(xp.sqrt(variance), dtype), astype(mean, dtype)
    scale = 1.0 / xp.sqrt(variance)
    return astype(scale, dtype), astype(-(mean * scale), dtype)


def refuse_tables(statistics: Any) -> None:
    """Raise FeatureError if statistics are a table of matrices or the name of a file, instead of one matrix."""
    if isinstance(statistics, (str, bytes, os.PathLike, Mapping)):
        raise FeatureError(
            f"CMVN statistics must be one matrix (2, dim + 1), not {type(statistics).__name__}: "
            "pass for example io_ark.load_scp(FILE)[SPEAKER]"
        )


def check_statistics(statistics: Array, dim: int, options: CmvnOptions) -> None:
    """Check that statistics can be applied to features with ``dim`` columns.

    Raises:
        FeatureError: the shape is neither (..., 2, dim + 1) nor, without variances, (..., 1, dim + 1); a count is below
            1; or with ``norm_vars``, a number is not finite or the variances are missing.
    """
    shape = tuple(statistics.shape)
    if len(shape) < 2 or shape[-2] not in (1, 2) or shape[-1] != dim + 1:
        raise FeatureError(
            f"CMVN statistics of shape {shape} do not fit features of dimension {dim}: expected (2, {dim + 1})"
        )
    if options.norm_vars and shape[-2] == 1:
        raise FeatureError(
            "norm_vars=True, but the statistics have no variances (one row): "
            "pass statistics with two rows, or norm_vars=False"
        )
    if options.norm_vars and not bool(get_namespace(statistics).isfinite(statistics).all()):
        raise FeatureError(
            "the CMVN statistics contain NaN or infinite values: compute them again from finite features"
        )
    # A count of one is valid, because a plain offset may be stored as statistics of one frame.
    if not bool((statistics[..., 0, -1] >= 1.0).all()):
        lowest = float(statistics[..., 0, -1].min())
        raise FeatureError(
            f"the CMVN statistics count {lowest:g} frames, but must count at least 1: compute them from more frames"
        )


def apply_normalization(features: Array, statistics: Array, options: CmvnOptions) -> Array:
    """Normalize features as :func:`apply_cmvn` does, but without checks. A frame count below 1 is replaced with 1.

    Args:
        features: (..., frames, dim).
        statistics: (..., 2, dim + 1), or (..., 1, dim + 1) if the options need no variances.
    """
    if not options.norm_means:
        return features
    scale, offset = compute_scale_and_offset(to_float64(statistics), options, features.dtype)
    normalized: Array = features + offset if scale is None else features * scale + offset
    return normalized


@takes_options(CmvnOptions)
def apply_cmvn(
    features: Array, statistics: Any, options: CmvnOptions | None = None, **changes: Unpack[CmvnKeywords]
) -> Array:
    """Normalize features by the statistics of an utterance, a speaker or a corpus (Kaldi: ApplyCmvn).

    Args:
        features: ``(..., frames, dim)``, NumPy or torch.
        statistics: ``(2, dim + 1)`` for all utterances, or ``(..., 2, dim + 1)`` for the utterances of a batch. For
            means only, one row ``(1, dim + 1)`` suffices. See :func:`replace_statistics` for dimensions to skip.
        options, changes: options of the normalization or its inverse, as ``CmvnOptions`` or by name (default: Kaldi's).

    Returns:
        Features of the same shape and dtype, unchanged without ``norm_means``.

    Raises:
        FeatureError: the features are not floating-point numbers ``(..., frames, dim)``, or the statistics do not match
            the features, count fewer than one frame, or with ``norm_vars`` are not finite or lack variances.
        OptionError: an option is invalid.

    >>> import numpy as np
    >>> from kaldi_compat.functional.cmvn import apply_cmvn, cmvn_statistics
    >>> x = np.array([[1.0, 2.0], [3.0, 6.0]])
    >>> apply_cmvn(x, cmvn_statistics(x), norm_vars=True).tolist()
    [[-1.0, -1.0], [1.0, 1.0]]
    """
    check_features(features)
    options = make_options("apply_cmvn", CmvnOptions, options, changes)
    if not options.norm_means:
        return features
    refuse_tables(statistics)
    matrix = convert_like(statistics, features)
    check_statistics(matrix, features.shape[-1], options)
    return apply_normalization(features, matrix, options)


@takes_options(CmvnOptions)
def apply_own_cmvn(
    features: Array, options: CmvnOptions | None = None, *, lengths: Any | None = None, **changes: Unpack[CmvnKeywords]
) -> Array:
    """Normalize each utterance by its mean, and with ``norm_vars`` also by its variance.

    Args:
        features: ``(..., frames, dim)``, NumPy or torch.
        options, changes: options of the normalization, as ``CmvnOptions`` or by name; Kaldi's defaults if omitted.
        lengths: ``(...,)``: number of frames of each utterance in a padded batch. Later frames of the result are zero.

    Returns:
        Features of the same shape and dtype. Without ``norm_means``, the valid frames are unchanged.

    Raises:
        FeatureError: the shape is not ``(..., frames, dim)``, the features are integers, or the lengths do not match.
        OptionError: an option is invalid.
    """
    options = make_options("apply_own_cmvn", CmvnOptions, options, changes)
    return zero_padding(apply_normalization(features, cmvn_statistics(features, lengths=lengths), options), lengths)


def compute_sliding_windows(frame_indices: Array, frames: Any, options: SlidingCmvnOptions) -> tuple[Array, Array]:
    """Return the start and the end (exclusive) of the window over which each frame is normalized.

    With ``center``, a window is centered on its frame, or shifted to lie in the utterance. Otherwise, the window begins
    ``cmn_window`` frames before the frame, and ends with the frame, or with frame ``min_cmn_window - 1`` if that is
    later. Windows are cut at the ends of the utterance.

    Args:
        frame_indices: indices of the frames, integers of any shape.
        frames: total number of frames, a number or an array that broadcasts with ``frame_indices``.

    Returns:
        The starts and the ends, both of the shape of ``frame_indices`` after broadcasting.
    """
    xp = get_namespace(frame_indices)
    if options.center:
        start = xp.clip(frame_indices - options.cmn_window // 2, 0, None)
        end = start + options.cmn_window
    else:
        start = xp.clip(frame_indices - options.cmn_window, 0, None)
        end = xp.clip(frame_indices + 1, options.min_cmn_window, None)
    overhang = xp.clip(end - frames, 0, None)
    return xp.clip(start - overhang, 0, None), end - overhang


@takes_options(SlidingCmvnOptions)
def compute_sliding_mean_and_variance(
    features: Array,
    options: SlidingCmvnOptions | None = None,
    *,
    lengths: Any | None = None,
    **changes: Unpack[SlidingCmvnKeywords],
) -> tuple[Array, Array, Array]:
    """Compute the mean and the variance in the window of each frame: see :func:`compute_sliding_windows`.

    Args:
        features: ``(..., frames, dim)``, NumPy or torch.
        options, changes: options of the window, as ``SlidingCmvnOptions`` or by name; Kaldi's defaults if omitted.
        lengths: ``(...,)``: number of frames of each utterance in a padded batch.

    Returns:
        Means and variances ``(..., frames, dim)`` in double precision, and the sizes of the windows in frames,
        ``(..., frames)`` (``(frames,)`` without lengths).

    Raises:
        FeatureError: the shape is not ``(..., frames, dim)``, the features are integers, or the lengths do not match.
        OptionError: an option is invalid.
    """
    lengths = check_features(features, lengths)
    options = make_options("compute_sliding_mean_and_variance", SlidingCmvnOptions, options, changes)
    xp = get_namespace(features)
    frames = features.shape[-2]
    frame_indices = arange(0, frames, features)
    if lengths is None:
        start, end = compute_sliding_windows(frame_indices, frames, options)
    else:  # Padding gets the window of the last valid frame. An empty utterance counts as one frame.
        counts = xp.clip(convert_like(lengths, features)[..., None], 1, None)
        start, end = compute_sliding_windows(xp.minimum(frame_indices, counts - 1), counts, options)
    return compute_window_mean_and_variance(zero_padding(features, lengths), start, end)


def compute_window_mean_and_variance(features: Array, start: Array, end: Array) -> tuple[Array, Array, Array]:
    """Compute the mean and the variance of each column over windows of frames.

    Args:
        features: ``(..., frames, dim)``.
        start, end: first frame of each window, and the frame after its last frame: ``(windows,)``, or
            ``(..., windows)`` if the utterances of a batch have different windows.

    Returns:
        Means and variances ``(..., windows, dim)`` in double precision, and the sizes of the windows in frames,
        ``end - start``.
    """
    xp = get_namespace(features)
    size = end - start

    # A sum over a window is a difference of cumulative sums. Subtracting the first frame keeps the sums small, so that
    # the variance, which does not depend on an offset, keeps its precision.
    doubles = to_float64(features)
    origin = doubles[..., :1, :]
    centered = doubles - origin

    def average_windows(values: Array) -> Array:
        """Return the mean of ``values`` (..., frames, dim) over each window, (..., windows, dim)."""
        sums: Any = sum_cumulatively(values, -2)
        sums = xp.concatenate((full((*sums.shape[:-2], 1, sums.shape[-1]), 0.0, sums), sums), axis=-2)
        average: Array = (take_frames(sums, end) - take_frames(sums, start)) / size[..., None]
        return average

    mean = average_windows(centered)
    variance = average_windows(centered * centered) - mean * mean
    return mean + origin, variance, size


@takes_options(SlidingCmvnOptions)
def sliding_cmvn(
    features: Array,
    options: SlidingCmvnOptions | None = None,
    *,
    lengths: Any | None = None,
    **changes: Unpack[SlidingCmvnKeywords],
) -> Array:
    """Normalize each frame by the mean (and variance) of a sliding window (Kaldi: SlidingWindowCmn).

    Args:
        features: ``(..., frames, dim)``, NumPy or torch.
        options, changes: window and normalization, as ``SlidingCmvnOptions`` or by name; Kaldi's defaults if omitted.
        lengths: ``(...,)``: number of frames of each utterance in a padded batch. Later frames of the result are zero.

    Returns:
        Features of the same shape and dtype. With ``norm_vars``, a window of a single frame gives zeros.

    Raises:
        FeatureError: the shape is not ``(..., frames, dim)``, the features are integers, or the lengths do not match.
        OptionError: an option is invalid.

    >>> import numpy as np
    >>> from kaldi_compat.functional.cmvn import sliding_cmvn
    >>> sliding_cmvn(np.array([[1.0], [3.0], [7.0]]), cmn_window=2, center=True).tolist()
    [[-1.0], [1.0], [2.0]]
    """
    options = make_options("sliding_cmvn", SlidingCmvnOptions, options, changes)
    if isinstance(features, np.ndarray) and features.dtype == np.float32:
        by_utterance: Array = _compute_sliding_cmvn_exactly(features, options, check_features(features, lengths))
        return by_utterance
    mean, variance, size = compute_sliding_mean_and_variance(features, options, lengths=lengths)
    return zero_padding(apply_mean_and_variance(features, mean, variance, size, options), lengths)


def _compute_sliding_cmvn_exactly(features: Any, options: SlidingCmvnOptions, lengths: Any | None) -> Any:
    """Apply :func:`sliding_cmvn` to float32 arrays with Kaldi's bits, one utterance after the other."""
    normalized = np.zeros(features.shape, np.float32)
    for row in np.ndindex(features.shape[:-2]):
        count = features.shape[-2] if lengths is None else int(lengths[row])
        if count:
            windows = compute_sliding_windows(np.arange(count), count, options)
            frames = features[row][:count]
            normalized[row][:count], _ = normalize_by_windows(frames, *windows, norm_vars=options.norm_vars)
    return normalized


def apply_mean_and_variance(
    features: Array, mean: Array, variance: Array, size: Array, options: SlidingCmvnOptions
) -> Array:
    """Normalize each frame by the mean of its window, and with ``norm_vars`` also by the variance.

    Args:
        features: (..., frames, dim).
        mean, variance: (..., frames, dim): mean and variance of the window of each frame.
        size: (..., frames): number of frames of each window. With ``norm_vars``, windows of one frame give zeros.
    """
    xp = get_namespace(features)
    centered = to_float64(features) - mean
    if options.norm_vars:
        floored = xp.maximum(variance, full((), SLIDING_VARIANCE_FLOOR, variance))
        centered = xp.where((size > 1)[..., None], centered / xp.sqrt(floored), full((), 0.0, centered))
    return astype(centered, features.dtype)


@takes_options(OnlineCmvnOptions)
def online_cmvn(
    features: Array,
    statistics: Any,
    options: OnlineCmvnOptions | None = None,
    *,
    skip_dims: Sequence[int] = (),
    lengths: Any | None = None,
    **changes: Unpack[OnlineCmvnKeywords],
) -> Array:
    """Normalize each frame by the mean (and variance) of the window that ends with it (Kaldi: OnlineCmvn).

    Each utterance is normalized as the first utterance of its speaker.

    Args:
        features: ``(..., frames, dim)``, NumPy or torch.
        statistics: ``(2, dim + 1)``: statistics of a corpus, which fill the window at the start of an utterance.
        options, changes: window and normalization, as ``OnlineCmvnOptions`` or by name; Kaldi's defaults if omitted.
        skip_dims: dimensions to leave unchanged.
        lengths: ``(...,)``: number of frames of each utterance in a padded batch. Later frames of the result are zero.

    Returns:
        Features of the same shape and dtype, equal to Kaldi's except for rounding. See
        :class:`kaldi_compat.numpy.OnlineCmvn` for Kaldi's bits.

    Raises:
        FeatureError: the shape is not ``(..., frames, dim)``, the features are integers, a dimension to skip does not
            exist, the lengths do not match, or the statistics are invalid (see :func:`apply_cmvn`).
        OptionError: an option is invalid.

    >>> import numpy as np
    >>> from kaldi_compat.functional.cmvn import cmvn_statistics, online_cmvn
    >>> frames = np.array([[1.0], [3.0], [5.0], [7.0]])
    >>> online_cmvn(frames, cmvn_statistics(frames), cmn_window=2, global_frames=1).tolist()
    [[-1.5], [1.0], [1.0], [1.0]]
    """
    lengths = check_features(features, lengths)
    options = make_options("online_cmvn", OnlineCmvnOptions, options, changes)
    refuse_tables(statistics)
    corpus = convert_like(statistics, features)
    check_statistics(corpus, features.shape[-1], CmvnOptions(norm_vars=options.norm_vars))
    return apply_online_normalization(features, corpus, options, skip_dims, lengths)


def apply_online_normalization(
    features: Array, statistics: Array, options: OnlineCmvnOptions, skip_dims: Sequence[int], lengths: Any | None
) -> Array:
    """Return the result of :func:`online_cmvn`, without checking the statistics and the lengths."""
    end = arange(1, features.shape[-2] + 1, features)
    start = get_namespace(features).clip(end - options.cmn_window, 0, None)
    window = compute_window_mean_and_variance(zero_padding(features, lengths), start, end)
    window = fill_window(window, to_float64(statistics), options.global_frames, options)
    result: Array = zero_padding(normalize_frames_online(features, window, options, skip_dims), lengths)
    return result


def fill_window(
    window: tuple[Array, Array, Array], statistics: Array, max_frames: Any, options: OnlineCmvnOptions
) -> tuple[Array, Array, Array]:
    """Add statistics, for example of a corpus, to windows of fewer than ``cmn_window`` frames.

    The statistics count as the missing frames of each window, but at most as ``max_frames`` frames.

    Args:
        window: means and variances ``(..., frames, dim)`` and sizes ``(..., frames)`` of the windows.
        statistics: ``(2, dim + 1)``, or ``(..., 1, 2, dim + 1)`` for the utterances of a batch.
        max_frames: largest number of frames that the statistics count as, a number or ``(..., 1)``.

    Returns:
        Means, variances and sizes of the filled windows, in the shapes of ``window``.
    """
    mean, variance, size = window
    xp = get_namespace(mean)
    missing_frames = xp.clip(options.cmn_window - to_float64(size), 0, None)
    added_frames = xp.clip(xp.minimum(missing_frames, convert_like(max_frames, mean)), 0, None)
    share = (added_frames / (size + added_frames))[..., None]
    moments = compute_mean_and_variance(statistics)
    distance = moments[..., 0, :] - mean
    # The squared distance of the two means adds to the variance of the frames and the statistics together.
    filled_variance = variance + share * (moments[..., 1, :] - variance) + share * (1 - share) * distance * distance
    return mean + share * distance, filled_variance, size + added_frames


def normalize_frames_online(
    features: Array, window: tuple[Array, Array, Array], options: OnlineCmvnOptions, skip_dims: Sequence[int]
) -> Array:
    """Subtract the mean of each frame's window, and with ``norm_vars`` divide by the standard deviation.

    Without ``norm_means``, the features stay unchanged. Raise FeatureError if a column to skip does not exist.

    Args:
        features: (..., frames, dim).
        window: means and variances ``(..., frames, dim)`` and sizes ``(..., frames)`` of the windows.
        skip_dims: indices of columns that are not normalized.
    """
    mean, variance, _ = window
    _check_dims(skip_dims, features.shape[-1])
    if not options.norm_means:
        return features
    xp = get_namespace(features)
    centered = to_float64(features) - mean
    if options.norm_vars:
        centered = centered / xp.sqrt(xp.maximum(variance, full((), VARIANCE_FLOOR, variance)))
    normalized: Array = astype(centered, features.dtype)
    if not skip_dims:
        return normalized
    with_skipped: Array = xp.where(
        convert_like([d in skip_dims for d in range(features.shape[-1])], features), features, normalized
    )
    return with_skipped
