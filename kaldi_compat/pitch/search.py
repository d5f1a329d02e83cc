"""The search of the pitch tracker, with the bits of Kaldi's programs, in C if the library was built, else in NumPy.

Frames are correlated with themselves at whole lags, the correlations are interpolated to the lags of the states, and
the cheapest path through the states is searched (src/feat/pitch-functions.cc). A path costs its local costs, plus
``step * (i - j)**2`` for each step from state ``j`` to state ``i``. Sums have the order of OpenBLAS's SkylakeX kernels
(:mod:`kaldi_compat.exact.sums`).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kaldi_compat import native
from kaldi_compat.errors import AudioError
from kaldi_compat.exact import sums
from kaldi_compat.exact.arrays import Floats
from kaldi_compat.exact.libm import half_powf
from kaldi_compat.pitch.constants import PitchConstants
from kaldi_compat.pitch.frames import F32, Groups, PitchFrames

States = npt.NDArray[np.int16]

_BLOCK = 32  # Number of frames that NumPy correlates at once. The limit bounds its memory.


class Lattice(NamedTuple):
    """Result of the search for the cheapest paths through frames."""

    predecessors: States  # (frames, states): previous state on the cheapest path to each state.
    best: States  # (frames,): last state of the cheapest path up to each frame.
    correlation: Floats  # (frames, lags): correlations of the audio, without ballast.
    groups: Groups  # (frames,): group of each frame, see :func:`~kaldi_compat.pitch.frames.group_rows`.
    path: States  # (frames,): states of the best path, or -1 for frames through which no path has been traced.
    nccf: Floats  # (frames,): correlation of each frame at the lag of its state in ``path``. Undefined without a state.

    def slice_frames(self, begin: int, end: int) -> Lattice:
        """Return a view of the frames ``begin`` to ``end - 1``."""
        slices: list[Any] = [array[begin:end] for array in self]
        return Lattice(*slices)

    @classmethod
    def allocate(cls, constants: PitchConstants, count: int) -> Lattice:
        """Return a lattice of ``count`` frames with uninitialized memory."""
        best, path = np.empty((2, count), np.int16)
        return cls(
            predecessors=np.empty((count, constants.states), np.int16),
            best=best,
            correlation=np.empty((count, constants.lags), F32),
            groups=np.empty(count, np.uint8),
            path=path,
            nccf=np.empty(count, F32),
        )


def _search_in_c(
    constants: PitchConstants,
    frames: PitchFrames,
    begin: int,
    end: int,
    costs: Floats,
    lattice: Lattice,
    ends: Sequence[int],
) -> None:
    """Search for the cheapest paths in C: see :func:`search_paths`. Raise MemoryError if memory is exhausted."""
    arguments = constants.c_arguments, frames.c_arguments, begin, end, costs, *lattice, len(lattice.best)
    status = native.get_function("pitch_search")(*arguments, np.array(ends, np.int64), len(ends))
    if status == 1:  # Status 1 means that memory is exhausted; 2, that correlations overflow.
        raise MemoryError(
            "cannot allocate memory for a block of frames: close other programs, or use a machine with more memory"
        )
    if status:
        raise make_overflow_error()


def make_overflow_error() -> AudioError:
    """Return the error for audio whose correlations overflow because it is too loud."""
    return AudioError("the audio is so loud that the correlation of the pitch tracker overflows: scale the audio down")


@native.twin(_search_in_c, much_faster=True)
def search_paths(
    constants: PitchConstants,
    frames: PitchFrames,
    begin: int,
    end: int,
    costs: Floats,
    lattice: Lattice,
    ends: Sequence[int],
) -> None:
    """Search for the cheapest paths through the rows ``begin`` to ``end - 1``, and trace the best paths.

    Args:
        constants: the tracker's numbers and tables.
        frames: frames of one or several utterances.
        begin, end: first row to search, and the row after the last row.
        costs: costs (states,) of the cheapest path to each state of the frame before row ``begin``, or zeros at the
            start of an utterance. The costs at the last row replace them.
        lattice: receives the result in its last ``end - begin`` frames. It starts with frames of earlier searches.
        ends: index in ``lattice`` after the last frame of each utterance whose best path is traced. The first
            utterance starts at frame 0, and each other utterance starts where the previous one ends.

    Raises:
        AudioError: correlations overflow.
    """
    num_earlier = len(lattice.best) - (end - begin)
    _search_rows(constants, frames, slice(begin, end), costs, lattice.slice_frames(num_earlier, len(lattice.best)))
    trace_paths(constants, lattice, ends)


def _search_rows(constants: PitchConstants, frames: PitchFrames, rows: slice, costs: Floats, lattice: Lattice) -> None:
    """Find the cheapest paths through ``rows``. Store them in ``lattice`` without tracing them, and update ``costs``.

    ``lattice`` has the frames of ``rows`` only. For the other arguments and the errors, see :func:`search_paths`.
    """
    lattice.groups[:], lattice.path[:] = frames.groups[rows], -1
    with_ballast, lattice.correlation[:], mean_products = correlate_frames(constants, frames, rows)
    if not (np.isfinite(with_ballast).all() and np.isfinite(lattice.correlation).all()):
        raise make_overflow_error()
    scale = _compute_scale(frames, rows, mean_products)
    local_costs = compute_local_costs(constants, with_ballast, scale, frames.groups[rows])
    distance_costs = np.arange(constants.states, dtype=F32) ** 2 * F32(constants.step)
    state_indices = np.arange(constants.states)
    step_costs = distance_costs[abs(state_indices[:, None] - state_indices)]
    starts = set(frames.rows[frames.rows > rows.start].tolist())
    for frame, local_cost in enumerate(local_costs):
        if rows.start + frame in starts:
            costs[:] = 0
        path_costs = step_costs + costs
        predecessors = find_predecessors(path_costs)
        lattice.predecessors[frame] = predecessors
        costs[:] = path_costs[state_indices, predecessors] + local_cost
        best = lattice.best[frame] = costs.argmin()
        costs -= costs[best]


def correlate_frames(constants: PitchConstants, frames: PitchFrames, rows: slice) -> tuple[Floats, Floats, Floats]:
    """Compute normalized correlations of the frames ``rows`` at whole lags (Kaldi: ComputeCorrelation, ComputeNccf).

    Returns:
        with_ballast, correlation: correlations (frames, lags) with ballast, and without ballast.
        mean_products: means (frames,), over the lags, of the product of the energies of the two correlated windows.
    """
    size, count = constants.window, rows.stop - rows.start
    with_ballast, correlation = (np.empty((count, constants.lags), F32) for _ in range(2))
    mean_products = np.empty(count, F32)
    with np.errstate(over="ignore", invalid="ignore"):
        for begin in range(0, count, _BLOCK):
            block = slice(begin, min(begin + _BLOCK, count))
            windows = _gather_windows(constants, frames, rows.start + block.start, rows.start + block.stop)
            windows += (-sums.compute_plain_sum(windows[:, :size]) / F32(size))[:, None]
            base = windows[:, None, :size]
            later = np.lib.stride_tricks.sliding_window_view(windows, size, 1)[:, constants.first_lag :]
            inner = sums.dot(later, base)
            norm = sums.dot(base, base) * sums.dot(later, later)
            mean_products[block] = sums.compute_plain_sum(norm) / F32(constants.lags)
            with_ballast[block] = _normalize_correlation(inner, norm, frames.ballast[rows][block, None])
            correlation[block] = _normalize_correlation(inner, norm, F32(0))
    return with_ballast, correlation, mean_products


def _gather_windows(constants: PitchConstants, frames: PitchFrames, begin: int, end: int) -> Floats:
    """Return the samples (rows, span) of the rows ``begin`` to ``end - 1``. They are zero outside the audio."""
    rows = np.arange(begin, end)
    utterance = np.searchsorted(frames.rows, rows, side="right") - 1
    start = frames.first + (rows - frames.rows[utterance]) * frames.shift
    position = start[:, None] + np.arange(constants.span)
    is_inside = (position >= 0) & (position < frames.lengths[utterance, None])
    index = np.where(is_inside, frames.starts[utterance, None] + position, 0)
    return np.where(is_inside, frames.signal[index], F32(0))


def _normalize_correlation(inner: Floats, norm: Floats, ballast: Floats | np.float32) -> Floats:
    """Return correlations (frames, lags): ``inner / sqrt(norm + ballast)``, or 0 for silence, where the root is 0."""
    root = np.sqrt(norm + ballast)
    is_silent = root == 0
    result: Floats = np.where(is_silent, F32(0), inner / np.where(is_silent, F32(1), root))
    return result


def _compute_scale(frames: PitchFrames, rows: slice, mean_products: Floats) -> Floats:
    """Return the factors (frames,) that scale the correlations of the frames ``rows`` to the revised ballast.

    The factor of a frame whose ballast was not revised is 1. For ``mean_products``, see :func:`correlate_frames`.
    """
    if frames.revised is None:
        return np.ones(len(mean_products), F32)
    revised_from, revised_to = (ballast[rows] for ballast in frames.revised)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        ratio = (revised_from + mean_products) / (revised_to + mean_products)
    # The energy of extremely loud audio overflows, so that the ratio is NaN or infinite. Such a frame is not scaled.
    is_usable = np.isfinite(ratio) & (ratio >= 0)
    # Kaldi calls pow(float, float), which C++ resolves to powf().
    return np.where(is_usable, half_powf(np.where(is_usable, ratio, F32(1))), F32(1))


def compute_local_costs(constants: PitchConstants, with_ballast: Floats, scale: Floats, groups: Groups) -> Floats:
    """Compute the costs (frames, states) of the states in each frame (equation 5 of Ghahremani et al., ICASSP 2014).

    Args:
        constants: the tracker's numbers and tables.
        with_ballast: correlations (frames, lags) with ballast at whole lags.
        scale: factors (frames,) on the correlations of the frames.
        groups: groups (frames,) of the frames: see :func:`~kaldi_compat.pitch.frames.group_rows`.
    """
    correlations = np.empty((len(with_ballast), constants.states), F32)
    for group in np.unique(groups).tolist():
        is_in_group = groups == group
        for state in range(constants.states):
            weights, first = constants.get_state_weights(state), constants.first[state]
            correlations[is_in_group, state] = sums.multiply_row(
                weights, with_ballast[is_in_group, first : first + len(weights)], group
            )
    correlations *= scale[:, None]
    costs: Floats = (F32(1) - correlations) + F32(constants.soft_min_f0) * (constants.seconds * correlations)
    return costs


def find_predecessors(path_costs: Floats) -> States:
    """Find the best predecessor of each state in Kaldi's order of comparisons (PitchFrameInfo::ComputeBacktraces).

    Kaldi narrows bounds on the predecessors, alternately from above and from below, each time up to the first local
    minimum that is an improvement. The order decides between predecessors whose costs are equal in float32.

    Args:
        path_costs: costs (states, states) of each state (row) when it follows each previous state (column).

    Returns:
        Indices (states,) of the predecessors.
    """
    costs, highest, is_reversed = path_costs, len(path_costs) - 1, False
    lower = _find_first_minima(path_costs)
    best, upper = lower.copy(), [highest] * len(lower)
    has_changed = True
    while has_changed:
        # Reversing the states in each round makes _narrow_bounds work from above and from below in turn.
        costs, is_reversed = costs[::-1, ::-1], not is_reversed
        best, lower, upper = ([highest - state for state in reversed(states)] for states in (best, upper, lower))
        has_changed = _narrow_bounds(np.ascontiguousarray(costs).data, best, lower, upper)
    return np.array([highest - state for state in reversed(best)] if is_reversed else best, np.int16)


def _find_first_minima(costs: Floats) -> list[int]:
    """Return the index of the first local minimum in each row of ``costs`` (states, states).

    The search in a row starts at the minimum of the previous row.
    """
    minima, index = [], 0
    for row in costs.tolist():
        while index + 1 < len(row) and row[index + 1] < row[index]:
            index += 1
        minima.append(index)
    return minima


def _narrow_bounds(costs: memoryview, best: list[int], lower: list[int], upper: list[int]) -> bool:
    """Improve the best predecessors of the states in place, and return True if one has changed.

    The search in row ``i`` of ``costs`` (states, states) goes up from ``lower[i]`` or from the previous state's
    predecessor, whichever is higher. It ends at the first local minimum that costs less than ``best[i]``, at the first
    predecessor above ``best[i]`` that costs more, or before ``upper[i] - 1``. Then it updates ``best`` and ``lower``.
    """
    has_changed, previous = False, 0  # ``previous`` is the predecessor of the previous state.
    for i in range(len(best)):
        first, cheapest = max(previous, lower[i]), best[i]
        if first in (upper[i], cheapest):  # No predecessor is left, or the search would begin at the best predecessor.
            previous = first
            continue
        for j in range(first, upper[i] - 1):
            if costs[i, j] < costs[i, cheapest]:
                cheapest = j
            elif cheapest < j:
                break
        has_changed |= cheapest != best[i]
        best[i] = lower[i] = previous = cheapest
    return has_changed


def trace_paths(constants: PitchConstants, lattice: Lattice, ends: Sequence[int]) -> None:
    """Trace the best path of each utterance back from its end, until it meets a path that was traced before.

    The states of the path and their correlations are written to ``path`` and ``nccf`` of ``lattice``. For ``ends``, see
    :func:`search_paths`.
    """
    for start, end in itertools.pairwise((0, *ends)):
        state = int(lattice.best[end - 1]) if end > start else 0
        for frame in range(end - 1, start - 1, -1):
            if lattice.path[frame] == state:
                break
            weights, first = constants.get_state_weights(state), constants.first[state]
            correlations = lattice.correlation[frame, first : first + len(weights)]
            lattice.path[frame] = state
            lattice.nccf[frame] = sums.multiply_row(weights, correlations, int(lattice.groups[frame]))
            state = int(lattice.predecessors[frame, state])


def count_undecided_frames(predecessors: States, max_frames: int) -> int:
    """Return the number of undecided frames before the last frame, which is always undecided (Kaldi: ComputeLatency).

    A frame is undecided if the cheapest paths to the states of the last frame pass through different states of the
    frame. Paths do not cross, so only the paths to the lowest and to the highest state are followed.

    Args:
        predecessors: previous states (frames, states) on the cheapest path to each state.
        max_frames: upper bound of the result.
    """
    lowest, highest, view = 0, predecessors.shape[1] - 1, predecessors.data  # A memoryview is fast to index.
    for count in range(max_frames):
        row = len(predecessors) - 1 - count
        lowest, highest = view[row, lowest], view[row, highest]
        if lowest == highest:
            return count
    return max_frames
