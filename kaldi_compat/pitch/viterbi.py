"""The cheapest path through the lags: the search of the pitch tracker, for one frame in NumPy, and its results.

A path costs its local costs, plus ``step * (i - j)**2`` for each step from state ``j`` to state ``i``
(src/feat/pitch-functions.cc, PitchFrameInfo::ComputeBacktraces).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Lattice", "States", "find_predecessors", "predecessors_by_bounds"]

Floats = npt.NDArray[np.float32]
States = npt.NDArray[np.int16]

_MAX_STATES = 4096  # squares of steps are exact in float32


def find_predecessors(costs: Floats, steps: Floats) -> tuple[npt.NDArray[Any], Floats]:
    """Find the best predecessor of each state, and the cost by way of it.

    Args:
        costs: (states,): costs of the paths to the frame before.
        steps: (states,): cost of a step over so many states.
    """
    states = len(costs)
    place = np.arange(states)
    table = steps[abs(place[:, None] - place)] + costs
    best = table.argmin(1)
    lowest: Floats = table[place, best]
    # Where one of two predecessors j < k becomes the cheaper one, the difference of their costs changes by
    # 2 * step * (k - j) per state. If that is more than the rounding errors, predecessors grow with the states, and
    # Kaldi finds the cheapest ones, too, unless several cost the same.
    step, highest = steps[1:2].sum(), costs.max() + np.float32(states**2) * steps[1:2].sum()
    if states <= _MAX_STATES and 2 * step > 2**-22 * highest and np.count_nonzero(table == lowest[:, None]) == states:
        return best, lowest
    found = predecessors_by_bounds(table)
    return found, table[place, found]


def predecessors_by_bounds(table: Floats) -> npt.NDArray[Any]:
    """Find the best predecessor of each state in Kaldi's order of comparisons.

    Kaldi narrows bounds on the predecessors, alternately from above and from below, each time up to the first local
    minimum that is an improvement. The order decides between predecessors whose costs are the same in float32.

    Args:
        table: (states, states): cost of each state by way of each other one.
    """
    states, by_way = len(table), np.ascontiguousarray(table).data
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
    return np.array(best)


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
