"""Batching: group utterances that follow each other, and put results back into order."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from typing import Any

from kaldi_compat.dump.read import Failure, Utterance

__all__ = ["InOrder", "batches", "seconds_of"]


def seconds_of(entry: Utterance | Failure) -> float:
    """Return the duration of an utterance's audio in seconds."""
    return entry.wave.duration if isinstance(entry, Utterance) else 0.0


def batches(entries: Iterable[Utterance | Failure], most: int, seconds: float) -> Iterator[list[Utterance | Failure]]:
    """Group entries that follow each other: at most ``most``, with at most ``seconds`` of audio, or one that is longer.

    Nothing is padded, so that lengths need not be similar, and results leave in the order of the list.
    """
    batch: list[Utterance | Failure] = []
    total = 0.0
    for entry in entries:
        length = seconds_of(entry)
        if batch and (len(batch) == most or total + length > seconds):
            yield batch
            batch, total = [], 0.0
        batch.append(entry)
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
