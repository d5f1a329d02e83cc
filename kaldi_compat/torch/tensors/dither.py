"""Noise for dithering: Kaldi's noise, computed for many frames at once, or torch's noise.

Kaldi creates a ``rand_r()`` state for each frame and draws two uniform numbers from it for each sample
(src/feat/feature-window.cc, Dither; src/base/kaldi-math.h, RandGauss). Here every draw is computed directly from the
state of its frame.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from kaldi_compat.exact.engine import SeedSource
from kaldi_compat.exact.rand import TORCH_GENERATOR, NoiseSource, compute_rand_r_jumps, get_seed_source
from kaldi_compat.functional.array_api import refuse_export_of_noise, run_eagerly
from kaldi_compat.torch.tensors.constants import Constants
from kaldi_compat.torch.tensors.copies import to_device

Generator = torch.Generator | NoiseSource | None
# Function from a slice of the axis of frames to the noise of these frames, (rows, frames, size).
FrameNoise = Callable[[slice], Tensor]


def make_seed_source(generator: Generator) -> SeedSource:
    """Return a function that draws ``count`` states of ``rand_r()``, int32 (count,). Wrong types raise OptionError."""
    if generator is not None and not isinstance(generator, torch.Generator):
        return get_seed_source(generator, TORCH_GENERATOR)
    return lambda count: torch.randint(-(2**31), 2**31, (count,), generator=generator).to(torch.int32).numpy()


def make_frame_noise(frames: Tensor, is_valid: Tensor | None, generator: Generator) -> FrameNoise:
    """Return a function that computes the standard normal noise (rows, n, size) of a slice of n frames.

    Args:
        frames: ``(rows, frames, size)``: the frames that the noise is added to.
        is_valid: mask ``(rows, frames)`` of the frames that exist; None if all exist. Only these frames consume states
            of a :class:`NoiseSource`.
        generator: torch's global generator if None, a ``torch.Generator``, or a :class:`NoiseSource`. Other types, and
            a :class:`NoiseSource` while a model is exported or traced, raise OptionError.
    """
    if generator is None:
        return lambda block: torch.randn_like(frames[:, block])
    if isinstance(generator, torch.Generator):
        return lambda block: torch.randn(
            frames[:, block].shape, generator=generator, dtype=frames.dtype, device=frames.device
        )
    refuse_export_of_noise(frames)
    host_states = run_eagerly(draw_frame_states)(frames.shape[:-1], is_valid, generator)
    states = to_device(host_states, frames.device)
    return lambda block: compute_kaldi_noise(states[:, block], frames.shape[-1]).to(frames.dtype)


def draw_frame_states(shape: Sequence[int], is_valid: Tensor | None, source: NoiseSource) -> Tensor:
    """Draw a ``rand_r()`` state for the dithering noise of each frame.

    Args:
        shape: (rows, frames), the shape of the frames without their samples.
        is_valid: mask (rows, frames) of the frames that exist; None if all exist. Only these frames consume states. A
            mask on a GPU is copied to the CPU, which waits for the GPU, because the number of states depends on it.
        source: source of the states. A wrong type raises OptionError.

    Returns:
        States, int32 of the shape ``shape``, on the CPU; 0 for frames that do not exist.
    """
    draw = get_seed_source(source, TORCH_GENERATOR)
    states = torch.zeros(tuple(shape), dtype=torch.int32, device="cpu")
    if is_valid is None:
        return states.copy_(torch.from_numpy(draw(states.numel())).view(states.shape))
    is_valid = is_valid.reshape(states.shape).cpu()
    states[is_valid] = torch.from_numpy(draw(int(is_valid.sum())))
    return states


_constants = Constants(8)


def _get_jumps(pairs: int, device: torch.device) -> Tensor:
    """Return the multipliers and increments of :func:`compute_rand_r_jumps` on a device, int32 (2, 6, pairs)."""
    return _constants.get_tensor(pairs, device, lambda: torch.from_numpy(np.stack(compute_rand_r_jumps(pairs))))


def _draw_rand_r(states: Tensor, multipliers: Tensor, increments: Tensor) -> Tensor:
    """Return results of ``rand_r()``, from 0 to 2^31 - 1, (..., pairs), for states (..., 1) and jumps (3, pairs)."""
    # rand_r() joins 11, 10 and 10 bits of three consecutive states of its generator.
    high, middle, low = (torch.addcmul(c, states, a) for a, c in zip(multipliers, increments, strict=True))
    high.bitwise_and_(0x7FF00000)
    high.bitwise_or_(middle.bitwise_right_shift_(12).bitwise_and_(0x000FFC00))
    return high.bitwise_or_(low.bitwise_right_shift_(22).bitwise_and_(0x000003FF))


def compute_kaldi_noise(states: Tensor, num_samples: int) -> Tensor:
    """Compute Kaldi's standard normal noise for frames.

    In a test of eight million numbers, the largest difference from Kaldi's was 1.4e-5, and all but one in 100,000
    differed by less than 2e-6. The exact engine gives Kaldi's bits.

    Args:
        states: ``rand_r()`` states, int32 of any shape (...): see :meth:`kaldi_compat.KaldiRandom.frame_seeds`.
        num_samples: number of samples in a frame.

    Returns:
        Noise, float32 of shape (..., num_samples).
    """
    multipliers, increments = run_eagerly(_get_jumps)(num_samples, states.device)
    states = states.unsqueeze(-1)
    first = _draw_rand_r(states, multipliers[:3], increments[:3])
    second = _draw_rand_r(states, multipliers[3:], increments[3:])
    # The operations are in place, so that they use a single buffer, which stays in the cache. Kaldi adds 1 to both
    # draws. Here, the second draw omits the 1, which changes the angle by less than the precision of float32.
    radius = first.to(torch.float32).add_(1).mul_(1 / (2.0**31 + 1)).log_().mul_(-2).sqrt_()
    return second.to(torch.float32).mul_(2 * math.pi / (2.0**31 + 1)).cos_().mul_(radius)
