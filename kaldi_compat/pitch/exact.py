"""Steps of the pitch tracker with the bits of Kaldi's programs, computed in C if the library is there, else in NumPy.

The order of sums is that of OpenBLAS's SkylakeX kernels (:mod:`kaldi_compat.exact.sums`). The interpolation of
correlations is a product of a matrix, with a row for each frame of a chunk, and a vector. Rows in groups of four add
their products in another order than the one to three rows that are left (:func:`row_groups`).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat import native
from kaldi_compat.exact import sums
from kaldi_compat.exact.resample import Filters, resample_chunk, resampling_filters
from kaldi_compat.native import pitch as compiled
from kaldi_compat.options.base import as_float32
from kaldi_compat.options.pitch import PitchOptions
from kaldi_compat.pitch.constants import Lags, PitchConstants
from kaldi_compat.pitch.schedule import Schedule, samples_out
from kaldi_compat.pitch.viterbi import find_predecessors

__all__ = [
    "PitchTables",
    "add_energy",
    "ballast_of",
    "ballast_to_revise",
    "correlate",
    "downsample",
    "energies",
    "energy_changed",
    "frame_signal",
    "interpolate",
    "local_costs",
    "lowpass_filters",
    "recompute_scale",
    "row_groups",
    "search",
    "variance",
]

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
States = npt.NDArray[np.int16]
Groups = npt.NDArray[np.uint8]
F32 = np.float32

_BLOCK = 32  # frames correlated at once in NumPy
_ENERGY_CHANGE = F32(0.01)  # Kaldi's threshold on the relative change of the energy that calls for another search


@dataclass(frozen=True, eq=False)
class PitchTables:
    """Sizes and tables for the steps below.

    Attributes:
        window: resampled samples that are correlated.
        span: resampled samples that a frame looks at.
        first_lag, lags: whole lags in resampled samples at which correlations are measured: the first, and how many.
        step: cost of a step of one state; of ``n`` states it is ``n**2`` times that.
        soft_min_f0: see :class:`~kaldi_compat.options.pitch.PitchOptions`.
        seconds: ``(states,)``: lags that are the states.
        first, columns: ``(states,)``: the first whole lag with a weight, and how many have one.
        weights: for each state, ``(columns[state],)``.
        pitch: ``(states,)`` in Hz.
        shift: resampled samples from one frame's start to the next one's.
    """

    window: int
    span: int
    first_lag: int
    lags: int
    step: float
    soft_min_f0: float
    seconds: Floats
    first: npt.NDArray[np.int32]
    columns: npt.NDArray[np.int32]
    weights: tuple[Floats, ...]
    pitch: Floats
    shift: int

    @classmethod
    @functools.lru_cache(maxsize=16)
    def of(cls, options: PitchOptions) -> PitchTables:
        """Return the tables for these options."""
        lags, constants = Lags.of(options), PitchConstants.of(options)
        first = lags.inside.argmax(0).astype(np.int32)
        columns = lags.inside.sum(0).astype(np.int32)
        return cls(
            window=constants.window,
            span=constants.span,
            first_lag=lags.first,
            lags=lags.last - lags.first + 1,
            step=constants.step,
            soft_min_f0=as_float32(options.soft_min_f0),
            seconds=lags.seconds,
            first=first,
            columns=columns,
            weights=tuple(
                lags.weights[a : a + n, state]
                for state, (a, n) in enumerate(zip(first.tolist(), columns.tolist(), strict=True))
            ),
            pitch=constants.pitch,
            shift=constants.shift,
        )


def lowpass_filters(options: PitchOptions) -> Filters:
    """Return the filters of :func:`downsample`."""
    constants = PitchConstants.of(options)
    cutoff, width = as_float32(options.lowpass_cutoff), options.lowpass_filter_width
    return resampling_filters(constants.rate_in, constants.rate_out, cutoff, width)


def downsample(samples: npt.NDArray[Any], options: PitchOptions) -> Floats:
    """Resample audio to the rate that pitch is tracked at, chunk by chunk (Kaldi: LinearResample).

    Args:
        samples: int16 or float32 of shape (T,).
        options: of the tracker.
    """
    constants = PitchConstants.of(options)
    filters = lowpass_filters(options)
    step = constants.chunk or max(1, len(samples))
    parts, begin = [], 0
    for start in range(0, len(samples), step):
        end = min(start + step, len(samples))
        ready = samples_out(end, constants, finished=False)
        parts.append(resample_chunk(samples[:end], filters, (begin, ready), start))
        begin = max(begin, ready)
    count = samples_out(len(samples), constants, finished=True)
    parts.append(resample_chunk(samples, filters, (begin, count), len(samples)))
    return np.concatenate(parts)


def energies(signal: Floats, schedule: Schedule, options: PitchOptions) -> tuple[Doubles, float]:
    """Compute the mean square of the audio that gives each frame its ballast, less the square of its mean.

    Args:
        signal: (samples,): resampled audio.
        schedule: of the frames.
        options: of the tracker.

    Returns:
        (frames,), and the value at ``schedule.recompute_samples``.
    """
    chunks, totals = schedule.samples_ready, [(0.0, 0.0)]
    for begin, end in zip([0, *chunks[:-1].tolist()], chunks.tolist(), strict=True):
        totals.append(add_energy(totals[-1], signal[begin:end]))
    ends = np.asarray(schedule.samples)
    if not options.nccf_ballast_online:
        values = {int(n): variance(total, int(n)) for n, total in zip(chunks, totals[1:], strict=True)}
        better = values.get(int(schedule.recompute_samples), 0.0)
        return np.array([values[n] for n in ends.tolist()]), better
    found, ready, chunk = [], schedule.frames_ready.tolist(), 0
    total, before = totals[0], 0
    for frame, end in enumerate(ends.tolist()):
        if frame >= ready[chunk]:
            while frame >= ready[chunk]:
                chunk += 1
            total, before = totals[chunk], int(chunks[chunk - 1])
        if end < before:  # Kaldi aborts here: a short utterance whose first frames are complete at the end only
            total, before = totals[0], 0
        total, before = add_energy(total, signal[before:end]), end
        found.append(variance(total, end))
    return np.array(found), 0.0


def add_energy(total: tuple[float, float], part: Floats) -> tuple[float, float]:
    """Add the sums of squares and of samples, in float32 each, to totals in double; see :func:`variance`."""
    if native.library():
        return total[0] + sums.vector_dot(part, part), total[1] + sums.vector_sum(part)
    return total[0] + float(sums.dot(part, part)), total[1] + float(sums.plain_sum(part))


def variance(total: tuple[float, float], count: int) -> float:
    """Return the mean square of so many samples less the square of their mean; NaN without samples."""
    if count == 0:
        return math.nan
    mean = total[1] / count
    return total[0] / count - mean * mean


def ballast_of(energy: Any, options: PitchOptions) -> Any:
    """Return the ballast for mean squares, in double."""
    return (energy * options.window_size) ** 2 * as_float32(options.nccf_ballast)


def recompute_scale(energy: Doubles, better: float, average: Floats, recomputed: int, options: PitchOptions) -> Floats:
    """Compute the factors on the correlations of frames that are searched again with a better estimate of the energy.

    Args:
        energy: (frames,): mean squares that the ballast was computed from.
        better: the mean square known later.
        average: (frames,): mean products of energies: see :func:`correlate`.
        recomputed: frames from the first that are searched again.
        options: of the tracker.
    """
    scale = np.ones(len(energy), F32)
    before, after = energy[:recomputed].astype(F32), F32(better)
    # If one frame's energy changed, all frames are scaled.
    if not energy_changed(before, after).any():
        return scale
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        numbers = average[:recomputed]
        ratio = (ballast_to_revise(before, options) + numbers) / (ballast_to_revise(after, options) + numbers)
        # Absurdly loud audio overflows: its correlation is left alone.
        usable = np.isfinite(ratio) & (ratio >= 0)
        scale[:recomputed] = np.where(usable, np.sqrt(np.where(usable, ratio, 1)), 1)
    return scale


def energy_changed(before: Floats, after: Floats | np.float32) -> npt.NDArray[np.bool_]:
    """Return where mean squares changed so much that Kaldi searches again (its ApproxEqual)."""
    with np.errstate(over="ignore", invalid="ignore"):
        changed: npt.NDArray[np.bool_] = abs(before - after) > _ENERGY_CHANGE * (abs(before) + abs(after))
    return changed


def ballast_to_revise(energy: Any, options: PitchOptions) -> Any:
    """Return the ballast for mean squares in float32, as Kaldi rounds it where it revises a ballast."""
    with np.errstate(over="ignore"):
        size = np.asarray(energy, F32) * F32(options.window_size)
        return (size.astype(np.float64) ** 2 * as_float32(options.nccf_ballast)).astype(F32)


def row_groups(frames_ready: npt.NDArray[Any]) -> Groups:
    """Return the group of each frame's row in the interpolation of its chunk: 0 for four rows, 1 for two, 2 for one.

    Args:
        frames_ready: (chunks + 1,): frames that are computed after each chunk and after the end.

    >>> row_groups(np.array([7, 9])).tolist()
    [0, 0, 0, 0, 1, 1, 2, 1, 1]
    """
    groups = np.zeros(int(frames_ready[-1]) if len(frames_ready) else 0, np.uint8)
    begin = 0
    for end in np.maximum.accumulate(frames_ready).tolist():
        left = (end - begin) % 4
        groups[end - left : end] = 1
        if left % 2:
            groups[end - 1] = 2
        begin = end
    return groups


def frame_signal(signal: Floats, frames: int, constants: PitchConstants) -> tuple[Floats, int]:
    """Lay out audio so that all frames lie in it, at one distance from each other.

    Returns:
        The audio, and the distance. With preemphasis, frames do not share samples.
    """
    start, shift, span = constants.start, constants.shift, constants.span
    before = max(0, -start)
    after = max(0, start + (frames - 1) * shift + span - len(signal))
    padded = np.concatenate((np.zeros(before, F32), signal, np.zeros(after, F32)))[max(0, start) :]
    if constants.preemphasis == 0.0:
        return padded, shift
    factor = F32(constants.preemphasis)
    windows = np.lib.stride_tricks.sliding_window_view(padded, span)[::shift][:frames]
    position = start + shift * np.arange(frames)[:, None] + np.arange(span)
    previous = np.concatenate((windows[:, :1], windows[:, :-1]), 1)
    # The first sample of the audio in a frame has none before it: it is scaled, in double.
    is_first = (np.arange(span) == 0) | (position == 0)
    alone = (windows * (1.0 - float(factor))).astype(F32)
    emphasized = np.where(is_first, alone, windows - factor * previous)
    inside = (position >= 0) & (position < len(signal))
    return np.where(inside, emphasized, F32(0)).ravel(), span


def correlate(tables: PitchTables, signal: Floats, shift: int, ballast: Floats) -> tuple[Floats, Floats, Floats]:
    """Compute the normalized correlations of frames at whole lags (Kaldi: ComputeCorrelation, ComputeNccf).

    Args:
        tables: of the tracker.
        signal: (samples,): the audio, in which frame ``i`` starts at ``i * shift``.
        shift: samples from one frame's start to the next one's.
        ballast: (frames,): added to the products of energies.

    Returns:
        Correlations with ballast and without (frames, lags), and mean products of energies (frames,).
    """
    if native.library():
        return compiled.correlate(tables, signal, shift, ballast)
    return correlate_in_numpy(tables, signal, shift, ballast)


def correlate_in_numpy(
    tables: PitchTables, signal: Floats, shift: int, ballast: Floats
) -> tuple[Floats, Floats, Floats]:
    """Compute :func:`correlate` in NumPy."""
    n, frames = tables.window, len(ballast)
    searched, correlation = (np.empty((frames, tables.lags), F32) for _ in range(2))
    average = np.empty(frames, F32)
    for begin in range(0, frames, _BLOCK):
        end = min(begin + _BLOCK, frames)
        places = np.arange(begin, end)[:, None] * shift + np.arange(tables.span)
        windows = signal[places]
        windows += (-sums.plain_sum(windows[:, :n]) / F32(n))[:, None]
        base = windows[:, None, :n]
        later = np.lib.stride_tricks.sliding_window_view(windows, n, 1)[:, tables.first_lag :]
        inner = sums.dot(later, base)
        norm = sums.dot(base, base) * sums.dot(later, later)
        average[begin:end] = sums.plain_sum(norm) / F32(tables.lags)
        searched[begin:end] = _normalized(inner, norm, ballast[begin:end, None])
        correlation[begin:end] = _normalized(inner, norm, F32(0))
    return searched, correlation, average


def _normalized(inner: Floats, norm: Floats, ballast: Any) -> Floats:
    root = np.sqrt(norm + ballast)
    silent = root == 0
    result: Floats = np.where(silent, F32(0), inner / np.where(silent, F32(1), root))
    return result


def local_costs(tables: PitchTables, searched: Floats, scale: Floats, groups: Groups) -> Floats:
    """Compute the cost of each state on each frame, eq. 5 of the paper.

    Args:
        tables: of the tracker.
        searched: (frames, lags): correlation with ballast.
        scale: (frames,): factors on it.
        groups: (frames,): see :func:`row_groups`.

    Returns:
        (frames, states)
    """
    values = np.empty((len(searched), len(tables.weights)), F32)
    for group in np.unique(groups).tolist():
        rows = groups == group
        for state, weights in enumerate(tables.weights):
            first = tables.first[state]
            values[rows, state] = sums.row_product(weights, searched[rows, first : first + len(weights)], group)
    values *= scale[:, None]
    costs: Floats = (F32(1) - values) + F32(tables.soft_min_f0) * (tables.seconds * values)
    return costs


def search(
    tables: PitchTables,
    searched: Floats,
    scale: Floats,
    groups: Groups,
    costs: Floats,
    predecessors: States,
    best: States,
) -> None:
    """Search the cheapest paths through the states of frames (Kaldi: PitchFrameInfo::ComputeBacktraces).

    Args:
        tables: of the tracker.
        searched: (frames, lags): correlation with ballast.
        scale: (frames,): factors on it.
        groups: (frames,): see :func:`row_groups`.
        costs: (states,): costs of the paths before the first frame; set to those at the last one.
        predecessors: (frames, states): set to the state before on the cheapest path to each state.
        best: (frames,): set to the state that the cheapest path of all leads to.
    """
    if native.library():
        compiled.search(tables, searched, scale, groups, costs, predecessors, best)
    else:
        search_in_numpy(tables, searched, scale, groups, costs, predecessors, best)


def search_in_numpy(
    tables: PitchTables,
    searched: Floats,
    scale: Floats,
    groups: Groups,
    costs: Floats,
    predecessors: States,
    best: States,
) -> None:
    """Compute :func:`search` in NumPy."""
    steps = np.arange(len(costs), dtype=F32) ** 2 * F32(tables.step)
    for frame, local in enumerate(local_costs(tables, searched, scale, groups)):
        source, costs[:] = find_predecessors(costs, steps)
        predecessors[frame] = source
        costs += local
        best[frame] = costs.argmin()
        costs -= costs[best[frame]]


def interpolate(tables: PitchTables, correlation: Floats, groups: Groups, path: States) -> Floats:
    """Interpolate each frame's correlation to the lag of a state.

    Args:
        tables: of the tracker.
        correlation: (frames, lags)
        groups: (frames,): see :func:`row_groups`.
        path: (frames,): states.

    Returns:
        (frames,)
    """
    if native.library():
        return compiled.interpolate(tables, correlation, groups, np.ascontiguousarray(path, np.int16))
    return interpolate_in_numpy(tables, correlation, groups, path)


def interpolate_in_numpy(tables: PitchTables, correlation: Floats, groups: Groups, path: States) -> Floats:
    """Compute :func:`interpolate` in NumPy."""
    values = np.empty(len(path), F32)
    for state, group in set(zip(path.tolist(), groups.tolist(), strict=True)):
        rows = (path == state) & (groups == group)
        weights, first = tables.weights[state], tables.first[state]
        values[rows] = sums.row_product(weights, correlation[rows, first : first + len(weights)], group)
    return values
