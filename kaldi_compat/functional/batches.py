"""Padded batches: check lengths, mask the padding, repeat frames past the edges."""

from __future__ import annotations

from typing import Any

import numpy as np

from kaldi_compat.errors import FeatureError, KaldiCompatError
from kaldi_compat.functional.array_api import (
    Array,
    arange,
    check_plain,
    convert_like,
    full,
    get_namespace,
    is_traced_or_differentiated,
    take_frames,
)


def check_lengths(
    lengths: Any | None, batch: Array, axis: int = -2, error: type[KaldiCompatError] = FeatureError
) -> Any | None:
    """Check the lengths of a padded batch against the shape of the batch.

    Args:
        lengths: integers, ``(...,)``: a tensor on any device, an array, a list, or None.
        batch: the padded batch.
        axis: negative index of the padded axis. The lengths have the axes before it.
        error: the exception to raise.

    Returns:
        The lengths as a tensor or array, like the batch, or None if ``lengths`` is None. A tensor stays on its device.

    Raises:
        error: the lengths are not integers, have no values (device meta), have a wrong shape, are negative, or exceed
            the size of the axis. The values of a tensor are checked only on the CPU, because reading them would wait
            for a GPU, and never in a traced call.
    """
    if lengths is None:
        return None
    xp = get_namespace(batch)
    # Only tensors have the attribute is_meta, but torch's compiler reports it for arrays as well.
    if not isinstance(lengths, np.ndarray) and hasattr(lengths, "is_meta"):
        are_integers = check_plain(lengths, error) in "iu"
        if lengths.is_meta and not getattr(batch, "is_meta", False):
            raise error("lengths on the device meta have no values: pass lengths on the device of the batch")
    else:
        try:
            lengths = np.asarray(lengths)
        except (TypeError, ValueError, RuntimeError):
            raise error("lengths must be integers: pass one length for each utterance") from None
        # NumPy converts an empty list to an array of floats.
        are_integers = lengths.dtype.kind in "iu" or lengths.size == 0
    if not are_integers:
        raise error(f"lengths must be integers, not {lengths.dtype}: convert them")
    if batch.ndim < -axis or tuple(lengths.shape) != tuple(batch.shape[:axis]):
        raise error(
            f"lengths of shape {tuple(lengths.shape)} do not match a batch of shape {tuple(batch.shape)}: pass one "
            "length for each utterance"
        )
    if not isinstance(lengths, np.ndarray):
        if xp is np:
            lengths = lengths.numpy(force=True)
        elif lengths.dtype not in (xp.int32, xp.int64):
            lengths = lengths.to(xp.int64)
    is_readable = isinstance(lengths, np.ndarray) or (
        lengths.device.type == "cpu" and not is_traced_or_differentiated(lengths)
    )
    if is_readable and 0 not in lengths.shape:
        shortest, longest = int(lengths.min()), int(lengths.max())
        if shortest < 0 or longest > batch.shape[axis]:
            raise error(f"lengths must be from 0 to {batch.shape[axis]}, not from {shortest} to {longest}")
    return convert_like(lengths.astype(np.int64), batch) if isinstance(lengths, np.ndarray) else lengths


def check_features(features: Array, lengths: Any | None = None) -> Any | None:
    """Check features and the lengths of a padded batch, and return the lengths: see :func:`check_lengths`.

    Raise FeatureError if the features are not floats of shape ``(..., frames, dim)``, or the lengths do not match.
    """
    get_namespace(features)
    kind = check_plain(features, FeatureError)
    if features.ndim < 2:
        raise FeatureError(f"features must have the shape (..., frames, dim), not {tuple(features.shape)}")
    if kind != "f":
        raise FeatureError(f"features must be floating-point numbers, not {features.dtype}: convert them")
    return check_lengths(lengths, features)


def mask_frames(lengths: Any, features: Array) -> Array:
    """Return a mask ``(..., frames)`` that is True for the frames of ``features`` within ``lengths`` ``(...,)``."""
    is_inside: Array = arange(0, features.shape[-2], features) < convert_like(lengths, features)[..., None]
    return is_inside


def zero_padding(features: Array, lengths: Any | None) -> Array:
    """Return features ``(..., frames, dim)`` with zeros after the first ``lengths`` ``(...,)`` frames of each row.

    If ``lengths`` is None, return the features unchanged.
    """
    if lengths is None:
        return features
    is_inside = mask_frames(lengths, features)[..., None]
    masked: Array = get_namespace(features).where(is_inside, features, full((), 0.0, features))
    return masked


def repeat_edge_frames(features: Array, left: int, right: int, lengths: Any | None = None) -> Array:
    """Repeat the first and the last frame past the edges, as Kaldi does wherever a frame depends on its neighbors.

    Args:
        features: ``(..., frames, dim)``.
        left, right: number of rows to add at the start and at the end.
        lengths: ``(...,)``: number of frames of each utterance in a padded batch. The last of these frames is repeated.

    Returns:
        ``(..., left + frames + right, dim)``: row ``r`` is frame ``r - left``, clipped to the existing frames. Without
        frames, the rows are zero. An utterance of length 0 in a longer batch repeats its first row of padding.
    """
    xp = get_namespace(features)
    *batch, frames, dim = features.shape
    if frames == 0:
        return full((*batch, left + right, dim), 0.0, features)
    extended: Any
    if lengths is None:
        first_copies = xp.broadcast_to(features[..., :1, :], (*batch, left, dim))
        last_copies = xp.broadcast_to(features[..., -1:, :], (*batch, right, dim))
        extended = xp.concatenate((first_copies, features, last_copies), axis=-2)
    else:
        last_indices = xp.clip(convert_like(lengths, features)[..., None] - 1, 0, None)
        indices = xp.clip(arange(-left, frames + right, features), 0, None)
        extended = take_frames(features, xp.minimum(indices, last_indices))
    result: Array = extended
    return result
