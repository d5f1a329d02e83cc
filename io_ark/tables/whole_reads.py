"""Prevent readers from mistaking a failure for the end of a table."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from copy import copy
from functools import wraps
from itertools import chain
from typing import Any, ParamSpec, TypeVar

from io_ark.errors import ArkError, OpenError

Item = TypeVar("Item")
Parameters = ParamSpec("Parameters")


class _Entries(chain[Item]):
    """A generator chained with another iterator. Closing it closes the generator."""

    close: Callable[[], None]


class WholeReads(Iterator[Any]):
    """Context of all reads of a table. After a read fails or is interrupted, every later read raises an error.

    A generator is at its end once an exception such as ^C has left it. This class is therefore also an iterator, which
    :meth:`after` chains to a generator that reads in this context. It ends at once, or raises the error.
    """

    def __init__(self, name: str = "") -> None:
        self._name = name
        self._error: ArkError | None = None
        self._is_over = False  # True after the end of the table, or after the user has stopped reading.

    def fail(self, error: BaseException | None) -> None:
        """Let every later read raise this error, or an OpenError if the read was interrupted."""
        if self._error is None:
            interrupted = OpenError("an earlier read failed or was interrupted: open it again", file=self._name)
            # A copy has no traceback, whose frames would keep files and memory alive.
            self._error = copy(error) if isinstance(error, ArkError) else interrupted

    def check(self) -> None:
        """Raise the error of an earlier read."""
        if self._error is not None:
            raise copy(self._error)

    def after(self, entries: Generator[Item, None, None]) -> Iterator[Item]:
        """Return an iterator over entries that raises the error of an earlier read instead of ending."""
        self._is_over = False
        both = _Entries(entries, self)
        both.close = entries.close
        return both

    def __next__(self) -> Any:
        if not self._is_over:  # The read was interrupted before it entered the context.
            self.fail(None)
        self.check()
        raise StopIteration

    def __enter__(self) -> None:
        self._is_over = False
        self.check()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if kind is None or kind is GeneratorExit:
            self._is_over = True
        else:
            self.fail(error)


def raises_again(function: Callable[Parameters, Iterator[Item]]) -> Callable[Parameters, Iterator[Item]]:
    """Decorate a generator of entries, so that it raises an error again instead of ending after an exception."""

    @wraps(function)
    def checked(*arguments: Parameters.args, **named: Parameters.kwargs) -> Iterator[Item]:
        reads = WholeReads()

        def entries() -> Generator[Item, None, None]:
            with reads:
                yield from function(*arguments, **named)

        return reads.after(entries())

    return checked
