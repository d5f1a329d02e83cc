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
    """Budget of an answer: the work that its search and its settling may do, and an upper bound on processor time.

    Settling chooses the options that the search leaves open, and completion tells certain options from guesses. Work is
    counted in units of about a microsecond of a processor core. When the search ends, reserves remain for settling,
    completion and the running computation. The first and third reserves grow with ``seconds_of_audio``. Results are
    repeatable, unless processor time ends a search first, as on a slow or busy machine.

    Attributes:
        units: units of work that were counted.
        is_exhausted: True if the search has used up its budget.
        is_slow: True if the processor time ended the search before the counted work.
    """

    def __init__(self, seconds_of_audio: float) -> None:
        # Each step takes longer for longer audio. All limits are seconds of the budget.
        settling_seconds = float(np.clip(0.1 * seconds_of_audio, 0.2, 1.3))
        finishing_seconds = float(np.clip(0.05 * seconds_of_audio, 0.25, 0.5))
        self.is_exhausted = self.is_slow = False
        self.units, self._calls, self._begin = 0.0, 0, time.thread_time()
        self._now = 0.0  # Last processor time, in seconds since the start, that was read from the clock.
        self._end_of_completion = THRESHOLDS.seconds - finishing_seconds
        self._end_of_settling = self._end_of_completion - THRESHOLDS.completing_seconds
        self._end_of_search = self._end_of_stage = self._end_of_settling - settling_seconds

    def begin_stage(self, seconds: float) -> None:
        """Begin a stage of the search. It ends after ``seconds`` of the budget, or earlier if the search ends."""
        self._end_of_stage = min(self._end_of_search, self._read_seconds() + seconds)

    def is_stage_over(self) -> bool:
        """Return True if the current stage or the whole search is over. At first, the whole search is one stage."""
        return self._read_seconds() > self._end_of_stage

    def is_search_over(self) -> bool:
        """Return True if the search has used up its budget, and update :attr:`is_exhausted` and :attr:`is_slow`."""
        is_over = self._read_seconds() > self._end_of_search
        self.is_slow |= is_over and self.units / THRESHOLDS.units_per_second <= self._end_of_search
        self.is_exhausted |= is_over
        return is_over

    def begin_completion(self) -> None:
        """Add the reserve for completion to the reserve that :meth:`is_settling_over` checks."""
        self._end_of_settling = self._end_of_completion

    def is_settling_over(self) -> bool:
        """Return True if the reserve for settling is used up."""
        self._calls = -1  # Let _read_seconds read the clock, because a slow step lies between two calls of this method.
        return self._read_seconds() > self._end_of_settling

    def limit(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield ``items`` until the reserve for settling is used up. The first item is always yielded."""
        for index, item in enumerate(items):
            if index and self.is_settling_over():
                return
            yield item

    def _read_seconds(self) -> float:
        """Return the larger of the counted work and the processor time since the start, both in seconds.

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


def charge_microseconds(microseconds: float) -> None:
    """Add work, about ``microseconds`` of a processor core, to the budget of this thread, if the thread has one."""
    if budget := _current.get():
        budget.units += microseconds
