"""Write many small entries at once, which is faster than calling the codec for each."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from io_ark.codecs import Codec
from io_ark.codecs.batch import Batch
from io_ark.streams.output import Output

logger = logging.getLogger("io_ark")

__all__ = ["Pending", "pending_entries"]

# Maximum number of pending entries.
_MAX_ENTRIES = 500


def pending_entries(codec: Codec[Any], binary: bool, output: Output) -> Pending | None:
    """Create the buffer of entries for an output; None if objects of this kind are written one by one."""
    batch = codec.batch(binary)
    return None if batch is None else Pending(batch, output)


class Pending:
    """Buffer of entries that are written together. Entries that are left when it is deleted are written then.

    Args:
        batch: encoder of many entries, which accepts some values.
        output: the output to write to.

    Attributes:
        add: adds a key and a value and returns True, or returns False if the codec has to write the entry.
        send: writes all pending entries to the output.
    """

    def __init__(self, batch: Batch, output: Output) -> None:
        self._output = output
        self.add, self.send = _functions(batch, output)

    def __del__(self) -> None:
        if self._output.inherited:
            return  # a forked process: the process that opened the output writes the entries
        try:
            self.send()
        except Exception as error:
            logger.error("%s", error)


def _functions(batch: Batch, output: Output) -> tuple[Callable[[str, Any], bool], Callable[[], None]]:
    """Return ``add`` and ``send``, which share local variables because attributes would be slower."""
    keys: list[str] = []
    values: list[Any] = []
    take, add_key, add_value = batch.take, keys.append, values.append

    def send() -> None:
        if keys:
            data = batch.encode(keys, values)
            keys.clear()
            values.clear()
            output.write(data)

    def add(key: str, value: Any) -> bool:
        # A subset of the keys that check_key allows, which is faster to check.
        if type(key) is str and key.isascii() and key.isprintable() and key and " " not in key:
            taken = take(value)
            if taken is not None:
                add_key(key)
                add_value(taken)
                if len(keys) == _MAX_ENTRIES:
                    send()
                return True
        return False

    return add, send
