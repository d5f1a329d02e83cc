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
    """Delay SIGINT (^C), SIGTERM and SIGHUP until the ``with`` block ends. Do nothing outside the main thread."""
    delayed: list[int] = []
    handlers: dict[int, Any] = {}
    try:
        is_main = threading.current_thread() is threading.main_thread()
        for signum in _SIGNALS:
            if is_main and signal.getsignal(signum) not in (
                signal.SIG_IGN,
                None,
            ):  # None means that C code has set the handler.
                handlers[signum] = signal.signal(signum, lambda received, _frame: delayed.append(received))
        yield
    finally:
        for signum, handler in handlers.items():
            signal.signal(signum, handler)
        for signum in delayed:
            signal.raise_signal(signum)
