"""Voice activity detection by energy, as in speaker recognition (Kaldi: src/ivector/voice-activity-detection.cc)."""

from __future__ import annotations

from typing import Any

import numpy as np

from io_ark.text import format_count
from kaldi_compat.errors import FeatureError
from kaldi_compat.exact.sums import compute_plain_sum
from kaldi_compat.functional.array_api import (
    Array,
    arange,
    astype,
    choose_precision,
    convert_like,
    full,
    get_namespace,
    take_frames,
)
from kaldi_compat.functional.batches import check_features, mask_frames, zero_padding
from kaldi_compat.functional.cmvn import sliding_cmvn
from kaldi_compat.options.base import make_options, takes_options
from kaldi_compat.options.constructors import Unpack, VadKeywords, VoicedCmvnKeywords
from kaldi_compat.options.frontend import VoicedCmvnOptions
from kaldi_compat.options.postprocessing import VadOptions

__all__ = ["compute_vad", "select_voiced", "voiced_cmvn"]


def compute_energy_threshold(log_energy: Array, options: VadOptions, frame_counts: Array) -> Array:
    """Return the threshold ``(..., 1)`` of each utterance: a constant plus a fraction of the mean log energy.

    Args:
        log_energy: (..., frames), zero after the last valid frame.
        frame_counts: (..., 1): number of valid frames; 0 counts as 1.
    """
    xp = get_namespace(log_energy)
    precision = choose_precision(log_energy)  # Kaldi's rounding decides whether an energy is above the threshold.
    if isinstance(log_energy, np.ndarray) and log_energy.dtype == np.float32:
        total = compute_plain_sum(log_energy)[..., None]
    else:
        total = astype(xp.sum(log_energy, axis=-1, dtype=xp.float64, keepdims=True), log_energy.dtype)
    mean_part = xp.zeros_like(total)
    if scale := float(precision(options.vad_energy_mean_scale)):  # 0 times an infinite mean would be NaN.
        mean_part = scale * total / astype(xp.clip(frame_counts, 1, None), log_energy.dtype)
    threshold: Array = mean_part + float(precision(options.vad_energy_threshold))
    return threshold


@takes_options(VadOptions)
def compute_vad(
    features: Array, options: VadOptions | None = None, *, lengths: Any | None = None, **changes: Unpack[VadKeywords]
) -> Array:
    """Detect the voiced frames by their log energy (Kaldi: ComputeVadEnergy).

    A frame is voiced if enough frames around it exceed a threshold, a constant plus a fraction of the mean log energy.

    Args:
        features: ``(..., frames, dim)``, NumPy or torch; the first column is a log energy or C0.
        options, changes: threshold and context, as ``VadOptions`` or by name; Kaldi's defaults if omitted.
        lengths: ``(...,)``: number of frames of each utterance in a padded batch. Frames past a length are unvoiced.

    Returns:
        ``(..., frames)`` of the features' dtype: 1 for voiced, 0 for unvoiced.

    Raises:
        FeatureError: the shape is not ``(..., frames, dim)``, there are no columns, the features are integers, or the
            lengths do not match.
        OptionError: an option is invalid.

    >>> import numpy as np
    >>> from kaldi_compat.functional.vad import compute_vad
    >>> compute_vad(np.array([[20.0], [19.0], [3.0], [18.0]], np.float32)).tolist()
    [1.0, 1.0, 0.0, 1.0]
    """
    lengths = check_features(features, lengths)
    if features.shape[-1] == 0:
        raise FeatureError("features without columns have no log energy: pass features whose first column is an energy")
    options = make_options("compute_vad", VadOptions, options, changes)
    xp = get_namespace(features)
    log_energy = zero_padding(features[..., :1], lengths)[..., 0]
    frame_indices = arange(0, features.shape[-2], features)
    frame_counts = convert_like(features.shape[-2] if lengths is None else lengths, features)[..., None]

    is_above = log_energy > compute_energy_threshold(log_energy, options, frame_counts)
    if lengths is not None:
        is_above = is_above & mask_frames(lengths, features)
    prefix_sums: Any = xp.cumsum(astype(is_above, xp.int64), axis=-1)
    prefix_sums = xp.concatenate((full((*prefix_sums.shape[:-1], 1), 0, prefix_sums), prefix_sums), axis=-1)
    start = xp.clip(frame_indices - options.vad_frames_context, 0, None)
    end = xp.clip(frame_indices + options.vad_frames_context + 1, None, features.shape[-2])
    votes = prefix_sums[..., end] - prefix_sums[..., start]

    voters = xp.minimum(frame_indices + options.vad_frames_context + 1, frame_counts) - start
    proportion = float(choose_precision(features)(options.vad_proportion_threshold))
    is_voiced = astype(votes, features.dtype) >= astype(voters, features.dtype) * proportion
    decision: Array = zero_padding(astype(is_voiced, features.dtype)[..., None], lengths)[..., 0]
    return decision


def select_voiced(features: Array, voiced: Array) -> Array:
    """Return the frames that are voiced according to :func:`compute_vad` (Kaldi: select-voiced-frames).

    Args:
        features: ``(frames, dim)``, NumPy or torch.
        voiced: ``(frames,)``: 1 for voiced frames, 0 for unvoiced frames.

    Returns:
        Features ``(voiced frames, dim)``.

    Raises:
        FeatureError: the lengths differ, a decision is neither 0 nor 1, or no frame is voiced.

    >>> import numpy as np
    >>> from kaldi_compat.functional.vad import select_voiced
    >>> select_voiced(np.array([[1.0], [2.0], [3.0]]), np.array([1.0, 0.0, 1.0])).tolist()
    [[1.0], [3.0]]
    """
    if len(features) != len(voiced):
        raise FeatureError(
            f"the features have {format_count(len(features), 'frame')}, but the voice activity has {len(voiced)}: "
            "compute both from the same audio"
        )
    if not bool(((voiced == 0) | (voiced == 1)).all()):
        raise FeatureError("voice activity must be 0 or 1 for each frame: convert it, or compute it with compute_vad")
    if not bool((voiced == 1).any()):
        raise FeatureError("no frames were judged voiced: lower the energy threshold, or leave out the utterance")
    voiced_frames: Array = features[voiced == 1]
    return voiced_frames


@takes_options(VoicedCmvnOptions)
def voiced_cmvn(
    features: Array,
    options: VoicedCmvnOptions | None = None,
    *,
    lengths: Any | None = None,
    **changes: Unpack[VoicedCmvnKeywords],
) -> Any:
    """Normalize all frames by a sliding window, and keep the voiced frames (Kaldi: egs/sre16/v2, egs/voxceleb/v2).

    The voiced frames are detected before the normalization, as in these recipes of Kaldi.

    Args:
        features: ``(frames, dim)``, NumPy or torch; the first column is a log energy or C0. With lengths,
            ``(..., frames, dim)``.
        options, changes: window, threshold and context, as ``VoicedCmvnOptions`` or by name (default: Kaldi's).
        lengths: ``(...,)``: number of frames of each utterance in a padded batch.

    Returns:
        ``(voiced frames, dim)``. With lengths, ``(..., frames, dim)``, where the voiced frames come first and zeros
        follow, and the number of voiced frames of each utterance, ``(...,)``.

    Raises:
        FeatureError: the shape is wrong, there are no columns, the features are integers, or lengths do not match or
            are missing for a batch.
        OptionError: an option is invalid.

    >>> import numpy as np
    >>> from kaldi_compat.functional.vad import voiced_cmvn
    >>> voiced_cmvn(np.array([[20.0], [2.0], [8.0]], np.float32), cmn_window=3, center=True).tolist()
    [[10.0]]
    """
    lengths = check_features(features, lengths)
    options = make_options("voiced_cmvn", VoicedCmvnOptions, options, changes)
    is_voiced = compute_vad(features, options, lengths=lengths) > 0
    normalized = sliding_cmvn(features, options, lengths=lengths)
    if lengths is None:
        if features.ndim > 2:
            raise FeatureError(
                "the utterances of a batch have different numbers of voiced frames: pass lengths, or one utterance"
            )
        return normalized[is_voiced]
    xp = get_namespace(features)
    frames = features.shape[-2]
    frame_indices = arange(0, frames, features)
    order = xp.argsort(xp.where(is_voiced, frame_indices, frame_indices + frames), -1)  # Voiced frames come first.
    counts = xp.sum(is_voiced, -1, dtype=xp.int64)
    return zero_padding(take_frames(normalized, order), counts), counts
