"""Locks: one dump at a time into the same archives, but all parts of one plan at the same time."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

from kaldi_compat.dump.errors import DumpError

try:
    import fcntl
except ModuleNotFoundError:  # Windows has no fcntl.
    HAS_LOCKS = False
else:
    HAS_LOCKS = True

logger = logging.getLogger(__name__)

# Time that a part waits for the plan of another part. Planning ten million utterances takes a few seconds.
SECONDS_TO_WAIT = 300.0
SECONDS_BETWEEN_TRIES = 0.1


def check_system() -> None:
    """Raise :class:`DumpError` if this system lacks what a dump needs: locks of files, and processes that fork."""
    if not HAS_LOCKS:
        raise DumpError(
            "kaldi-compat dump needs a POSIX system, such as Linux, macOS or WSL (Windows lacks file locks)"
        )


def lock(path: Path, plan: Path | None = None) -> int:
    """Lock a dump until the returned descriptor is closed or this process ends.

    Args:
        path: the file to lock.
        plan: path of the plan of a dump in parts, which share the lock once the plan exists. None for a whole dump.

    Raises:
        DumpError: another dump into the same files is running.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    end = time.monotonic() + (SECONDS_TO_WAIT if plan else 0.0)
    while not _try_lock(descriptor, fcntl.LOCK_SH if plan and plan.exists() else fcntl.LOCK_EX, path):
        if time.monotonic() >= end:
            os.close(descriptor)
            other = "a dump that is not a part of the same plan" if plan else "another dump into the same archives"
            raise DumpError(f"{other} is running (it holds {path}): wait for it")
        time.sleep(SECONDS_BETWEEN_TRIES)
    return descriptor


def share(descriptor: int, path: Path) -> None:
    """Share the lock with the other parts of the plan, after the plan has been written."""
    _try_lock(descriptor, fcntl.LOCK_SH, path)


def _try_lock(descriptor: int, kind: int, path: Path) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        # The file system has no locks. Two simultaneous dumps use different temporary files, and write the same bytes.
        logger.warning("cannot lock %s: %s", path, error.strerror)
    return True
