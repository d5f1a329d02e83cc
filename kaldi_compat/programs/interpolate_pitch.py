"""interpolate-pitch: fill gaps in (probability of voicing, pitch)."""

from io_ark.blocks import ArrayBlock, Block, Skip
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import convert_table, stack_rows
from kaldi_compat.cli.objects import Matrix
from kaldi_compat.cli.program import program
from kaldi_compat.exact.rand import KaldiRandom
from kaldi_compat.options.base import as_float32
from kaldi_compat.options.pitch import InterpolatePitchOptions
from kaldi_compat.pitch.interpolate import (
    InterpolationCounts,
    can_interpolate_together,
    interpolate_linearly,
    interpolate_smoothly,
    interpolate_utterances,
)

USAGE = """
Fills gaps in pitch tracks, where the pitch is 0. The two columns are the probability of voicing and the pitch. Fills
gaps with a model of pitch movement, which also smooths the pitch, or with straight lines (--linear-interpolation).

Usage: interpolate-pitch [options] <feats-rspecifier> <feats-wspecifier>
e.g.:  interpolate-pitch ark:pitch.ark ark:- | process-pitch-feats ark:- ark:feats.ark
"""


@program("interpolate-pitch", USAGE, InterpolatePitchOptions)
def main(options: InterpolatePitchOptions, source: str, target: str) -> int:
    """Fill gaps in pitch tracks, and log changes unless they are linear. Return 0 if a track is written, else 1."""
    totals = InterpolationCounts()
    random = KaldiRandom()

    def interpolate_track(_: str, track: Matrix) -> Matrix:
        """Interpolate the pitch of one utterance, linearly or smoothly as the options say."""
        if options.linear_interpolation:
            return interpolate_linearly(track)
        return interpolate_smoothly(track, options, random, totals)

    def interpolate_block(block: ArrayBlock) -> Block:
        """Interpolate the tracks of a block, one by one for linear interpolation or if a pitch is invalid.

        Raise Skip for empty tracks.
        """
        tracks = stack_rows(block)
        if tracks.size == 0:
            raise Skip(f"Feature file has bad size {block.shapes[0, 0]} by {block.shapes[0, 1]}")
        # interpolate_utterances() does not interpolate linearly, and takes only finite tracks without negative pitches.
        if options.linear_interpolation or not can_interpolate_together(tracks):
            return block.map(interpolate_track)
        return block.with_rows(interpolate_utterances(tracks, block.compute_row_bounds(), options, random, totals))

    counts = convert_table(interpolate_block, "matrix", source, target, progress=True)
    if totals.frames:
        # Kaldi rounds the percentages to single precision, which changes the last printed digit of one in a hundred.
        counted = totals.gaps, totals.changed
        gap_percent, changed_percent = (as_float32(count * 100.0 / totals.frames) for count in counted)
        logger.info(
            "Over %d frames, %g%% were zero at input, and %g%% were not zero but were changed.",
            totals.frames, gap_percent, changed_percent,
        )  # fmt: skip
    logger.info("Done %d utterances, %d with errors.", counts.done, counts.failed)
    return counts.status
