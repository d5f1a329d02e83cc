"""Kernel from samples to power spectra, mel energies or their logs: reads each sample once, writes each result once.

A program computes the frames of one warp after the other. On the way to mel energies, their spectra go to a scratch of
the program's own, a few kilobytes that it overwrites with the next frames, so that they stay in the caches and never
reach the memory. A mel filter covers few FFT bins, so the lanes take a band each and add up the products of its bins.
All arithmetic is float32, and the order of the sums does not depend on the batch.
"""

# Type checkers do not know the language that Triton compiles.
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

from kaldi_compat.torch.kernels.spectrum import spectra_of, stored_power

if triton.knobs.runtime.interpret:

    def as_index(x):
        """Return a number as the interpreter's range() takes it: with NumPy 2.4, not in an array of one."""
        return int(x.handle.data.item())

else:

    @triton.jit
    def as_index(x):
        """Return the number itself."""
        return x


@triton.jit
def mel_sums(
    spectra,
    first_bins,
    weights,
    number,
    begin,
    end,
    bank_bands,
    bank_rows,
    FRAMES: tl.constexpr,
    ROW: tl.constexpr,
    GROUP: tl.constexpr,
    BANKS: tl.constexpr,
):
    """Return weighted sums of spectra for a group of bands: FRAMES tensors (GROUP, 4), to be added up in their rows.

    Args:
        spectra: the frames' spectra, in rows of ROW numbers.
        first_bins: first FFT bin of each band's filter in the first bank, multiples of 4, (bands,).
        weights: those of 4 bins of each band of a group in each row of (GROUP, 4) numbers.
        number: number of each frame's bank.
        begin, end: the group's rows of weights in the first bank.
        bank_bands, bank_rows: the number of each in a bank.
    """
    lane = tl.arange(0, GROUP)
    four = tl.arange(0, 4)[None, :]
    at = ()
    filters = ()
    total = ()
    for f in tl.static_range(FRAMES):
        first = tl.multiple_of(tl.load(first_bins + number[f] * bank_bands + lane), 4)
        at += (spectra + f * ROW + first[:, None] + four,)
        filters += (weights + ((number[f] * bank_rows + begin) * GROUP + lane)[:, None] * 4 + four,)
        total += (tl.zeros((GROUP, 4), tl.float32),)
    for _ in tl.range(as_index(end - begin)):
        sums = ()
        next_at = ()
        next_filters = ()
        for f in tl.static_range(FRAMES):
            if BANKS or f == 0:
                weight = tl.load(filters[f])
            sums += (total[f] + tl.load(at[f]) * weight,)
            next_at += (at[f] + 4,)
            next_filters += (filters[f] + 4 * GROUP,)
        at = next_at
        filters = next_filters
        total = sums
    return total


# Arguments that differ from call to call must not cause recompilation.
@triton.jit(
    do_not_specialize=[
        "row_stride",
        "samples_in_row",
        "frames_in_row",
        "end_frame",
        "num_bands",
        "num_groups",
        "bank_rows",
    ],
    do_not_specialize_on_alignment=["samples", "lengths", "log_energy", "seeds", "banks"],
)
def feature_kernel(
    samples,
    lengths,
    window,
    factors,
    bins,
    scratch,
    first_bins,
    weights,
    group_rows,
    banks,
    out,
    log_energy,
    seeds,
    jumps,
    row_stride,
    samples_in_row,
    frames_in_row,
    end_frame,
    num_bands,
    num_groups,
    bank_rows,
    coefficient,
    scale,
    dither,
    energy_floor,
    floor,
    SIZE: tl.constexpr,
    SHIFT: tl.constexpr,
    FIRST: tl.constexpr,
    A: tl.constexpr,
    LOG_A: tl.constexpr,
    LANES: tl.constexpr,
    LOG_LANES: tl.constexpr,
    FRAMES: tl.constexpr,
    ROW: tl.constexpr,
    GROUP: tl.constexpr,
    REFLECTED: tl.constexpr,
    RAGGED: tl.constexpr,
    WIDE: tl.constexpr,
    SCALED: tl.constexpr,
    NOISE: tl.constexpr,
    REMOVE_DC: tl.constexpr,
    PREEMPHASIZED: tl.constexpr,
    ENERGY: tl.constexpr,
    MAGNITUDE: tl.constexpr,
    MEL: tl.constexpr,
    LOG: tl.constexpr,
    BANKS: tl.constexpr,
):
    """Compute power (or magnitude) spectra, and log energies, of frames 0 to end_frame - 1.

    With MEL, compute their mel energies, or their logs, instead. With BANKS, there are several filter banks, and
    ``banks`` has the number of each frame's.
    """
    own = scratch + tl.program_id(0) * FRAMES * ROW
    rows = own + tl.arange(0, FRAMES)[:, None] * ROW
    if MEL:
        # Sums run over a few bins behind the last one, whose weights are 0.
        behind = A * LANES // 2 + 1 + tl.arange(0, 8)[None, :]
        tl.store(rows + behind, tl.zeros((FRAMES, 8), tl.float32), mask=behind < ROW)
    first_frame = tl.program_id(0) * FRAMES
    while first_frame < end_frame:
        place = first_frame + tl.arange(0, FRAMES)
        inside = place < end_frame
        frame = tl.minimum(place, end_frame - 1)
        re, im = spectra_of(
            samples, lengths, window, factors, log_energy, seeds, jumps, row_stride, samples_in_row, frames_in_row,
            frame, inside, coefficient, scale, dither, energy_floor,
            SIZE, SHIFT, FIRST, A, LOG_A, LANES, LOG_LANES, FRAMES, REFLECTED, RAGGED, WIDE, SCALED, NOISE, REMOVE_DC,
            PREEMPHASIZED, ENERGY,
        )  # fmt: skip
        # The scratch gets spectra for all frames, so that no sums run over what was there before.
        kept = frame >= 0 if MEL else inside
        spectra = rows if MEL else out + (place.to(tl.int64) * num_bands)[:, None]
        stored_power(re, im, spectra, bins, kept, A, LANES, MAGNITUDE)
        if MEL:
            tl.debug_barrier()  # the lanes read what others have written
            number = ()
            for f in tl.static_range(FRAMES):
                number += (tl.load(banks + tl.minimum(first_frame + f, end_frame - 1)) if BANKS else 0,)
            group = 0
            while group < num_groups:
                begin = tl.load(group_rows + group)
                total = mel_sums(
                    own, first_bins + group * GROUP, weights, number, begin, tl.load(group_rows + group + 1),
                    num_groups * GROUP, bank_rows, FRAMES, ROW, GROUP, BANKS,
                )  # fmt: skip
                band = group * GROUP + tl.arange(0, GROUP)
                for f in tl.static_range(FRAMES):
                    each = tl.sum(total[f], 1)
                    if LOG:
                        each = tl.log(tl.maximum(each, floor, propagate_nan=tl.PropagateNan.ALL))
                    to = out + (first_frame + f).to(tl.int64) * num_bands + band
                    tl.store(to, each, mask=(first_frame + f < end_frame) & (band < num_bands))
                group += 1
            tl.debug_barrier()  # nobody writes the next spectra before all have read these
        first_frame += tl.num_programs(0) * FRAMES
