"""extract-feature-segments: features of segments, cut from features of whole recordings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import io_ark
from kaldi_compat.cli.files import text_lines
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import Skip, map_lines
from kaldi_compat.cli.objects import Matrix
from kaldi_compat.cli.program import ERROR_STATUS, program
from kaldi_compat.cli.segments import TO_THE_END, Segment, parse_segment
from kaldi_compat.options.base import as_float32, option, require

USAGE = """
Cuts segments out of features. A line of the segments file is
  <segment> <utterance or recording> <start in seconds> <end in seconds>
Ranges in a script file (feats.ark:1234[0:99]) do the same without a copy of the features.

Usage: extract-feature-segments [options] <feats-rspecifier> <segments-file> <feats-wspecifier>
e.g.:  extract-feature-segments scp:feats.scp segments ark:segments.ark
"""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of extract-feature-segments."""

    min_segment_length: float = option(0.1, "shortest segment to write, in seconds")
    frame_length: int = option(25, "frame length in milliseconds")
    frame_shift: int = option(10, "frame shift in milliseconds")
    max_overshoot: float = option(0.0, "cut segments that end less than this after the features, in seconds; else skip")
    snip_edges: bool = option(
        True, "leave out frames at a segment's end that reach beyond it, as if cut from the audio"
    )

    def __post_init__(self) -> None:
        require(self.frame_shift > 0, f"--frame-shift={self.frame_shift}: must be positive")

    def frames(self, seconds: float) -> int:
        """A time as a number of frames, rounded half away from zero."""
        frames = seconds * 1000.0 / self.frame_shift
        return int(math.copysign(math.floor(abs(frames) + 0.5), frames))

    @property
    def snipped(self) -> int:
        """Frames that a segment of audio has less than its length in frame shifts."""
        return math.ceil((self.frame_length - self.frame_shift) / self.frame_shift) if self.snip_edges else 0


@program("extract-feature-segments", USAGE, Options)
def main(options: Options, source: str, segments: str, target: str) -> int:
    """Write each segment."""
    with (
        io_ark.Writer[Matrix]("matrix", target) as writer,
        io_ark.RandomAccessReader[Matrix]("matrix", source) as features,
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
    logger.info("Successfully processed %d lines out of %d in the segments file.", counts.done, counts.total)
    return 0 if counts.done else ERROR_STATUS


def cut(feats: Matrix, segment: Segment, options: Options) -> Matrix:
    """The segment's frames.

    Raises:
        Skip: the segment lies outside the features, or is too short.
    """
    start, end = options.frames(segment.start), options.frames(segment.end) - options.snipped
    if start >= len(feats):
        raise Skip(f"Segment {segment.key} starts at frame {start} of {len(feats)}; skipping it")
    if end > len(feats):
        if end >= len(feats) + options.frames(as_float32(options.max_overshoot)):
            raise Skip(f"Segment {segment.key} ends at frame {end} of {len(feats)}; skipping it")
        end = len(feats)
    if end <= start + options.frames(as_float32(options.min_segment_length)):
        raise Skip(f"Segment {segment.key} too short, skipping it.")
    return feats[start:end]
