"""Errors that stop a dump as a whole. An utterance that fails is recorded and stops nothing."""

from __future__ import annotations

from io_ark.errors import ArkError
from io_ark.extras import not_installed
from kaldi_compat.errors import KaldiCompatError

# Errors about files, data or options. Any other error is a bug in the program.
EXPECTED = (KaldiCompatError, ArkError, OSError)


def one_line(error: BaseException) -> str:
    """Return an error's message in one line."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename2 or error.filename}: {error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__


class DumpError(KaldiCompatError):
    """A dump cannot be started or cannot continue."""


class PlanError(DumpError):
    """A plan is missing or damaged, or no longer matches the data directory or the options."""


class OutputError(DumpError):
    """An archive cannot be written, or does not read back as it was written."""


class UnavailableError(DumpError):
    """A GPU cannot be opened now."""


class LostDeviceError(DumpError):
    """A GPU no longer works in this process."""


def as_user_error(error: BaseException) -> DumpError:
    """Convert an error that ended the job into an error with one line for the user."""
    if isinstance(error, DumpError):
        return error
    if isinstance(error, ModuleNotFoundError):
        return DumpError(not_installed(error.name or "a package"))
    if isinstance(error, EXPECTED):
        return DumpError(one_line(error))
    if isinstance(error, MemoryError):
        return DumpError(f"out of memory ({one_line(error)}): use fewer processes (nj) or a smaller window_utterances")
    return DumpError(f"internal error, please report it with the .log files: {type(error).__name__}: {one_line(error)}")
