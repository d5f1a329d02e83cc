"""The command-line programs."""

from __future__ import annotations

import gc
import os

from kaldi_compat.cli.memory import keep_freed_memory

# Recipes start one process per core: threads of NumPy's BLAS would compete for the cores, and small products run slower
# with them. BLAS reads the environment when NumPy is first imported, which is after this.
if "OMP_NUM_THREADS" not in os.environ:
    for _name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"):
        os.environ.setdefault(_name, "1")

# Huge pages make programs slower that write each number of a large array once: clearing them takes longer than clearing
# small ones (splicing 6 hours: 2.1 s of system time, 1.2 s without).
os.environ.setdefault("NUMPY_MADVISE_HUGEPAGE", "0")

# Modules are many objects and no garbage: collecting it while they are imported takes a tenth of a program's start-up.
gc.set_threshold(max(100_000, gc.get_threshold()[0]))

keep_freed_memory()
