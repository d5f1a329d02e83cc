"""extract-feature-segments: cut segments from the features of whole recordings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import io_ark
from kaldi_compat.cli.files import text_lines
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import LookupReader, Skip, map_lines
from kaldi_compat.cli.objects import Matrix
from kaldi_compat.cli.program import ERROR_STATUS, program
from kaldi_compat.cli.segments import TO_THE_END, Segment, parse_segment
from kaldi_compat.options.base import BaseOptions, as_float32, option

USAGE = """
Cuts segments from features. A line of the segments file is
  <segment> <utterance or recording> <start in seconds> <end in seconds>
Ranges in a script file (feats.ark:1234[0:99]) do the same without copying the features.

Usage: extract-feature-segments [options] <feats-rspecifier> <segments-file> <feats-wspecifier>
e.g.:  extract-feature-segments scp:feats.scp segments ark:segments.ark
"""


@dataclass(frozen=True, kw_only=True)
class Options(BaseOptions):
    """Options of extract-feature-segments."""

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

    @property
    def snipped(self) -> int:
        """Number of frames lost at the end of a segment of audio because they would reach beyond it."""
        return math.ceil((self.frame_length - self.frame_shift) / self.frame_shift) if self.snip_edges else 0


@program("extract-feature-segments", USAGE, Options)
def main(options: Options, source: str, segments: str, target: str) -> int:
    """Write each segment."""
    with (
        io_ark.Writer[Matrix]("matrix", target) as writer,
        LookupReader[Matrix]("matrix", source) as features,
    ):
        recording = lru_cache(maxsize=1)(features.get)  # a recording's segments come one after the other

        def extract(line: str) -> tuple[str, Matrix]:
            segment = parse_segment(line)
            if segment.end == TO_THE_END:
                raise Skip(f"Invalid line in segments file [empty or invalid segment]: {line}")
            feats = recording(segment.recording)
            if feats is None:
                raise Skip(f"Did not find features for utterance {segment.recording}, skipping segment {segment.key}")
            return segment.key, cut(feats, segment, options)

        counts = map_lines(text_lines(segments), writer, extract)
    logger.info("Successfully processed %d lines out of %d in the segments file. ", counts.done, counts.total)
    return 0 if counts.done else ERROR_STATUS


def cut(feats: Matrix, segment: Segment, options: Options) -> Matrix:
    """Return the frames of a segment.

    Raises:
        Skip: the segment lies outside the features, or is too short.
    """
    start, end = options.frames(segment.start), options.frames(segment.end) - options.snipped
    size = f"[length:] {feats.shape[0]}x{feats.shape[1]}"
    if start >= len(feats):
        raise Skip(f"Start sample out of range {start} {size}, skipping segment {segment.key}")
    if end > len(feats):
        if end >= len(feats) + options.frames(as_float32(options.max_overshoot)):
            raise Skip(f"End sample too far out of range {end} {size}, skipping segment {segment.key}")
        end = len(feats)
    if end <= start + options.frames(as_float32(options.min_segment_length)):
        raise Skip(f"Segment {segment.key} too short, skipping it.")
    return feats[start:end]
