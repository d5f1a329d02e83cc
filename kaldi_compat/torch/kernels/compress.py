"""Kernels that compress matrices to the same bytes as Kaldi (``src/matrix/compressed-matrix.cc``).

A program compresses a group of columns of one utterance. Quantization is monotonic, so the quartiles of a column can be
computed from its 16-bit values, by bisection instead of sorting. The operations are the same as in
:mod:`io_ark.codecs.compressed`, and the kernels are compiled without fused multiply-adds, to round as Kaldi does.
"""

# Type checkers do not know the language that Triton compiles.
# mypy: ignore-errors

from __future__ import annotations

import triton
import triton.language as tl

PER_STEP = tl.constexpr(1.5259021893143654e-05)  # Kaldi's constant for 1/65535, in float32.
# The smallest float32 fraction that Kaldi rounds up. Kaldi adds 0.499 in float64 and truncates.
ROUNDS_UP = tl.constexpr(0.5010000467300415)
NO_ZERO = tl.constexpr(2**31 - 1)  # Value of `zeros` for columns without a zero. It is above every index.
INFINITY = tl.constexpr(float("inf"))


@triton.jit
def ranges_kernel(features, places, ranges, zeros, row, dim, FRAMES: tl.constexpr, COLUMNS: tl.constexpr):
    """Compute the minimum, the maximum and the position of the first zero of each group of columns of each matrix.

    Args:
        features: float32 (frames, dim): the matrices of all utterances.
        places: int64 (utterances, 4): first frame, number of frames, and positions of the first code and first step.
        ranges: float32 (utterances, groups, 2), written: the minima, NaN if a value is NaN, and the maxima.
        zeros: int32 (utterances, groups), written: twice the index of the first zero in the matrix, in row-major order,
            plus 1 if the zero is negative; NO_ZERO for a group without zeros.
        row, dim: distance between the starts of two rows in elements, and number of columns.
        FRAMES, COLUMNS: number of frames that are read at a time, and number of columns of a group.
    """
    utterance = tl.program_id(0)
    group = tl.program_id(1)
    column = group * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    first = tl.load(places + 4 * utterance)
    count = tl.load(places + 4 * utterance + 1).to(tl.int32)
    start = features + first * row
    least = tl.full((FRAMES, COLUMNS), INFINITY, tl.float32)
    greatest = tl.full((FRAMES, COLUMNS), -INFINITY, tl.float32)
    zero = tl.full((FRAMES, COLUMNS), NO_ZERO, tl.int32)
    is_nan = tl.zeros((FRAMES, COLUMNS), tl.int32)
    at = 0
    while at < count:
        frame = at + tl.arange(0, FRAMES)[:, None]
        inside = (frame < count) & (column < dim)
        value = tl.load(start + (frame * row + column), mask=inside, other=1.0)
        least = tl.where(inside, tl.minimum(least, value), least)
        greatest = tl.where(inside, tl.maximum(greatest, value), greatest)
        negative = tl.where(value.to(tl.int32, bitcast=True) < 0, 1, 0)
        zero = tl.minimum(zero, tl.where(value == 0.0, 2 * (frame * dim + column) + negative, NO_ZERO))
        is_nan |= tl.where(value != value, 1, 0)
        at += FRAMES
    bad = tl.max(tl.max(is_nan, 1), 0) > 0
    place = utterance * tl.num_programs(1) + group
    tl.store(ranges + 2 * place, tl.where(bad, float("nan"), tl.min(tl.min(least, 1), 0)))
    tl.store(ranges + 2 * place + 1, tl.max(tl.max(greatest, 1), 0))
    tl.store(zeros + place, tl.min(tl.min(zero, 1), 0))


@triton.jit
def load_range(ranges, zeros, utterance, groups, GROUPS: tl.constexpr):
    """Return the minimum and the range of the matrix of an utterance from the results of :func:`ranges_kernel`.

    The range is not finite if the matrix cannot be compressed. ``utterance`` is the index of the matrix, ``groups`` the
    number of groups of columns, and GROUPS this number, rounded up to a power of two.
    """
    group = tl.arange(0, GROUPS)
    place = utterance * groups + group
    least_of = tl.load(ranges + 2 * place, mask=group < groups, other=INFINITY)
    greatest = tl.max(tl.load(ranges + 2 * place + 1, mask=group < groups, other=-INFINITY), 0)
    first_zero = tl.min(tl.load(zeros + place, mask=group < groups, other=NO_ZERO), 0)
    bad = tl.max(tl.where(least_of != least_of, 1, 0), 0) > 0
    least = tl.min(least_of, 0)
    # If the minimum is zero, Kaldi's minimum has the sign of the first zero.
    sign = tl.where(first_zero % 2 == 1, -2147483648, 0).to(tl.int32)  # As bits, because Triton compiles -0.0 to 0.0.
    least = tl.where(least == 0.0, sign.to(tl.float32, bitcast=True), least)
    # Kaldi gives a constant matrix the range 1 + |value|, computed in float64.
    wide = (least.to(tl.float64) + (1.0 + tl.abs(least.to(tl.float64)))).to(tl.float32)
    span = tl.where(least == greatest, wide, greatest) - least
    return tl.where(bad, float("nan"), least), tl.where(bad, float("nan"), span)


@triton.jit
def quantize(value, least, span, TOP: tl.constexpr, CLIP: tl.constexpr):
    """Map the range from ``least`` to ``least + span`` to int32 from 0 to TOP. With CLIP, clamp other values."""
    scaled = tl.div_rn(value - least, tl.zeros_like(value) + span)
    if CLIP:
        scaled = tl.minimum(tl.maximum(scaled, 0.0), 1.0)
    scaled = scaled * TOP
    whole = tl.floor(scaled)
    return whole.to(tl.int32) + tl.where(scaled - whole >= ROUNDS_UP, 1, 0)


@triton.jit
def speech_kernel(
    features,
    places,
    ranges,
    zeros,
    headers,
    percentiles,
    steps,
    codes,
    row,
    dim,
    FRAMES: tl.constexpr,
    COLUMNS: tl.constexpr,
    GROUPS: tl.constexpr,
):
    """Compress by method 2, kSpeechFeature, to a byte per element on a scale between the quartiles of its column.

    Args:
        features, places, ranges, zeros, row, dim: as for :func:`ranges_kernel`.
        headers: float32 (utterances, 2), written: minimum and range of each matrix.
        percentiles: int16 (utterances, dim, 4), the bits of unsigned integers, written: minimum, quartiles and maximum
            of each column, as 16-bit steps on the scale of the matrix.
        steps: int16, scratch memory: for each utterance ``tl.num_programs(1) * COLUMNS`` rows, whose length is the
            number of frames, rounded up to a multiple of FRAMES.
        codes: uint8, written: (dim, frames) for each utterance.
        FRAMES, COLUMNS, GROUPS: see :func:`ranges_kernel` and :func:`load_range`.
    """
    utterance = tl.program_id(0)
    group = tl.program_id(1)
    column = (group * COLUMNS + tl.arange(0, COLUMNS))[:, None]
    first = tl.load(places + 4 * utterance)
    count = tl.load(places + 4 * utterance + 1).to(tl.int32)
    place = tl.load(places + 4 * utterance + 2)
    codes += place
    # The length of a row of steps is a multiple of FRAMES, so that the bisection reads steps without masks.
    steps += tl.multiple_of(tl.load(places + 4 * utterance + 3), FRAMES)
    steps_row = tl.multiple_of((count + FRAMES - 1) // FRAMES * FRAMES, FRAMES)
    start = features + first * row
    least, span = load_range(ranges, zeros, utterance, tl.num_programs(1), GROUPS)
    if group == 0:
        tl.store(headers + 2 * utterance, least)
        tl.store(headers + 2 * utterance + 1, span)

    # Compute the 16-bit values, and the minimum and maximum of each column. The values are unsigned, so they are stored
    # minus 2^15 to fit into int16.
    low = tl.full((COLUMNS, FRAMES), 65535, tl.int32)
    high = tl.zeros((COLUMNS, FRAMES), tl.int32)
    at = 0
    while at < count:
        frame = at + tl.arange(0, FRAMES)[None, :]
        inside = (frame < count) & (column < dim)
        value = tl.load(start + (frame * row + column), mask=inside, other=0.0)
        step = tl.minimum(tl.maximum(quantize(value, least, span, 65535.0, False), 0), 65535)
        low = tl.where(inside, tl.minimum(low, step), low)
        high = tl.where(inside, tl.maximum(high, step), high)
        step = tl.where(inside, step - 32768, 32767)
        tl.store(steps + (column * steps_row + frame), step.to(tl.int16))
        at += FRAMES
    smallest = tl.min(low, 1)
    largest = tl.max(high, 1)
    tl.debug_barrier()  # The next loop reads steps that other threads have written.

    # Find both quartiles of a column by bisection. A quartile is the smallest step that at least `quarter` or
    # `three_quarters` values of the column do not exceed.
    quarter = tl.where(count >= 5, count // 4, 1) + 1
    three_quarters = tl.where(count >= 5, 3 * (count // 4), 2) + 1
    low_1 = smallest
    high_1 = largest
    low_2 = smallest
    high_2 = largest
    while tl.max(tl.maximum(high_1 - low_1, high_2 - low_2), 0) > 0:
        middle_1 = (low_1 + high_1) >> 1
        middle_2 = (low_2 + high_2) >> 1
        limit_1 = middle_1 - 32768
        limit_2 = middle_2 - 32768
        below_1 = tl.zeros((COLUMNS, FRAMES), tl.int32)
        below_2 = tl.zeros((COLUMNS, FRAMES), tl.int32)
        at = 0
        while at < steps_row:
            block = tl.multiple_of(at, FRAMES) + tl.arange(0, FRAMES)[None, :]
            step = tl.load(steps + (column * steps_row + block)).to(tl.int32)
            below_1 += tl.where(step <= limit_1[:, None], 1, 0)
            below_2 += tl.where(step <= limit_2[:, None], 1, 0)
            at += FRAMES
        enough_1 = tl.sum(below_1, 1) >= quarter
        enough_2 = tl.sum(below_2, 1) >= three_quarters
        high_1 = tl.where(enough_1, middle_1, high_1)
        low_1 = tl.where(enough_1, low_1, tl.minimum(middle_1 + 1, high_1))
        high_2 = tl.where(enough_2, middle_2, high_2)
        low_2 = tl.where(enough_2, low_2, tl.minimum(middle_2 + 1, high_2))

    # With fewer than 5 rows, the sorted values are the percentiles. Each percentile is at least 1 above the percentile
    # before it, including the percentiles beyond the number of rows, so that no interval of the scale is empty.
    step_0 = tl.minimum(smallest, 65532)
    step_1 = tl.minimum(tl.maximum(tl.where(count > 1, high_1, 0), step_0 + 1), 65533)
    step_2 = tl.minimum(tl.maximum(tl.where(count > 2, high_2, 0), step_1 + 1), 65534)
    step_3 = tl.minimum(tl.maximum(tl.where(count > 3, largest, 0), step_2 + 1), 65535)
    of_column = group * COLUMNS + tl.arange(0, COLUMNS)
    limits = percentiles + (utterance.to(tl.int64) * dim + of_column) * 4
    tl.store(limits, step_0.to(tl.int16), mask=of_column < dim)
    tl.store(limits + 1, step_1.to(tl.int16), mask=of_column < dim)
    tl.store(limits + 2, step_2.to(tl.int16), mask=of_column < dim)
    tl.store(limits + 3, step_3.to(tl.int16), mask=of_column < dim)

    size = span * PER_STEP
    value_0 = (step_0.to(tl.float32) * size + least)[:, None]
    value_1 = (step_1.to(tl.float32) * size + least)[:, None]
    value_2 = (step_2.to(tl.float32) * size + least)[:, None]
    value_3 = (step_3.to(tl.float32) * size + least)[:, None]
    at = 0
    while at < count:
        frame = at + tl.arange(0, FRAMES)[None, :]
        inside = (frame < count) & (column < dim)
        value = tl.load(start + (frame * row + column), mask=inside, other=0.0)
        in_1 = value < value_1
        in_2 = value < value_2
        bottom = tl.where(in_1, value_0, tl.where(in_2, value_1, value_2))
        top = tl.where(in_1, value_1, tl.where(in_2, value_2, value_3))
        num_steps = tl.where(in_1, 64.0, tl.where(in_2, 128.0, 63.0))
        base = tl.where(in_1, 0, tl.where(in_2, 64, 192))
        # If both limits of an interval are equal in float32, the quotient is infinite, and Kaldi's conversion to an
        # integer overflows to 0 steps. A height of INFINITY gives 0 steps as well.
        height = tl.where(top > bottom, top - bottom, tl.where(in_1, top - bottom, INFINITY))
        # Half steps are counted and truncated, so that exactly half a step is rounded up as in Kaldi.
        halves = tl.div_rn(value - bottom, height) * num_steps * 2.0
        halves = tl.minimum(tl.maximum(halves, 0.0), 2.0 * num_steps).to(tl.int32)
        code = base + ((halves + 1) >> 1)
        to = column * count + frame
        tl.store(codes + to, code.to(tl.uint8), mask=inside)
        at += FRAMES


@triton.jit
def integers_kernel(
    features,
    places,
    ranges,
    zeros,
    headers,
    codes,
    row,
    dim,
    low,
    width,
    FRAMES: tl.constexpr,
    COLUMNS: tl.constexpr,
    GROUPS: tl.constexpr,
    TOP: tl.constexpr,
    FIXED: tl.constexpr,
):
    """Compress by methods 3 to 7, to integers on one scale for the whole matrix.

    Args:
        features, places, ranges, zeros, row, dim: as for :func:`ranges_kernel`.
        headers: float32 (utterances, 2), written: minimum and range of each matrix.
        codes: uint8, or int16 with the bits of unsigned integers, written: (frames, dim) for each utterance.
        low: value of code 0 if FIXED; otherwise, the minimum of the matrix is used.
        width: range of the codes if FIXED; otherwise, the range of the matrix is used.
        TOP: largest code, 255 or 65535.
        FRAMES, COLUMNS, GROUPS: see :func:`ranges_kernel` and :func:`load_range`.
    """
    utterance = tl.program_id(0)
    group = tl.program_id(1)
    column = (group * COLUMNS + tl.arange(0, COLUMNS))[None, :]
    first = tl.load(places + 4 * utterance)
    count = tl.load(places + 4 * utterance + 1).to(tl.int32)
    place = tl.load(places + 4 * utterance + 2)
    codes += place
    start = features + first * row
    least, span = load_range(ranges, zeros, utterance, tl.num_programs(1), GROUPS)
    if FIXED:
        # A fixed range gives codes to infinities, but not to NaN. A NaN therefore makes the range NaN, which refuses
        # the matrix.
        span = tl.where(least != least, least, tl.zeros_like(span) + width)
        least = tl.zeros_like(least) + low
    if group == 0:
        tl.store(headers + 2 * utterance, least)
        tl.store(headers + 2 * utterance + 1, span)
    at = 0
    while at < count:
        frame = at + tl.arange(0, FRAMES)[:, None]
        inside = (frame < count) & (column < dim)
        value = tl.load(start + (frame * row + column), mask=inside, other=0.0)
        code = quantize(value, least, span, TOP, FIXED)
        to = codes + (frame * dim + column)
        if TOP == 255:
            tl.store(to, code.to(tl.uint8), mask=inside)
        else:
            tl.store(to, code.to(tl.int16), mask=inside)
        at += FRAMES
