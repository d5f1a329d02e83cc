"""A histogram of numbers that arrive in parts, over a range that is not known before."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

BINS = 2048


class Histogram:
    """Exact counts in bins of equal width, which doubles as often as the range of the values demands.

    >>> histogram = Histogram()
    >>> histogram.add(np.array([0.0, 1.0, 1.0]))
    >>> histogram.add(np.array([2.0, np.nan]))
    >>> histogram.summary(2)
    ([1, 3], [0.0, 1.0, 2.0])
    """

    def __init__(self) -> None:
        self.low = self.width = 0.0
        self.smallest, self.largest = np.inf, -np.inf
        self.counts = np.zeros(BINS, np.int64)

    def add(self, values: npt.NDArray[Any]) -> None:
        """Add values; those that are not finite are left out."""
        values = values[np.isfinite(values)].astype(np.float64).ravel()
        if not values.size:
            return
        first = not self.counts.any()
        self.smallest, self.largest = min(self.smallest, values.min()), max(self.largest, values.max())
        if first:
            self.width = max((self.largest - self.smallest) / (BINS - 1), np.spacing(abs(self.smallest)) * 2, 1e-300)
            self.low = float(self.smallest)
        while self.smallest < self.low:
            self._double(upwards=False)
        while self.largest >= self.low + BINS * self.width:
            self._double(upwards=True)
        bins = ((values - self.low) / self.width).astype(np.int64).clip(0, BINS - 1)
        self.counts += np.bincount(bins, minlength=BINS)

    def _double(self, upwards: bool) -> None:
        pairs = self.counts.reshape(-1, 2).sum(axis=1)
        empty = np.zeros(BINS // 2, np.int64)
        if not upwards:
            self.low -= BINS * self.width
        self.counts = np.concatenate((pairs, empty) if upwards else (empty, pairs))
        self.width *= 2

    def summary(self, bins: int) -> tuple[list[int], list[float]]:
        """Return counts and edges of fewer bins between the smallest and the largest value; ([], []) without values.

        Values are counted in the bin of the middle of their narrow bin.
        """
        if not self.counts.any():
            return [], []
        if self.smallest == self.largest:
            return [int(self.counts.sum())], [float(self.smallest), float(self.largest)]
        middles = self.low + (np.arange(BINS) + 0.5) * self.width
        edges = np.linspace(self.smallest, self.largest, bins + 1)
        counts, _ = np.histogram(middles.clip(self.smallest, self.largest), edges, weights=self.counts)
        return counts.astype(int).tolist(), edges.tolist()
