"""Times in ``segments``. A segment that ends at -1 lasts to the end of its recording."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

from io_ark.data_dir.awk_numbers import is_above, is_number, parse_column
from io_ark.data_dir.line_chunks import number_chunks, read_chunks
from io_ark.data_dir.line_fields import get_column
from io_ark.data_dir.stage import DataDirError

TO_THE_END = -1.0


def is_to_the_end(end: bytes) -> bool:
    """Return True for an end time of -1 (the end of the recording) in any notation that extract-segments reads."""
    return end[:1] == b"-" and is_number(end) and float(end) == TO_THE_END


def is_interval(start: bytes, end: bytes) -> bool:
    """Return True if a segment's end is above its start, as awk compares them, or if the end is -1 and the start 0 or later."""
    return is_number(start) and float(start) >= 0 if is_to_the_end(end) else is_above(end, start)


def compute_segment_durations(
    segments: str, measure: Callable[[set[bytes]], Mapping[bytes, float]]
) -> Iterator[tuple[bytes, list[float]]]:
    """Yield each chunk of the file ``segments`` with a list of the durations of its lines in seconds.

    Args:
        measure: function that takes the names of recordings and maps them to their durations in seconds. It is
            called once, and only if a segment lasts to the end of its recording.

    Raise DataDirError if a segment lasts to the end of a recording that has no duration, or that ends before or at the
    segment's start.
    """
    names = {name for chunk in read_chunks(segments) for _, name in _find_open_ends(chunk)}
    durations = measure(names) if names else {}
    for lines_before, chunk in number_chunks(read_chunks(segments)):
        starts, ends = parse_column(chunk, 3), parse_column(chunk, 4)
        for index, name in _find_open_ends(chunk):
            ends[index] = durations.get(name, math.nan)
            if not ends[index] > starts[index]:
                keys = get_column(chunk, awk=True)
                problem = f"starts at {starts[index]:g} s, but the recording has {ends[index]:g} s: correct the line"
                if name not in durations:
                    problem = "ends at -1, but the recording has no duration: add the recording to wav.scp"
                raise DataDirError(problem, segments, lines_before + index + 1, keys[index])
        yield chunk, list(map(float.__sub__, ends, starts))


def find_open_ended_segments(segments: str) -> set[bytes]:
    """Return the keys of the lines of the file ``segments`` whose segments last to the end of their recordings."""
    keys_to_the_end: set[bytes] = set()
    for chunk in read_chunks(segments):
        keys = get_column(chunk, awk=True)
        keys_to_the_end.update(keys[index] for index, _ in _find_open_ends(chunk))
    return keys_to_the_end


def _find_open_ends(chunk: bytes) -> list[tuple[int, bytes]]:
    """Return the index and the recording of each line of a chunk whose segment lasts to the end of the recording."""
    if b" -" not in chunk and b"\t-" not in chunk:
        return []
    ends, names = get_column(chunk, 4, awk=True), get_column(chunk, 2, awk=True)
    return [(index, names[index]) for index, end in enumerate(ends) if is_to_the_end(end)]
