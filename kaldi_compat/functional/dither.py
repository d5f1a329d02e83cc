"""The noise that Kaldi adds to each frame: glibc's ``rand_r()`` drawn for many frames and samples at once.

Kaldi makes a ``rand_r()`` state per frame and takes two uniform numbers a sample from it (src/feat/feature-window.cc,
Dither; src/base/kaldi-math.h, RandGauss). Each is reached from the seed directly.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from kaldi_compat.exact.libm import cosf, logf
from kaldi_compat.exact.rand import rand_r_jumps


def _draw(seeds: Tensor, multipliers: Tensor, increments: Tensor) -> Tensor:
    """One ``rand_r()`` for each seed and each column of the three rows of tables: integers from 0 to 2^31 - 1."""
    high, middle, low = (torch.addcmul(c, seeds, a) for a, c in zip(multipliers, increments, strict=True))
    high.bitwise_and_(0x7FF00000)
    high.bitwise_or_(middle.bitwise_right_shift_(12).bitwise_and_(0x000FFC00))
    return high.bitwise_or_(low.bitwise_right_shift_(22).bitwise_and_(0x000003FF))


def without_waiting(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor of the host on a device. From memory that is not pinned, the copy waits for what is computed there."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def kaldi_noise(seeds: Tensor, num_samples: int, *, kaldi_order: bool = False) -> Tensor:
    """Kaldi's standard normal noise for frames.

    Args:
        seeds: ``rand_r()`` states, int32 of any shape (...): see :meth:`kaldi_compat.exact.rand.KaldiRandom.frame_seeds`.
        num_samples: samples in a frame.
        kaldi_order: round where Kaldi rounds, in float64 between; otherwise all but one of 100,000 numbers are within
            2e-6 of that, the worst of eight million 1.4e-5.

    Returns:
        Float32 of shape (..., num_samples).

    >>> from kaldi_compat.exact.rand import KaldiRandom
    >>> kaldi_noise(torch.from_numpy(KaldiRandom().frame_seeds(2)), 400).shape
    torch.Size([2, 400])
    """
    multipliers, increments = (torch.from_numpy(table).to(seeds.device) for table in rand_r_jumps(num_samples))
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
