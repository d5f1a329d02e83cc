"""Noise for dithering: Kaldi's own, for many frames at once, or torch's.

Kaldi makes a ``rand_r()`` state per frame and takes two uniform numbers per sample from it (src/feat/feature-window.cc,
Dither; src/base/kaldi-math.h, RandGauss). Each draw is computed directly from the state.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from kaldi_compat.exact.engine import Seeds
from kaldi_compat.exact.rand import NoiseSource, compute_rand_r_jumps
from kaldi_compat.torch.tensors.constants import Constants
from kaldi_compat.torch.tensors.copies import to_device

Generator = torch.Generator | NoiseSource | None
# From a slice of the frames to their noise.
FrameNoise = Callable[[slice], Tensor]


def frame_seeds(generator: Generator) -> Seeds:
    """Return the source of the noise states of frames for the exact engine."""
    if generator is not None and not isinstance(generator, torch.Generator):
        return generator.frame_seeds
    return lambda count: torch.randint(-(2**31), 2**31, (count,), generator=generator).to(torch.int32).numpy()


def noise_of_frames(frames: Tensor, valid: Tensor | None, generator: Generator) -> FrameNoise:
    """Return a function that gives the standard normal noise of frames ``(rows, frames, size)``, slice by slice.

    Args:
        frames: the frames that noise is added to.
        valid: mask ``(rows, frames)`` of the frames that exist: only these take states of a :class:`NoiseSource`.
        generator: torch's global generator if None, a ``torch.Generator``, or a :class:`NoiseSource`.
    """
    if generator is None:
        return lambda part: torch.randn_like(frames[:, part])
    if isinstance(generator, torch.Generator):
        return lambda part: torch.randn(
            frames[:, part].shape, generator=generator, dtype=frames.dtype, device=frames.device
        )
    states = frame_states(frames.shape[:-1], valid, generator)
    seeds = to_device(states, frames.device)
    return lambda part: kaldi_noise(seeds[:, part], frames.shape[-1]).to(frames.dtype)


def frame_states(shape: Sequence[int], valid: Tensor | None, source: NoiseSource) -> Tensor:
    """Return the ``rand_r()`` states of frames.

    Args:
        shape: shape of the array of frames.
        valid: mask of the frames that exist, which take the states, in order; None if all do. One on a GPU is waited
            for, since the number of states that the source gives depends on it.
        source: gives the states.

    Returns:
        int32 of that shape, on the CPU; 0 for frames that do not exist.
    """
    seeds = torch.zeros(tuple(shape), dtype=torch.int32, device="cpu")
    if valid is None:
        return seeds.copy_(torch.from_numpy(source.frame_seeds(seeds.numel())).view(seeds.shape))
    valid = valid.reshape(seeds.shape).cpu()
    seeds[valid] = torch.from_numpy(source.frame_seeds(int(valid.sum())))
    return seeds


_constants = Constants(8)


def _jumps(pairs: int, device: torch.device) -> Tensor:
    """Return the multipliers and increments of :func:`compute_rand_r_jumps` on a device, int32 (2, 6, pairs)."""
    return _constants.get(pairs, device, lambda: torch.from_numpy(np.stack(compute_rand_r_jumps(pairs))))


def _draw(seeds: Tensor, multipliers: Tensor, increments: Tensor) -> Tensor:
    """Return one ``rand_r()`` per seed and column of the three rows of the tables: integers from 0 to 2^31 - 1."""
    high, middle, low = (torch.addcmul(c, seeds, a) for a, c in zip(multipliers, increments, strict=True))
    high.bitwise_and_(0x7FF00000)
    high.bitwise_or_(middle.bitwise_right_shift_(12).bitwise_and_(0x000FFC00))
    return high.bitwise_or_(low.bitwise_right_shift_(22).bitwise_and_(0x000003FF))


def kaldi_noise(seeds: Tensor, num_samples: int) -> Tensor:
    """Return Kaldi's standard normal noise for frames.

    All but one of 100,000 numbers are within 2e-6 of Kaldi's, the worst of eight million within 1.4e-5; the exact
    engine gives Kaldi's bits.

    Args:
        seeds: ``rand_r()`` states, int32 of any shape (...): see :meth:`kaldi_compat.KaldiRandom.frame_seeds`.
        num_samples: samples in a frame.

    Returns:
        Float32 of shape (..., num_samples).

    >>> import torch
    >>> from kaldi_compat import KaldiRandom
    >>> from kaldi_compat.torch.tensors.dither import kaldi_noise
    >>> kaldi_noise(torch.from_numpy(KaldiRandom().frame_seeds(2)), 400).shape
    torch.Size([2, 400])
    """
    multipliers, increments = _jumps(num_samples, seeds.device)
    seeds = seeds.unsqueeze(-1)
    first = _draw(seeds, multipliers[:3], increments[:3])
    second = _draw(seeds, multipliers[3:], increments[3:])
    # in place: twenty passes over a buffer that stays in the cache; the 1 that is added to a draw shows in no angle
    radius = first.to(torch.float32).add_(1).mul_(1 / (2.0**31 + 1)).log_().mul_(-2).sqrt_()
    return second.to(torch.float32).mul_(2 * math.pi / (2.0**31 + 1)).cos_().mul_(radius)
