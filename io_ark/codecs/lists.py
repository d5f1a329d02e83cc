"""Text files of models and data directories that are not tables: configuration files, symbol tables, lists."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.codecs.base import INTEGER, Codec, Sink, as_int32, quote
from io_ark.codecs.pack import Pack
from io_ark.codecs.tokens import decode_token, encode_token
from io_ark.errors import FormatError
from io_ark.streams.source import Source
from io_ark.text import quote_value

_MAX_LABEL_CHARACTERS = 20  # Labels are integers of 64 bits. The smallest label has a sign and 19 digits.
_LABELS = range(-(1 << 63), 1 << 63)


def _parse_integer(source: Source, line_number: int, words: list[bytes], index: int, word_count: int) -> int:
    """Parse the integer ``words[index]`` of a line.

    Raise FormatError if this word is not an integer of 64 bits, or if the line does not have ``word_count`` words.
    """
    is_short = len(words) == word_count and len(words[index]) <= _MAX_LABEL_CHARACTERS
    number = int(words[index]) if is_short and INTEGER.fullmatch(words[index]) else None
    if number is None or number not in _LABELS:
        expected = "an integer" if word_count == 1 else "a symbol and its integer"
        source.fail(f"line {line_number}: expected {expected}, found {quote(b' '.join(words))}")
    return number


def _convert_label(value: Any) -> int:
    """Convert a label to a Python integer. Raise FormatError for a value that is not an integer of 64 bits."""
    try:
        number = operator.index(value)
    except TypeError as error:
        raise FormatError(f"expected an integer, not {quote_value(value)}") from error
    if number not in _LABELS:
        raise FormatError("a label does not fit into 64 bits: use integers from -2**63 to 2**63 - 1")
    return number


_NOT_IN_ARCHIVE = "a whole file and cannot be in an archive"


class LinesCodec(Codec[Any]):
    """Codec of text files as a list with the words of each line. Empty lines are dropped."""

    marker = b""

    def create_pack(self, binary: bool) -> Pack:
        raise FormatError(f"a value of the kind {self.kind!r} is {_NOT_IN_ARCHIVE}: write it with io_ark.save")

    def read(self, source: Source) -> Any:
        if source.tell():
            source.fail(f"a value of the kind {self.kind!r} is {_NOT_IN_ARCHIVE}: use its file name")
        lines = enumerate(source.read_text().split(b"\n"), 1)
        return self._convert_lines(source, [(number, words) for number, line in lines if (words := line.split())])

    def _convert_lines(self, source: Source, lines: list[tuple[int, list[bytes]]]) -> Any:
        """Return the value of a file. ``lines`` holds the number (from 1) and the words of each nonempty line."""
        return [[decode_token(word) for word in words] for _, words in lines]

    def write_body(self, sink: Sink, value: Any, binary: bool) -> None:
        if isinstance(value, str) or any(isinstance(words, str) for words in value):
            raise FormatError("expected a list of lists of words, such as [['a', 'b'], ['c']]")
        sink.write(b"".join([b" ".join([encode_token(word) for word in words]) + b"\n" for words in value]))


class IntLinesCodec(LinesCodec):
    """Codec of text files with an integer on each line, such as ``disambig.int``, as an int32 array."""

    def _convert_lines(self, source: Source, lines: list[tuple[int, list[bytes]]]) -> npt.NDArray[np.int32]:
        numbers = [_parse_integer(source, line, words, index=0, word_count=1) for line, words in lines]
        values = np.array(numbers, np.int64)
        if (values != values.astype(np.int32)).any():
            source.fail("an integer of the file does not fit into 32 bits: read the file as kind='lines'")
        return values.astype(np.int32)

    def write_body(self, sink: Sink, value: Any, binary: bool) -> None:
        sink.write(b"".join([b"%d\n" % as_int32(number) for number in value]))


class SymbolTableCodec(LinesCodec):
    """Codec of symbol tables, such as ``words.txt``, as a dictionary from symbols to integers."""

    def _convert_lines(self, source: Source, lines: list[tuple[int, list[bytes]]]) -> dict[str, int]:
        table: dict[str, int] = {}
        for line_number, words in lines:
            label = _parse_integer(source, line_number, words, index=1, word_count=2)
            if table.setdefault(symbol := decode_token(words[0]), label) != label:
                problem = f"line {line_number}: the symbol {symbol!r} has two integers"
                source.fail(f"{problem}: read the file as kind='lines'")
        return table

    def write_body(self, sink: Sink, value: Any, binary: bool) -> None:
        lines = [b"%s %d\n" % (encode_token(symbol), _convert_label(label)) for symbol, label in value.items()]
        sink.write(b"".join(lines))


class ConfigCodec(LinesCodec):
    """Codec of configuration files as a dictionary from options to values. An option without a value has the value "".

    As in Kaldi, comments are dropped, names are converted to lower case with ``-`` for ``_``, and the last value of a
    repeated option is used.
    """

    def _convert_lines(self, source: Source, lines: list[tuple[int, list[bytes]]]) -> dict[str, str]:
        options: dict[str, str] = {}
        for line_number, words in lines:
            line = decode_token(b" ".join(words).partition(b"#")[0].strip())
            name, _, value = line.removeprefix("--").partition("=")
            if line.startswith("--") and name:
                options[name.replace("_", "-").lower()] = value
            elif line:
                source.fail(f"line {line_number}: expected --name=value, found {quote(line.encode(errors='replace'))}")
        return options

    def write_body(self, sink: Sink, value: Any, binary: bool) -> None:
        lines = [f"--{name}={text}" if text else f"--{name}" for name, text in value.items()]
        if any(set("\n#") & set(line) for line in lines) or not all(isinstance(text, str) for text in value.values()):
            raise FormatError("names and values of options must be strings without line breaks or '#'")
        sink.write("".join([line + "\n" for line in lines]).encode("utf-8", "surrogateescape"))
