"""Configure memory and environment variables of the processes of programs and dumps."""

from __future__ import annotations

import ctypes
from contextlib import suppress

SETTINGS: dict[str, str] = {}
"""Environment variables that a program sets for its own NumPy. The commands that it runs do not inherit them."""

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3


def keep_freed_memory() -> None:
    """Let GNU's C library keep freed memory for the next block.

    By default, the library returns large arrays to the system, and the next block must allocate them page by page.
    """
    with suppress(AttributeError, OSError, TypeError):
        library = ctypes.CDLL(None)
        # The thresholds are in bytes. On 64-bit systems, mallopt() accepts no larger M_MMAP_THRESHOLD.
        library.mallopt(M_TRIM_THRESHOLD, 1 << 26)
        library.mallopt(M_MMAP_THRESHOLD, 1 << 25)
