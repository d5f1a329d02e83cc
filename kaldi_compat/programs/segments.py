"""Lines of a segments file: which stretch of which recording an utterance is."""

from __future__ import annotations

from dataclasses import dataclass

from kaldi_compat.config import parse_integer, parse_real
from kaldi_compat.programs.loop import Skip

TO_THE_END = -1.0


@dataclass(frozen=True)
class Segment:
    """One line.

    Attributes:
        key: the segment's name.
        recording: the key of what it is cut from.
        start: where it starts, in seconds.
        end: where it ends, in seconds; :data:`TO_THE_END` means the recording's end.
        channel: the channel, or None where the line names none.
    """

    key: str
    recording: str
    start: float
    end: float
    channel: int | None


def parse_segment(line: str) -> Segment:
    """Understand ``<segment> <recording> <start> <end> [<channel>]``.

    Raises:
        Skip: the line is something else, or the segment is empty.
    """
    fields = line.split()
    if len(fields) not in (4, 5):
        raise Skip(f"Invalid line in segments file: {line}")
    start, end = parse_real(fields[2]), parse_real(fields[3])
    if start is None:
        raise Skip(f"Invalid line in segments file [bad start]: {line}")
    if end is None:
        raise Skip(f"Invalid line in segments file [bad end]: {line}")
    if not (start >= 0 and (end == TO_THE_END or (end > 0 and start < end))):
        raise Skip(f"Invalid line in segments file [empty or invalid segment]: {line}")
    channel = parse_integer(fields[4]) if len(fields) == 5 else None
    if len(fields) == 5 and (channel is None or channel < 0):
        raise Skip(f"Invalid line in segments file [bad channel]: {line}")
    return Segment(fields[0], fields[1], start, end, channel)
