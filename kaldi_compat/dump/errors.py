"""What can stop a dump as a whole; what is wrong with one utterance is recorded and stops nothing."""

from __future__ import annotations

from io_ark.errors import ArkError
from kaldi_compat.errors import KaldiCompatError

# What is a matter of files, data or options, and no mistake of the program.
EXPECTED = (KaldiCompatError, ArkError, OSError)


def one_line(error: BaseException) -> str:
    """What is wrong, in one line."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename2 or error.filename}: {error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__


class DumpError(KaldiCompatError):
    """A dump that cannot be started, or cannot go on."""


class PlanError(DumpError):
    """A plan that is not there, cannot be read, or does not fit the data directory or the options any more."""


class OutputError(DumpError):
    """An archive that could not be written, or does not read back as it was written."""


class TooManyFailuresError(DumpError):
    """More utterances failed than ``max_failures`` allows."""


class WorkerError(DumpError):
    """A worker process that died again and again."""


class InternalError(DumpError):
    """Something that should not have happened, told in one line."""


def told(error: BaseException) -> DumpError:
    """What ended the work, as it is to be said."""
    if isinstance(error, DumpError):
        return error
    if isinstance(error, EXPECTED):
        return DumpError(one_line(error))
    if isinstance(error, MemoryError):
        return DumpError(f"out of memory ({one_line(error)}): fewer processes (nj) or window_utterances take less")
    return InternalError(
        f"internal error, please report it with the .log files: {type(error).__name__}: {one_line(error)}"
    )
