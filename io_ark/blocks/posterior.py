"""Posteriors as arrays, and blocks of posteriors."""

from __future__ import annotations

import marshal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from io_ark.blocks.base import Array, Block, Integers, Mask, PackedBlock, pack_entries, select_keys
from io_ark.native import NATIVE

Posterior = list[list[tuple[int, float]]]

# Sizes in the format of marshal, in which a type code precedes every length and number.
_LIST_BYTES = 5  # Bytes of a list or tuple without its elements.
_PAIR_BYTES = _LIST_BYTES + 5 + 9  # Bytes of a pair of an int and a float.


def _make_lists_in_c(counts: Integers, integers: npt.NDArray[np.int32], weights: npt.NDArray[np.float32]) -> Posterior:
    """Compute :func:`_make_lists` in C. Raise ValueError if the lengths of the arguments do not match."""
    # C writes marshal's format, because marshal.loads creates Python objects many times faster than a loop.
    counts = np.ascontiguousarray(counts, np.int64)
    integers, weights = np.ascontiguousarray(integers, np.int32), np.ascontiguousarray(weights, np.float32)
    if not len(integers) == len(weights) == counts.sum() or (counts < 0).any():
        raise ValueError(f"{len(integers)} integers and {len(weights)} weights do not match the counts of the frames")
    list_count = len(counts) + 1  # A list for each frame, and the list of all frames.
    data = np.empty(_PAIR_BYTES * len(integers) + _LIST_BYTES * list_count, np.uint8)
    byte_count = NATIVE.get_function("ark_marshal_pairs")(integers, weights, counts, len(counts), data)
    lists: Posterior = marshal.loads(data.data[:byte_count])
    return lists


@NATIVE.twin(_make_lists_in_c)
def _make_lists(counts: Integers, integers: npt.NDArray[np.int32], weights: npt.NDArray[np.float32]) -> Posterior:
    """Return the pairs (integer, weight) of each frame. For the arguments, see :class:`PosteriorArrays`."""
    pairs = list(zip(integers.tolist(), weights.tolist(), strict=True))
    return [pairs[begin:end] for begin, end in pairwise(accumulate(counts.tolist(), initial=0))]


class PosteriorArrays(NamedTuple):
    """Posteriors of frames as arrays. Every frame has pairs of an integer and a weight.

    >>> import numpy as np
    >>> from io_ark.blocks import PosteriorArrays
    >>> PosteriorArrays(np.array([2, 0]), np.array([7, 3], np.int32), np.array([0.5, 0.25], np.float32)).to_lists()
    [[(7, 0.5), (3, 0.25)], []]
    """

    counts: npt.NDArray[np.int64]  # (frames,) int64: number of pairs of each frame.
    integers: npt.NDArray[np.int32]  # (pairs,) int32: the integers of all frames, back to back.
    weights: npt.NDArray[np.float32]  # (pairs,) float32: the weights of all frames, one for each integer.

    @classmethod
    def concatenate(cls, parts: Sequence[PosteriorArrays]) -> PosteriorArrays:
        """Join the frames of any number of posteriors into one posterior. A single posterior is returned unchanged."""
        if len(parts) == 1:
            return parts[0]
        # np.concatenate needs at least one array, so a posterior without frames precedes the parts.
        empty = cls(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.float32))
        return cls(*map(np.concatenate, zip(empty, *parts, strict=True)))

    def split(self, frame_counts: npt.NDArray[np.int64]) -> Iterator[PosteriorArrays]:
        """Yield consecutive parts of the posterior, which are views, with ``frame_counts`` (parts,) frames each."""
        pair_bounds = np.concatenate(([0], np.cumsum(self.counts)))
        for begin, end in pairwise(accumulate(frame_counts.tolist(), initial=0)):
            pairs = slice(pair_bounds[begin], pair_bounds[end])
            yield PosteriorArrays(self.counts[begin:end], self.integers[pairs], self.weights[pairs])

    def to_lists(self) -> Posterior:
        """Return a list of frames. A frame is a list of pairs (integer, weight)."""
        return _make_lists(self.counts, self.integers, self.weights)


@dataclass(frozen=True, eq=False)
class PosteriorBlock(Block):
    """Block of entries whose values are posteriors."""

    keys: bytes
    frames: Integers  # (entries,): number of frames of each posterior.
    posteriors: PosteriorArrays  # The frames of all posteriors, back to back.
    # (bytes,) uint8: the bytes of the entries in their archive. Empty for entries that do not come from an archive.
    data: Array = field(default_factory=lambda: np.empty(0, np.uint8))
    # (entries,) int64: offset in `data` of the end of each entry. Empty if `data` is empty.
    ends: Integers = field(default_factory=lambda: np.empty(0, np.int64))

    def __len__(self) -> int:
        return len(self.frames)

    def entries(self) -> Iterator[tuple[str, PosteriorArrays]]:
        return zip(self.decode_keys(), self.posteriors.split(self.frames), strict=True)

    def select(self, mask: Mask) -> PosteriorBlock:
        frame_mask = np.repeat(mask, self.frames)
        pair_mask = np.repeat(frame_mask, self.posteriors.counts)
        counts, integers, weights = self.posteriors
        chosen = PosteriorArrays(counts[frame_mask], integers[pair_mask], weights[pair_mask])
        return PosteriorBlock(select_keys(self.keys, mask), self.frames[mask], chosen)

    def pack(self) -> PackedBlock | None:
        return pack_entries(self.keys, self.data, self.ends)
