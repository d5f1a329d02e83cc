"""Split alignments into phones.

Source: ``SplitToPhones`` in Kaldi's ``src/hmm/hmm-utils.cc``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from io_ark.errors import FormatError
from io_ark.models.topology import NO_PDF
from io_ark.models.transitions import TransitionModel

Indices = npt.NDArray[np.int64]
Integers = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]


class Segments(NamedTuple):
    """Phones of concatenated alignments, the result of :func:`split_to_phones`.

    Attributes:
        bounds: first frame of each phone, and then the number of frames, int64 (phones + 1,).
        phones: the phones of all alignments, int32 (phones,).
        counts: number of phones of each alignment, int64 (alignments,).
        complete: mask (alignments,) of alignments in which every phone passes from the first to the final state.
    """

    bounds: Indices
    phones: Integers
    counts: Indices
    complete: Mask

    @property
    def lengths(self) -> Indices:
        """Number of frames (phones,) of each phone."""
        return np.diff(self.bounds)

    @property
    def owners(self) -> Indices:
        """Index (phones,) of the alignment that each phone belongs to."""
        return np.repeat(np.arange(len(self.counts)), self.counts)


def is_reordered(model: TransitionModel, ids: npt.ArrayLike, bounds: npt.ArrayLike | None = None) -> Mask:
    """Detect alignments in which the self-loops of a state follow the transition to the next state.

    Kaldi's programs write such alignments by default (option ``--reorder``).

    Args:
        model: transition model of the alignments.
        ids: transition-ids (frames,) of one or more concatenated alignments.
        bounds: first frame of each alignment, and then the number of frames, (alignments + 1,). None for one alignment.

    Returns:
        Mask (alignments,) of reordered alignments. False for an alignment whose order cannot be inferred.

    Raises:
        FormatError: an integer is not a transition-id, or the first change of state next to a self-loop is between two
            self-loops, which no path through HMMs allows.

    >>> from io_ark.models import HmmState, HmmTopology, TransitionModel, is_reordered
    >>> states = (HmmState(0, 0, ((0, 0.5), (1, 0.5))), HmmState())
    >>> model = TransitionModel.of(HmmTopology.of({1: states}), [(1, 0, 0, 0)])
    >>> is_reordered(model, [2, 1, 1, 1, 1, 2], bounds=[0, 3, 6])  # Transition-id 1 is the self-loop.
    array([ True, False])
    """
    return AlignedFrames.from_ids(model, ids, bounds).reordered


class AlignedFrames(NamedTuple):
    """Frames of concatenated alignments.

    Attributes:
        ids: transition-ids (frames,).
        bounds: first frame of each alignment, and then the number of frames, (alignments + 1,).
        states: transition-states (frames,).
        loops: mask (frames,) of self-loops.
        steps: indices of the frames that are followed by a different state of the same alignment.
        reordered: mask (alignments,) of reordered alignments (:func:`is_reordered`).
    """

    ids: Indices
    bounds: Indices
    states: Integers
    loops: Mask
    steps: Indices
    reordered: Mask

    @classmethod
    def from_ids(cls, model: TransitionModel, ids: npt.ArrayLike, bounds: npt.ArrayLike | None) -> AlignedFrames:
        """Create the frames of alignments from transition-ids. For arguments and errors, see :func:`is_reordered`."""
        frame_ids = model.check_ids(ids)
        all_bounds = np.array([0, len(frame_ids)] if bounds is None else bounds, np.int64)
        states, loops = model.maps.state[frame_ids], model.maps.is_self_loop[frame_ids]
        is_step = states[1:] != states[:-1]
        inner_bounds = all_bounds[(all_bounds > 0) & (all_bounds < len(states))]
        is_step[inner_bounds - 1] = False  # A change of state between two alignments is not a step.
        steps = np.flatnonzero(is_step)
        return cls(frame_ids, all_bounds, states, loops, steps, _are_reordered(all_bounds, loops, steps))


def _are_reordered(bounds: Indices, loops: Mask, steps: Indices) -> Mask:
    """Return the mask (alignments,) of :func:`is_reordered` from arrays of :class:`AlignedFrames`.

    The first change of state next to a self-loop determines the order: the alignment is reordered if the self-loop
    precedes the change. Raise FormatError if self-loops are on both sides of this change. Without such a change, the
    alignment is reordered if its last frame is a self-loop and its first frame is not.
    """
    steps_with_loop = steps[loops[steps] | loops[steps + 1]]
    indices = np.searchsorted(steps_with_loop, bounds)  # Number of such steps before each bound.
    has_step = indices[1:] > indices[:-1]
    decisive_steps = steps_with_loop[indices[:-1][has_step]]
    if (loops[decisive_steps] & loops[decisive_steps + 1]).any():
        message = "an alignment has self-loops of two states in succession"
        raise FormatError(f"{message}: check that the model belongs to the alignments")
    reordered = np.zeros(len(bounds) - 1, bool)
    reordered[has_step] = loops[decisive_steps]
    no_step = ~has_step & (np.diff(bounds) > 0)
    reordered[no_step] = loops[bounds[1:][no_step] - 1] & ~loops[bounds[:-1][no_step]]
    return reordered


def split_to_phones(model: TransitionModel, ids: npt.ArrayLike, bounds: npt.ArrayLike | None = None) -> Segments:
    """Split alignments into phones.

    Args:
        model: transition model of the alignments.
        ids: transition-ids (frames,) of one or more concatenated alignments.
        bounds: first frame of each alignment, and then the number of frames, (alignments + 1,). None for one alignment.

    Returns:
        The phones of all alignments and their frames.

    Raises:
        FormatError: an integer is not a transition-id, a phone is followed by a self-loop of a different state, or the
            order is invalid (see :func:`is_reordered`).

    >>> from io_ark.models import HmmState, HmmTopology, TransitionModel, split_to_phones
    >>> states = (HmmState(0, 0, ((0, 0.5), (1, 0.5))), HmmState())
    >>> model = TransitionModel.of(HmmTopology.of({1: states, 2: states}), [(1, 0, 0, 0), (2, 0, 1, 1)])
    >>> segments = split_to_phones(model, [2, 1, 1, 4, 2])
    >>> segments.phones.tolist(), segments.lengths.tolist()
    ([1, 2, 1], [3, 1, 1])
    """
    return split_frames(model, AlignedFrames.from_ids(model, ids, bounds))


def split_frames(model: TransitionModel, frames: AlignedFrames) -> Segments:
    """Split alignments into phones. Raise FormatError if a phone is followed by a self-loop of a different state."""
    bounds, states, steps = frames.bounds, frames.states, frames.steps
    phone_of_state = np.append(np.int32(0), model.tuples[:, 0])  # Index 0 is unused.
    # A phone without a transition to the final state is incomplete. It ends at the next phone, or with the alignment.
    is_end = np.zeros(len(states) + 1, bool)  # is_end[i] is True if a phone ends before frame i.
    is_end[_find_final_ends(model, frames)] = True
    changes = steps[phone_of_state[states[steps]] != phone_of_state[states[steps + 1]]] + 1
    open_ends = np.concatenate((changes, bounds[1:][np.diff(bounds) > 0]))
    open_ends = open_ends[~is_end[open_ends]]
    is_end[open_ends] = True
    ends = np.flatnonzero(is_end)
    starts = np.append(0, ends)[: len(ends)]
    phones = phone_of_state[states[starts]]
    # A phone that begins in a later state than the first is incomplete as well, unless the first state emits no frames.
    late_starts = starts[model.tuples[states[starts] - 1, 1] != 0]
    first_states = [model.topology.entry(phone)[0] for phone in phone_of_state[states[late_starts]]]
    late_starts = late_starts[[state.forward_pdf_class != NO_PDF for state in first_states]]
    is_complete = np.ones(len(bounds) - 1, bool)
    is_complete[np.searchsorted(bounds, np.append(open_ends - 1, late_starts), side="right") - 1] = False
    counts = np.diff(np.searchsorted(ends, bounds, side="right"))
    return Segments(np.append(starts, len(states)), phones, counts, is_complete)


def _find_final_ends(model: TransitionModel, frames: AlignedFrames) -> Indices:
    """Return the first frame (phones,) after each phone that has a transition to the final state of its HMM.

    The phone ends after this transition or, in a reordered alignment, after the self-loops that follow the transition.
    Raise FormatError if a phone is followed by a self-loop of a different state.
    """
    bounds, steps = frames.bounds, frames.steps
    leaving_frames = np.flatnonzero(~frames.loops)
    is_final = model.maps.is_final[frames.ids[leaving_frames]]
    final_frames = leaving_frames[is_final]  # Frames with a transition to the final state.
    next_alignment = np.searchsorted(bounds, final_frames, side="right")
    next_leaving = np.append(leaving_frames, len(frames.ids))[1:][is_final]
    ends = np.where(
        frames.reordered[next_alignment - 1], np.minimum(next_leaving, bounds[next_alignment]), final_frames + 1
    )
    before_loop = steps[frames.loops[steps + 1]]  # Frames that are followed by a self-loop of a different state.
    last_final = np.searchsorted(final_frames, before_loop, side="right") - 1
    # Index -1, if no transition to a final state precedes the frame, selects the appended 0.
    if (before_loop + 1 < np.append(ends, 0)[last_final]).any():
        message = "a phone is followed by a self-loop of another state"
        raise FormatError(f"{message}: check that the model belongs to the alignments")
    return ends
