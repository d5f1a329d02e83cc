"""Interpolation of gaps in a pitch track, where the pitch is 0 (Kaldi: src/featbin/interpolate-pitch.cc)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from kaldi_compat import native
from kaldi_compat.errors import FeatureError
from kaldi_compat.exact.libm import logf, sincosf
from kaldi_compat.exact.rand import RAND_MAX, SEED_OFFSET, KaldiRandom, rand_r_jumps
from kaldi_compat.native import interpolate as compiled
from kaldi_compat.options.base import as_float32
from kaldi_compat.options.pitch import InterpolatePitchOptions

__all__ = [
    "InterpolationCounts",
    "RaggedGrids",
    "check_track",
    "interpolate_linearly",
    "interpolate_ragged",
    "interpolate_smoothly",
    "interpolate_tracks",
    "is_supported",
    "normal_vectors",
]

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Seeds = npt.NDArray[np.int32]
Indices = npt.NDArray[np.intp]
Key = TypeVar("Key")

_NOISE = np.float32(0.01)  # on the log probabilities, so that the grid of pitches shows no pattern
_MOST_STATES = 1 << 31
_WAITING = 256  # utterances read ahead, of which those with as many pitches are searched together
_FRAMES_WAITING = 1 << 19
_ROWS = 128  # utterances searched together
_TOTALS = 1 << 23  # log probabilities held for them, with padding
_BLOCK = 1 << 17  # steps on the grids whose costs are worked out at once: what they need stays in the cache


@dataclass
class InterpolationCounts:
    """Numbers of interpolated frames.

    Attributes:
        frames: all frames.
        gaps: frames whose pitch was 0, or the lowest on the grid.
        changed: frames with another pitch that was changed.
    """

    frames: int = 0
    gaps: int = 0
    changed: int = 0


def interpolate_linearly(features: Floats) -> Floats:
    """(probability of voicing, pitch) with a straight line over each gap: ``(frames, 2)`` -> ``(frames, 2)``.

    A gap at an end leads to 0.9 times the pitch at its other side, and so does a gap after the first frame (Kaldi
    ignores frame 0). Without any pitch, the result is 1 throughout. Other columns are copied.

    >>> interpolate_linearly(np.array([[0, 90], [1, 100], [0, 0], [0, 0], [1, 130]], np.float32))[:, 1]
    array([ 90., 100., 110., 120., 130.], dtype=float32)
    """
    check_track(features[:, :2])
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
    result: Floats = features.copy()
    result[:, 1] = pitch
    return result


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
    check_track(features)
    options = options or InterpolatePitchOptions()
    if len(features) and is_supported(features, options):
        bounds = np.array([0, len(features)])
        return interpolate_ragged(features, bounds, options, random or KaldiRandom(), counts or InterpolationCounts())
    ((_, smooth),) = interpolate_tracks([("", features)], options, random, counts)
    return smooth


def interpolate_tracks(
    tracks: Iterable[tuple[Key, Floats]],
    options: InterpolatePitchOptions | None = None,
    random: KaldiRandom | None = None,
    counts: InterpolationCounts | None = None,
) -> Iterator[tuple[Key, Floats]]:
    """:func:`interpolate_smoothly` of many utterances, in order: keys and tracks give keys and tracks.

    Searching many at a time costs little more than searching one. Tracks read before an error of ``tracks`` are
    yielded before the error is raised.
    """
    options = options or InterpolatePitchOptions()
    random = random or KaldiRandom()
    counts = counts or InterpolationCounts()
    keys: list[Key] = []
    grids: list[_Grid] = []
    entries = iter(tracks)
    waiting = 0
    more, failure = True, None
    while more:
        try:
            key, features = next(entries)
            grid = _Grid.of(features, options, random)
        except StopIteration:
            more = False
        except Exception as error:
            more, failure = False, error
        else:
            waiting += len(features)
            if len(grids) == _WAITING or waiting > _FRAMES_WAITING:
                yield from zip(keys, _interpolated(grids, options, counts), strict=True)
                keys, grids, waiting = [], [], len(features)
            keys.append(key)
            grids.append(grid)
    yield from zip(keys, _interpolated(grids, options, counts), strict=True)
    if failure is not None:
        raise failure


@dataclass
class _Grid:
    """An utterance on its grids of pitches, one a frame, each shifted at random.

    Attributes:
        features: ``(frames, 2)``.
        states: number of pitches.
        bottom: ``(frames,)`` the lowest of them.
        nearest: ``(frames,)`` which is nearest to the measured pitch; 0 where there is none.
        elsewhere: ``(frames,)`` half the log probability of any pitch.
        here: ``(frames,)`` how much more probable the measured pitch is, as half a logarithm.
        seeds: ``(frames,)`` of the noise.
    """

    features: Floats
    states: int
    bottom: Floats
    nearest: Indices
    elsewhere: Floats
    here: Floats
    seeds: Seeds

    @classmethod
    def of(cls, features: Floats, options: InterpolatePitchOptions, random: KaldiRandom) -> _Grid:
        """Create the grids; draw the random numbers in Kaldi's order."""
        check_track(features)
        grids = RaggedGrids.of(features, np.array([0, len(features)]), options, random)
        return cls(
            features=features,
            states=int(grids.states[0]),
            bottom=grids.bottom,
            nearest=grids.nearest,
            elsewhere=grids.elsewhere,
            here=grids.here,
            seeds=grids.seeds,
        )


@dataclass
class RaggedGrids:
    """Utterances on their grids of pitches, one a frame, each shifted at random.

    Attributes:
        bounds: (utterances + 1,): rows ``bounds[u]`` to ``bounds[u + 1]`` are the frames of utterance ``u``.
        states: (utterances,): number of pitches.
        bottom, nearest, elsewhere, here, seeds: (rows,): see :class:`_Grid`; log probabilities are halved.
    """

    bounds: Indices
    states: Indices
    bottom: Floats
    nearest: Indices
    elsewhere: Floats
    here: Floats
    seeds: Seeds

    @classmethod
    def of(
        cls, features: Floats, bounds: Indices, options: InterpolatePitchOptions, random: KaldiRandom
    ) -> RaggedGrids:
        """Create the grids of utterances (rows, 2); draw the random numbers in Kaldi's order."""
        counts = np.diff(bounds)
        interval = np.float32(options.pitch_interval)
        measured = features[:, 1]
        voiced = measured != 0
        infinity = np.float32(np.inf)
        lowest, highest = _extremes(np.where(voiced, measured, infinity), np.where(voiced, measured, -infinity), bounds)
        without = lowest == infinity
        lowest = np.where(without, np.float32(100), lowest)
        highest = np.where(without, np.float32(100), highest)
        highest = np.maximum(highest, lowest + np.float32(2.0 * float(interval)))
        steps = ((highest - lowest) / interval).astype(np.float64)
        if (steps > _MOST_STATES).any():
            raise MemoryError(f"a grid of {steps.max():.0f} pitches between {lowest.min():g} and {highest.max():g} Hz")
        states = np.floor(steps + 0.5).astype(np.int64) + 2
        draws = random.draws(2 * len(features))
        # An utterance draws a number for each frame, and then the seed of each.
        places = np.arange(len(features)) + np.repeat(bounds[:-1], counts)
        uniform = ((draws[places] + 1.0) / (RAND_MAX + 2.0)).astype(np.float32)
        bottom = np.repeat(lowest, counts) - interval * uniform
        nearest = np.floor(((measured - bottom) / interval).astype(np.float64) + 0.5).astype(np.intp)
        voicing = np.where(voiced, features[:, 0] * np.float32(options.max_voicing_prob), np.float32(0))
        others = ((1.0 - voicing.astype(np.float64)) * as_float32(options.interpolator_factor)).astype(np.float32)
        others = np.maximum(others, np.finfo(np.float32).tiny)  # a certain pitch leaves others a logarithm too
        return cls(
            bounds=bounds,
            states=states,
            bottom=bottom,
            nearest=np.where(voiced, np.clip(nearest, 0, np.repeat(states, counts) - 1), 0),
            elsewhere=np.float32(0.5) * logf(others),
            # where a correlation below 0 stands for the probability, nothing is probable
            here=np.float32(0.5) * logf(np.maximum(voicing + others, 0) / others),
            seeds=draws[places + np.repeat(counts, counts)] + np.int32(SEED_OFFSET),
        )


def _extremes(low: Floats, high: Floats, bounds: Indices) -> tuple[Floats, Floats]:
    """Return the lowest and the highest number of each utterance, which is empty only if all are."""
    if not len(low):
        return np.full(len(bounds) - 1, np.inf, np.float32), np.full(len(bounds) - 1, -np.inf, np.float32)
    return np.minimum.reduceat(low, bounds[:-1]), np.maximum.reduceat(high, bounds[:-1])


def interpolate_ragged(
    features: Floats,
    bounds: Indices,
    options: InterpolatePitchOptions,
    random: KaldiRandom,
    counts: InterpolationCounts,
) -> Floats:
    """Compute :func:`interpolate_smoothly` of many utterances at once, in C.

    Args:
        features: (rows, 2): the features of all utterances, for which :func:`is_supported` is true.
        bounds: (utterances + 1,): rows ``bounds[u]`` to ``bounds[u + 1]`` are those of utterance ``u``; none is empty.
        options, random, counts: see :func:`interpolate_smoothly`.

    Returns:
        (rows, 2)
    """
    grids = RaggedGrids.of(features, bounds, options, random)
    interval = np.float32(options.pitch_interval)
    path = compiled.most_probable_paths(grids, _reach(options), interval, float(_NOISE) / 2)
    counts.frames += len(path)
    counts.gaps += int(np.count_nonzero(grids.nearest == 0))
    counts.changed += int(np.count_nonzero((grids.nearest != 0) & (path != grids.nearest)))
    return np.stack((features[:, 0], grids.bottom + interval * path.astype(np.float32)), -1)


def is_supported(features: Floats, options: InterpolatePitchOptions) -> bool:
    """Return True if :func:`interpolate_ragged` can compute these features (rows, 2)."""
    return (
        bool(native.library())
        and features.shape[1] == 2
        and features.dtype == np.float32
        and _reach(options) <= compiled.MAX_REACH
        and bool(np.isfinite(features).all())
        and bool((features[:, 1] >= 0).all())
    )


def _interpolated(
    grids: list[_Grid], options: InterpolatePitchOptions, counts: InterpolationCounts
) -> Iterator[Floats]:
    """Yield the features with the pitch of the most probable paths, and count frames."""
    interval = np.float32(options.pitch_interval)
    paths: dict[int, Indices] = {}
    for group in _alike(grids):
        paths.update(zip(group, _most_probable_paths([grids[index] for index in group], options), strict=True))
    for index, grid in enumerate(grids):
        path = paths.pop(index)
        counts.frames += len(path)
        counts.gaps += int(np.count_nonzero(grid.nearest == 0))
        counts.changed += int(np.count_nonzero((grid.nearest != 0) & (path != grid.nearest)))
        yield np.stack((grid.features[:, 0], grid.bottom + interval * path.astype(np.float32)), -1)


def _alike(grids: list[_Grid]) -> list[list[int]]:
    """Group utterances with similar numbers of pitches, which need little padding; the longest comes first."""
    groups: list[list[int]] = []
    frames = 0
    for index in sorted(range(len(grids)), key=lambda index: grids[index].states):
        frames = max(frames, len(grids[index].bottom))
        if not groups or len(groups[-1]) == _ROWS or (len(groups[-1]) + 1) * frames * grids[index].states > _TOTALS:
            groups.append([])
            frames = len(grids[index].bottom)
        groups[-1].append(index)
    return [sorted(group, key=lambda index: -len(grids[index].bottom)) for group in groups]


class _Steps:
    """Costs of steps between the grids of neighbouring frames: half the square of the difference in Hz.

    Halved again, as all log probabilities are here, since half of the difference can then simply be squared; a factor
    of two changes nothing in float arithmetic.

    Args:
        states: pitches of a grid.
        reach: how many of them the pitch may move by.
        interval: their distance in Hz.
        bottom: ``(frames, utterances)`` lowest pitches.
    """

    def __init__(self, states: int, reach: int, interval: np.float32, bottom: Floats) -> None:
        self.bottom = bottom[..., None]
        self.grid = interval * np.arange(states, dtype=np.float32)
        self.before = interval * np.arange(-reach, states + reach).astype(np.float32)
        self.moves = np.arange(2 * reach + 1)

    def into(self, start: int, stop: int, rows: int) -> Doubles:
        """Costs of all steps into these frames, from the lowest pitch up: ``(frames, rows, moves, states)``.

        The costs of steps into the very first frame are undefined.
        """
        earlier = np.maximum(np.arange(start, stop) - 1, 0)
        here = np.float32(0.5) * (self.bottom[start:stop, :rows] + self.grid)
        there = np.float32(0.5) * (self.bottom[earlier, :rows] + self.before)
        windows = np.lib.stride_tricks.sliding_window_view(there, len(self.grid), axis=-1)
        costs: Doubles = np.square(windows - here[..., None, :], dtype=np.float64)
        return costs

    def to(self, frame: int, states: Indices) -> Doubles:
        """Costs of the steps to one state of each utterance: ``(utterances,)`` states -> ``(utterances, moves)``."""
        rows = len(states)
        here = np.float32(0.5) * (self.bottom[frame, :rows, 0] + self.grid[states])
        there = np.float32(0.5) * (self.bottom[frame - 1, :rows] + self.before[states[:, None] + self.moves])
        costs: Doubles = np.square(there - here[:, None], dtype=np.float64)
        return costs


def _most_probable_paths(grids: list[_Grid], options: InterpolatePitchOptions) -> list[Indices]:
    """Find the Viterbi paths of utterances, ordered from the longest to the shortest: ``(frames,)`` states each.

    All utterances advance frame by frame together. Each operation rounds as in Kaldi: in long gaps, rounding decides
    between paths.
    """
    reach = _reach(options)
    lengths = np.array([len(grid.bottom) for grid in grids])
    frames, states = lengths.max(initial=0), max((grid.states for grid in grids), default=0)
    bottom, nearest, elsewhere, here, seeds = (
        _stacked([getattr(grid, name) for grid in grids])
        for name in ("bottom", "nearest", "elsewhere", "here", "seeds")
    )
    going_on = (lengths > np.arange(frames)[:, None]).sum(1)
    outside = np.where(np.arange(states) < np.array([[grid.states] for grid in grids]), 0, -np.inf)
    row = np.arange(len(grids))
    steps = _Steps(states, reach, np.float32(options.pitch_interval), bottom)

    totals = np.empty((frames, len(grids), states + 2 * reach), np.float32)
    totals[..., :reach] = totals[..., reach + states :] = -np.inf
    before = np.lib.stride_tricks.sliding_window_view(totals, states, axis=-1)
    reached = np.zeros((len(grids), 2 * reach + 1, states), np.float32)
    start = 0
    while start < frames:
        rows = going_on[start]
        stop = min(frames, start + max(1, _BLOCK // reached[:rows].size))
        costs = steps.into(start, stop, rows)
        normal = normal_vectors(seeds[start:stop, :rows].ravel(), states).reshape(-1, rows, states)
        noise = float(_NOISE) / 2 * normal.astype(np.float64) + outside[:rows]
        for frame in range(start, stop):
            rows = going_on[frame]
            if frame > 0:
                cost = costs[frame - start, :rows]
                np.subtract(before[frame - 1, :rows], cost, out=reached[:rows], casting="same_kind")
            best = reached[:rows].max(1)
            best += elsewhere[frame, :rows, None]
            best[row[:rows], nearest[frame, :rows]] += here[frame, :rows]
            totals[frame, :rows, reach : reach + states] = best + noise[frame - start, :rows]
        start = stop

    path = np.zeros((frames, len(grids)), np.intp)
    state = np.zeros(len(grids), np.intp)
    ended = 0
    for frame in range(frames - 1, -1, -1):
        rows = going_on[frame]
        last = totals[frame, ended:rows, reach : reach + states]
        # where the first one is impossible, Kaldi has NaN, than which nothing is greater
        state[ended:rows] = np.where(last[:, 0] > -np.inf, last.argmax(-1), 0)
        path[frame, :rows] = state[:rows]
        if frame > 0:
            there = totals[frame - 1, row[:rows, None], state[:rows, None] + steps.moves]
            state[:rows] += (there - steps.to(frame, state[:rows])).astype(np.float32).argmax(-1) - reach
        ended = rows
    return [path[:length, index] for index, length in enumerate(lengths)]


def _stacked(tracks: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Stack ``(frames,)`` of each utterance to ``(frames, utterances)``, padded with zeros."""
    side = np.zeros((max(map(len, tracks), default=0), len(tracks)), tracks[0].dtype if tracks else np.float32)
    for column, track in enumerate(tracks):
        side[: len(track), column] = track
    return side


def _reach(options: InterpolatePitchOptions) -> int:
    """Return the number of grid steps that the pitch may move by from one frame to the next."""
    return int(np.floor(np.float32(options.max_pitch_change_per_frame) / np.float32(options.pitch_interval) + 0.5))


def normal_vectors(seeds: Seeds, dim: int) -> Floats:
    """Draw Kaldi's standard normal noise for vectors, one from each seed (VectorBase::SetRandn).

    ``(n,)`` seeds -> ``(n, dim)``. The numbers come in pairs, the cosine and the sine of one angle.
    """
    pairs = -(-dim // 2)
    multipliers, increments = (table.view(np.uint32) for table in rand_r_jumps(pairs))
    uniform = []
    for first in (0, 3):
        high, middle, low = (
            seeds.view(np.uint32)[:, None] * multipliers[k] + increments[k] for k in range(first, first + 3)
        )
        drawn = (
            (high & np.uint32(0x7FF00000))
            | ((middle >> np.uint32(12)) & np.uint32(0x000FFC00))
            | (low >> np.uint32(22))
        )
        uniform.append(((drawn + 1.0) / (RAND_MAX + 2.0)).astype(np.float32))
    radius = np.sqrt(np.float32(-2) * logf(uniform[0]))
    sine, cosine = sincosf((2 * np.pi * uniform[1].astype(np.float64)).astype(np.float32))
    noise = np.empty((len(seeds), pairs, 2), np.float32)
    noise[..., 0] = radius * cosine
    noise[..., 1] = radius * sine
    return noise.reshape(len(seeds), 2 * pairs)[:, :dim]


def check_track(features: Floats) -> None:
    """Raise :class:`FeatureError` unless there are two columns, and no pitch is negative or not a number."""
    if features.ndim != 2 or features.shape[1] != 2:
        raise FeatureError(f"expected two columns, the probability of voicing and the pitch, not {features.shape}")
    if not bool((features[:, 1] >= 0).all()):
        raise FeatureError("a pitch is negative or not a number; where there is none it must be 0")
