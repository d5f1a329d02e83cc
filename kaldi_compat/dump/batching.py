"""Batching: group utterances that follow each other, and put results back into order."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from typing import Any

from kaldi_compat.dump.read import Entry, Failure, Utterance, UtteranceBlock


def count_of(entry: Entry) -> int:
    """Return how many utterances an entry has."""
    return len(entry) if isinstance(entry, UtteranceBlock) else 1


def seconds_of(entry: Entry) -> float:
    """Return the duration of an entry's audio in seconds."""
    if isinstance(entry, UtteranceBlock):
        return entry.seconds
    return entry.wave.duration if isinstance(entry, Utterance) else 0.0


def one_by_one(entries: Iterable[Entry]) -> Iterator[Utterance | Failure]:
    """Yield the utterances of blocks one by one, and other entries as they are."""
    for entry in entries:
        if isinstance(entry, UtteranceBlock):
            yield from entry.utterances()
        else:
            yield entry


def batches(entries: Iterable[Entry], most: int, seconds: float) -> Iterator[list[Entry]]:
    """Group entries that follow each other: at most ``most`` utterances, with at most ``seconds`` of audio, or one
    entry with more.

    Nothing is padded, so that lengths need not be similar, and results leave in the order of the list.
    """
    batch: list[Entry] = []
    utterances, total = 0, 0.0
    for entry in entries:
        count, length = count_of(entry), seconds_of(entry)
        if batch and (utterances + count > most or total + length > seconds):
            yield batch
            batch, utterances, total = [], 0, 0.0
        batch.append(entry)
        utterances += count
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
        self._waiting: list[tuple[int, int, Any]] = []

    def add(self, index: int, result: Any, count: int = 1) -> Iterator[Any]:
        """Add a result, which has ``count`` indices, and yield those that are next in order."""
        heapq.heappush(self._waiting, (index, count, result))
        while self._waiting and self._waiting[0][0] == self._next:
            _, count, result = heapq.heappop(self._waiting)
            self._next += count
            yield result
