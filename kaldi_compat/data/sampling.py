"""Sampling of batches of utterances of similar length, distributed over ranks, that can be resumed."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import Sampler

from kaldi_compat.errors import OptionError

__all__ = ["BucketBatchSampler", "SamplerState", "rank_and_world_size"]

Indices = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.integer] | npt.NDArray[np.floating]

BUCKETS = 30
"""Number of buckets of long data."""

# A bucket holds at least so many whole batches, if there are as many: else epochs would have the same batches.
_BATCHES_PER_BUCKET = 2
# Small data are cut into so many times as many batches as would be full, because that saves much padding.
_MORE_BATCHES = 1.5

_LARGEST_RATIO = 1e6  # of lengths: there are empty utterances


class SamplerState(TypedDict):
    """Position in an epoch, which can be written as JSON.

    Attributes:
        epoch: the epoch.
        batches: number of its batches that are done.
        seed: of the shuffling.
        data: what else determines the batches, to refuse another sampler's state.
    """

    epoch: int
    batches: int
    seed: int
    data: list[float | None]


class _Plan(NamedTuple):
    """Batches of an epoch: batch ``i`` is ``utterances[starts[i] : ends[i]]``."""

    utterances: Indices
    starts: Indices
    ends: Indices

    def take(self, batches: Indices) -> _Plan:
        return _Plan(self.utterances, self.starts[batches], self.ends[batches])


class BucketBatchSampler(Sampler[list[int]]):
    """Sampler of batches of utterances of similar length, which need little padding, distributed over ranks.

    Utterances are assigned to buckets by length, so that padding is least, and shuffled within them. Each bucket is cut
    into batches; what is left over goes to the next bucket, so that only one batch of an epoch is incomplete. Only if
    the limit is a padded size alone, without ``drop_last``, small data have up to 1.5 times as many batches as would be
    full, one for each bucket, because full ones would be padded much more. Ranks get batches of similar size at the
    same time. The order follows from ``seed`` and the epoch, identically on every rank: call :meth:`set_epoch` before
    each epoch.

    All ranks get the same number of batches, and every utterance comes once an epoch: large batches are split to make
    up the number, or with ``drop_last`` the last few are dropped. Only if there are fewer utterances than the number
    needs, some batches come twice.

    Args:
        lengths: length of each utterance, in frames, samples or seconds.
        batch_size: maximum number of utterances in a batch.
        max_frames: maximum padded size of a batch: its longest utterance times its number of utterances, in the unit of
            ``lengths``. A longer utterance is a batch of its own.
        max_seconds: the same in seconds.
        sample_frequency: number of units of ``lengths`` in a second, for ``max_seconds``: the sampling rate for lengths
            in samples; 1, the default, for lengths in seconds.
        shuffle: False keeps batches in order of length, longest first, so that too little memory shows early.
        seed: of the shuffling.
        drop_last: leave out the incomplete batch, and the batches that do not divide among the ranks.
        num_buckets: maximum number of buckets; there are fewer if there are few batches. Fewer buckets mix the
            utterances of small data more from epoch to epoch, and pad them more.
        rank, world_size: of this process; from ``torch.distributed`` by default, if it is initialized.

    Raises:
        OptionError: no limit is given, or one is not positive; a length is negative or not a number; or there is no
            batch.

    >>> from kaldi_compat import BucketBatchSampler
    >>> sampler = BucketBatchSampler([30, 10, 31, 11], batch_size=2, shuffle=False)
    >>> list(sampler)
    [[2, 0], [3, 1]]
    >>> list(BucketBatchSampler([3.0, 1.0, 3.1, 1.1], max_seconds=5.0, shuffle=False))
    [[2], [0], [3, 1]]
    """

    def __init__(
        self,
        lengths: Sequence[float] | Numbers | Tensor,
        *,
        batch_size: int | None = None,
        max_frames: float | None = None,
        max_seconds: float | None = None,
        sample_frequency: float = 1.0,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        num_buckets: int = BUCKETS,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        limits = {"batch_size": batch_size, "max_frames": max_frames, "max_seconds": max_seconds}
        given = {name: limit for name, limit in limits.items() if limit is not None}
        if not given:
            raise OptionError("pass batch_size, max_frames or max_seconds: the maximum size of a batch")
        given |= {"sample_frequency": sample_frequency, "num_buckets": num_buckets}
        for name, limit in given.items():
            if not limit > 0:
                raise OptionError(f"{name}={limit} must be positive")
        self._lengths = _checked_lengths(lengths)
        sizes = [limit for limit in (max_frames, max_seconds and max_seconds * sample_frequency) if limit is not None]
        self._batch_size, self._max_size = batch_size, min(sizes, default=None)
        self._shuffle, self._seed, self._drop_last = shuffle, seed, drop_last
        self._fills_batches = drop_last or batch_size is not None
        self._rank, self._world_size = rank_and_world_size(rank, world_size)
        self._buckets = self._make_buckets(num_buckets if shuffle else 1)
        self._epoch = 0
        self._given_out = 0  # batches of the epoch that the latest iteration has returned
        self._resume_at = 0  # the batch that the next iteration starts with
        self._plan = self._plan_of_this_rank()

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which determines the order of the following iterations."""
        if epoch == self._epoch:  # may have been resumed in the middle
            return
        self._epoch, self._given_out, self._resume_at = epoch, 0, 0
        self._plan = self._plan_of_this_rank()

    def __iter__(self) -> Iterator[list[int]]:
        return _Batches(self, self._resume_at)

    def __len__(self) -> int:
        return len(self._plan.starts)

    def __repr__(self) -> str:
        ranks = f", rank {self._rank} of {self._world_size}" if self._world_size > 1 else ""
        limits = (
            self._batch_size is not None and f"{self._batch_size} utterances",
            self._max_size is not None and f"{self._max_size:g} of padded length",
        )
        most = " and ".join(limit for limit in limits if limit)
        batches = f"{len(self)} batch{'' if len(self) == 1 else 'es'} of at most {most}"
        return f"<BucketBatchSampler: {len(self._lengths)} utterances in {batches}, epoch {self._epoch}{ranks}>"

    def state_dict(self, batches: int | None = None) -> SamplerState:
        """Return the position in the epoch, from which :meth:`load_state_dict` resumes.

        Workers of a ``DataLoader`` read ahead: pass the number of batches of this epoch that were trained on, or use
        torchdata's ``StatefulDataLoader``, which knows it.

        Args:
            batches: number of batches of this epoch that are done; by default, all that the sampler has returned.
        """
        done = self._given_out if batches is None else batches
        return {"epoch": self._epoch, "batches": done, "seed": self._seed, "data": self._fingerprint()}

    def load_state_dict(self, state: SamplerState) -> None:
        """Resume from a position: the next iteration gives the rest of that epoch's batches.

        Raises:
            OptionError: the position is that of other data, other limits or another number of ranks.
        """
        if state["data"] != self._fingerprint():
            raise OptionError(
                "this state was saved for other lengths, limits or ranks: resume with the same data set, sampler and "
                "number of ranks, or start the epoch anew"
            )
        self._seed, self._epoch = state["seed"], state["epoch"]
        self._plan = self._plan_of_this_rank()
        self._resume_at = self._given_out = state["batches"]

    def _fingerprint(self) -> list[float | None]:
        """Return what determines the batches, besides the seed and the epoch."""
        lengths = zlib.crc32(np.ascontiguousarray(self._lengths).tobytes())
        limits = [self._batch_size, self._max_size, self._shuffle, self._drop_last, len(self._buckets)]
        return [len(self._lengths), lengths, *limits, self._world_size]

    def _make_buckets(self, most: int) -> list[Indices]:
        """Return the utterances of each bucket, longest first: whole batches, or a part of one if that is allowed."""
        by_length = np.argsort(-self._lengths, kind="stable")
        lengths = self._lengths[by_length]
        shares = np.zeros(len(lengths))  # of a batch, by either limit
        if self._batch_size is not None:
            shares += 1 / self._batch_size
        if self._max_size is not None:
            shares = np.maximum(shares, lengths / self._max_size)
        least = _BATCHES_PER_BUCKET if self._fills_batches else 1
        count = shares.sum() // least if self._fills_batches else shares.sum() * _MORE_BATCHES
        ends = [0]
        for end in _ends_of_least_padding(lengths, shares, int(np.clip(count, 1, most))):
            batch, longest = self._batch_size or len(lengths), lengths[min(ends[-1], len(lengths) - 1)]
            if self._max_size is not None and longest > 0:
                batch = min(batch, max(1, int(self._max_size // longest)))
            size = end - ends[-1]
            if self._fills_batches or size > batch:
                # What is left over of a bucket's whole batches would be padded to its length in the next.
                batches = round(size / batch)
                size = batch * (max(batches, least) if batches else 0)
            if size > 0 and ends[-1] < len(lengths):
                ends.append(ends[-1] + size)
        return np.split(by_length, ends[1:])

    def _plan_of_this_rank(self) -> _Plan:
        rng = np.random.default_rng((self._seed, self._epoch))
        batches, incomplete = self._cut_buckets(rng)
        if self._drop_last:
            kept = len(batches.starts) - incomplete
            whole = kept - kept % self._world_size
            batches = batches.take(np.sort(rng.permutation(kept)[:whole]) if self._shuffle else np.arange(whole))
            if not len(batches.starts):
                raise OptionError(
                    f"{len(self._lengths)} utterances make {kept} whole batches with "
                    f"world_size={self._world_size}, so that drop_last=True leaves none: "
                    "pass drop_last=False, or allow fewer utterances in a batch"
                )
        else:
            batches = _split_to_multiple(batches, self._world_size)
        steps = np.arange(len(batches.starts)).reshape(-1, self._world_size)
        if self._shuffle:
            steps = rng.permutation(steps)
        return batches.take(steps[:, self._rank])

    def _cut_buckets(self, rng: np.random.Generator) -> tuple[_Plan, bool]:
        """Return the batches of all ranks, longest first, and True if the last one is incomplete."""
        utterances: list[Indices] = []
        ends: list[Indices] = []
        left, cut = np.empty(0, np.int64), 0
        for bucket in self._buckets:
            waiting = np.concatenate((left, rng.permutation(bucket) if self._shuffle else bucket))
            of_bucket = self._cut(waiting)
            if not self._fills_batches and not len(of_bucket) and len(waiting):
                of_bucket = np.array([len(waiting)])
            end = int(of_bucket[-1]) if len(of_bucket) else 0
            utterances.append(waiting[:end])
            ends.append(cut + of_bucket)
            left, cut = waiting[end:], cut + end
        if len(left):
            utterances.append(left)
            ends.append(np.array([cut + len(left)]))
        every_end = np.concatenate(ends)
        starts = np.concatenate(([0], every_end[:-1]))
        return _Plan(np.concatenate(utterances), starts, every_end), len(left) > 0

    def _cut(self, utterances: Indices) -> Indices:
        """Return the ends of the whole batches that utterances are cut into, in order."""
        if self._max_size is None:
            assert self._batch_size is not None
            return np.arange(self._batch_size, len(utterances) + 1, self._batch_size)
        most, size = self._batch_size or len(utterances), self._max_size
        ends: list[int] = []
        start, longest = 0, 0.0
        for end, length in enumerate(self._lengths[utterances].tolist()):
            longest = max(longest, length)
            if end > start and longest * (end + 1 - start) > size:
                ends.append(end)
                start, longest = end, length
            if end + 1 - start == most or longest * (end + 2 - start) > size:
                ends.append(end + 1)
                start, longest = end + 1, 0.0
        return np.array(ends, np.int64)


class _Batches(Iterator[list[int]]):
    """Iterator over the batches of an epoch. Its state is that of the sampler: torchdata's loader saves it."""

    def __init__(self, sampler: BucketBatchSampler, start: int) -> None:
        self._sampler, self._plan, self._next = sampler, sampler._plan, start
        sampler._given_out = start

    def __next__(self) -> list[int]:
        self._sampler._resume_at = 0  # not before: a DataLoader with workers makes two iterators, and uses the second
        if self._next >= len(self._plan.starts):
            raise StopIteration
        batch: list[int] = self._plan.utterances[self._plan.starts[self._next] : self._plan.ends[self._next]].tolist()
        self._next += 1
        self._sampler._given_out = self._next
        return batch

    def state_dict(self) -> SamplerState:
        return self._sampler.state_dict(self._next)

    def load_state_dict(self, state: SamplerState) -> None:
        self._sampler.load_state_dict(state)
        self._plan, self._next, self._sampler._resume_at = self._sampler._plan, state["batches"], 0


def _checked_lengths(lengths: Sequence[float] | Numbers | Tensor) -> Numbers:
    array = np.asarray(lengths)
    if array.ndim != 1 or not len(array):
        raise OptionError(f"lengths must be those of one utterance or more, not an array of shape {array.shape}")
    if array.dtype.kind not in "iuf" or not (array >= 0).all() or not np.isfinite(array).all():
        raise OptionError("lengths must be numbers of frames, samples or seconds, none of them negative")
    return array if array.dtype.kind == "f" else array.astype(np.int64)


def _ends_of_least_padding(lengths: Numbers, shares: npt.NDArray[np.float64], count: int) -> list[int]:
    """Return where all buckets but the last end, narrow ones where there are many utterances.

    Padding is proportional to the ratio of the longest to the shortest length of a bucket. The sum over all is least if
    the number of buckets of a range of ratios is proportional to the square root of the data in it.

    Args:
        lengths: (utterances,), descending.
        shares: (utterances,): size of each, in any unit.
        count: number of buckets.
    """
    ends = np.append(np.flatnonzero(np.diff(lengths)), len(lengths) - 1)  # of each length
    logs = np.log(np.maximum(lengths[ends], max(lengths[0], 1) / _LARGEST_RATIO))
    data = np.add.reduceat(shares, np.append(0, ends[:-1] + 1))
    roots = np.cumsum(np.sqrt(data * np.append(-np.diff(logs), 0)))
    found = np.searchsorted(roots, roots[-1] * np.arange(1, count) / count)
    result: list[int] = (ends[found] + 1).tolist()
    return result


def _split_to_multiple(batches: _Plan, of: int) -> _Plan:
    """Split large batches until their number is a multiple; if all have one utterance, repeat some."""
    starts, ends = batches.starts, batches.ends
    for _ in range(-len(starts) % of):
        sizes = ends - starts
        largest = int(sizes.argmax())
        if sizes[largest] == 1:
            break
        middle = starts[largest] + sizes[largest] // 2
        starts, ends = np.insert(starts, largest + 1, middle), np.insert(ends, largest, middle)
    whole = -(-len(starts) // of) * of
    return _Plan(batches.utterances, np.resize(starts, whole), np.resize(ends, whole))


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
