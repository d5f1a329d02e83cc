"""Write many small entries at once, which is faster than calling the codec for each."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from io_ark.codecs.pack import Pack
from io_ark.streams.output import Output
from io_ark.streams.process import Deletion

# Number of pending keys and values from which on they are written.
_MAX_PENDING = 1000


class Pending:
    """Buffer of entries that are written together. Entries that are left when it is deleted are written then.

    Attributes:
        add: adds a key and a value and returns True, or returns False if the codec has to write the entry. Threads may
            call it without a lock.
        send: writes all pending entries to the output.
    """

    def __init__(self, pack: Pack, output: Output, lock: AbstractContextManager[Any]) -> None:
        self.add, self.send = _functions(pack, output, lock)
        self._output = output

    def __del__(self) -> None:
        if self._output.inherited or self._output.entry.broken:
            return  # the process that opened the output writes the entries; or they were refused
        with Deletion():
            self.send()


def _functions(
    pack: Pack, output: Output, lock: AbstractContextManager[Any]
) -> tuple[Callable[[str, Any], bool], Callable[[], None]]:
    """Return ``add`` and ``send``, which share local variables because attributes would be slower."""
    # Keys and values in turn. One call adds both, so that other threads cannot come in between.
    pending: list[Any] = []
    take, extend = pack.take, pending.extend
    assert take is not None
    limit = _MAX_PENDING

    def send() -> None:
        nonlocal limit
        with lock:
            if output.closed or not pending:
                output.entry.check()
                return  # the writer refuses an entry that is added after it was closed
            with output.entry:
                limit = 0  # stays 0 after a failure, so that the next entry is refused
                entries = pending[:]
                output.write(pack.encode(entries[0::2], entries[1::2]))
                del pending[: len(entries)]  # other threads may have added more
                limit = _MAX_PENDING

    def add(key: str, value: Any) -> bool:
        # A subset of the keys that check_key allows, which is faster to check.
        if type(key) is str and key.isascii() and key.isprintable() and key and " " not in key:
            taken = take(value)
            if taken is not None:
                extend((key, taken))
                if len(pending) >= limit:
                    send()
                return True
        return False

    def refuse() -> None:
        nonlocal limit
        limit = 0

    output.on_give_up = refuse
    return add, send
