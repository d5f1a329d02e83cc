"""HMM topologies: the states of each phone and the transitions between them.

Source: Kaldi's ``src/hmm/hmm-topology.h`` and ``hmm-topology.cc``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from io_ark.codecs.base import register_kind
from io_ark.errors import FormatError
from io_ark.logs import logger

NO_PDF = -1
"""Pdf-class of a state that emits no frames."""


@dataclass(frozen=True)
class HmmState:
    """State of an HMM.

    Attributes:
        forward_pdf_class: pdf-class of transitions to other states, or :data:`NO_PDF` if the state emits no frames.
        self_loop_pdf_class: pdf-class of the self-loop. It differs from ``forward_pdf_class`` only in chain models.
        transitions: target state and probability of each transition.

    >>> from io_ark.models import HmmState
    >>> HmmState(0, 0, ((0, 0.75), (1, 0.25))).transitions[1]  # To state 1, with a probability of 0.25.
    (1, 0.25)
    """

    forward_pdf_class: int = NO_PDF
    self_loop_pdf_class: int = NO_PDF
    transitions: tuple[tuple[int, float], ...] = ()


TopologyEntry = tuple[HmmState, ...]


@register_kind("topology")
@dataclass(frozen=True)
class HmmTopology:
    """Topology of a model: the HMM of each phone.

    Attributes:
        phones: the phones in ascending order.
        entry_of: index in ``entries`` for each integer from 0 to the last phone; -1 for an integer that is not a phone.
        entries: HMMs as tuples of states. The last state of an HMM is final and has no transitions.

    >>> from io_ark.models import HmmState, HmmTopology
    >>> first = HmmState(0, 0, ((0, 0.5), (1, 0.5)))
    >>> second = HmmState(1, 1, ((1, 0.5), (2, 0.5)))
    >>> topology = HmmTopology.of({1: (first, HmmState()), 2: (first, second, HmmState())})
    >>> topology.min_length(1), topology.min_length(2), topology.num_pdf_classes(2)
    (1, 2, 2)
    """

    phones: tuple[int, ...]
    entry_of: tuple[int, ...]
    entries: tuple[TopologyEntry, ...]

    @classmethod
    def of(cls, states: Mapping[int, TopologyEntry]) -> HmmTopology:
        """Create a topology from the HMMs of phones.

        Args:
            states: maps each phone to the states of its HMM. The last state is final.

        Raises:
            FormatError: the topology is invalid.
        """
        # Kaldi refuses phone 0 in the text format, because 0 is the empty symbol <eps> of its transducers.
        if min(states, default=1) < 1:
            raise FormatError(f"invalid phone {min(states)}: number the phones from 1")
        entries = tuple(dict.fromkeys(states.values()))
        entry_of = [-1] * (max(states, default=-1) + 1)
        for phone, entry in states.items():
            entry_of[phone] = entries.index(entry)
        topology = cls(tuple(sorted(states)), tuple(entry_of), entries)
        topology.check()
        return topology

    def entry(self, phone: int) -> TopologyEntry:
        """Return the states of the HMM of a phone.

        Raises:
            FormatError: the topology does not have this phone.
        """
        if not 0 <= phone < len(self.entry_of) or self.entry_of[phone] < 0:
            raise FormatError(f"the topology has no phone {phone}: use the topology and the phones of the same model")
        return self.entries[self.entry_of[phone]]

    @cached_property
    def is_hmm(self) -> bool:
        """True if the self-loop of every state has the pdf-class of the other transitions, unlike in chain models."""
        states = (state for phone in self.phones for state in self.entry(phone))
        return all(state.forward_pdf_class == state.self_loop_pdf_class for state in states)

    def num_pdf_classes(self, phone: int) -> int:
        """Return the number of pdf-classes of a phone.

        Raises:
            FormatError: the topology does not have this phone.
        """
        return 1 + max(max(state.forward_pdf_class, state.self_loop_pdf_class, 0) for state in self.entry(phone))

    def min_length(self, phone: int) -> int:
        """Return the number of frames of the shortest path through the HMM of a phone.

        Raises:
            FormatError: the topology does not have this phone, or no path leads to the final state of the HMM.
        """
        entry = self.entry(phone)
        emits = [state.forward_pdf_class != NO_PDF for state in entry]
        lengths: list[float] = [float(emits[0]), *[float("inf")] * (len(entry) - 1)]
        for _ in entry:  # Bellman-Ford: a shortest path has at most one step per state.
            for state, length in zip(entry, tuple(lengths), strict=True):
                for target, _probability in state.transitions:
                    lengths[target] = min(lengths[target], length + emits[target])
        if lengths[-1] == float("inf"):
            raise FormatError(f"the HMM of phone {phone} has no path to its final state: add a transition")
        return int(lengths[-1])

    def check(self) -> None:
        """Check that each phone has a valid HMM.

        Raises:
            FormatError: the topology is empty, a phone has no HMM, or an HMM is invalid or belongs to no phone.
        """
        if not self.entries or not self.phones:
            raise FormatError("the topology is empty: add an entry for each phone")
        indices = {self.entry_of[phone] for phone in self.phones if 0 <= phone < len(self.entry_of)}
        if not indices <= set(range(len(self.entries))) or self.phones[-1] >= len(self.entry_of) or self.phones[0] < 0:
            raise FormatError("a phone of the topology has no HMM: add the phone to an entry")
        if set(self.entry_of) - {-1} != set(range(len(self.entries))):
            raise FormatError("an HMM of the topology has no phones: add phones, or remove the HMM")
        for entry in self.entries:
            _check_entry(entry)


def _check_entry(entry: TopologyEntry) -> None:
    """Raise FormatError if an HMM lacks an emitting or final state, or has invalid transitions or pdf-classes."""
    last = len(entry) - 1
    if last < 1:
        raise FormatError("an HMM needs an emitting state and a final state: add a state")
    if entry[last].transitions or entry[last].forward_pdf_class != NO_PDF:
        raise FormatError("the last state of an HMM is final, so it must not emit frames or have transitions")
    for number, state in enumerate(entry[:last]):
        _check_state(number, state, last)
    targets = {target for state in entry for target, _ in state.transitions}
    for number in range(1, last + 1):
        if number not in targets:
            raise FormatError(f"no transition leads to state {number} of an HMM: add a transition, or remove the state")
    emitting = [state for state in entry if state.forward_pdf_class != NO_PDF]
    classes = {index for state in emitting for index in (state.forward_pdf_class, state.self_loop_pdf_class)}
    if classes != set(range(len(classes))) or not classes:
        raise FormatError("the pdf-classes of an HMM must be consecutive integers from 0")


def _check_state(number: int, state: HmmState, final_state: int) -> None:
    """Raise FormatError if state ``number`` of an HMM is invalid. Warn if its probabilities do not sum to 1."""
    total = np.float32(0)
    for index, (target, double) in enumerate(state.transitions):
        with np.errstate(over="ignore"):  # As in Kaldi, probabilities and their sum are in single precision.
            probability = np.float32(double)
            total += probability
        transition = f"the transition from state {number} to state {target} of an HMM"
        if probability <= 0:
            raise FormatError(f"{transition} has the probability {double:.7g}: write a positive number")
        if not 0 <= target <= final_state:
            raise FormatError(
                f"{transition} leads to a state that does not exist, because the last state is {final_state}: "
                "correct the target"
            )
        if state.forward_pdf_class == NO_PDF and target == final_state:
            raise FormatError(
                f"{transition} enters the final state, but state {number} has no pdf and emits no frame: "
                "add a pdf to the state"
            )
        # Kaldi compares the target with the index of the transition, although the number of the state would be correct.
        if state.self_loop_pdf_class == NO_PDF and target == index:
            raise FormatError(f"{transition} is a self-loop of a state that emits no frames: remove the transition")
    if len({target for target, _ in state.transitions}) < len(state.transitions):
        raise FormatError(f"state {number} of an HMM has two transitions to the same state: merge the transitions")
    if not state.transitions:
        raise FormatError(f"state {number} of an HMM has no transitions, but is not the final state: add a transition")
    if abs(float(total) - 1) > 0.01:  # As in Kaldi, a wrong sum only causes a warning. The tolerance is Kaldi's.
        logger.warning("Total probability for state %d in topology entry is %g", number, total)
