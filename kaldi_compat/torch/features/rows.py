"""Features of one row of audio that holds many utterances on one grid of frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from kaldi_compat.exact.arrays import Integers
from kaldi_compat.torch.features.engines import choose_engine
from kaldi_compat.torch.features.spectral import SpectralFeature


def compute_row(
    module: SpectralFeature, samples: Tensor, first_frames: Integers, count: int, warps: Sequence[float], noise: Any
) -> tuple[Tensor, bool]:
    """Compute the features of a row, which has the audio of several utterances, without waiting for the device.

    Args:
        module: the feature, with ``snip_edges``.
        samples: audio of the row, shape (T,), on the device of the module.
        first_frames: index of the first frame of each utterance among the frames of the row, shape (utterances,).
        count: number of frames of the row.
        warps: VTLN factor of each utterance.
        noise: source of the dithering noise of the frames, a dataclass whose ``start`` is the first frame.

    Returns:
        Features of shape (frames, dim), and True if the Triton kernels computed them.
    """
    if choose_engine(module, samples, None, vtln_warp=warps, generator=noise) == "triton":
        from kaldi_compat.torch.kernels.launch import Spans, launch_row

        return launch_row(module, samples, Spans(first_frames, warps), noise), True
    # Neighboring utterances with the same VTLN factor are computed together.
    size, shift = module.options.window_size, module.options.window_shift
    block_starts = [0, *(i for i in range(1, len(warps)) if warps[i] != warps[i - 1])]
    bounds = [0, *first_frames[block_starts[1:]].tolist(), count]
    blocks = [
        module(
            samples[first * shift : (end - 1) * shift + size], vtln_warp=warps[i], generator=replace(noise, start=first)
        )
        for i, (first, end) in zip(block_starts, pairwise(bounds), strict=True)
        if end > first
    ]
    return (blocks[0] if len(blocks) == 1 else torch.cat(blocks)), False
