"""Kernel that computes mel energies, or their logs, of power spectra.

The filters of neighbouring bands cover a short range of FFT bins. So bands are computed in groups, each by a matrix
product over its own range. All arithmetic is float32, without TF32.
"""

# Type checkers do not know the language that Triton compiles.
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["BANDS", "bands_kernel"]

BANDS = 16  # bands in a group


@triton.jit(do_not_specialize=["first_frame", "end_frame"], do_not_specialize_on_alignment=["tiles"])
def bands_kernel(
    power,
    weights,
    ranges,
    tiles,
    out,
    first_frame,
    end_frame,
    num_bands,
    bank_stride,
    weights_row,
    weights_column,
    out_row,
    floor,
    ROW: tl.constexpr,
    FRAMES: tl.constexpr,
    BANDS: tl.constexpr,
    BINS: tl.constexpr,
    LOG: tl.constexpr,
    BANKS: tl.constexpr,
):
    """Set weighted sums of power spectra, whose first row is that of first_frame.

    With BANKS, there are several filter banks, one after the other; tiles has the first frame, the end and the bank of
    the frames of each program.
    """
    group = tl.program_id(1)
    place = tl.program_id(0) * FRAMES + tl.arange(0, FRAMES)
    if BANKS:
        tile = tiles + 3 * tl.program_id(0)
        place = tl.load(tile) - first_frame + tl.arange(0, FRAMES)
        end_frame = tl.load(tile + 1)
        bank = tl.load(tile + 2)
        ranges += bank * 2 * tl.num_programs(1)
        weights += bank.to(tl.int64) * bank_stride
    inside = first_frame + place < end_frame
    band = group * BANDS + tl.arange(0, BANDS)
    first = tl.load(ranges + 2 * group)
    end = tl.load(ranges + 2 * group + 1)
    rows = power + (tl.where(inside, place, 0) * ROW)[:, None]
    total = tl.zeros((FRAMES, BANDS), tl.float32)
    while first < end:
        k = first + tl.arange(0, BINS)
        spectrum = tl.load(rows + k[None, :], mask=(k < end)[None, :], other=0.0)
        filters = tl.load(
            weights + k[:, None] * weights_row + band[None, :] * weights_column,
            mask=(k < end)[:, None] & (band < num_bands)[None, :],
            other=0.0,
        )
        total = tl.dot(spectrum, filters, total, input_precision="ieee")
        first += BINS
    if LOG:
        total = tl.log(tl.maximum(total, floor, propagate_nan=tl.PropagateNan.ALL))
    to = out + (first_frame + place).to(tl.int64)[:, None] * out_row + band[None, :]
    tl.store(to, total, mask=inside[:, None] & (band < num_bands)[None, :])
