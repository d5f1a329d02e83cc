"""OpenBLAS's dot product in float32, to the last digit: it decides the last digit of what Kaldi scales by its result.

The BLAS that NumPy brings adds in another order on each kind of processor. Kaldi's stored outputs come from OpenBLAS
where the processor has AVX-512, so that order is taken everywhere.

Source of the order: OpenBLAS's ``kernel/x86_64/sdot.c`` and ``sdot_microk_skylakex-2.c``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


def dot(x: npt.NDArray[Any], y: npt.NDArray[Any]) -> np.float32:
    """Sum of the products of two float32 arrays ``(n,)``: OpenBLAS's ``sdot``, on one thread with AVX-512.

    >>> float(dot(np.array([1.0, 2.0], np.float32), np.array([3.0, 4.0], np.float32)))
    11.0
    """
    # Four vectors of 16 sums go along, then, for a last half of such a block, of 8; what is left is added in double.
    halves = len(x) & ~31
    whole = halves & ~63
    # In double these products are exact, so that rounding each sum to float is a fused multiply-add.
    products = x[:halves].astype(np.float64) * y[:halves]
    sums = _added(np.zeros((4, 16), np.float32), products[:whole].reshape(-1, 4, 16))
    folded = _added(sums[:, :8] + sums[:, 8:], products[whole:].reshape(-1, 4, 8))
    joined = folded[0] + folded[1] + folded[2] + folded[3]
    pairs = joined[:4] + joined[4:]
    total = (pairs[0] + pairs[1]) + (pairs[2] + pairs[3])
    rest: float = sum((x[halves:] * y[halves:]).tolist())  # in double, one after the other
    dot_product: np.float32 = np.float32(rest + float(total))
    return dot_product


def _added(sums: Floats, products: npt.NDArray[np.float64]) -> Floats:
    """Products ``(n, ...)`` added to sums ``(...)`` one after the other, each time rounded to float32."""
    wide = np.empty(sums.shape)
    for product in products:
        np.add(sums, product, out=wide)
        sums[...] = wide
    return sums
