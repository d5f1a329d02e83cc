"""Work in a thread behind the computation, with a queue that is bounded by the bytes in it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Generic, TypeVar

T = TypeVar("T")
# Features that may wait to be encoded and written: the results of several batches, so that computing need not wait.
BYTES_BEHIND = 256 << 20


class WorkBehind(Generic[T]):
    """Passes items to a function in a thread, in order.

    An error of the function is raised at the next item, or at the end; later items are dropped. Leaving the context
    waits until all items are done, with or without an exception.

    Args:
        work: the function.
        most: bytes that may wait; a larger item waits alone.
    """

    def __init__(self, work: Callable[[T], object], most: int = BYTES_BEHIND) -> None:
        self._work = work
        self._most = most
        self._bytes = 0
        self._changed = threading.Condition()
        self._error: BaseException | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="write behind")

    def put(self, item: T, size: int) -> None:
        """Add an item of this many bytes; wait while there are too many."""
        with self._changed:
            self._changed.wait_for(lambda: self._error or not self._bytes or self._bytes + size <= self._most)
            self._check()
            self._bytes += size
        self._thread.submit(self._run, item, size)

    def _run(self, item: T, size: int) -> None:
        try:
            if self._error is None:
                self._work(item)
        except BaseException as error:
            self._error = error
        with self._changed:
            self._bytes -= size
            self._changed.notify_all()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def __enter__(self) -> WorkBehind[T]:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None) -> None:
        self._thread.shutdown()
        if kind is None:
            self._check()
