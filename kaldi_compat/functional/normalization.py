"""Normalization of features as models expect it. Arrays of NumPy or torch, ``(..., frames, dim)``.

Kaldi's own normalization is in :mod:`kaldi_compat.functional.cmvn`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kaldi_compat.errors import FeatureError
from kaldi_compat.exact.sums import sum_in_order
from kaldi_compat.functional.array_api import (
    Array,
    arange,
    astype,
    convert_like,
    full,
    get_namespace,
    to_float64,
    widen_to_float32,
)
from kaldi_compat.functional.batches import check_features, zero_padding
from kaldi_compat.functional.cmvn import compute_window_mean_and_variance
from kaldi_compat.options.base import make_options, takes_options
from kaldi_compat.options.constructors import CenteredMeanKeywords, FloorKeywords, Unpack, UtteranceCmvnKeywords
from kaldi_compat.options.frontend import CenteredMeanOptions, FloorOptions, UtteranceCmvnOptions

__all__ = ["apply_shift_and_scale", "floor_features", "subtract_centered_mean", "utterance_cmvn"]

# A column counts as constant if its standard deviation is at most this fraction of its mean, and thus a rounding error.
MAX_CONSTANT_DEVIATION = 2.0**-18


@takes_options(UtteranceCmvnOptions)
def utterance_cmvn(
    features: Array,
    options: UtteranceCmvnOptions | None = None,
    *,
    lengths: Any | None = None,
    **changes: Unpack[UtteranceCmvnKeywords],
) -> Array:
    """Subtract the mean of each column of an utterance, and with ``norm_vars`` divide by its standard deviation.

    With ``norm_vars``, constant columns become zero. See :mod:`kaldi_compat.functional.cmvn` for Kaldi's normalization.

    Args:
        features: ``(..., frames, dim)``, NumPy or torch.
        options, changes: ``norm_vars``, and how the standard deviation is computed, as ``UtteranceCmvnOptions`` or by
            name.
        lengths: ``(...,)``: number of frames of each utterance in a padded batch. Later frames of the result are zero.

    Returns:
        Features of the same shape and dtype.

    Raises:
        FeatureError: the shape is not ``(..., frames, dim)``, the features are integers, or the lengths do not match.
        OptionError: an option is invalid.

    >>> import numpy as np
    >>> from kaldi_compat.functional.normalization import utterance_cmvn
    >>> utterance_cmvn(np.array([[1.0], [3.0], [9.0]]), norm_vars=True, lengths=2).tolist()
    [[-1.0], [1.0], [0.0]]
    """
    lengths = check_features(features, lengths)
    options = make_options("utterance_cmvn", UtteranceCmvnOptions, options, changes)
    xp = get_namespace(features)
    # NumPy adds frames one by one, which needs double precision. torch adds in pairs, for which single precision
    # suffices, and runs on devices without double precision.
    values: Any = to_float64(features) if isinstance(features, np.ndarray) else widen_to_float32(features)
    # The count is an array even without lengths, because it is a symbol in a traced model.
    count: Any = full((), 0.0, values) + features.shape[-2]
    if lengths is not None:
        count = astype(convert_like(lengths, features), values.dtype)[..., None, None]

    def average_frames(x: Any, ddof: int) -> Any:
        """Return the sum (..., 1, dim) of ``x`` over valid frames, divided by ``max(count - ddof, 1)``."""
        masked: Any = zero_padding(x, lengths)
        total = sum_in_order(masked, -2) if isinstance(masked, np.ndarray) else xp.sum(masked, -2, keepdim=True)
        return total / xp.clip(count - ddof, 1, None)

    mean = average_frames(values, 0)
    normalized: Array = values - mean
    if options.norm_vars:
        variance = average_frames(normalized * normalized, int(options.unbiased))
        is_constant = variance <= xp.square(MAX_CONSTANT_DEVIATION * mean)
        deviation = xp.sqrt(xp.where(is_constant, full((), 1.0, variance), variance + options.epsilon))
        normalized = xp.where(is_constant, full((), 0.0, normalized), normalized / deviation)
    return zero_padding(astype(normalized, features.dtype), lengths)


@takes_options(CenteredMeanOptions)
def subtract_centered_mean(
    features: Array,
    options: CenteredMeanOptions | None = None,
    *,
    lengths: Any | None = None,
    **changes: Unpack[CenteredMeanKeywords],
) -> Array:
    """Subtract from each frame the mean of the frames around it (pyannote: ``fbank_centering_span``).

    Near the ends, the mean is taken over the frames that exist. Kaldi's sliding window keeps its size there
    (:func:`~kaldi_compat.functional.cmvn.sliding_cmvn`).

    Args:
        features: ``(..., frames, dim)``, NumPy or torch.
        options, changes: the number of frames on each side, as ``CenteredMeanOptions`` or by name.
        lengths: ``(...,)``: number of frames of each utterance in a padded batch. Later frames of the result are zero.

    Returns:
        Features of the same shape and dtype.

    Raises:
        FeatureError: the shape is not ``(..., frames, dim)``, the features are integers, or the lengths do not match.
        OptionError: an option is invalid.

    >>> import numpy as np
    >>> from kaldi_compat.functional.normalization import subtract_centered_mean
    >>> subtract_centered_mean(np.array([[1.0], [3.0], [8.0]]), context=1).tolist()
    [[-1.0], [-1.0], [2.5]]
    """
    lengths = check_features(features, lengths)
    options = make_options("subtract_centered_mean", CenteredMeanOptions, options, changes)
    xp = get_namespace(features)
    frames = features.shape[-2]
    frame_indices = arange(0, frames, features)
    count: Any = frames
    if lengths is not None:  # Padding gets the window of the last valid frame. An empty utterance counts as one frame.
        count = xp.clip(convert_like(lengths, features)[..., None], 1, None)
        frame_indices = xp.minimum(frame_indices, count - 1)
    start = xp.clip(frame_indices - options.context, 0, None)
    end = frame_indices + options.context + 1
    end = xp.clip(end, None, frames) if lengths is None else xp.minimum(end, count)
    mean, _, _ = compute_window_mean_and_variance(zero_padding(features, lengths), start, end)
    result: Array = zero_padding(astype(to_float64(features) - mean, features.dtype), lengths)
    return result


def apply_shift_and_scale(features: Array, shift: Any, scale: Any, *, lengths: Any | None = None) -> Array:
    """Compute ``(features + shift) * scale``, which normalizes features by the statistics of a corpus.

    Args:
        features: ``(..., frames, dim)``, NumPy or torch.
        shift, scale: the negative mean, and the inverse of the standard deviation; a number or ``(dim,)``.
        lengths: ``(...,)``: number of frames of each utterance in a padded batch. Later frames of the result are zero.

    Returns:
        Features of the same shape and dtype.

    Raises:
        FeatureError: the features are not floats ``(..., frames, dim)``, or the shift, scale or lengths do not match.

    >>> import numpy as np
    >>> from kaldi_compat.functional.normalization import apply_shift_and_scale
    >>> apply_shift_and_scale(np.array([[1.0, 4.0]]), [-1.0, -2.0], 0.5).tolist()
    [[0.0, 1.0]]
    """
    lengths = check_features(features, lengths)
    offset: Array = astype(convert_like(shift, features), features.dtype)
    factor: Array = astype(convert_like(scale, features), features.dtype)
    dim = features.shape[-1]
    for statistics in (offset, factor):
        if statistics.ndim and statistics.shape[-1] != dim:
            raise FeatureError(
                f"statistics of dimension {statistics.shape[-1]} do not fit features of dimension {dim}: "
                "pass statistics of the same features"
            )
    return zero_padding((features + offset) * factor, lengths)


@takes_options(FloorOptions)
def floor_features(
    features: Array,
    options: FloorOptions | None = None,
    *,
    lengths: Any | None = None,
    **changes: Unpack[FloorKeywords],
) -> Array:
    """Replace features below a minimum with the minimum.

    Args:
        features: ``(..., frames, dim)``, NumPy or torch.
        options, changes: the minimum, as ``FloorOptions`` or by name; 0 if omitted.
        lengths: ``(...,)``: number of frames of each utterance in a padded batch. Later frames of the result are zero.

    Returns:
        Features of the same shape and dtype.

    Raises:
        FeatureError: the shape is not ``(..., frames, dim)``, the features are integers, or the lengths do not match.
        OptionError: an option is invalid.

    >>> import numpy as np
    >>> from kaldi_compat.functional.normalization import floor_features
    >>> floor_features(np.array([[-1.0, 2.0]])).tolist()
    [[0.0, 2.0]]
    """
    lengths = check_features(features, lengths)
    options = make_options("floor_features", FloorOptions, options, changes)
    floored: Array = get_namespace(features).clip(features, options.minimum, None)
    return zero_padding(floored, lengths)
