"""Lines of a segments file in a program: one that cannot be understood is passed over with a warning."""

from __future__ import annotations

from io_ark import data_dir
from io_ark.data_dir import TO_THE_END, Segment
from io_ark.errors import FormatError
from kaldi_compat.programs.loop import Skip

__all__ = ["TO_THE_END", "Segment", "parse_segment"]


def parse_segment(line: str) -> Segment:
    """Understand ``<segment> <recording> <start> <end> [<channel>]``.

    Raises:
        Skip: the line is something else, or the segment is empty.
    """
    try:
        return data_dir.parse_segment(line)
    except FormatError as error:
        raise Skip(f"Invalid line in segments file: {error}") from error
