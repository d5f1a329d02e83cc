"""Bridging the gaps in a pitch track, where the pitch is 0: src/featbin/interpolate-pitch.cc."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kaldi_compat.errors import FeatureError
from kaldi_compat.libm import cosf, logf, sinf
from kaldi_compat.options import InterpolatePitchOptions, as_float32
from kaldi_compat.random import RAND_MAX, RAND_R_INCREMENT, RAND_R_MULTIPLIER, KaldiRandom

Floats = npt.NDArray[np.float32]
Words = npt.NDArray[np.uint32]
Indices = npt.NDArray[np.intp]

_NOISE = np.float32(0.01)  # on the log probabilities, so that the grid of pitches shows no pattern


@dataclass
class InterpolationCounts:
    """What became of the frames.

    Attributes:
        frames: all frames.
        gaps: those whose pitch was 0, or the lowest on the grid.
        changed: those whose pitch was another, and was changed.
    """

    frames: int = 0
    gaps: int = 0
    changed: int = 0


def interpolate_linearly(features: Floats) -> Floats:
    """(probability of voicing, pitch) with a straight line over each gap: ``(frames, 2)`` -> ``(frames, 2)``.

    A gap at an end leads to 0.9 times the pitch at its other side, as does one after the first frame alone (Kaldi does
    not look at frame 0). Without any pitch it is 1 throughout.

    >>> interpolate_linearly(np.array([[0, 90], [1, 100], [0, 0], [0, 0], [1, 130]], np.float32))[:, 1]
    array([ 90., 100., 110., 120., 130.], dtype=float32)
    """
    _check(features)
    pitch = features[:, 1].copy()
    gap = np.concatenate(([False], pitch == 0, [False]))
    begins = np.flatnonzero(gap[1:] & ~gap[:-1])
    ends = np.flatnonzero(gap[:-1] & ~gap[1:])
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        left = pitch[begin - 1] if begin > 1 else np.float32(-1)
        right = pitch[end] if end < len(pitch) else np.float32(-1)
        if left < 0 and right < 0:
            left = right = np.float32(1)
        left = np.float32(0.9 * float(right)) if left < 0 else left
        right = np.float32(0.9 * float(left)) if right < 0 else right
        step = (right - left) / np.float32(end - begin + 1)
        pitch[begin:end] = left + step * np.arange(1, end - begin + 1, dtype=np.float32)
    return np.stack((features[:, 0], pitch), -1)


def interpolate_smoothly(
    features: Floats,
    options: InterpolatePitchOptions | None = None,
    random: KaldiRandom | None = None,
    counts: InterpolationCounts | None = None,
) -> Floats:
    """(probability of voicing, pitch) with a pitch that moves smoothly and follows what was surely voiced.

    The most probable path through a grid of pitches: a step has a Gaussian probability, a measured pitch has the
    probability of voicing, and any other pitch the rest.

    Args:
        features: ``(frames, 2)``: the probability of voicing, and the pitch in Hz or 0.
        options: Kaldi's defaults if none.
        random: the grid is shifted at random on each frame, and noise is added, as Kaldi does; its numbers run on from
            utterance to utterance. A fresh one if none.
        counts: added to.

    Returns:
        ``(frames, 2)``

    Raises:
        FeatureError: the features do not have two columns, or hold a negative or no number.
    """
    _check(features)
    options = options or InterpolatePitchOptions()
    random = random or KaldiRandom()
    if len(features) == 0:
        return features
    interval = np.float32(options.pitch_interval)
    measured = features[:, 1]
    voiced = measured != 0
    lowest = measured[voiced].min() if voiced.any() else np.float32(100)
    highest = measured[voiced].max() if voiced.any() else np.float32(100)
    highest = max(highest, lowest + np.float32(2.0 * float(interval)))
    states = int(np.floor(float((highest - lowest) / interval) + 0.5)) + 2

    bottom = lowest - interval * random.uniform(len(features))
    nearest = np.floor(((measured - bottom) / interval).astype(np.float64) + 0.5).astype(np.intp)
    nearest = np.where(voiced, np.clip(nearest, 0, states - 1), 0)
    voicing = np.where(voiced, features[:, 0] * np.float32(options.max_voicing_prob), np.float32(0))
    elsewhere = ((1.0 - voicing.astype(np.float64)) * as_float32(options.interpolator_factor)).astype(np.float32)
    elsewhere = np.maximum(elsewhere, np.finfo(np.float32).tiny)  # a certain pitch leaves others a logarithm too
    observed = np.repeat(np.log(elsewhere)[:, None], states, axis=1)
    with np.errstate(divide="ignore"):  # where a correlation below 0 stands for the probability, nothing is probable
        observed[np.arange(len(features)), nearest] += np.log(np.maximum(voicing + elsewhere, 0) / elsewhere)
    observed += _NOISE * normal_vectors(random.frame_seeds(len(features)), states)

    path = _most_probable_path(observed, bottom, interval, _reach(options))
    if counts is not None:
        counts.frames += len(features)
        counts.gaps += int(np.count_nonzero(nearest == 0))
        counts.changed += int(np.count_nonzero((nearest != 0) & (path != nearest)))
    return np.stack((features[:, 0], bottom + interval * path.astype(np.float32)), -1)


def _reach(options: InterpolatePitchOptions) -> int:
    """Steps of the grid that the pitch may move by from one frame to the next."""
    return int(np.floor(np.float32(options.max_pitch_change_per_frame) / np.float32(options.pitch_interval) + 0.5))


def _most_probable_path(observed: Floats, bottom: Floats, interval: np.float32, reach: int) -> Indices:
    """The Viterbi path, ``(frames,)`` states, through ``(frames, states)`` log probabilities on these grids."""
    frames, states = observed.shape
    grid = interval * np.arange(states, dtype=np.float32)
    edges = np.full(reach, -np.inf, np.float32)
    before = np.arange(states)[:, None] + np.arange(-reach, reach + 1)
    before_grid = interval * before.astype(np.float32)
    came_from = np.zeros((frames, states), np.intp)
    total = observed[0]
    for frame in range(1, frames):
        moved = (bottom[frame - 1] + before_grid) - (bottom[frame] + grid)[:, None]
        padded = np.concatenate((edges, total, edges))
        reached = (padded[before + reach] - 0.5 * moved.astype(np.float64) ** 2).astype(np.float32)
        best = reached.argmax(1)
        came_from[frame] = before[np.arange(states), best]
        total = reached[np.arange(states), best] + observed[frame]
    path = np.empty(frames, np.intp)
    state = int(total.argmax())
    for frame in range(frames - 1, -1, -1):
        path[frame] = state
        state = came_from[frame, state]
    return path


def _rand_r(state: Words) -> tuple[Floats, Words]:
    """A draw of glibc's ``rand_r()`` from each of many states, as Kaldi's RandUniform(), and the states after it."""
    drawn = np.zeros_like(state)
    for bits in (11, 10, 10):
        state = state * np.uint32(RAND_R_MULTIPLIER) + np.uint32(RAND_R_INCREMENT)
        drawn = (drawn << np.uint32(10)) ^ ((state >> np.uint32(16)) & np.uint32(2**bits - 1))
    return ((drawn + 1.0) / (RAND_MAX + 2.0)).astype(np.float32), state


def normal_vectors(seeds: npt.NDArray[np.int32], dim: int) -> Floats:
    """Kaldi's standard normal noise for vectors, one from each seed (VectorBase::SetRandn).

    ``(n,)`` seeds -> ``(n, dim)``. The numbers come in pairs, the cosine and the sine of one angle.
    """
    state = seeds.view(np.uint32)
    noise = np.empty((len(seeds), dim + dim % 2), np.float32)
    for column in range(0, dim, 2):
        first, state = _rand_r(state)
        second, state = _rand_r(state)
        radius = np.sqrt(np.float32(-2) * logf(first))
        angle = (2 * np.pi * second.astype(np.float64)).astype(np.float32)
        noise[:, column] = radius * cosf(angle)
        noise[:, column + 1] = radius * sinf(angle)
    return noise[:, :dim]


def _check(features: Floats) -> None:
    if features.ndim != 2 or features.shape[1] != 2:
        raise FeatureError(f"expected two columns, the probability of voicing and the pitch, not {features.shape}")
    if not bool((features[:, 1] >= 0).all()):
        raise FeatureError("a pitch is negative or not a number; where there is none it must be 0")
