"""Writing in a thread of its own, so that it overlaps with computing where there is a second core.

What waits between the threads is bounded, so memory does not grow with the length of a table.
"""

from __future__ import annotations

import os
import queue
import threading
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any

from kaldi_compat.programs.loop import Sink

WAITING = 8


def has_second_core() -> bool:
    """Whether this process may use more than one core."""
    return len(os.sched_getaffinity(0)) > 1 if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1) > 1


def behind(writer: Sink) -> AbstractContextManager[Sink]:
    """The same writer, writing in a thread while the next entries are worked on, if there is a second core."""
    return WriteBehind(writer) if has_second_core() else nullcontext(writer)


class WriteBehind:
    """Hands entries to a writer in a thread, in order.

    An error of the writer is raised at the next entry, or at the end; entries after it are not written. Leaving the
    context waits until all that was handed over is written, whether there was an exception or not.
    """

    def __init__(self, writer: Sink) -> None:
        self._writer = writer
        self._queue: queue.Queue[tuple[str, Any] | None] = queue.Queue(WAITING)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="write behind", daemon=True)

    def __setitem__(self, key: str, value: Any, /) -> None:
        self._check()
        self._queue.put((key, value))

    def _work(self) -> None:
        while (entry := self._queue.get()) is not None:
            if self._error is None:
                try:
                    self._writer[entry[0]] = entry[1]
                except BaseException as error:
                    self._error = error

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def __enter__(self) -> WriteBehind:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None) -> None:
        self._queue.put(None)
        self._thread.join()
        if kind is None:
            self._check()
