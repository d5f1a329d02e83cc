"""extract-segments: utterances cut from recordings, as a segments file says."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import io_ark
from io_ark.codecs.wave import Wave
from io_ark.errors import RangeError
from kaldi_compat.errors import AudioError
from kaldi_compat.options import option
from kaldi_compat.programs.files import text_lines
from kaldi_compat.programs.log import logger
from kaldi_compat.programs.loop import Skip, map_lines
from kaldi_compat.programs.program import program
from kaldi_compat.programs.segments import Segment, parse_segment

USAGE = """
Cuts segments out of audio. A line of the segments file is
  <segment> <recording> <start in seconds> <end in seconds> [<channel, from 0>]
where the end -1 is the recording's end, and the channel is needed if the recording has more than one.

Usage: extract-segments [options] <wav-rspecifier> <segments-file> <wav-wspecifier>
e.g.:  extract-segments scp:wav.scp segments ark:- | compute-mfcc-feats ark:- ark:mfcc.ark
"""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of extract-segments."""

    min_segment_length: float = option(0.1, "shortest segment to write, in seconds")
    max_overshoot: float = option(0.5, "cut segments that end no more than this after the audio, in seconds; else skip")


@program("extract-segments", USAGE, Options)
def main(options: Options, source: str, segments: str, target: str) -> int:
    """Write each segment; success even if there is none, as in Kaldi."""
    with (
        io_ark.RandomAccessReader[Wave]("wave", source) as recordings,
        io_ark.Writer[Wave]("wave", target) as writer,
    ):
        recording = lru_cache(maxsize=1)(recordings.get)  # a recording's segments come one after the other

        def extract(line: str) -> tuple[str, Wave]:
            segment = parse_segment(line)
            wave = recording(segment.recording)
            if wave is None:
                raise Skip(f"Could not find recording {segment.recording}, skipping segment {segment.key}")
            return segment.key, cut(wave, segment, options)

        counts = map_lines(text_lines(segments), writer, extract)
    logger.info("Successfully processed %d lines out of %d in the segments file.", counts.done, counts.total)
    return 0


def cut(recording: Wave, segment: Segment, options: Options) -> Wave:
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
