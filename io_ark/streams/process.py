"""Detect that a process was forked, without a system call."""

from __future__ import annotations

import _thread
import os
import threading
from types import TracebackType

from io_ark.logs import logger


class Process:
    """Identity of a process: a forked process has another one."""

    __slots__ = ()


current = Process()
"""Identity of this process. Read it as an attribute of this module, because a fork changes it."""


def current_process() -> Process:
    """Return the identity of this process."""
    return current


def _renew() -> None:
    global current
    current = Process()


class Deletion:
    """Context of the work of a ``__del__``, from which Python lets no exception out: errors are logged.

    ^C is raised again in the main thread as soon as the ``__del__`` has been left.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        if isinstance(error, KeyboardInterrupt):
            logger.error("an output was interrupted while it was closed: it is incomplete")
            interrupt_later()
        elif isinstance(error, Exception):
            logger.error("%s", error)
        else:
            return False
        return True


def interrupt_later() -> None:
    """Raise ^C in the main thread after a while."""
    timer = threading.Timer(_AFTER_SECONDS, _thread.interrupt_main)
    timer.daemon = True
    timer.start()


_AFTER_SECONDS = 0.05

os.register_at_fork(after_in_child=_renew)
