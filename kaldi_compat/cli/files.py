"""Text files that are no tables, named as Kaldi names files: a path, ``-``, or a command."""

from __future__ import annotations

from collections.abc import Iterator

from io_ark.streams.input import open_input
from io_ark.streams.output import open_output


def text_lines(rxfilename: str) -> Iterator[str]:
    """The lines of a text file, without their ends.

    Raises:
        ArkError: it cannot be opened or read.
    """
    with open_input(rxfilename) as opened:
        while not opened.source.at_end():
            yield bytes(opened.source.read_line()).decode(errors="surrogateescape").rstrip("\n")


def write_text(wxfilename: str, text: str) -> None:
    """Write a text file.

    Raises:
        ArkError: it cannot be opened or written.
    """
    with open_output(wxfilename) as output:
        output.write(text.encode(errors="surrogateescape"))
