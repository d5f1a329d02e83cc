"""process-pitch-feats: compute features from probability of voicing and pitch (superseded)."""

from io_ark.blocks import ArrayBlock, Block, Skip
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import convert_table, stack_rows
from kaldi_compat.cli.program import program
from kaldi_compat.options.pitch import SmoothPitchOptions
from kaldi_compat.pitch.smooth import can_smooth_together, smooth_pitch, smooth_utterances

USAGE = """
Computes features for speech recognition from pitch tracks without gaps. The two columns of the input are the
probability of voicing and the pitch. The features are the log odds of voicing, and the smoothed log pitch minus its
moving mean. Use interpolate-pitch to fill gaps.

Usage: process-pitch-feats [options] <feats-rspecifier> <feats-wspecifier>
e.g.:  interpolate-pitch ark:pitch.ark ark:- | process-pitch-feats ark:- ark:feats.ark
"""


@program("process-pitch-feats", USAGE, SmoothPitchOptions)
def main(options: SmoothPitchOptions, source: str, target: str) -> int:
    """Compute features from a table of interpolated pitch tracks. Return 0 if an utterance is written, otherwise 1."""

    def smooth_block(block: ArrayBlock) -> Block:
        """Smooth the tracks of a block, one by one if a track is invalid. Raise Skip for empty tracks."""
        tracks = stack_rows(block)
        if tracks.size == 0:
            raise Skip(f"Feature file has bad size {block.shapes[0, 0]} by {block.shapes[0, 1]}")
        if not can_smooth_together(tracks):  # smooth_utterances() takes only valid tracks.
            return block.map(lambda _, track: smooth_pitch(track, options))
        return block.with_rows(smooth_utterances(tracks, block.compute_row_bounds(), options))

    counts = convert_table(smooth_block, "matrix", source, target, progress=True)
    logger.info("Done %d utterances, %d with errors.", counts.done, counts.failed)
    return counts.status
