"""Kaldi's real FFT with Kaldi's rounding (src/matrix/srfft.cc, src/matrix/matrix-functions.cc), in NumPy.

Kaldi's FFT of a real signal computes its roots of unity by repeated multiplication in float32. At a few thousand points
the roots are off by 1e-4, so no other FFT gives Kaldi's numbers. These functions repeat Kaldi's operations one by one:
a split radix for powers of two, and a mixed radix for other numbers of points.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from kaldi_compat.exact.arrays import Doubles, Floats
from kaldi_compat.exact.libm import cosf, sinf

Indices = np.ndarray[Any, np.dtype[np.intp]]

SQRT_HALF = np.float32(np.sqrt(0.5))


def compute_packed_rfft(signal: Floats) -> tuple[Floats, Floats]:
    """Return the FFT of a real signal ``(..., n)``, where ``n`` is even, with Kaldi's rounding.

    The result is packed: real and imaginary parts, both ``(..., n / 2)``. Bins 0 and ``n / 2`` are real, and the
    imaginary part of bin 0 holds bin ``n / 2``.
    """
    half = signal.shape[-1] // 2
    re, im = signal[..., 0::2].copy(), signal[..., 1::2].copy()
    if half & (half - 1):  # ``half`` is not a power of two.
        re, im = _compute_mixed_radix_fft(re, im, factor_into_primes(half))
    else:
        re, im = _compute_complex_fft(re, im)
    root_re, root_im = compute_roots(signal.shape[-1])
    return _separate_even_and_odd(re, im, root_re, root_im, edge_factor=np.float32(1.0))


def compute_accurate_rfft(signal: Floats) -> tuple[Floats, Floats]:
    """Return the FFT of a real signal ``(..., n)``, computed in double precision and rounded to float32.

    ``n`` is even, and the result is packed as by :func:`compute_packed_rfft`. For powers of two, the operations are the
    same as in ``packages/c/kaldi_features.h``. Other numbers of points use NumPy's FFT, whose last bits depend on
    NumPy's version and on the processor.
    """
    n = signal.shape[-1]
    if n & (n - 1):  # ``n`` is not a power of two.
        spectrum = np.fft.rfft(signal.astype(np.float64))
        re, im = spectrum.real, spectrum.imag
    else:
        re, im = _compute_halving_rfft(signal)
    packed = im[..., :-1].astype(np.float32)
    packed[..., 0] = re[..., -1]
    return re[..., :-1].astype(np.float32), packed


def _compute_halving_rfft(signal: Floats) -> tuple[Doubles, Doubles]:
    """Return the FFT of a real signal ``(..., n)`` in double precision, where ``n`` is a power of two.

    The results are real and imaginary parts, both ``(..., n / 2 + 1)``. Each step combines the transforms of even and
    odd samples, from transforms of one sample up to the transform of all samples.
    """
    n = signal.shape[-1]
    # The axis of the samples comes first, so that each step computes all frames together.
    re = np.moveaxis(signal, -1, 0)[reverse_bits(n)].astype(np.float64)
    im, frame_shape = np.zeros_like(re), re.shape[1:]
    all_angles = [x.reshape(-1, *(1 for _ in frame_shape)) for x in compute_cosines_and_sines(n)]
    size = 1
    while size < n:
        cosine, sine = (x[:: n // (2 * size)] for x in all_angles)
        pair_shape = (n // (2 * size), 2, size, *frame_shape)
        re, im = re.reshape(pair_shape), im.reshape(pair_shape)
        even_re, odd_re, even_im, odd_im = re[:, 0], re[:, 1], im[:, 0], im[:, 1]
        rotated_re, rotated_im = odd_re * cosine + odd_im * sine, odd_im * cosine - odd_re * sine
        re = np.stack((even_re + rotated_re, even_re - rotated_re), 1)
        im = np.stack((even_im + rotated_im, even_im - rotated_im), 1)
        size *= 2
    re, im = (np.moveaxis(x.reshape(n, *frame_shape)[: n // 2 + 1], 0, -1) for x in (re, im))
    return re, im


@lru_cache(maxsize=8)
def compute_cosines_and_sines(n: int) -> tuple[Doubles, Doubles]:
    """Return the cosines and the sines of ``2 pi k / n`` for ``k`` from 0 to ``n // 2 - 1``, both (n // 2,)."""
    angles = [2.0 * math.pi * k / n for k in range(n // 2)]
    return np.array(list(map(math.cos, angles))), np.array(list(map(math.sin, angles)))


def compute_packed_irfft(re: Floats, im: Floats) -> Floats:
    """Return ``n`` times the signal ``(..., n)`` whose FFT is packed in ``re`` and ``im`` ``(..., n / 2)``.

    ``n`` is a power of two. See :func:`compute_packed_rfft` for the packed FFT.
    """
    root_re, root_im = compute_roots(2 * re.shape[-1])
    re, im = _separate_even_and_odd(re, im, -root_re, root_im, edge_factor=np.float32(0.5))
    im, re = _compute_complex_fft(im, re)  # Exchanging real and imaginary parts inverts the FFT.
    signal = np.empty((*re.shape[:-1], 2 * re.shape[-1]), np.float32)
    signal[..., 0::2], signal[..., 1::2] = re * np.float32(2), im * np.float32(2)
    return signal


def _separate_even_and_odd(
    re: Floats, im: Floats, root_re: Floats, root_im: Floats, edge_factor: np.float32
) -> tuple[Floats, Floats]:
    """Convert the FFT of the complex samples ``even + i * odd`` to the packed FFT of the signal, or the reverse.

    The packed FFT has the layout of :func:`compute_packed_rfft`. Bins ``k`` and ``half - k`` of the result depend on
    bins ``k`` and ``half - k`` of the input, and are computed together.

    Args:
        re, im: (..., half): real and imaginary parts of the FFT, where ``half = n / 2`` for a signal of ``n`` samples.
        root_re, root_im: ``exp(-2 pi i k / n)`` for ``k = 1 .. half / 2``. To convert back, pass the negated
            conjugates, ``-exp(2 pi i k / n)``.
        edge_factor: factor on bins 0 and ``n / 2``: 1 to convert to the packed FFT, 0.5 to convert back.

    Returns:
        Real and imaginary parts, (..., half).
    """
    half = re.shape[-1]
    k = np.arange(1, half // 2 + 1)
    mirror = half - k
    even_re, even_im = (re[..., k] + re[..., mirror]) / 2, (im[..., k] - im[..., mirror]) / 2
    odd_re, odd_im = (im[..., k] + im[..., mirror]) / 2, (re[..., k] - re[..., mirror]) / -2
    out_re, out_im = np.empty_like(re), np.empty_like(im)
    out_re[..., mirror] = even_re + (root_im * odd_im - root_re * odd_re)
    out_im[..., mirror] = (root_re * odd_im + root_im * odd_re) - even_im
    out_re[..., k] = even_re + (root_re * odd_re - root_im * odd_im)
    out_im[..., k] = even_im + (root_re * odd_im + root_im * odd_re)
    out_re[..., 0] = (re[..., 0] + im[..., 0]) * edge_factor
    out_im[..., 0] = (re[..., 0] - im[..., 0]) * edge_factor
    return out_re, out_im


@lru_cache(maxsize=4)
def compute_roots(n: int) -> tuple[Floats, Floats]:
    """Return real and imaginary parts (n // 4,) of ``exp(-2 pi i k / n)`` for ``k`` from 1 to ``n // 4``.

    As in Kaldi, each root is the rounded product of the previous root and the first root.
    """
    return _compute_powers(_compute_root(n), n // 4)


def _compute_complex_fft(re: Floats, im: Floats) -> tuple[Floats, Floats]:
    """Return the split-radix FFT of complex points ``(..., n)`` by decimation in frequency. ``n`` is a power of two.

    Each step converts a block to three smaller blocks: a block of half the size for the even bins, and two blocks of a
    quarter of the size for bins ``4k + 1`` and ``4k + 3``. All blocks of one size are computed together, the largest
    first. The blocks of one point are the bins in bit-reversed order, which are then sorted.
    """
    n, shape = re.shape[-1], re.shape
    re, im = (x.reshape(-1, n).T.copy() for x in (re, im))
    # Maps the size of blocks to the index of the first point of each block.
    starts = {1 << k: np.zeros(int(n == 1 << k), np.intp) for k in range(n.bit_length())}
    for size in sorted(starts, reverse=True)[:-1]:
        half, quarter, begin = size // 2, size // 4, starts[size]
        low = begin[:, None] + np.arange(half)
        high = low + half
        difference_re, difference_im = re[low] - re[high], im[low] - im[high]
        re[low], im[low] = re[low] + re[high], im[low] + im[high]
        re[high], im[high] = difference_re, difference_im
        starts[half] = np.concatenate((starts[half], begin))
        if quarter:  # Combine the first and the second half of the differences, a and b.
            a_re, b_re = difference_re[:, :quarter], difference_re[:, quarter:]
            a_im, b_im = difference_im[:, :quarter], difference_im[:, quarter:]
            first, third = high[:, :quarter], high[:, quarter:]  # Points of the bins 4k + 1 and 4k + 3.
            re[first], im[first] = _rotate_blocks(a_re + b_im, a_im - b_re, size, 1)
            re[third], im[third] = _rotate_blocks(a_re - b_im, a_im + b_re, size, 3)
            starts[quarter] = np.concatenate((starts[quarter], begin + half, begin + half + quarter))
    order = reverse_bits(n)
    return re[order].T.reshape(shape), im[order].T.reshape(shape)


def _rotate_blocks(re: Floats, im: Floats, size: int, step: int) -> tuple[Floats, Floats]:
    """Return blocks ``(blocks, size / 4, rows)`` with each element ``k`` multiplied by ``exp(-2 pi i step k / size)``.

    As in Kaldi, a complex product is computed with three real products instead of four. ``step`` is 1 or 3.
    """
    cosine, minus_sum, difference = (x[:, None] for x in compute_twiddles(size, step))
    common = cosine * (re + im)
    rotated_re, rotated_im = difference * im + common, minus_sum * re + common
    rotated_re[:, 0], rotated_im[:, 0] = re[:, 0], im[:, 0]  # The factor of element 0 is 1.
    if size >= 8:  # Kaldi multiplies by the root of 1/2 to rotate by an eighth of a turn.
        x, y = re[:, size // 8], im[:, size // 8]
        if step == 1:
            rotated_re[:, size // 8], rotated_im[:, size // 8] = SQRT_HALF * (x + y), SQRT_HALF * (y - x)
        else:
            rotated_re[:, size // 8], rotated_im[:, size // 8] = SQRT_HALF * (y - x), -SQRT_HALF * (x + y)
    return rotated_re, rotated_im


@lru_cache(maxsize=64)
def compute_twiddles(size: int, step: int) -> tuple[Floats, Floats, Floats]:
    """Return the factors ``c``, ``-(s + c)`` and ``s - c``, each (size / 4,), for :func:`_rotate_blocks`.

    ``c`` and ``s`` are the cosines and the sines of ``2 pi step k / size`` for ``k`` from 0 to ``size / 4 - 1``.
    """
    angle = (step * np.arange(size // 4) * (2.0 * np.pi) / size).astype(np.float32)
    sine, cosine = sinf(angle), cosf(angle)
    return cosine, -(sine + cosine), sine - cosine


@lru_cache(maxsize=4)
def reverse_bits(n: int) -> Indices:
    """Return an array (n,) whose element ``i`` is ``i`` with its bits in reverse order. ``n`` is a power of two."""
    order = np.zeros(1, np.intp)
    while len(order) < n:
        order = np.concatenate((2 * order, 2 * order + 1))
    return order


def _compute_root(n: int) -> tuple[Any, Any]:
    """Return the real and the imaginary part of ``exp(-2 pi i / n)`` in float32."""
    angle = np.float32(-2.0 * np.pi / n)
    return cosf(angle), sinf(angle)


def _multiply_complex(a: tuple[Any, Any], b: tuple[Any, Any]) -> tuple[Any, Any]:
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def _compute_powers(root: tuple[Any, Any], count: int) -> tuple[Floats, Floats]:
    """Return the powers 1 to ``count`` of a root of unity, as real and imaginary parts (count,).

    Each power is the rounded product of the previous power and the root.
    """
    powers = [(np.float32(1), np.float32(0))]
    for _ in range(count):
        powers.append(_multiply_complex(powers[-1], root))
    return np.array([re for re, _ in powers[1:]], np.float32), np.array([im for _, im in powers[1:]], np.float32)


def factor_into_primes(n: int) -> tuple[int, ...]:
    """Return the prime factors of ``n`` in ascending order: (2, 2, 3) for 12, and () for 1."""
    p = next((p for p in range(2, n + 1) if n % p == 0), None)
    return () if p is None else (p, *factor_into_primes(n // p))


def _compute_mixed_radix_fft(re: Floats, im: Floats, factors: tuple[int, ...]) -> tuple[Floats, Floats]:
    """Return the FFT of complex points ``(..., n)`` by decimation in time. ``factors`` are the prime factors of ``n``.

    The operations and their order follow Kaldi's ``ComplexFftRecursive``.
    """
    if not factors:
        return re, im
    radix = factors[0]
    shape = re.shape
    parts_re, parts_im = (x.reshape(*shape[:-1], -1, radix).swapaxes(-1, -2) for x in (re, im))
    re, im = _compute_mixed_radix_fft(parts_re, parts_im, factors[1:])
    total_re, total_im = re[..., :1, :], im[..., :1, :]
    roots = powers = compute_mixed_radix_roots(shape[-1], radix)
    for j in range(1, radix):  # Multiply transform ``j`` by the roots to the power of ``j``.
        cosine, sine = powers
        x, y = re[..., j : j + 1, :], im[..., j : j + 1, :]
        total_re = total_re + (x * cosine - y * sine)
        total_im = total_im + (x * sine + y * cosine)
        powers = _multiply_complex(powers, roots)
    return total_re.reshape(shape), total_im.reshape(shape)


@lru_cache(maxsize=64)
def compute_mixed_radix_roots(n: int, radix: int) -> tuple[Floats, Floats]:
    """Return the roots ``exp(-2 pi i k / n)`` for the step of a mixed-radix FFT that combines ``radix`` transforms.

    The real and imaginary parts ``(radix, n / radix)`` are in the order of the bins ``k`` from 0 to ``n - 1``.
    """
    re, im = _compute_powers(_compute_root(n), n // radix - 1)
    outputs: list[tuple[Any, Any]] = [(np.append(np.float32(1), re), np.append(np.float32(0), im))]
    for _ in range(radix - 1):
        outputs.append(_multiply_complex(outputs[-1], _compute_root(radix)))
    return np.stack([re for re, _ in outputs]), np.stack([im for _, im in outputs])
