"""Resumable sampling of batches of utterances of similar length, which are distributed over ranks."""

from __future__ import annotations

import math
import warnings
import zlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import Sampler

from io_ark.data_dir import DataDir
from io_ark.text import format_count, quote_value
from kaldi_compat.errors import OptionError
from kaldi_compat.functional.array_api import check_plain
from kaldi_compat.options.base import convert_number
from kaldi_compat.torch.data.arguments import check_positive_number, check_whole_number

Indices = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.integer] | npt.NDArray[np.floating]

BUCKETS = 30
"""Default maximum number of buckets."""

# Maximum number of buckets for each full batch of the epoch. A bucket gives at least one batch, so small data gets up
# to 1.5 times as many batches as necessary, which saves much padding.
_MAX_BUCKETS_PER_BATCH = 1.5

# Ratio of the longest length to the shortest length whose logarithm is used. Empty utterances have the length 0, whose
# logarithm is infinite, so shorter lengths count as this shortest length.
_MAX_LENGTH_RATIO = 1e6


class SamplerState(TypedDict):
    """Position of a sampler in an epoch, which can be written as JSON."""

    epoch: int  # Epoch number, as passed to ``set_epoch``.
    batches: int  # Number of batches of the epoch that are done, from which the next iteration resumes.
    seed: int  # Seed of the shuffling.
    # Lengths (as a checksum), settings and number of ranks. A sampler with different data refuses the state.
    data: list[float | None]


class _Plan(NamedTuple):
    """Batches of an epoch. Batch ``i`` consists of the indices ``utterances[starts[i] : ends[i]]``."""

    utterances: Indices
    starts: Indices
    ends: Indices

    def select_batches(self, batches: Indices) -> _Plan:
        """Return the plan of the batches with the indices ``batches``, in this order."""
        return _Plan(self.utterances, self.starts[batches], self.ends[batches])


class BucketBatchSampler(Sampler[list[int]]):
    """Sampler of batches of utterances of similar length, which need little padding, distributed over ranks.

    The range of lengths is divided into buckets that minimize padding, and utterances are shuffled within the width of
    a bucket. With ``batch_size`` or ``drop_last``, each utterance is moved randomly within the order of lengths, and
    this order is cut into batches, so that at most one batch per epoch is incomplete. If a padded size is the only
    limit, the boundaries of the buckets change from epoch to epoch, and each bucket is divided into batches. For small
    data, this gives up to 1.5 times as many batches as necessary, but full batches would need much more padding.

    At each step, all ranks get batches of similar size. The order depends only on ``seed`` and the epoch, and is the
    same on every rank: call :meth:`set_epoch` before each epoch. All ranks get the same number of batches, and every
    utterance occurs once per epoch. If the number of ranks does not divide the number of batches, large batches are
    split; with ``drop_last``, surplus batches are dropped. Batches are repeated only if there are too few utterances.

    Args:
        lengths: length of each utterance, in frames, samples or seconds; or a :class:`~io_ark.data_dir.DataDir`.
        batch_size: maximum number of utterances in a batch; None for no limit.
        max_frames: maximum padded size of a batch, in the unit of ``lengths``; None for no limit. The padded size is
            the length of the longest utterance times the number of utterances. An utterance that is longer than the
            limit is a batch by itself, with a warning.
        max_seconds: maximum padded size of a batch in seconds; None for no limit.
        sample_frequency: number of units of ``lengths`` in a second, for ``max_seconds``: the sampling rate for lengths
            in samples; 1, the default, for lengths in seconds.
        min_length, max_length: limits in the unit of ``lengths``. Shorter and longer utterances are left out.
        shuffle: False keeps batches in order of length, longest first, so that a lack of memory shows early.
        seed: seed of the shuffling.
        drop_last: True leaves out the incomplete batch, and batches that cannot be divided evenly among the ranks.
        num_buckets: maximum number of buckets. If there are few batches, there are fewer buckets. Fewer buckets mix
            utterances more from epoch to epoch, but need more padding.
        rank, world_size: index of this process and number of processes. By default, they are taken from
            ``torch.distributed`` if it is initialized; otherwise there is one process.

    Raises:
        OptionError: no limit is passed, an argument is invalid, or there is no batch, for example with ``drop_last``.

    >>> from kaldi_compat import BucketBatchSampler
    >>> sampler = BucketBatchSampler([30, 10, 31, 11], batch_size=2, shuffle=False)
    >>> list(sampler)
    [[2, 0], [3, 1]]
    >>> list(BucketBatchSampler([3.0, 1.0, 3.1, 1.1], max_seconds=5.0, shuffle=False))
    [[2], [0], [3, 1]]
    """

    def __init__(
        self,
        lengths: Sequence[float] | Numbers | Tensor | DataDir,
        *,
        batch_size: int | None = None,
        max_frames: float | None = None,
        max_seconds: float | None = None,
        sample_frequency: float = 1.0,
        min_length: float = 0.0,
        max_length: float | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        num_buckets: int = BUCKETS,
        rank: int | None = None,
        world_size: int | None = None,
    ) -> None:
        # Factors that convert the limits of the padded size to the unit of the lengths.
        factors = {"max_frames": 1.0, "max_seconds": check_positive_number("sample_frequency", sample_frequency)}
        sizes = (("max_frames", max_frames), ("max_seconds", max_seconds))
        limits = [check_positive_number(name, size) * factors[name] for name, size in sizes if size is not None]
        if batch_size is None and not limits:
            raise OptionError("a batch has no limit: pass batch_size, max_frames or max_seconds")
        self._lengths = _check_lengths(lengths)
        self._batch_size = None if batch_size is None else check_whole_number("batch_size", batch_size, at_least=1)
        self._max_size = min(limits, default=None)
        self._shuffle, self._seed, self._drop_last = shuffle, check_whole_number("seed", seed), drop_last
        # True fills batches in order of length. False divides each bucket evenly into batches.
        self._fills_batches = drop_last or batch_size is not None
        self._rank, self._world_size = find_rank_and_world_size(rank, world_size)
        self._num_buckets = check_whole_number("num_buckets", num_buckets, at_least=1)
        self._length_limits = (
            convert_number("min_length", min_length),
            math.inf if max_length is None else convert_number("max_length", max_length),
        )
        by_length = np.argsort(-self._lengths, kind="stable")  # Indices of the utterances, the longest first.
        sorted_lengths = self._lengths[by_length]
        lowest, highest = self._length_limits
        self._by_length = by_length[(sorted_lengths >= lowest) & (sorted_lengths <= highest)]
        if not len(self._by_length):
            raise OptionError(f"no utterance has a length from {lowest:g} to {highest:g} (lengths are "
                              f"{sorted_lengths[-1]:g} to {sorted_lengths[0]:g}): change these limits")  # fmt: skip
        if self._max_size is not None and (num_long := int((self._lengths[self._by_length] > self._max_size).sum())):
            cause = f"the length of {num_long} of {len(self._by_length)} utterances exceeds max_frames or max_seconds"
            advice = "pass max_length to leave them out"
            if max_seconds is not None and sample_frequency == 1 and num_long == len(self._by_length):
                advice = "pass sample_frequency if the lengths are not in seconds"
            warnings.warn(f"{cause}, so each of them is a batch by itself: {advice}", stacklevel=2)
        shares = self._compute_shares()
        self._num_full_batches = max(float(shares.sum()), 1.0)  # Approximate number of full batches.
        self._positions = _minimize_padding(self._lengths[self._by_length], shares) if shuffle else None
        self._epoch = 0
        self._num_returned = 0  # Number of batches of the epoch that the latest iteration has returned.
        self._resume_at = 0  # Index of the batch with which the next iteration starts.
        self._plan = self._make_plan_for_rank()

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, which determines the order of the next iterations. Setting the current epoch has no effect.

        Raises:
            OptionError: the epoch is not a whole number or is negative, or ``drop_last`` leaves no batch of the epoch.
        """
        if check_whole_number("epoch", epoch) == self._epoch:  # Keep the position in a resumed epoch.
            return
        self._epoch, self._num_returned, self._resume_at = epoch, 0, 0
        self._plan = self._make_plan_for_rank()

    def __iter__(self) -> Iterator[list[int]]:
        return _Batches(self, self._resume_at)

    def __len__(self) -> int:
        return len(self._plan.starts)

    def __repr__(self) -> str:
        ranks = f", rank {self._rank} of {self._world_size}" if self._world_size > 1 else ""
        limits = (
            self._batch_size is not None and format_count(self._batch_size, "utterance"),
            self._max_size is not None and f"{self._max_size:g} of padded length",
        )
        largest = " and ".join(limit for limit in limits if limit)
        batches = f"{format_count(len(self), 'batch', 'batches')} of at most {largest}"
        utterances = format_count(len(self._by_length), "utterance")
        return f"<BucketBatchSampler: {utterances} in {batches}, epoch {self._epoch}{ranks}>"

    def state_dict(self, batches: int | None = None) -> SamplerState:
        """Return the position in the epoch, from which :meth:`load_state_dict` resumes.

        Because the workers of a ``DataLoader`` read ahead, pass the number of batches of this epoch that were used for
        training, or use torchdata's ``StatefulDataLoader``, which counts these batches.

        Args:
            batches: number of batches of this epoch that are done; None for all batches that the sampler has returned.

        Raises:
            OptionError: ``batches`` is not an integer from 0 to the number of batches of the epoch.
        """
        done = self._num_returned if batches is None else self._check_num_batches(batches)
        return {"epoch": self._epoch, "batches": done, "seed": self._seed, "data": self._compute_fingerprint()}

    def load_state_dict(self, state: SamplerState) -> None:
        """Resume from a result of :meth:`state_dict`: the next iteration returns the remaining batches of the epoch.

        Raises:
            OptionError: the state is invalid, or the lengths, the settings except the seed, or the ranks differ.
        """
        try:
            fingerprint, seed, epoch, batches = (state[name] for name in ("data", "seed", "epoch", "batches"))
        except (KeyError, TypeError):
            raise OptionError(
                f"{quote_value(state)} is not a state of a sampler: pass the result of state_dict()"
            ) from None
        if fingerprint != self._compute_fingerprint():
            raise OptionError(
                "this state was saved with different lengths, limits or ranks: resume with the same data set, sampler "
                "and number of ranks, or start the epoch again"
            )
        previous = self._seed, self._epoch, self._plan
        seed, epoch = check_whole_number("seed", seed), check_whole_number("epoch", epoch)
        self._seed, self._epoch = seed, epoch
        try:
            self._plan = self._make_plan_for_rank()
            batches = self._check_num_batches(batches)
        except OptionError:
            self._seed, self._epoch, self._plan = previous  # A refused state changes nothing.
            raise
        self._resume_at = self._num_returned = batches

    def _check_num_batches(self, batches: object) -> int:
        """Return ``batches`` as an int. Raise OptionError unless it is an integer from 0 to ``len(self)``."""
        done = check_whole_number("batches", batches)
        if done > len(self):
            raise OptionError(
                f"batches={quote_value(done)} must be at most {len(self)}, the number of batches of the epoch: start "
                "the count again in each epoch"
            )
        return done

    def _compute_fingerprint(self) -> list[float | None]:
        """Return numbers that identify the lengths (by a checksum), the settings without the seed, and the ranks."""
        checksum = zlib.crc32(np.ascontiguousarray(self._lengths).tobytes())
        settings = [self._batch_size, self._max_size, self._shuffle, self._drop_last, self._num_buckets]
        # A state can be written as JSON, which has no infinity, so None stands for an infinite limit.
        settings += [None if math.isinf(limit) else limit for limit in self._length_limits]
        return [len(self._lengths), checksum, *settings, self._world_size]

    def _compute_shares(self) -> npt.NDArray[np.float64]:
        """Return the fraction of a full batch that each utterance fills, (utterances,), longest first."""
        shares = np.full(len(self._by_length), 0.0 if self._batch_size is None else 1 / self._batch_size)
        return shares if self._max_size is None else np.maximum(shares, self._lengths[self._by_length] / self._max_size)

    def _make_plan_for_rank(self) -> _Plan:
        """Return the batches of this rank in the current epoch. Raise OptionError if there are none."""
        rng = np.random.default_rng((self._seed, self._epoch))
        batches, is_incomplete = self._make_all_batches(rng)
        if self._drop_last:
            num_complete = len(batches.starts) - is_incomplete
            num_used = num_complete - num_complete % self._world_size
            indices = np.sort(rng.permutation(num_complete)[:num_used]) if self._shuffle else np.arange(num_used)
            batches = batches.select_batches(indices)
            if not len(batches.starts):
                raise OptionError(
                    f"drop_last=True leaves no batches for world_size={self._world_size}, because the number of full "
                    f"batches of {format_count(len(self._by_length), 'utterance')} is only {num_complete}: "
                    "pass drop_last=False, or allow fewer utterances in a batch"
                )
        else:
            batches = _split_to_multiple(batches, self._world_size)
        steps = np.arange(len(batches.starts)).reshape(-1, self._world_size)  # A row has one batch for each rank.
        if self._shuffle:
            steps = rng.permutation(steps)
        return batches.select_batches(steps[:, self._rank])

    def _make_all_batches(self, rng: np.random.Generator) -> tuple[_Plan, bool]:
        """Return the batches of all ranks, from long to short utterances, and True if the last batch is incomplete."""
        if self._positions is None or self._fills_batches:
            utterances = self._by_length if self._positions is None else self._mix_utterances(self._positions, rng)
            ends = self._find_batch_ends(utterances)
            is_incomplete = not len(ends) or int(ends[-1]) < len(utterances)
            ends = np.append(ends, len(utterances)) if is_incomplete else ends
        else:
            # Buckets are divided evenly into batches, so no batch counts as incomplete.
            buckets, is_incomplete = self._divide_into_buckets(self._positions, rng), False
            utterances = np.concatenate(buckets)
            ends = np.cumsum(np.concatenate([self._divide_bucket(bucket) for bucket in buckets]))
        return _Plan(utterances, np.concatenate(([0], ends[:-1])), ends), is_incomplete

    def _mix_utterances(self, positions: npt.NDArray[np.float64], rng: np.random.Generator) -> Indices:
        """Return the utterances in descending order of length, with each utterance moved by a random distance.

        ``positions`` is the result of :func:`_minimize_padding`.
        """
        batch_width = 1 / self._num_full_batches
        # Positions are from 0 to 1. An utterance moves by at most `width`, so a batch mixes utterances from its own
        # width plus this width, which together are the width of a bucket. A batch may be wider than a bucket if there
        # are few batches. The moves are then half as wide as the batch, so that utterances are still mixed.
        width = max(1 / self._num_buckets - batch_width, batch_width / 2)
        return self._by_length[np.argsort(positions + width * rng.random(len(positions)), kind="stable")]

    def _divide_into_buckets(self, positions: npt.NDArray[np.float64], rng: np.random.Generator) -> list[Indices]:
        """Return the utterances of each bucket in random order, starting with the bucket of the longest utterances.

        The boundaries change from epoch to epoch. ``positions`` is the result of :func:`_minimize_padding`.
        """
        count = int(np.clip(self._num_full_batches * _MAX_BUCKETS_PER_BATCH, 1, self._num_buckets))
        # All boundaries move by the same random distance. The first and the last bucket share the width of one bucket.
        boundaries = (np.arange(count - 1) + rng.random()) / max(count - 1, 1)
        buckets = np.split(self._by_length, np.searchsorted(positions, boundaries))
        return [rng.permutation(bucket) for bucket in buckets if len(bucket)]

    def _divide_bucket(self, bucket: Indices) -> Indices:
        """Divide a bucket into batches, and return their numbers of utterances, which differ by at most one."""
        longest = float(self._lengths[bucket].max())
        max_utterances = max(1, int(self._max_size // longest)) if self._max_size and longest else len(bucket)
        num_batches = -(-len(bucket) // max_utterances)
        return np.diff(np.arange(num_batches + 1) * len(bucket) // num_batches)

    def _find_batch_ends(self, utterances: Indices) -> Indices:
        """Cut utterances into batches in their order, and return the exclusive ends of the complete batches."""
        if self._max_size is None:
            assert self._batch_size is not None
            # A batch size beyond int64 gives no complete batch either, but np.arange would then return Python objects.
            batch_size = min(self._batch_size, len(utterances) + 1)
            return np.arange(batch_size, len(utterances) + 1, batch_size)
        max_utterances, max_size = self._batch_size or len(utterances), self._max_size
        ends: list[int] = []
        start, longest = 0, 0.0
        for i, length in enumerate(self._lengths[utterances].tolist()):
            longest = max(longest, length)
            if i > start and longest * (i + 1 - start) > max_size:  # This utterance starts the next batch.
                ends.append(i)
                start, longest = i, length
            if i + 1 - start == max_utterances or longest * (i + 2 - start) > max_size:  # The batch is full.
                ends.append(i + 1)
                start, longest = i + 1, 0.0
        return np.array(ends, np.int64)


class _Batches(Iterator[list[int]]):
    """Iterator over the batches of an epoch from batch ``start`` on. It counts the returned batches in the sampler."""

    def __init__(self, sampler: BucketBatchSampler, start: int) -> None:
        self._sampler, self._plan = sampler, sampler._plan
        self._next_index = start  # Index of the next batch in the plan.
        sampler._num_returned = start

    def __next__(self) -> list[int]:
        """Return the indices of the utterances of the next batch."""
        # The position is reset here, because a DataLoader with workers calls __iter__ twice and uses the second result.
        self._sampler._resume_at = 0
        if self._next_index >= len(self._plan.starts):
            raise StopIteration
        start, end = self._plan.starts[self._next_index], self._plan.ends[self._next_index]
        batch: list[int] = self._plan.utterances[start:end].tolist()
        self._next_index += 1
        self._sampler._num_returned = self._next_index
        return batch

    def state_dict(self) -> SamplerState:
        return self._sampler.state_dict(self._next_index)

    def load_state_dict(self, state: SamplerState) -> None:
        """Resume this iteration and its sampler from a result of :meth:`BucketBatchSampler.state_dict`."""
        self._sampler.load_state_dict(state)
        self._plan, self._next_index, self._sampler._resume_at = self._sampler._plan, self._sampler._num_returned, 0


def _check_lengths(lengths: Sequence[float] | Numbers | Tensor | DataDir) -> Numbers:
    """Convert lengths to an int64 or float64 array ``(utterances,)``.

    The lengths of a data directory are its numbers of frames, or without ``utt2num_frames`` its durations in seconds.

    Raise OptionError if there are no lengths, or the lengths are not finite numbers >= 0 in one dimension.
    """
    if isinstance(lengths, DataDir):
        by_key = lengths.num_frames() if "utt2num_frames" in lengths else lengths.utt2dur()
        lengths = list(by_key.values())
    if isinstance(lengths, Tensor):
        check_plain(lengths, OptionError)
        lengths = lengths.detach().cpu()
        lengths = (lengths.double() if lengths.is_floating_point() else lengths).numpy()
    elif isinstance(lengths, np.ndarray):
        check_plain(lengths, OptionError)
    try:
        array = np.asarray(lengths)
    except ValueError:  # NumPy cannot make an array of a ragged list.
        raise OptionError(
            "lengths must be a list of numbers, not of lists: pass one length for each utterance"
        ) from None
    if array.ndim != 1:
        raise OptionError(
            f"lengths must be a list of numbers, not an array of shape {array.shape}: pass a number for each utterance"
        )
    if not len(array):
        raise OptionError("lengths is empty: pass one length for each utterance")
    if array.dtype.kind not in "iuf" or not (array >= 0).all() or not np.isfinite(array).all():
        raise OptionError(
            "lengths must be finite numbers >= 0 of frames, samples or seconds: for a data set, pass data.lengths()"
        )
    return array.astype(np.float64) if array.dtype.kind == "f" else array.astype(np.int64)


def _minimize_padding(lengths: Numbers, shares: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Map utterances to positions from 0 to 1, such that buckets of equal width minimize padding.

    The padding of a bucket is proportional to its data times the logarithm of the ratio of its longest to its shortest
    length. The sum over all buckets is minimal if the density of buckets is proportional to the square root of the
    density of the data over the logarithm of the length.

    Args:
        lengths: (utterances,): lengths in descending order.
        shares: (utterances,): sizes of the utterances, in any unit.

    Returns:
        (utterances,): positions in ascending order, so the longest utterance has position 0.
    """
    ends = np.append(np.flatnonzero(np.diff(lengths)), len(lengths) - 1)  # Index of the last utterance of each length.
    log_lengths = np.log(np.maximum(lengths[ends], max(lengths[0], 1) / _MAX_LENGTH_RATIO))
    sizes = np.add.reduceat(shares, np.append(0, ends[:-1] + 1))  # Total size of the utterances of each length.
    root_sums = np.append(0.0, np.cumsum(np.sqrt(sizes[:-1] * -np.diff(log_lengths))))
    positions: npt.NDArray[np.float64] = np.repeat(root_sums / (root_sums[-1] or 1.0), np.diff(ends, prepend=-1))
    return positions


def _split_to_multiple(batches: _Plan, divisor: int) -> _Plan:
    """Split large batches until ``divisor`` divides the number of batches.

    Once every batch has one utterance, repeat batches instead.
    """
    starts, ends = batches.starts, batches.ends
    for _ in range(-len(starts) % divisor):
        sizes = ends - starts
        largest = int(sizes.argmax())
        if sizes[largest] == 1:
            break
        middle = starts[largest] + sizes[largest] // 2
        starts, ends = np.insert(starts, largest + 1, middle), np.insert(ends, largest, middle)
    count = -(-len(starts) // divisor) * divisor
    return _Plan(batches.utterances, np.resize(starts, count), np.resize(ends, count))


def find_rank_and_world_size(rank: int | None = None, world_size: int | None = None) -> tuple[int, int]:
    """Return the arguments if they are passed, else the rank and world size of ``torch.distributed``, else (0, 1).

    Raise OptionError if only one argument is passed, or an argument is not a whole number or is out of range.
    """
    if (rank is None) != (world_size is None):
        raise OptionError("only one of rank and world_size is passed: pass rank and world_size together, or neither")
    if rank is None or world_size is None:
        distributed = torch.distributed
        if not (distributed.is_available() and distributed.is_initialized()):
            return 0, 1
        return distributed.get_rank(), distributed.get_world_size()
    rank, world_size = check_whole_number("rank", rank), check_whole_number("world_size", world_size, at_least=1)
    if rank >= world_size:
        raise OptionError(f"rank={rank} must be from 0 to {world_size - 1}, because world_size={world_size}")
    return rank, world_size
