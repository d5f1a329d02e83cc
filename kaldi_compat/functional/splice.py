"""Concatenation of frames with their neighbors (Kaldi: SpliceFrames in src/feat/feature-functions.cc)."""

from __future__ import annotations

from typing import Any

from kaldi_compat.functional.array_api import Array, concatenate
from kaldi_compat.functional.batches import check_features, repeat_edge_frames, zero_padding
from kaldi_compat.options.base import make_options, takes_options
from kaldi_compat.options.constructors import SpliceKeywords, Unpack
from kaldi_compat.options.postprocessing import SpliceOptions

__all__ = ["splice"]


def splice_inner_frames(features: Array, options: SpliceOptions) -> Array:
    """Concatenate each frame that has all its context with its neighbors, earliest first.

    ``features`` are ``(..., left_context + frames + right_context, dim)``, and the result is
    ``(..., frames, dim * (left_context + 1 + right_context))``.
    """
    width = options.left_context + 1 + options.right_context
    frames = features.shape[-2] - width + 1
    neighbors = [features[..., j : j + frames, :] for j in range(width)]
    return concatenate(neighbors)


@takes_options(SpliceOptions)
def splice(
    features: Array,
    options: SpliceOptions | None = None,
    *,
    lengths: Any | None = None,
    **changes: Unpack[SpliceKeywords],
) -> Array:
    """Concatenate each frame with its neighbors, earliest first (Kaldi: splice-feats). The edge frames are repeated.

    Args:
        features: ``(..., frames, dim)``, NumPy or torch.
        options, changes: the context, as ``SpliceOptions`` or by name; Kaldi's defaults if omitted.
        lengths: ``(...,)``: number of frames of each utterance in a padded batch. Later frames of the result are zero.

    Returns:
        Features ``(..., frames, dim * (left_context + 1 + right_context))``.

    Raises:
        FeatureError: the shape is not ``(..., frames, dim)``, the features are integers, or the lengths do not match.
        OptionError: an option is invalid.

    >>> import numpy as np
    >>> from kaldi_compat.functional.splice import splice
    >>> splice(np.array([[1.0], [2.0], [3.0]]), left_context=1, right_context=1).tolist()
    [[1.0, 1.0, 2.0], [1.0, 2.0, 3.0], [2.0, 3.0, 3.0]]
    """
    lengths = check_features(features, lengths)
    options = make_options("splice", SpliceOptions, options, changes)
    extended = repeat_edge_frames(features, options.left_context, options.right_context, lengths)
    return zero_padding(splice_inner_frames(extended, options), lengths)
