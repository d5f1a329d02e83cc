"""The random numbers of Kaldi's programs: the C library's ``rand()``, never seeded, so that every run repeats.

Kaldi draws its noise with glibc's ``rand()`` (an additive feedback generator) and, for dithering, with one ``rand_r()``
per frame that ``rand()`` seeds (src/base/kaldi-math.cc). This module computes ``rand()`` and the seeds of ``rand_r()``
in NumPy; :mod:`kaldi_compat.torch.tensors.dither` turns the seeds into the noise of frames.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from io_ark.libm import logf
from kaldi_compat.errors import OptionError
from kaldi_compat.exact.arrays import Floats
from kaldi_compat.exact.libm import cosf

RAND_MAX = 0x7FFFFFFF
SEED_OFFSET = 27437  # Kaldi's RandomState adds this number to the draw of rand() that seeds it.
# A step of rand_r() is ``state * _MULTIPLIER + _INCREMENT`` modulo 2^32.
_MULTIPLIER, _INCREMENT = 1103515245, 12345
_STEPS = 6  # Number of steps in two draws of rand_r(), which takes three steps for each draw.
_LAG, _SHORT_LAG = 31, 3  # glibc's rand() computes r[i] = r[i - 3] + r[i - 31] modulo 2^32.
_BLOCK = 992  # Count of draws that are computed together: 32 times _LAG. A count near 1000 is the fastest.
_DISCARDED = 310  # glibc discards the numbers of its first ten rounds.


@functools.cache
def _make_block_matrix() -> npt.NDArray[np.uint32]:
    """Return the matrix (_BLOCK, 31) that maps the last 31 words of glibc's generator to the next ``_BLOCK`` words.

    The recurrence is linear modulo 2^32, so the unit vectors give its matrix.
    """
    rows = np.zeros((_LAG + _BLOCK, _LAG), np.uint32)
    rows[:_LAG] = np.eye(_LAG, dtype=np.uint32)
    for i in range(_LAG, len(rows)):
        rows[i] = rows[i - _SHORT_LAG] + rows[i - _LAG]
    return rows[_LAG:]


def _compute_seeded_state(seed: int) -> npt.NDArray[np.uint32]:
    """Return the state (31,) after ``srand(seed)``, before glibc discards numbers."""
    word = seed % 2**32 or 1  # srand(0) has the same effect as srand(1).
    # glibc's words are signed, and C's remainder has the sign of the dividend, as the result of np.fmod has.
    word = word - 2**32 if word >= 2**31 else word
    state = [word]
    for _ in range(_LAG - 1):
        word = int(np.fmod(16807 * word, RAND_MAX))  # 16807 is glibc's multiplier.
        word += RAND_MAX if word < 0 else 0
        state.append(word)
    # glibc's short lag starts three words into the state, so the state is rotated by three places.
    return np.roll(np.array(state, np.int64).astype(np.uint32), -_SHORT_LAG)


# Examples of valid generators that error messages show.
NUMPY_GENERATOR = "numpy.random.default_rng(5)"
TORCH_GENERATOR = "torch.Generator().manual_seed(5)"


class NoiseSource(Protocol):
    """Source of ``rand_r()`` states for the noise of frames, such as :class:`~kaldi_compat.KaldiRandom`."""

    def frame_seeds(self, count: int) -> npt.NDArray[np.int32]:
        """Return the ``rand_r()`` states for the noise of the next ``count`` frames, shape ``(count,)``."""


def get_seed_source(source: NoiseSource, example: str) -> Callable[[int], npt.NDArray[np.int32]]:
    """Return the method ``frame_seeds`` of a noise source, which draws a ``rand_r()`` state for each frame.

    Raise OptionError if ``source`` is not a :class:`NoiseSource`. The error shows ``example``, a valid generator.
    """
    if isinstance(source, type) or not hasattr(source, "frame_seeds"):
        raise make_generator_error(source, example)
    return source.frame_seeds


def make_generator_error(generator: Any, example: str) -> OptionError:
    """Return the error for a generator of a wrong type. The message shows ``example``, a valid generator."""
    return OptionError(f"generator cannot be of type {type(generator).__name__}: pass a generator such as {example}")


class KaldiRandom:
    """glibc's ``rand()`` as Kaldi uses it. The state continues from call to call.

    Args:
        seed: argument of ``srand()``. Programs that do not call it, such as Kaldi's, have seed 1.

    >>> from kaldi_compat import KaldiRandom
    >>> KaldiRandom().draws(3)
    array([1804289383,  846930886, 1681692777], dtype=int32)
    """

    def __init__(self, seed: int = 1) -> None:
        self.seed = seed
        # The first draw computes the state, because that takes longer than the features of a short utterance.
        self._state = np.empty(0, np.uint32)  # The last 31 words of the generator, (31,).
        self._next_draws = np.empty(0, np.int32)  # Draws that were computed, but not yet returned.

    def __repr__(self) -> str:
        return f"{type(self).__name__}(seed={self.seed})"

    def draws(self, count: int) -> npt.NDArray[np.int32]:
        """Return the next ``count`` values of ``rand()``: integers from 0 to 2^31 - 1, shape (count,)."""
        if not len(self._state):
            self._state = _compute_seeded_state(self.seed)
            self.draws(_DISCARDED)
        blocks = [self._next_draws]
        missing_count = count - len(self._next_draws)
        while missing_count > 0:
            words = _make_block_matrix() @ self._state
            self._state = words[-_LAG:]
            blocks.append((words >> np.uint32(1)).astype(np.int32))
            missing_count -= _BLOCK
        numbers = np.concatenate(blocks) if len(blocks) > 1 else self._next_draws
        self._next_draws = numbers[count:]
        return numbers[:count]

    def uniform(self, count: int) -> npt.NDArray[np.float32]:
        """Return the next ``count`` numbers of Kaldi's RandUniform(): in (0, 1], float32, shape (count,)."""
        return ((self.draws(count) + 1.0) / (RAND_MAX + 2.0)).astype(np.float32)

    def gauss(self, count: int) -> npt.NDArray[np.float32]:
        """Return the next ``count`` numbers of Kaldi's RandGauss(): standard normal, float32, shape (count,).

        The Box-Muller transform computes each number from two uniform numbers, and rounds to float32 where Kaldi rounds
        (src/base/kaldi-math.h).
        """
        radius, turn = self.uniform(2 * count).reshape(count, 2).T
        angle = (2 * np.pi * turn.astype(np.float64)).astype(np.float32)
        normal: npt.NDArray[np.float32] = np.sqrt(np.float32(-2) * logf(radius)) * cosf(angle)
        return normal

    def frame_seeds(self, count: int) -> npt.NDArray[np.int32]:
        """Return ``rand_r()`` states for the next ``count`` frames, int32 of shape (count,) (Kaldi: RandomState)."""
        seeds: npt.NDArray[np.int32] = self.draws(count) + np.int32(SEED_OFFSET)
        return seeds


@functools.lru_cache(maxsize=8)
def compute_rand_r_jumps(pairs: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Return the multipliers and increments (6, pairs) that map a seed of ``rand_r()`` to the words of its first draws.

    A draw joins three words, so a pair of draws has six words. A word is the state after a step of a linear congruence
    modulo 2^32, and the state after ``k`` steps is ``A_k * seed + C_k``, a jump over the states between. The three
    words give 11, 10 and 10 bits of the draw, each from bit 16 of the word upwards. The tables are shifted left by 4, 6
    and 6 bits, which moves the bits of the first word to their final position, and all other bits to the top.
    """
    powers, sums = _compute_jumps(_STEPS * pairs)
    shifts = np.array([4, 6, 6, 4, 6, 6], np.uint32)
    multipliers, increments = (
        np.ascontiguousarray((table.reshape(pairs, _STEPS) << shifts).T.astype(np.uint32)).view(np.int32)
        for table in (powers, sums)
    )
    return multipliers, increments


def draw_polar_noise(seeds: npt.NDArray[np.int32], pairs: int) -> tuple[Floats, Floats]:
    """Draw ``pairs`` pairs of normal numbers for each of ``seeds``, in polar coordinates (Kaldi: RandGauss2).

    ``seeds`` (n,) are states of ``rand_r()``. Return the radii and the angles in radians, both (n, pairs).
    """
    multipliers, increments = compute_rand_r_jumps(pairs)
    words = seeds[:, None] * multipliers[:, None] + increments[:, None]  # (6, n, pairs): three words for each draw.
    # Each draw joins 11, 10 and 10 bits of its three words. The multipliers and increments have shifted the words.
    draws = (words[0::3] & 0x7FF00000) | (words[1::3] >> 12 & 0x000FFC00) | (words[2::3] >> 22 & 0x000003FF)
    uniform_radius, turn = ((draws + 1.0) / (RAND_MAX + 2.0)).astype(np.float32)
    return np.sqrt(np.float32(-2) * logf(uniform_radius)), (2 * np.pi * turn.astype(np.float64)).astype(np.float32)


@functools.lru_cache(maxsize=8)
def compute_rand_r_starts(pairs: int) -> npt.NDArray[np.int32]:
    """Return multipliers and increments (2, pairs) that map a ``rand_r()`` seed to the state before each pair of draws.

    Row 0 has the multipliers.
    """
    powers, sums = _compute_jumps(_STEPS * pairs)
    starts = np.array([[1, *powers[_STEPS - 1 : -1 : _STEPS]], [0, *sums[_STEPS - 1 : -1 : _STEPS]]], np.uint32)
    return starts.view(np.int32)


def _compute_jumps(count: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """Return the multipliers and increments (count,) that map a state of ``rand_r()`` to the next ``count`` states."""
    powers = np.cumprod(np.full(count, _MULTIPLIER, np.uint32), dtype=np.uint32)
    sums = np.cumsum(np.concatenate(([1], powers[:-1])), dtype=np.uint32) * np.uint32(_INCREMENT)
    return powers, sums
