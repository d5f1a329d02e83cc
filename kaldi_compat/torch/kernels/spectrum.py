"""Device functions that compute spectra of audio within a kernel.

L = N / A lanes process a frame of N points. Lane q holds the A samples q, q + L, q + 2L, ... in registers. The FFT has
two steps (Cooley & Tukey, 1965), A-point transforms and L-point transforms within lanes, with twiddle factors and an
exchange between lanes between the steps. The samples are real, so the first step computes only half of its bins.
"""

# Type checkers do not know the language that Triton compiles.
# mypy: ignore-errors

from __future__ import annotations

import math

import triton
import triton.language as tl

from kaldi_compat.torch.kernels.noise import draw_kaldi_normal, draw_philox_normals


def reverse_bits(n: int) -> list[int]:
    """Return the integers below n, a power of two, in bit-reversed order."""
    order = [0]
    while len(order) < n:
        order = [2 * j for j in order] + [2 * j + 1 for j in order]
    return order


MAX_LANE_POINTS = 64  # Limit on the number of points of a transform within a lane.
# The factors exp(-2 pi i j / 64). A transform of fewer points uses some of these factors.
COSINES = tl.constexpr(tuple(math.cos(2 * math.pi * j / MAX_LANE_POINTS) for j in range(MAX_LANE_POINTS)))
SINES = tl.constexpr(tuple(math.sin(2 * math.pi * j / MAX_LANE_POINTS) for j in range(MAX_LANE_POINTS)))
BIT_REVERSED = tl.constexpr(tuple(reverse_bits(MAX_LANE_POINTS)))


@triton.jit
def rotate(re, im, J: tl.constexpr, N: tl.constexpr):
    """Multiply complex numbers by exp(-2 pi i J / N), and return the real and imaginary parts. N divides 64."""
    if J == 0:
        x = re
        y = im
    elif 4 * J == N:
        x = im
        y = -re
    else:
        x = re * COSINES[J * 64 // N] + im * SINES[J * 64 // N]
        y = im * COSINES[J * 64 // N] - re * SINES[J * 64 // N]
    return x, y


@triton.jit
def transform_level(re, im, N: tl.constexpr, HALF: tl.constexpr):
    """Compute one level of a decimation-in-frequency FFT of tuples of N tensors, in blocks of 2 * HALF tensors."""
    xs = (re[0] + re[HALF],)
    ys = (im[0] + im[HALF],)
    for i in tl.static_range(1, N):
        if i % (2 * HALF) < HALF:
            xs += (re[i] + re[i + HALF],)
            ys += (im[i] + im[i + HALF],)
        else:
            x, y = rotate(re[i - HALF] - re[i], im[i - HALF] - im[i], i % HALF, 2 * HALF)
            xs += (x,)
            ys += (y,)
    return xs, ys


@triton.jit
def transform(re, im, N: tl.constexpr, LEVELS: tl.constexpr):
    """Compute the DFT of N = 2^LEVELS complex numbers, tuples ``re`` and ``im`` of tensors, in bit-reversed order."""
    for i in tl.static_range(LEVELS):
        re, im = transform_level(re, im, N, N >> (i + 1))
    return re, im


@triton.jit
def fold_odd_bins(x, N: tl.constexpr):
    """Return the input of the N/4-point DFT for bins 1, 5, 9, ... of N real numbers. Other odd bins mirror them."""
    re, im = rotate(x[0] - x[N // 2], x[N // 2 + N // 4] - x[N // 4], 0, N)
    xs = (re,)
    ys = (im,)
    for q in tl.static_range(1, N // 4):
        re, im = rotate(x[q] - x[q + N // 2], x[q + N // 2 + N // 4] - x[q + N // 4], q, N)
        xs += (re,)
        ys += (im,)
    return xs, ys


@triton.jit
def fold_even_bins(x, N: tl.constexpr):
    """Return the input of the N/2-point DFT for the even bins of N real numbers."""
    xs = (x[0] + x[N // 2],)
    for q in tl.static_range(1, N // 2):
        xs += (x[q] + x[q + N // 2],)
    return xs


@triton.jit
def transform_real(x, N: tl.constexpr, LEVELS: tl.constexpr):
    """Compute N/2 + 1 bins of the DFT of N = 2^LEVELS real numbers, in the order of :func:`list_half_of_bins`."""
    re, im = fold_odd_bins(x, N)
    xs, ys = transform(re, im, N // 4, LEVELS - 2)
    x = fold_even_bins(x, N)
    for i in tl.static_range(1, LEVELS - 1):
        re, im = fold_odd_bins(x, N >> i)
        re, im = transform(re, im, N >> (i + 2), LEVELS - 2 - i)
        xs += re
        ys += im
        x = fold_even_bins(x, N >> i)
    zero = x[0] - x[0]
    xs += (x[0] + x[1], x[0] - x[1])
    ys += (zero, zero)
    return xs, ys


@triton.jit
def transpose_lanes(
    x, FRAMES: tl.constexpr, A: tl.constexpr, LOG_A: tl.constexpr, LANES: tl.constexpr, LOG_LANES: tl.constexpr
):
    """Transpose a tuple of A tensors (FRAMES, LANES) to a tuple of LANES tensors (FRAMES, A)."""
    for i in tl.static_range(LOG_A):
        x = join_halves(x, A >> (i + 1))
    x = (tl.permute(x[0].reshape((FRAMES, LANES, A)), (0, 2, 1)),)
    for i in tl.static_range(LOG_LANES):
        x = split_last(x, 1 << i, FRAMES, A, LANES >> (i + 1))
    xs = (x[0].reshape((FRAMES, A)),)
    for i in tl.static_range(1, LANES):
        xs += (x[i].reshape((FRAMES, A)),)
    return xs


@triton.jit
def join_halves(x, HALF: tl.constexpr):
    """Join tensors i and i + HALF of a tuple of 2 * HALF tensors along a new last axis, and return HALF tensors."""
    xs = (tl.join(x[0], x[HALF]),)
    for i in tl.static_range(1, HALF):
        xs += (tl.join(x[i], x[i + HALF]),)
    return xs


@triton.jit
def split_last(x, N: tl.constexpr, FRAMES: tl.constexpr, A: tl.constexpr, HALF: tl.constexpr):
    """Split N tensors (FRAMES, A, 2 * HALF) into 2N tensors of half the size.

    Tensor i of the result has the columns i, i + 2N, i + 4N, ... of the single tensor before the first split.
    """
    even, odd = tl.split(x[0].reshape((FRAMES, A, HALF, 2)))
    evens = (even,)
    odds = (odd,)
    for i in tl.static_range(1, N):
        even, odd = tl.split(x[i].reshape((FRAMES, A, HALF, 2)))
        evens += (even,)
        odds += (odd,)
    return evens + odds


@triton.jit
def reflect_indices(index, length):
    """Reflect indices like :func:`kaldi_compat.torch.tensors.frames.reflect_indices`. 2 * length must not overflow."""
    index = index % (2 * length)  # In Triton, the remainder has the sign of the index.
    index = tl.where(index < 0, index + 2 * length, index)
    return tl.minimum(index, 2 * length - 1 - index)


@triton.jit
def load_samples(
    audio,
    at,
    length,
    lane,
    scale,
    J: tl.constexpr,
    LANES: tl.constexpr,
    SIZE: tl.constexpr,
    BACK: tl.constexpr,
    REFLECTED: tl.constexpr,
    SCALED: tl.constexpr,
):
    """Load the samples ``J * LANES + lane - BACK`` of frames as float32 (FRAMES, LANES).

    Samples after the end of a frame are 0. The first sample of a frame also stands for the sample before it. With
    REFLECTED, the audio is reflected at the ends of the row.

    Args:
        audio, at, length: (FRAMES, 1): address of the row of each frame, index in the row of the first sample of the
            frame, and length of the row.
        lane, scale: indices of the lanes, (1, LANES); factor on the samples, used with SCALED.
    """
    n = J * LANES + lane
    offset = J * LANES - BACK
    if J == 0 and BACK > 0:
        offset = tl.maximum(lane - BACK, 0) - lane
    if REFLECTED:
        places = audio + reflect_indices(at + lane + offset, length)
    else:
        places = audio + (at + lane) + offset
    if (J + 1) * LANES > SIZE:
        x = tl.load(places, mask=n < SIZE, other=0).to(tl.float32)
    else:
        x = tl.load(places).to(tl.float32)
    if SCALED:
        x = x * scale
    return x


@triton.jit
def compute_spectra(
    samples,
    lengths,
    window,
    factors,
    log_energy,
    seeds,
    jumps,
    row_stride,
    samples_in_row,
    frames_in_row,
    frame,
    inside,
    coefficient,
    scale,
    dither,
    energy_floor,
    SIZE: tl.constexpr,
    SHIFT: tl.constexpr,
    FIRST: tl.constexpr,
    A: tl.constexpr,
    LOG_A: tl.constexpr,
    LANES: tl.constexpr,
    LOG_LANES: tl.constexpr,
    FRAMES: tl.constexpr,
    REFLECTED: tl.constexpr,
    RAGGED: tl.constexpr,
    WIDE: tl.constexpr,
    SCALED: tl.constexpr,
    NOISE: tl.constexpr,
    REMOVE_DC: tl.constexpr,
    PREEMPHASIZED: tl.constexpr,
    ENERGY: tl.constexpr,
):
    """Return the real and imaginary parts of spectra of frames for :func:`store_power`, and store log energies.

    For the other arguments, see :func:`~kaldi_compat.torch.kernels.fused.feature_kernel`.

    Args:
        frame: (FRAMES,): indices of the frames, counted over all rows.
        inside: (FRAMES,): mask of the frames whose log energies are stored.
    """
    row = frame // frames_in_row
    length = samples_in_row
    if RAGGED:
        # A length beyond the row would read samples of the next row.
        length = tl.minimum(tl.maximum(tl.load(lengths + row), 1), samples_in_row).to(tl.int32)[:, None]
    audio = samples + (row.to(tl.int64) * row_stride)[:, None]
    first_sample = (frame - row * frames_in_row)[:, None]
    if WIDE:
        first_sample = first_sample.to(tl.int64)
        length = samples_in_row.to(tl.int64) if not RAGGED else length.to(tl.int64)
    at = first_sample * SHIFT + FIRST
    lane = tl.arange(0, LANES)[None, :]

    zero = tl.zeros((FRAMES, LANES), tl.float32)
    if NOISE == 1:
        seed = tl.load(seeds + frame)[:, None]
    if NOISE == 2:
        seed = tl.load(seeds)
    x = ()
    total = zero
    for j in tl.static_range(-(-SIZE // LANES)):
        value = load_samples(audio, at, length, lane, scale, j, LANES, SIZE, 0, REFLECTED, SCALED)
        if NOISE == 1:
            n = tl.minimum(j * LANES + lane, SIZE - 1)
            value += dither * draw_kaldi_normal(seed, tl.load(jumps + n), tl.load(jumps + SIZE + n))
        if NOISE == 2:
            if j % 4 == 0:
                noise = draw_philox_normals(seed, j // 4 * LANES + lane, frame[:, None])
            value += dither * noise[j % 4]
        if NOISE > 0 and (j + 1) * LANES > SIZE:
            value = tl.where(j * LANES + lane < SIZE, value, 0.0)
        total += value
        x += (value,)
    mean = zero
    if REMOVE_DC:
        # div_rn rounds to nearest like torch's division, so that a constant signal becomes zero.
        mean += tl.div_rn(tl.sum(total, 1), tl.full((FRAMES,), SIZE, tl.float32))[:, None]
    energy = zero
    before = tl.broadcast_to((lane + LANES - 1) % LANES, (FRAMES, LANES))
    turned_around = x[0]  # As in Kaldi, the first sample of a frame is its own predecessor.
    y = ()
    for j in tl.static_range(-(-SIZE // LANES)):
        n = j * LANES + lane
        value = x[j] - mean
        if ENERGY == 1:
            energy += tl.where(n < SIZE, value * value, 0.0)
        if PREEMPHASIZED:
            if NOISE > 0:
                # The lanes exchange noisy samples in registers, because loaded samples would need the noise once more.
                neighbor = tl.gather(x[j], before, 1)
                last = tl.where(lane == 0, turned_around, neighbor)
                turned_around = neighbor
            else:
                last = load_samples(audio, at, length, lane, scale, j, LANES, SIZE, 1, REFLECTED, SCALED)
            value -= coefficient * (last - mean)
        if (j + 1) * LANES > SIZE:
            value *= tl.load(window + n, mask=n < SIZE, other=0.0)
        else:
            value *= tl.load(window + n)
        if ENERGY == 2:
            energy += value * value
        y += (value,)
    for _ in tl.static_range(A - -(-SIZE // LANES)):
        y += (zero,)
    if ENERGY > 0:
        floored = tl.maximum(tl.sum(energy, 1), energy_floor, propagate_nan=tl.PropagateNan.ALL)
        tl.store(log_energy + frame, tl.log(floored), mask=inside)

    xs, ys = transform_real(y, A, LOG_A)
    re = ()
    im = ()
    for c in tl.static_range(A // 2 + 1):
        cosine = tl.load(factors + 2 * c * LANES + lane)
        sine = tl.load(factors + (2 * c + 1) * LANES + lane)
        re += (xs[c] * cosine + ys[c] * sine,)
        im += (ys[c] * cosine - xs[c] * sine,)
    for _ in tl.static_range(A // 2 - 1):
        re += (zero,)
        im += (zero,)
    re = transpose_lanes(re, FRAMES, A, LOG_A, LANES, LOG_LANES)
    im = transpose_lanes(im, FRAMES, A, LOG_A, LANES, LOG_LANES)
    re, im = transform(re, im, LANES, LOG_LANES)
    return re, im


@triton.jit
def store_power(re, im, to, bins, inside, A: tl.constexpr, LANES: tl.constexpr, MAGNITUDE: tl.constexpr):
    """Store power spectra (with MAGNITUDE, their square roots) of the frames where ``inside`` (FRAMES,) is True.

    Args:
        re, im: results of :func:`compute_spectra`, tuples of LANES tensors (FRAMES, A) in bit-reversed order.
        to: addresses of the rows that the spectra are stored in, (FRAMES, 1).
        bins: address of the first bin of each column, int32 (A,).
    """
    # Element i of a column is the bin first + A i, or above the Nyquist bin the mirror image of a bin. If `first` is 0
    # or A / 2, the mirror images are bins of the same column, so they are not stored again.
    column = tl.arange(0, A)[None, :]
    first = tl.load(bins + column)
    is_stored = inside[:, None] & (column < A // 2 + 1)
    is_mirror_stored = is_stored & (first != 0) & (first != A // 2)
    upward = to + first
    downward = to + (A * LANES - first)
    for i in tl.static_range(LANES):
        x = re[BIT_REVERSED[i] * LANES // 64]
        y = im[BIT_REVERSED[i] * LANES // 64]
        out = x * x + y * y
        if MAGNITUDE:
            out = tl.sqrt_rn(out)
        if i < LANES // 2:
            tl.store(upward + A * i, out, mask=is_stored)
        elif i == LANES // 2:
            tl.store(downward - A * i, out, mask=is_stored & (first != A // 2))
        else:
            tl.store(downward - A * i, out, mask=is_mirror_stored)


def list_half_of_bins(n: int) -> list[int]:
    """Return the bins that :func:`transform_real` computes for ``n`` points. A bin above n / 2 mirrors a lower bin."""
    bins, scale = [], 1
    while n >= 4:
        bins += [scale * (4 * j + 1) for j in reverse_bits(n // 4)]
        n, scale = n // 2, 2 * scale
    return [*bins, 0, scale]
