"""Reading ahead in a thread (the option ``bg``)."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Generator, Iterator
from queue import SimpleQueue
from typing import Any

Entry = tuple[str, Any]
# How many objects may wait: one being used, one ready, is what overlaps reading with computing.
AHEAD = 2
JOIN_SECONDS = 5.0


class ReadAhead(Iterator[Entry]):
    """The entries of a generator, which runs in a thread; its errors are raised where the entry would have come.

    The thread ends when this is closed, or dropped: it knows the queues alone. They are simple ones, which a finalizer
    may use whatever it interrupts.

    Args:
        entries: what to run ahead of the caller; it must not refer to who holds this.
    """

    def __init__(self, entries: Generator[Entry, None, None]) -> None:
        self._items: SimpleQueue[Entry | BaseException | None] = SimpleQueue()
        self._ended = False
        room: SimpleQueue[None] = SimpleQueue()  # as many as objects may be added
        stopped = threading.Event()
        self._make_room = room.put
        for _ in range(AHEAD):
            room.put(None)
        self._thread = threading.Thread(
            target=_run, args=(entries, self._items, room, stopped), name="io_ark reader", daemon=True
        )
        self._stop = weakref.finalize(self, _stop, room, stopped)
        self._thread.start()

    def __next__(self) -> Entry:
        if self._ended:
            raise StopIteration
        item = self._items.get()
        if isinstance(item, tuple):
            self._make_room(None)
            return item
        self._ended = True
        if item is not None:
            raise item
        raise StopIteration

    def close(self) -> None:
        """Stop the thread and wait for it."""
        self._ended = True
        self._stop()
        # A thread that waits for a pipe to speak would keep us waiting as long; it ends with the process at the latest.
        self._thread.join(JOIN_SECONDS)
        self._items = SimpleQueue()


def _run(
    entries: Generator[Entry, None, None],
    items: SimpleQueue[Entry | BaseException | None],
    room: SimpleQueue[None],
    stopped: threading.Event,
) -> None:
    end: BaseException | None = None
    try:
        for entry in entries:
            room.get()
            if stopped.is_set():
                break
            items.put(entry)
    except BaseException as error:
        end = error
    entries.close()
    items.put(end)


def _stop(room: SimpleQueue[None], stopped: threading.Event) -> None:
    stopped.set()
    room.put(None)
