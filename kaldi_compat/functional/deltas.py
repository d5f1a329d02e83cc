"""Deltas and shifted deltas: regression slopes of features over time (Kaldi: src/feat/feature-functions.cc).

Deltas are short filters along time. The functions ``add_*`` repeat the edge frames as Kaldi does. The functions
``compute_inner_*`` take frames with their context, as in a chunk of a stream, and return identical numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kaldi_compat.exact.sums import fused_multiply_add
from kaldi_compat.functional.array_api import (
    Array,
    astype,
    choose_precision,
    concatenate,
    detect_tracing,
    full,
    to_float64,
)
from kaldi_compat.functional.batches import check_features, repeat_edge_frames, zero_padding
from kaldi_compat.options.base import make_options, takes_options
from kaldi_compat.options.constructors import DeltaKeywords, ShiftedDeltaKeywords, Unpack
from kaldi_compat.options.postprocessing import DeltaOptions, ShiftedDeltaOptions

__all__ = ["add_deltas", "add_shifted_deltas", "repeated_deltas"]

Filter = tuple[float, ...]


def compute_derivative_filter(previous: Filter, window: int, dtype: type[np.floating[Any]] = np.float32) -> Filter:
    """Return the filter that applies ``previous``, and then the regression slope over ``window`` frames on each side.

    Both filters are centered on a frame. If ``previous`` copies the frame, ``(1.0,)``, and ``window`` is 2, the taps
    are -0.2, -0.1, 0, 0.1 and 0.2.
    """
    ramp = np.arange(-window, window + 1, dtype=dtype)
    weights = np.zeros(len(previous) + 2 * window, dtype)
    # Add and scale in Kaldi's order, which decides the last digit of a float.
    for j, slope in enumerate(ramp):
        weights[j : j + len(previous)] += slope * np.asarray(previous, dtype)
    # np.sum adds in a different order, which rounds sums above 2**24 differently.
    normalizer = np.add.accumulate(ramp * ramp)[-1]
    return tuple((weights * dtype(1.0 / float(normalizer))).tolist())


def compute_delta_filters(options: DeltaOptions, dtype: type[np.floating[Any]] = np.float32) -> list[Filter]:
    """Return the filters that compute the deltas of orders 0 to ``delta_order``, with weights rounded to ``dtype``.

    The filter of order 0 is ``(1.0,)``, which copies a frame. The filter of order ``k`` has
    ``2 * k * delta_window + 1`` taps, is centered on a frame, and computes the slope of the deltas of order ``k - 1``.
    """
    filters: list[Filter] = [(1.0,)]
    for _ in range(options.delta_order):
        filters.append(compute_derivative_filter(filters[-1], options.delta_window, dtype))
    return filters


def count_delta_context(options: DeltaOptions) -> int:
    """Return the number of frames on each side that :func:`compute_inner_deltas` needs for the deltas of a frame."""
    return options.delta_order * options.delta_window


def _sum_weighted_frames(features: Array, weights: Filter, first: int, count: int) -> Array:
    """Return frames (..., count, dim) that are weighted sums of consecutive frames of ``features`` (..., frames, dim).

    Frame ``i`` of the result is the sum of ``weights[j]`` times frame ``first + i + j`` over all ``j``. As in Kaldi,
    the terms are added in order, and a weight of 0 is skipped. Without weights, frame ``first + i`` is copied.
    """
    if not weights:
        frames: Array = features[..., first : first + count, :]
        return frames
    total = full((*features.shape[:-2], count, features.shape[-1]), 0.0, features)
    for j, weight in enumerate(weights):
        if weight != 0.0:
            total = _add_weighted_frames(total, weight, features[..., first + j : first + j + count, :])
    return total


def _add_weighted_frames(total: Array, weight: float, frames: Array) -> Array:
    """Return ``total + weight * frames``, for ``total`` and ``frames`` of the same shape and dtype.

    For float32 arrays, the sum is rounded once, like the fused multiply-add of Kaldi's BLAS. In an export to ONNX, it
    is computed in the precision of the frames. Otherwise, it is computed in double precision, and then rounded.
    """
    new_total: Array
    if isinstance(frames, np.ndarray) and frames.dtype == np.float32:
        new_total = fused_multiply_add(np.float32(weight), frames, total)
    elif detect_tracing(frames).to_onnx:  # An ONNX graph stays in float32, because WebGPU has no float64.
        new_total = total + weight * frames
    else:
        new_total = astype(total + weight * to_float64(frames), total.dtype)
    return new_total


def filter_frames(features: Array, filters: Sequence[Filter], starts: Sequence[int], num_frames: int) -> Array:
    """Filter features along time with several filters, and concatenate the results for each frame.

    Args:
        features: (..., frames + context, dim).
        filters: weights of each filter. A filter without weights copies a frame.
        starts: index of the input frame that the first weight of each filter multiplies for output frame 0.
        num_frames: number of frames of the result.

    Returns:
        Results of the filters, side by side (..., frames, dim * filters).
    """
    pairs = zip(filters, starts, strict=True)
    return concatenate([_sum_weighted_frames(features, weights, start, num_frames) for weights, start in pairs])


def compute_inner_deltas(features: Array, options: DeltaOptions, filters: Sequence[Filter] | None = None) -> Array:
    """Compute features with deltas for the frames that have all their context.

    Args:
        features: ``(..., context + frames + context, dim)`` with ``context = count_delta_context(options)``.
        options: order and window of the deltas.
        filters: the result of :func:`compute_delta_filters`, computed here if None.

    Returns:
        ``(..., frames, dim * (delta_order + 1))``: features, first-order deltas, second-order deltas ...
    """
    context = count_delta_context(options)
    starts = [context - order * options.delta_window for order in range(options.delta_order + 1)]
    filters = filters or compute_delta_filters(options, choose_precision(features))
    return filter_frames(features, filters, starts, features.shape[-2] - 2 * context)


@takes_options(DeltaOptions)
def add_deltas(
    features: Array,
    options: DeltaOptions | None = None,
    *,
    lengths: Any | None = None,
    filters: Sequence[Filter] | None = None,
    **changes: Unpack[DeltaKeywords],
) -> Array:
    """Append deltas, the deltas of the deltas, and so on (Kaldi: ComputeDeltas, add-deltas).

    Args:
        features: ``(..., frames, dim)``, NumPy or torch.
        options, changes: order and window, as ``DeltaOptions`` or by name; Kaldi's defaults if omitted.
        lengths: ``(...,)``: number of frames of each utterance in a padded batch. Later frames of the result are zero.
        filters: the result of :func:`compute_delta_filters`, computed here if None.

    Returns:
        ``(..., frames, dim * (delta_order + 1))``: features, first-order deltas, second-order deltas ...

    Raises:
        FeatureError: the shape is not ``(..., frames, dim)``, the features are integers, or the lengths do not match.
        OptionError: an option is invalid.

    >>> import numpy as np
    >>> from kaldi_compat.functional.deltas import add_deltas
    >>> add_deltas(np.array([[0.0], [1.0], [2.0]]), delta_order=1, delta_window=1).tolist()
    [[0.0, 0.5], [1.0, 1.0], [2.0, 0.5]]
    """
    lengths = check_features(features, lengths)
    options = make_options("add_deltas", DeltaOptions, options, changes)
    context = count_delta_context(options)
    return zero_padding(
        compute_inner_deltas(repeat_edge_frames(features, context, context, lengths), options, filters), lengths
    )


@takes_options(DeltaOptions)
def repeated_deltas(
    features: Array,
    options: DeltaOptions | None = None,
    *,
    lengths: Any | None = None,
    filters: Sequence[Filter] | None = None,
    **changes: Unpack[DeltaKeywords],
) -> Array:
    """Append deltas, deltas of deltas and so on, as torchaudio and librosa do: each order repeats its own edge frames.

    Kaldi's higher-order deltas (:func:`add_deltas`) repeat the edge frames of the features, so the outer frames differ.

    Args:
        features: ``(..., frames, dim)``, NumPy or torch.
        options, changes: order and window, as ``DeltaOptions`` or by name; Kaldi's defaults if omitted.
        lengths: ``(...,)``: number of frames of each utterance in a padded batch. Later frames of the result are zero.
        filters: the result of :func:`compute_delta_filters`, computed here if None.

    Returns:
        ``(..., frames, dim * (delta_order + 1))``: features, first-order deltas, second-order deltas ...

    Raises:
        FeatureError: the shape is not ``(..., frames, dim)``, the features are integers, or the lengths do not match.
        OptionError: an option is invalid.

    >>> import numpy as np
    >>> from kaldi_compat.functional.deltas import repeated_deltas
    >>> repeated_deltas(np.array([[0.0], [1.0], [2.0]]), delta_window=1).tolist()
    [[0.0, 0.5, 0.25], [1.0, 1.0, 0.0], [2.0, 0.5, -0.25]]
    """
    lengths = check_features(features, lengths)
    options = make_options("repeated_deltas", DeltaOptions, options, changes)
    slope_filters = (filters or compute_delta_filters(options, choose_precision(features)))[1:2]
    orders = [zero_padding(features, lengths)]
    for _ in range(options.delta_order):
        extended = repeat_edge_frames(orders[-1], options.delta_window, options.delta_window, lengths)
        orders.append(zero_padding(filter_frames(extended, slope_filters, [0], features.shape[-2]), lengths))
    return concatenate(orders)


def count_shifted_delta_context(options: ShiftedDeltaOptions) -> tuple[int, int]:
    """Return the numbers of frames before and after each frame that :func:`compute_inner_shifted_deltas` needs."""
    last_shift = max(0, options.num_blocks - 1) * options.block_shift  # Negative if block_shift is negative.
    return options.delta_window + max(0, -last_shift), options.delta_window + max(0, last_shift)


def compute_shifted_delta_filters(
    options: ShiftedDeltaOptions, dtype: type[np.floating[Any]] = np.float32
) -> list[Filter]:
    """Return the filter that copies a frame, ``(1.0,)``, and a filter for each block of deltas.

    The filters of all blocks are equal. Their weights are rounded to ``dtype``.
    """
    return [(1.0,), *[compute_derivative_filter((1.0,), options.delta_window, dtype)] * options.num_blocks]


def compute_inner_shifted_deltas(
    features: Array, options: ShiftedDeltaOptions, filters: Sequence[Filter] | None = None
) -> Array:
    """Compute features with shifted deltas for the frames that have all their context.

    Args:
        features: ``(..., left + frames + right, dim)``: see :func:`count_shifted_delta_context` for ``left, right``.
        options: window, number of blocks, and shift from block to block in frames.
        filters: the result of :func:`compute_shifted_delta_filters`, computed here if None.

    Returns:
        ``(..., frames, dim * (num_blocks + 1))``: the features, and then the blocks of deltas.
    """
    left, right = count_shifted_delta_context(options)
    first: int = left - options.delta_window  # First input frame of the first block of deltas.
    starts = [left, *[first + block * options.block_shift for block in range(options.num_blocks)]]
    filters = filters or compute_shifted_delta_filters(options, choose_precision(features))
    return filter_frames(features, filters, starts, features.shape[-2] - left - right)


@takes_options(ShiftedDeltaOptions)
def add_shifted_deltas(
    features: Array,
    options: ShiftedDeltaOptions | None = None,
    *,
    lengths: Any | None = None,
    filters: Sequence[Filter] | None = None,
    **changes: Unpack[ShiftedDeltaKeywords],
) -> Array:
    """Append the deltas at each frame and at multiples of ``block_shift`` after it (Kaldi: ComputeShiftedDeltas).

    Args:
        features: ``(..., frames, dim)``, NumPy or torch.
        options, changes: window, blocks and shift, as ``ShiftedDeltaOptions`` or by name; Kaldi's defaults if omitted.
        lengths: ``(...,)``: number of frames of each utterance in a padded batch. Later frames of the result are zero.
        filters: the result of :func:`compute_shifted_delta_filters`, computed here if None.

    Returns:
        ``(..., frames, dim * (num_blocks + 1))``: the features, and then the blocks of deltas.

    Raises:
        FeatureError: the shape is not ``(..., frames, dim)``, the features are integers, or the lengths do not match.
        OptionError: an option is invalid.

    >>> import numpy as np
    >>> from kaldi_compat.functional.deltas import add_shifted_deltas
    >>> add_shifted_deltas(np.zeros((20, 7))).shape
    (20, 56)
    """
    lengths = check_features(features, lengths)
    options = make_options("add_shifted_deltas", ShiftedDeltaOptions, options, changes)
    left, right = count_shifted_delta_context(options)
    return zero_padding(
        compute_inner_shifted_deltas(repeat_edge_frames(features, left, right, lengths), options, filters), lengths
    )
