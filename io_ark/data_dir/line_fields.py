"""Split lines into fields like the programs that Kaldi's scripts call.

Perl and Python split a line at any ASCII white space. With ``awk=True``, a line is split only at blanks and tabs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from io_ark.data_dir.line_chunks import number_chunks, read_chunks, split_lines

_NEWLINES_TO_BLANKS = bytes(range(256)).replace(b"\n", b" ")
_NOT_SPLIT_BY_AWK = (b"\r", b"\v", b"\f")


def split_fields(line: bytes, *, awk: bool = False) -> list[bytes]:
    """Split a line into its fields at ASCII white space, or with ``awk`` only at spaces, tabs and newlines."""
    if awk and (b"\r" in line or b"\v" in line or b"\f" in line):
        return [field for field in re.split(rb"[ \t\n]+", line) if field]
    return line.split()


def split_script_line(line: bytes) -> list[bytes]:
    """Split a line of a script file into its key and either the words of a command or the whole file name.

    A command with quotes or backslashes is not split, because spaces within quotes matter.
    """
    if line.rstrip().endswith(b"|") and not re.search(rb"[\"'\\]", line):
        return line.split()
    return line.strip().split(None, 1)


def get_field(line: bytes, number: int = 1, *, awk: bool = False) -> bytes:
    """Return field ``number`` of a line, counted from 1, or b"" for a shorter line.

    For ``awk``, see :func:`split_fields`.
    """
    fields = split_fields(line, awk=awk) if awk else line.split(None, number)
    return fields[number - 1] if len(fields) >= number else b""


def get_column(chunk: bytes, number: int = 1, *, awk: bool = False) -> list[bytes]:
    """Return field ``number``, counted from 1, of each line of a chunk, or b"" for a shorter line (see :func:`get_field`)."""
    lines = split_lines(chunk)
    awk = awk and any(space in chunk for space in _NOT_SPLIT_BY_AWK)
    if not awk:
        try:
            if number == 1:
                return [line.split(None, 1)[0] for line in lines]
            return [line.split(None, number)[number - 1] for line in lines]
        except IndexError:  # A line lacks the field, which get_field accepts.
            pass
    return [get_field(line, number, awk=awk) for line in lines]


def has_single_spaces(chunk: bytes) -> bool:
    """Return True if the fields of all lines are separated by single spaces, without leading or trailing spaces.

    Return False if a line is blank or has white space other than spaces, or if the last line has no newline.
    """
    return (
        not any(space in chunk for space in (b"\t", *_NOT_SPLIT_BY_AWK))
        and chunk.endswith(b"\n")
        and chunk[:1] not in b" \n"
        and b"  " not in chunk.translate(_NEWLINES_TO_BLANKS)
    )


def sort_unique_values(file: str, number: int, *, awk: bool) -> list[bytes]:
    """Return, in byte order, the distinct values of field ``number``, counted from 1.

    Lines without this field have b"".
    """
    values: set[bytes] = set()
    for chunk in read_chunks(file):
        values.update(get_column(chunk, number, awk=awk))
    return sorted(values)


def require_two_fields(chunks: Iterable[bytes], refuse: Callable[[int, bytes], object]) -> Iterator[bytes]:
    """Yield chunks unchanged. Call ``refuse`` with the number and the bytes of each line without exactly two fields."""
    for lines_before, chunk in number_chunks(chunks):
        for line_number, line in enumerate(split_lines(chunk), lines_before + 1):
            if len(line.split()) != 2:
                refuse(line_number, line)
        yield chunk
