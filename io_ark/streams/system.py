"""Hide differences between operating systems: reading at an offset, and names that Windows lacks."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

# Flags to open a file for reading. Windows has no O_CLOEXEC, and translates line ends unless O_BINARY is set.
OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
# Flags to open a file for writing. The file is created or truncated.
WRITE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
SIGPIPE = int(getattr(signal, "SIGPIPE", 13))

_seeking = threading.Lock()


# Seconds between two attempts to read from a stream that does not block and has no bytes yet.
_SECONDS_BETWEEN_READS = 0.01


def wait_for_bytes(readinto: Callable[[Any], int | None], target: Any) -> int:
    """Return the result of ``readinto(target)``, which is 0 only at the end of the stream.

    A stream that does not block, such as the standard input that some programs give to their children, returns None if
    no bytes have arrived yet. Then wait for bytes.
    """
    while (count := readinto(target)) is None:
        time.sleep(_SECONDS_BETWEEN_READS)
    return count


class BlockingInput(io.FileIO):
    """Unbuffered input whose reads wait for bytes, even if the file descriptor does not block."""

    def readinto(self, buffer: Any) -> int:
        return wait_for_bytes(super().readinto, buffer)


def buffer_standard_output() -> None:
    """Give standard output a buffer if Python runs without one (``PYTHONUNBUFFERED``, ``python -u``).

    Without a buffer, Python ignores that a full disk has accepted only a part of the bytes. Streams of other classes,
    which callers or test frameworks have put in the place of standard output, are not replaced.
    """
    stream = sys.stdout
    if type(stream) is io.TextIOWrapper and type(stream.buffer) is io.FileIO:
        stream.flush()
        sys.stdout = open(  # noqa: SIM115  It stays open until the process ends.
            stream.fileno(), "w", buffering=1, encoding=stream.encoding, errors=stream.errors, closefd=False
        )
        _unbuffered_outputs.append(stream)


_unbuffered_outputs: list[Any] = []  # Replaced streams. Python would close the descriptor of a stream without users.


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
