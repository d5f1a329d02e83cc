"""Kaldi's, glibc's and OpenBLAS's rounding, bit for bit, in NumPy."""

import numpy as np

if int(np.__version__.partition(".")[0]) < 2:
    # NumPy 1.x computes float32 scalars with Python's numbers in float64 (changed by NEP 50), which gives other digits.
    raise ImportError(f"kaldi-compat needs NumPy 2.0 or later, not {np.__version__}: pip install 'numpy>=2'")
