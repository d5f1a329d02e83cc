"""Reproduce the orders of elements that GNU's C++ containers and std::sort give in Kaldi."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

# Numbers of buckets of GNU's std::unordered_map, which takes the next number if it has more entries than buckets.
BUCKETS = (13, 29, 59, 127, 257, 541, 1109, 2357, 5087, 10273, 20753, 42043, 85229, 172933)
MAX_SORTED_BY_INSERTION = 16  # Largest number of elements for which GNU's std::sort is a stable insertion sort.


def find_collisions(keys: npt.NDArray[np.int32], counts: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Find the frames in which two keys, such as equal keys, share a bucket of the smallest hash table.

    Args:
        keys: the keys of all frames, frame by frame, (entries,).
        counts: number of keys of each frame, (frames,).

    Returns:
        A mask of the frames, (frames,).
    """
    bits = np.left_shift(1, keys % BUCKETS[0], dtype=np.int64)
    filled = counts > 0
    starts = (np.cumsum(counts) - counts)[filled]
    collides = np.zeros(len(counts), bool)
    if len(starts):  # If a bit occurs twice, the sum of the bits differs from their union.
        collides[filled] = np.add.reduceat(bits, starts) != np.bitwise_or.reduceat(bits, starts)
    return collides


def order_by_hash(
    pdfs: npt.NDArray[np.int64], frames: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Order keys as iterating over hash tables does, with one table for each frame.

    Args:
        pdfs: the keys, frame by frame and in the order of insertion, (entries,).
        frames: the frame of each key, (entries,).
        counts: number of keys of each frame, (frames,).

    Returns:
        Indices of the keys in the order of iteration, (entries,).
    """
    # The table inserts a new key at the front, or at the front of its bucket if the bucket has other keys.
    times = np.arange(len(pdfs))
    _, first, bucket = np.unique(frames * BUCKETS[0] + pdfs % BUCKETS[0], return_index=True, return_inverse=True)
    order = np.lexsort((-times, -first[bucket], frames))
    ends = np.cumsum(counts)
    for frame in np.flatnonzero(counts > BUCKETS[0]).tolist():
        begin, end = int(ends[frame] - counts[frame]), int(ends[frame])
        order[begin:end] = begin + np.array(order_by_growing_hash(pdfs[begin:end].tolist()))
    return order


def order_by_growing_hash(keys: list[int]) -> list[int]:
    """Return the indices of keys in the order of a hash table that grows while the keys are inserted."""
    order: list[int] = []
    for begin, end in pairwise((0, *BUCKETS, len(keys))):
        buckets = next(count for count in BUCKETS if count >= min(end, len(keys)))
        chain: dict[int, list[int]] = {}
        for place in [*order, *range(begin, min(end, len(keys)))]:
            chain.setdefault(keys[place] % buckets, []).append(place)
        order = [place for chained in reversed(chain.values()) for place in reversed(chained)]
        if end >= len(keys):
            break
    return order


def order_by_sort(keys: list[int]) -> list[int]:
    """Return the indices of keys in the order of GNU's std::sort.

    std::sort partitions spans of more than 16 keys, which may exchange equal keys, and sorts shorter spans stably. The
    heap sort that it uses for keys that are hard to partition is not implemented.
    """
    order = list(range(len(keys)))
    spans = [(0, len(keys))]
    while spans:
        first, last = spans.pop()
        while last - first > MAX_SORTED_BY_INSERTION:
            cut = partition(keys, order, first, last)
            spans.append((cut, last))
            last = cut
    return sorted(order, key=keys.__getitem__)


def partition(keys: list[int], order: list[int], first: int, last: int) -> int:
    """Partition ``order[first:last]`` around a median so that smaller keys come first. Return the end of this part."""
    one, two, three = first + 1, first + (last - first) // 2, last - 1
    x, y, z = (keys[order[place]] for place in (one, two, three))
    if x < y:
        median = two if y < z else three if x < z else one
    else:
        median = one if x < z else three if y < z else two
    order[first], order[median] = order[median], order[first]
    pivot, low, high = keys[order[first]], first + 1, last
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
