"""The command-line programs."""

from __future__ import annotations

import ctypes
import gc
import os
from contextlib import suppress

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

# The C library keeps memory of this size that a block has freed, for the next block, instead of returning it to the
# system and taking it back page by page. Only GNU's has this function.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
with suppress(AttributeError, OSError, TypeError):
    _c_library = ctypes.CDLL(None)
    _c_library.mallopt(_M_TRIM_THRESHOLD, 1 << 26)
    _c_library.mallopt(_M_MMAP_THRESHOLD, 1 << 25)
