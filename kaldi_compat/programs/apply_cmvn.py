"""apply-cmvn: normalize means and variances with statistics of each utterance, each speaker, or all."""

import numpy as np

import io_ark
from io_ark.blocks import ArrayBlock, Skip
from kaldi_compat.cli.dims import parse_dims
from kaldi_compat.cli.finite import GIVEN_STATISTICS, FiniteCheck
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import convert_table, map_table, stack_rows
from kaldi_compat.cli.objects import DoubleMatrix
from kaldi_compat.cli.program import program
from kaldi_compat.cli.tables import Tables
from kaldi_compat.errors import OptionError
from kaldi_compat.functional import block_cmvn as cmvn
from kaldi_compat.functional.cmvn import (
    VARIANCE_FLOOR,
    check_statistics,
    compute_mean_and_variance,
    compute_scale_and_offset,
    replace_statistics,
)
from kaldi_compat.options.declaration import option
from kaldi_compat.options.postprocessing import CmvnOptions

USAGE = """
Normalizes the mean, and optionally the variance, of features. The statistics are those of each utterance, of its
speaker with --utt2spk, or the same for all utterances if the first argument is a file.

Usage: apply-cmvn [options] (<cmvn-stats-rspecifier>|<cmvn-stats-rxfilename>) <feats-rspecifier> <feats-wspecifier>
e.g.:  apply-cmvn --utt2spk=ark:data/train/utt2spk scp:data/train/cmvn.scp scp:data/train/feats.scp ark:-
"""

MISSING = "No normalization statistics available for key {}, producing no output for this utterance"


class Options(CmvnOptions):
    utt2spk: str = option("", "rspecifier of each utterance's speaker; the statistics are then looked up by speaker")
    skip_dims: str = option("", "dimensions to leave unchanged, e.g. 13:14:15")


@program("apply-cmvn", USAGE, Options)
def main(options: Options, statistics_source: str, source: str, target: str) -> int:
    """Normalize a table of features, or copy it with --norm-means=false. Return 0 if an entry is written, else 1."""
    if not options.norm_means:
        counts = convert_table(lambda block: block, "general-matrix", source, target)
        logger.info("Copied %d utterances.", counts.done)
        return counts.status
    skipped_dims = parse_dims(options.skip_dims, "--skip-dims")
    check = FiniteCheck()
    with Tables() as tables:
        blocks, writer = tables.read("matrix", source), tables.open_writer("matrix", target)
        if io_ark.is_table_rspecifier(statistics_source):
            table = tables.open_lookup("double-matrix", statistics_source, options.utt2spk)
        elif options.utt2spk:
            raise OptionError(
                f"--utt2spk option not compatible with rxfilename as input: {statistics_source} (did you forget ark:?)"
            )
        else:
            table, global_statistics = None, [io_ark.load(statistics_source, kind="double-matrix")]

        def normalize_features(block: ArrayBlock) -> ArrayBlock:
            """Normalize a block with the statistics of its entries, and warn about statistics that are not finite."""
            statistics = global_statistics if table is None else table.require_values(block, MISSING.format)
            if len({matrix.shape for matrix in statistics}) > 1:
                raise Skip  # An empty Skip asks the caller to split the block.
            used_statistics = replace_statistics(np.stack(statistics), skipped_dims)
            used_sums = used_statistics[:, : 1 + options.norm_vars]  # Without norm_vars, sums of squares are not used.
            if not np.isfinite(used_sums.sum()):
                names = [statistics_source] if table is None else block.decode_keys()
                check.check_arrays(GIVEN_STATISTICS, zip(names, used_sums, strict=True))
            return normalize_block(block, used_statistics, options)

        counts = map_table(blocks, writer, normalize_features)
    statistics_names = "mean and variance" if options.norm_vars else "mean"
    logger.info(
        "Applied cepstral %s normalization to %d utterances, errors on %d", statistics_names, counts.done, counts.failed
    )
    return counts.status


def normalize_block(block: ArrayBlock, statistics: DoubleMatrix, options: Options) -> ArrayBlock:
    """Normalize the matrices of a block, and warn about floored variances.

    Args:
        block: the features.
        statistics: CMVN statistics (entries, 2, dim + 1) of each entry, or (1, 2, dim + 1) of all entries together.
        options: options of the program.

    Raises:
        FeatureError: the statistics and the features differ in dimension, a count is below 1, or
            ``options.norm_vars`` needs variances that are missing or not finite.
    """
    feats = stack_rows(block)
    check_statistics(statistics if len(statistics) > 1 else statistics[0], feats.shape[1], options)
    if options.norm_vars:
        variance = compute_mean_and_variance(statistics)[:, 1]
        floored_variances = variance[variance < VARIANCE_FLOOR].tolist()
        # As in Kaldi, global statistics cause the warnings for each utterance.
        for value in floored_variances * (len(block) // len(statistics)):
            logger.warning("Flooring cepstral variance from %g to %g", value, VARIANCE_FLOOR)
    scale, offset = compute_scale_and_offset(statistics, options, feats.dtype)
    shape = (len(block), feats.shape[1])
    factor = None if scale is None else np.broadcast_to(scale[:, 0], shape)
    return block.with_rows(
        cmvn.scale_and_shift_features(feats, block.compute_row_bounds(), factor, np.broadcast_to(offset[:, 0], shape))
    )
