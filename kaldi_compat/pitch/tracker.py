"""The pitch tracker: audio to the normalized correlation and the pitch of each frame (src/feat/pitch-functions.cc)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from kaldi_compat.array_api import Array, astype, at_least_float32, namespace
from kaldi_compat.errors import AudioError
from kaldi_compat.options.pitch import PitchOptions
from kaldi_compat.pitch.constants import PitchConstants
from kaldi_compat.pitch.costs import local_costs, mean_square, path_features, search_nccf
from kaldi_compat.pitch.nccf import correlate, downsampled, nccf
from kaldi_compat.pitch.schedule import Schedule
from kaldi_compat.pitch.viterbi import Lattice, Search, States

__all__ = ["Analysis", "Floats", "lattice_of", "search_pitches", "track_pitch", "track_pitches"]

Floats = npt.NDArray[np.float32]
Key = TypeVar("Key")

_ROWS = 64  # utterances, or parts of long ones, searched at once
_PART = 2000  # frames of a part, at least
# Number of frames before a part at which its search starts: after these, most searches do not depend on their start.
_LEAD = 100
_FRAMES_AT_ONCE = 60_000  # of these utterances, beyond the first: some 1.5 kB each
_FRAMES_WAITING = 4_000_000  # finished, but waiting for an earlier utterance: 8 bytes each
_BLOCK = 8  # frames of each utterance whose local costs are computed at once


@dataclass
class Analysis:
    """Analysis of an utterance before its path is searched.

    Attributes:
        schedule: frames computed after each chunk.
        searched: ``(frames, lags)``: correlation with ballast, in which the path is searched.
        first_searched: the same before the energy was revised; only if the first pass is simulated.
        correlation: ``(frames, lags)``: correlation without ballast.
    """

    schedule: Schedule
    searched: Floats
    first_searched: Floats
    correlation: Floats

    @classmethod
    def of(cls, samples: npt.NDArray[Any], options: PitchOptions) -> Analysis:
        """Analyse audio ``(samples,)``."""
        if samples.ndim != 1:
            raise AudioError(f"audio to track pitch in has one axis, not the shape {samples.shape}")
        constants = PitchConstants.of(options)
        schedule = Schedule.of(len(samples), constants)
        if schedule.frames == 0:
            none = np.zeros((0, len(constants.weights)), np.float32)
            return cls(schedule, none, none, none)
        signal = downsampled(astype(samples, np.float64 if samples.dtype == np.float64 else np.float32), constants)
        if not np.isfinite(signal).all():
            raise AudioError("audio to track pitch in holds an infinity or something that is not a number")
        with np.errstate(over="ignore", invalid="ignore"):  # products of absurdly loud audio overflow
            inner, norm = correlate(signal, len(schedule.samples), constants)
            energy = mean_square(signal, schedule.samples)
            better = mean_square(signal, schedule.recompute_samples[None])
            again = np.arange(len(schedule.samples)) < schedule.recomputed
            searched = first_searched = search_nccf(inner, norm, energy, better, again, constants)
            if options.simulate_first_pass_online:
                first_searched = search_nccf(inner, norm, energy, better, np.zeros_like(again), constants)
            correlation = nccf(inner, norm, 0.0)
        if not (np.isfinite(searched).all() and np.isfinite(correlation).all()):
            raise AudioError("audio to track pitch in is so loud that its correlation overflows: scale it down")
        return cls(schedule, searched, first_searched, correlation)

    def features(self, path: npt.NDArray[np.integer[Any]], options: PitchOptions, first: int = 0) -> Floats:
        """Return (NCCF, pitch) of the frames from ``first`` on, along a path of states: ``(frames, 2)``."""
        return path_features(self.correlation[first : first + len(path)], path, PitchConstants.of(options))


def track_pitch(samples: Array, options: PitchOptions | None = None) -> Array:
    """Compute normalized correlation and pitch of each frame of audio (Kaldi: ComputeKaldiPitch).

    Args:
        samples: ``(samples,)`` at ``options.sample_frequency``, on Kaldi's scale (16-bit integers), NumPy or torch.
        options: None for Kaldi's defaults.

    Returns:
        ``(frames, 2)``: the normalized cross-correlation (NCCF, -1 to 1, higher where voiced) and the pitch in Hz.
        The result has no gradient: for that, and for batches, use :class:`~kaldi_compat.features.pitch.Pitch`.

    Raises:
        AudioError: ``samples`` has more than one axis.
        FeatureError: ``samples`` is neither an array nor a tensor.

    >>> tone = 5000 * np.sin(2 * np.pi * 200 * np.arange(16000) / 16000)
    >>> print(track_pitch(tone.astype(np.float32))[50].round(2))
    [  1.   199.98]
    """
    xp = namespace(samples)
    audio: Any = samples if isinstance(samples, np.ndarray) else at_least_float32(samples.detach()).cpu().numpy()
    ((_, features),) = track_pitches([("", audio)], options or PitchOptions())
    tracked: Array = features if isinstance(samples, np.ndarray) else xp.from_numpy(features).to(samples.device)
    return tracked


@dataclass
class _Entry(Generic[Key]):
    """An utterance in the search."""

    key: Key
    analysis: Analysis | None
    frames: int
    lattice: Lattice | None
    parts: list[_Part]
    features: Floats | None = None

    def is_searched(self) -> bool:
        """Return True if all parts are searched."""
        return all(part.left is not None for part in self.parts)

    def finish(self, options: PitchOptions) -> None:
        """Join the parts, and keep only the features.

        The search of a part is valid if it entered with the costs that the part before left with. Otherwise it is
        repeated from these costs.
        """
        assert self.analysis is not None and self.lattice is not None
        costs = None
        for part in self.parts:
            if costs is None or (part.entered is not None and np.array_equal(part.entered, costs)):
                costs = part.left
            else:
                costs = _search_on(self.lattice, self.analysis.searched, costs, part.begin, part.end, options)
        self.features = self.analysis.features(self.lattice.path(), options)
        self.analysis = self.lattice = None
        self.parts = []


@dataclass
class _Part:
    """Frames of an utterance that are searched separately.

    The costs of the paths so far are unknown where a part begins. But once all paths go through one state, and that is
    the best of its frame (its cost is 0), later costs do not depend on earlier ones. So the search starts some frames
    earlier, with costs of zero, and in most cases has the right costs when it reaches the part.

    Attributes:
        searched_in: ``(frames, lags)``: correlation of the utterance, with ballast.
        lattice: of the utterance.
        begin, end: frames of the part.
        searched: the next frame.
        entered: costs with which the search entered; None for the first part.
        left: costs with which it left; None until then.
    """

    searched_in: Floats
    lattice: Lattice
    begin: int
    end: int
    searched: int
    entered: Floats | None = None
    left: Floats | None = None

    @property
    def stop(self) -> int:
        """Frame at which costs are stored next."""
        return self.begin if self.searched < self.begin else self.end

    def record(self, predecessors: States, best: States, costs: Floats) -> None:
        """Store the results for the next frames, and the costs at the last one."""
        frames = slice(self.searched, self.searched + len(best))
        if self.searched >= self.begin:
            self.lattice.predecessors[frames] = predecessors
            self.lattice.best[frames] = best
        self.searched = frames.stop
        if self.searched == self.begin:
            self.entered = costs.copy()
        elif self.searched == self.end:
            self.left = costs.copy()


def track_pitches(
    utterances: Iterable[tuple[Key, npt.NDArray[Any]]], options: PitchOptions
) -> Iterator[tuple[Key, Floats]]:
    """Apply :func:`track_pitch` to many utterances, in order: keys and samples give keys and features.

    Searching many at a time costs little more than searching one: when one is finished, another one takes its place,
    and long ones are searched in parts. The number of waiting utterances is bounded. Utterances read before an error of
    ``utterances`` are yielded before the error is raised.
    """
    return search_pitches(((key, Analysis.of(samples, options)) for key, samples in utterances), options)


def search_pitches(analyses: Iterable[tuple[Key, Analysis]], options: PitchOptions) -> Iterator[tuple[Key, Floats]]:
    """Search the pitch of analysed utterances: the second half of :func:`track_pitches`."""
    entries = _entries(analyses, options)
    constants = PitchConstants.of(options)
    search = Search(constants.states, constants.step, _ROWS)
    costs = np.zeros((0, search.states), np.float32)
    rows: list[_Part] = []
    next_rows: deque[_Part] = deque()
    at_work: list[_Entry[Key]] = []
    in_order: deque[_Entry[Key]] = deque()
    waiting = 0
    more, failure = True, None
    while more or rows:
        while more and len(rows) + len(next_rows) < _ROWS and _has_capacity(at_work, waiting):
            try:
                entry = next(entries)
            except StopIteration:
                more = False
            except Exception as error:
                more, failure = False, error
            else:
                in_order.append(entry)
                waiting += entry.frames
                if entry.features is None:
                    at_work.append(entry)
                    next_rows += entry.parts
        while next_rows and len(rows) < _ROWS:
            rows.append(next_rows.popleft())
        if rows:
            costs = np.concatenate((costs, np.zeros((len(rows) - len(costs), search.states), np.float32)))
            costs = _search_block(rows, search, costs, constants)
            going_on = np.array([part.left is None for part in rows])
            rows, costs = [part for part in rows if part.left is None], costs[going_on]
            for entry in at_work if not going_on.all() else ():
                if entry.is_searched():
                    entry.finish(options)
            at_work = [entry for entry in at_work if entry.features is None]
        while in_order and (features := in_order[0].features) is not None:
            waiting -= len(features)
            yield in_order.popleft().key, features
    if failure is not None:
        raise failure


def _entries(analyses: Iterable[tuple[Key, Analysis]], options: PitchOptions) -> Iterator[_Entry[Key]]:
    states = PitchConstants.of(options).states
    for key, analysis in analyses:
        frames = int(analysis.schedule.frames)
        lattice = Lattice(frames, states)
        entry = _Entry(key, analysis, frames, lattice, _parts(analysis.searched, lattice))
        if frames == 0:
            entry.finish(options)
        yield entry


def _parts(searched: Floats, lattice: Lattice) -> list[_Part]:
    frames = len(searched)
    count = max(1, frames // _PART) if frames else 0
    bounds = [frames * i // count for i in range(count)] + [frames]
    return [_Part(searched, lattice, a, b, max(0, a - _LEAD)) for a, b in pairwise(bounds)]


def _has_capacity(at_work: list[_Entry[Key]], waiting: int) -> bool:
    at_once = sum(entry.frames for entry in at_work[1:])
    return at_once < _FRAMES_AT_ONCE and waiting - at_once < _FRAMES_WAITING


def _search_block(rows: list[_Part], search: Search, costs: Floats, constants: PitchConstants) -> Floats:
    """Search all rows for as many frames as all of them have, and return the costs at the last one."""
    frames = min(_BLOCK, *(part.stop - part.searched for part in rows))
    local = local_costs(
        np.stack([part.searched_in[part.searched : part.searched + frames] for part in rows], 1), constants
    )
    predecessors = np.empty((len(rows), frames, search.states), np.int16)
    best = np.empty((len(rows), frames), np.int16)
    for frame in range(frames):
        costs, predecessors[:, frame], best[:, frame] = search.step(costs, local[frame])
    for row, part in enumerate(rows):
        part.record(predecessors[row], best[row], costs[row])
    return costs


def lattice_of(searched: Floats, options: PitchOptions) -> Lattice:
    """Search one whole utterance: ``(frames, lags)`` correlation with ballast."""
    states = PitchConstants.of(options).states
    lattice = Lattice(len(searched), states)
    _search_on(lattice, searched, np.zeros(states, np.float32), 0, len(searched), options)
    return lattice


def _search_on(
    lattice: Lattice, searched: Floats, costs: Floats, begin: int, end: int, options: PitchOptions
) -> Floats:
    """Search some frames of an utterance; return the costs at the last one: ``(states,)``."""
    constants = PitchConstants.of(options)
    search = Search(constants.states, constants.step, 1)
    row = costs[None]
    for frame, local in enumerate(local_costs(searched[begin:end], constants), begin):
        row, predecessors, best = search.step(row, local[None])
        lattice.predecessors[frame], lattice.best[frame] = predecessors[0], best[0]
    after: Floats = row[0]
    return after
