"""Batching: group utterances that follow each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kaldi_compat.dump.entries import Entry


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
