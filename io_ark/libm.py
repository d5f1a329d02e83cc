"""The C library's logarithm in single precision, to the last bit, on NumPy arrays.

Kaldi calls ``logf``. glibc computes it in double precision by a table and a short polynomial (Szabolcs Nagy, Arm
optimized routines), whose error sometimes decides the rounding. See :mod:`kaldi_compat.exact.libm` for other functions.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

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
LOG_POLYNOMIAL = [float.fromhex(c) for c in ("-0x1.00ea348b88334p-2", "0x1.5575b0be00b6ap-2", "-0x1.ffffef20a4123p-2")]
LN2 = float.fromhex("0x1.62e42fefa39efp-1")


def logf(x: npt.ArrayLike) -> npt.NDArray[np.float32]:
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
        result: npt.NDArray[np.float32] = y.astype(np.float32)
    return result
