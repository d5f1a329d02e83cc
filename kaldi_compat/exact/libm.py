"""The C library's exp, log, square root by pow, sin and cos in single precision, to the last bit, on NumPy arrays.

Kaldi's elementwise functions call ``expf`` and ``logf``, and its FFT takes its twiddle factors from ``sinf`` and
``cosf``. glibc computes them in double precision by a table and a short polynomial (Szabolcs Nagy, Arm optimized
routines). The error of the polynomial decides the rounding of a value near the middle between two floats, where exact
rounding would sometimes differ.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

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

LOG_STEP_BITS = 19  # Number of bits of a float's fraction below the top four bits, which select the row of LOG_TABLE.
LOG_OFFSET = 0x3F330000  # Bits of 0.69921875. logf() scales numbers to the range from this number to its double.
# Pairs of 1 / c and log(c), where c is a number near the middle of each of 16 intervals (glibc's logf).
LOG_TABLE = """
    0x1.661ec79f8f3bep+0 -0x1.57bf7808caadep-2  0x1.571ed4aaf883dp+0 -0x1.2bef0a7c06ddbp-2
    0x1.49539f0f010bp+0 -0x1.01eae7f513a67p-2  0x1.3c995b0b80385p+0 -0x1.b31d8a68224e9p-3
    0x1.30d190c8864a5p+0 -0x1.6574f0ac07758p-3  0x1.25e227b0b8eap+0 -0x1.1aa2bc79c81p-3
    0x1.1bb4a4a1a343fp+0 -0x1.a4e76ce8c0e5ep-4  0x1.12358f08ae5bap+0 -0x1.1973c5a611cccp-4
    0x1.0953f419900a7p+0 -0x1.252f438e10c1ep-5  0x1p+0 0x0p+0
    0x1.e608cfd9a47acp-1 0x1.aa5aa5df25984p-5  0x1.ca4b31f026aap-1 0x1.c5e53aa362eb4p-4
    0x1.b2036576afce6p-1 0x1.526e57720db08p-3  0x1.9c2d163a1aa2dp-1 0x1.bc2860d22477p-3
    0x1.886e6037841edp-1 0x1.1058bc8a07ee1p-2  0x1.767dcf5534862p-1 0x1.4043057b6ee09p-2
"""
LOG_INVERSE, LOG_CENTER = np.array(list(map(float.fromhex, LOG_TABLE.split()))).reshape(-1, 2).T.copy()
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
LOG_POLYNOMIAL = [float.fromhex(c) for c in ("-0x1.00ea348b88334p-2", "0x1.5575b0be00b6ap-2", "-0x1.ffffef20a4123p-2")]
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
LN2 = float.fromhex("0x1.62e42fefa39efp-1")


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


def logf(x: npt.ArrayLike) -> Floats:
    """Return the logarithm (base e) of float32 numbers in an array of any shape, with the bits of glibc's ``logf``."""
    x = np.asarray(x, np.float32)
    with np.errstate(all="ignore"):
        bits: npt.NDArray[np.int32] = x.view(np.int32)
        is_normal = (x >= np.finfo(np.float32).tiny) & (x < np.inf)
        is_all_normal = bool(is_normal.all())
        if not is_all_normal:
            is_subnormal = np.abs(x) < np.finfo(np.float32).tiny
            # Subnormal numbers are scaled by 2**23. This is undone in the exponent, which starts at bit 23.
            bits = np.where(is_subnormal, x * np.float32(2**23), x).view(np.int32)
            bits = (bits - np.where(is_subnormal, 23 << 23, 0)).astype(np.int32)
        # x = z * 2**exponent and z = c * (1 + r), so log(x) = exponent * log(2) + log(c) + log(1 + r).
        offset_bits = bits - np.int32(LOG_OFFSET)
        row = (offset_bits >> LOG_STEP_BITS) & 15  # LOG_TABLE has 16 rows.
        exponent = offset_bits >> 23
        z = (bits - (exponent << 23)).astype(np.int32, copy=False).view(np.float32).astype(np.float64)
        r = z * LOG_INVERSE[row] - 1
        y0 = LOG_CENTER[row] + exponent * LN2
        a0, a1, a2 = LOG_POLYNOMIAL
        y = (a0 * (r * r) + (a1 * r + a2)) * (r * r) + (y0 + r)
        if not is_all_normal:  # NumPy handles zero, negative numbers, infinity and NaN.
            y = np.where((x > 0) & np.isfinite(x), y, np.log(x.astype(np.float64)))
        result: Floats = y.astype(np.float32)
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
