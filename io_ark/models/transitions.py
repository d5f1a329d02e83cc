"""Transition models, which define the transition-ids of alignments.

Source: Kaldi's ``src/hmm/transition-model.h`` and ``transition-model.cc``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from io_ark.codecs.base import register_kind
from io_ark.errors import FormatError
from io_ark.libm import logf
from io_ark.logs import logger
from io_ark.models.topology import HmmState, HmmTopology

Integers = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]


class Maps(NamedTuple):
    """Arrays of shape (transition-ids + 1,) with the properties of each transition-id. Index 0 is unused.

    Attributes:
        state: transition-state.
        place: index among the transitions of the state.
        target: number of the HMM state that the transition leads to.
        is_self_loop: True for self-loops.
        is_final: True for transitions to the final state.
        pdf: pdf of the transition.
    """

    state: Integers
    place: Integers
    target: Integers
    is_self_loop: Mask
    is_final: Mask
    pdf: Integers


@register_kind("transition-model")
@dataclass(frozen=True, eq=False, repr=False)
class TransitionModel:
    """Transition model. Two models are equal if all attributes are equal.

    The methods that map transition-ids take an array of any shape and return an array of the same shape.

    Attributes:
        topology: the HMM of each phone.
        tuples: int32 of shape (states, 4): phone, state of its HMM, forward pdf and self-loop pdf of each
            transition-state, in ascending order.
        log_probs: float32 of shape (transition-ids + 1,): log-probability of each transition. Index 0 is unused.

    >>> from io_ark.models import HmmState, HmmTopology, TransitionModel
    >>> states = (HmmState(0, 0, ((0, 0.75), (1, 0.25))), HmmState())  # A self-loop, and a transition to the end.
    >>> model = TransitionModel.of(HmmTopology.of({1: states, 2: states}), [(1, 0, 0, 0), (2, 0, 1, 1)])
    >>> model.phones([1, 2, 3, 4]).tolist(), model.are_self_loops([1, 2, 3, 4]).tolist()
    ([1, 1, 2, 2], [True, False, True, False])
    """

    topology: HmmTopology
    tuples: Integers
    log_probs: npt.NDArray[np.float32]

    @classmethod
    def of(cls, topology: HmmTopology, tuples: Iterable[tuple[int, int, int, int]]) -> TransitionModel:
        """Create a model with the transition probabilities of a topology.

        Args:
            topology: HMM of each phone.
            tuples: phone, HMM state, forward pdf and self-loop pdf of each transition-state, in any order.

        Raises:
            FormatError: a tuple is not a state of the topology, a probability is above 1, or there are no transitions.
        """
        states = np.array(sorted(set(tuples)), np.int32).reshape(-1, 4)
        hmm_states = cls(topology, states, np.zeros(1, np.float32))._hmm_states
        probabilities = [probability for state in hmm_states for _, probability in state.transitions]
        log_probs = logf([1.0, *probabilities])  # Index 0 is unused.
        model = cls(topology, states, log_probs)
        model.check()
        return model

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TransitionModel):
            return NotImplemented
        arrays = (self.tuples, other.tuples), (self.log_probs, other.log_probs)
        return self.topology == other.topology and all(np.array_equal(*pair) for pair in arrays)

    def __hash__(self) -> int:
        return hash((self.topology, self.tuples.tobytes()))

    def __repr__(self) -> str:
        return f"TransitionModel(num_transition_ids={self.num_transition_ids}, num_pdfs={self.num_pdfs})"

    @cached_property
    def _hmm_states(self) -> list[HmmState]:
        """HMM state of each transition-state. Raises FormatError if the topology lacks a state."""
        entries = {phone: self.topology.entry(phone) for phone in np.unique(self.tuples[:, 0]).tolist()}
        try:
            if len(self.tuples) and self.tuples[:, 1].min() < 0:
                raise IndexError  # A negative number would count from the last state.
            return [entries[phone][state] for phone, state in self.tuples[:, :2].tolist()]
        except IndexError:
            raise FormatError(
                "a state of the transition model is not in the topology of the model: "
                "use the topology with which the model was trained"
            ) from None

    @cached_property
    def first_ids(self) -> Integers:
        """First transition-id of each transition-state, as an array of shape (states + 2,).

        Index 0 is unused, because states count from 1. The last element is the number of transition-ids plus 1.
        """
        counts = [0, 1, *(len(state.transitions) for state in self._hmm_states)]
        return np.cumsum(counts, dtype=np.int32)

    @cached_property
    def maps(self) -> Maps:
        """Properties of each transition-id, as arrays."""
        states = self._hmm_states
        counts = [len(state.transitions) for state in states]
        state = np.repeat(np.arange(len(states) + 1, dtype=np.int32), [1, *counts])
        index = np.arange(len(state), dtype=np.int32) - self.first_ids[state]
        target = np.array([0, *(number for hmm_state in states for number, _ in hmm_state.transitions)], np.int32)
        final_of_phone = {phone: len(self.topology.entry(phone)) - 1 for phone in np.unique(self.tuples[:, 0]).tolist()}
        final = np.array([0, *(final_of_phone[phone] for phone in self.tuples[:, 0].tolist())], np.int32)
        tuples = np.concatenate((np.zeros((1, 4), np.int32), self.tuples))  # The first row is for the unused state 0.
        is_self_loop = target == tuples[state, 1]
        is_final = target == final[state]
        is_self_loop[0] = is_final[0] = False
        pdf = np.where(is_self_loop, tuples[state, 3], tuples[state, 2])
        return Maps(state, index, target, is_self_loop, is_final, pdf)

    @property
    def num_transition_ids(self) -> int:
        """Number of transition-ids, which are numbered from 1."""
        return int(self.first_ids[-1]) - 1

    @property
    def num_transition_states(self) -> int:
        """Number of transition-states, which are numbered from 1."""
        return len(self.tuples)

    @cached_property
    def num_pdfs(self) -> int:
        """Number of pdfs: the largest pdf plus one."""
        return int(self.tuples[:, 2:].max(initial=-1)) + 1

    @property
    def is_hmm(self) -> bool:
        """True if each state has one pdf, unlike in chain models."""
        return self.topology.is_hmm

    def check_ids(self, ids: npt.ArrayLike, minimum: int = 1) -> npt.NDArray[np.int64]:
        """Return ``ids`` as an int64 array, after checking that they are transition-ids.

        Raises:
            FormatError: an integer is below ``minimum``, or greater than the largest transition-id of this model.
        """
        array = np.asarray(ids, np.int64)
        if array.size and not minimum <= array.min() <= array.max() <= self.num_transition_ids:
            invalid = array[(array < minimum) | (array > self.num_transition_ids)]
            raise FormatError(
                f"{invalid[0]} is not a transition-id of the model, which has 1 to {self.num_transition_ids}: "
                "check that the model belongs to the alignments"
            )
        return array

    def states(self, ids: npt.ArrayLike) -> Integers:
        """Return the transition-state of each transition-id in ``ids``.

        Raises:
            FormatError: an integer is not a transition-id of this model.
        """
        return self.maps.state[self.check_ids(ids)]

    def phones(self, ids: npt.ArrayLike) -> Integers:
        """Return the phone of each transition-id in ``ids``.

        Raises:
            FormatError: an integer is not a transition-id of this model.
        """
        phones: Integers = self.tuples[self.states(ids) - 1, 0]
        return phones

    def pdfs(self, ids: npt.ArrayLike) -> Integers:
        """Return the pdf of each transition-id in ``ids``. As in Kaldi, 0 gives pdf 0.

        Raises:
            FormatError: an integer is neither 0 nor a transition-id of this model.
        """
        return self.maps.pdf[self.check_ids(ids, minimum=0)]

    def indices(self, ids: npt.ArrayLike) -> Integers:
        """Return the index of each transition-id in ``ids`` among the transitions of its state.

        Raises:
            FormatError: an integer is not a transition-id of this model.
        """
        return self.maps.place[self.check_ids(ids)]

    def targets(self, ids: npt.ArrayLike) -> Integers:
        """Return the number of the HMM state to which each transition-id in ``ids`` leads.

        Raises:
            FormatError: an integer is not a transition-id of this model.
        """
        return self.maps.target[self.check_ids(ids)]

    def are_self_loops(self, ids: npt.ArrayLike) -> Mask:
        """Return a bool array of the shape of ``ids``: True for transition-ids of self-loops, False for others.

        Raises:
            FormatError: an integer is not a transition-id of this model.
        """
        return self.maps.is_self_loop[self.check_ids(ids)]

    def pdf_classes(self, state: int) -> tuple[int, int]:
        """Return the forward and the self-loop pdf-class of transition-state ``state``. States count from 1."""
        hmm_state = self._hmm_states[state - 1]
        return hmm_state.forward_pdf_class, hmm_state.self_loop_pdf_class

    def states_of(self, tuples: npt.NDArray[np.integer[Any]]) -> Integers:
        """Return the transition-states (...) of ``tuples`` (..., 4), which have the columns of ``self.tuples``.

        Transition-states are counted from 1.

        Raises:
            FormatError: the model has no state for a tuple.
        """
        # Encode a tuple as one integer with a digit for each column. The codes of self.tuples ascend, because the rows
        # are sorted, so a binary search finds a tuple.
        bases = self.tuples.max(axis=0).astype(np.int64) + 1
        weights = np.cumprod(np.append(1, bases[:0:-1]))[::-1]
        codes = self.tuples @ weights
        indices = np.searchsorted(codes, tuples @ weights)
        candidates = self.tuples[np.minimum(indices, len(codes) - 1)]
        missing = tuples[(candidates != tuples).any(axis=-1)]
        if len(missing):
            phone, hmm_state, forward_pdf, self_loop_pdf = missing[0].tolist()
            raise FormatError(
                f"the transition model has no state for phone {phone}, HMM state {hmm_state}, pdfs {forward_pdf} and "
                f"{self_loop_pdf}: check that the model and the tree belong together"
            )
        return (indices + 1).astype(np.int32)

    def non_self_loop_log_probs(self) -> npt.NDArray[np.float32]:
        """Return an array of shape (states + 1,) with the log-probability of leaving each transition-state.

        Index 0 is unused. The probability of leaving a state without a self-loop is 1. If a self-loop has a probability
        of 1 or more, the probability of leaving is 1e-10, and Kaldi's warning is logged.
        """
        maps = self.maps
        loops = np.flatnonzero(maps.is_self_loop)
        # NumPy's float32 exponential is too far from C's expf(): it rounds some probabilities below 1 to 1.
        leaving_probs = np.float32(1) - np.exp(self.log_probs[loops], dtype=np.float64).astype(np.float32)
        for probability in leaving_probs[leaving_probs <= 0].tolist():
            logger.warning("ComputeDerivedOfProbs(): non-self-loop prob is %g", probability)
        result = np.zeros(self.num_transition_states + 1, np.float32)
        result[maps.state[loops]] = logf(np.where(leaving_probs <= 0, np.float32(1e-10), leaving_probs))
        return result

    def check(self) -> None:
        """Raise FormatError for an invalid model. A self-loop with a probability of 1 or more only causes a warning.

        A model is invalid if it has no transitions, if its states are unsorted, repeated or not in the topology, or if
        its log-probabilities are incomplete, positive or not finite.
        """
        count = self.num_transition_ids
        if count == 0:
            raise FormatError("the transition model has no transitions: use a complete model")
        if len(self.log_probs) <= count:
            raise FormatError(
                f"the transition model has {count} transition-ids, but only {len(self.log_probs) - 1} log-probs: use a "
                "complete model"
            )
        states = self.tuples.tolist()
        if any(state > following for state, following in pairwise(states)):
            raise FormatError("the states of the transition model are not in ascending order: sort the states")
        if repeated := [state for state, following in pairwise(states) if state == following]:
            phone, hmm_state, *_ = repeated[0]
            state_name = f"state {hmm_state} of phone {phone}"
            raise FormatError(f"the transition model has {state_name} twice with the same pdfs: remove the copy")
        log_probs = self.log_probs[1 : count + 1]
        if not (np.isfinite(log_probs) & (log_probs <= 0)).all():
            raise FormatError(
                "a log-probability of the transition model is positive or not finite: "
                "use the logarithms of probabilities"
            )
        self.non_self_loop_log_probs()  # This logs the warning about self-loops that Kaldi logs for a model.
