"""extract-segments: cut segments from recordings."""

from functools import lru_cache

from io_ark.blocks import Block, Skip, create_block
from kaldi_compat.cli.files import read_lines
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import map_lines
from kaldi_compat.cli.program import program
from kaldi_compat.cli.segments import SegmentOptions, cut_segment, parse_segment
from kaldi_compat.cli.tables import Tables

USAGE = """
Cuts segments from audio. A line of the segments file is
  <segment> <recording> <start in seconds> <end in seconds> [<channel, from 0>]
where the end -1 is the end of the recording. Recordings with several channels need the channel.

Usage: extract-segments [options] <wav-rspecifier> <segments-file> <wav-wspecifier>
e.g.:  extract-segments scp:wav.scp segments ark:- | compute-mfcc-feats ark:- ark:mfcc.ark
"""


@program("extract-segments", USAGE, SegmentOptions)
def main(options: SegmentOptions, source: str, segments: str, target: str) -> int:
    """Write the audio of each segment. As in Kaldi, the exit status is 0 even if no segment is written."""
    with Tables() as tables:
        recordings, writer = tables.open_lookup("wave", source), tables.open_writer("wave", target)
        # Consecutive segments of a recording share one look-up. With the option "o", each segment looks it up.
        get_recording = lru_cache(maxsize=0 if recordings.allows_one_lookup else 1)(recordings.get)

        def extract_segment(line: str) -> Block:
            """Return a block with the audio of the segment in ``line``. Raise Skip if the segment cannot be cut."""
            segment = parse_segment(line)
            wave = get_recording(segment.recording)
            if wave is None:
                raise Skip(f"Could not find recording {segment.recording}, skipping segment {segment.key}")
            return create_block([segment.key], [cut_segment(wave, segment, options, line)])

        counts = map_lines(read_lines(segments), writer, extract_segment)
    logger.info("Successfully processed %d lines out of %d in the segments file. ", counts.done, counts.total)
    return 0
