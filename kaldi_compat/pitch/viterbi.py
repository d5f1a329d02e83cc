"""The cheapest path through the lags: the search of the pitch tracker.

A path costs its local costs, plus ``factor * (i - j)**2`` for each step from state ``j`` to state ``i``. Kaldi
(src/feat/pitch-functions.cc, PitchFrameInfo::ComputeBacktraces) narrows bounds on each state's best predecessor until
they meet; here the states of all utterances are searched at once. Both find the exact minimum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Lattice", "PredecessorSearch", "Search", "States", "free_predecessor"]

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
States = npt.NDArray[np.int16]

# Distances at which points are compared, besides their neighbours, to discard those that are nobody's predecessor. They
# only affect the speed: the remaining points are compared with their neighbours until none is discarded.
_FAR = (1, 4, 16, 64)
_NEAR = (2, 4, 8, 16)
_AROUND = (2, 4, 8)
_WIDENED = (1, 2, 4, 8)  # neighbourhoods of discarded points, in which more points may be discarded

# A frame's costs differ by at most 2 (a correlation lies in -1 to 1) more than the longest step costs; this is more.
_MORE_THAN_COSTS = 16.0
_INFINITY = np.float32(1e37)
# Predecessors are searched with at least this cost of a step: a path of cheaper steps costs nothing in float32.
_LEAST_FACTOR = 1e-26


class PredecessorSearch:
    """The best predecessor of every state, for a batch of utterances at one step.

    The minimum over ``j`` of ``cost[j] + factor * (i - j)**2`` is where ``height[j] - i * j`` is least, with
    ``height[j] = cost[j] / (2 factor) + j**2 / 2``. That is a vertex of the lower convex hull of the points ``(j,
    height[j])``: the one at which the hull's slope passes ``i`` (Felzenszwalb & Huttenlocher, "Distance transforms of
    sampled functions", 2012). So an edge of the hull with slope ``s`` says that the states up to ``s`` come from its
    left end or before, and those after ``s`` from its right end or later. States are whole numbers: a point whose two
    edges have no whole number between them is nobody's predecessor and is discarded.

    The utterances are placed on one line, so far apart that no path could gain by going from one to another. One hull
    then covers them all.

    Args:
        states: number of states of an utterance.
        factor: the cost of a step of one state, positive; of ``n`` states it is ``n**2`` times that.
        utterances: how many are searched at once, at most.
    """

    def __init__(self, states: int, factor: float, utterances: int) -> None:
        self.states = states
        self.scale = 0.5 / factor
        self.far = [k for k in _FAR if k < states]
        width = states + max(self.far, default=0)  # points at infinity part the utterances from each other
        row, column = np.divmod(np.arange(utterances * width), width)
        self.gap = float(states + math.ceil(math.sqrt(states**2 + _MORE_THAN_COSTS / factor)))
        self.place = row * self.gap + column
        self.parabola = 0.5 * self.place**2
        self.index = row * states + column
        # A state lies in 0 to states - 1 whatever the slopes are; and nothing comes from a point at infinity.
        self.at_least = np.where(column < states, -1.0 - column, np.inf).astype(np.float32)
        self.at_most = np.where(column < states, states - 1.0 - column, -np.inf).astype(np.float32)
        self.scaled = np.full((utterances, width), _INFINITY)
        self.before, self.after, self.rise = (np.empty(utterances * width, np.float32) for _ in range(3))

    def __call__(self, costs: Floats) -> Indices:
        """Find the best predecessor of each state; the earlier one of two equally good ones.

        Args:
            costs: ``(utterances, states)``.

        Returns:
            ``(utterances * states,)`` indices into the flat ``costs``.
        """
        points = self._sieved_points(costs)
        place = self.place.take(points)
        height = costs.ravel().take(self.index.take(points)).astype(np.float64)
        height *= self.scale
        height += self.parabola.take(points)
        slopes, kept = _sieve(place, height, _NEAR)
        while len(kept) < len(points):
            points, place, height = points.take(kept), place.take(kept), height.take(kept)
            slopes, kept = _sieve(place, height, ())
            if len(kept) < len(points):
                kept = _sieved_around(kept, place, height)
        # The first state after each edge's slope: its place becomes an index into the flat costs. Between utterances
        # the slopes lie in the gap; before the first and after the last of them they may lie anywhere.
        cut = np.floor(slopes, out=slopes)
        row = np.floor(cut / self.gap)
        cut -= row * self.gap - 1.0
        np.minimum(cut, self.states, out=cut)
        cut += row * self.states
        np.clip(cut, 0, costs.size, out=cut)
        bounds = np.empty(len(points) + 1, np.int64)
        bounds[0], bounds[1:-1], bounds[-1] = 0, cut, costs.size
        return np.repeat(self.index.take(points), bounds[1:] - bounds[:-1])

    def _sieved_points(self, costs: Floats) -> Indices:
        """Return points that may be predecessors, compared with others at a few distances.

        In single precision: slopes are measured from each point's own place, which keeps them small, and a margin
        keeps all points that rounding leaves in doubt.
        """
        utterances, states = costs.shape
        np.multiply(costs, np.float32(self.scale), out=self.scaled[:utterances, :states])
        scaled = self.scaled[:utterances].ravel()
        before, after, rise = (each[: len(scaled)] for each in (self.before, self.after, self.rise))
        np.copyto(before, self.at_least[: len(scaled)])
        np.copyto(after, self.at_most[: len(scaled)])
        for k in self.far:
            slope = np.subtract(scaled[k:], scaled[:-k], out=rise[k:])
            if k > 1:
                slope *= np.float32(1 / k)
            slope += np.float32(k / 2)  # the parabola's rise, seen from its start
            np.minimum(after[:-k], slope, out=after[:-k])
            slope -= np.float32(k)  # and from its end
            np.maximum(before[k:], slope, out=before[k:])
        margin = np.float32(2**-21 * float(costs.max()) * self.scale + 2**-20 * states)
        before -= margin
        after += margin
        return _with_whole_number_between(before, after)


def _with_whole_number_between(low: npt.NDArray[Any], high: npt.NDArray[Any]) -> Indices:
    """Return indices where a whole number n satisfies ``low < n <= high``; modifies ``high`` in place."""
    return np.flatnonzero(low < np.floor(high, out=high))


def _sieve(place: Doubles, height: Doubles, distances: Sequence[int]) -> tuple[Doubles, Indices]:
    """Return the slopes from each point to the next, and the points with a whole number between their two slopes.

    Points are compared with their neighbours and with points at the given distances.
    """
    slopes = height[1:] - height[:-1]
    slopes /= place[1:] - place[:-1]
    before, after = np.empty_like(height), np.empty_like(height)
    before[0], after[-1] = -np.inf, np.inf
    before[1:] = after[:-1] = slopes
    for k in distances:
        far_slopes = height[k:] - height[:-k]
        far_slopes /= place[k:] - place[:-k]
        np.maximum(before[k:], far_slopes, out=before[k:])
        np.minimum(after[:-k], far_slopes, out=after[:-k])
    return slopes, _with_whole_number_between(before, after)


def _sieved_around(kept: Indices, place: Doubles, height: Doubles) -> Indices:
    """Return the points left after comparing only those near discarded ones, which are discarded one by one."""
    fallen = np.ones(len(place), bool)
    fallen[kept] = False
    for k in _WIDENED:
        fallen[k:] |= fallen[:-k]
        fallen[:-k] |= fallen[k:]
    around = left = np.flatnonzero(fallen)
    while True:
        _, kept = _sieve(place.take(left), height.take(left), _AROUND)
        if len(kept) == len(left):
            break
        left = left.take(kept)
    stays = np.ones(len(place), bool)
    stays[around] = False
    stays[left] = True
    return np.flatnonzero(stays)


def find_predecessors(costs: Floats, steps: Floats) -> tuple[list[int], Floats]:
    """Find the best predecessor of each state, and the cost by way of it, in Kaldi's order of comparisons.

    That narrows bounds on the predecessors, alternately from above and from below, each time up to the first local
    minimum that is an improvement. The order decides between predecessors whose costs are the same in float32.

    Args:
        costs: (states,): costs of the paths to the frame before.
        steps: (states,): cost of a step over so many states.
    """
    states = len(costs)
    place = np.arange(states)
    table = steps[abs(place[:, None] - place)] + costs
    by_way = memoryview(table)
    best, lower, upper, last = [0] * states, [0] * states, [states - 1] * states, 0
    for i in range(states):
        lowest = by_way[i, last]
        for j in range(last + 1, states):
            cost = by_way[i, j]
            if not cost < lowest:
                break
            lowest, last = cost, j
        best[i] = lower[i] = last
    changed, from_above = True, True
    while changed:
        changed = False
        last = states - 1 if from_above else 0
        for i in reversed(range(states)) if from_above else range(states):
            if from_above:
                bound, far = lower[i], min(last, upper[i])
                candidates = range(far, bound + 1, -1)
            else:
                bound, far = upper[i], max(last, lower[i])
                candidates = range(far, bound - 1)
            last = best[i]
            if bound == far:
                last = bound
            elif best[i] != far:
                last, lowest = best[i], by_way[i, best[i]]
                for j in candidates:
                    cost = by_way[i, j]
                    if cost < lowest:
                        last, lowest = j, cost
                    elif last > j if from_above else last < j:
                        break
                (upper if from_above else lower)[i] = last
                changed |= last != best[i]
                best[i] = last
        from_above = not from_above
    return best, table[place, best]


def free_predecessor(costs: list[float]) -> int:
    """Return the predecessor of all states where steps cost nothing: the state that Kaldi's search ends at.

    It has the lowest cost. Of several with that cost, the order decides in which Kaldi narrows its bounds on the
    predecessor: alternately from above and from below, each time up to the first local minimum that is an improvement.

    >>> free_predecessor([3.0, 1.0, 2.0, 1.0, 0.0, 0.0])
    5
    """
    best, upper = 0, len(costs) - 1
    while best < upper and costs[best + 1] < costs[best]:
        best += 1
    lower = best
    while upper > lower:
        before = best
        if best != upper:
            best = _first_minimum(costs, best, range(upper, lower + 1, -1))
            upper = best
        elif best != lower:
            best = _first_minimum(costs, best, range(lower, upper - 1))
            lower = best
        if best == before:
            break
    return best


def _first_minimum(costs: list[float], best: int, states: range) -> int:
    """Return the first local minimum in this order that costs less than ``best``; else ``best``."""
    lowest, improved = costs[best], False
    for state in states:
        if costs[state] < lowest:
            best, lowest, improved = state, costs[state], True
        elif improved:
            break
    return best


class Search:
    """Advances the costs of the cheapest paths of a batch of utterances from frame to frame.

    Args:
        states: number of states.
        factor: the cost of a step of one state; of ``n`` states it is ``n**2`` times that.
        utterances: how many are searched at once, at most.
    """

    def __init__(self, states: int, factor: float, utterances: int) -> None:
        self.states = states
        self.factor = factor
        self._predecessors = PredecessorSearch(states, max(factor, _LEAST_FACTOR), utterances) if factor > 0 else None
        self._flat = np.arange(utterances * states)
        self._state = np.tile(np.arange(states, dtype=np.int16), utterances)

    def step(self, costs: Floats, local: Floats) -> tuple[Floats, States, States]:
        """Advance by one frame.

        Args:
            costs: ``(utterances, states)``: the cheapest path to each state of the frame before; zeros before the first
                frame.
            local: ``(utterances, states)``: local costs of this frame.

        Returns:
            costs: the same for this frame, minus each utterance's lowest, which keeps float32 precise (as in Kaldi).
            predecessors: ``(utterances, states)``: the state before on each of these paths.
            best: ``(utterances,)``: the state that the cheapest path of all leads to.
        """
        if self._predecessors is None:  # steps cost nothing: all states have the same best predecessor
            best = np.array([free_predecessor(row.tolist()) for row in costs])
            source = np.repeat(best + self._flat[: costs.size : self.states], self.states)
        else:
            source = self._predecessors(costs)
        moved = source - self._flat[: costs.size]
        # In Kaldi's order of float operations: the squared number of states, times the factor, plus the cost.
        total = moved.astype(np.float32)
        total *= total
        total *= np.float32(self.factor)
        total += costs.ravel().take(source)
        total = total.reshape(costs.shape)
        total += local
        best = total.argmin(1)
        total -= total[np.arange(len(best)), best][:, None]
        back = moved.astype(np.int16)
        back += self._state[: costs.size]
        return total, back.reshape(costs.shape), best.astype(np.int16)


class Lattice:
    """Result of the search for an utterance.

    Attributes:
        predecessors: ``(frames, states)``: the state before on the cheapest path to each state.
        best: ``(frames,)``: the state that the cheapest path up to each frame ends in.
    """

    def __init__(self, frames: int, states: int) -> None:
        self.predecessors: States = np.empty((frames, states), np.int16)
        self.best: States = np.empty(frames, np.int16)

    def path(self) -> States:
        """Return the states of the cheapest path: ``(frames,)``."""
        path = np.full(len(self.best), -1, np.int16)
        self.retrace(path, len(path))
        return path

    def retrace(self, path: States, end: int) -> None:
        """Write the cheapest path of the first ``end`` frames into ``path``, back to where the two agree."""
        state = int(self.best[end - 1]) if end else 0
        for frame in range(end - 1, -1, -1):
            if path[frame] == state:
                return
            path[frame] = state
            state = int(self.predecessors[frame, state])

    def latency(self, end: int, maximum: int) -> int:
        """Return the number of frames before ``end`` on which paths to different states differ, at most ``maximum``."""
        lowest, highest = 0, self.predecessors.shape[1] - 1
        for latency in range(min(maximum, end)):
            before = self.predecessors[end - 1 - latency]
            lowest, highest = int(before[lowest]), int(before[highest])
            if lowest == highest:
                return latency
        return min(maximum, end)
