"""Older post-processing of (probability of voicing, pitch) (Kaldi: src/featbin/process-pitch-feats.cc)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.libm import logf
from kaldi_compat import native
from kaldi_compat.errors import FeatureError
from kaldi_compat.exact.arrays import Floats
from kaldi_compat.functional.blocks import make_c_arguments, map_utterances
from kaldi_compat.options.base import make_options, takes_options
from kaldi_compat.options.constructors import SmoothPitchKeywords, Unpack
from kaldi_compat.options.pitch import SmoothPitchOptions

__all__ = ["smooth_pitch"]


def compute_moving_means(values: Floats, size: int) -> Floats:
    """Return the moving mean (n,) of ``values`` (n,) over windows of ``size`` values, an odd number.

    Near both ends, the mean is constant. As in Kaldi, the windows skip the value after the first window: this value is
    later subtracted from the running mean, but never added. The mean is updated in float32 from left to right, so
    rounding errors grow along an utterance.
    """
    middle = (size - 1) // 2
    first_mean = np.add.accumulate(values[:size])[-1] / np.float32(min(size, len(values)))
    if len(values) <= size:
        return np.full_like(values, first_mean)
    removed_values, added_values = values[: -2 * (middle + 1)], values[2 * (middle + 1) :]
    decreases = (removed_values - added_values) / np.float32(size)
    moving_means = np.subtract.accumulate(np.concatenate(([first_mean], decreases)))
    means = np.full_like(values, moving_means[-1])
    means[: middle + 1] = first_mean
    means[middle + 1 : middle + len(moving_means)] = moving_means[1:]
    return means


def compute_moving_average(values: Floats, size: int) -> Floats:
    """Return ``values`` (n,) with each value replaced by the mean of ``size`` values around it, an odd number.

    The first and the last ``(size - 1) / 2`` values do not change.
    """
    reach = (size - 1) // 2  # Number of neighbors on each side.
    inside = slice(reach, len(values) - reach)
    if reach == 0 or len(values) <= 2 * reach:
        return values
    total: Floats = values[inside].copy()
    for j in range(1, reach + 1):
        total += values[reach - j : len(values) - reach - j] + values[reach + j : len(values) - reach + j]
    smooth: Floats = values.copy()
    smooth[inside] = total / np.float32(2 * reach + 1)
    return smooth


@takes_options(SmoothPitchOptions)
def smooth_pitch(
    features: npt.NDArray[Any], options: SmoothPitchOptions | None = None, **changes: Unpack[SmoothPitchKeywords]
) -> npt.NDArray[Any]:
    """Replace the probability of voicing with its log odds, and the pitch with its smoothed, normalized logarithm.

    The log pitch is normalized by subtracting its moving mean (Kaldi: process-pitch-feats).

    Args:
        features: columns ``(frames, columns)``: probability of voicing (0 to 1), pitch in Hz (without gaps: see
            interpolate-pitch), and others, which are copied.
        options, changes: the sizes of the windows in frames, as ``SmoothPitchOptions`` or by name. Kaldi's defaults if
            omitted.

    Returns:
        Columns ``(frames, columns)``: log odds of voicing, smoothed log pitch, and the other columns.

    Raises:
        OptionError: an option is invalid.
        FeatureError: there are fewer than two columns, a probability is outside 0 to 1, or a pitch is not positive.

    >>> import numpy as np
    >>> from kaldi_compat.pitch.smooth import smooth_pitch
    >>> smooth_pitch(np.array([[0.5, 100.0], [0.5, 121.0]], np.float32)).round(2)
    array([[ 0. , -0.1],
           [ 0. ,  0.1]], dtype=float32)
    """
    options = make_options("smooth_pitch", SmoothPitchOptions, options, changes)
    if features.ndim != 2 or features.shape[1] < 2:
        raise FeatureError(f"expected (frames, 2), probability of voicing and pitch, not the shape {features.shape}")
    voicing, pitch = features[:, 0].astype(np.float64), features[:, 1]
    if not bool(((voicing >= 0) & (voicing <= 1)).all()):
        raise FeatureError("the first column must be the probability of voicing, from 0 to 1")
    if not bool((pitch > 0).all()):
        raise FeatureError("a pitch is not positive, so it has no logarithm: fill gaps with interpolate-pitch first")
    processed: npt.NDArray[Any] = features.copy()
    if not len(features):
        return processed
    processed[:, 0] = np.log((voicing + 0.0001) / (1.0001 - voicing))  # 0.0001 keeps the log odds of 0 and 1 finite.
    log_pitch = logf(pitch) if pitch.dtype == np.float32 else np.log(pitch)
    normalized = log_pitch - compute_moving_means(log_pitch, options.normalization_window_size)
    processed[:, 1] = compute_moving_average(normalized, options.average_window_size)
    return processed


def can_smooth_together(features: npt.NDArray[Any]) -> bool:
    """Return True if features (rows, columns) have the form that :func:`smooth_utterances` needs.

    They are float32, the probabilities are from 0 to 1, and the pitches are positive and not subnormal.
    """
    if features.dtype != np.float32 or features.shape[1] < 2:
        return False
    voicing, pitch = features[:, 0], features[:, 1]
    return bool(((voicing >= 0) & (voicing <= 1) & (pitch >= np.finfo(np.float32).tiny)).all())


def _smooth_utterances_in_c(features: Floats, bounds: npt.NDArray[np.int64], options: SmoothPitchOptions) -> Floats:
    """Smooth pitch in C: see :func:`smooth_utterances`. Raise ValueError for too few columns or invalid windows."""
    out, work = np.empty_like(features), np.empty(2 * int(np.diff(bounds).max(initial=0)), np.float32)
    windows = options.normalization_window_size, options.average_window_size
    if features.shape[1] < 2:
        raise ValueError(f"a pitch track must have at least 2 columns, not {features.shape[1]}")
    if min(windows) < 1:
        raise ValueError(f"the windows must have at least 1 frame, not {windows[0]} and {windows[1]}")
    native.get_function("ragged_smooth_pitch")(*make_c_arguments(features, bounds), *windows, work, out)
    return out


@native.twin(_smooth_utterances_in_c)
def smooth_utterances(features: Floats, bounds: npt.NDArray[np.int64], options: SmoothPitchOptions) -> Floats:
    """Apply :func:`smooth_pitch` to several utterances, and return features of the same shape (rows, columns).

    Args:
        features: features (rows, columns) of all utterances, for which :func:`can_smooth_together` is true.
        bounds: indices (utterances + 1,): first row of each utterance, followed by the number of rows.
        options: sizes of the windows in frames.
    """
    return map_utterances(features, bounds, lambda track: smooth_pitch(track, options))
