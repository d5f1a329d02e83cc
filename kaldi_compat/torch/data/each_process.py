"""Values that each process opens for itself."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

Value = TypeVar("Value")
Arguments = ParamSpec("Arguments")


class InEachProcess(Generic[Value]):
    """Callable that returns a value, such as a reader, which every process opens on first use and never pickles.

    Args:
        open_value: function that opens the value. It must be importable by name for spawned processes.
        arguments: positional arguments of ``open_value``.
        options: keyword arguments of ``open_value``.
    """

    def __init__(
        self, open_value: Callable[Arguments, Value], *arguments: Arguments.args, **options: Arguments.kwargs
    ) -> None:
        self._call = open_value, arguments, options  # The call that opens the value.
        self._opened: tuple[int, Value] | None = None  # Process ID, which changes after a fork, and value.

    def __call__(self) -> Value:
        """Return the value of this process. The first call in the process opens the value."""
        if self._opened is None or self._opened[0] != os.getpid():
            open_value, arguments, options = self._call
            self._opened = os.getpid(), open_value(*arguments, **options)
        return self._opened[1]

    def __getstate__(self) -> dict[str, object]:
        return {"_call": self._call, "_opened": None}
