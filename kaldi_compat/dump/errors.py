"""Errors that stop a dump, and the reasons of failed utterances, which do not stop it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from io_ark.errors import ArkError
from io_ark.extras import format_missing_package
from kaldi_compat.errors import KaldiCompatError

# Errors about files, data or options. Any other error is a bug in the program.
EXPECTED = (KaldiCompatError, ArkError, OSError)


def format_error(error: BaseException) -> str:
    """Format an error as one line: its message, or its class if the message is empty.

    For an OSError that names a file, return the file name and the reason.
    """
    # An error of a rename names two files. The second file is the target, and the first may be a temporary file.
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename2 or error.filename}: {error.strerror}"
    try:
        message = str(error)
    except Exception:  # A user-defined exception may have a faulty __str__.
        message = ""
    return " ".join(message.split()) or type(error).__name__


class DumpError(KaldiCompatError):
    """A dump cannot be started or cannot continue."""


class PlanError(DumpError):
    """A plan is missing or damaged, or no longer matches the data directory or the options."""


class OutputError(DumpError):
    """An archive cannot be written, or reads back with other bytes than were written."""


class UnavailableError(DumpError):
    """A GPU cannot be opened now, for example because another process uses it."""


class LostDeviceError(DumpError):
    """A GPU no longer works in this process."""


def convert_to_user_error(error: BaseException) -> DumpError:
    """Convert an error that ended the job into a DumpError with one line for the user. Keep a DumpError unchanged."""
    if isinstance(error, DumpError):
        return error
    if isinstance(error, ModuleNotFoundError):
        return DumpError(format_missing_package(error.name or "a package"))
    if isinstance(error, EXPECTED):
        return DumpError(format_error(error))
    if isinstance(error, MemoryError):
        message = format_error(error)
        return DumpError(f"out of memory ({message}): use fewer processes (--nj) or a smaller --window-utterances")
    name = type(error).__name__
    return DumpError(f"internal error, please report it with the .log files: {name}: {format_error(error)}")


# Files, offsets and times in the reason of a failure. Reasons that differ only in such details belong to one group.
_PARTICULARS = re.compile(r"\S*/\S*(?: \S*/\S*)*|\S+\.\w{1,5}:(?:[0-9]+:)?|[0-9]+\.[0-9]+")


def group_by_reason(failures: Iterable[tuple[str, str]]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Group failures (key and reason) with similar reasons. The largest groups come first.

    Returns:
        a pair for each group: the common reason, in which an ellipsis replaces files, offsets and times, and the list
        of failures.
    """
    groups = defaultdict[str, list[tuple[str, str]]](list)
    for key, reason in failures:
        groups[_PARTICULARS.sub("…", reason)].append((key, reason))
    return sorted(groups.items(), key=lambda group: -len(group[1]))


def remove_key(key: str, message: str) -> str:
    """Remove the utterance's key, and words such as "for utterance", from a message that is shown after the key.

    "Failed to compute features for utterance utt1: it is empty" becomes "Failed to compute features: it is empty".
    """
    name = re.escape(key)
    message = re.sub(rf"^(?:File with id|File:?|Segment)? ?{name}(?:: | )", "", message)
    return re.sub(rf" (?:\({name}\)|(?:for )?(?:utterance|utterance-id \(or speaker-id\)) {name}(?!\S*/))", "", message)
