"""Read keys, and select the lines of a file by their keys."""

from __future__ import annotations

from collections.abc import Callable, Container

from io_ark.data_dir.line_chunks import read_chunks, split_lines
from io_ark.data_dir.line_fields import get_column


def read_keys(*files: str, awk: bool = False) -> list[bytes]:
    """Return the first field of each line of several files, or b"" for a blank line.

    For ``awk``, see :func:`split_fields`.
    """
    return [key for file in files for chunk in read_chunks(file) for key in get_column(chunk, awk=awk)]


def select_lines(
    keys: Container[bytes],
    file: str | int,
    write: Callable[[bytes], object] | None,
    *,
    number: int = 1,
    exclude: bool = False,
    refuse: Callable[[int], object],
) -> tuple[int, int]:
    """Write the lines of a file whose field ``number`` is one of the keys. With ``exclude``, write all other lines.

    Args:
        file: path or file descriptor.
        write: function that receives the selected lines. If None, lines are only counted.
        number: number of the field, counted from 1.
        exclude: True to select the lines whose field is not one of the keys.
        refuse: function that is called with the number of a line that lacks the field, after the preceding lines have
            been written. If the function returns, the later lines of the same chunk are skipped.

    Returns:
        The number of selected lines, and the number of all lines.
    """
    selected_count = line_count = 0
    for chunk in read_chunks(file):
        lines, fields = split_lines(chunk), get_column(chunk, number)
        complete_count = fields.index(b"") if b"" in fields else len(lines)
        pairs = zip(lines[:complete_count], fields, strict=False)
        selected_lines = [line for line, field in pairs if (field in keys) is not exclude]
        if write and selected_lines:
            write(b"".join(selected_lines))
        if complete_count < len(lines):
            refuse(line_count + complete_count + 1)
        selected_count += len(selected_lines)
        line_count += len(lines)
    return selected_count, line_count
