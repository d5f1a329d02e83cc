"""Record of the utterances that a data set skips because they cannot be read."""

from __future__ import annotations

import os
import tempfile
import warnings
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Literal, TypeVar

from io_ark.errors import ArkError
from io_ark.text import quote_value
from kaldi_compat.errors import KaldiCompatError, OptionError

OnError = Literal["raise", "skip"]
Value = TypeVar("Value")


class Skipped:
    """Keys of the utterances that the workers of a data set have skipped.

    Args:
        on_error: "raise" raises the error of an utterance; "skip" skips the utterance and warns once.

    Raises:
        OptionError: ``on_error`` has a different value.
    """

    def __init__(self, on_error: OnError) -> None:
        if on_error not in ("raise", "skip"):
            raise OptionError(f"on_error={quote_value(on_error)} must be 'raise' or 'skip'")
        self._file: str | None = None  # File with a line for each skipped key, or None if errors are raised.
        if on_error == "skip":
            # Workers append lines to a file, because forked and spawned processes can share a file, and the keys of
            # an ArchiveDataset are not known in advance.
            handle, self._file = tempfile.mkstemp(prefix="kaldi_compat_skipped_")
            os.close(handle)
            weakref.finalize(self, _remove_file, self._file, os.getpid())

    @property
    def keys(self) -> list[str]:
        """The keys without repetitions, in the order in which they were skipped."""
        if self._file is None:
            return []
        with open(self._file, encoding="utf-8", errors="surrogateescape") as file:
            return list(dict.fromkeys(file.read().split("\n")[:-1]))

    def read_or_skip(self, key: str, make: Callable[[], Value]) -> Value | None:
        """Return the result of ``make``. On ArkError, KaldiCompatError or OSError, call record_skip and return None."""
        try:
            return make()
        except (ArkError, KaldiCompatError, OSError) as error:
            self.record_skip(key, error)
            return None

    def record_skip(self, key: str, error: Exception) -> None:
        """Record ``key`` as skipped and warn of ``error``, once for each key. Raise ``error`` if on_error="raise"."""
        if self._file is None:
            raise error
        if key not in self.keys:
            with open(self._file, "a", encoding="utf-8", errors="surrogateescape") as file:
                file.write(f"{key}\n")
            warnings.warn(f"{key}: skipped, because the utterance cannot be read: {error}", stacklevel=2)


def _remove_file(file: str, owner_id: int) -> None:
    """Remove a file if this process has the ID ``owner_id``, because forked processes also call this function."""
    if os.getpid() == owner_id:
        with suppress(OSError):
            os.remove(file)
