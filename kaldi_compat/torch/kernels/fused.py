"""Kernel that computes power spectra, mel energies or log mel energies from samples.

The kernel reads each sample once and writes each result once. A program computes a few frames at a time. For mel
energies, a program writes the spectra to a scratch buffer of a few kilobytes, and reuses the buffer for its next
frames, so that the buffer stays in the caches. A mel filter covers few FFT bins, so a lane computes one band as a sum
over the bins of its filter. All arithmetic is float32, and the order of the sums does not depend on the batch.
"""

# Type checkers do not know the language that Triton compiles.
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

from kaldi_compat.torch.kernels.spectrum import compute_spectra, store_power

if triton.knobs.runtime.interpret:

    def to_index(x):
        """Convert a number for range() in the interpreter, because NumPy 2.4 refuses an array with one element."""
        return int(x.handle.data.item())

else:

    @triton.jit
    def to_index(x):
        """Return the number unchanged, because the compiler accepts it in range()."""
        return x


@triton.jit
def sum_filters(
    spectra,
    first_bins,
    weights,
    frame_banks,
    begin,
    end,
    bank_bands,
    bank_rows,
    FRAMES: tl.constexpr,
    ROW: tl.constexpr,
    GROUP: tl.constexpr,
    BANKS: tl.constexpr,
):
    """Return weighted sums of spectra for a group of bands: for each frame, four partial sums of each band, (GROUP, 4).

    Args:
        spectra: address of the spectra of the frames, in rows of ROW numbers.
        first_bins: (bands,): first FFT bin of the filter of each band in the first bank, a multiple of 4.
        weights: rows of (GROUP, 4) weights, for four bins of each band of a group.
        frame_banks: index of the bank of each frame, a tuple.
        begin: first row of the weights of the group in the first bank.
        end: exclusive end of the rows of the group in the first bank.
        bank_bands: number of bands in a bank.
        bank_rows: number of rows of weights in a bank.
        BANKS: True if the frames may have different banks.
    """
    lane = tl.arange(0, GROUP)
    four = tl.arange(0, 4)[None, :]
    at = ()
    filters = ()
    total = ()
    for f in tl.static_range(FRAMES):
        first = tl.multiple_of(tl.load(first_bins + frame_banks[f] * bank_bands + lane), 4)
        at += (spectra + f * ROW + first[:, None] + four,)
        filters += (weights + ((frame_banks[f] * bank_rows + begin) * GROUP + lane)[:, None] * 4 + four,)
        total += (tl.zeros((GROUP, 4), tl.float32),)
    for _ in tl.range(to_index(end - begin)):
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


# Arguments that differ from call to call must not make Triton compile the kernel again.
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
    """Compute power spectra, and log energies, of frames 0 to end_frame - 1, which are counted over all rows.

    With MEL, compute mel energies instead of spectra. :func:`~.launch.make_kernel_options` returns the constants.

    Args:
        samples: int16 or float32: rows of audio.
        row_stride, samples_in_row, frames_in_row: distance between the starts of two rows in samples, and the numbers
            of samples and frames of a row.
        lengths: int64 (rows,): number of valid samples of each row; read with RAGGED.
        window, factors, bins: window (SIZE,), and the tables of ``_make_tables`` in :mod:`.launch`.
        scratch: float32 (programs * FRAMES, ROW): memory for spectra; used with MEL.
        first_bins, weights, group_rows: :class:`~.launch.BandFilters`.
        num_bands, num_groups, bank_rows: numbers of columns of ``out``, groups of bands, and weight rows of a bank.
        banks: int32 (end_frame,): index of the filter bank of each frame; read with BANKS.
        out: float32 (end_frame, num_bands), written: spectra, mel energies, or with LOG their logs.
        log_energy: float32 (end_frame,), written if ENERGY is not 0. ``energy_floor`` is the floor of the energy.
        seeds, jumps: :class:`~.launch.Noise`, and for Kaldi's noise the table of ``_make_jumps``.
        coefficient, scale, dither: coefficient of the preemphasis, factor on the samples, and factor on the noise.
        floor: floor of a mel energy before its log.
    """
    own = scratch + tl.program_id(0) * FRAMES * ROW
    rows = own + tl.arange(0, FRAMES)[:, None] * ROW
    if MEL:
        # Sums also read a few elements after the last bin, with weights of 0. These elements must be finite, so they
        # are 0.
        behind = A * LANES // 2 + 1 + tl.arange(0, 8)[None, :]
        tl.store(rows + behind, tl.zeros((FRAMES, 8), tl.float32), mask=behind < ROW)
    first_frame = tl.program_id(0) * FRAMES
    while first_frame < end_frame:
        place = first_frame + tl.arange(0, FRAMES)
        inside = place < end_frame
        frame = tl.minimum(place, end_frame - 1)
        re, im = compute_spectra(
            samples, lengths, window, factors, log_energy, seeds, jumps, row_stride, samples_in_row, frames_in_row,
            frame, inside, coefficient, scale, dither, energy_floor,
            SIZE, SHIFT, FIRST, A, LOG_A, LANES, LOG_LANES, FRAMES, REFLECTED, RAGGED, WIDE, SCALED, NOISE, REMOVE_DC,
            PREEMPHASIZED, ENERGY,
        )  # fmt: skip
        # With MEL, frames after the last frame are stored as well, so that sums never read uninitialized memory.
        is_stored = frame >= 0 if MEL else inside
        spectra = rows if MEL else out + (place.to(tl.int64) * num_bands)[:, None]
        store_power(re, im, spectra, bins, is_stored, A, LANES, MAGNITUDE)
        if MEL:
            tl.debug_barrier()  # The sums read spectra that other lanes have written.
            frame_banks = ()
            for f in tl.static_range(FRAMES):
                frame_banks += (tl.load(banks + tl.minimum(first_frame + f, end_frame - 1)) if BANKS else 0,)
            group = 0
            while group < num_groups:
                begin = tl.load(group_rows + group)
                total = sum_filters(
                    own, first_bins + group * GROUP, weights, frame_banks, begin, tl.load(group_rows + group + 1),
                    num_groups * GROUP, bank_rows, FRAMES, ROW, GROUP, BANKS,
                )  # fmt: skip
                band = group * GROUP + tl.arange(0, GROUP)
                for f in tl.static_range(FRAMES):
                    sums = tl.sum(total[f], 1)
                    if LOG:
                        sums = tl.log(tl.maximum(sums, floor, propagate_nan=tl.PropagateNan.ALL))
                    to = out + (first_frame + f).to(tl.int64) * num_bands + band
                    tl.store(to, sums, mask=(first_frame + f < end_frame) & (band < num_bands))
                group += 1
            tl.debug_barrier()  # All lanes must have read these spectra before the next spectra are written.
        first_frame += tl.num_programs(0) * FRAMES
