"""Convert alignments from one model and tree to another.

Source: ``ConvertAlignment`` in Kaldi's ``src/hmm/hmm-utils.cc``.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Mapping, Sequence
from random import Random
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from io_ark.errors import FormatError
from io_ark.logs import logger
from io_ark.models.alignments import Frames, Indices, Integers, Mask, Segments, split
from io_ark.models.topology import NO_PDF, HmmTopology
from io_ark.models.transitions import TransitionModel
from io_ark.models.tree import ContextDependency


class Converted(NamedTuple):
    """Alignments that were converted.

    Attributes:
        ids: transition-ids of all, one alignment after the other.
        bounds: where each alignment begins, and the end of the last one. One that failed has no frames.
        is_truncated: (alignments,): True for those that failed because they are truncated.
        is_short: (alignments,): True for those that failed because they have too few frames for their phones.
    """

    ids: Integers
    bounds: Indices
    is_truncated: Mask
    is_short: Mask


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
        self._paths = _RandomPaths(new.topology, self.random)
        self._has_warned = False

    def convert(self, ids: npt.ArrayLike) -> Integers | None:
        """Convert an alignment.

        Args:
            ids: transition-ids of the old model.

        Returns:
            Those of the new model; None if the alignment is truncated, or too short for its phones.

        Raises:
            FormatError: the models, the tree and the alignment do not belong together.
        """
        converted = self.convert_many(ids, [0, np.size(ids)])
        return None if converted.is_truncated[0] or converted.is_short[0] else converted.ids

    def convert_many(self, ids: npt.ArrayLike, bounds: npt.ArrayLike) -> Converted:
        """Convert alignments that lie one after the other in an array.

        Args:
            ids: transition-ids of the old model.
            bounds: where each alignment begins, and the end of the last one.

        Raises:
            FormatError: the models, the tree and an alignment do not belong together.
        """
        frames = Frames.of(self.old, ids, bounds)
        segments = split(self.old, frames)
        if not segments.complete.all():
            return self._around(frames, segments.complete)._replace(is_truncated=~segments.complete)
        phones, last = self._map_phones(segments.phones), self.subsampling - 1
        shifts = range(last, -1, -1) if self.repeat_frames else (last,)
        lengths, short = zip(*(self._lengths(segments, phones, shift) for shift in shifts), strict=True)
        is_short = np.any(short, axis=0)
        if is_short.any():
            converted = self._around(frames, ~is_short)
            return converted._replace(is_short=converted.is_short | is_short)
        first_ids = self._first_ids(phones, segments.owners)
        versions = [self._with_lengths(frames, segments, phones, first_ids, each) for each in lengths]
        sizes = [np.bincount(segments.owners, each, len(is_short)).astype(np.int64) for each in lengths]
        none = np.zeros_like(is_short)
        return Converted(_interleave(versions, sizes), np.cumsum([0, *np.sum(sizes, axis=0)]), none, none)

    def _around(self, frames: Frames, usable: Mask) -> Converted:
        """Convert some of the alignments; the others get no frames."""
        sizes = np.diff(frames.bounds)
        found = self.convert_many(frames.ids[np.repeat(usable, sizes)], np.cumsum([0, *sizes[usable]]))
        lengths, short = np.zeros_like(sizes), np.zeros_like(usable)
        lengths[usable], short[usable] = np.diff(found.bounds), found.is_short
        return Converted(found.ids, np.cumsum([0, *lengths]), np.zeros_like(usable), short)

    def _map_phones(self, phones: Integers) -> Integers:
        """Return the new number of each phone."""
        if self.phone_map is None:
            return phones
        different, places = np.unique(phones, return_inverse=True)
        for phone in different.tolist():
            if phone not in self.phone_map:
                raise FormatError(f"the phone map has no line for phone {phone}")
        return np.array([self.phone_map[phone] for phone in different.tolist()], np.int32)[places]

    def _lengths(self, segments: Segments, phones: Integers, shift: int) -> tuple[Indices, Mask]:
        """Return the new number of frames of each phone, and which alignments have too few frames.

        Args:
            segments: the phones.
            phones: their new numbers.
            shift: frames that are dropped before the first one that is kept.
        """
        is_short = np.zeros(len(segments.counts), bool)
        if self.subsampling == 1 and self.old.topology == self.new.topology:
            return segments.lengths, is_short
        first = np.cumsum(segments.counts) - segments.counts  # phone of each alignment
        ends = segments.bounds - segments.bounds[np.append(first[segments.owners], 0)] + shift
        lengths = (ends[:-1] + segments.lengths) // self.subsampling - ends[:-1] // self.subsampling
        different, places = np.unique(phones, return_inverse=True)
        least = np.array([self.new.topology.min_length(phone) for phone in different.tolist()], np.int64)[places]
        for alignment in np.unique(segments.owners[lengths < least]).tolist():
            part = slice(first[alignment], first[alignment] + segments.counts[alignment])
            changed = _at_least(lengths[part].tolist(), least[part].tolist())
            if changed is None:
                is_short[alignment] = True
            else:
                lengths[part] = changed
        return lengths, is_short

    def _with_lengths(
        self, frames: Frames, segments: Segments, phones: Integers, first_ids: Integers, lengths: Indices
    ) -> Integers:
        """Return the new transition-ids of all alignments, if their phones have these lengths."""
        is_kept = ~self._has_other_topology(segments.phones, phones) & (lengths == segments.lengths)
        kept = slice(None) if is_kept.all() else np.repeat(is_kept, segments.lengths)
        states, places = self.old.tuples[frames.states[kept] - 1, 1], self.old.maps.place[frames.ids[kept]]
        if not is_kept.all():
            others = np.flatnonzero(~is_kept).tolist()
            paths = [step for i in others for step in self._paths.path(int(phones[i]), int(lengths[i]))]
            of_kept, steps = np.repeat(is_kept, lengths), np.empty((int(lengths.sum()), 2), np.int32)
            steps[of_kept, 0], steps[of_kept, 1], steps[~of_kept] = states, places, np.array(paths, np.int32)
            states, places = steps.T
        number = np.repeat(np.arange(len(phones)), lengths)
        result: Integers = first_ids[number, states] + places
        was_reordered = is_kept & frames.reordered[segments.owners]
        _reorder(self.new, result, np.cumsum([0, *lengths]), was_reordered != self.reorder)
        return result

    def _has_other_topology(self, old: Integers, new: Integers) -> Mask:
        """Return for each phone whether its topology changes, and warn once if one does."""
        pairs, places = np.unique(old.astype(np.int64) << 32 | new, return_inverse=True)
        is_other = [
            self.old.topology.entry(pair >> 32) != self.new.topology.entry(pair & 0xFFFFFFFF) for pair in pairs.tolist()
        ]
        if any(is_other) and not self._has_warned:
            logger.warning("Topology mismatch detected; automatically converting. Won't warn again.")
            self._has_warned = True
        return np.array(is_other, bool)[places]

    def _first_ids(self, phones: Integers, owners: Indices) -> Integers:
        """Return the first transition-id of each state of phones: (phones, states).

        Args:
            phones: the phones.
            owners: the alignment of each.

        Raises:
            FormatError: the topology does not have a phone, the tree has no answer, or the model not this state.
        """
        width = self.tree.width
        places = np.arange(len(phones)) + width * (1 + owners)
        padded = np.zeros(width * (2 + owners.max(initial=0)) + len(phones), np.int32)
        padded[places] = phones
        windows = padded[places[:, None] + np.arange(width) - self.tree.central]
        _, first, inverse = np.unique(_codes(windows), return_index=True, return_inverse=True)
        found: Integers = self._first_ids_of(windows[first])[inverse]
        return found

    def _first_ids_of(self, windows: Integers) -> Integers:
        """Return the first transition-id of each state of the central phones of windows: (windows, states)."""
        phones = windows[:, self.tree.central]
        result = np.zeros((len(windows), max(map(len, self.new.topology.entries))), np.int32)
        different, places = np.unique(phones, return_inverse=True)
        hmms = [self.new.topology.entry(phone) for phone in different.tolist()]
        for entry in dict.fromkeys(hmms):  # phones of different entries may have equal ones
            chosen = np.flatnonzero(np.array([hmm == entry for hmm in hmms], bool)[places])
            pdfs = [
                self._pdfs(windows[chosen], each)
                for each in range(self.new.topology.num_pdf_classes(int(phones[chosen[0]])))
            ]
            for number, state in enumerate(entry):
                if state.forward_pdf_class != NO_PDF:
                    forward, self_loop = pdfs[state.forward_pdf_class], pdfs[state.self_loop_pdf_class]
                    states = np.column_stack((phones[chosen], np.full(len(chosen), number), forward, self_loop))
                    result[chosen, number] = self.new.first_ids[self.new.states_of(states)]
        return result

    def _pdfs(self, windows: Integers, pdf_class: int) -> Indices:
        pdfs: Indices = self.tree.pdfs(windows, np.full(len(windows), pdf_class))
        if (pdfs < 0).any():
            window = windows[pdfs < 0][0].tolist()
            raise FormatError(f"the tree has no pdf for the phones {' '.join(map(str, window))}")
        return pdfs


def _codes(windows: Integers) -> Indices:
    """Return a number for each window of phones, the same for the same phones."""
    codes = windows[:, 0].astype(np.int64)
    for phones in windows.T[1:]:
        if codes.max(initial=0) >= 1 << 31:  # as many codes as different windows so far
            codes = np.unique(codes, return_inverse=True)[1]
        codes = codes * (1 + phones.max(initial=0)) + phones
    return codes


def _at_least(lengths: list[int], least: Sequence[int]) -> list[int] | None:
    """Return numbers of frames of phones that are not below the least ones; None if there are too few for all phones.

    Phones with too few frames take them one by one, in turns, from the nearest phone that can spare one: with the
    fewest frames between the two, the one before if there are as many on both sides.
    """
    lacking = [i for i, needed in enumerate(least) if lengths[i] < needed]
    donors = [i for i, needed in enumerate(least) if lengths[i] > needed]
    while lacking:
        for i in lacking:
            if not donors:
                return None
            place = bisect(donors, i)
            sides = range(max(place - 1, 0), min(place + 1, len(donors)))  # the nearest before and after it
            _, nearest = min((_count_between(lengths, donors[side], i), side) for side in sides)
            donor = donors[nearest]
            lengths[i] += 1
            lengths[donor] -= 1
            if lengths[donor] == least[donor]:
                del donors[nearest]
        lacking = [i for i in lacking if lengths[i] < least[i]]
    return lengths


def _count_between(lengths: Sequence[int], one: int, other: int) -> int:
    """Return the number of frames between two phones."""
    return sum(lengths[min(one, other) + 1 : max(one, other)])


def _interleave(versions: Sequence[Integers], sizes: Sequence[Indices]) -> Integers:
    """Return the frames of several versions of alignments in turns: the first of each version, then the second.

    Args:
        versions: the frames of all alignments.
        sizes: (alignments,) for each version: frames of each alignment.
    """
    if len(versions) == 1:
        return versions[0]
    owners = [np.repeat(np.arange(len(each)), each) for each in sizes]
    places = [np.arange(each.sum()) - np.repeat(np.cumsum(each) - each, each) for each in sizes]
    order = np.lexsort((np.concatenate(places), np.concatenate(owners)))
    found: Integers = np.concatenate(versions)[order]
    return found


def _reorder(model: TransitionModel, ids: Integers, bounds: Indices, chosen: Mask) -> None:
    """Move the self-loops of each state to the other side of its transition, in place.

    Args:
        model: transition model.
        ids: transition-ids of phones, one phone after the other.
        bounds: where each phone begins, and the end of the last one.
        chosen: (phones,): the phones to change.
    """
    if not chosen.any():
        return
    states, leaves = model.maps.state[ids], ~model.maps.is_self_loop[ids]
    begins = np.append(True, states[1:] != states[:-1])
    begins[bounds[:-1]] = True
    visits = np.flatnonzero(begins)
    follow = np.repeat(leaves[visits], np.diff(np.append(visits, len(ids))))  # self-loops follow the transition
    begins |= leaves & follow
    begins[1:] |= leaves[:-1] & ~follow[1:]
    runs = np.flatnonzero(begins)  # of a transition and its self-loops
    of_chosen = np.repeat(chosen, np.diff(bounds))[runs]
    first, last = runs[of_chosen], np.append(runs[1:], len(ids))[of_chosen] - 1
    ids[first], ids[last] = ids[last], ids[first]


class _RandomPaths:
    """Draws paths of equal probability through HMMs."""

    def __init__(self, topology: HmmTopology, random: Random) -> None:
        self._topology, self._random = topology, random
        self._reach: dict[int, list[frozenset[int]]] = {}
        self._choices: dict[tuple[int, int, int], list[tuple[int, int]]] = {}

    def path(self, phone: int, length: int) -> list[tuple[int, int]]:
        """Return the (HMM state, index of the transition) of each frame of a path through a phone.

        Raises:
            FormatError: the phone has no path of ``length`` frames.
        """
        entry = self._topology.entry(phone)
        path, at, left = [], 0, length
        while at != len(entry) - 1:
            choices = self._transitions_to(phone, at, left)
            if not choices:
                raise FormatError(f"phone {phone} has no path of {length} frames")
            index, target = choices[int(len(choices) * self._random.random())]
            if entry[at].forward_pdf_class != NO_PDF:
                path.append((at, index))
                left -= 1
            at = target
        return path

    def _transitions_to(self, phone: int, at: int, left: int) -> list[tuple[int, int]]:
        """Return index and target of each transition after which a path of the remaining frames ends the phone."""
        key = self._topology.entry_of[phone], at, left
        if key not in self._choices:
            state = self._topology.entry(phone)[at]
            ends = self._ends(phone, left - (state.forward_pdf_class != NO_PDF))
            self._choices[key] = [(i, target) for i, (target, _) in enumerate(state.transitions) if target in ends]
        return self._choices[key]

    def _ends(self, phone: int, frames: int) -> frozenset[int]:
        """Return the states of a phone from which a path of ``frames`` frames leads to its end."""
        entry = self._topology.entry(phone)
        reach = self._reach.setdefault(self._topology.entry_of[phone], [])
        while len(reach) <= frames:
            found = set() if reach else {len(entry) - 1}
            for _ in entry:  # states that emit nothing come last
                for number, state in enumerate(entry):
                    after = found if state.forward_pdf_class == NO_PDF else reach[-1] if reach else ()
                    if any(target in after for target, _ in state.transitions):
                        found.add(number)
            reach.append(frozenset(found))
        return reach[frames] if frames >= 0 else frozenset()
