"""Kaldi's real FFT with Kaldi's rounding (src/matrix/srfft.cc), in NumPy.

Reverberated audio is cut to whole numbers, so that the last digit of a float32 FFT shows. Kaldi's FFT of a real signal
steps its root of unity by repeated multiplication in float32, which at a few thousand points is off by 1e-4: no other
FFT gives its samples. This one does, butterfly by butterfly; a level of its recursion is done at once, for all blocks.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float32]]
Indices = np.ndarray[Any, np.dtype[np.intp]]

SQRT_HALF = np.float32(np.sqrt(0.5))

# Taylor-like coefficients of glibc's sinf and cosf, lowest power first (sysdeps/ieee754/flt-32/s_sincosf_data.c).
SINE = tuple(map(float.fromhex, ("0x1p0", "-0x1.555545995a603p-3", "0x1.1107605230bc4p-7", "-0x1.994eb3774cf24p-13")))
COSINE = tuple(
    map(
        float.fromhex,
        ("0x1p0", "-0x1.ffffffd0c621cp-2", "0x1.55553e1068f19p-5", "-0x1.6c087e89a359dp-10", "0x1.99343027bf8c3p-16"),
    )
)


def packed_rfft(signal: Floats) -> tuple[Floats, Floats]:
    """FFT of real ``(..., n)``, ``n`` a power of two from 4 on: real and imaginary parts ``(..., n / 2)``.

    The imaginary part of bin 0 holds bin ``n / 2``, which is real as bin 0 is.
    """
    re, im = _complex_fft(signal[..., 0::2].copy(), signal[..., 1::2].copy())
    root_re, root_im = _roots(signal.shape[-1])
    return _unzipped(re, im, root_re, root_im, ends=np.float32(1.0))


def packed_irfft(re: Floats, im: Floats) -> Floats:
    """The inverse of :func:`packed_rfft` times ``n``."""
    root_re, root_im = _roots(2 * re.shape[-1])
    re, im = _unzipped(re, im, -root_re, root_im, ends=np.float32(0.5))
    im, re = _complex_fft(im, re)
    signal = np.empty((*re.shape[:-1], 2 * re.shape[-1]), np.float32)
    signal[..., 0::2], signal[..., 1::2] = re * np.float32(2), im * np.float32(2)
    return signal


def _unzipped(re: Floats, im: Floats, root_re: Floats, root_im: Floats, ends: np.float32) -> tuple[Floats, Floats]:
    """From the FFT of the even samples plus i times the odd ones to the signal's, or back; by pairs of bins."""
    half = re.shape[-1]
    k = np.arange(1, half // 2 + 1)
    mirror = half - k
    c_re, c_im = (re[..., k] + re[..., mirror]) / 2, (im[..., k] - im[..., mirror]) / 2
    d_re, d_im = (im[..., k] + im[..., mirror]) / 2, (re[..., mirror] - re[..., k]) / 2
    out_re, out_im = np.empty_like(re), np.empty_like(im)
    out_re[..., mirror] = c_re + (root_im * d_im - root_re * d_re)
    out_im[..., mirror] = (root_re * d_im + root_im * d_re) - c_im
    out_re[..., k] = c_re + (root_re * d_re - root_im * d_im)
    out_im[..., k] = c_im + (root_re * d_im + root_im * d_re)
    out_re[..., 0] = (re[..., 0] + im[..., 0]) * ends
    out_im[..., 0] = (re[..., 0] - im[..., 0]) * ends
    return out_re, out_im


@lru_cache(maxsize=4)
def _roots(n: int) -> tuple[Floats, Floats]:
    """``exp(-2 pi i k / n)`` for ``k = 1 .. n / 4``, each the rounded product of the one before and the first."""
    root_im, root_re = sine_and_cosine(np.array(-2.0 * np.pi / n, np.float32))
    re, im = np.float32(1), np.float32(0)
    values = np.empty((2, n // 4), np.float32)
    for k in range(n // 4):
        re, im = re * root_re - im * root_im, re * root_im + im * root_re
        values[:, k] = re, im
    return values[0], values[1]


def _complex_fft(re: Floats, im: Floats) -> tuple[Floats, Floats]:
    """Split-radix FFT, decimation in frequency; overwrites what it is given."""
    n = re.shape[-1]
    for size, starts in _levels(n):
        _butterflies(re, im, starts, size)
    order = _bit_reversed(n)
    return re[..., order], im[..., order]


@lru_cache(maxsize=4)
def _levels(n: int) -> tuple[tuple[int, Indices], ...]:
    """Where the transforms of each size start: one splits into one of half the size and two of a quarter."""
    starts: dict[int, list[int]] = {n: [0]}
    size = n
    while size > 1:
        for start in starts.get(size, []):
            starts.setdefault(size // 2, []).append(start)
            if size > 2:
                starts.setdefault(size // 4, []).extend((start + size // 2, start + 3 * size // 4))
        size //= 2
    return tuple((size, np.array(starts[size])) for size in sorted(starts, reverse=True) if size > 1)


def _butterflies(re: Floats, im: Floats, starts: Indices, size: int) -> None:
    """One step of all transforms of this size."""
    half, quarter = size // 2, size // 4
    low = starts[:, None] + np.arange(half)
    high = low + half
    for x in (re, im):
        a, b = x[..., low], x[..., high]
        x[..., low], x[..., high] = a + b, a - b
    if size == 2:
        return
    one = starts[:, None] + half + np.arange(quarter)
    two = one + quarter
    a_re, a_im, b_re, b_im = re[..., one], im[..., one], re[..., two], im[..., two]
    a_re, a_im, b_re, b_im = a_re + b_im, a_im - b_re, a_re - b_im, a_im + b_re
    re[..., one], im[..., one] = _turned(a_re, a_im, size, 1)
    re[..., two], im[..., two] = _turned(b_re, b_im, size, 3)


def _turned(re: Floats, im: Floats, size: int, step: int) -> tuple[Floats, Floats]:
    """Multiplied by ``exp(-2 pi i step n / size)``, with three products in place of four."""
    cosine, minus_sum, difference = _twiddles(size, step)
    common = cosine * (re + im)
    turned_re, turned_im = difference * im + common, minus_sum * re + common
    turned_re[..., 0], turned_im[..., 0] = re[..., 0], im[..., 0]
    if size >= 8:  # an eighth of a turn is simpler
        x, y = re[..., size // 8], im[..., size // 8]
        if step == 1:
            turned_re[..., size // 8], turned_im[..., size // 8] = SQRT_HALF * (x + y), SQRT_HALF * (y - x)
        else:
            turned_re[..., size // 8], turned_im[..., size // 8] = SQRT_HALF * (y - x), -SQRT_HALF * (x + y)
    return turned_re, turned_im


@lru_cache(maxsize=64)
def _twiddles(size: int, step: int) -> tuple[Floats, Floats, Floats]:
    sine, cosine = sine_and_cosine((step * np.arange(size // 4) * (2.0 * np.pi) / size).astype(np.float32))
    return cosine, -(sine + cosine), sine - cosine


@lru_cache(maxsize=4)
def _bit_reversed(n: int) -> Indices:
    order = np.zeros(1, np.intp)
    while len(order) < n:
        order = np.concatenate((2 * order, 2 * order + 1))
    return order


def sine_and_cosine(angle: Floats) -> tuple[Floats, Floats]:
    """Sine and cosine as glibc rounds them to float: in one of a hundred cases not to the nearest."""
    x = angle.astype(np.float64)
    quarter_turns = np.rint(x * (2.0 / np.pi))
    x = x - quarter_turns * (np.pi / 2.0)
    x2 = x * x
    x4 = x2 * x2
    sine = (x + x * x2 * SINE[1]) + x * x4 * (SINE[2] + x2 * SINE[3])
    cosine = ((1.0 + x2 * COSINE[1]) + x4 * COSINE[2]) + x2 * x4 * (COSINE[3] + x2 * COSINE[4])
    turn = quarter_turns.astype(np.int64) % 4
    sine, cosine = np.where(turn % 2, cosine, sine), np.where(turn % 2, sine, cosine)
    sine, cosine = np.where(turn >= 2, -sine, sine), np.where((turn == 1) | (turn == 2), -cosine, cosine)
    return sine.astype(np.float32), cosine.astype(np.float32)
