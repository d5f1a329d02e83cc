"""Statistics of the numbers in a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from io_ark.cli.entries import Entry
from io_ark.cli.histogram import Histogram


@dataclass
class Statistics:
    """Statistics of a table, accumulated entry by entry.

    Attributes:
        entries: number of entries read.
        failed: number of unreadable entries.
        stored: number of entries in each storage format.
        lengths: rows of each matrix, elements of each vector, samples of each wave.
        seconds: total duration of audio.
        moments: moments of each column, by number of columns.
        values: histogram of all finite values.
    """

    entries: int = 0
    failed: int = 0
    stored: Counter[str] = field(default_factory=Counter)
    lengths: list[int] = field(default_factory=list)
    seconds: float = 0.0
    moments: dict[int, Moments] = field(default_factory=dict)
    values: Histogram = field(default_factory=Histogram)

    def add(self, entry: Entry) -> None:
        """Add an entry."""
        if entry.error is not None:
            self.failed += 1
            return
        self.entries += 1
        self.stored[entry.stored] += 1
        if entry.shape:
            self.lengths.append(entry.shape[-1] if hasattr(entry.value, "duration") else entry.shape[0])
        self.seconds += getattr(entry.value, "duration", 0.0)
        numbers = entry.numbers
        if numbers is None or not numbers.size:
            return
        rows = numbers.T if hasattr(entry.value, "duration") else numbers
        rows = rows if rows.ndim == 2 else rows.reshape(-1, 1)
        self.moments.setdefault(rows.shape[1], Moments(rows.shape[1])).add(rows)
        self.values.add(rows)

    def as_object(self, bins: int) -> dict[str, Any]:
        """Return the statistics as an object of JSON, with a histogram of this many bins."""
        counts, edges = self.values.summary(bins)
        return {
            "entries": self.entries,
            "unreadable": self.failed,
            "stored": dict(self.stored),
            "seconds": self.seconds,
            "lengths": {
                "total": sum(self.lengths),
                "smallest": min(self.lengths, default=0),
                "largest": max(self.lengths, default=0),
            },
            "columns": {
                str(columns): {
                    "mean": moments.mean,
                    "deviation": moments.deviation,
                    "min": moments.low,
                    "max": moments.high,
                    "nan": moments.nan,
                    "infinite": moments.infinite,
                    "constant": moments.constant,
                }
                for columns, moments in sorted(self.moments.items())
            },
            "histogram": {"counts": counts, "edges": edges},
        }


class Moments:
    """Count, mean, variance, minimum and maximum of the finite values of each column; numbers of the others."""

    def __init__(self, columns: int) -> None:
        self.count = np.zeros(columns)
        self.mean = np.zeros(columns)
        self.squares = np.zeros(columns)  # of deviations from the mean, summed
        self.nan = np.zeros(columns, np.int64)
        self.infinite = np.zeros(columns, np.int64)
        self.low = np.full(columns, np.inf)
        self.high = np.full(columns, -np.inf)

    def add(self, rows: np.ndarray[Any, Any]) -> None:
        """Add an array of shape (rows, columns), by the pairwise update of Chan, Golub and LeVeque (1979)."""
        values = rows.astype(np.float64)
        good = np.isfinite(values)
        count = good.sum(axis=0)
        some = np.maximum(count, 1)
        mean = np.where(good, values, 0).sum(axis=0) / some
        squares = (np.where(good, values - mean, 0) ** 2).sum(axis=0)
        total = np.maximum(self.count + count, 1)
        step = mean - self.mean
        self.squares += squares + step**2 * self.count * count / total
        self.mean += step * count / total
        self.count += count
        self.nan += np.isnan(values).sum(axis=0)
        self.infinite += np.isinf(values).sum(axis=0)
        self.low = np.minimum(self.low, np.where(good, values, np.inf).min(axis=0))
        self.high = np.maximum(self.high, np.where(good, values, -np.inf).max(axis=0))

    @property
    def constant(self) -> list[int]:
        """Columns with several values that are all the same."""
        return [int(column) for column in np.flatnonzero((self.low == self.high) & (self.count > 1))]

    @property
    def deviation(self) -> np.ndarray[Any, Any]:
        """Standard deviation of each column."""
        return np.asarray(np.sqrt(self.squares / np.maximum(self.count, 1)))


def statistics(entries: Iterable[Entry]) -> Statistics:
    """Compute the statistics of all entries."""
    found = Statistics()
    for entry in entries:
        found.add(entry)
    return found
