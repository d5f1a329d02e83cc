"""Buffers of the past samples or frames of streams.

The position of each slot is counted in NumPy, so chunks on a GPU never make the CPU wait for the GPU.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

# Numbers of items or frames, shape (slots,).
Counts = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class History:
    """Buffer of the past items of each slot. An item is a sample or a frame.

    Items are addressed by their index from the start of the utterance.

    Attributes:
        start: index of the first past item, (slots,). It may exceed ``end``; items before it are then discarded on
            arrival.
        end: number of items received so far, (slots,).
    """

    def __init__(self, slots: int) -> None:
        self.start: Counts = np.zeros(slots, np.int64)
        self.end: Counts = np.zeros(slots, np.int64)
        self._items: Tensor | None = None  # (slots, width, ...): past items, then the latest chunk
        self._width = 0  # number of past items in the buffer
        self._seam: Counts = np.zeros(slots, np.int64)  # number of the latest chunk's first item

    def append(self, chunk: Tensor, lengths: Counts) -> None:
        """Append the first ``lengths`` items of ``chunk`` (slots, T, ...) to each slot."""
        self._width = 0 if self._items is None else self._items.shape[1]
        self._items = chunk if self._items is None else torch.cat((self._items, chunk), 1)
        self._seam = self.end
        self.end = self.end + lengths

    def to_column(self, counts: Counts) -> Tensor:
        """Return counts (slots,) as a column (slots, 1) on the items' device."""
        assert self._items is not None
        return torch.from_numpy(counts)[:, None].to(self._items.device, non_blocking=True)

    def number_items(self, first: Counts, count: int) -> Tensor:
        """Return ``count`` item numbers starting at ``first`` (slots,), on the items' device: (slots, count)."""
        column = self.to_column(first)
        return column + torch.arange(count, device=column.device)

    def get_items(self, numbers: Tensor) -> Tensor:
        """Return items by number: (slots, n) -> (slots, n, ...). The result for discarded items is undefined."""
        assert self._items is not None
        if self._items.shape[1] == 0:
            return self._items.new_zeros(*numbers.shape, *self._items.shape[2:])
        start, seam = self.to_column(self.start), self.to_column(self._seam)
        column = torch.where(numbers < seam, numbers - start, self._width + numbers - seam)
        column = column.clamp(0, self._items.shape[1] - 1)
        column = column.reshape(*column.shape, *[1] * (self._items.ndim - 2))
        return torch.take_along_dim(self._items, column, 1)

    def get_range(self, first: Counts, count: int) -> Tensor:
        """Return ``count`` items from ``first`` (slots,) on: (slots, count, ...). A view if all slots are aligned."""
        assert self._items is not None
        lengths = self._seam - self.start
        column = np.where(lengths == self._width, first - self.start, -1)
        column = np.where(first >= self._seam, self._width + first - self._seam, column)
        begin, end = (int(column.min()), int(column.max())) if len(column) else (0, 0)
        if begin == end and 0 <= begin <= self._items.shape[1] - count:
            return self._items[:, begin : begin + count]
        return self.get_items(self.number_items(first, count))

    def keep_from(self, start: Counts, ended: Flags) -> None:
        """Discard the items before ``start``, and all items of slots that have ended."""
        start, end = np.where(ended, 0, start), np.where(ended, 0, self.end)
        width = int((end - start).max(initial=0))
        self._items = self.get_range(start, width).clone() if width else None
        self.start, self.end = start, end
