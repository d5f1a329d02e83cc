"""Batching: group utterances that follow each other, and put results back into order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kaldi_compat.dump.entries import Entry, Result


def batches(entries: Iterable[Entry], most: int, seconds: float) -> Iterator[list[Entry]]:
    """Group entries that follow each other: at most ``most`` utterances, with at most ``seconds`` of audio, or one
    entry with more.

    Nothing is padded, so that lengths need not be similar, and results leave in the order of the list.
    """
    batch: list[Entry] = []
    utterances, total = 0, 0.0
    for entry in entries:
        count, length = len(entry), entry.seconds
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

    >>> from kaldi_compat.dump.entries import Failure
    >>> order = InOrder()
    >>> list(order.add(Failure(1, "b", ""))), [each.key for each in order.add(Failure(0, "a", ""))]
    ([], ['a', 'b'])
    """

    def __init__(self) -> None:
        self._next = 0
        self._waiting: dict[int, Result] = {}

    def add(self, result: Result) -> Iterator[Result]:
        """Add a result, and yield those that are next in order."""
        self._waiting[result.index] = result
        while (found := self._waiting.pop(self._next, None)) is not None:
            self._next += len(found)
            yield found
