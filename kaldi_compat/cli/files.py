"""Text files that are not tables. Names are as in Kaldi: a path, ``-``, or a command."""

from __future__ import annotations

from collections.abc import Iterator

from io_ark.streams.input import open_input
from io_ark.streams.output import open_output

__all__ = ["printable_rxfilename", "printable_wxfilename", "text_line_lists", "text_lines", "write_text"]


def text_lines(rxfilename: str) -> Iterator[str]:
    """Yield the lines of a text file without their line ends.

    Raises:
        ArkError: the file cannot be opened or read.
    """
    for lines in text_line_lists(rxfilename):
        yield from lines


def text_line_lists(rxfilename: str) -> Iterator[list[str]]:
    """Yield the lines of a text file, as :func:`text_lines` does, in lists of lines that arrive together.

    Raises:
        ArkError: the file cannot be opened or read.
    """
    with open_input(rxfilename) as opened:
        for lines in opened.source.read_line_lists():
            yield b"\n".join(lines).decode(errors="surrogateescape").split("\n")


def printable_rxfilename(rxfilename: str) -> str:
    """Return the name as Kaldi logs it."""
    return "standard input" if rxfilename in ("", "-") else rxfilename


def printable_wxfilename(wxfilename: str) -> str:
    """Return the name as Kaldi logs it."""
    return "standard output" if wxfilename in ("", "-") else wxfilename


def write_text(wxfilename: str, text: str) -> None:
    """Write a text file.

    Raises:
        ArkError: the file cannot be opened or written.
    """
    with open_output(wxfilename) as output:
        output.write(text.encode(errors="surrogateescape"))
