"""Interpolation of gaps in a pitch track, where the pitch is 0 (Kaldi: src/featbin/interpolate-pitch.cc)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.libm import logf
from kaldi_compat import native
from kaldi_compat.errors import FeatureError
from kaldi_compat.exact.arrays import Floats
from kaldi_compat.exact.libm import sincosf
from kaldi_compat.exact.rand import RAND_MAX, SEED_OFFSET, KaldiRandom, compute_rand_r_jumps, draw_polar_noise
from kaldi_compat.options.base import as_float32, make_options, takes_options
from kaldi_compat.options.constructors import InterpolatePitchKeywords, Unpack
from kaldi_compat.options.pitch import InterpolatePitchOptions

__all__ = ["interpolate_linearly", "interpolate_smoothly"]

Seeds = npt.NDArray[np.int32]
Indices = npt.NDArray[np.intp]

# Standard deviation of the noise on log probabilities, which hides the grid of pitches (Kaldi: interpolate-pitch.cc).
_NOISE = np.float32(0.01)
# Largest number of pitches in a grid. A larger grid would take more memory than machines have, so the pitch is wrong.
_MAX_STATES = 1 << 31
# Largest change of pitch between two frames, in states of the grid, that C supports. C stores a change in 8 bits.
_MAX_REACH_IN_C = 127
_MAX_LANES = 16  # Number of floats in a vector of the widest instruction set (AVX-512).


@dataclass
class InterpolationCounts:
    """Numbers of frames that Kaldi's interpolate-pitch reports."""

    frames: int = 0  # Number of frames of all utterances.
    gaps: int = 0  # Number of frames with a pitch of 0, or with the lowest pitch of the grid.
    changed: int = 0  # Number of frames that are not gaps and whose pitch was changed.


def interpolate_linearly(features: Floats) -> Floats:
    """Fill gaps in the pitch with straight lines (Kaldi: interpolate-pitch). A gap is a run of frames with pitch 0.

    A line goes from the pitch of the frame before the gap to the pitch of the frame after it. A gap that begins at
    frame 0 or 1 (Kaldi ignores the pitch of frame 0), or that ends at the last frame, has a pitch on one side only. On
    the other side, the line has 0.9 times this pitch. Without a pitch on either side, the gap gets the pitch 1 Hz.

    Args:
        features: columns (frames, columns): probability of voicing, pitch in Hz, and others, which are copied.

    Returns:
        Array of the same shape. Only the pitch differs.

    Raises:
        FeatureError: the array is not a matrix with at least two columns, or a pitch is negative or NaN.

    >>> import numpy as np
    >>> from kaldi_compat.pitch.interpolate import interpolate_linearly
    >>> interpolate_linearly(np.array([[0, 90], [1, 100], [0, 0], [0, 0], [1, 130]], np.float32))[:, 1]
    array([ 90., 100., 110., 120., 130.], dtype=float32)
    """
    check_track(features[..., :2])
    pitch = features[:, 1].copy()
    is_gap = np.concatenate(([False], pitch == 0, [False]))
    begins = np.flatnonzero(is_gap[1:] & ~is_gap[:-1])
    ends = np.flatnonzero(is_gap[:-1] & ~is_gap[1:])
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        left = pitch[begin - 1] if begin > 1 else np.float32(-1)  # -1 means that no pitch is on this side.
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


@takes_options(InterpolatePitchOptions)
def interpolate_smoothly(
    features: Floats,
    options: InterpolatePitchOptions | None = None,
    random: KaldiRandom | None = None,
    counts: InterpolationCounts | None = None,
    **changes: Unpack[InterpolatePitchKeywords],
) -> Floats:
    """Replace the pitch of each frame with the pitch on the most probable path through a grid of pitches.

    The change of the pitch from one frame to the next, in Hz, has a Gaussian distribution. In a frame with a measured
    pitch, the probability of the measured pitch rises with the probability of voicing, and the probability of the other
    pitches falls. Without a measured pitch, all pitches have the same probability (Kaldi: interpolate-pitch).

    Args:
        features: columns ``(frames, 2)``: probability of voicing, and pitch in Hz, or 0 without a measured pitch.
        options, changes: grid and probabilities, as ``InterpolatePitchOptions`` or by name (default: Kaldi's).
        random: source of the random shifts of the grid and of the noise, as in Kaldi. Its numbers continue from
            utterance to utterance. None for a new source.
        counts: counters to which the frames are added. None to count nothing.

    Returns:
        Columns ``(frames, 2)``: the unchanged probability of voicing, and the smooth pitch in Hz.

    Raises:
        FeatureError: the features do not have two columns, or a pitch is negative or NaN.
        OptionError: an option is invalid.
        MemoryError: the grid has too many pitches.

    >>> import numpy as np
    >>> from kaldi_compat.pitch.interpolate import interpolate_smoothly
    >>> track = np.array([[0.9, 100], [0.9, 102], [0.1, 200], [0.1, 0], [0.9, 108]], np.float32)
    >>> interpolate_smoothly(track)[:, 1].round()
    array([101., 102., 105., 105., 108.], dtype=float32)
    """
    options = make_options("interpolate_smoothly", InterpolatePitchOptions, options, changes)
    check_track(features)
    if not len(features):
        return features
    bounds = np.array([0, len(features)])
    return interpolate_utterances(features, bounds, options, random or KaldiRandom(), counts or InterpolationCounts())


@dataclass
class RaggedGrids:
    """Utterances on grids of pitches. The grid of a frame has a random shift."""

    bounds: Indices  # (utterances + 1,): rows ``bounds[u]`` to ``bounds[u + 1] - 1`` are the frames of utterance ``u``.
    states: Indices  # (utterances,): number of pitches in the grid of each utterance.
    bottom: Floats  # (rows,): the lowest pitch of each frame.
    nearest: Indices  # (rows,): index of the pitch nearest to the measured pitch. 0 without a measured pitch.
    other_scores: Floats  # (rows,): half the log probability of each pitch other than the measured pitch.
    bonuses: Floats  # (rows,): number that is added to ``other_scores`` for the measured pitch.
    seeds: Seeds  # (rows,): initial state of rand_r() for the noise of each frame.

    @classmethod
    def from_features(
        cls, features: Floats, bounds: Indices, options: InterpolatePitchOptions, random: KaldiRandom
    ) -> RaggedGrids:
        """Create the grids of utterances. Random numbers are drawn in Kaldi's order.

        Args:
            features: float32 columns (rows, 2): probability of voicing, and pitch in Hz or 0.
            bounds: indices (utterances + 1,): first row of each utterance, followed by the number of rows.
            options: options of the interpolation.
            random: source of Kaldi's random numbers. It advances by two numbers per row.

        Raises:
            MemoryError: a grid would have too many pitches.
        """
        counts = np.diff(bounds)
        interval = np.float32(options.pitch_interval)
        pitch = features[:, 1]
        is_voiced = pitch != 0
        lowest, states = _choose_grids(pitch, bounds, interval)
        draws = random.draws(2 * len(features))
        # As in Kaldi, each utterance first draws the shifts of all its frames, and then the seeds of all its frames.
        shift_index = np.arange(len(features)) + np.repeat(bounds[:-1], counts)
        uniform = ((draws[shift_index] + 1.0) / (RAND_MAX + 2.0)).astype(np.float32)  # Between 0 and 1 (RandUniform).
        bottom = np.repeat(lowest, counts) - interval * uniform
        nearest = np.floor(((pitch - bottom) / interval).astype(np.float64) + 0.5).astype(np.intp)
        other_scores, bonuses = _compute_scores(np.where(is_voiced, features[:, 0], np.float32(0)), options)
        return cls(
            bounds=bounds,
            states=states,
            bottom=bottom,
            nearest=np.where(is_voiced, np.clip(nearest, 0, np.repeat(states, counts) - 1), 0),
            other_scores=other_scores,
            bonuses=bonuses,
            seeds=draws[shift_index + np.repeat(counts, counts)] + np.int32(SEED_OFFSET),
        )


def _choose_grids(pitch: Floats, bounds: Indices, interval: np.float32) -> tuple[Floats, Indices]:
    """Return the lowest pitch in Hz, before the random shift, and the number of pitches of each utterance's grid.

    Both results are (utterances,). ``pitch`` (rows,) is in Hz, or 0 without a measured pitch. ``interval`` is the
    distance between pitches in Hz. Raise MemoryError if a grid would have too many pitches.
    """
    infinity, is_voiced = np.float32(np.inf), pitch != 0
    lowest, highest = _find_extremes(
        np.where(is_voiced, pitch, infinity), np.where(is_voiced, pitch, -infinity), bounds
    )
    has_no_pitch = lowest == infinity  # As in Kaldi, the grid of an utterance without pitch begins near 100 Hz.
    lowest = np.where(has_no_pitch, np.float32(100), lowest)
    highest = np.where(has_no_pitch, np.float32(100), highest)
    highest = np.maximum(highest, lowest + np.float32(2.0 * float(interval)))
    steps = ((highest - lowest) / interval).astype(np.float64)
    if (steps > _MAX_STATES).any():
        raise MemoryError(
            f"a grid of {steps.max():.0f} pitches between {lowest.min():g} and {highest.max():g} Hz is too large: "
            "increase pitch_interval, or correct the pitch"
        )
    # A grid has one pitch more than steps, and a further pitch, because its random shift is up to one step downward.
    return lowest, np.floor(steps + 0.5).astype(np.int64) + 2


def _find_extremes(low: Floats, high: Floats, bounds: Indices) -> tuple[Floats, Floats]:
    """Return minima (utterances,) of ``low`` (rows,), and maxima (utterances,) of ``high`` (rows,), of each utterance.

    Either all utterances have rows, or none of them has. Without rows, the results are infinity and -infinity.
    """
    if not len(low):
        return np.full(len(bounds) - 1, np.inf, np.float32), np.full(len(bounds) - 1, -np.inf, np.float32)
    return np.minimum.reduceat(low, bounds[:-1]), np.maximum.reduceat(high, bounds[:-1])


def _compute_scores(probability_of_voicing: Floats, options: InterpolatePitchOptions) -> tuple[Floats, Floats]:
    """Return ``other_scores`` and ``bonuses`` of :class:`RaggedGrids`, both (rows,).

    ``probability_of_voicing`` (rows,) is 0 in rows without a measured pitch.
    """
    voicing = probability_of_voicing * np.float32(options.max_voicing_prob)
    p_other = ((1.0 - voicing.astype(np.float64)) * as_float32(options.interpolator_factor)).astype(np.float32)
    # If the measured pitch is certain, the floor keeps the logarithms of the other pitches finite.
    p_other = np.maximum(p_other, np.finfo(np.float32).tiny)
    # The maximum avoids the logarithm of a negative number if a probability of voicing is negative.
    ratio = np.maximum(voicing + p_other, 0) / p_other
    return np.float32(0.5) * logf(p_other), np.float32(0.5) * logf(ratio)


def interpolate_utterances(
    features: Floats,
    bounds: Indices,
    options: InterpolatePitchOptions,
    random: KaldiRandom,
    counts: InterpolationCounts,
) -> Floats:
    """Apply :func:`interpolate_smoothly` to several utterances together.

    Args:
        features: features (rows, 2) of all utterances, for which :func:`can_interpolate_together` is true.
        bounds: indices (utterances + 1,): first row of each utterance, and the number of rows. No utterance is empty.
        options, random, counts: see :func:`interpolate_smoothly`.

    Returns:
        Columns (rows, 2): the unchanged probability of voicing, and the smooth pitch in Hz.
    """
    grids = RaggedGrids.from_features(features.astype(np.float32, copy=False), bounds, options, random)
    path = find_most_probable_paths(grids, options)
    counts.frames += len(path)
    counts.gaps += int(np.count_nonzero(grids.nearest == 0))
    counts.changed += int(np.count_nonzero((grids.nearest != 0) & (path != grids.nearest)))
    pitch = grids.bottom + np.float32(options.pitch_interval) * path.astype(np.float32)
    return np.stack((features[:, 0], pitch), -1)


def can_interpolate_together(features: Floats) -> bool:
    """Return True if :func:`interpolate_utterances` can interpolate features.

    They must be finite float32 numbers of shape (rows, 2), and no pitch (column 1) may be negative.
    """
    return (
        features.shape[1] == 2
        and features.dtype == np.float32
        and bool(np.isfinite(features).all())
        and bool((features[:, 1] >= 0).all())
    )


def _find_most_probable_paths_in_c(grids: RaggedGrids, options: InterpolatePitchOptions) -> Any:
    """Find the most probable paths in C: see :func:`find_most_probable_paths`.

    Return NotImplemented if the pitch may change by more than ``_MAX_REACH_IN_C`` states from frame to frame.
    """
    reach, interval, noise = _compute_reach(options), np.float32(options.pitch_interval), float(_NOISE) / 2
    if reach > _MAX_REACH_IN_C:
        return NotImplemented
    # Noise is drawn in pairs of numbers, and each lane of a SIMD vector draws a pair. Round up to whole vectors.
    pairs = -(-int(grids.states.max(initial=1)) // (2 * _MAX_LANES)) * _MAX_LANES
    multipliers, increments = (table.view(np.uint32) for table in compute_rand_r_jumps(pairs))
    c_grids = native.get_structure("pitch_grids")(
        grids,
        rows=grids.bounds,
        elsewhere=grids.other_scores,
        here=grids.bonuses,
        count=len(grids.states),
        seeds=grids.seeds.view(np.uint32),
        multipliers=multipliers,
        increments=increments,
        pairs=pairs,
        reach=reach,
        interval=interval,
        noise=noise,
    )
    path = np.empty(int(grids.bounds[-1]), np.int64)
    if native.get_function("interpolate_pitch")(c_grids, path):
        raise MemoryError(
            "cannot allocate memory for a grid of pitches: use shorter utterances, or a machine with more memory"
        )
    return path


def _compute_reach(options: InterpolatePitchOptions) -> int:
    """Return the largest change of pitch from one frame to the next in states of the grid, rounded half up."""
    return int(np.floor(np.float32(options.max_pitch_change_per_frame) / np.float32(options.pitch_interval) + 0.5))


@native.twin(_find_most_probable_paths_in_c)
def find_most_probable_paths(grids: RaggedGrids, options: InterpolatePitchOptions) -> Indices:
    """Return the states (rows,), which are indices in the grids, on the most probable path of each utterance.

    Raise MemoryError if the memory for the paths of the longest utterance cannot be allocated.
    """
    reach, interval = _compute_reach(options), np.float32(options.pitch_interval)
    utterances = zip(itertools.pairwise(grids.bounds.tolist()), grids.states.tolist(), strict=True)
    # The reach is limited to the size of the grid, because the pitch cannot move further.
    paths = [
        _find_most_probable_path(grids, slice(*rows), states, min(reach, states), interval)
        for rows, states in utterances
    ]
    return np.concatenate(paths) if paths else np.empty(0, np.int64)


def _find_most_probable_path(grids: RaggedGrids, rows: slice, states: int, reach: int, interval: np.float32) -> Indices:
    """Return the states (frames,), which are indices in the grid, on the most probable path of one utterance.

    The log probability of a step is minus half the square of the change of pitch in Hz. All log probabilities are
    halved, so a step costs the square of half the change. Each operation rounds as in Kaldi, because rounding decides
    between paths in long gaps.

    Args:
        grids: grids of all utterances.
        rows: rows of the utterance in ``grids``.
        states: number of pitches in the utterance's grid.
        reach: largest number of states by which the pitch changes from frame to frame.
        interval: distance between the pitches of a grid in Hz.
    """
    half = np.float32(0.5)
    grid = interval * np.arange(-reach, states + reach).astype(np.float32)
    columns = grids.bottom, grids.nearest, grids.other_scores, grids.bonuses
    bottom, nearest, other_scores, bonuses = (column[rows] for column in columns)
    noise = float(_NOISE) / 2 * draw_normal_vectors(grids.seeds[rows], states).astype(np.float64)
    scores = np.full(states + 2 * reach, -np.inf, np.float32)  # ``reach`` pitches of probability zero on each side.
    # Score of the best path to each state, and number of states from each state to its predecessor on this path.
    best, moves = np.zeros(states, np.float32), np.zeros((len(bottom), states), np.intp)
    for frame in range(len(bottom)):
        if frame > 0:
            pitches = half * (bottom[frame] + grid[reach : reach + states])
            previous = np.lib.stride_tricks.sliding_window_view(half * (bottom[frame - 1] + grid), states)
            cost = np.square(previous - pitches, dtype=np.float64)
            candidates = (np.lib.stride_tricks.sliding_window_view(scores, states) - cost).astype(np.float32)
            best = candidates.max(0)
            moves[frame] = np.where(best > -np.inf, candidates.argmax(0), reach) - reach
        best += other_scores[frame]
        best[nearest[frame]] += bonuses[frame]
        scores[reach : reach + states] = best + noise[frame]
    final_scores = scores[reach : reach + states]
    path = np.zeros(len(bottom), np.int64)
    # If the first state has probability zero, Kaldi compares with NaN and keeps the first state.
    state = int(final_scores.argmax()) if final_scores[0] > -np.inf else 0
    for frame in range(len(bottom) - 1, -1, -1):
        path[frame] = state
        state += int(moves[frame, state])
    return path


def draw_normal_vectors(seeds: Seeds, dim: int) -> Floats:
    """Draw a vector of Kaldi's standard normal noise from each seed (VectorBase::SetRandn).

    The numbers are drawn in pairs. A pair consists of the cosine and the sine of one angle, times one radius.

    Args:
        seeds: initial states of ``rand_r()`` (n,).
        dim: number of elements of a vector.

    Returns:
        The vectors (n, dim).
    """
    radius, angle = draw_polar_noise(seeds, -(-dim // 2))
    sine, cosine = sincosf(angle)
    return np.stack((radius * cosine, radius * sine), -1).reshape(len(seeds), -1)[:, :dim]


def check_track(features: Floats) -> None:
    """Raise :class:`FeatureError` unless features are (frames, 2) and no pitch (column 1) is negative or NaN."""
    if features.ndim != 2 or features.shape[1] != 2:
        raise FeatureError(f"expected (frames, 2), probability of voicing and pitch, not the shape {features.shape}")
    if not bool((features[:, 1] >= 0).all()):
        raise FeatureError("a pitch is negative or NaN: use 0 where a frame has no pitch")
