"""Errors of kaldi_native_io's names, which are RuntimeErrors as in kaldi_native_io."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from io_ark.errors import ArkError


class TableError(ArkError, RuntimeError):
    """Any error of this package. Its cause is the more specific error of :mod:`io_ark.errors`."""


@contextmanager
def as_table_error(key: str | None = None) -> Iterator[None]:
    """Turn errors of io_ark into :class:`TableError`, with this key unless they have one."""
    try:
        yield
    except TableError:
        raise
    except ArkError as error:
        raise TableError(error.message, file=error.file, offset=error.offset, key=error.key or key) from error
