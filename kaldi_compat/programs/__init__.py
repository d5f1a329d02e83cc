"""The command-line programs. Importing this package configures the process only if the process runs a program."""

from __future__ import annotations

import os
import sys


def _is_process_of_a_program() -> bool:
    """Return True if the script that Python runs is named like a program of this package."""
    name = os.path.basename("".join(sys.argv[:1])).removesuffix(".exe").replace("-", "_")
    return os.path.isfile(os.path.join(__path__[0], f"{name}.py"))


def _prepare_process() -> None:
    """Configure signals, threads, memory and garbage collection of this process, which runs a program."""
    import gc
    import signal

    # With the handler SIG_DFL, ^C ends a program without a traceback while it is importing its modules. Later, the
    # class Program handles ^C.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    # The import follows the change of the handler, because importing is slow and ^C may arrive meanwhile.
    from kaldi_compat.cli.memory import SETTINGS, keep_freed_memory

    # NumPy and its BLAS read the environment when they are first imported or used, so it is set before.
    # Programs write each number of a large array once, so clearing huge pages costs more than it saves (splicing 6
    # hours of features: 2.1 s of system time with huge pages, 1.2 s without).
    settings = {"NUMPY_MADVISE_HUGEPAGE": "0"}
    # Recipes start one process per core, so threads of NumPy's BLAS would compete for the cores. Threads also make
    # small products slower.
    if "OMP_NUM_THREADS" not in os.environ:
        settings |= dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1")
    SETTINGS.update({name: value for name, value in settings.items() if name not in os.environ})
    os.environ.update(SETTINGS)

    # Importing creates many objects but no garbage. Searching for garbage would take a tenth of the start-up time.
    gc.set_threshold(max(100_000, gc.get_threshold()[0]))

    keep_freed_memory()


if _is_process_of_a_program():
    _prepare_process()
