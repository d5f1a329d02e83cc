"""Count the work of an answer, so that a search ends at the same step on every machine."""

from __future__ import annotations

import contextvars
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

import numpy as np

from kaldi_explain.thresholds import THRESHOLDS

Item = TypeVar("Item")


class Budget:
    """Budget of an answer, in units of work that take about a microsecond of a processor core.

    The search ends first. Three reserves remain: for settling the answer, for completing it, and for finishing the
    current computation. The first and the last grow with ``seconds_of_audio``. The processor time of the thread is an
    upper bound, which only a slow or busy machine reaches. As long as counted work ends the search, results are
    repeatable.
    """

    def __init__(self, seconds_of_audio: float) -> None:
        settling_seconds = float(np.clip(0.1 * seconds_of_audio, 0.2, 1.3))
        answering_seconds = float(np.clip(0.05 * seconds_of_audio, 0.25, 0.5))
        self.is_exhausted = self.is_slow = False
        self.units, self._calls, self._begin = 0.0, 0, time.thread_time()
        self._now = 0.0  # Last processor time, in seconds since the start, that was read from the clock.
        self._end_of_completion = THRESHOLDS.seconds - answering_seconds
        self._end_of_settling = self._end_of_completion - THRESHOLDS.completing_seconds
        self._end_of_search = self._end_of_stage = self._end_of_settling - settling_seconds

    def charge(self, units: float) -> None:
        """Add ``units`` of work, about one for each microsecond of a processor core."""
        self.units += units

    def begin_stage(self, seconds: float) -> None:
        """Begin a stage of the search that may take ``seconds`` of the budget."""
        self._end_of_stage = min(self._end_of_search, self._read_seconds() + seconds)

    def is_stage_over(self) -> bool:
        """Return True if the stage has used its share of the budget."""
        return self._read_seconds() > self._end_of_stage

    def is_search_over(self) -> bool:
        """Return True if the search's budget is used up. Set ``is_exhausted``, and ``is_slow`` if time ran out."""
        is_over = self._read_seconds() > self._end_of_search
        self.is_slow |= is_over and self.units / THRESHOLDS.units_per_second <= self._end_of_search
        self.is_exhausted |= is_over
        return is_over

    def begin_completion(self) -> None:
        """Let the limit of settling include the reserve for completing the answer, which settling cannot use up."""
        self._end_of_settling = self._end_of_completion

    def is_settling_over(self) -> bool:
        """Return True if the reserve for settling is used up."""
        self._calls = -1  # Let _read_seconds read the clock, because a slow step lies between two calls of this method.
        return self._read_seconds() > self._end_of_settling

    def limit(self, computations: Iterable[Item]) -> Iterator[Item]:
        """Yield computations until the reserve for settling is used up. The first computation is always yielded."""
        for index, computation in enumerate(computations):
            if index and self.is_settling_over():
                return
            yield computation

    def _read_seconds(self) -> float:
        """Return the work or the processor time since the start in seconds, whichever is larger.

        Only every eighth call reads the clock, because reading it takes a millisecond on some machines.
        """
        self._calls += 1
        if self._calls % 8 == 0:
            self._now = time.thread_time() - self._begin
        return max(self._now, self.units / THRESHOLDS.units_per_second)


_current: contextvars.ContextVar[Budget | None] = contextvars.ContextVar("budget", default=None)


def use_budget(budget: Budget) -> None:
    """Charge all further work of this thread to ``budget``."""
    _current.set(budget)


def charge(units: float) -> None:
    """Charge units of work to the budget of the answer that is being computed, if there is one."""
    if budget := _current.get():
        budget.charge(units)
