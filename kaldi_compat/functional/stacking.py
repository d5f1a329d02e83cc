"""Stacking and padding of frames, as models expect them. Arrays of NumPy or torch, ``(..., frames, dim)``."""

from __future__ import annotations

from typing import Any

from kaldi_compat.functional.array_api import Array, arange, convert_like, full, get_namespace, is_traced, take_frames
from kaldi_compat.functional.batches import check_features, mask_frames, zero_padding
from kaldi_compat.options.base import make_options, takes_options
from kaldi_compat.options.constructors import LowFrameRateKeywords, PadFramesKeywords, StackFramesKeywords, Unpack
from kaldi_compat.options.frontend import LowFrameRateOptions, PadFramesOptions, StackFramesOptions

__all__ = ["low_frame_rate", "pad_frames", "stack_frames"]


def count_joined_frames(frames: Any, options: LowFrameRateOptions) -> Any:
    """Return the number of stacks that ``low_frame_rate`` makes of ``frames`` frames, an integer or an array.

    >>> count_joined_frames(98, LowFrameRateOptions())
    17
    """
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
        options, changes: number of frames and stride, as a dataclass or by name; FunASR's defaults if omitted.
        lengths: ``(...,)``: number of frames of each utterance in a padded batch. The result is zero past
            :func:`count_joined_frames` of them.

    Returns:
        ``(..., ceil(frames / stride), stack * dim)``.

    Raises:
        FeatureError: the shape is not ``(..., frames, dim)``, the features are integers, or the lengths do not match.

    >>> import numpy as np
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
    rows = count_joined_frames(frames, options)
    starts = arange(0, rows, features)[:, None] * options.stride - (options.stack - 1) // 2
    index = xp.clip((starts + arange(0, options.stack, features)).reshape(-1), 0, None)
    if lengths is None:
        index = xp.clip(index, None, frames - 1)
    else:
        index = xp.minimum(index, xp.clip(convert_like(lengths, features)[..., None] - 1, 0, None))
    joined: Array = take_frames(features, index).reshape(*batch, rows, options.stack * dim)
    return joined if lengths is None else zero_padding(joined, count_joined_frames(lengths, options))


@takes_options(StackFramesOptions)
def stack_frames(
    features: Array,
    options: StackFramesOptions | None = None,
    *,
    lengths: Any | None = None,
    **changes: Unpack[StackFramesKeywords],
) -> Array:
    """Stack groups of ``size`` frames; zeros fill the last stack (transformers: SeamlessM4TFeatureExtractor).

    Args:
        features: ``(..., frames, dim)``, NumPy or torch.
        options, changes: the size of a stack, as a dataclass or by name; SeamlessM4T's default if omitted.
        lengths: ``(...,)``: number of frames of each utterance in a padded batch. Frames past them count as zero.

    Returns:
        ``(..., ceil(frames / size), size * dim)``. Only the first ``frames // size`` stacks are complete.

    Raises:
        FeatureError: the shape is not ``(..., frames, dim)``, the features are integers, or the lengths do not match.

    >>> import numpy as np
    >>> stack_frames(np.array([[1.0], [2.0], [3.0]])).tolist()
    [[1.0, 2.0], [3.0, 0.0]]
    """
    lengths = check_features(features, lengths)
    options = make_options("stack_frames", StackFramesOptions, options, changes)
    xp = get_namespace(features)
    *batch, frames, dim = features.shape
    if not is_traced(features) and frames == 0:
        return full((*batch, 0, options.size * dim), 0.0, features)
    filled = full((*batch, options.size - 1, dim), 0.0, features)
    whole = xp.concatenate((zero_padding(features, lengths), filled), -2)
    # Frames are selected by index, because exporters cannot prove that a rounded-up length is a multiple of the stack
    # size.
    stacks = (frames + options.size - 1) // options.size
    index = arange(0, stacks, features)[:, None] * options.size + arange(0, options.size, features)
    stacked: Array = take_frames(whole, index.reshape(-1)).reshape(*batch, stacks, options.size * dim)
    return stacked


def count_padded_frames(frames: Any, options: PadFramesOptions) -> Any:
    """Return the number of frames that ``pad_frames`` makes of ``frames`` frames, an integer or an array.

    >>> count_padded_frames(98, PadFramesOptions(multiple=10))
    100
    """
    if options.length:
        return frames * 0 + options.length
    return (frames + options.multiple - 1) // options.multiple * options.multiple


@takes_options(PadFramesOptions)
def pad_frames(
    features: Array,
    options: PadFramesOptions | None = None,
    *,
    lengths: Any | None = None,
    **changes: Unpack[PadFramesKeywords],
) -> Array:
    """Pad or cut the frames to a length, or pad them to a multiple.

    Args:
        features: ``(..., frames, dim)``, NumPy or torch.
        options, changes: the length or the multiple, and the value of new frames, as a dataclass or by name.
        lengths: ``(...,)``: number of frames of each utterance in a padded batch. Later frames become ``value``.

    Returns:
        ``(..., length, dim)``, or the next multiple of ``multiple`` frames.

    Raises:
        FeatureError: the shape is not ``(..., frames, dim)``, the features are integers, or the lengths do not match.

    >>> import numpy as np
    >>> pad_frames(np.ones((3, 1)), length=4).tolist()
    [[1.0], [1.0], [1.0], [0.0]]
    """
    lengths = check_features(features, lengths)
    options = make_options("pad_frames", PadFramesOptions, options, changes)
    xp = get_namespace(features)
    *batch, frames, dim = features.shape
    if lengths is not None:
        inside = mask_frames(lengths, features)[..., None]
        features = xp.where(inside, features, full((), options.value, features))
    # For a fixed length, slice a longer array, because a traced model must not depend on the length of its example
    # input.
    added = options.length if options.length else count_padded_frames(frames, options) - frames
    padded = xp.concatenate((features, full((*batch, added, dim), options.value, features)), -2)
    result: Array = padded[..., : options.length, :] if options.length else padded
    return result
