"""Errors of kaldi_native_io's names, which are RuntimeErrors as in kaldi_native_io."""

from __future__ import annotations

from io_ark.errors import ArkError


class TableError(ArkError, RuntimeError):
    """Any error of this package. Its cause is the more specific error of :mod:`io_ark.errors`."""


def table_error(error: ArkError, key: str | None = None) -> TableError:
    """Convert an error of io_ark, with this key unless it has one."""
    return TableError(error.message, file=error.file, offset=error.offset, key=error.key or key)


class as_table_error:
    """Context manager that turns errors of io_ark into :class:`TableError`, with this key unless they have one."""

    __slots__ = ("_key",)

    def __init__(self, key: str | None = None) -> None:
        self._key = key

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, ArkError) and not isinstance(error, TableError):
            raise table_error(error, self._key) from error
