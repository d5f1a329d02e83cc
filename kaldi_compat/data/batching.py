"""Batches of utterances of unequal length: padding, collation, and sampling by length."""

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
from torch.utils.data._utils.collate import default_collate_fn_map

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
"""Padding of labels and alignments; the default ``ignore_index`` of torch's losses."""

# Number of buckets that utterances are dealt to by length.
BUCKETS = 20


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


class BucketBatchSampler(Sampler[list[int]]):
    """Sampler of batches of utterances of similar length, which need little padding, distributed over ranks.

    Utterances are assigned to buckets by length and shuffled within them; the buckets are cut into batches, and the
    batches shuffled. The order follows from ``seed`` and the epoch, identically on every rank. All ranks get the same
    number of batches: the first few are repeated if needed, or the last few dropped with ``drop_last``.

    Args:
        lengths: length of each utterance, in frames or samples.
        batch_size: maximum number of utterances in a batch.
        max_length: maximum padded size of a batch: its longest utterance times its number of utterances. A longer
            utterance is a batch of its own.
        shuffle: False keeps batches in order of length, longest first, so that too little memory shows early.
        seed: of the shuffling.
        drop_last: leave out the incomplete batches of each bucket, and the batches that do not divide among the ranks.
        num_buckets: number of buckets.
        rank, world_size: of this process; from ``torch.distributed`` by default, if it is initialized.

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
            raise OptionError("pass a positive batch_size, a positive max_length, or both")
        self._lengths = np.asarray(lengths, np.int64)
        self._batch_size = batch_size or len(self._lengths) or 1
        self._max_length = max_length or int(self._batch_size * self._lengths.max(initial=1))
        self._shuffle, self._seed, self._drop_last = shuffle, seed, drop_last
        self._num_buckets = num_buckets if shuffle else 1
        self._rank, self._world_size = rank_and_world_size(rank, world_size)
        self._epoch = 0
        self._batches: list[list[int]] | None = None

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which determines the order of the following iterations."""
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
    """Return the rank of this process and the world size: as given, else from ``torch.distributed``, else (0, 1).

    Raises:
        OptionError: only one of them is given, or the rank is not less than the world size.
    """
    if (rank is None) != (world_size is None):
        raise OptionError("pass rank and world_size together, or neither")
    if rank is None or world_size is None:
        distributed = torch.distributed
        if not (distributed.is_available() and distributed.is_initialized()):
            return 0, 1
        return distributed.get_rank(), distributed.get_world_size()
    if not 0 <= rank < world_size:
        raise OptionError(f"rank={rank} must lie in 0 to {world_size - 1}")
    return rank, world_size
