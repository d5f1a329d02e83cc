"""process-pitch-feats: compute features from probability of voicing and pitch (superseded)."""

from __future__ import annotations

from io_ark.codecs.blocks import ArrayBlock
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import Skip, convert_table
from kaldi_compat.cli.objects import Matrix
from kaldi_compat.cli.program import program
from kaldi_compat.options.pitch import SmoothPitchOptions
from kaldi_compat.pitch.smooth import is_supported, smooth_pitch, smooth_ragged

USAGE = """
Computes features for speech recognition from (probability of voicing, pitch) without gaps: the log odds of voicing, and
the smoothed log pitch minus its moving mean. Use interpolate-pitch to fill gaps.

Usage: process-pitch-feats [options] <feats-rspecifier> <feats-wspecifier>
e.g.:  interpolate-pitch ark:pitch.ark ark:- | process-pitch-feats ark:- ark:feats.ark
"""


@program("process-pitch-feats", USAGE, SmoothPitchOptions)
def main(options: SmoothPitchOptions, source: str, target: str) -> int:
    """Process a table of pitch tracks."""

    def process(key: str, track: Matrix) -> Matrix:
        if len(track) == 0:
            raise Skip(f"Feature file has bad size {track.shape[0]} by {track.shape[1]}")
        return smooth_pitch(track, options)

    def process_block(block: ArrayBlock) -> ArrayBlock | None:
        features = block.matrix()
        if features is None or not is_supported(features):
            return None
        return block.with_rows(smooth_ragged(features, block.rows(), options))

    counts = convert_table("matrix", source, target, process, block_function=process_block)
    logger.info("Done %d utterances, %d with errors.", counts.done, counts.failed)
    return counts.status
