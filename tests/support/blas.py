"""The BLAS library that NumPy calls here."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def has_avx512() -> bool:
    """Return True if the processor has AVX-512 and NumPy comes with OpenBLAS."""
    try:
        processor = Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]["name"]
    return "avx512f" in processor and "openblas" in blas
