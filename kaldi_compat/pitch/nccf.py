"""Normalized cross-correlation of audio with itself at several lags, in which pitch is tracked.

The steps of Ghahremani et al., "A pitch extraction algorithm tuned for automatic speech recognition" (ICASSP 2014), up
to the search, as Kaldi takes them (src/feat/pitch-functions.cc): low-pass and resample, cut into windows, correlate at
every whole lag, and interpolate to lags spaced evenly in log pitch. Arrays may be NumPy's or torch's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kaldi_compat.array_api import (
    Array,
    arange,
    as_like,
    astype,
    float64,
    is_traced,
    matmul,
    namespace,
    sliding_windows,
    with_zeros,
)
from kaldi_compat.functional.sinc import resampled
from kaldi_compat.pitch.constants import PitchConstants

__all__ = ["correlate", "correlations", "downsampled", "frame_windows", "nccf"]

_BLOCK = 256  # frames correlated at once: what they need stays in the cache


def downsampled(samples: Array, constants: PitchConstants) -> Array:
    """Resample audio to the rate that pitch is tracked at: ``(..., samples)`` -> ``(..., fewer)``.

    Summed in double, which keeps a constant signal constant to the last bit (its windows then have no energy).
    """
    return resampled(samples, constants.lowpass, namespace(samples).float64)


def frame_windows(signal: Array, frames: int, constants: PitchConstants, lengths: Any = None) -> Array:
    """Cut the samples that each frame needs, with zeros past the ends.

    Args:
        signal: ``(..., samples)`` resampled.
        frames: number of frames; each must start within the signal.
        constants: constants of the tracker.
        lengths: ``(...,)`` numbers of valid samples of each signal, which is zero past them; None for all.

    Returns:
        ``(..., frames, span)``
    """
    size, shift, start = constants.span, constants.shift, constants.start
    padded = with_zeros(signal, max(0, -start), size + shift)
    windows = sliding_windows(padded[..., max(0, start) :], size, shift)[..., :frames, :]
    if constants.preemphasis == 0.0:
        return windows
    # Each window separately: its first sample is scaled as if the one before had the same value.
    xp = namespace(signal)
    position = start + shift * arange(0, frames, signal)[:, None] + arange(0, size, signal)
    ends = signal.shape[-1] if lengths is None else as_like(lengths, signal)[..., None, None]
    previous = xp.concatenate((windows[..., :1], windows[..., :-1]), -1)
    previous = xp.where(position == 0, windows, previous)
    inside = (position >= 0) & (position < ends)
    emphasized: Array = xp.where(inside, windows - constants.preemphasis * previous, 0 * windows)
    return emphasized


def correlations(windows: Array, constants: PitchConstants) -> tuple[Array, Array]:
    """Correlate a frame's window with later ones: ``(..., span)`` -> two ``(..., lags)``.

    Returns:
        inner: the dot product of the window's samples with as many from each lag on.
        norm: the product of the two's energies. The mean of the first window is taken from all samples before.
    """
    xp = namespace(windows)
    size, first, last = constants.window, constants.first_lag, constants.last_lag
    mean = astype(float64(windows[..., :size]).sum(-1) / size, windows.dtype)
    centred = windows - mean[..., None]
    base = centred[..., :size]
    if isinstance(windows, np.ndarray):
        later = sliding_windows(centred[..., first : last + size], size, 1)
        inner = np.einsum("...n,...ln->...l", base, later)
    else:  # a product of matrices would be subject to TF32 and autocast, and would copy all windows
        inner = xp.stack([(base * centred[..., k : k + size]).sum(-1) for k in range(first, last + 1)], -1)
    # The energy of every window at once: squares times a band of ones, which adds no cancellation.
    energies = matmul(centred[..., first : last + size] ** 2, astype(constants.band, windows.dtype))
    return inner, (base**2).sum(-1)[..., None] * energies


def correlate(signal: Array, frames: int, constants: PitchConstants, lengths: Any = None) -> tuple[Array, Array]:
    """Compute inner products and norms of frames at whole lags: ``(..., samples)`` -> two ``(..., frames, lags)``.

    For ``frames`` and ``lengths``, see :func:`frame_windows`.
    """
    windows = frame_windows(signal, frames, constants, lengths)
    if is_traced(signal):  # the number of blocks would become a constant of the graph
        return correlations(windows, constants)
    blocks = [correlations(windows[..., start : start + _BLOCK, :], constants) for start in range(0, frames, _BLOCK)]
    inner, norm = zip(*blocks, strict=True)
    xp = namespace(signal)
    return xp.concatenate(inner, -2), xp.concatenate(norm, -2)


def nccf(inner: Array, norm: Array, ballast: Any) -> Array:
    """Compute the normalized cross-correlation, ``inner / sqrt(norm + ballast)``; 0 in digital silence.

    The ballast (a number, or one per frame) reduces the correlation of quiet frames.
    """
    xp = namespace(inner)
    squared = norm + ballast
    silent = squared <= 0
    correlation: Array = xp.where(silent, 0 * inner, inner / xp.sqrt(xp.where(silent, 1 + 0 * squared, squared)))
    return correlation
