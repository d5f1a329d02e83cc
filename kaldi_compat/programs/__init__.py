"""The command-line programs."""

from __future__ import annotations

import gc
import os
import signal
import sys

# ^C ends a program that is still importing its modules as it ends other programs, without a traceback. The program
# catches it from then on, see Program. A process that only uses these modules keeps its own way.
_module = os.path.join(__path__[0], os.path.basename((sys.argv or [""])[0]).replace("-", "_") + ".py")
if os.path.isfile(_module) and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from kaldi_compat.cli.memory import SETTINGS, keep_freed_memory  # noqa: E402  takes time

# NumPy and its BLAS read the environment when they are first imported or used, which is after this.
# Huge pages make programs slower that write each number of a large array once: clearing them takes longer than clearing
# small ones (splicing 6 hours: 2.1 s of system time, 1.2 s without).
_wanted = {"NUMPY_MADVISE_HUGEPAGE": "0"}
# Recipes start one process per core: threads of NumPy's BLAS would compete for the cores, and small products run slower
# with them.
if "OMP_NUM_THREADS" not in os.environ:
    _wanted |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1")
SETTINGS.update({name: value for name, value in _wanted.items() if name not in os.environ})
os.environ.update(SETTINGS)

# Modules are many objects and no garbage: collecting it while they are imported takes a tenth of a program's start-up.
gc.set_threshold(max(100_000, gc.get_threshold()[0]))

keep_freed_memory()
