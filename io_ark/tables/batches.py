"""Many small entries written at once, which costs less than a call of the codec for each."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from io_ark.codecs import Codec
from io_ark.codecs.batch import Batch
from io_ark.streams.output import Output

logger = logging.getLogger("io_ark")

__all__ = ["Pending", "pending_entries"]

# Entries that wait at most.
_MOST_ENTRIES = 500


def pending_entries(codec: Codec[Any], binary: bool, output: Output) -> Pending | None:
    """Return what gathers entries for an output; None if objects of this kind are written one by one."""
    batch = codec.batch(binary)
    return None if batch is None else Pending(batch, output)


class Pending:
    """Entries that wait to be written together; what waits when this is dropped is written then.

    Args:
        batch: which values it takes, and the bytes of many entries.
        output: where they go.

    Attributes:
        add: takes a key and a value, and returns True; False if the entry has to be written in another way.
        send: hands all that waits to the output.
    """

    def __init__(self, batch: Batch, output: Output) -> None:
        self.add, self.send = _functions(batch, output)

    def __del__(self) -> None:
        try:
            self.send()
        except Exception as error:
            logger.error("%s", error)


def _functions(batch: Batch, output: Output) -> tuple[Callable[[str, Any], bool], Callable[[], None]]:
    """Return ``add`` and ``send``: functions that share local variables, which takes less time than attributes do."""
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
        # Some of the keys that check_key allows, which take less time to tell.
        if type(key) is str and key.isascii() and key.isprintable() and key and " " not in key:
            taken = take(value)
            if taken is not None:
                add_key(key)
                add_value(taken)
                if len(keys) == _MOST_ENTRIES:
                    send()
                return True
        return False

    return add, send
