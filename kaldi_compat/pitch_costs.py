"""From correlations to the costs that the pitch is searched by, and from the path found to its features.

The arrays may be NumPy's or torch's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kaldi_compat.arrays import Array, as_like, astype, float64, namespace
from kaldi_compat.options import PitchOptions, as_float32
from kaldi_compat.pitch_nccf import Lags, nccf

_ENERGY_CHANGE = 0.01  # Kaldi's threshold on the relative change of the energy that calls for another search


def mean_square(signal: Array, counts: Any) -> Array:
    """Variance of the first samples of a signal, for several counts of samples, in double.

    ``(..., samples)`` and integers ``(..., n)`` -> ``(..., n)``.
    """
    xp = namespace(signal)
    wide = float64(signal)
    last = as_like(counts, signal) - 1
    take = np.take_along_axis if xp is np else xp.take_along_dim
    total = take(xp.cumsum(wide, -1), last, -1) / (last + 1)
    squares = take(xp.cumsum(wide * wide, -1), last, -1) / (last + 1)
    variance: Array = squares - total**2
    return variance


def search_nccf(
    inner: Array, norm: Array, energy: Array, better_energy: Array, recomputed: Array, options: PitchOptions
) -> Array:
    """The correlation that the path is searched in: with ballast, and scaled where the energy was revised.

    Parameters
    ----------
    inner, norm
        ``(..., frames, lags)`` as :func:`correlations` gives them.
    energy
        ``(..., frames)`` mean square that each frame's ballast is taken from.
    better_energy
        ``(..., 1)`` mean square known when some frames are searched again.
    recomputed
        ``(..., frames)`` which these are.

    Returns
    -------
    ``(..., frames, lags)``
    """
    xp = namespace(inner)
    ballast = _ballast(energy, options)
    correlation = nccf(inner, norm, astype(ballast, inner.dtype)[..., None])
    # Kaldi's ApproxEqual compares with the sum of both; if one frame's energy changed, all frames are scaled.
    changed = abs(energy - better_energy) > _ENERGY_CHANGE * (abs(energy) + abs(better_energy))
    changed = (changed & recomputed).any(-1)[..., None] & recomputed
    average = float64(norm.mean(-1))
    before, after = ballast + average, _ballast(better_energy, options) + average
    ratio = xp.where(changed & (after > 0), before / xp.where(after > 0, after, 1 + 0 * after), 1 + 0 * after)
    scaled: Array = correlation * astype(ratio**0.5, inner.dtype)[..., None]
    return scaled


def _ballast(energy: Array, options: PitchOptions) -> Array:
    ballast: Array = (energy * options.window_size) ** 2 * as_float32(options.nccf_ballast)
    return ballast


def local_costs(correlation: Array, options: PitchOptions) -> Array:
    """Cost of each state on each frame, eq. 5 of the paper: ``(..., lags)`` correlation -> ``(..., states)``."""
    lags = Lags.of(options)
    resampled = correlation @ astype(as_like(lags.weights, correlation), correlation.dtype)
    discount = astype(as_like(np.float32(options.soft_min_f0) * lags.seconds, correlation), correlation.dtype)
    return 1.0 - resampled + discount * resampled


def step_factor(options: PitchOptions) -> float:
    """Cost of a step of one state; of n states it is n^2 times that."""
    log_ratio = np.float32(np.log(1.0 + as_float32(options.delta_pitch)) ** 2)
    return float(log_ratio * np.float32(options.penalty_factor))


def path_features(correlation: Array, path: Array, options: PitchOptions) -> Array:
    """(NCCF, pitch in Hz) along a path.

    ``(..., lags)`` correlation without ballast and ``(...,)`` states -> ``(..., 2)``.
    """
    xp = namespace(correlation)
    lags = Lags.of(options)
    weights = astype(as_like(lags.weights.T, correlation), correlation.dtype)
    pitch = astype(as_like(lags.pitch, correlation), correlation.dtype)
    return xp.stack(((correlation * weights[path]).sum(-1), pitch[path]), -1)
