"""apply-cmvn-sliding: normalize means and variances over a sliding window."""

import numpy as np

from io_ark.blocks import ArrayBlock, Skip
from kaldi_compat.cli.finite import FiniteCheck
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import convert_table, require_one_entry, stack_rows
from kaldi_compat.cli.objects import DoubleMatrix, Indices, Matrix
from kaldi_compat.cli.program import program
from kaldi_compat.exact.sliding import normalize_by_windows
from kaldi_compat.functional.block_cmvn import normalize_by_sliding_windows
from kaldi_compat.functional.cmvn import SLIDING_VARIANCE_FLOOR, compute_sliding_windows
from kaldi_compat.options.postprocessing import SlidingCmvnOptions

USAGE = """
Normalizes the mean, and optionally the variance, of each frame over a sliding window. The window ends at the frame, or
is centered on it with --center=true. Used in speaker recognition.

Usage: apply-cmvn-sliding [options] <feats-rspecifier> <feats-wspecifier>
e.g.:  apply-cmvn-sliding --center=true --cmn-window=300 scp:feats.scp ark:-
"""


@program("apply-cmvn-sliding", USAGE, SlidingCmvnOptions)
def main(options: SlidingCmvnOptions, source: str, target: str) -> int:
    """Normalize a table of features by sliding windows. Return 0 if an utterance is written, otherwise 1."""
    check = FiniteCheck()

    def normalize_features(block: ArrayBlock) -> ArrayBlock:
        """Normalize a block of utterances, and warn about floored variances and about results that are not finite.

        Raise Skip if the features are empty.
        """
        feats, bounds = stack_rows(block), block.compute_row_bounds()
        if feats.size == 0:
            raise Skip(f"Empty feature matrix for utterance {block.decode_keys()[0]}")
        normalized = normalize_by_sliding_windows(feats, bounds, options)
        if normalized is None:  # A variance must be floored, which Kaldi warns about.
            normalized = normalize_with_warnings(require_one_entry(block, feats), options)
        check.check_last_rows(block, normalized, bounds)
        return block.with_rows(normalized)

    counts = convert_table(normalize_features, "matrix", source, target)
    logger.info(
        "Applied sliding-window cepstral mean %snormalization to %d utterances, %d had errors.",
        "and variance " if options.norm_vars else "", counts.done, counts.failed,
    )  # fmt: skip
    return counts.status


def normalize_with_warnings(feats: Matrix, options: SlidingCmvnOptions) -> Matrix:
    """Normalize the features (frames, dim) of an utterance, and log warnings about floored variances."""
    start, end = compute_sliding_windows(np.arange(len(feats)), len(feats), options)
    normalized: Matrix
    normalized, variance = normalize_by_windows(feats, start, end, norm_vars=options.norm_vars)
    if options.norm_vars:
        warn_of_floored_variances(variance, end - start, options.max_warnings)
    return normalized


def warn_of_floored_variances(variance: DoubleMatrix, window_sizes: Indices, max_warnings: int) -> None:
    """Log a warning for each frame with floored variances.

    Args:
        variance: variances (frames, dim) of the columns in the window of each frame.
        window_sizes: numbers (frames,) of frames in the windows. Windows of one frame cause no warning, as in Kaldi.
        max_warnings: maximum number of frames with a warning. Negative for no limit. A last warning reports omissions.
    """
    floored_counts = np.sum(variance < SLIDING_VARIANCE_FLOOR, axis=1)
    frames = np.flatnonzero((floored_counts > 0) & (window_sizes > 1))
    reported_frames = frames if max_warnings < 0 else frames[:max_warnings]
    for frame in reported_frames:
        logger.warning(
            "Flooring when normalizing variance, floored %d elements; num-frames was %d",
            floored_counts[frame], window_sizes[frame],
        )  # fmt: skip
    if len(reported_frames) < len(frames):
        logger.warning(
            "Suppressing the remaining variance flooring warnings. "
            "Run program with --max-warnings=-1 to see all warnings."
        )
