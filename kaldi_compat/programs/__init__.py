"""The command-line programs. To import them changes nothing of the process, unless it is the process of a program."""

from __future__ import annotations

import os
import sys


def _is_process_of_a_program() -> bool:
    name = os.path.basename("".join(sys.argv[:1])).removesuffix(".exe").replace("-", "_")
    return os.path.isfile(os.path.join(__path__[0], f"{name}.py"))


def _prepare() -> None:
    import gc
    import signal

    # ^C ends a program that is still importing its modules as it ends other programs, without a traceback. The program
    # catches it from then on, see Program.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from kaldi_compat.cli.memory import SETTINGS, keep_freed_memory  # takes time

    # NumPy and its BLAS read the environment when they are first imported or used, which is after this.
    # Huge pages make programs slower that write each number of a large array once: clearing them takes longer than
    # clearing small ones (splicing 6 hours: 2.1 s of system time, 1.2 s without).
    settings = {"NUMPY_MADVISE_HUGEPAGE": "0"}
    # Recipes start one process per core: threads of NumPy's BLAS would compete for the cores, and small products run
    # slower with them.
    if "OMP_NUM_THREADS" not in os.environ:
        settings |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1")
    SETTINGS.update({name: value for name, value in settings.items() if name not in os.environ})
    os.environ.update(SETTINGS)

    # Modules are many objects and no garbage: collecting it while they are imported takes a tenth of the start-up.
    gc.set_threshold(max(100_000, gc.get_threshold()[0]))

    keep_freed_memory()


if _is_process_of_a_program():
    _prepare()
