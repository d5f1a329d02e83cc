"""Background threads for reading, computing and writing, used if the process has a second core.

The queues between the threads are bounded, so memory does not grow with the length of a table.
"""

from __future__ import annotations

import contextvars
import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from io_ark.codecs.blocks import Block
from kaldi_compat.cli.loop import Sink, write_block

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = [
    "QUEUE_SIZE",
    "ComputeAhead",
    "WriteBehind",
    "compute_in_background",
    "has_second_core",
    "write_in_background",
]

Entry = TypeVar("Entry")
Result = TypeVar("Result")
QUEUE_SIZE = 8
COMPUTING = 2  # entries that are computed at the same time


def has_second_core() -> bool:
    """Return True if this process may use more than one core."""
    return len(os.sched_getaffinity(0)) > 1 if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1) > 1


def write_in_background(writer: Sink) -> AbstractContextManager[Sink]:
    """Return a sink that writes in a background thread if there is a second core; else the writer itself."""
    return WriteBehind(writer) if has_second_core() else nullcontext(writer)


def compute_in_background(
    function: Callable[[Entry], Result], entries: Iterable[Entry]
) -> AbstractContextManager[Iterable[Result]]:
    """Return ``function(entry)`` for each entry, in order, computed in background threads if there is a second core."""
    if has_second_core():
        return ComputeAhead(function, entries)
    return nullcontext(map(function, entries))


class ComputeAhead(Generic[Entry, Result]):
    """Computes results of entries in threads, in order. An error is raised in place of the result that failed.

    The entries are iterated over in a thread of their own, so that they are computed as they arrive.
    """

    def __init__(self, function: Callable[[Entry], Result], entries: Iterable[Entry]) -> None:
        self._function = function
        self._entries = entries
        self._queue: queue.Queue[tuple[Future[Result]] | BaseException | None] = queue.Queue(COMPUTING)
        self._stopped = threading.Event()
        self._context = contextvars.copy_context()
        self._thread = threading.Thread(
            target=self._context.copy().run, args=(self._work,), name="compute ahead", daemon=True
        )

    def _work(self) -> None:
        end: BaseException | None = None
        try:
            from concurrent.futures import ThreadPoolExecutor  # slow to import

            with ThreadPoolExecutor(COMPUTING) as pool:
                for entry in self._entries:
                    self._queue.put((pool.submit(self._context.copy().run, self._function, entry),))
                    if self._stopped.is_set():
                        break
        except BaseException as error:
            end = error
        self._queue.put(end)

    def __iter__(self) -> Iterator[Result]:
        while isinstance(item := self._queue.get(), tuple):
            yield item[0].result()
        self._stopped.set()
        if item is not None:
            raise item

    def __enter__(self) -> ComputeAhead[Entry, Result]:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: TracebackType | None) -> None:
        if not self._stopped.is_set():
            self._stopped.set()
            while isinstance(self._queue.get(), tuple):
                pass
        self._thread.join()


class WriteBehind:
    """Passes entries to a writer in a thread, in order.

    An error of the writer is raised at the next entry, or at the end; later entries are not written. Leaving the
    context waits until all entries are written, with or without an exception.
    """

    def __init__(self, writer: Sink) -> None:
        self._writer = writer
        self._queue: queue.Queue[tuple[str, Any] | Block | None] = queue.Queue(QUEUE_SIZE)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="write behind", daemon=True)

    def __setitem__(self, key: str, value: Any, /) -> None:
        self._check()
        self._queue.put((key, value))

    def write_block(self, block: Block) -> None:
        """Write the entries of a block."""
        self._check()
        self._queue.put(block)

    def _work(self) -> None:
        while (entry := self._queue.get()) is not None:
            if self._error is None:
                try:
                    if isinstance(entry, tuple):
                        self._writer[entry[0]] = entry[1]
                    else:
                        write_block(self._writer, entry)
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
