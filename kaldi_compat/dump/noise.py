"""Dithering noise that depends only on the plan's seed and the utterance's key.

Kaldi's programs draw the noise of utterances one after the other, so that it depends on all earlier ones. Here each
utterance can be computed anywhere, in any order, and repeatedly.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat.exact.rand import KaldiRandom

_GOLDEN, _MIX_1, _MIX_2 = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def utterance_state(seed: int, key: str) -> int:
    """Return the 64 bits that an utterance's noise starts from."""
    text = f"{seed} {key}".encode("utf-8", "surrogateescape")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def frame_seeds(state: Any, frame: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """Return ``rand_r()`` states of frames of utterances that start from these states: SplitMix64.

    Steele, Lea and Flood: Fast splittable pseudorandom number generators, 2014.
    """
    with np.errstate(over="ignore"):
        words = np.asarray(state, np.uint64) + _GOLDEN * (frame + 1).astype(np.uint64)
        words = (words ^ (words >> np.uint64(30))) * _MIX_1
        words = (words ^ (words >> np.uint64(27))) * _MIX_2
        words ^= words >> np.uint64(31)
    seeds: npt.NDArray[np.int32] = (words >> np.uint64(32)).astype(np.uint32).view(np.int32)
    return seeds


@dataclass(frozen=True)
class BlockNoise:
    """Replaces Kaldi's generator for several utterances at once; each has the noise of :class:`UtteranceNoise`.

    Attributes:
        seed: the dump's option ``seed``.
        keys: the utterances' keys.
        counts: (utterances,): their numbers of frames.
        firsts: (utterances,): where each one's first frame lies; by default they follow each other.
        start: the frame whose noise is wanted first.
    """

    seed: int
    keys: Sequence[str]
    counts: npt.NDArray[np.int64]
    firsts: npt.NDArray[np.int64] | None = None
    start: int = 0

    def frame_seeds(self, count: int) -> npt.NDArray[np.int32]:
        """Return states for the noise of the next frames; 0 for those of no utterance."""
        states = np.array([utterance_state(self.seed, key) for key in self.keys], np.uint64)
        before = np.cumsum(self.counts) - self.counts
        frames = np.arange(self.counts.sum()) - np.repeat(before, self.counts)
        places = np.repeat((before if self.firsts is None else self.firsts) - self.start, self.counts) + frames
        wanted = (places >= 0) & (places < count)
        seeds = np.zeros(count, np.int32)
        seeds[places[wanted]] = frame_seeds(np.repeat(states, self.counts), frames)[wanted]
        return seeds


class UtteranceNoise(KaldiRandom):
    """Replaces Kaldi's generator for one utterance; draws that are not for frames have a seed of their own."""

    def __init__(self, seed: int, key: str) -> None:
        self.state = utterance_state(seed, key)
        self.frames = 0
        self.seed = self.state & 0x7FFFFFFF
        self._seeded = False  # lazily, since it takes long compared with a short utterance, and few need it

    def draws(self, count: int) -> npt.NDArray[np.int32]:
        """Return the next values of the utterance's ``rand()``."""
        if not self._seeded:
            self._seeded = True
            self.srand(self.seed)
        return super().draws(count)

    def frame_seeds(self, count: int) -> npt.NDArray[np.int32]:
        """Return states for the noise of the utterance's next frames."""
        self.frames += count
        return frame_seeds(self.state, np.arange(self.frames - count, self.frames))
