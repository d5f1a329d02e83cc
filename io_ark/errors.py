"""What can be wrong with an archive, said with file, byte offset and key.

Every error that this package raises on purpose is an :class:`ArkError`, and its text is one line:

>>> str(FormatError("a matrix of -3 rows", file="a.ark", offset=17, key="utt1"))
'a.ark:17: utt1: a matrix of -3 rows'
"""

from __future__ import annotations

from typing import Any


class ArkError(Exception):
    """Base of all errors of this package.

    Attributes:
        message: what is wrong, and where it helps, what to do about it.
        file: the file, pipe or specifier concerned ("" if none).
        offset: the byte in that file (None if it does not matter).
        key: the table key concerned (None if there is none, or not known yet; readers fill it in).
    """

    def __init__(self, message: str, *, file: str = "", offset: int | None = None, key: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.file = file
        self.offset = offset
        self.key = key

    def __str__(self) -> str:
        place = self.file if self.offset is None else f"{self.file}:{self.offset}"
        line = ": ".join(str(part) for part in (place, self.key, self.message) if part)
        return line if line.isprintable() else line.encode("unicode_escape").decode("ascii")

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors cross process borders (DataLoader workers), and the default would lose the keyword arguments.
        return type(self), (self.message,), self.__dict__


class SpecifierError(ArkError, ValueError):
    """An rspecifier, wspecifier, file name or script line that cannot be meant."""


class FormatError(ArkError, ValueError):
    """Bytes that are not what the object or table should look like there."""


class TruncatedError(FormatError):
    """The bytes end in the middle of an object."""


class RangeError(ArkError, IndexError):
    """A range such as ``[0:9]`` that does not lie within its matrix."""


class RangeSyntaxError(SpecifierError, RangeError):
    """Text in brackets after an rxfilename that is not a range. A permissive reader does not skip it either."""


class OpenError(ArkError, OSError):
    """A file or pipe that cannot be opened or read."""


class WriteError(ArkError, OSError):
    """A file or pipe that cannot be written to or closed in order: the output is not complete."""


class ReaderGoneError(WriteError, BrokenPipeError):
    """Nobody reads the pipe any more that the output goes to, as when ``| head`` has seen enough."""


class PipeError(ArkError, OSError):
    """The command of a pipe ended with a failure: what came out of it, or went into it, is not complete."""


class PipesRefusedError(ArkError, PermissionError):
    """A specifier asks for a shell command, and pipes were switched off."""


class MissingKeyError(ArkError, KeyError):
    """A table has no such key."""


class OrderError(ArkError, ValueError):
    """A table, or the calls made to it, are not in the order that the options ``s`` and ``cs`` promised."""


class KeyFormatError(ArkError, ValueError):
    """A key that no table can hold: empty, or with white space or half a surrogate pair in it."""


class ClosedError(ArkError, ValueError):
    """A reader or writer was used after it was closed."""
