"""Dithering noise that depends only on the plan's seed and the utterance's key.

In Kaldi's programs, the noise of an utterance depends on all earlier utterances. In a dump, the noise of an utterance
is the same on every machine, in any order, and when the utterance is computed again.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.blocks import split_keys
from kaldi_compat.exact.rand import RAND_MAX, KaldiRandom

_GOLDEN, _MIX_1, _MIX_2 = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def hash_utterance(seed: int, key: str) -> int:
    """Hash the ``seed`` of a job and the ``key`` of an utterance to a 64-bit state for :func:`compute_frame_seeds`."""
    text = f"{seed} {key}".encode("utf-8", "surrogateescape")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def compute_frame_seeds(state: Any, frames: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """Compute the seeds (``rand_r()`` states) for dithering frames with SplitMix64, and return them as int32.

    ``frames`` has the index of each frame in its utterance, and the result has the same shape. ``state`` is the 64-bit
    state of the utterance (see :func:`hash_utterance`), or an array of states, one for each frame. See Steele, Lea and
    Flood, Fast splittable pseudorandom number generators, 2014.
    """
    with np.errstate(over="ignore"):
        words = np.asarray(state, np.uint64) + _GOLDEN * (frames + 1).astype(np.uint64)
        words = (words ^ (words >> np.uint64(30))) * _MIX_1
        words = (words ^ (words >> np.uint64(27))) * _MIX_2
        words ^= words >> np.uint64(31)
    seeds: npt.NDArray[np.int32] = (words >> np.uint64(32)).astype(np.uint32).view(np.int32)
    return seeds


@dataclass(frozen=True)
class BlockNoise:
    """Replaces Kaldi's generator for a block of utterances, with the noise of :class:`UtteranceNoise`.

    Positions count the frames of the block, including frames between utterances.
    """

    seed: int  # Value of the option ``seed`` of the dump.
    keys: bytes  # Keys of the utterances, as in :attr:`~io_ark.blocks.Block.keys`.
    counts: npt.NDArray[np.int64]  # (utterances,): number of frames of each utterance.
    # (utterances,): position of each utterance's first frame; None if there are no frames between utterances.
    firsts: npt.NDArray[np.int64] | None = None
    start: int = 0  # Position of the first frame whose noise is requested.

    def frame_seeds(self, count: int) -> npt.NDArray[np.int32]:
        """Return the seeds (``rand_r()`` states) of ``count`` frames from position ``start``: int32 of shape (count,).

        The seed of a frame between utterances is 0.
        """
        states = np.array([hash_utterance(self.seed, key) for key in split_keys(self.keys)], np.uint64)
        offsets = np.cumsum(self.counts) - self.counts
        frames = np.arange(self.counts.sum()) - np.repeat(offsets, self.counts)
        positions = np.repeat((offsets if self.firsts is None else self.firsts) - self.start, self.counts) + frames
        is_requested = (positions >= 0) & (positions < count)
        seeds = np.zeros(count, np.int32)
        seeds[positions[is_requested]] = compute_frame_seeds(np.repeat(states, self.counts), frames)[is_requested]
        return seeds


class UtteranceNoise(KaldiRandom):
    """Replaces Kaldi's generator for the utterance ``key``. The noise depends on ``seed`` and on the key."""

    def __init__(self, seed: int, key: str) -> None:
        self.state = hash_utterance(seed, key)
        self.frame_count = 0  # Number of frames whose seeds have been returned.
        super().__init__(self.state & RAND_MAX)  # The low 31 bits are a seed for all draws except frame seeds.

    def frame_seeds(self, count: int) -> npt.NDArray[np.int32]:
        """Return the seeds (``rand_r()`` states) of the next ``count`` frames of the utterance: int32 (count,)."""
        self.frame_count += count
        return compute_frame_seeds(self.state, np.arange(self.frame_count - count, self.frame_count))
