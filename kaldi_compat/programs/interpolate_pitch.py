"""interpolate-pitch: fills the gaps in (probability of voicing, pitch)."""

from __future__ import annotations

from kaldi_compat.options import InterpolatePitchOptions
from kaldi_compat.pitch_interpolate import InterpolationCounts, interpolate_linearly, interpolate_smoothly
from kaldi_compat.programs.log import logger
from kaldi_compat.programs.loop import Skip, convert_table
from kaldi_compat.programs.objects import Matrix
from kaldi_compat.programs.program import program
from kaldi_compat.random import KaldiRandom

USAGE = """
Fills the gaps in (probability of voicing, pitch), where the pitch is 0: by a model of how pitch moves, which also
smooths it; or by straight lines with --linear-interpolation.

Usage: interpolate-pitch [options] <feats-rspecifier> <feats-wspecifier>
e.g.:  interpolate-pitch ark:pitch.ark ark:- | process-pitch-feats ark:- ark:feats.ark
"""


@program("interpolate-pitch", USAGE, InterpolatePitchOptions)
def main(options: InterpolatePitchOptions, source: str, target: str) -> int:
    """Interpolate a table of pitch tracks."""
    random = KaldiRandom()
    frames = InterpolationCounts()

    def interpolate(key: str, track: Matrix) -> Matrix:
        if len(track) == 0:
            raise Skip(f"Feature file has bad size: {key} is {track.shape[0]} by {track.shape[1]}")
        if options.linear_interpolation:
            return interpolate_linearly(track)
        return interpolate_smoothly(track, options, random, frames)

    counts = convert_table("matrix", source, target, interpolate)
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
