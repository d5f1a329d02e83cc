"""apply-cmvn-sliding: mean and variance normalization over a window that moves along with the frame."""

from __future__ import annotations

import numpy as np

from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import Skip, convert_table
from kaldi_compat.cli.objects import DoubleMatrix, Indices, Matrix
from kaldi_compat.cli.program import program
from kaldi_compat.functional.cmvn import SLIDING_VARIANCE_FLOOR, normalized_by, sliding_mean_and_variance
from kaldi_compat.options.postprocessing import SlidingCmvnOptions

USAGE = """
Normalizes the mean, and optionally the variance, of each frame over a window of frames before it, or around it with
--center=true. Used in speaker recognition.

Usage: apply-cmvn-sliding [options] <feats-rspecifier> <feats-wspecifier>
e.g.:  apply-cmvn-sliding --center=true --cmn-window=300 scp:feats.scp ark:-
"""


@program("apply-cmvn-sliding", USAGE, SlidingCmvnOptions)
def main(options: SlidingCmvnOptions, source: str, target: str) -> int:
    """Normalize a table."""

    def normalize(key: str, feats: Matrix) -> Matrix:
        if len(feats) == 0:
            raise Skip(f"Empty feature matrix for utterance {key}")
        mean, variance, size = sliding_mean_and_variance(feats, options)
        if options.norm_vars:
            warn_of_floored(key, variance, size, options.max_warnings)
        return normalized_by(feats, mean, variance, size, options)

    counts = convert_table("matrix", source, target, normalize)
    logger.info(
        "Applied sliding-window cepstral mean %snormalization to %d utterances, %d had errors.",
        "and variance " if options.norm_vars else "",
        counts.done,
        counts.failed,
    )
    return counts.status


def warn_of_floored(key: str, variance: DoubleMatrix, size: Indices, max_warnings: int) -> None:
    """Say for which frames a variance is so small that it is floored, of so many frames at most."""
    floored = np.sum(variance < SLIDING_VARIANCE_FLOOR, axis=1)
    frames = np.flatnonzero((floored > 0) & (size > 1))
    shown = frames if max_warnings < 0 else frames[:max_warnings]
    for frame in shown:
        logger.warning(
            "Flooring variance of %s at frame %d: %d elements, in a window of %d frames",
            key,
            frame,
            floored[frame],
            size[frame],
        )
    if len(shown) < len(frames):
        logger.warning("Variance is floored at %d more frames of %s (--max-warnings)", len(frames) - len(shown), key)
