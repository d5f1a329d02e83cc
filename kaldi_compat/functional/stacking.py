"""Stacking and padding of frames, as models expect them. Arrays of NumPy or torch, ``(..., frames, dim)``."""

from __future__ import annotations

from typing import Any

from kaldi_compat.functional.array_api import Array, arange, convert_like, full, get_namespace, is_traced, take_frames
from kaldi_compat.functional.batches import check_features, mask_frames, zero_padding
from kaldi_compat.options.base import make_options, takes_options
from kaldi_compat.options.constructors import LowFrameRateKeywords, PadFramesKeywords, StackFramesKeywords, Unpack
from kaldi_compat.options.frontend import LowFrameRateOptions, PadFramesOptions, StackFramesOptions

__all__ = ["low_frame_rate", "pad_frames", "stack_frames"]


def count_stacks(frames: Any, options: LowFrameRateOptions) -> Any:
    """Return the number of stacks that ``low_frame_rate`` makes from ``frames`` frames: an int, array or tensor."""
    return (frames + options.stride - 1) // options.stride


@takes_options(LowFrameRateOptions)
def low_frame_rate(
    features: Array,
    options: LowFrameRateOptions | None = None,
    *,
    lengths: Any | None = None,
    **changes: Unpack[LowFrameRateKeywords],
) -> Array:
    """Stack neighboring frames, and keep every ``stride``-th stack (FunASR: apply_lfr).

    Stack ``t`` contains the ``stack`` frames from frame ``t * stride - (stack - 1) // 2`` on. The first and the
    last frame are repeated beyond the edges.

    Args:
        features: ``(..., frames, dim)``, NumPy or torch.
        options, changes: number of frames and stride, as ``LowFrameRateOptions`` or by name (default: FunASR's).
        lengths: ``(...,)``: number of frames of each utterance in a padded batch. In an utterance of ``n`` frames, the
            result is zero after ``ceil(n / stride)`` stacks.

    Returns:
        Stacks ``(..., ceil(frames / stride), stack * dim)``.

    Raises:
        FeatureError: the shape is not ``(..., frames, dim)``, the features are integers, or the lengths do not match.
        OptionError: an option is invalid.

    >>> import numpy as np
    >>> from kaldi_compat.functional.stacking import low_frame_rate
    >>> frames = np.arange(5.0)[:, None]
    >>> low_frame_rate(frames, stack=3, stride=2).tolist()
    [[0.0, 0.0, 1.0], [1.0, 2.0, 3.0], [3.0, 4.0, 4.0]]
    """
    lengths = check_features(features, lengths)
    options = make_options("low_frame_rate", LowFrameRateOptions, options, changes)
    xp = get_namespace(features)
    *batch, frames, dim = features.shape
    if not is_traced(features) and frames == 0:
        return full((*batch, 0, options.stack * dim), 0.0, features)
    stacks = count_stacks(frames, options)
    starts = arange(0, stacks, features)[:, None] * options.stride - (options.stack - 1) // 2
    index = xp.clip((starts + arange(0, options.stack, features)).reshape(-1), 0, None)
    if lengths is None:
        index = xp.clip(index, None, frames - 1)
    else:
        index = xp.minimum(index, xp.clip(convert_like(lengths, features)[..., None] - 1, 0, None))
    stacked: Array = take_frames(features, index).reshape(*batch, stacks, options.stack * dim)
    return stacked if lengths is None else zero_padding(stacked, count_stacks(lengths, options))


@takes_options(StackFramesOptions)
def stack_frames(
    features: Array,
    options: StackFramesOptions | None = None,
    *,
    lengths: Any | None = None,
    **changes: Unpack[StackFramesKeywords],
) -> Array:
    """Stack groups of ``size`` frames (transformers: SeamlessM4TFeatureExtractor). Zeros fill the last stack.

    Args:
        features: ``(..., frames, dim)``, NumPy or torch.
        options, changes: the size of a stack, as ``StackFramesOptions`` or by name; SeamlessM4T's default if omitted.
        lengths: ``(...,)``: number of frames of each utterance in a padded batch. Later frames count as zero.

    Returns:
        ``(..., ceil(frames / size), size * dim)``. Only the first ``frames // size`` stacks are complete.

    Raises:
        FeatureError: the shape is not ``(..., frames, dim)``, the features are integers, or the lengths do not match.
        OptionError: an option is invalid.

    >>> import numpy as np
    >>> from kaldi_compat.functional.stacking import stack_frames
    >>> stack_frames(np.array([[1.0], [2.0], [3.0]])).tolist()
    [[1.0, 2.0], [3.0, 0.0]]
    """
    lengths = check_features(features, lengths)
    options = make_options("stack_frames", StackFramesOptions, options, changes)
    xp = get_namespace(features)
    *batch, frames, dim = features.shape
    if not is_traced(features) and frames == 0:
        return full((*batch, 0, options.size * dim), 0.0, features)
    padding = full((*batch, options.size - 1, dim), 0.0, features)
    extended = xp.concatenate((zero_padding(features, lengths), padding), -2)
    # Frames are selected by index, because exporters cannot prove that a length is a multiple of the stack size.
    stacks = (frames + options.size - 1) // options.size
    index = arange(0, stacks, features)[:, None] * options.size + arange(0, options.size, features)
    stacked: Array = take_frames(extended, index.reshape(-1)).reshape(*batch, stacks, options.size * dim)
    return stacked


def count_padded_frames(frames: Any, options: PadFramesOptions) -> Any:
    """Return the number of frames that ``pad_frames`` makes from ``frames`` frames: an int, array or tensor."""
    if options.length:
        return frames * 0 + options.length  # The result is an array if ``frames`` is an array.
    return (frames + options.multiple - 1) // options.multiple * options.multiple


@takes_options(PadFramesOptions)
def pad_frames(
    features: Array,
    options: PadFramesOptions | None = None,
    *,
    lengths: Any | None = None,
    **changes: Unpack[PadFramesKeywords],
) -> Array:
    """Pad or cut features to ``length`` frames, or pad them to a multiple of ``multiple`` frames.

    Args:
        features: ``(..., frames, dim)``, NumPy or torch.
        options, changes: the length or the multiple, and the value of new frames, as ``PadFramesOptions`` or by name.
        lengths: ``(...,)``: number of frames of each utterance in a padded batch. Later frames become ``value``.

    Returns:
        ``(..., length, dim)``, or ``(..., n, dim)`` where ``n`` is ``frames`` rounded up to a multiple of ``multiple``.

    Raises:
        FeatureError: the shape is not ``(..., frames, dim)``, the features are integers, or the lengths do not match.
        OptionError: an option is invalid.

    >>> import numpy as np
    >>> from kaldi_compat.functional.stacking import pad_frames
    >>> pad_frames(np.ones((3, 1)), length=4).tolist()
    [[1.0], [1.0], [1.0], [0.0]]
    """
    lengths = check_features(features, lengths)
    options = make_options("pad_frames", PadFramesOptions, options, changes)
    xp = get_namespace(features)
    *batch, frames, dim = features.shape
    if lengths is not None:
        is_inside = mask_frames(lengths, features)[..., None]
        features = xp.where(is_inside, features, full((), options.value, features))
    # For a fixed length, slice a longer array, because a traced model must not depend on its example input's length.
    padding_length = options.length if options.length else count_padded_frames(frames, options) - frames
    padded = xp.concatenate((features, full((*batch, padding_length, dim), options.value, features)), -2)
    result: Array = padded[..., : options.length, :] if options.length else padded
    return result
