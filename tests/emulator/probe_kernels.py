"""Kernels that call a function of the Triton engine alone, for its tests."""

# Type checkers do not know the language that Triton compiles.
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

from kaldi_compat.torch.kernels.noise import draw_kaldi_normal, draw_philox_normals
from kaldi_compat.torch.kernels.spectrum import reflect_indices

__all__ = ["draw", "reflect"]


@triton.jit
def draw(seeds, jumps, kaldi, philox, SIZE: tl.constexpr):
    """Set Kaldi's noise (frames, SIZE), and Philox's (frames, 4, SIZE)."""
    n = tl.arange(0, SIZE)[None, :]
    frame = tl.program_id(0)
    seed = tl.load(seeds + frame)
    tl.store(kaldi + frame * SIZE + n, draw_kaldi_normal(seed, tl.load(jumps + n), tl.load(jumps + SIZE + n)))
    four = draw_philox_normals(tl.full((), 5, tl.int64), n, tl.full((1, 1), 0, tl.int32) + frame)
    for i in tl.static_range(4):
        tl.store(philox + (frame * 4 + i) * SIZE + n, four[i])


@triton.jit
def reflect(places, length, out, TYPE: tl.constexpr, N: tl.constexpr):
    """Set N reflected indices, computed in a type."""
    n = tl.arange(0, N)
    tl.store(out + n, reflect_indices(tl.load(places + n).to(TYPE), length.to(TYPE)))
