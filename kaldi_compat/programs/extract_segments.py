"""extract-segments: cut segments from recordings."""

from __future__ import annotations

from functools import lru_cache

import io_ark
from io_ark.codecs.wave import Wave
from kaldi_compat.cli.files import text_lines
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import LookupReader, Skip, map_lines
from kaldi_compat.cli.program import program
from kaldi_compat.cli.segments import SegmentOptions, cut, parse_segment

USAGE = """
Cuts segments from audio. A line of the segments file is
  <segment> <recording> <start in seconds> <end in seconds> [<channel, from 0>]
where the end -1 is the end of the recording. Recordings with several channels need the channel.

Usage: extract-segments [options] <wav-rspecifier> <segments-file> <wav-wspecifier>
e.g.:  extract-segments scp:wav.scp segments ark:- | compute-mfcc-feats ark:- ark:mfcc.ark
"""


@program("extract-segments", USAGE, SegmentOptions)
def main(options: SegmentOptions, source: str, segments: str, target: str) -> int:
    """Write each segment. As in Kaldi, the status is 0 even if there is none."""
    with (
        LookupReader[Wave]("wave", source) as recordings,
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
    logger.info("Successfully processed %d lines out of %d in the segments file. ", counts.done, counts.total)
    return 0
