"""The BLAS library that NumPy calls here."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.processes import output_of

PRODUCTS = """
import sys, numpy as np
inputs = list(np.load(sys.argv[1]).values())
np.savez(sys.argv[1], *(np.dot(a, b.T) for a, b in zip(inputs[::2], inputs[1::2])))
"""


def has_avx512() -> bool:
    """Return True if the processor has AVX-512 and NumPy comes with OpenBLAS."""
    try:
        processor = Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    with contextlib.redirect_stdout(io.StringIO()) as config:
        np.show_config()
    return "avx512f" in processor and "openblas" in config.getvalue()


def products_by_openblas(pairs: Sequence[Any], folder: Path) -> list[Any]:
    """Return each first array times the transpose of the second, as OpenBLAS computes on a processor with AVX-512."""
    np.savez(folder / "arrays.npz", *(matrix for pair in pairs for matrix in pair))
    output_of(PRODUCTS, str(folder / "arrays.npz"), OPENBLAS_CORETYPE="SkylakeX", OPENBLAS_NUM_THREADS="1")
    return list(np.load(folder / "arrays.npz").values())
