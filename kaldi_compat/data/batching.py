"""Batches of utterances of unequal length: padding and collation."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data._utils.collate import default_collate_fn_map

from kaldi_compat.tensors.padding import pad, unpad

__all__ = [
    "ALIGNMENT_PADDING",
    "Batch",
    "Utterance",
    "collate",
    "pad",
    "unpad",
]

ALIGNMENT_PADDING = -100
"""Padding of labels and alignments; the default ``ignore_index`` of torch's losses."""


@dataclass(frozen=True)
class Utterance:
    """Utterance of a data set.

    Attributes:
        key: name of the utterance.
        input: features ``(frames, dim)``, or audio ``(samples,)``.
        speaker: its speaker, if the data set has a map of them.
        label: its label, if the data set has labels.
        alignment: integers ``(frames,)``, if the data set has alignments.
    """

    key: str
    input: Tensor
    speaker: str | None = None
    label: Any = None
    alignment: Tensor | None = None


@dataclass(frozen=True)
class Batch:
    """Batch of utterances as one padded tensor.

    Attributes:
        keys: names of the utterances.
        inputs: ``(B, longest, dim)`` features, or ``(B, longest)`` audio.
        lengths: ``(B,)``: number of frames or samples of each utterance.
        speakers: their speakers, or None.
        labels: ``(B,)`` for integers; ``(B, longest)``, padded with :data:`ALIGNMENT_PADDING`, for sequences of
            integers; a list for other labels; None if there are none.
        alignments: ``(B, longest)``, padded with :data:`ALIGNMENT_PADDING`, or None.
    """

    keys: list[str]
    inputs: Tensor
    lengths: Tensor
    speakers: list[str] | None = None
    labels: Any = None
    alignments: Tensor | None = None

    def __len__(self) -> int:
        return len(self.keys)

    def _map(self, function: Any) -> Batch:
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return Batch(**{name: function(v) if isinstance(v, Tensor) else v for name, v in values.items()})

    def pin_memory(self) -> Batch:
        """Return the batch in pinned memory. Called by ``DataLoader(pin_memory=True)``."""
        return self._map(Tensor.pin_memory)

    def to(self, device: torch.device | str) -> Batch:
        """Return the batch on a device; the copy from pinned memory is asynchronous."""
        return self._map(lambda tensor: tensor.to(device, non_blocking=True))


def collate(utterances: Sequence[Utterance], padding: float = 0.0) -> Batch:
    """Collate utterances into a :class:`Batch`: a ``collate_fn`` for ``DataLoader``.

    A ``DataLoader`` without ``collate_fn`` collates utterances the same way, with a padding of 0.

    >>> batch = collate([Utterance("a", torch.zeros(3, 2), label=1), Utterance("b", torch.zeros(5, 2), label=0)])
    >>> batch.inputs.shape, batch.lengths.tolist(), batch.labels.tolist()
    (torch.Size([2, 5, 2]), [3, 5], [1, 0])
    """
    inputs, lengths = pad([utterance.input for utterance in utterances], padding)
    speakers = [utterance.speaker for utterance in utterances]
    alignments = [utterance.alignment for utterance in utterances]
    return Batch(
        [utterance.key for utterance in utterances],
        inputs,
        lengths,
        speakers=None if None in speakers else speakers,  # type: ignore[arg-type]
        labels=_stacked([utterance.label for utterance in utterances]),
        alignments=None if None in alignments else pad(alignments, ALIGNMENT_PADDING)[0],  # type: ignore[arg-type]
    )


def _collate_by_default(utterances: Sequence[Utterance], *, collate_fn_map: object = None) -> Batch:
    return collate(utterances)


# torch's documentation of default_collate names this mapping as the place for types of one's own.
default_collate_fn_map[Utterance] = _collate_by_default


def _stacked(labels: list[Any]) -> Any:
    if all(label is None for label in labels):
        return None
    if all(isinstance(label, (int, np.integer)) for label in labels):
        return torch.tensor(labels)
    arrays = [
        torch.as_tensor(label) if isinstance(label, (list, tuple, np.ndarray, Tensor)) else None for label in labels
    ]
    if all(array is not None and array.ndim == 1 and not array.is_floating_point() for array in arrays):
        return pad(arrays, ALIGNMENT_PADDING)[0]  # type: ignore[arg-type]
    return labels
