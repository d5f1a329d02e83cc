"""Batching: group utterances, read one after the other, by similar lengths, and put the results back into order."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from kaldi_compat.dump.read import Utterance

__all__ = ["BATCHES_IN_WINDOW", "InOrder", "batches", "seconds_of", "windows"]

T = TypeVar("T")
# Batches per window, so that lengths within a batch are similar.
BATCHES_IN_WINDOW = 4


def seconds_of(utterance: Utterance) -> float:
    """Return the duration of an utterance's audio in seconds."""
    return utterance.wave.duration


def windows(entries: Iterable[T], most: int, seconds: float, weigh: Callable[[T], float]) -> Iterator[list[T]]:
    """Split entries into runs of at most ``most`` entries, each ended by the entry that brings it to ``seconds``.

    >>> list(windows([3, 1, 5, 2], most=2, seconds=4, weigh=float))
    [[3, 1], [5], [2]]
    """
    window: list[T] = []
    total = 0.0
    for entry in entries:
        window.append(entry)
        total += weigh(entry)
        if len(window) == most or total >= seconds:
            yield window
            window, total = [], 0.0
    if window:
        yield window


def batches(window: Iterable[Utterance], seconds: float) -> Iterator[list[Utterance]]:
    """Group a window's utterances by similar lengths, at most ``seconds`` in a batch (or one longer utterance alone).

    The order depends only on the utterances, so that a repeated run makes the same batches.
    """
    batch: list[Utterance] = []
    total = 0.0
    for utterance in sorted(window, key=lambda each: (seconds_of(each), each.index)):
        length = seconds_of(utterance)
        if batch and total + length > seconds:
            yield batch
            batch, total = [], 0.0
        batch.append(utterance)
        total += length
    if batch:
        yield batch


class InOrder:
    """Puts results back into the order of their indices, which start at 0 and have no gaps.

    >>> order = InOrder()
    >>> list(order.add(1, "b")), list(order.add(0, "a"))
    ([], ['a', 'b'])
    """

    def __init__(self) -> None:
        self._next = 0
        self._waiting: list[tuple[int, Any]] = []

    def add(self, index: int, result: Any) -> Iterator[Any]:
        """Add a result and yield those that are next in order."""
        heapq.heappush(self._waiting, (index, result))
        while self._waiting and self._waiting[0][0] == self._next:
            self._next += 1
            yield heapq.heappop(self._waiting)[1]
