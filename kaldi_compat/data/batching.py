"""Batches of utterances of unequal length: padding, what a batch holds, and which utterances go together."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import Sampler

from kaldi_compat.errors import OptionError

__all__ = [
    "ALIGNMENT_PADDING",
    "Batch",
    "BucketBatchSampler",
    "Utterance",
    "collate",
    "pad",
    "rank_and_world_size",
    "unpad",
]

ALIGNMENT_PADDING = -100
"""What pads labels and alignments: torch's losses ignore it by default."""

# Where a padded batch may hold so many frames, utterances are ordered by length within this many parts of the data.
BUCKETS = 20


def pad(items: Sequence[Tensor], value: float = 0.0) -> tuple[Tensor, Tensor]:
    """Tensors of unequal length as one.

    Args:
        items: tensors ``(n_i, ...)``, equal but for the first axis.
        value: what stands past an item's length.

    Returns:
        The batch ``(items, longest, ...)`` and the lengths ``(items,)``.

    >>> pad([torch.tensor([1.0, 2.0]), torch.tensor([3.0])])
    (tensor([[1., 2.],
            [3., 0.]]), tensor([2, 1]))
    """
    lengths = torch.tensor([len(item) for item in items], dtype=torch.int64)
    return torch.nn.utils.rnn.pad_sequence(list(items), batch_first=True, padding_value=value), lengths


def unpad(batch: Tensor, lengths: Tensor) -> list[Tensor]:
    """The items of a padded batch, as views of it: the inverse of :func:`pad`.

    >>> unpad(torch.tensor([[1.0, 2.0], [3.0, 0.0]]), torch.tensor([2, 1]))
    [tensor([1., 2.]), tensor([3.])]
    """
    return [row[:length] for row, length in zip(batch, lengths.tolist(), strict=True)]


@dataclass(frozen=True)
class Utterance:
    """One utterance of a data set.

    Attributes:
        key: its name.
        input: features ``(frames, dim)``, or audio ``(samples,)``.
        speaker: its speaker, where the data set has a map of them.
        label: its label, where the data set has labels.
        alignment: ``(frames,)`` integers, where the data set has alignments.
    """

    key: str
    input: Tensor
    speaker: str | None = None
    label: Any = None
    alignment: Tensor | None = None


@dataclass(frozen=True)
class Batch:
    """Utterances as one padded tensor.

    Attributes:
        keys: their names.
        inputs: ``(B, longest, dim)`` features, or ``(B, longest)`` audio.
        lengths: ``(B,)``: frames or samples of each.
        speakers: their speakers, where known.
        labels: ``(B,)`` where they are integers; ``(B, longest)``, padded with :data:`ALIGNMENT_PADDING`, where they
            are sequences of integers; a list of whatever else they are; None where there are none.
        alignments: ``(B, longest)``, padded likewise.
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
        """The batch in memory that a GPU can copy from by itself; what ``DataLoader(pin_memory=True)`` calls."""
        return self._map(Tensor.pin_memory)

    def to(self, device: torch.device | str) -> Batch:
        """The batch on a device; from pinned memory without waiting."""
        return self._map(lambda tensor: tensor.to(device, non_blocking=True))


def collate(utterances: Sequence[Utterance], padding: float = 0.0) -> Batch:
    """Utterances as a :class:`Batch`: the ``collate_fn`` of a ``DataLoader``.

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


class BucketBatchSampler(Sampler[list[int]]):
    """Batches of utterances of similar length, so that little is padding; for each rank its own.

    The utterances are dealt to buckets by length, shuffled within them, cut into batches, and the batches shuffled.
    All of it follows from ``seed`` and the epoch, on every rank alike. Every rank gets the same number of batches: the
    first few are given out a second time where they do not come out even, unless ``drop_last``.

    Args:
        lengths: length of each utterance, in frames or samples.
        batch_size: utterances in a batch at most.
        max_length: what a batch may come to, padded: its longest utterance times its number of utterances. A longer
            utterance is a batch of its own.
        shuffle: False keeps batches in order of length, the longest first (an early end where memory does not suffice).
        seed: of the shuffling.
        drop_last: leave out the incomplete batches of each bucket, and the batches that do not divide among the ranks.
        num_buckets: number of buckets.
        rank, world_size: of this process; asked from ``torch.distributed`` where it is initialized.

    Raises:
        OptionError: neither ``batch_size`` nor ``max_length`` is given, or one is not positive.

    >>> sampler = BucketBatchSampler([30, 10, 31, 11], batch_size=2, shuffle=False)
    >>> list(sampler)
    [[2, 0], [3, 1]]
    """

    def __init__(
        self,
        lengths: Sequence[int] | npt.NDArray[Any] | Tensor,
        *,
        batch_size: int | None = None,
        max_length: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        num_buckets: int = BUCKETS,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        if (batch_size is None and max_length is None) or (batch_size or 1) < 1 or (max_length or 1) < 1:
            raise OptionError("give a positive batch_size, or a positive max_length, or both")
        self._lengths = np.asarray(lengths, np.int64)
        self._batch_size = batch_size or len(self._lengths) or 1
        self._max_length = max_length or int(self._batch_size * self._lengths.max(initial=1))
        self._shuffle, self._seed, self._drop_last = shuffle, seed, drop_last
        self._num_buckets = num_buckets if shuffle else 1
        self._rank, self._world_size = rank_and_world_size(rank, world_size)
        self._epoch = 0
        self._batches: list[list[int]] | None = None

    def set_epoch(self, epoch: int) -> None:
        """Shuffle in another way from the next iteration on."""
        self._epoch = epoch
        self._batches = None

    def __iter__(self) -> Iterator[list[int]]:
        return iter(list(self._of_this_rank()))

    def __len__(self) -> int:
        return len(self._of_this_rank())

    def _of_this_rank(self) -> list[list[int]]:
        if self._batches is None:
            batches = self._all()
            over = len(batches) % self._world_size
            if over and self._drop_last:
                batches = batches[:-over]
            elif over:
                repeated = batches * (self._world_size // len(batches) + 1)
                batches = batches + repeated[: self._world_size - over]
            self._batches = batches[self._rank :: self._world_size]
        return self._batches

    def _all(self) -> list[list[int]]:
        rng = np.random.default_rng((self._seed, self._epoch))
        by_length = np.argsort(-self._lengths, kind="stable")
        batches: list[list[int]] = []
        for bucket in np.array_split(by_length, min(self._num_buckets, max(len(by_length), 1))):
            batches += self._cut(rng.permutation(bucket) if self._shuffle else bucket)
        if self._shuffle:
            batches = [batches[i] for i in rng.permutation(len(batches))]
        return batches

    def _cut(self, utterances: npt.NDArray[np.int64]) -> list[list[int]]:
        batches: list[list[int]] = []
        batch: list[int] = []
        longest = 0
        for utterance, length in zip(utterances.tolist(), self._lengths[utterances].tolist(), strict=True):
            longest = max(longest, length)
            if batch and (len(batch) == self._batch_size or longest * (len(batch) + 1) > self._max_length):
                batches.append(batch)
                batch, longest = [], length
            batch.append(utterance)
        full = len(batch) == self._batch_size or longest * (len(batch) + 1) > self._max_length
        if batch and (full or not self._drop_last):
            batches.append(batch)
        return batches


def rank_and_world_size(rank: int | None = None, world_size: int | None = None) -> tuple[int, int]:
    """Which process of how many this is: as given, or as ``torch.distributed`` says, or the only one.

    Raises:
        OptionError: only one of them is given, or the rank is none of that world.
    """
    if (rank is None) != (world_size is None):
        raise OptionError("give rank and world_size together, or neither")
    if rank is None or world_size is None:
        distributed = torch.distributed
        if not (distributed.is_available() and distributed.is_initialized()):
            return 0, 1
        return distributed.get_rank(), distributed.get_world_size()
    if not 0 <= rank < world_size:
        raise OptionError(f"rank {rank} is none of a world of {world_size}")
    return rank, world_size
