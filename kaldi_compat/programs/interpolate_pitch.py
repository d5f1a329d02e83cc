"""interpolate-pitch: fill gaps in (probability of voicing, pitch)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import io_ark
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import Counts
from kaldi_compat.cli.objects import Matrix
from kaldi_compat.cli.program import program
from kaldi_compat.errors import FeatureError
from kaldi_compat.options.pitch import InterpolatePitchOptions
from kaldi_compat.pitch.interpolate import InterpolationCounts, check_track, interpolate_linearly, interpolate_tracks

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
    counts = Counts()
    with (
        io_ark.SequentialReader[Matrix]("matrix", source, blocks=True) as reader,
        io_ark.Writer[Matrix]("matrix", target) as writer,
    ):
        tracks = _tracks(reader, counts)
        if options.linear_interpolation:
            smooth: Iterable[tuple[str, Matrix]] = ((key, interpolate_linearly(track)) for key, track in tracks)
        else:
            smooth = interpolate_tracks(tracks, options, counts=frames)
        for key, track in smooth:
            writer[key] = track
            counts.done += 1
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
