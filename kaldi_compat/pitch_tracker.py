"""The pitch tracker: audio to the normalized correlation and the pitch of each frame (src/feat/pitch-functions.cc).

Kaldi's tracker takes audio as it arrives. What that changes in the result is the energy that the ballast is taken from:
the mean square of the samples that were there when a frame was computed. Once ``recompute_frame`` frames are there, or
the audio ends before, the frames so far are scaled to the energy known by then. :class:`Schedule` says which samples
those are; the rest of the computation does not know of chunks, but for the first pass, which looks at paths that are
not yet final.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from kaldi_compat.arrays import Array, as_like, astype, float64, namespace
from kaldi_compat.errors import AudioError
from kaldi_compat.options import PitchOptions, as_float32
from kaldi_compat.pitch_nccf import (
    Lags,
    correlations,
    downsampled,
    first_window_start,
    frame_windows,
    full_window,
    nccf,
    samples_out,
)
from kaldi_compat.pitch_viterbi import Paths

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

Key = TypeVar("Key")

_BLOCK = 256  # frames correlated at once: what they need stays in the cache
_FRAMES_AT_ONCE = 40_000  # frames of a batch: some 1.5 kB each
_UTTERANCES_AT_ONCE = 64
_TIME_BLOCK = 16  # frames of each utterance whose local costs are computed at once
_ENERGY_CHANGE = 0.01  # Kaldi's threshold on the relative change of the energy that calls for another search


@dataclass(frozen=True)
class Schedule:
    """Which frames are computed when, and from which samples their ballast is.

    Attributes
    ----------
    frames_ready
        ``(chunks + 1,)`` frames computed after each chunk, and after the end was known.
    samples
        ``(frames,)`` resampled samples whose energy gives each frame's ballast.
    recomputed
        Frames whose search is done again when the energy is known better: the first so many.
    recompute_samples
        Resampled samples that this better energy is of.
    """

    frames_ready: Ints
    samples: Ints
    recomputed: int
    recompute_samples: int

    @property
    def frames(self) -> int:
        """Frames of the whole audio."""
        return int(self.frames_ready[-1])

    @classmethod
    @functools.lru_cache(maxsize=1024)
    def of(cls, samples: int, options: PitchOptions) -> Schedule:
        """The schedule for audio of so many samples."""
        chunk = samples_per_chunk(options) or max(samples, 1)
        given = [min(start + chunk, samples) for start in range(0, samples, chunk)]
        there = [samples_out(count, options, finished=False) for count in given]
        ready = [frames_available(count, options, finished=False) for count in there]
        there.append(samples_out(samples, options, finished=True))
        ready.append(frames_available(there[-1], options, finished=True))
        frames_ready = np.maximum.accumulate(np.array(ready))
        total = int(frames_ready[-1])
        of_frame = np.array(there)[np.searchsorted(frames_ready, np.arange(total), side="right")]
        if options.nccf_ballast_online:
            ends = first_window_start(options) + options.window_shift * np.arange(total) + full_window(options)
            return cls(frames_ready, np.minimum(ends, there[-1]), 0, 0)
        recomputed = min(total, max(0, options.recompute_frame))
        when = there[-1] if total < options.recompute_frame or recomputed == 0 else int(of_frame[recomputed - 1])
        return cls(frames_ready, of_frame, recomputed, when)


def samples_per_chunk(options: PitchOptions) -> int:
    """Samples of a chunk of audio; 0 for all at once."""
    if options.frames_per_chunk == 0:
        return 0
    samples = np.float32(options.frames_per_chunk) * np.float32(options.sample_frequency)
    return max(1, int(samples * np.float32(options.frame_shift) / np.float32(1000)))


def frames_available(samples: int, options: PitchOptions, *, finished: bool) -> int:
    """Frames that can be computed of so many resampled samples; before the end is known, those that are whole."""
    length = options.window_size if finished else full_window(options)
    if samples < length:
        return 0
    if options.snip_edges:
        return (samples - length) // options.window_shift + 1
    centred = samples if finished else samples - length // 2
    return int(np.float32(centred) / np.float32(options.window_shift) + np.float32(0.5))


def mean_square(signal: Array, counts: Any) -> Array:
    """Variance of the first samples of a signal, in double: ``(..., samples)`` and counts ``(..., n)`` -> ``(...,
    n)``.
    """
    xp = namespace(signal)
    wide = float64(signal)
    last = as_like(counts, signal) - 1
    count = float64(last + 1)
    if isinstance(signal, np.ndarray):
        take = functools.partial(np.take_along_axis, indices=last, axis=-1)
    else:
        take = functools.partial(xp.gather, dim=-1, index=last)
    total, squares = take(xp.cumsum(wide, -1)), take(xp.cumsum(wide * wide, -1))
    variance: Array = squares / count - (total / count) ** 2
    return variance


def correlate(signal: Array, frames: int, options: PitchOptions) -> tuple[Array, Array]:
    """Inner products and norms of each frame at whole lags: ``(..., samples)`` -> two ``(..., frames, lags)``."""
    lags = Lags.of(options)
    windows = frame_windows(signal, frames, options)
    blocks = [
        correlations(windows[..., start : start + _BLOCK, :], options.window_size, lags.first, lags.last)
        for start in range(0, frames, _BLOCK)
    ]
    inner, norm = zip(*blocks, strict=True)
    xp = namespace(signal)
    return xp.concatenate(inner, -2), xp.concatenate(norm, -2)


def search_nccf(
    inner: Array, norm: Array, energy: Array, better_energy: Array, recomputed: int, options: PitchOptions
) -> Array:
    """The correlation that the path is searched in: with ballast, and scaled where the energy was revised.

    Parameters
    ----------
    inner, norm
        ``(..., frames, lags)`` as :func:`correlations` gives them.
    energy
        ``(..., frames)`` mean square that each frame's ballast is taken from.
    better_energy
        ``(..., 1)`` mean square known when the first ``recomputed`` frames are searched again.
    """
    xp = namespace(inner)
    ballast = _ballast(energy, options)
    correlation = nccf(inner, norm, astype(ballast, inner.dtype)[..., None])
    if recomputed == 0:
        return correlation
    first, last = energy[..., :recomputed], better_energy
    # Kaldi's ApproxEqual: near to each other relative to their sum; if one frame's is not, all frames are scaled.
    changed = (abs(first - last) > _ENERGY_CHANGE * (abs(first) + abs(last))).any(-1)[..., None]
    average = float64(norm[..., :recomputed, :].mean(-1))
    denominator = _ballast(last, options) + average
    silent = denominator <= 0
    ratio = (ballast[..., :recomputed] + average) / xp.where(silent, denominator + 1, denominator)
    scale = astype(xp.where(changed & ~silent, ratio**0.5, 1.0 + 0 * ratio), inner.dtype)
    return xp.concatenate((correlation[..., :recomputed, :] * scale[..., None], correlation[..., recomputed:, :]), -2)


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


@dataclass
class Analysis:
    """What the search needs to know of an utterance."""

    schedule: Schedule
    for_search: Floats
    first_search: Floats | None
    inner: Floats
    norm: Floats

    @classmethod
    def of(cls, samples: npt.NDArray[Any], options: PitchOptions) -> Analysis:
        """Everything up to the search, for ``(samples,)`` audio."""
        if samples.ndim != 1:
            raise AudioError(f"audio to track pitch in has one axis, not the shape {samples.shape}")
        samples = astype(samples, np.float64 if samples.dtype == np.float64 else np.float32)
        schedule = Schedule.of(len(samples), options)
        if schedule.frames == 0:
            none = np.zeros((0, Lags.of(options).weights.shape[0]), np.float32)
            return cls(schedule, none, none, none, none)
        signal = downsampled(samples, options)
        inner, norm = correlate(signal, schedule.frames, options)
        energy = mean_square(signal, schedule.samples)
        better = mean_square(signal, np.array([max(1, schedule.recompute_samples)]))
        for_search = search_nccf(inner, norm, energy, better, schedule.recomputed, options)
        first_search = None
        if options.simulate_first_pass_online:
            first_search = search_nccf(inner, norm, energy, better, 0, options)
        return cls(schedule, for_search, first_search, inner, norm)

    def features(self, path: npt.NDArray[np.integer[Any]], options: PitchOptions, first: int = 0) -> Floats:
        """(NCCF, pitch) of the frames from ``first`` on along a path of states: ``(frames, 2)``."""
        rows = slice(first, first + len(path))
        return path_features(nccf(self.inner[rows], self.norm[rows], 0.0), path, options)


def path_features(correlation: Array, path: Array, options: PitchOptions) -> Array:
    """(NCCF, pitch in Hz) along a path: ``(..., lags)`` correlation without ballast, ``(...,)`` states -> ``(...,
    2)``.
    """
    xp = namespace(correlation)
    lags = Lags.of(options)
    weights = astype(as_like(lags.weights.T, correlation), correlation.dtype)
    pitch = astype(as_like(lags.pitch, correlation), correlation.dtype)
    return xp.stack(((correlation * weights[path]).sum(-1), pitch[path]), -1)


def track_pitch(samples: npt.NDArray[Any], options: PitchOptions | None = None) -> Floats:
    """Normalized correlation and pitch of each frame of audio (Kaldi: ComputeKaldiPitch).

    Parameters
    ----------
    samples
        ``(samples,)`` at ``options.sample_frequency``, of Kaldi's scale (16-bit integers).
    options
        Kaldi's defaults if none.

    Returns
    -------
    ``(frames, 2)``: the normalized cross-correlation (NCCF, -1 to 1, higher where voiced) and the pitch in Hz.

    Raises
    ------
    AudioError
        ``samples`` has more than one axis.

    >>> tone = 5000 * np.sin(2 * np.pi * 200 * np.arange(16000) / 16000)
    >>> print(track_pitch(tone.astype(np.float32))[50].round(2))
    [  1.   199.77]
    """
    ((_, features),) = track_pitches([("", samples)], options or PitchOptions())
    return features


def track_pitches(
    utterances: Iterable[tuple[Key, npt.NDArray[Any]]], options: PitchOptions
) -> Iterator[tuple[Key, Floats]]:
    """:func:`track_pitch` of many utterances, in order: keys and samples give keys and features.

    Several are searched at a time, which costs little more than searching one. The number of frames that wait is
    bounded. What was read before an error of ``utterances`` still comes out before the error does.
    """
    for keys, batch in _batches(utterances, options):
        if options.simulate_first_pass_online:
            tracks = (first_pass(analysis, options) for analysis in batch)
        else:
            paths = _search([analysis.for_search for analysis in batch], options)
            tracks = (analysis.features(path, options) for analysis, path in zip(batch, paths, strict=True))
        yield from zip(keys, tracks, strict=True)


def _batches(
    utterances: Iterable[tuple[Key, npt.NDArray[Any]]], options: PitchOptions
) -> Iterator[tuple[list[Key], list[Analysis]]]:
    keys: list[Key] = []
    batch: list[Analysis] = []
    frames = 0
    failure: Exception | None = None
    entries = iter(utterances)
    while True:
        try:
            key, samples = next(entries)
            analysis = Analysis.of(samples, options)
        except StopIteration:
            break
        except Exception as error:
            failure = error
            break
        if batch and (len(batch) == _UTTERANCES_AT_ONCE or frames + analysis.schedule.frames > _FRAMES_AT_ONCE):
            yield keys, batch
            keys, batch, frames = [], [], 0
        keys.append(key)
        batch.append(analysis)
        frames += analysis.schedule.frames
    if batch:
        yield keys, batch
    if failure is not None:
        raise failure


def _search(correlations: Sequence[Floats], options: PitchOptions) -> list[npt.NDArray[np.int16]]:
    """The best path of each utterance, given what it is searched in: ``(frames, lags)`` each."""
    order = sorted(range(len(correlations)), key=lambda i: -len(correlations[i]))
    longest_first = [correlations[i] for i in order]
    found = _run(longest_first, options).trace()
    paths = list(found)
    for place, path in zip(order, found, strict=True):
        paths[place] = path
    return paths


def _run(longest_first: Sequence[Floats], options: PitchOptions) -> Paths:
    paths = Paths([len(each) for each in longest_first], len(Lags.of(options).seconds), step_factor(options))
    for start in range(0, len(longest_first[0]), _TIME_BLOCK):
        block = [each[start : start + _TIME_BLOCK] for each in longest_first[: paths.active(start)]]
        bounds = np.cumsum([0] + [len(each) for each in block])
        local = local_costs(np.concatenate(block), options)
        for frame in range(start, start + len(block[0])):
            paths.advance(local[bounds[: paths.active(frame)] + frame - start])
    return paths


def first_pass(analysis: Analysis, options: PitchOptions) -> Floats:
    """(NCCF, pitch) as online decoding sees them: each frame's as of the chunk after which it was ready."""
    ready = 0
    rows = []
    for path, now, _ in online_paths(analysis, options):
        rows.append(analysis.features(path[ready:now], options, ready))
        ready = max(ready, now)
    return np.concatenate(rows) if rows else np.zeros((0, 2), np.float32)


def online_paths(analysis: Analysis, options: PitchOptions) -> Iterator[tuple[npt.NDArray[np.int16], int, bool]]:
    """After each chunk, the best path so far, how many of its frames are ready, and whether that was the last chunk.

    A frame is ready once all paths agree on it, or ``max_frames_latency`` frames later. The path may be the same array
    as before, changed.
    """
    schedule = analysis.schedule
    if schedule.frames == 0:
        return
    assert analysis.first_search is not None
    final = _run([analysis.for_search], options)
    before = _run([analysis.first_search[: schedule.recomputed]], options) if schedule.recomputed else final
    path = np.full(schedule.frames, -1, np.int16)
    searched = before
    # The end is told together with the last chunk, before frames are asked for.
    for end in dict.fromkeys(schedule.frames_ready[:-2].tolist()):
        if end == 0:
            continue
        if searched is before and end >= options.recompute_frame:
            searched = final
            path[:] = -1
        _retrace(path, searched, end)
        yield path[:end], end - _latency(searched, end, options.max_frames_latency), False
    yield final.trace()[0], schedule.frames, True


def _retrace(path: npt.NDArray[np.int16], searched: Paths, end: int) -> None:
    """Write the best path of the first ``end`` frames over the one before, back to where they are one."""
    state = searched.best[end - 1][0]
    for frame in range(end - 1, -1, -1):
        if path[frame] == state:
            return
        path[frame] = state
        state = searched.backpointers[frame][0, state]


def _latency(searched: Paths, end: int, most: int) -> int:
    """Frames before the end on which the paths to different states still differ, ``most`` at most."""
    lowest, highest = 0, searched.costs.shape[1] - 1
    for latency in range(min(most, end)):
        back = searched.backpointers[end - 1 - latency][0]
        lowest, highest = back[lowest], back[highest]
        if lowest == highest:
            return latency
    return min(most, end)
