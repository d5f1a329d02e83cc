"""Errors of kaldi_native_io's names, which are RuntimeErrors as in kaldi_native_io."""

from __future__ import annotations

from io_ark.errors import ArkError


class TableError(ArkError, RuntimeError):
    """Any error of this package. Its cause is the more specific error of :mod:`io_ark.errors`."""


class as_table_error:
    """Context manager that turns errors of io_ark into :class:`TableError`, with this key unless they have one."""

    __slots__ = ("_key",)

    def __init__(self, key: str | None = None) -> None:
        self._key = key

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, ArkError) and not isinstance(error, TableError):
            key = error.key or self._key
            raise TableError(error.message, file=error.file, offset=error.offset, key=key) from error
