"""Read ahead in a thread (the option ``bg``)."""

from __future__ import annotations

import contextvars
import os
import sys
import threading
import weakref
from collections.abc import Generator, Iterator
from queue import SimpleQueue
from typing import Any

from io_ark.errors import ClosedError

Item = Any  # A key and a value, or a block of entries.
# Maximum number of objects read ahead. While one object is in use and one is ready, reading overlaps with computing.
MAX_READ_AHEAD = 2
JOIN_SECONDS = 5.0  # Maximum time to wait for the end of the thread.
JOIN_SECONDS_INTERRUPTED = 0.1  # Maximum time after a KeyboardInterrupt, when the program should end at once.


class ReadAhead(Iterator[Item]):
    """Iterator over the entries of a generator that runs in a thread. An exception in the generator is raised last.

    The thread refers only to the queues and to the generator ``entries``, which must not refer to the owner of this
    object, so the thread ends when this object is closed or deleted. The queues are SimpleQueues, which a finalizer may
    use at any time.
    """

    def __init__(self, entries: Generator[Item, None, None]) -> None:
        self._items: SimpleQueue[Item | BaseException | None] = SimpleQueue()
        self._has_ended = False
        free_slots: SimpleQueue[None] = SimpleQueue()
        stop_event = threading.Event()
        self._release_slot = free_slots.put
        for _ in range(MAX_READ_AHEAD):
            free_slots.put(None)
        self._process = os.getpid()
        self._thread = threading.Thread(
            target=contextvars.copy_context().run,  # The thread sees the values of the caller's context variables.
            args=(_fill_queue, entries, self._items, free_slots, stop_event),
            name="io_ark reader",
            daemon=True,
        )
        self._stop = weakref.finalize(self, _stop_thread, free_slots, stop_event)
        self._thread.start()

    def __next__(self) -> Item:
        if self._has_ended:
            raise StopIteration
        if os.getpid() != self._process:
            raise ClosedError("this process was forked while a thread read the table: open the table in this process, "
                              "or omit the option bg or background=True")  # fmt: skip
        item = self._items.get()
        if item is not None and not isinstance(item, BaseException):
            self._release_slot(None)
            return item
        self._has_ended = True
        if item is not None:
            raise item
        raise StopIteration

    def close(self) -> None:
        """Stop the thread, and wait up to ``JOIN_SECONDS`` for its end. In a forked process, only end the iteration."""
        self._has_ended = True
        if os.getpid() != self._process:
            self._stop.detach()  # A forked process does not have the thread.
            return
        self._stop()
        # A thread that waits for a pipe may take longer. It is a daemon, so it ends with the process.
        is_interrupted = isinstance(sys.exc_info()[1], KeyboardInterrupt)
        self._thread.join(JOIN_SECONDS_INTERRUPTED if is_interrupted else JOIN_SECONDS)
        self._items = SimpleQueue()


def _fill_queue(
    entries: Generator[Item, None, None],
    items: SimpleQueue[Item | BaseException | None],
    free_slots: SimpleQueue[None],
    stop_event: threading.Event,
) -> None:
    """Put the entries of a generator into the queue ``items``, then None or the exception that the generator raised.

    Each entry takes a slot from ``free_slots``. Once ``stop_event`` is set, the remaining entries are dropped.
    """
    failure: BaseException | None = None
    try:
        for entry in entries:
            free_slots.get()
            if stop_event.is_set():
                break
            items.put(entry)
    except BaseException as error:
        failure = error
    entries.close()
    items.put(failure)


def _stop_thread(free_slots: SimpleQueue[None], stop_event: threading.Event) -> None:
    """Ask the thread to end, and wake it if it is waiting for a free slot."""
    stop_event.set()
    free_slots.put(None)
