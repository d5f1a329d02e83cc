"""interpolate-pitch: fill gaps in (probability of voicing, pitch)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import io_ark
from io_ark.codecs.blocks import ArrayBlock
from kaldi_compat import native
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import Counts, Skip, convert_table
from kaldi_compat.cli.objects import Matrix
from kaldi_compat.cli.program import program
from kaldi_compat.errors import FeatureError
from kaldi_compat.exact.rand import KaldiRandom
from kaldi_compat.options.pitch import InterpolatePitchOptions
from kaldi_compat.pitch.interpolate import (
    InterpolationCounts,
    check_track,
    interpolate_linearly,
    interpolate_ragged,
    interpolate_smoothly,
    interpolate_tracks,
    is_supported,
)

USAGE = """
Fills gaps in (probability of voicing, pitch), where the pitch is 0: with a model of pitch movement, which also smooths
the pitch, or with straight lines (--linear-interpolation).

Usage: interpolate-pitch [options] <feats-rspecifier> <feats-wspecifier>
e.g.:  interpolate-pitch ark:pitch.ark ark:- | process-pitch-feats ark:- ark:feats.ark
"""


@program("interpolate-pitch", USAGE, InterpolatePitchOptions)
def main(options: InterpolatePitchOptions, source: str, target: str) -> int:
    """Interpolate a table of pitch tracks."""
    frames = InterpolationCounts()
    random = KaldiRandom()

    def interpolate(key: str, track: Matrix) -> Matrix:
        if len(track) == 0:
            raise Skip(f"Feature file has bad size {track.shape[0]} by {track.shape[1]}")
        if options.linear_interpolation:
            return interpolate_linearly(track)
        return interpolate_smoothly(track, options, random, frames)

    def interpolate_block(block: ArrayBlock) -> ArrayBlock | None:
        tracks = block.matrix()
        if options.linear_interpolation or tracks is None or not is_supported(tracks, options):
            return None
        return block.with_rows(interpolate_ragged(tracks, block.rows(), options, random, frames))

    if native.library() or options.linear_interpolation:
        counts = convert_table("matrix", source, target, interpolate, block_function=interpolate_block)
    else:
        counts = _interpolate_in_numpy(options, source, target, frames)
    if frames.frames:
        gaps, changed = 100 * frames.gaps / frames.frames, 100 * frames.changed / frames.frames
        logger.info(
            "Over %d frames, %g%% were zero at input, and %g%% were not zero but were changed.",
            frames.frames,
            gaps,
            changed,
        )
    logger.info("Done %d utterances, %d with errors.", counts.done, counts.failed)
    return counts.status


def _interpolate_in_numpy(
    options: InterpolatePitchOptions, source: str, target: str, frames: InterpolationCounts
) -> Counts:
    """Interpolate a table smoothly, with the utterances in an order in which NumPy searches many at once."""
    counts = Counts()
    with (
        io_ark.SequentialReader[Matrix]("matrix", source, blocks=True) as reader,
        io_ark.Writer[Matrix]("matrix", target) as writer,
    ):
        for key, track in interpolate_tracks(_tracks(reader, counts), options, counts=frames):
            writer[key] = track
            counts.done += 1
    return counts


def _tracks(reader: Iterable[tuple[str, Matrix]], counts: Counts) -> Iterator[tuple[str, Matrix]]:
    """Yield the tracks that have frames; count the others as failed."""
    for key, track in reader:
        if len(track) == 0:
            logger.warning("Feature file has bad size %d by %d", *track.shape)
            counts.failed += 1
            continue
        try:
            check_track(track)
        except FeatureError as error:
            raise FeatureError(f"{key}: {error}") from error
        yield key, track
