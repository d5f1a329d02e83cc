"""Parse lines of a segments file, and cut segments from recordings. Invalid lines are skipped with a warning."""

from __future__ import annotations

import numpy as np

from io_ark import data_dir
from io_ark.blocks import Skip, Wave
from io_ark.data_dir import Segment
from io_ark.errors import FormatError, RangeError
from io_ark.text import split_words
from kaldi_compat.cli.objects import compute_duration
from kaldi_compat.errors import AudioError
from kaldi_compat.options.base import BaseOptions, as_float32
from kaldi_compat.options.config import parse_real
from kaldi_compat.options.declaration import option


def parse_segment(line: str) -> Segment:
    """Parse a line ``<segment> <recording> <start> <end> [<channel>]``, with times in seconds.

    Raise Skip, with Kaldi's warning, if the line is invalid or the segment is empty.
    """
    try:
        return data_dir.parse_segment(line)
    except FormatError as error:
        raise Skip(f"Invalid line in segments file{_describe_mistake(line)}: {line}") from error


def _describe_mistake(line: str) -> str:
    """Return the part of Kaldi's warning that names the mistake in a line, or "" for a wrong number of fields."""
    fields = split_words(line)
    if len(fields) not in (4, 5):
        return ""
    for name, text in (("start", fields[2]), ("end", fields[3])):
        if parse_real(text) is None:
            return f" [bad {name}]"
    if len(fields) == 5 and not (fields[4].isascii() and fields[4].isdigit()):
        return " [bad channel]"
    return " [empty or invalid segment]"


class SegmentOptions(BaseOptions):
    """Options of programs that cut segments from recordings (Kaldi: extract-segments)."""

    min_segment_length: float = option(0.1, "minimum length of a segment in seconds; shorter ones are skipped")
    max_overshoot: float = option(
        0.5, "truncate segments that end at most this long after the audio, in seconds; skip others"
    )


def cut_segment(recording: Wave, segment: Segment, options: SegmentOptions, line: str = "") -> Wave:
    """Cut the audio of a segment, (1, samples), from a recording (see :meth:`io_ark.Segment.cut`).

    Warnings show ``line``, the segment's line in the segments file, or the segment's key if ``line`` is empty.

    Raises:
        Skip: the segment lies outside the recording, is too short, or names a channel that does not exist. The
            exception has Kaldi's warning.
        AudioError: the recording has several channels and the segment does not specify one.
    """
    try:
        return segment.cut(recording, min_length=options.min_segment_length, max_overshoot=options.max_overshoot)
    except RangeError as error:
        raise _make_refusal(recording, segment, options, line) from error


def _make_refusal(recording: Wave, segment: Segment, options: SegmentOptions, line: str) -> Skip | AudioError:
    """Make the exception for a segment that cannot be cut. The checks are in Kaldi's order."""
    num_channels, num_samples = recording.samples.shape
    duration = compute_duration(num_samples, recording.sample_frequency)
    name = line or segment.key
    if segment.start > duration:
        return Skip(f"Segment start is out of file data range [0, {duration:g}s]; skipping segment '{name}'")
    if segment.end > float(np.float32(duration) + np.float32(options.max_overshoot)):  # Kaldi rounds the sum.
        return Skip(f"Segment end is too far out of file data range [0,{duration:g}s]; skipping segment '{name}'")
    end = duration if segment.end == data_dir.TO_THE_END or segment.end > duration else segment.end
    if end - segment.start < as_float32(options.min_segment_length):
        return Skip(f"Segment {segment.key} too short, skipping it.")
    if segment.channel is not None:
        return Skip(f"Invalid channel {segment.channel} >= {num_channels}. Skipping segment {segment.key}")
    return AudioError(
        f"recording {segment.recording} has multiple channels ({num_channels}): you must specify the channel of "
        f"segment {segment.key} in the segments file (fifth field)"
    )
