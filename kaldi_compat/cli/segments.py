"""Lines of a segments file in a program: one that cannot be understood is passed over with a warning."""

from __future__ import annotations

from dataclasses import dataclass

from io_ark import data_dir
from io_ark.codecs.wave import Wave
from io_ark.data_dir import TO_THE_END, Segment
from io_ark.errors import FormatError, RangeError
from kaldi_compat.cli.loop import Skip
from kaldi_compat.errors import AudioError
from kaldi_compat.options.base import option

__all__ = ["TO_THE_END", "Segment", "SegmentOptions", "cut", "parse_segment"]


def parse_segment(line: str) -> Segment:
    """Understand ``<segment> <recording> <start> <end> [<channel>]``.

    Raises:
        Skip: the line is something else, or the segment is empty.
    """
    try:
        return data_dir.parse_segment(line)
    except FormatError as error:
        raise Skip(f"Invalid line in segments file: {error}") from error


@dataclass(frozen=True, kw_only=True)
class SegmentOptions:
    """How segments are cut from recordings (Kaldi: extract-segments)."""

    min_segment_length: float = option(0.1, "shortest segment to write, in seconds")
    max_overshoot: float = option(0.5, "cut segments that end no more than this after the audio, in seconds; else skip")


def cut(recording: Wave, segment: Segment, options: SegmentOptions) -> Wave:
    """The segment's audio (see :meth:`io_ark.Segment.cut`).

    Raises:
        Skip: the segment lies outside the recording, is too short, or names a channel that is not there.
        AudioError: the recording has several channels and the segment names none.
    """
    channels = len(recording.samples)
    if segment.channel is None and channels > 1:
        raise AudioError(
            f"recording {segment.recording} has {channels} channels: segment {segment.key} must name one (fifth field)"
        )
    try:
        return segment.cut(recording, min_length=options.min_segment_length, max_overshoot=options.max_overshoot)
    except RangeError as error:
        raise Skip(f"{error}; skipping it") from error
