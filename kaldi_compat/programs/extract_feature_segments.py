"""extract-feature-segments: cut segments from the features of whole recordings."""

import math
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from itertools import groupby

from io_ark.blocks import Block, Skip, block_of
from io_ark.data_dir import TO_THE_END, Segment
from io_ark.errors import ArkError
from kaldi_compat.cli.files import text_line_lists
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import Counts
from kaldi_compat.cli.objects import Matrix
from kaldi_compat.cli.program import ERROR_STATUS, program
from kaldi_compat.cli.segments import parse_segment
from kaldi_compat.cli.tables import LookupReader, Tables
from kaldi_compat.options.base import BaseOptions, as_float32, option

USAGE = """
Cuts segments from features. A line of the segments file is
  <segment> <utterance or recording> <start in seconds> <end in seconds>
Ranges in a script file (feats.ark:1234[0:99]) do the same without copying the features.

Usage: extract-feature-segments [options] <feats-rspecifier> <segments-file> <feats-wspecifier>
e.g.:  extract-feature-segments scp:feats.scp segments ark:segments.ark
"""

LINES_AT_ONCE = 1000


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

    def frames(self, seconds: float) -> int:
        """Convert a time to a number of frames, rounded half away from zero."""
        frames = seconds * 1000.0 / self.frame_shift
        return int(math.copysign(math.floor(abs(frames) + 0.5), frames))

    @cached_property
    def snipped(self) -> int:
        """Number of frames lost at the end of a segment of audio because they would reach beyond it."""
        return math.ceil((self.frame_length - self.frame_shift) / self.frame_shift) if self.snip_edges else 0

    @cached_property
    def overshoot(self) -> int:
        """Number of frames after the features before which a segment must end to be truncated."""
        return self.frames(as_float32(self.max_overshoot))

    @cached_property
    def least(self) -> int:
        """Number of frames that a segment must exceed."""
        return self.frames(as_float32(self.min_segment_length))


@program("extract-feature-segments", USAGE, Options)
def main(options: Options, source: str, segments: str, target: str) -> int:
    counts = Counts()
    with Tables() as tables:
        writer, recordings = tables.write("matrix", target), tables.lookup("matrix", source)
        many = recordings.finds_many(source)
        for lines in text_line_lists(segments):
            for part in [lines] if many else of_one_recording(lines):
                for first in range(0, len(part), LINES_AT_ONCE):
                    for block in extract(part[first : first + LINES_AT_ONCE], recordings, options, counts):
                        writer.write_block(block)
    logger.info("Successfully processed %d lines out of %d in the segments file. ", counts.done, counts.total)
    return 0 if counts.done else ERROR_STATUS


def of_one_recording(lines: list[str]) -> Iterator[list[str]]:
    """Group consecutive lines of the same recording, so that only one recording is in memory."""
    return (list(part) for _, part in groupby(lines, lambda line: line.split(None, 2)[1:2]))


def extract(lines: list[str], recordings: LookupReader[Matrix], options: Options, counts: Counts) -> Iterator[Block]:
    """Yield the segments of some lines, log warnings of those that cannot be cut, and count both.

    Raises:
        ArkError: a recording cannot be read; after the segments before it.
    """
    keys: list[str] = []
    cuts: list[Matrix] = []
    segments = list(map(parse_or_skip, lines))
    features: dict[str, Matrix | None] = {}
    with suppress(ArkError, Skip):  # The error is raised again at its segment.
        names = [segment.recording for segment in segments if isinstance(segment, Segment)]
        features = dict(zip(names, recordings.find_each(names), strict=True))
    try:
        for segment in segments:
            try:
                if isinstance(segment, Skip):
                    raise segment
                feats = features[segment.recording] if features else recordings.find_each([segment.recording])[0]
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
        yield block_of(keys, cuts)


def parse_or_skip(line: str) -> Segment | Skip:
    """Return the segment of a line, or Kaldi's warning if the line is invalid."""
    try:
        segment = parse_segment(line)
    except Skip as reason:
        return reason
    if segment.end == TO_THE_END:
        return Skip(f"Invalid line in segments file [empty or invalid segment]: {line}")
    return segment


def cut_frames(feats: Matrix, segment: Segment, options: Options) -> Matrix:
    """Return the frames of a segment.

    Raises:
        Skip: the segment lies outside the features, or is too short; with Kaldi's warning.
    """
    start, end = options.frames(segment.start), options.frames(segment.end) - options.snipped
    size = f"[length:] {feats.shape[0]}x{feats.shape[1]}"
    if start >= len(feats):
        raise Skip(f"Start sample out of range {start} {size}, skipping segment {segment.key}")
    if end > len(feats):
        if end >= len(feats) + options.overshoot:
            raise Skip(f"End sample too far out of range {end} {size}, skipping segment {segment.key}")
        end = len(feats)
    if end <= start + options.least:
        raise Skip(f"Segment {segment.key} too short, skipping it.")
    return feats[start:end]
