"""Convert alignments from one model and tree to another.

Source: ``ConvertAlignment`` in Kaldi's ``src/hmm/hmm-utils.cc``.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Collection, Mapping, Sequence
from random import Random
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from io_ark.errors import FormatError
from io_ark.logs import logger
from io_ark.models.alignments import AlignedFrames, Indices, Integers, Mask, Segments, split_frames
from io_ark.models.topology import NO_PDF, HmmTopology
from io_ark.models.transitions import TransitionModel
from io_ark.models.tree import ContextDependency


class Converted(NamedTuple):
    """Converted alignments, the result of :meth:`AlignmentConverter.convert_many`.

    Attributes:
        ids: transition-ids (frames,) of the concatenated alignments.
        bounds: first frame of each alignment, and then the number of frames, (alignments + 1,). An alignment that could
            not be converted has no frames.
        is_truncated: mask (alignments,) of alignments with a phone that lacks the first or final state of its HMM.
        is_short: mask (alignments,) of alignments with too few frames for their phones.
    """

    ids: Integers
    bounds: Indices
    is_truncated: Mask
    is_short: Mask


class AlignmentConverter:
    """Converts alignments from one model and tree to another model and tree.

    A phone whose length or topology changes gets a random path through its new HMM. In each state, all transitions that
    can begin a path of the remaining length are equally likely.

    Args:
        old: model of the alignments.
        new: model of the converted alignments.
        tree: tree of the new model.
        subsampling: keep one of every ``subsampling`` frames.
        repeat_frames: True to convert at every shift by 0 to ``subsampling - 1`` frames and to interleave the results,
            so that the number of frames stays the same.
        reorder: True to let the self-loops of a state follow the transition to the next state, as in Kaldi by default.
        phone_map: maps old phones to new phones. By default, phones keep their numbers.
        random: random number generator for the paths. None for a generator with the seed 0.

    >>> from io_ark.models import AlignmentConverter, ContextDependency, HmmState, HmmTopology
    >>> from io_ark.models import Leaf, Table, TransitionModel
    >>> states = (HmmState(0, 0, ((0, 0.5), (1, 0.5))), HmmState())
    >>> topology = HmmTopology.of({1: states, 2: states})
    >>> old = TransitionModel.of(topology, [(1, 0, 0, 0), (2, 0, 1, 1)])
    >>> new = TransitionModel.of(topology, [(1, 0, 1, 1), (2, 0, 0, 0)])
    >>> tree = ContextDependency(1, 0, Table(0, (None, Leaf(1), Leaf(0))))  # Phone 1 has pdf 1, phone 2 has pdf 0.
    >>> ids = AlignmentConverter(old, new, tree).convert([2, 1, 4])
    >>> old.pdfs([2, 1, 4]).tolist(), new.pdfs(ids).tolist()
    ([0, 0, 1], [1, 1, 0])
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
        self.subsampling, self.repeat_frames = subsampling, repeat_frames
        self.reorder, self.phone_map = reorder, phone_map
        self.random = random or Random(0)
        self._paths = _RandomPaths(new.topology, self.random)
        self._has_warned = False

    def convert(self, ids: npt.ArrayLike) -> Integers | None:
        """Convert an alignment.

        Args:
            ids: transition-ids (frames,) of the old model.

        Returns:
            Transition-ids (new frames,) of the new model. None if a phone is incomplete or frames are too few.

        Raises:
            FormatError: the alignment does not fit the old model, or a phone does not fit the map, tree or new model.
        """
        result = self.convert_many(ids, [0, np.size(ids)])
        return None if result.is_truncated[0] or result.is_short[0] else result.ids

    def convert_many(self, ids: npt.ArrayLike, bounds: npt.ArrayLike) -> Converted:
        """Convert concatenated alignments.

        Args:
            ids: transition-ids (frames,) of the old model.
            bounds: first frame of each alignment, and then the number of frames, (alignments + 1,).

        Returns:
            The converted alignments, concatenated in the same order, and masks of the alignments without a result.

        Raises:
            FormatError: an alignment does not fit the old model, or a phone does not fit the map, tree or new model.
        """
        frames = AlignedFrames.from_ids(self.old, ids, bounds)
        segments = split_frames(self.old, frames)
        if not segments.complete.all():
            return self._convert_usable_alignments(frames, segments.complete)._replace(is_truncated=~segments.complete)
        phones, last_shift = self._map_phones(segments.phones), self.subsampling - 1
        # The alignments are converted once for each shift. These conversions are called versions.
        shifts = range(last_shift, -1, -1) if self.repeat_frames else (last_shift,)
        lengths, short_masks = zip(*(self._compute_lengths(segments, phones, shift) for shift in shifts), strict=True)
        is_short = np.any(short_masks, axis=0)
        if is_short.any():
            converted = self._convert_usable_alignments(frames, ~is_short)
            return converted._replace(is_short=converted.is_short | is_short)
        first_ids = self._find_first_ids(phones, segments.owners)
        versions = [self._convert_phones(frames, segments, phones, first_ids, counts) for counts in lengths]
        sizes = [np.bincount(segments.owners, counts, len(is_short)).astype(np.int64) for counts in lengths]
        all_false = np.zeros_like(is_short)
        ids_of_versions = _interleave_versions(versions, sizes)
        return Converted(ids_of_versions, np.cumsum([0, *np.sum(sizes, axis=0)]), all_false, all_false)

    def _convert_usable_alignments(self, frames: AlignedFrames, is_usable: Mask) -> Converted:
        """Convert only the alignments in ``is_usable``. Other alignments get no frames, and False in the masks."""
        sizes = np.diff(frames.bounds)
        converted = self.convert_many(frames.ids[np.repeat(is_usable, sizes)], np.cumsum([0, *sizes[is_usable]]))
        lengths, is_short = np.zeros_like(sizes), np.zeros_like(is_usable)
        lengths[is_usable], is_short[is_usable] = np.diff(converted.bounds), converted.is_short
        return Converted(converted.ids, np.cumsum([0, *lengths]), np.zeros_like(is_usable), is_short)

    def _map_phones(self, phones: Integers) -> Integers:
        """Return the new phone of each old phone, (phones,). Raise FormatError if the phone map lacks an old phone."""
        if self.phone_map is None:
            return phones
        distinct_phones, indices = np.unique(phones, return_inverse=True)
        for phone in distinct_phones.tolist():
            if phone not in self.phone_map:
                raise FormatError(f"the phone map has no entry for phone {phone}: add the phone to the map")
        return np.array([self.phone_map[phone] for phone in distinct_phones.tolist()], np.int32)[indices]

    def _compute_lengths(self, segments: Segments, phones: Integers, shift: int) -> tuple[Indices, Mask]:
        """Return the new number of frames of each phone, and a mask of the alignments with too few frames.

        If a phone is too short after subsampling, :func:`_balance_lengths` moves frames to it. ``segments`` has the old
        phones, and ``phones`` the new phones. The first ``subsampling - 1 - shift`` frames of an alignment precede the
        first frame that is kept.
        """
        is_short = np.zeros(len(segments.counts), bool)
        if self.subsampling == 1 and self.old.topology == self.new.topology:
            return segments.lengths, is_short
        first_phones = np.cumsum(segments.counts) - segments.counts  # Index of the first phone of each alignment.
        # Starts of the phones, counted from the start of their alignment, plus `shift`. The last element is unused.
        starts = segments.bounds - segments.bounds[np.append(first_phones[segments.owners], 0)] + shift
        lengths = (starts[:-1] + segments.lengths) // self.subsampling - starts[:-1] // self.subsampling
        distinct, indices = np.unique(phones, return_inverse=True)
        min_lengths = np.array([self.new.topology.min_length(phone) for phone in distinct.tolist()], np.int64)[indices]
        for alignment in np.unique(segments.owners[lengths < min_lengths]).tolist():
            phone_range = slice(first_phones[alignment], first_phones[alignment] + segments.counts[alignment])
            balanced_lengths = _balance_lengths(lengths[phone_range].tolist(), min_lengths[phone_range].tolist())
            if balanced_lengths is None:
                is_short[alignment] = True
            else:
                lengths[phone_range] = balanced_lengths
        return lengths, is_short

    def _convert_phones(
        self, frames: AlignedFrames, segments: Segments, phones: Integers, first_ids: Integers, lengths: Indices
    ) -> Integers:
        """Return the new transition-ids of all alignments, concatenated.

        ``phones`` are the new phones, ``lengths`` their numbers of frames, and ``first_ids`` the result of
        :meth:`_find_first_ids`. A phone whose length or topology changes gets a random path.
        """
        keeps_path = ~self._find_changed_topologies(segments.phones, phones) & (lengths == segments.lengths)
        old_frames = slice(None) if keeps_path.all() else np.repeat(keeps_path, segments.lengths)
        states = self.old.tuples[frames.states[old_frames] - 1, 1]
        transitions = self.old.maps.place[frames.ids[old_frames]]
        if not keeps_path.all():
            changed_phones = np.flatnonzero(~keeps_path).tolist()
            paths = [step for i in changed_phones for step in self._paths.draw_path(int(phones[i]), int(lengths[i]))]
            # A step is the HMM state of a frame, and the index of the transition in this state.
            is_old, steps = np.repeat(keeps_path, lengths), np.empty((int(lengths.sum()), 2), np.int32)
            steps[is_old] = np.column_stack((states, transitions))
            steps[~is_old] = paths
            states, transitions = steps.T
        phone_indices = np.repeat(np.arange(len(phones)), lengths)
        result: Integers = first_ids[phone_indices, states] + transitions
        was_reordered = keeps_path & frames.reordered[segments.owners]
        _move_self_loops(self.new, result, np.cumsum([0, *lengths]), was_reordered != self.reorder)
        return result

    def _find_changed_topologies(self, old_phones: Integers, new_phones: Integers) -> Mask:
        """Return the mask (phones,) of phones whose old and new HMMs differ. Warn only about the first difference."""
        # A pair has the old phone in the upper 32 bits and the new phone in the lower 32 bits.
        pairs, indices = np.unique(old_phones.astype(np.int64) << 32 | new_phones, return_inverse=True)
        is_changed = [
            self.old.topology.entry(pair >> 32) != self.new.topology.entry(pair & 0xFFFFFFFF) for pair in pairs.tolist()
        ]
        if any(is_changed) and not self._has_warned:
            logger.warning("Topology mismatch detected; automatically converting. Won't warn again.")
            self._has_warned = True
        return np.array(is_changed, bool)[indices]

    def _find_first_ids(self, phones: Integers, owners: Indices) -> Integers:
        """Return the first transition-id (phones, states) of each HMM state of each phone in its context.

        ``owners`` (phones,) has the index of the alignment of each phone. Contexts do not cross the ends of alignments.
        Raise FormatError if the topology lacks a phone, the tree has no pdf for a phone, or the model lacks a state.
        """
        width = self.tree.width
        # Put zeros between the alignments, so that no window has phones of two alignments.
        positions = np.arange(len(phones)) + width * (1 + owners)
        padded = np.zeros(width * (2 + owners.max(initial=0)) + len(phones), np.int32)
        padded[positions] = phones
        windows = padded[positions[:, None] + np.arange(width) - self.tree.central]
        _, indices, inverse = np.unique(_number_windows(windows), return_index=True, return_inverse=True)
        first_ids: Integers = self._find_first_ids_of_windows(windows[indices])[inverse]
        return first_ids

    def _find_first_ids_of_windows(self, windows: Integers) -> Integers:
        """Return the first transition-id (windows, states) of each HMM state of each window's central phone.

        ``windows``, shape (windows, tree.width), holds phones in context. ``states`` is the number of states of the
        largest HMM. The value is 0 for states that emit no frames, and for the missing states of smaller HMMs.
        """
        phones = windows[:, self.tree.central]
        result = np.zeros((len(windows), max(map(len, self.new.topology.entries))), np.int32)
        distinct_phones, indices = np.unique(phones, return_inverse=True)
        hmms = [self.new.topology.entry(phone) for phone in distinct_phones.tolist()]
        for hmm in dict.fromkeys(hmms):  # Phones with equal HMMs are converted together.
            rows = np.flatnonzero(np.array([other == hmm for other in hmms], bool)[indices])
            num_pdf_classes = self.new.topology.num_pdf_classes(int(phones[rows[0]]))
            pdfs = [self._find_pdfs(windows[rows], pdf_class) for pdf_class in range(num_pdf_classes)]
            for state_index, state in enumerate(hmm):
                if state.forward_pdf_class != NO_PDF:
                    forward, self_loop = pdfs[state.forward_pdf_class], pdfs[state.self_loop_pdf_class]
                    tuples = np.column_stack((phones[rows], np.full(len(rows), state_index), forward, self_loop))
                    result[rows, state_index] = self.new.first_ids[self.new.states_of(tuples)]
        return result

    def _find_pdfs(self, windows: Integers, pdf_class: int) -> Indices:
        """Return the pdf (windows,) of each window for a pdf-class. Raise FormatError if a window has no pdf."""
        pdfs: Indices = self.tree.pdfs(windows, np.full(len(windows), pdf_class))
        if (pdfs < 0).any():
            window = windows[pdfs < 0][0].tolist()
            raise FormatError(f"the tree has no pdf for the phones {' '.join(map(str, window))}: check the phone map")
        return pdfs


def _number_windows(windows: Integers) -> Indices:
    """Return an integer for each of ``windows`` (windows, width). Only equal windows have equal integers."""
    codes = windows[:, 0].astype(np.int64)
    for phones in windows.T[1:]:
        if codes.max(initial=0) >= 1 << 31:  # Renumber the codes, so that the next product cannot overflow.
            codes = np.unique(codes, return_inverse=True)[1]
        codes = codes * (1 + phones.max(initial=0)) + phones
    return codes


def _balance_lengths(lengths: list[int], min_lengths: Sequence[int]) -> list[int] | None:
    """Move frames between phones until every phone has its minimum length. Return None if there are too few frames.

    ``lengths`` has the number of frames of each phone. It is changed in place, even if the result is None.
    The phones that lack frames take turns. A phone takes one frame from the nearest phone that can spare a frame, where
    the distance is the number of frames between the two phones. In a tie, the earlier phone gives the frame.
    """
    receivers = [i for i, min_length in enumerate(min_lengths) if lengths[i] < min_length]
    donors = [i for i, min_length in enumerate(min_lengths) if lengths[i] > min_length]
    while receivers:
        for i in receivers:
            if not donors:
                return None
            position = bisect(donors, i)
            # `sides` are the indices, in `donors`, of the nearest donors before and after phone i.
            sides = range(max(position - 1, 0), min(position + 1, len(donors)))
            _, nearest = min((_count_frames_between(lengths, donors[side], i), side) for side in sides)
            donor = donors[nearest]
            lengths[i] += 1
            lengths[donor] -= 1
            if lengths[donor] == min_lengths[donor]:
                del donors[nearest]
        receivers = [i for i in receivers if lengths[i] < min_lengths[i]]
    return lengths


def _count_frames_between(lengths: Sequence[int], i: int, j: int) -> int:
    """Return the sum of the ``lengths``, in frames, of the phones between phones ``i`` and ``j``, in either order."""
    return sum(lengths[min(i, j) + 1 : max(i, j)])


def _interleave_versions(versions: Sequence[Integers], sizes: Sequence[Indices]) -> Integers:
    """Interleave versions of each alignment: the first frames of all versions, then their second frames, and so on.

    A version has the transition-ids (frames,) of all alignments, and ``sizes`` has their frame counts (alignments,).
    """
    if len(versions) == 1:
        return versions[0]
    owners = [np.repeat(np.arange(len(counts)), counts) for counts in sizes]
    frame_numbers = [np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) for counts in sizes]
    order = np.lexsort((np.concatenate(frame_numbers), np.concatenate(owners)))
    interleaved: Integers = np.concatenate(versions)[order]
    return interleaved


def _move_self_loops(model: TransitionModel, ids: Integers, bounds: Indices, is_selected: Mask) -> None:
    """Move the self-loops of each state from before to after the transition to the next state, or back, in place.

    ``ids`` (frames,) are the transition-ids of concatenated phones, and ``bounds`` (phones + 1,) are the first frame of
    each phone and the total number of frames. ``is_selected`` (phones,) is True for the phones whose self-loops move.
    """
    if not is_selected.any():
        return
    states, is_leaving = model.maps.state[ids], ~model.maps.is_self_loop[ids]
    is_run_start = np.append(True, states[1:] != states[:-1])
    is_run_start[bounds[:-1]] = True
    visit_starts = np.flatnonzero(is_run_start)
    # Successive visits to one state are separated by their transitions, which precede or follow the self-loops.
    loops_follow = np.repeat(is_leaving[visit_starts], np.diff(np.append(visit_starts, len(ids))))
    is_run_start |= is_leaving & loops_follow
    is_run_start[1:] |= is_leaving[:-1] & ~loops_follow[1:]
    # A run is the frames of one visit to a state: its self-loops, and the transition to the next state. All self-loops
    # have the same id, so exchanging the first and last frame of the run moves the transition past all of them.
    run_starts = np.flatnonzero(is_run_start)
    moves = np.repeat(is_selected, np.diff(bounds))[run_starts]
    first_frames, last_frames = run_starts[moves], np.append(run_starts[1:], len(ids))[moves] - 1
    ids[first_frames], ids[last_frames] = ids[last_frames], ids[first_frames]


class _RandomPaths:
    """Draws random paths through the HMMs of a topology."""

    def __init__(self, topology: HmmTopology, random: Random) -> None:
        self._topology, self._random = topology, random
        # Maps the index of an HMM to the results of _find_states_with_paths for 0, 1, 2, ... frames.
        self._start_states: dict[int, list[frozenset[int]]] = {}
        # Maps the index of an HMM, a state and a number of frames to the result of _find_transitions_to_end.
        self._choices: dict[tuple[int, int, int], list[tuple[int, int]]] = {}

    def draw_path(self, phone: int, length: int) -> list[tuple[int, int]]:
        """Return a random path of ``length`` frames through a phone's HMM. Raise FormatError if no such path exists.

        The path has a pair for each frame: the number of the HMM state, and the index of the transition in the state.
        """
        entry = self._topology.entry(phone)
        path, number, num_frames = [], 0, length
        while number != len(entry) - 1:
            choices = self._find_transitions_to_end(phone, number, num_frames)
            if not choices:
                raise FormatError(f"phone {phone} has no path of {length} frames: check the topology of the new model")
            index, target = choices[int(len(choices) * self._random.random())]
            if entry[number].forward_pdf_class != NO_PDF:
                path.append((number, index))
                num_frames -= 1
            number = target
        return path

    def _find_transitions_to_end(self, phone: int, number: int, num_frames: int) -> list[tuple[int, int]]:
        """Return (index, target) of the transitions of state ``number`` that can begin a path to the final state.

        The path has exactly ``num_frames`` frames, including the frame of this transition if the state emits frames.
        """
        key = self._topology.entry_of[phone], number, num_frames
        if key not in self._choices:
            state = self._topology.entry(phone)[number]
            targets = self._find_states_with_paths(phone, num_frames - (state.forward_pdf_class != NO_PDF))
            self._choices[key] = [(i, target) for i, (target, _) in enumerate(state.transitions) if target in targets]
        return self._choices[key]

    def _find_states_with_paths(self, phone: int, num_frames: int) -> frozenset[int]:
        """Return the states of a phone from which a path of exactly ``num_frames`` frames leads to the final state.

        The result is empty if ``num_frames`` is negative.
        """
        entry = self._topology.entry(phone)
        states_by_length = self._start_states.setdefault(self._topology.entry_of[phone], [])
        while len(states_by_length) <= num_frames:
            states = set() if states_by_length else {len(entry) - 1}
            # A state that emits no frames depends on states with paths of the same length, so one pass is not enough.
            for _ in entry:
                for index, state in enumerate(entry):
                    if state.forward_pdf_class == NO_PDF:
                        next_states: Collection[int] = states
                    else:
                        next_states = states_by_length[-1] if states_by_length else ()
                    if any(target in next_states for target, _ in state.transitions):
                        states.add(index)
            states_by_length.append(frozenset(states))
        return states_by_length[num_frames] if num_frames >= 0 else frozenset()
