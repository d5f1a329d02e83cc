"""Errors of the stand-in for kaldi_native_io. As in kaldi_native_io, they are RuntimeErrors."""

from __future__ import annotations

from io_ark.errors import ArkError


class TableError(ArkError, RuntimeError):
    """Any error of this package. Its cause is the more specific error of :mod:`io_ark.errors`."""


def to_table_error(error: ArkError, key: str | None = None) -> TableError:
    """Convert an error of io_ark to a :class:`TableError`. ``key`` is added if the error has no key."""
    return TableError(error.message, file=error.file, offset=error.offset, key=error.key or key)


class as_table_error:
    """Context manager that converts errors of io_ark to :class:`TableError`, and adds a missing key."""

    __slots__ = ("_key",)

    def __init__(self, key: str | None = None) -> None:
        self._key = key

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, ArkError) and not isinstance(error, TableError):
            raise to_table_error(error, self._key) from error
