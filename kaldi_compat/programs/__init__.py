"""The command-line programs."""

from __future__ import annotations

import os

# Recipes start one process per core. Threads of NumPy's BLAS would fight for them, and cost most in the small products
# that these programs are made of. It reads the environment when NumPy is first imported, which is after this.
if "OMP_NUM_THREADS" not in os.environ:
    for _name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
        os.environ.setdefault(_name, "1")
