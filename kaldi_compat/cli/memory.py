"""Memory and environment of the processes of programs and dumps."""

from __future__ import annotations

import ctypes
from contextlib import suppress

SETTINGS: dict[str, str] = {}
"""Variables of the environment that a program has set for its own NumPy: commands that it runs do not get them."""

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3


def keep_freed_memory() -> None:
    """Let the C library keep memory that a block has freed for the next block, if it is GNU's.

    Otherwise it returns memory of this size to the system, and takes it back page by page.
    """
    with suppress(AttributeError, OSError, TypeError):
        library = ctypes.CDLL(None)
        library.mallopt(M_TRIM_THRESHOLD, 1 << 26)
        library.mallopt(M_MMAP_THRESHOLD, 1 << 25)
