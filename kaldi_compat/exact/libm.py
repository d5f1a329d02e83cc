"""The C library's exp, square root by pow, sin and cos in single precision, to the last bit, on NumPy arrays.

Kaldi's elementwise functions call ``expf`` and ``logf`` (see :mod:`io_ark.libm`), and its FFT takes its twiddle factors
from ``sinf`` and ``cosf``. glibc computes them in double precision by a table and a short polynomial (Szabolcs Nagy,
Arm optimized routines). The error of the polynomial decides the rounding of a value near the middle between two floats,
where exact rounding would sometimes differ.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from io_ark.libm import LOG_INVERSE, LOG_OFFSET, LOG_STEP_BITS
from kaldi_compat.exact.arrays import Doubles, Floats

EXP_STEPS = 32
# Unlike exp2, float_power calls the C library on every processor. All its results here are correctly rounded.
EXP_TABLE = np.float_power(2.0, np.arange(EXP_STEPS) / EXP_STEPS)
EXP_POLYNOMIAL = [
    float.fromhex(c) / EXP_STEPS**p
    for c, p in (("0x1.c6af84b912394p-5", 3), ("0x1.ebfce50fac4f3p-3", 2), ("0x1.62e42ff0c52d6p-1", 1))
]
STEPS_PER_E = float.fromhex("0x1.71547652b82fep+0") * EXP_STEPS
EXP_OVERFLOW, EXP_UNDERFLOW = np.float32(float.fromhex("0x1.62e42ep6")), np.float32(float.fromhex("-0x1.9fe368p6"))

# log2(c) for the same intervals, and the polynomial of log2(1 + r) (glibc's powf).
LOG2_TABLE = """
    -0x1.efec65b963019p-2 -0x1.b0b6832d4fca4p-2 -0x1.7418b0a1fb77bp-2 -0x1.39de91a6dcf7bp-2 -0x1.01d9bf3f2b631p-2
    -0x1.97c1d1b3b7afp-3 -0x1.2f9e393af3c9fp-3 -0x1.960cbbf788d5cp-4 -0x1.a6f9db6475fcep-5 0x0p+0 0x1.338ca9f24f53dp-4
    0x1.476a9543891bap-3 0x1.e840b4ac4e4d2p-3 0x1.40645f0c6651cp-2 0x1.88e9c2c1b9ff8p-2 0x1.ce0a44eb17bccp-2
"""
LOG2_CENTER = np.array(list(map(float.fromhex, LOG2_TABLE.split())))
LOG2_POLYNOMIAL = [
    float.fromhex(c)
    for c in (
        "0x1.27616c9496e0bp-2",
        "-0x1.71969a075c67ap-2",
        "0x1.ec70a6ca7baddp-2",
        "-0x1.7154748bef6c8p-1",
        "0x1.71547652ab82bp+0",
    )
]
# Coefficients of polynomials for the sine and the cosine of angles from -pi/4 to pi/4, lowest power first.
SINE = [float.fromhex(c) for c in ("0x1p0", "-0x1.555545995a603p-3", "0x1.1107605230bc4p-7", "-0x1.994eb3774cf24p-13")]
COSINE = [
    float.fromhex(c)
    for c in (
        "0x1p0",
        "-0x1.ffffffd0c621cp-2",
        "0x1.55553e1068f19p-5",
        "-0x1.6c087e89a359dp-10",
        "0x1.99343027bf8c3p-16",
    )
]


def expf(x: npt.ArrayLike) -> Floats:
    """Return the exponential of each float32 number of an array of any shape, with the bits of glibc's ``expf``."""
    x = np.asarray(x, np.float32)
    with np.errstate(all="ignore"):
        # Clipping keeps the number of steps small enough for an integer where the result is 0 or infinity.
        steps = STEPS_PER_E * np.clip(np.nan_to_num(x), 2 * EXP_UNDERFLOW, 2 * EXP_OVERFLOW).astype(np.float64)
        y = _raise_two(steps)
        exponential = np.where(x > EXP_OVERFLOW, np.inf, np.where(x < EXP_UNDERFLOW, 0.0, y))
        result: Floats = np.where(np.isnan(x), x, exponential).astype(np.float32)
    return result


def _raise_two(steps: Doubles) -> Doubles:
    """Return ``2**(steps / EXP_STEPS)`` for ``steps`` of any shape, as the C library's functions compute it."""
    # A table gives the power for the nearest integer, and a polynomial the power for the remainder.
    nearest = np.rint(steps)
    r = steps - nearest
    scale = np.ldexp(EXP_TABLE[nearest.astype(np.int64) % EXP_STEPS], (nearest // EXP_STEPS).astype(np.int32))
    c0, c1, c2 = EXP_POLYNOMIAL
    power: Doubles = ((c0 * r + c1) * (r * r) + (c2 * r + 1)) * scale
    return power


def half_powf(x: npt.ArrayLike) -> Floats:
    """Return float32 numbers of an array of any shape to the power 0.5, with the bits of glibc's ``powf(x, 0.5f)``.

    One result in 1,572 differs from the square root. Subnormal and negative numbers get their square root.
    """
    x = np.asarray(x, np.float32)
    is_normal = (x >= np.finfo(np.float32).tiny) & (x < np.inf)
    bits: npt.NDArray[np.int32] = np.where(is_normal, x, np.float32(1)).view(np.int32)
    # As in logf(), log2(x) = exponent + log2(c) + log2(1 + r).
    offset_bits = bits - np.int32(LOG_OFFSET)
    row = (offset_bits >> LOG_STEP_BITS) & 15
    exponent = offset_bits >> 23
    r = (bits - (exponent << 23)).astype(np.int32, copy=False).view(np.float32) * LOG_INVERSE[row] - 1
    a0, a1, a2, a3, a4 = LOG2_POLYNOMIAL
    r2 = r * r
    log2 = (a0 * r + a1) * (r2 * r2) + ((a2 * r + a3) * r2 + (a4 * r + (LOG2_CENTER[row] + exponent)))
    with np.errstate(invalid="ignore"):
        result: Floats = np.where(is_normal, _raise_two(0.5 * EXP_STEPS * log2), np.sqrt(x)).astype(np.float32)
    return result


def sinf(x: npt.ArrayLike) -> Floats:
    """Return the sines of float32 angles in radians, of any shape. See :func:`sincosf` for the range."""
    return sincosf(x)[0]


def cosf(x: npt.ArrayLike) -> Floats:
    """Return the cosines of float32 angles in radians, of any shape. See :func:`sincosf` for the range."""
    return sincosf(x)[1]


def sincosf(angle: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Return the sines and cosines of float32 angles in radians, of any shape, with the bits of glibc's functions.

    The angles must be between -120 and 120, because glibc reduces larger angles with a different algorithm.
    """
    x = np.asarray(angle, np.float32).astype(np.float64)
    quarters = np.rint(x * (2.0 / np.pi))
    x = x - quarters * (np.pi / 2.0)
    quadrant = quarters.astype(np.int8)
    x2 = x * x
    x4 = x2 * x2
    sine = ((x + x * x2 * SINE[1]) + x * x4 * (SINE[2] + x2 * SINE[3])).astype(np.float32)
    cosine = (((1.0 + x2 * COSINE[1]) + x4 * COSINE[2]) + x2 * x4 * (COSINE[3] + x2 * COSINE[4])).astype(np.float32)
    is_swapped = (quadrant & 1).astype(bool)
    return (
        np.where(is_swapped, cosine, sine) * (1 - (quadrant & 2)).astype(np.float32),
        np.where(is_swapped, sine, cosine) * (1 - ((quadrant + 1) & 2)).astype(np.float32),
    )
