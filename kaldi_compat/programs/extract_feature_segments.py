"""extract-feature-segments: cut segments from the features of whole recordings."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

import io_ark
from kaldi_compat.cli.files import text_line_lists, text_lines
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import BlockTable, Collector, Counts, LookupReader, Sink, Skip, finds_many, map_lines
from kaldi_compat.cli.objects import Indices, Matrix
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

Times = npt.NDArray[np.float64]
LINES_AT_ONCE = 1000
PLAIN_TIMES = re.compile("[0-9.]*")


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
        if finds_many(features, source):
            counts = Counts()
            for lines in text_line_lists(segments):
                for first in range(0, len(lines), LINES_AT_ONCE):
                    counts += extract_block(lines[first : first + LINES_AT_ONCE], BlockTable(features), writer, options)
        else:
            recording = lru_cache(maxsize=1)(features.get)  # a recording's segments come one after the other
            counts = map_lines(text_lines(segments), writer, lambda line: extracted(line, recording, options))
    logger.info("Successfully processed %d lines out of %d in the segments file. ", counts.done, counts.total)
    return 0 if counts.done else ERROR_STATUS


def extract_block(lines: list[str], features: BlockTable[Matrix], writer: Sink, options: Options) -> Counts:
    """Write the segments of some lines."""
    block = parse_plain(lines)
    found = None if block is None else features.values(block.recordings)
    rows = None if block is None or found is None else rows_of(block, np.array([len(each) for each in found]), options)
    if block is None or found is None or rows is None:  # there is something to warn of
        return map_lines(lines, writer, lambda line: extracted(line, features.get, options))
    with Collector(writer) as collector:
        for key, feats, (start, end) in zip(block.keys, found, rows.tolist(), strict=True):
            collector[key] = feats[start:end]
    return Counts(done=len(lines))


class PlainLines(NamedTuple):
    """Lines of a segments file.

    Attributes:
        keys, recordings: of each segment.
        times: (segments, 2): starts and ends in seconds.
    """

    keys: Sequence[str]
    recordings: Sequence[str]
    times: Times


def parse_plain(lines: list[str]) -> PlainLines | None:
    """Parse lines of four words whose times have digits and points only; None if one is something else."""
    if not "".join(lines).isprintable():
        return None
    words = [line.split() for line in lines]
    if any(len(each) != 4 for each in words):
        return None
    keys, recordings, starts, ends = zip(*words, strict=True)
    if not PLAIN_TIMES.fullmatch("".join(starts + ends)):
        return None
    try:
        times = np.array([list(map(float, starts)), list(map(float, ends))]).T
    except ValueError:  # such as "1.2.3"
        return None
    return PlainLines(keys, recordings, times) if (times[:, 0] < times[:, 1]).all() else None


def rows_of(block: PlainLines, lengths: Indices, options: Options) -> Indices | None:
    """Return the first and the last row (excluded) of segments as :func:`cut` does, ``(segments, 2)``.

    Args:
        block: the segments.
        lengths: frames of the recording of each segment.
        options: options of the program.

    Returns:
        None if a segment is to be skipped.
    """
    frames = np.floor(block.times * 1000.0 / options.frame_shift + 0.5)
    start, end = frames[:, 0], frames[:, 1] - options.snipped
    overshoot, least = (
        options.frames(as_float32(each)) for each in (options.max_overshoot, options.min_segment_length)
    )
    too_late = (start >= lengths) | ((end > lengths) & (end >= lengths + overshoot))
    end = np.minimum(end, lengths)
    if (too_late | (end <= start + max(least, 0))).any():
        return None
    rows: Indices = np.stack((start, end), axis=1).astype(np.intp)
    return rows


def extracted(line: str, find: Callable[[str], Matrix | None], options: Options) -> tuple[str, Matrix]:
    """Return the key and the frames of the segment of a line.

    Args:
        line: a line of the segments file.
        find: returns the features of a recording, or None.
        options: options of the program.

    Raises:
        Skip: the line is invalid, the recording is missing, or the segment cannot be cut.
    """
    segment = parse_segment(line)
    if segment.end == TO_THE_END:
        raise Skip(f"Invalid line in segments file [empty or invalid segment]: {line}")
    feats = find(segment.recording)
    if feats is None:
        raise Skip(f"Did not find features for utterance {segment.recording}, skipping segment {segment.key}")
    return segment.key, cut(feats, segment, options)


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
