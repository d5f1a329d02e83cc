"""Delay signals while something must not be interrupted."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

_SIGNALS = {getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)}


@contextlib.contextmanager
def delay_signals() -> Iterator[None]:
    """Deliver ^C, SIGTERM and SIGHUP at the end of this context. Other threads than the main one receive no signals."""
    delayed: list[int] = []
    handlers: dict[int, Any] = {}
    try:
        for number in _SIGNALS if threading.current_thread() is threading.main_thread() else ():
            if signal.getsignal(number) not in (signal.SIG_IGN, None):  # None is a handler that is not Python's.
                handlers[number] = signal.signal(number, lambda number, _: delayed.append(number))
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number in delayed:
            signal.raise_signal(number)
