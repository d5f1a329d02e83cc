"""One dump at a time into the same archives; the parts of one plan, all at a time."""

from __future__ import annotations

import fcntl
import logging
import os
import time
from pathlib import Path

from kaldi_compat.dump.errors import DumpError

logger = logging.getLogger(__name__)

# A part waits so long for another one to make the plan, which takes seconds even for ten million utterances.
SECONDS_TO_WAIT = 300.0
SECONDS_BETWEEN_TRIES = 0.1


def lock_alone(path: Path) -> int:
    """Hold the lock of a dump until the descriptor that this returns is closed, or this process ends.

    Raises:
        DumpError: another dump into the same files is under way.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    if _try(descriptor, fcntl.LOCK_EX, path):
        return descriptor
    os.close(descriptor)
    raise DumpError(f"another dump into the same archives is under way (it holds {path}): wait for it")


def lock_with_others(path: Path, plan: Path) -> int:
    """As :func:`lock_alone` while there is no plan; once there is one, together with all who follow it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    end = time.monotonic() + SECONDS_TO_WAIT
    while not _try(descriptor, fcntl.LOCK_SH if plan.exists() else fcntl.LOCK_EX, path):
        if time.monotonic() > end:
            os.close(descriptor)
            raise DumpError(f"a dump that is no part of the same plan is under way (it holds {path}): wait for it")
        time.sleep(SECONDS_BETWEEN_TRIES)
    return descriptor


def share(descriptor: int, path: Path) -> None:
    """Let others in who follow the plan that is there now."""
    _try(descriptor, fcntl.LOCK_SH, path)


def _try(descriptor: int, kind: int, path: Path) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        # A file system without locks: two dumps at once would give the same bytes, only twice the work.
        logger.warning("cannot lock %s: %s", path, error.strerror)
    return True
