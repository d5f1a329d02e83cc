"""Kaldi's real FFT, rounding by rounding.

Where a frame's spectrum spans more than float32 resolves, the low end of it is rounding error, and a feature made from
it is Kaldi's only if every operation rounds as Kaldi's did. So this is Kaldi's order of operations (a split radix for
powers of two, src/matrix/srfft.cc; a mixed radix for the rest, src/matrix/matrix-functions.cc) on many frames at once,
with its twiddle factors: float32, some of them drifting since each is the product of the last one with a constant.

Inside, arrays are (2, blocks, points, frames): real and imaginary part first, frames innermost.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

FloatArray = npt.NDArray[np.float32]
F32 = np.float32

# The polynomials of glibc's sinf and cosf on -pi/4 to pi/4 (sysdeps/ieee754/flt-32/s_sincosf_data.c). They miss the
# nearest float32 in a case out of fifty, which decides a few of Kaldi's twiddle factors.
_SINE = [float.fromhex(x) for x in ("-0x1.555545995a603p-3", "0x1.1107605230bc4p-7", "-0x1.994eb3774cf24p-13")]
_COSINE = [
    float.fromhex(x)
    for x in ("-0x1.ffffffd0c621cp-2", "0x1.55553e1068f19p-5", "-0x1.6c087e89a359dp-10", "0x1.99343027bf8c3p-16")
]


def sine(angle: npt.ArrayLike, quarter_turns: int = 0) -> FloatArray:
    """glibc's ``sinf(angle + quarter_turns * pi / 2)`` to the last bit, for angles of a few turns.

    >>> sine(0.5), sine(0.5, quarter_turns=1)
    (np.float32(0.47942555), np.float32(0.87758255))
    """
    x = np.asarray(angle, F32).astype(np.float64)
    quadrant = np.floor(x * (2 / np.pi) + 0.5)
    x = x - quadrant * (np.pi / 2)
    quadrant = quadrant + quarter_turns
    x2 = x * x
    sin = (x + x * x2 * _SINE[0]) + (x * x2 * x2) * (_SINE[1] + x2 * _SINE[2])
    x4 = x2 * x2
    cos = ((1.0 + x2 * _COSINE[0]) + x4 * _COSINE[1]) + (x4 * x2) * (_COSINE[2] + x2 * _COSINE[3])
    value = np.where(quadrant % 2 == 0, sin, cos) * np.where(quadrant % 4 >= 2, -1.0, 1.0)
    return value.astype(F32)[()]


def cosine(angle: npt.ArrayLike) -> FloatArray:
    """glibc's ``cosf(angle)`` to the last bit."""
    return sine(angle, quarter_turns=1)


def _times(a: tuple[FloatArray, FloatArray], b: tuple[FloatArray, FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Complex product in float32, in the order of Kaldi's ComplexMul."""
    return b[0] * a[0] - b[1] * a[1], b[0] * a[1] + b[1] * a[0]


def _powers(points: int, count: int) -> FloatArray:
    """exp(-2 pi i k / points) for k = 0 to count - 1, each from the last: (2, count)."""
    angle = F32(-2 * np.pi / points)
    root = (cosine(angle), sine(angle))
    power = (F32(1), F32(0))
    powers = [power]
    for _ in range(count - 1):
        power = _times(root, power)
        powers.append(power)
    return np.array(powers, F32).T


@functools.lru_cache(maxsize=64)
def _split_radix_table(points: int) -> Tensor:
    """Kaldi's table for a block of this size: ``cos, -(sin + cos), sin - cos`` of the quarters' angles.

    Shape (3, 2, 1, points / 4, 1): the second axis is the quarter, with angles n and 3 n times 2 pi / points.
    """
    n = np.arange(points // 4)
    angle = np.stack([(multiple * n * (2 * np.pi) / points).astype(F32) for multiple in (1, 3)])
    cos, sin = cosine(angle), sine(angle)
    return torch.from_numpy(np.stack((cos, -(sin + cos), sin - cos)))[:, :, None, :, None]


def _rotate(x: Tensor) -> Tensor:
    """The two odd quarters (2, 2, blocks, n, frames) of a block times their twiddle factors."""
    n = x.shape[3]
    if n == 1:
        return x
    cos, minus_sum, difference = _split_radix_table(4 * n).to(x.device)
    re, im = x
    common = cos * (re + im)
    y = torch.stack((difference * im + common, minus_sum * re + common))
    half = float(F32(np.sqrt(0.5)))
    middle = n // 2
    (re1, re3), (im1, im3) = re[:, :, middle], im[:, :, middle]
    eighths = torch.stack(
        (
            torch.stack((half * (re1 + im1), half * (im3 - re3))),
            torch.stack((half * (im1 - re1), -half * (re3 + im3))),
        )
    ).unsqueeze(3)
    # the factors one and exp(-pi i / 4) are not taken from the table
    return torch.cat((x[:, :, :, :1], y[:, :, :, 1:middle], eighths, y[:, :, :, middle + 1 :]), 3)


@functools.lru_cache(maxsize=16)
def _split_radix_order(points: int) -> Tensor:
    """Where in the order of the recursion's leaves each frequency is."""
    blocks = {points: [(0, 1)]}
    size = points
    while size >= 4:
        here = blocks.pop(size)
        blocks.setdefault(size // 2, []).extend((start, 2 * step) for start, step in here)
        blocks.setdefault(size // 4, []).extend((start + k * step, 4 * step) for k in (1, 3) for start, step in here)
        size //= 2
    pairs, single = blocks[2], blocks.get(1, [])
    leaves = [start for start, _ in pairs] + [start + step for start, step in pairs] + [start for start, _ in single]
    return torch.from_numpy(np.argsort(leaves))


def _split_radix(x: Tensor) -> Tensor:
    """Complex FFT of a power of two of points, at least 2. (2, 1, points, frames) -> (2, points, frames)."""
    points = size = x.shape[2]
    blocks = {size: [x]}
    while size >= 4:
        x = torch.cat(blocks.pop(size), 1)
        first, second = x.split(size // 2, 2)
        blocks.setdefault(size // 2, []).append(first + second)
        (re1, re2), (im1, im2) = ((half - other).split(size // 4, 1) for half, other in zip(first, second, strict=True))
        quarters = torch.stack((torch.stack((re1 + im2, re1 - im2)), torch.stack((im1 - re2, im1 + re2))))
        blocks.setdefault(size // 4, []).append(_rotate(quarters).flatten(1, 2))
        size //= 2
    even, odd = torch.cat(blocks[2], 1).unbind(2)
    leaves = [even + odd, even - odd] + [block[:, :, 0] for block in blocks.get(1, [])]
    return torch.cat(leaves, 1)[:, _split_radix_order(points).to(x.device)]


def _prime_factors(n: int) -> list[int]:
    """In ascending order.

    >>> _prime_factors(200)
    [2, 2, 2, 5, 5]
    """
    factors, p = [], 2
    while n > 1:
        while n % p == 0:
            factors.append(p)
            n //= p
        p += 1
    return factors


@functools.lru_cache(maxsize=64)
def _mixed_radix_table(points: int, radix: int) -> Tensor:
    """Twiddle factors of one level for p = 1 to radix - 1: (radix - 1, 2, radix, points / radix, 1)."""
    turn = _powers(points, points // radix + 1)[:, :-1]
    angle = F32(-2 * np.pi / radix)
    root = (cosine(angle), sine(angle))
    outputs = [(turn[0], turn[1])]
    for _ in range(radix - 1):
        outputs.append(_times(root, outputs[-1]))
    base = (np.stack([re for re, _ in outputs]), np.stack([im for _, im in outputs]))
    powers = [base]
    for _ in range(radix - 2):
        powers.append(_times(base, powers[-1]))
    return torch.from_numpy(np.array(powers, F32))[..., None]


def _mixed_radix(x: Tensor, factors: list[int]) -> Tensor:
    """Complex FFT of any number of points with these prime factors. (2, blocks, points, frames) -> the same."""
    if not factors:
        return x
    radix, points = factors[0], x.shape[2]
    parts = x.unflatten(2, (points // radix, radix)).transpose(2, 3)
    y = _mixed_radix(parts.flatten(1, 2), factors[1:]).unflatten(1, (-1, radix))
    re = im = None
    total_re, total_im = (part[:, None, 0].expand(-1, radix, -1, -1) for part in y)
    for p, (cos, sin) in enumerate(_mixed_radix_table(points, radix).to(x.device), start=1):
        re, im = y[0][:, None, p], y[1][:, None, p]
        total_re = total_re + (re * cos - im * sin)
        total_im = total_im + (re * sin + im * cos)
    return torch.stack((total_re, total_im)).flatten(2, 3)


@functools.lru_cache(maxsize=16)
def _real_table(points: int) -> Tensor:
    """exp(-2 pi i k / points) for k = 1 to points / 4, each from the last: (2, points // 4, 1)."""
    return torch.from_numpy(_powers(points, points // 4 + 1)[:, 1:, None])


def _real_from_half(x: Tensor) -> Tensor:
    """FFT of 2 n real points from that of its even and odd ones as n complex. (2, n, ...) -> (2, n + 1, ...)."""
    half = x.shape[1]
    cos, sin = _real_table(2 * half).to(x.device)
    count = half // 2
    low, high = x[:, 1 : count + 1], x[:, half - count :].flip(1)
    even_re, even_im = 0.5 * (low[0] + high[0]), 0.5 * (low[1] - high[1])
    odd_re, odd_im = 0.5 * (low[1] + high[1]), -0.5 * (low[0] - high[0])
    below = torch.stack((even_re + (cos * odd_re - sin * odd_im), even_im + (cos * odd_im + sin * odd_re)))
    above = torch.stack((even_re + (sin * odd_im - cos * odd_re), (cos * odd_im + sin * odd_re) - even_im))
    above = above[:, : (half - 1) // 2].flip(1)
    zero = torch.zeros_like(x[0, :1])
    first = torch.stack((x[0, :1] + x[1, :1], zero))
    nyquist = torch.stack((x[0, :1] - x[1, :1], zero))
    return torch.cat((first, below, above, nyquist), 1)


def real_fft(frames: Tensor) -> Tensor:
    """FFT of real frames of an even number of points.

    Parameters
    ----------
    frames
        float32 of shape (..., points).

    Returns
    -------
    Tensor
        complex64 of shape (..., points / 2 + 1), equal to Kaldi's to the last bit.

    Examples
    --------
    >>> real_fft(torch.tensor([[1.0, 0.0, 0.0, 0.0]]))
    tensor([[1.+0.j, 1.+0.j, 1.+0.j]])
    """
    points = frames.shape[-1]
    x = torch.stack(frames.reshape(-1, points // 2, 2).permute(2, 1, 0).unbind()).unsqueeze(1)
    half = points // 2
    if half > 1 and half & (half - 1) == 0:
        x = _split_radix(x)
    else:
        x = _mixed_radix(x, _prime_factors(half))[:, 0]
    spectrum = _real_from_half(x).permute(2, 1, 0).contiguous()
    return torch.view_as_complex(spectrum).reshape((*frames.shape[:-1], half + 1))
