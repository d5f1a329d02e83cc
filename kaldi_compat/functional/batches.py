"""Padded batches: lengths checked, padding masked, frames repeated beyond the edges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kaldi_compat.errors import FeatureError, KaldiCompatError

if TYPE_CHECKING:
    pass
from kaldi_compat.array_api import Array, arange, as_like, full, is_traced_or_differentiated, namespace, take_frames

__all__ = ["check_features", "checked_lengths", "frames_inside", "with_context", "zero_past"]


def checked_lengths(
    lengths: Any | None, batch: Array, axis: int = -2, error: type[KaldiCompatError] = FeatureError
) -> Any | None:
    """The lengths of a padded batch, held against it.

    Args:
        lengths: ``(...,)`` integers: a tensor on any device, an array, or a list; None is none.
        batch: what they are lengths of.
        axis: the axis that they count along; those before it are the lengths' own.
        error: what to raise.

    Returns:
        The tensor that was given, or an array or tensor as the batch, where that lies; None for None.

    Raises:
        error: they are no integers, not one for each row, or negative or beyond the end. A tensor on another device is
            not looked into, which would wait for the device; nor is one that is recorded.
    """
    if lengths is None:
        return None
    xp = namespace(batch)
    if xp is not np and isinstance(lengths, xp.Tensor):
        are_integers = not (lengths.is_floating_point() or lengths.is_complex() or lengths.dtype == xp.bool)
        are_seen = lengths.device.type == "cpu" and not is_traced_or_differentiated(lengths)
        wide = lengths if lengths.dtype in (xp.int32, xp.int64) else lengths.to(xp.int64)
    else:
        try:
            lengths = np.asarray(lengths)
        except ValueError:
            raise error("lengths must be integers, one for each row of the batch") from None
        are_integers = np.issubdtype(lengths.dtype, np.integer) or lengths.size == 0  # an empty list has no type
        are_seen = True
        wide = lengths.astype(np.int64) if are_integers else lengths
    if not are_integers:
        raise error(f"lengths must be integers, not {lengths.dtype}")
    if batch.ndim < -axis or tuple(lengths.shape) != tuple(batch.shape[:axis]):
        raise error(f"lengths are one for each row of a batch: not {tuple(lengths.shape)} for {tuple(batch.shape)}")
    if are_seen and 0 not in lengths.shape:
        shortest, longest = int(lengths.min()), int(lengths.max())
        if shortest < 0 or longest > batch.shape[axis]:
            raise error(f"lengths from {shortest} to {longest} do not lie in 0 to {batch.shape[axis]}")
    return as_like(wide, batch) if isinstance(wide, np.ndarray) else wide


def check_features(features: Array, lengths: Any | None = None) -> None:
    """Raise :class:`FeatureError` unless the shape is ``(..., frames, dim)``, the numbers are real, and lengths fit."""
    namespace(features)
    if features.ndim < 2:
        raise FeatureError(f"features have the shape (..., frames, dim), not {tuple(features.shape)}")
    if isinstance(features, np.ndarray):
        is_real = np.issubdtype(features.dtype, np.floating)
    else:
        is_real = features.is_floating_point()
    if not is_real:
        raise FeatureError(f"features are floating-point numbers, not {features.dtype}")


def frames_inside(lengths: Any, features: Array) -> Array:
    """Which frames of ``(..., frames, dim)`` lie within ``lengths`` ``(...,)``: booleans ``(..., frames)``."""
    inside: Array = arange(0, features.shape[-2], features) < as_like(lengths, features)[..., None]
    return inside


def zero_past(features: Array, lengths: Any | None) -> Array:
    """Features with zeros in the frames that lie past a length; as they are where no lengths are given."""
    if lengths is None:
        return features
    inside = frames_inside(lengths, features)[..., None]
    masked: Array = namespace(features).where(inside, features, full((), 0.0, features))
    return masked


def with_context(features: Array, left: int, right: int, lengths: Any | None = None) -> Array:
    """Repeat the first and the last frame beyond the edges, as Kaldi does wherever a frame looks at its neighbours.

    Args:
        features: ``(..., frames, dim)``.
        left: frames to add at the start.
        right: frames to add at the end.
        lengths: ``(...,)``: frames of each utterance in a padded batch; the last frame is then that of the length.

    Returns:
        ``(..., left + frames + right, dim)``: row ``r`` is frame ``r - left``, clipped to those there are
        (zeros if there are none).

    >>> with_context(np.array([[1.0], [2.0], [3.0]]), 2, 1)[:, 0]
    array([1., 1., 1., 2., 3., 3.])
    """
    xp = namespace(features)
    *batch, frames, dim = features.shape
    if frames == 0:
        return full((*batch, left + right, dim), 0.0, features)
    extended: Any
    if lengths is None:
        before = xp.broadcast_to(features[..., :1, :], (*batch, left, dim))
        after = xp.broadcast_to(features[..., -1:, :], (*batch, right, dim))
        extended = xp.concatenate((before, features, after), axis=-2)
    else:
        last = xp.clip(as_like(lengths, features)[..., None] - 1, 0, None)
        extended = take_frames(features, xp.minimum(xp.clip(arange(-left, frames + right, features), 0, None), last))
    result: Array = extended
    return result
