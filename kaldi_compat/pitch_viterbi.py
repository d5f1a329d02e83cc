"""The cheapest path through the lags: the search of the pitch tracker.

A path costs its local costs, plus ``factor * (i - j)**2`` for each step from state ``j`` to state ``i``. Kaldi
(src/feat/pitch-functions.cc, PitchFrameInfo::ComputeBacktraces) narrows bounds on each state's best predecessor until
they meet; here the states of all utterances are searched at once. Both find the exact minimum.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat.arrays import Array

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Backpointers = npt.NDArray[np.int16]

# Distances at which points are compared before the hull is taken: all that matters is how much they leave for later.
_FAR = (1, 2, 4, 8, 16, 32, 64, 128)
_NEAR = (1, 2, 3, 4, 6, 8)


class PredecessorSearch:
    """The best predecessor of every state, for a batch of utterances at one step.

    ``min over j of cost[j] + f (i - j)^2`` equals ``f i^2 + min over j of (cost[j] + f j^2) - 2 f i j``: the state
    ``j`` that the minimum is at is the vertex of the lower convex hull of the points ``(j, cost[j] + f j^2)`` at which
    the hull's slope passes ``2 f i`` (Felzenszwalb & Huttenlocher, "Distance transforms of sampled functions", 2012).
    So there is nothing to compare state by state once the hull is known: its edges' slopes cut the states into runs.

    The utterances lie on one line, far enough apart that no path could gain by going from one to another: one hull
    serves them all.

    Parameters
    ----------
    states
        Number of states of an utterance.
    factor
        The cost of a step of one state; of ``n`` states it is ``n^2`` times that.
    batch
        The largest number of utterances at once.
    """

    # Costs of one frame differ by at most 2 (a correlation lies in -1 to 1) and what a step may cost: far less than
    # this.
    _APART = 16.0

    def __init__(self, states: int, factor: float, batch: int) -> None:
        self.states = states
        self.factor = factor
        gap = states + math.ceil(math.sqrt(self._APART / factor))
        self.place = (np.arange(batch)[:, None] * float(gap) + np.arange(states)).ravel()
        self.parabola = factor * self.place**2
        self.row_start = np.repeat(np.arange(batch) * float(states), states)
        self.from_place = self.row_start - np.repeat(np.arange(batch) * float(gap), states)
        self.far = [(k, 1.0 / (self.place[k:] - self.place[:-k])) for k in _FAR if k < len(self.place)]

    def __call__(self, costs: Floats) -> Indices:
        """For each state, where in ``costs`` its best predecessor is; the earlier one of two as good.

        Parameters
        ----------
        costs
            ``(utterances, states)``.

        Returns
        -------
        ``(utterances * states,)`` indices into the flat ``costs``.
        """
        count = costs.size
        points = costs.ravel() + self.parabola[:count]
        vertices, slopes = self._hull(points)
        # The first place from which on the right end of an edge is better than its left end, as a flat index in its row
        cut = np.floor(slopes / (2.0 * self.factor)) + 1.0
        right = vertices[1:]
        cut += self.from_place.take(right)
        np.maximum(cut, self.row_start.take(right), out=cut)
        np.minimum(cut, self.row_start.take(vertices[:-1]) + self.states, out=cut)
        runs = np.diff(cut.astype(np.int64), prepend=0, append=count)
        return np.repeat(vertices, runs)

    def _hull(self, points: Doubles) -> tuple[Indices, Doubles]:
        """Vertices of the lower hull (flat indices), and the slopes of the edges between them."""
        vertices = np.flatnonzero(_below_chords(points, self._far_slopes(points)))
        place, height = self.place.take(vertices), points.take(vertices)
        near = ((k, (height[k:] - height[:-k]) / (place[k:] - place[:-k])) for k in _NEAR if k < len(vertices))
        below = _below_chords(height, near)
        while True:
            kept = np.flatnonzero(below)
            if len(kept) < len(vertices):
                vertices, place, height = vertices.take(kept), place.take(kept), height.take(kept)
            slopes = np.diff(height) / np.diff(place)
            below = np.ones(len(vertices), bool)
            np.less(slopes[:-1], slopes[1:], out=below[1:-1])
            if below.all():
                return vertices, slopes

    def _far_slopes(self, points: Doubles) -> Iterator[tuple[int, Doubles]]:
        for k, inverse in self.far:
            slope = points[k:] - points[:-k]
            if len(slope):
                slope *= inverse[: len(slope)]
                yield k, slope


def _below_chords(points: Doubles, slopes: Iterator[tuple[int, Doubles]]) -> npt.NDArray[np.bool_]:
    """Which points lie below every chord from an earlier to a later point: all vertices of the lower hull do.

    ``slopes`` gives, for some distances k, the slopes from each point to the one k places later.
    """
    steepest_before = np.full(len(points), -np.inf)
    flattest_after = np.full(len(points), np.inf)
    for k, slope in slopes:
        np.maximum(steepest_before[k:], slope, out=steepest_before[k:])
        np.minimum(flattest_after[:-k], slope, out=flattest_after[:-k])
    return steepest_before < flattest_after


@functools.lru_cache(maxsize=4)
def _search(states: int, factor: float, batch: int) -> PredecessorSearch:
    return PredecessorSearch(states, factor, batch)


def advance(costs: Floats, factor: float, batch: int) -> tuple[Floats, Backpointers]:
    """One step: the cost of the cheapest path to each state before its local cost, and where that path comes from.

    Parameters
    ----------
    costs
        ``(utterances, states)``: the cheapest path to each state of the frame before.
    factor
        Cost of a step of one state.
    batch
        Most utterances there will be in this search; tables are made for so many.

    Returns
    -------
    ``(utterances, states)`` float32 costs and int16 states.
    """
    states = costs.shape[1]
    if factor == 0.0:  # any step is free
        best = costs.argmin(1)
        came_from = np.broadcast_to(best[:, None], costs.shape).astype(np.int16)
        return np.repeat(costs.min(1)[:, None], states, axis=1), came_from
    source = _search(states, factor, batch)(costs)
    step = np.subtract(_flat_indices(batch, states)[: costs.size], source).astype(np.float32)
    # Kaldi's order of float operations: squared whole number, times the factor, plus the cost.
    step *= step
    step *= np.float32(factor)
    step += costs.ravel().take(source)
    back = source.reshape(costs.shape) - np.arange(0, costs.size, states)[:, None]
    return step.reshape(costs.shape), back.astype(np.int16)


@functools.lru_cache(maxsize=4)
def _flat_indices(batch: int, states: int) -> Indices:
    return np.arange(batch * states)


def normalised(costs: Floats) -> Floats:
    """Costs less the lowest of each utterance, as Kaldi keeps them, so that float32 is precise enough."""
    return costs - costs.min(-1, keepdims=True)


class Paths:
    """The search over a batch of utterances, frame by frame.

    Parameters
    ----------
    lengths
        Frames of each utterance, longest first.
    states
        Number of states.
    factor
        Cost of a step of one state.
    """

    def __init__(self, lengths: Sequence[int], states: int, factor: float) -> None:
        self.lengths = np.asarray(lengths)
        self.factor = factor
        self.costs = np.zeros((len(lengths), states), np.float32)
        self.backpointers: list[Backpointers] = []
        self.best: list[npt.NDArray[np.int16]] = []

    def active(self, frame: int) -> int:
        """Utterances that have this frame: the first so many."""
        return int(np.count_nonzero(self.lengths > frame))

    def advance(self, local: Floats) -> None:
        """Take one more frame: ``local`` are the local costs ``(utterances that go on, states)``."""
        costs, back = advance(self.costs[: len(local)], self.factor, len(self.lengths))
        costs += local
        self.best.append(costs.argmin(1).astype(np.int16))
        self.costs = normalised(costs)
        self.backpointers.append(back)

    def trace(self) -> list[npt.NDArray[np.int16]]:
        """The states of the cheapest path of each utterance: a list of ``(frames,)``."""
        found = np.zeros((len(self.lengths), len(self.best)), np.int16)
        state = np.zeros(len(self.lengths), np.int16)
        going_on = 0
        for frame in range(len(self.best) - 1, -1, -1):
            utterances = len(self.best[frame])
            state[going_on:utterances] = self.best[frame][going_on:]
            going_on = utterances
            found[:utterances, frame] = state[:utterances]
            state[:utterances] = self.backpointers[frame][np.arange(utterances), state[:utterances]]
        return [row[:length] for row, length in zip(found, self.lengths, strict=True)]


def cheapest_paths(local: Array, factor: float, lengths: Any = None) -> Any:
    """States of the cheapest paths, for tensors on any device: ``(utterances, frames, states)`` -> ``(utterances,
    frames)``.

    Every pair of states is compared, which a GPU does faster than it would find a hull.

    Parameters
    ----------
    local
        Local costs, a tensor.
    factor
        Cost of a step of one state.
    lengths
        ``(utterances,)`` frames that count; all if none. The states of later frames mean nothing.
    """
    import torch

    costs = torch.zeros_like(local[:, 0])
    utterances, frames, states = local.shape
    place = torch.arange(states, device=local.device)
    step = ((place[:, None] - place) ** 2).to(local.dtype) * factor
    back, best = [], []
    for frame in range(frames):
        cheapest, source = (costs[:, None, :] + step).min(-1)
        costs = cheapest + local[:, frame]
        lowest = costs.min(-1)
        costs = costs - lowest.values[:, None]
        back.append(source)
        best.append(lowest.indices)
    last = torch.as_tensor(frames if lengths is None else lengths, device=local.device).expand(utterances) - 1
    state = torch.zeros(utterances, dtype=torch.long, device=local.device)
    path = []
    for frame in range(frames - 1, -1, -1):
        state = torch.where(last == frame, best[frame], state)
        path.append(state)
        state = back[frame].gather(-1, state[:, None])[:, 0]
    return torch.stack(path[::-1], -1) if path else torch.zeros((utterances, 0), dtype=torch.long, device=local.device)
