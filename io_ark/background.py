"""Reading ahead in a thread (the option ``bg``)."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterator
from typing import Any

from io_ark.objects import ready

Entry = tuple[str, Callable[[], Any]]
# How many objects may wait: one being used, one ready, is what overlaps reading with computing.
AHEAD = 2
JOIN_SECONDS = 5.0


class ReadAhead(Iterator[Entry]):
    """The entries of a generator, which runs in a thread; its errors are raised where the entry would have come.

    Args:
        entries: what to run ahead of the caller.
    """

    def __init__(self, entries: Generator[Entry, None, None]) -> None:
        self._queue: queue.Queue[Entry | BaseException | None] = queue.Queue(AHEAD)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(entries,), name="io_ark reader", daemon=True)
        self._thread.start()

    def _run(self, entries: Generator[Entry, None, None]) -> None:
        end: BaseException | None = None
        try:
            for key, load in entries:
                if not self._put((key, ready(load()))):
                    break
        except BaseException as error:
            end = error
        entries.close()
        self._put(end)

    def _put(self, item: Entry | BaseException | None) -> bool:
        while not self._stopped.is_set():
            try:
                self._queue.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def __next__(self) -> Entry:
        if self._stopped.is_set():
            raise StopIteration
        item = self._queue.get()
        if isinstance(item, tuple):
            return item
        self._stopped.set()
        if item is not None:
            raise item
        raise StopIteration

    def close(self) -> None:
        """Stop the thread and wait for it."""
        self._stopped.set()
        while not self._queue.empty():
            self._queue.get_nowait()
        # A thread that waits for a pipe to speak would keep us waiting as long; it ends with the process at the latest.
        self._thread.join(JOIN_SECONDS)
