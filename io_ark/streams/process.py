"""Detect forks without a system call, and handle exceptions in ``__del__`` methods."""

from __future__ import annotations

import _thread
import os
import threading
from contextlib import suppress
from types import TracebackType
from typing import Any
from weakref import WeakSet

from io_ark.logs import logger


class Process:
    """Identity of a process. It changes after a fork."""

    __slots__ = ()


current = Process()
"""Identity of this process. Always read it as an attribute of this module, because a fork replaces it."""


_parent_only: WeakSet[Any] = WeakSet()  # Streams that only the process that opened them uses.


def close_in_forks(stream: Any) -> None:
    """Have each process that is forked from now on close its copy of a stream, as long as the stream is in use.

    The reader of a pipe waits until all copies of its writing end are closed, and a forked process may run for long.
    """
    _parent_only.add(stream)


def _renew_identity() -> None:
    """Give a forked process a new identity, and close the streams that only its parent uses."""
    global current
    current = Process()
    for stream in list(_parent_only):
        with suppress(OSError):
            stream.close()
    _parent_only.clear()


class Deletion:
    """Context for the work of a ``__del__`` method. It logs errors, because Python drops exceptions raised there.

    A KeyboardInterrupt is raised again in the main thread after ``__del__`` has returned.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        if isinstance(error, KeyboardInterrupt):
            logger.error("closing an output was interrupted: the output is incomplete")
            interrupt_later()
        elif isinstance(error, Exception):
            logger.error("%s", error)
        else:
            return False
        return True


def interrupt_later() -> None:
    """Raise KeyboardInterrupt in the main thread after 50 ms.

    The delay lets a calling ``__del__`` method return first, because Python drops exceptions raised in it.
    """
    timer = threading.Timer(0.05, _thread.interrupt_main)
    timer.daemon = True
    timer.start()


os.register_at_fork(after_in_child=_renew_identity)
