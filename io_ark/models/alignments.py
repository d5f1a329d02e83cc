"""Alignments: split them into phones.

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
    """Phones of one or more alignments that lie one after the other in an array.

    Attributes:
        bounds: (phones + 1,) int64: where each phone begins, and the end of the array.
        phones: (phones,) int32.
        counts: (alignments,) int64: number of phones of each alignment.
        complete: (alignments,) bool: True if each phone of the alignment begins and ends as in its HMM, which a
            truncated alignment does not.
    """

    bounds: Indices
    phones: Integers
    counts: Indices
    complete: Mask

    @property
    def lengths(self) -> Indices:
        """Number of frames of each phone."""
        return np.diff(self.bounds)

    @property
    def owners(self) -> Indices:
        """Number of the alignment of each phone, from 0 on."""
        return np.repeat(np.arange(len(self.counts)), self.counts)


def is_reordered(model: TransitionModel, ids: npt.ArrayLike, bounds: npt.ArrayLike | None = None) -> Mask:
    """Return whether the self-loops of a state follow its other transition, as in most alignments, or precede it.

    Args:
        model: transition model of the alignments.
        ids: transition-ids of one or more alignments, one after the other.
        bounds: where each alignment begins, and the end of the last one; by default there is one alignment.

    Returns:
        (alignments,): True for those that are reordered; False if that cannot be told.

    Raises:
        FormatError: two states follow each other by their self-loops, which no path through the HMMs does.
    """
    return Frames.of(model, ids, bounds).reordered


class Frames(NamedTuple):
    """Frames of alignments that lie one after the other in an array.

    Attributes:
        ids: (frames,): the transition-ids.
        bounds: (alignments + 1,): where each alignment begins, and the end of the last one.
        states: (frames,): their transition-states.
        loops: (frames,): True for self-loops.
        steps: the frames after which another state follows in the same alignment.
        reordered: (alignments,): see :func:`is_reordered`.
    """

    ids: Indices
    bounds: Indices
    states: Integers
    loops: Mask
    steps: Indices
    reordered: Mask

    @classmethod
    def of(cls, model: TransitionModel, ids: npt.ArrayLike, bounds: npt.ArrayLike | None) -> Frames:
        numbers = model.check_ids(ids)
        edges = np.array([0, len(numbers)] if bounds is None else bounds, np.int64)
        states, loops = model.maps.state[numbers], model.maps.is_self_loop[numbers]
        is_step = states[1:] != states[:-1]
        inner = edges[(edges > 0) & (edges < len(states))]
        is_step[inner - 1] = False
        steps = np.flatnonzero(is_step)
        return cls(numbers, edges, states, loops, steps, _are_reordered(edges, loops, steps))


def _are_reordered(bounds: Indices, loops: Mask, steps: Indices) -> Mask:
    """Return :func:`is_reordered` from the first step of each alignment with a self-loop on one side."""
    known = steps[loops[steps] | loops[steps + 1]]
    first = np.searchsorted(known, bounds)
    has_step = first[1:] > first[:-1]
    at = known[first[:-1][has_step]]
    if (loops[at] & loops[at + 1]).any():
        raise FormatError("an alignment has the self-loops of two states in succession: is this its model?")
    found = np.zeros(len(bounds) - 1, bool)
    found[has_step] = loops[at]
    unknown = ~has_step & (np.diff(bounds) > 0)
    found[unknown] = loops[bounds[1:][unknown] - 1] & ~loops[bounds[:-1][unknown]]
    return found


def split_to_phones(model: TransitionModel, ids: npt.ArrayLike, bounds: npt.ArrayLike | None = None) -> Segments:
    """Split alignments into phones.

    Args:
        model: transition model of the alignments.
        ids: transition-ids of one or more alignments, one after the other.
        bounds: where each alignment begins, and the end of the last one; by default there is one alignment.

    Raises:
        FormatError: an integer is not a transition-id, or no path through the HMMs has this alignment.

    >>> from io_ark.models import HmmState, HmmTopology, TransitionModel
    >>> states = (HmmState(0, 0, ((0, 0.5), (1, 0.5))), HmmState())
    >>> model = TransitionModel.of(HmmTopology.of({1: states, 2: states}), [(1, 0, 0, 0), (2, 0, 1, 1)])
    >>> segments = split_to_phones(model, [2, 1, 1, 4, 2])
    >>> segments.phones.tolist(), segments.lengths.tolist()
    ([1, 2, 1], [3, 1, 1])
    """
    return split(model, Frames.of(model, ids, bounds))


def split(model: TransitionModel, frames: Frames) -> Segments:
    """Split alignments into phones, as :func:`split_to_phones` does."""
    bounds, states, steps = frames.bounds, frames.states, frames.steps
    phone_of = np.append(np.int32(0), model.tuples[:, 0])
    # `steps`: positions whose next position is in the same alignment. A phone ends after its transition to the final
    # state; in a reordered alignment, after the self-loops that follow this transition.
    leaving = np.flatnonzero(~frames.loops)
    is_final = model.maps.is_final[frames.ids[leaving]]
    final = leaving[is_final]
    of_final = np.searchsorted(bounds, final, side="right")
    following = np.append(leaving, len(states))[1:][is_final]
    closed = np.where(frames.reordered[of_final - 1], np.minimum(following, bounds[of_final]), final + 1)
    trailing = steps[frames.loops[steps + 1]]
    owner = np.searchsorted(final, trailing, side="right") - 1
    if (trailing + 1 < np.append(closed, 0)[owner]).any():
        raise FormatError("a phone of an alignment is followed by a self-loop of another state: is this its model?")
    # A phone without that transition ends with the alignment, or before the next phone. It is incomplete.
    is_end = np.zeros(len(states) + 1, bool)  # by position: a phone ends before it
    is_end[closed] = True
    changes = steps[phone_of[states[steps]] != phone_of[states[steps + 1]]] + 1
    open_ends = np.concatenate((changes, bounds[1:][np.diff(bounds) > 0]))
    open_ends = open_ends[~is_end[open_ends]]
    is_end[open_ends] = True
    ends = np.flatnonzero(is_end)
    starts = np.append(0, ends)[: len(ends)]
    phones = phone_of[states[starts]]
    # A phone that begins in another than its first state is incomplete, too, unless the first state emits no frames.
    late = starts[model.tuples[states[starts] - 1, 1] != 0]
    late = late[[model.topology.entry(phone)[0].forward_pdf_class != NO_PDF for phone in phone_of[states[late]]]]
    complete = np.ones(len(bounds) - 1, bool)
    complete[np.searchsorted(bounds, np.append(open_ends - 1, late), side="right") - 1] = False
    counts = np.diff(np.searchsorted(ends, bounds, side="right"))
    return Segments(np.append(starts, len(states)), phones, counts, complete)
