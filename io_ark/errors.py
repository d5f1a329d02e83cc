"""Errors of this package, which name a file, a byte offset and a key.

Every error that this package raises on purpose is an :class:`ArkError`, and its text is one line:

>>> from io_ark.errors import FormatError
>>> str(FormatError("invalid size of a matrix: -3 rows", file="a.ark", offset=17, key="utt1"))
'a.ark:17: utt1: invalid size of a matrix: -3 rows'
"""

from __future__ import annotations

import re
from typing import Any

from io_ark.text import shorten

__all__ = [
    "ArkError",
    "ClosedError",
    "FormatError",
    "KeyFormatError",
    "MissingFileError",
    "MissingKeyError",
    "NetworkRefusedError",
    "OpenError",
    "OrderError",
    "PipeError",
    "PipesRefusedError",
    "RangeError",
    "RangeSyntaxError",
    "ReaderGoneError",
    "SpecifierError",
    "TruncatedError",
    "WriteError",
]


# Readers log these texts of Kaldi's warnings, so that scripts that search logs find them.
READ_FAILED = "Object read failed, reading archive"
LOAD_FAILED = "Failed to load object from"
INVALID_LINE = "We got an invalid line in the scp file."

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)([^/\s?#'\"]*@)?([^\s?#'\"]*)([?#][^\s'\"]*)?")


def hide_secrets(text: str) -> str:
    """Replace the possibly secret parts of URLs in a string (user, password, query and fragment) with ``***``."""
    if "://" not in text:
        return text
    # The groups of _URL are the scheme, the user and password, the host and path, and the query and fragment.
    return _URL.sub(lambda url: f"{url[1]}{'***@' if url[2] else ''}{url[3]}{'?***' if url[4] else ''}", text)


class ArkError(Exception):
    """Base class of all errors of this package.

    Attributes:
        message: the problem, and how to solve it.
        file: the file, pipe or specifier, or "" if unknown.
        offset: the byte offset in that file, or None if unknown.
        key: the key in the table, or None if unknown. Readers of tables set this attribute.
    """

    def __init__(self, message: str, *, file: str = "", offset: int | None = None, key: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.file = file
        self.offset = offset
        self.key = key

    def __str__(self) -> str:
        """Return one line with the file and offset, the key and the message. Secrets in URLs are hidden."""
        location = self.file if self.offset is None else f"{self.file}:{self.offset}"
        line = shorten(hide_secrets(": ".join(str(part) for part in (location, self.key, self.message) if part)))
        if line.isprintable():
            return line
        return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in line)

    def __reduce__(self) -> tuple[Any, ...]:
        # DataLoader workers pickle errors. The default method would lose the keyword arguments.
        return type(self), (self.message,), self.__dict__


def format_warning(error: ArkError, warning: str = LOAD_FAILED) -> str:
    """Return one line with ``warning``, or for an OpenError Kaldi's "Failed to open file", followed by the error."""
    return f"{'Failed to open file' if isinstance(error, OpenError) else warning} {error}"


class SpecifierError(ArkError, ValueError):
    """An invalid rspecifier, wspecifier, file name or argument."""


class FormatError(ArkError, ValueError):
    """Invalid bytes for the object or table, or a value that cannot be written as the kind."""


class TruncatedError(FormatError):
    """The data ends in the middle of an object."""


class RangeError(ArkError, IndexError):
    """A range such as ``[0:9]`` that is outside its matrix."""


class RangeSyntaxError(SpecifierError, RangeError):
    """Text in brackets after an rxfilename that is not a range. A permissive reader does not skip it either."""


class OpenError(ArkError, OSError):
    """A file or pipe that cannot be opened or read."""


class MissingFileError(OpenError, FileNotFoundError):
    """A file that does not exist."""


class WriteError(ArkError, OSError):
    """A file or pipe that cannot be written to or closed, so the output is incomplete."""


class ReaderGoneError(WriteError, BrokenPipeError):
    """The reader of an output pipe has closed it, as ``| head`` does after some lines."""


class PipeError(ArkError, OSError):
    """The command of a pipe failed, so its output or input is incomplete."""


class PipesRefusedError(ArkError, PermissionError):
    """A specifier names a shell command, and pipes are disabled."""


class NetworkRefusedError(ArkError, PermissionError):
    """A name is a URL, and the network is disabled."""


class MissingKeyError(ArkError, KeyError):
    """The key is not in the table."""


class OrderError(ArkError, ValueError):
    """A table has a duplicate key, or the table or the calls violate the options ``s`` and ``cs``."""


class KeyFormatError(ArkError, ValueError):
    """A key that is empty or contains white space, a control character or an unpaired surrogate."""


class ClosedError(ArkError, ValueError):
    """A reader or writer was used after it was closed, or in a process forked after it was opened."""
