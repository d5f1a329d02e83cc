"""Buffer of the past samples or frames of a stream.

The positions of the slots are NumPy arrays, so that the CPU does not wait for chunks on a GPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from io_ark.text import format_count
from kaldi_compat.errors import AudioError

Counts = npt.NDArray[np.int64]  # (slots,): number of items or frames of each slot.
Flags = npt.NDArray[np.bool_]  # (slots,): a flag for each slot.


class History:
    """Buffer of the past items, samples or frames, of the current utterance of each slot.

    The index of an item counts from the start of the utterance.

    Attributes:
        start: (slots,): index of the first stored item. Items that arrive before this index are discarded.
        end: (slots,): number of items received so far.
    """

    def __init__(self, slots: int) -> None:
        self.start: Counts = np.zeros(slots, np.int64)
        self.end: Counts = np.zeros(slots, np.int64)
        self._items: Tensor | None = None  # (slots, width, ...): items of earlier chunks, then the latest chunk.
        self._width = 0  # Number of columns of _items before the latest chunk.
        self._seam: Counts = np.zeros(slots, np.int64)  # Index of the latest chunk's first item.

    def save(self) -> dict[str, Any]:
        """Return the state for :meth:`restore`. Tensors and arrays are not copied, because no method changes them."""
        return vars(self).copy()

    def restore(self, state: dict[str, Any]) -> None:
        """Return to an earlier state."""
        vars(self).update(state)

    def append(self, chunk: Tensor, lengths: Counts) -> None:
        """Append ``chunk`` (slots, T, ...), of which the first ``lengths[i]`` items are valid in slot i.

        Raise AudioError if the items have another shape than earlier items.
        """
        if self._items is not None and self._items.shape[2:] != chunk.shape[2:]:
            old, new = (format_count(items.shape[-1], "column") for items in (self._items, chunk))
            raise AudioError(f"the frames have {new}, but earlier frames of the utterance have {old}")
        self._width = 0 if self._items is None else self._items.shape[1]
        self._items = chunk if self._items is None else torch.cat((self._items, chunk), 1)
        self._seam = self.end
        self.end = self.end + lengths

    def to_column(self, counts: Counts) -> Tensor:
        """Convert counts (slots,) to a tensor (slots, 1) on the device of the items."""
        assert self._items is not None
        return torch.from_numpy(counts)[:, None].to(self._items.device, non_blocking=True)

    def list_indices(self, first: Counts, count: int) -> Tensor:
        """Return the indices of ``count`` items from index ``first`` (slots,) on, as a tensor (slots, count)."""
        column = self.to_column(first)
        return column + torch.arange(count, device=column.device)

    def get_items(self, indices: Tensor) -> Tensor:
        """Return the items (slots, n, ...) with the indices ``indices`` (slots, n). Discarded items have any value."""
        assert self._items is not None
        if self._items.shape[1] == 0:
            return self._items.new_zeros(*indices.shape, *self._items.shape[2:])
        start, seam = self.to_column(self.start), self.to_column(self._seam)
        # Column 0 of _items has the item ``start``, and column _width has the item ``seam``.
        column = torch.where(indices < seam, indices - start, self._width + indices - seam)
        column = column.clamp(0, self._items.shape[1] - 1)
        column = column.reshape(*column.shape, *[1] * (self._items.ndim - 2))
        return torch.take_along_dim(self._items, column, 1)

    def get_range(self, first: Counts, count: int) -> Tensor:
        """Return ``count`` items from index ``first`` (slots,) on, (slots, count, ...), if possible as a view."""
        assert self._items is not None
        lengths = self._seam - self.start
        column = np.where(lengths == self._width, first - self.start, -1)
        column = np.where(first >= self._seam, self._width + first - self._seam, column)
        # A view needs the same start column in all slots. -1 marks slots with a gap between old and new items.
        lowest, highest = (int(column.min()), int(column.max())) if len(column) else (0, 0)
        if lowest == highest and 0 <= lowest <= self._items.shape[1] - count:
            return self._items[:, lowest : lowest + count]
        return self.get_items(self.list_indices(first, count))

    def discard_before(self, start: Counts, ended: Flags) -> None:
        """Discard the items before index ``start`` (slots,). Empty the slots where ``ended`` (slots,) is True."""
        start, end = np.where(ended, 0, start), np.where(ended, 0, self.end)
        width = int((end - start).max(initial=0))
        self._items = self.get_range(start, width).clone() if width else None
        self.start, self.end = start, end
