"""Alignments: split them into phones, and convert them from one model to another.

Source: Kaldi's ``src/hmm/hmm-utils.cc``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from io_ark.errors import FormatError
from io_ark.models.topology import NO_PDF, Entry
from io_ark.models.transitions import TransitionModel
from io_ark.models.tree import ContextDependency

logger = logging.getLogger("io_ark")

Indices = npt.NDArray[np.int64]


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
    phones: npt.NDArray[np.int32]
    counts: Indices
    complete: npt.NDArray[np.bool_]

    @property
    def lengths(self) -> Indices:
        """Number of frames of each phone."""
        return np.diff(self.bounds)


def is_reordered(
    model: TransitionModel, ids: npt.ArrayLike, bounds: npt.ArrayLike | None = None
) -> npt.NDArray[np.bool_]:
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
    array = np.asarray(ids)
    edges = np.array([0, len(array)] if bounds is None else bounds, np.int64)
    loops, states = model.are_self_loops(array), model.states(array)
    # Positions i at which another state follows and one of the two transitions is a self-loop.
    told = (states[:-1] != states[1:]) & (loops[:-1] | loops[1:])
    inner = edges[1:-1]
    told[inner[(inner > 0) & (inner < len(array))] - 1] = False
    places = np.flatnonzero(told)
    first = np.searchsorted(places, edges[:-1])
    found = np.zeros(len(edges) - 1, bool)
    known = np.searchsorted(places, edges[1:]) > first
    at = places[first[known]]
    if (loops[at] & loops[at + 1]).any():
        raise FormatError("an alignment has the self-loops of two states in succession: is this its model?")
    found[known] = loops[at]
    unknown = ~known & (np.diff(edges) > 0)
    front, back = loops[edges[:-1][unknown]], loops[edges[1:][unknown] - 1]
    found[unknown] = back & ~front
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
    array = np.asarray(ids)
    edges = np.array([0, len(array)] if bounds is None else bounds, np.int64)
    alignments = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
    states, loops, final = model.states(array), model.are_self_loops(array), model.are_final(array)
    # Of a reordered alignment, the self-loops that follow the final transition of a phone belong to it.
    places = np.arange(len(array))
    left = np.maximum.accumulate(np.where(loops, -1, places))  # the last transition to another state
    trailing = loops & (left >= edges[alignments]) & is_reordered(model, array, edges)[alignments]
    trailing[trailing] = final[left[trailing]]
    if (states[trailing] != states[np.flatnonzero(trailing) - 1]).any():
        raise FormatError("a phone of an alignment is followed by a self-loop of another state: is this its model?")
    phones = model.phones(array)
    closed = final | trailing
    is_last = np.zeros(len(array), bool)
    is_last[edges[1:][np.diff(edges) > 0] - 1] = True
    ends = is_last.copy()
    ends[:-1] |= (closed[:-1] & ~trailing[1:]) | (~closed[:-1] & (phones[:-1] != phones[1:]))
    starts = np.concatenate(([True], ends[:-1])) if len(array) else ends
    # A phone that does not end by its final transition, or does not begin in its first state, is not whole.
    emits = {phone: model.topology.entry(phone)[0].forward_pdf_class != NO_PDF for phone in np.unique(phones).tolist()}
    begins_late = starts & (model.hmm_states(array) != 0)
    begins_late[begins_late] = [emits[phone] for phone in phones[begins_late].tolist()]
    complete = np.ones(len(edges) - 1, bool)
    complete[alignments[(ends & ~closed) | begins_late]] = False
    counts = np.bincount(alignments[ends], minlength=len(edges) - 1)
    return Segments(np.append(np.flatnonzero(starts), len(array)), phones[starts], counts, complete)


class AlignmentConverter:
    """Converts alignments from one model and tree to another one.

    A phone whose number of frames or whose topology changes gets a random path of equal probability.

    Args:
        old: model of the alignments.
        new: model of the results.
        tree: tree of the new model.
        subsampling: keep one of this many frames.
        repeat_frames: repeat the frames afterwards, so that there are as many as before.
        reorder: let the self-loops of a state follow its other transition.
        phone_map: the new number of each phone; by default they keep their numbers.
        random: source of the random paths.
    """

    def __init__(
        self,
        old: TransitionModel,
        new: TransitionModel,
        tree: ContextDependency,
        *,
        subsampling: int = 1,
        repeat_frames: bool = False,
        reorder: bool = True,
        phone_map: Mapping[int, int] | None = None,
        random: Random | None = None,
    ) -> None:
        self.old, self.new, self.tree = old, new, tree
        self.subsampling = subsampling
        self.repeat_frames = repeat_frames
        self.reorder = reorder
        self.phone_map = phone_map
        self.random = random or Random(0)
        self._pdfs: dict[tuple[int, ...], tuple[int, ...]] = {}  # of each window of phones
        self._has_warned = False

    def convert(self, ids: npt.ArrayLike) -> npt.NDArray[np.int32] | None:
        """Convert an alignment.

        Args:
            ids: transition-ids of the old model.

        Returns:
            Those of the new model; None if the alignment is truncated, or too short for its phones.

        Raises:
            FormatError: the models, the tree and the alignment do not belong together.
        """
        array = np.asarray(ids)
        last = self.subsampling - 1
        results = []
        for shift in range(last, -1, -1) if self.repeat_frames else (last,):
            converted = self._convert(array, shift)
            if converted is None:
                return None
            results.append(converted)
        if len(results) == 1:
            return results[0]
        interleaved = np.full((max(map(len, results)), len(results)), -1, np.int32)
        for column, result in enumerate(results):
            interleaved[: len(result), column] = result
        return interleaved[interleaved >= 0]

    def _convert(self, array: npt.NDArray[Any], shift: int) -> npt.NDArray[np.int32] | None:
        """Convert an alignment, of which so many frames are dropped before the first one that is kept."""
        segments = split_to_phones(self.old, array)
        if not segments.complete.all():
            return None
        was_reordered = bool(is_reordered(self.old, array)[0])
        phones = [self._mapped(phone) for phone in segments.phones.tolist()]
        lengths = segments.lengths.tolist()
        if self.subsampling != 1 or self.old.topology != self.new.topology:
            least = [self.new.topology.min_length(phone) for phone in phones]
            changed = _new_lengths(lengths, least, shift, self.subsampling)
            if changed is None:
                logger.warning("Failed to produce suitable phone lengths")
                return None
            lengths = changed
        result: list[int] = []
        for number, (begin, end) in enumerate(pairwise(segments.bounds.tolist())):
            first = number - self.tree.central
            window = tuple(phones[i] if 0 <= i < len(phones) else 0 for i in range(first, first + self.tree.width))
            result += self._phone(array[begin:end].tolist(), window, lengths[number], was_reordered)
        return np.array(result, np.int32)

    def _mapped(self, phone: int) -> int:
        """Return the new number of a phone."""
        if self.phone_map is None:
            return phone
        if phone not in self.phone_map:
            raise FormatError(f"the phone map has no line for phone {phone}")
        return self.phone_map[phone]

    def _phone(self, ids: list[int], window: tuple[int, ...], length: int, was_reordered: bool) -> list[int]:
        """Convert the transition-ids of one phone; ``length`` is the new number of frames."""
        phone = window[self.tree.central]
        old_phone = int(self.old.phones(ids[0]))
        entry = self.new.topology.entry(phone)
        is_other = self.old.topology.entry(old_phone) != entry
        if is_other and not self._has_warned:
            logger.warning("Topology mismatch detected; automatically converting. Won't warn again.")
            self._has_warned = True
        if is_other or length != len(ids):
            result = self._random_path(entry, window, length)
            return _reordered(self.new, result) if self.reorder else result
        result = []
        for state, index in zip(self.old.states(ids).tolist(), self.old.indices(ids).tolist(), strict=True):
            result.append(self._first_id(window, int(self.old.tuples[state - 1, 1])) + index)
        return _reordered(self.new, result) if self.reorder != was_reordered else result

    def _first_id(self, window: tuple[int, ...], hmm_state: int) -> int:
        """Return the first transition-id of a state of the central phone."""
        phone = window[self.tree.central]
        state = self.new.topology.entry(phone)[hmm_state]
        pdfs = self._pdfs.get(window) or self._pdfs.setdefault(window, self._pdfs_of(window))
        number = self.new.state_of(phone, hmm_state, pdfs[state.forward_pdf_class], pdfs[state.self_loop_pdf_class])
        return int(self.new.first_ids[number])

    def _pdfs_of(self, window: tuple[int, ...]) -> tuple[int, ...]:
        """Return the pdf of each pdf-class of the central phone."""
        pdfs = []
        for pdf_class in range(self.new.topology.num_pdf_classes(window[self.tree.central])):
            pdf = self.tree.pdf(window, pdf_class)
            if pdf is None:
                raise FormatError(f"the tree has no pdf for the phones {' '.join(map(str, window))}")
            pdfs.append(pdf)
        return tuple(pdfs)

    def _random_path(self, entry: Entry, window: tuple[int, ...], length: int) -> list[int]:
        """Return the transition-ids of a random path through an HMM that emits this number of frames."""
        last = len(entry) - 1
        emits = [state.forward_pdf_class != NO_PDF for state in entry]
        # States from which a number of frames leads to the final state; states that emit nothing come last.
        reach: list[set[int]] = [{last}]
        for frames in range(length + 1):
            found = reach[-1] if frames == 0 else set()
            before = reach[frames - 1] if frames else set()
            for _ in entry:
                for number, state in enumerate(entry):
                    targets = before if emits[number] else found
                    if any(target in targets for target, _ in state.transitions):
                        found.add(number)
            if frames:
                reach.append(found)
        if 0 not in reach[length]:
            raise FormatError(f"phone {window[self.tree.central]} has no path of {length} frames")
        path, at, left = [], 0, length
        while at != last:
            left -= emits[at]
            choices = [i for i, (target, _) in enumerate(entry[at].transitions) if target in reach[left]]
            index = self.random.choice(choices)
            if emits[at]:
                path.append(self._first_id(window, at) + index)
            at = entry[at].transitions[index][0]
        return path


def _new_lengths(lengths: Sequence[int], least: Sequence[int], shift: int, subsampling: int) -> list[int] | None:
    """Return the number of frames of each phone after subsampling; None if there are too few for all phones.

    Phones that would get fewer frames than their HMM needs take them from the nearest phone that can spare one.
    """
    ends = np.cumsum([shift, *lengths]) // subsampling
    new: list[int] = np.diff(ends).tolist()
    changed = True
    while changed:
        changed = False
        for i, needed in enumerate(least):
            if new[i] < needed:
                changed = True
                donor = _nearest_donor(new, least, i)
                if donor is None:
                    return None
                new[i] += 1
                new[donor] -= 1
    return new


def _nearest_donor(lengths: Sequence[int], least: Sequence[int], i: int) -> int | None:
    """Return the phone that can spare a frame with the fewest frames between it and phone ``i``; None without one."""
    found: list[tuple[int, int]] = []
    for others in (range(i - 1, -1, -1), range(i + 1, len(lengths))):
        distance = 0
        for j in others:
            if lengths[j] > least[j]:
                found.append((distance, j))
                break
            distance += lengths[j]
    return min(found, key=lambda each: each[0])[1] if found else None


def _reordered(model: TransitionModel, ids: list[int]) -> list[int]:
    """Return the transition-ids of one phone with the self-loops of each state on the other side of its transition."""
    result = list(ids)
    states, loops = model.states(ids).tolist(), model.are_self_loops(ids).tolist()
    begin = 0
    while begin < len(result):
        end = begin + 1
        while end < len(result) and states[end] == states[begin]:
            if not loops[end]:
                end += loops[begin]
                break
            end += 1
        result[begin], result[end - 1] = result[end - 1], result[begin]
        begin = end
    return result
