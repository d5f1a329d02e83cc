"""Hide differences between operating systems: reading at an offset, and names that Windows lacks."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any

# Flags to open a file for reading. Windows has no O_CLOEXEC, and translates line ends unless O_BINARY is set.
OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
# Flags to open a file for writing. The file is created or truncated.
WRITE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
SIGPIPE = int(getattr(signal, "SIGPIPE", 13))

_seeking = threading.Lock()


def can_run_commands() -> bool:
    """Return True if this system can run the commands of Kaldi file names in a POSIX shell."""
    return hasattr(os, "posix_spawn")


def _pread(descriptor: int, size: int, offset: int) -> bytes:
    """Read up to ``size`` bytes of a file from ``offset`` on, like ``os.pread``."""
    with _seeking:
        os.lseek(descriptor, offset, os.SEEK_SET)
        return os.read(descriptor, size)


def _preadv(descriptor: int, targets: Sequence[Any], offset: int) -> int:
    """Fill buffers in turn with a file's bytes from ``offset`` on. Return the number of bytes, like ``os.preadv``."""
    byte_count = 0
    for target in targets:
        view = memoryview(target).cast("B")
        data = pread(descriptor, len(view), offset + byte_count)
        view[: len(data)] = data
        byte_count += len(data)
        if len(data) < len(view):
            break
    return byte_count


# Windows has no pread. Its replacement seeks, so threads that share a descriptor take turns.
pread: Callable[[int, int, int], bytes] = getattr(os, "pread", _pread)
preadv: Callable[[int, Sequence[Any], int], int] = getattr(os, "preadv", _preadv)
