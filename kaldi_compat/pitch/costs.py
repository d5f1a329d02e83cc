"""From correlations to the costs that the pitch is searched by, and from the path found to its features.

The arrays may be NumPy's or torch's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kaldi_compat.array_api import Array, as_like, astype, float64, matmul, namespace, running_sum
from kaldi_compat.pitch.constants import PitchConstants
from kaldi_compat.pitch.nccf import nccf

__all__ = ["local_costs", "mean_square", "path_features", "search_nccf"]

_ENERGY_CHANGE = 0.01  # Kaldi's threshold on the relative change of the energy that calls for another search


def mean_square(signal: Array, counts: Any) -> Array:
    """Compute the variance of the first samples of a signal, for several counts of samples, in double.

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
        sums = running_sum(x, -1).gather(-1, as_like(counts, x) - 1)
    return sums


def search_nccf(
    inner: Array, norm: Array, energy: Array, better_energy: Array, recomputed: Array, constants: PitchConstants
) -> Array:
    """Compute the correlation that the path is searched in: with ballast, and scaled where the energy was revised.

    Args:
        inner, norm: ``(..., frames, lags)`` as :func:`correlations` gives them.
        energy: ``(..., frames)`` mean square from which each frame's ballast is computed.
        better_energy: ``(..., 1)`` mean square known when some frames are searched again.
        recomputed: ``(..., frames)`` mask of these frames.
        constants: constants of the tracker.

    Returns:
        ``(..., frames, lags)``
    """
    xp = namespace(inner)
    ballast = _ballast(energy, constants)
    correlation = nccf(inner, norm, astype(ballast, inner.dtype)[..., None])
    # Kaldi's ApproxEqual compares with the sum of both; if one frame's energy changed, all frames are scaled.
    changed = abs(energy - better_energy) > _ENERGY_CHANGE * (abs(energy) + abs(better_energy))
    changed = (changed & recomputed).any(-1)[..., None] & recomputed
    average = float64(norm.mean(-1))
    before, after = ballast + average, _ballast(better_energy, constants) + average
    # Extremely loud audio overflows: its correlation is not scaled.
    usable = changed & (after > 0) & xp.isfinite(before) & xp.isfinite(after)
    ratio = xp.where(usable, before, 1.0) / xp.where(usable, after, 1.0)
    scaled: Array = correlation * astype(ratio**0.5, inner.dtype)[..., None]
    return scaled


def _ballast(energy: Array, constants: PitchConstants) -> Array:
    ballast: Array = (energy * constants.window) ** 2 * constants.ballast
    return ballast


def local_costs(correlation: Array, constants: PitchConstants) -> Array:
    """Compute the cost of each state in each frame, eq. 5 of the paper: ``(..., lags)`` -> ``(..., states)``.

    In Kaldi's order of operations: in silence the rounding decides which state comes first.
    """
    resampled: Array = matmul(correlation, astype(constants.weights, correlation.dtype))
    discount = astype(constants.discount, correlation.dtype)
    costs: Array
    if isinstance(resampled, np.ndarray):
        back = resampled * discount
        costs = np.subtract(1, resampled, out=resampled)
        costs += back
    else:
        costs = (1 - resampled) + resampled * discount
    return costs


def path_features(correlation: Array, path: Array, constants: PitchConstants) -> Array:
    """Return (NCCF, pitch in Hz) along a path.

    ``(..., lags)`` correlation without ballast and ``(...,)`` states -> ``(..., 2)``.
    """
    weights = astype(constants.weights.T[path], correlation.dtype)
    pitch = astype(constants.pitch[path], correlation.dtype)
    features: Array = namespace(correlation).stack(((correlation * weights).sum(-1), pitch), -1)
    return features
