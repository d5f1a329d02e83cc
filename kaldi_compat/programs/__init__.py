"""The command-line programs."""

from __future__ import annotations

import os

# Recipes start one process per core: threads of NumPy's BLAS would compete for the cores, and small products run slower
# with them. BLAS reads the environment when NumPy is first imported, which is after this.
if "OMP_NUM_THREADS" not in os.environ:
    for _name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
        os.environ.setdefault(_name, "1")
