"""extract-feature-segments: cut segments from the features of whole recordings."""

import math
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from itertools import groupby

from io_ark.blocks import Block, Skip, create_block
from io_ark.data_dir import TO_THE_END, Segment
from io_ark.errors import ArkError
from kaldi_compat.cli.files import read_line_lists
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import Counts
from kaldi_compat.cli.objects import Matrix
from kaldi_compat.cli.program import ERROR_STATUS, program
from kaldi_compat.cli.segments import parse_segment
from kaldi_compat.cli.tables import LookupReader, Tables
from kaldi_compat.options.base import BaseOptions, as_float32
from kaldi_compat.options.declaration import option

USAGE = """
Cuts segments from features. A line of the segments file is
  <segment> <utterance or recording> <start in seconds> <end in seconds>
Ranges in a script file (feats.ark:1234[0:99]) do the same without copying the features.

Usage: extract-feature-segments [options] <feats-rspecifier> <segments-file> <feats-wspecifier>
e.g.:  extract-feature-segments scp:feats.scp segments ark:segments.ark
"""

LINES_PER_BLOCK = 1000  # Maximum number of segments in a block.


class Options(BaseOptions):
    min_segment_length: float = option(0.1, "minimum length of a segment; shorter ones are skipped", unit="seconds")
    frame_length: int = option(25, "frame length", unit="milliseconds")
    frame_shift: int = option(10, "frame shift", unit="milliseconds", gt=0)
    max_overshoot: float = option(
        0.0, "truncate segments that end less than this after the features, in seconds; skip others"
    )
    snip_edges: bool = option(
        True, "leave out frames that reach beyond the segment's end, as if it were cut from the audio"
    )

    def round_to_frames(self, seconds: float) -> int:
        """Convert a time in seconds to a number of frames, rounded half away from zero."""
        frames = seconds * 1000.0 / self.frame_shift
        whole = math.trunc(frames)
        fraction = frames - whole  # Exact, unlike the sum of 0.5 and the largest double below 0.5.
        return whole + (fraction >= 0.5) - (fraction <= -0.5)

    @cached_property
    def snipped_frames(self) -> int:
        """Number of frames at the end of a segment that would extend beyond the segment's audio."""
        return math.ceil((self.frame_length - self.frame_shift) / self.frame_shift) if self.snip_edges else 0

    @cached_property
    def overshoot_frames(self) -> int:
        """Number of frames. A segment that extends beyond the features by at least this number is skipped."""
        return self.round_to_frames(as_float32(self.max_overshoot))

    @cached_property
    def max_short_frames(self) -> int:
        """Number of frames. A segment with at most this number of frames is skipped."""
        return self.round_to_frames(as_float32(self.min_segment_length))


@program("extract-feature-segments", USAGE, Options)
def main(options: Options, source: str, segments: str, target: str) -> int:
    """Write the features of each segment. The exit status is 0 if at least one segment is written, else 255."""
    counts = Counts()
    with Tables() as tables:
        writer, recordings = tables.open_writer("matrix", target), tables.open_lookup("matrix", source)
        finds_many = recordings.can_find_many(source)
        for lines in read_line_lists(segments):
            for group in [lines] if finds_many else group_by_recording(lines):
                for first in range(0, len(group), LINES_PER_BLOCK):
                    for block in cut_segments(group[first : first + LINES_PER_BLOCK], recordings, options, counts):
                        writer.write_block(block)
    logger.info("Successfully processed %d lines out of %d in the segments file. ", counts.done, counts.total)
    return 0 if counts.done else ERROR_STATUS


def group_by_recording(lines: list[str]) -> Iterator[list[str]]:
    """Group consecutive lines of the same recording (second field), so that only one recording is in memory."""
    return (list(part) for _, part in groupby(lines, lambda line: line.split(None, 2)[1:2]))


def cut_segments(
    lines: list[str], recordings: LookupReader[Matrix], options: Options, counts: Counts
) -> Iterator[Block]:
    """Yield one block with the features of the segments of ``lines``. Count segments, and log segments that fail.

    Raises:
        ArkError: a recording cannot be read. The block with the earlier segments is yielded first.
    """
    keys: list[str] = []
    cuts: list[Matrix] = []
    segments = list(map(parse_or_skip, lines))
    features: dict[str, Matrix | None] = {}
    with suppress(ArkError, Skip):  # The segments are then looked up one by one, which raises the error again.
        names = [segment.recording for segment in segments if isinstance(segment, Segment)]
        features = dict(zip(names, recordings.find_values(names), strict=True))
    try:
        for segment in segments:
            try:
                if isinstance(segment, Skip):
                    raise segment
                feats = features[segment.recording] if features else recordings.find_values([segment.recording])[0]
                if feats is None:
                    raise Skip(
                        f"Did not find features for utterance {segment.recording}, skipping segment {segment.key}"
                    )
                cuts.append(cut_frames(feats, segment, options))
                keys.append(segment.key)
            except Skip as reason:
                counts.failed += 1
                logger.warning("%s", reason)
    finally:
        counts.done += len(keys)
        yield create_block(keys, cuts)


def parse_or_skip(line: str) -> Segment | Skip:
    """Parse a segment. For an invalid line, or the end time -1, return the exception with Kaldi's warning."""
    try:
        segment = parse_segment(line)
    except Skip as reason:
        return reason
    if segment.end == TO_THE_END:
        return Skip(f"Invalid line in segments file [empty or invalid segment]: {line}")
    return segment


def cut_frames(feats: Matrix, segment: Segment, options: Options) -> Matrix:
    """Return the frames (frames, dim) of a segment from the features of its recording.

    Raises:
        Skip: the segment lies outside the features, or is too short. The exception has Kaldi's warning.
    """
    start, end = options.round_to_frames(segment.start), options.round_to_frames(segment.end) - options.snipped_frames
    size = f"[length:] {feats.shape[0]}x{feats.shape[1]}"
    if start >= len(feats):
        raise Skip(f"Start sample out of range {start} {size}, skipping segment {segment.key}")
    if end > len(feats):
        if end >= len(feats) + options.overshoot_frames:
            raise Skip(f"End sample too far out of range {end} {size}, skipping segment {segment.key}")
        end = len(feats)
    if end <= start + options.max_short_frames:
        raise Skip(f"Segment {segment.key} too short, skipping it.")
    return feats[start:end]
