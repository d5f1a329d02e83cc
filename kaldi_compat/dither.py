"""The noise that Kaldi adds to each frame: glibc's ``rand_r()`` drawn for many frames and samples at once.

Kaldi makes a ``rand_r()`` state per frame and takes two uniform numbers a sample from it (src/feat/feature-window.cc,
Dither; src/base/kaldi-math.h, RandGauss). ``rand_r()`` is three steps of a linear congruence modulo 2^32, and its k-th
step is itself linear in the seed, ``A_k * seed + C_k``: so each number is reached from the seed directly.
"""

from __future__ import annotations

import functools
import math

import numpy as np
import torch
from torch import Tensor

from kaldi_compat.libm import cosf, logf
from kaldi_compat.random import RAND_R_INCREMENT, RAND_R_MULTIPLIER

_STEPS = 6  # of the congruence in a sample: two draws of three steps each


@functools.lru_cache(maxsize=8)
def _jump_table(num_samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Multipliers and increments that lead from a seed to the six words of each sample: two of (6, 1, num_samples).

    The three words of a draw give 11, 10 and 10 of its bits, each from bit 16 of the word upwards. Shifting the
    tables left (by 4, 6 and 6) puts those bits in their place already, or at the top of the word.
    """
    count = _STEPS * num_samples
    powers = np.cumprod(np.full(count, RAND_R_MULTIPLIER, np.uint32), dtype=np.uint32)
    sums = np.cumsum(np.concatenate(([1], powers[:-1])), dtype=np.uint32) * np.uint32(RAND_R_INCREMENT)
    shifts = np.array([4, 6, 6, 4, 6, 6], np.uint32)
    multipliers, increments = (
        np.ascontiguousarray((table.reshape(num_samples, _STEPS) << shifts).T.astype(np.uint32)).view(np.int32)
        for table in (powers, sums)
    )
    return multipliers, increments


def _draw(seeds: Tensor, multipliers: Tensor, increments: Tensor) -> Tensor:
    """One ``rand_r()`` for each seed and each column of the three rows of tables: integers from 0 to 2^31 - 1."""
    high, middle, low = (torch.addcmul(c, seeds, a) for a, c in zip(multipliers, increments, strict=True))
    high.bitwise_and_(0x7FF00000)
    high.bitwise_or_(middle.bitwise_right_shift_(12).bitwise_and_(0x000FFC00))
    return high.bitwise_or_(low.bitwise_right_shift_(22).bitwise_and_(0x000003FF))


def kaldi_noise(seeds: Tensor, num_samples: int, *, kaldi_order: bool = False) -> Tensor:
    """Kaldi's standard normal noise for frames.

    Args:
        seeds: ``rand_r()`` states, int32 of any shape (...): see :meth:`kaldi_compat.random.KaldiRandom.frame_seeds`.
        num_samples: samples in a frame.
        kaldi_order: round where Kaldi rounds, in float64 between; otherwise all but one of 100,000 numbers are within
            2e-6 of that, the worst of eight million 1.4e-5.

    Returns:
        Float32 of shape (..., num_samples).

    >>> from kaldi_compat.random import KaldiRandom
    >>> kaldi_noise(torch.from_numpy(KaldiRandom().frame_seeds(2)), 400).shape
    torch.Size([2, 400])
    """
    multipliers, increments = (torch.from_numpy(table).to(seeds.device) for table in _jump_table(num_samples))
    seeds = seeds.unsqueeze(-1)
    first = _draw(seeds, multipliers[:3], increments[:3])
    second = _draw(seeds, multipliers[3:], increments[3:])
    if kaldi_order:
        # in NumPy, whose roots are correctly rounded, unlike torch's
        u1, u2 = (((draws.cpu().numpy() + 1.0) / (2.0**31 + 1)).astype(np.float32) for draws in (first, second))
        angle = (2 * np.pi * u2.astype(np.float64)).astype(np.float32)
        return torch.from_numpy(np.sqrt(np.float32(-2) * logf(u1)) * cosf(angle)).to(seeds.device)
    # in place: twenty passes over a buffer that stays in the cache; the 1 that is added to a draw shows in no angle
    radius = first.to(torch.float32).add_(1).mul_(1 / (2.0**31 + 1)).log_().mul_(-2).sqrt_()
    return second.to(torch.float32).mul_(2 * math.pi / (2.0**31 + 1)).cos_().mul_(radius)
