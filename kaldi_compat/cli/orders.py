"""Reproduce the orders of elements that GNU's C++ containers and std::sort give in Kaldi."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

# Numbers of buckets of GNU's std::unordered_map, which grows to the next number when it has more entries than buckets.
BUCKETS = (13, 29, 59, 127, 257, 541, 1109, 2357, 5087, 10273, 20753, 42043, 85229, 172933)
MAX_SORTED_BY_INSERTION = 16  # Largest number of elements for which GNU's std::sort is a stable insertion sort.


def find_collisions(keys: npt.NDArray[np.int32], counts: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Find the frames in which two keys, equal or not, share a bucket of a hash table with ``BUCKETS[0]`` buckets.

    ``keys``, (keys,), holds the keys of all frames, frame by frame, and ``counts``, (frames,), the number of keys of
    each frame. Return a mask of the frames, (frames,).
    """
    bits = np.left_shift(1, keys % BUCKETS[0], dtype=np.int64)  # Every bucket has its own bit.
    has_keys = counts > 0
    starts = (np.cumsum(counts) - counts)[has_keys]
    has_collision = np.zeros(len(counts), bool)
    if len(starts):  # If a bit occurs twice, the sum of the bits differs from their union.
        has_collision[has_keys] = np.add.reduceat(bits, starts) != np.bitwise_or.reduceat(bits, starts)
    return has_collision


def order_keys_by_hash(
    keys: npt.NDArray[np.int64], frames: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the order in which GNU's hash table (std::unordered_map) lists the keys of each frame.

    Args:
        keys: the keys, frame by frame and in the order of insertion, (keys,). Keys are unique within a frame.
        frames: index of the frame of each key, (keys,).
        counts: number of keys of each frame, (frames,).

    Returns:
        Indices of the keys in the order of the hash table, (keys,), frame by frame.
    """
    # The table inserts a new key at the front, or at the front of its bucket if the bucket has other keys.
    insertion_times = np.arange(len(keys))
    _, first_key, bucket = np.unique(frames * BUCKETS[0] + keys % BUCKETS[0], return_index=True, return_inverse=True)
    order = np.lexsort((-insertion_times, -first_key[bucket], frames))
    ends = np.cumsum(counts)
    for frame in np.flatnonzero(counts > BUCKETS[0]).tolist():  # The tables of these frames grow.
        begin, end = int(ends[frame] - counts[frame]), int(ends[frame])
        order[begin:end] = begin + np.array(order_keys_by_growing_hash(keys[begin:end].tolist()))
    return order


def order_keys_by_growing_hash(keys: list[int]) -> list[int]:
    """Return the indices of keys in the order in which GNU's hash table lists them if it grows during the insertions.

    A table that grows inserts its entries again, in the order in which it listed them before.
    """
    order: list[int] = []
    for begin, end in pairwise((0, *BUCKETS, len(keys))):
        num_buckets = next(count for count in BUCKETS if count >= min(end, len(keys)))
        chains: dict[int, list[int]] = {}
        for index in [*order, *range(begin, min(end, len(keys)))]:
            chains.setdefault(keys[index] % num_buckets, []).append(index)
        # The newest bucket, and in a bucket the newest key, are at the front (see order_keys_by_hash).
        order = [index for chain in reversed(chains.values()) for index in reversed(chain)]
        if end >= len(keys):
            break
    return order


def order_keys_by_sort(keys: list[int]) -> list[int]:
    """Return the indices of keys in the order of GNU's std::sort.

    std::sort partitions spans of more than 16 keys, which may exchange equal keys, and sorts shorter spans stably. Its
    heap sort for keys that are hard to partition is not implemented.
    """
    order = list(range(len(keys)))
    spans = [(0, len(keys))]
    while spans:
        begin, end = spans.pop()
        while end - begin > MAX_SORTED_BY_INSERTION:
            cut = partition_keys(keys, order, begin, end)
            spans.append((cut, end))
            end = cut
    return sorted(order, key=keys.__getitem__)


def partition_keys(keys: list[int], order: list[int], begin: int, end: int) -> int:
    """Partition ``order[begin:end]``, indices of ``keys``, in place around the median of three keys, as std::sort does.

    The three keys are the second, the middle and the last key. Return the index of the first key in the upper part.
    """
    second, middle, last = begin + 1, begin + (end - begin) // 2, end - 1
    second_key, middle_key, last_key = (keys[order[index]] for index in (second, middle, last))
    if second_key < middle_key:
        median = middle if middle_key < last_key else last if second_key < last_key else second
    else:
        median = second if second_key < last_key else last if middle_key < last_key else middle
    order[begin], order[median] = order[median], order[begin]
    pivot, low, high = keys[order[begin]], begin + 1, end
    while True:
        while keys[order[low]] < pivot:
            low += 1
        high -= 1
        while pivot < keys[order[high]]:
            high -= 1
        if low >= high:
            return low
        order[low], order[high] = order[high], order[low]
        low += 1
