"""Words with times, from the CTM files of Kaldi's ``steps/get_train_ctm.sh``."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from os import PathLike
from typing import NamedTuple

from io_ark.errors import FormatError
from io_ark.specifier import decode_file_name
from io_ark.streams import Access, open_input


class Word(NamedTuple):
    """Word of an utterance.

    Attributes:
        word: the word.
        start: start of the word in seconds, from the start of the utterance.
        duration: duration of the word in seconds.
        confidence: confidence of the word; None if the file has none.
    """

    word: str
    start: float
    duration: float
    confidence: float | None = None


class Ctm(Mapping[str, tuple[Word, ...]]):
    """Mapping from the key of an utterance to the words of the utterance, read from a CTM file.

    The lines of the file are ``<utterance> <channel> <start> <duration> <word> [<confidence>]``. The channel is
    ignored. Lines that start with ``;;`` are comments. A line is parsed when its utterance is accessed.

    Args:
        file: path of the file, or a command whose output is the file.
        access: permission to run commands and open URLs. By default, both are allowed.

    Raises:
        ArkError: the file cannot be read; on access, a line of the utterance is invalid.
    """

    def __init__(self, file: str | PathLike[str], access: Access | None = None) -> None:
        self._lines: defaultdict[str, bytearray] = defaultdict(bytearray)
        with open_input(decode_file_name(file), access=access) as opened:
            self.name = opened.source.name
            for line in filter(bytes.strip, opened.source.read_text().splitlines()):
                key, *fields = line.split(None, 1)  # A line without fields after the key fails when it is parsed.
                if not key.startswith(b";;"):
                    self._lines[key.decode("utf-8", "surrogateescape")] += b"".join(fields) + b"\n"
            opened.finish()

    def __getitem__(self, key: str) -> tuple[Word, ...]:
        if key not in self._lines:
            raise KeyError(key)
        return tuple(self._parse_word(key, line) for line in self._lines[key].splitlines())

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)

    def _parse_word(self, key: str, line: bytearray) -> Word:
        """Parse a line of the utterance ``key``, without its key. Raise FormatError for an invalid line."""
        columns = line.decode("utf-8", "surrogateescape")
        try:
            _, start, duration, word, *confidence = columns.split()
            parsed = Word(word, float(start), float(duration), *map(float, confidence))
            if 0 <= parsed.duration < math.inf and math.isfinite(parsed.start):
                return parsed
        except (ValueError, TypeError):
            pass
        raise FormatError(
            f"expected <channel> <start> <duration> <word> [<confidence>] after the key, found {columns!r}",
            file=self.name,
            key=key,
        )
