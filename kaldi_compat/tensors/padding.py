"""Padding of tensors of unequal length to a batch, and back."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def pad(items: Sequence[Tensor], value: float = 0.0) -> tuple[Tensor, Tensor]:
    """Pad tensors of unequal length to one batch.

    Args:
        items: tensors ``(n_i, ...)``, of equal shape but for the first axis.
        value: the padding.

    Returns:
        The batch ``(items, longest, ...)`` and the lengths ``(items,)``.

    >>> pad([torch.tensor([1.0, 2.0]), torch.tensor([3.0])])
    (tensor([[1., 2.],
            [3., 0.]]), tensor([2, 1]))
    """
    lengths = torch.tensor([len(item) for item in items], dtype=torch.int64)
    return torch.nn.utils.rnn.pad_sequence(list(items), batch_first=True, padding_value=value), lengths


def unpad(batch: Tensor, lengths: Tensor) -> list[Tensor]:
    """Split a padded batch into its items, as views: the inverse of :func:`pad`.

    >>> unpad(torch.tensor([[1.0, 2.0], [3.0, 0.0]]), torch.tensor([2, 1]))
    [tensor([1., 2.]), tensor([3.])]
    """
    return [row[:length] for row, length in zip(batch, lengths.tolist(), strict=True)]
