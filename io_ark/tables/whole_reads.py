"""Keep readers from taking a failure for the end of a table."""

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
    """A generator and what follows it, which closes as the generator does."""

    close: Callable[[], None]


class WholeReads(Iterator[Any]):
    """Context of all reads of a table: after one that failed or was interrupted, every later one raises an error.

    A generator that an exception has left, such as that of ^C, is at its end. Therefore this is also an iterator to
    chain after a generator that reads in this context: it ends at once, or raises the error.
    """

    def __init__(self, name: str = "") -> None:
        self._name = name
        self._error: ArkError | None = None
        self._is_over = False  # the context was left at the end of the table, or by the user

    def fail(self, error: BaseException | None) -> None:
        """Let every later read raise this error, or one that says that something else came in between."""
        if self._error is None:
            other = OpenError("an earlier read failed or was interrupted: open it again", file=self._name)
            # A copy has no traceback, whose frames hold files and memory.
            self._error = copy(error) if isinstance(error, ArkError) else other

    def check(self) -> None:
        """Raise the error of an earlier read."""
        if self._error is not None:
            raise copy(self._error)

    def after(self, entries: Generator[Item, None, None]) -> Iterator[Item]:
        """Return an iterator over entries, and an error in place of their end if there was one."""
        self._is_over = False
        both = _Entries(entries, self)
        both.close = entries.close
        return both

    def __next__(self) -> Any:
        if not self._is_over:  # interrupted before the context was entered
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
    """Decorate a generator of entries: once an exception has left it, it raises one again instead of ending."""

    @wraps(function)
    def checked(*arguments: Parameters.args, **named: Parameters.kwargs) -> Iterator[Item]:
        reads = WholeReads()

        def entries() -> Generator[Item, None, None]:
            with reads:
                yield from function(*arguments, **named)

        return reads.after(entries())

    return checked
