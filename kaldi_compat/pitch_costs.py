"""From correlations to the costs that the pitch is searched by, and from the path found to its features.

The arrays may be NumPy's or torch's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kaldi_compat.arrays import Array, as_like, astype, float64, matmul, namespace
from kaldi_compat.options import PitchOptions, as_float32
from kaldi_compat.pitch_nccf import Lags, nccf

_ENERGY_CHANGE = 0.01  # Kaldi's threshold on the relative change of the energy that calls for another search


def mean_square(signal: Array, counts: Any) -> Array:
    """Variance of the first samples of a signal, for several counts of samples, in double.

    ``(..., samples)`` and integers ``(..., n)``, the same for all or one row each -> ``(..., n)``.
    """
    wide = float64(signal)
    number = float64(as_like(counts, signal))
    variance: Array = _sums_of_first(wide * wide, counts) / number - (_sums_of_first(wide, counts) / number) ** 2
    return variance


def _sums_of_first(x: Array, counts: Any) -> Array:
    sums: Array
    if isinstance(x, np.ndarray) and x.ndim == 1:  # mostly a few counts alone
        ends, place = np.unique(np.asarray(counts), return_inverse=True)
        sums = np.cumsum([part.sum() for part in np.split(x, ends)[:-1]])[place]
    elif isinstance(x, np.ndarray):
        sums = np.take_along_axis(np.cumsum(x, -1), np.asarray(counts) - 1, -1)
    else:
        sums = x.cumsum(-1).take_along_dim(as_like(counts, x) - 1, -1)
    return sums


def search_nccf(
    inner: Array, norm: Array, energy: Array, better_energy: Array, recomputed: Array, options: PitchOptions
) -> Array:
    """The correlation that the path is searched in: with ballast, and scaled where the energy was revised.

    Args:
        inner, norm: ``(..., frames, lags)`` as :func:`correlations` gives them.
        energy: ``(..., frames)`` mean square that each frame's ballast is taken from.
        better_energy: ``(..., 1)`` mean square known when some frames are searched again.
        recomputed: ``(..., frames)`` which these are.

    Returns:
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
    """Cost of each state on each frame, eq. 5 of the paper: ``(..., lags)`` correlation -> ``(..., states)``.

    In Kaldi's order of operations: in silence the rounding decides which state comes first.
    """
    lags = Lags.of(options)
    resampled = matmul(correlation, astype(as_like(lags.weights, correlation), correlation.dtype))
    discount = astype(as_like(np.float32(options.soft_min_f0) * lags.seconds, correlation), correlation.dtype)
    costs: Array
    if isinstance(resampled, np.ndarray):
        back = resampled * discount
        costs = np.subtract(1, resampled, out=resampled)
        costs += back
    else:
        costs = (1 - resampled) + resampled * discount
    return costs


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
    features: Array = xp.stack(((correlation * weights[path]).sum(-1), pitch[path]), -1)
    return features
