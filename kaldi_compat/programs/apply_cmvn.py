"""apply-cmvn: normalize means and variances with statistics of each utterance, each speaker, or all."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

import io_ark
from io_ark.codecs.blocks import ArrayBlock
from kaldi_compat.cli.dims import parse_dims
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import BlockTable, LookupReader, Skip, convert_table, map_table
from kaldi_compat.cli.objects import DoubleMatrix, Matrix
from kaldi_compat.cli.program import program
from kaldi_compat.errors import FeatureError, OptionError
from kaldi_compat.exact.ragged import normalized
from kaldi_compat.functional.cmvn import apply_cmvn, check_stats, count_floored, fake_stats, scale_and_offset
from kaldi_compat.options.base import option
from kaldi_compat.options.postprocessing import CmvnOptions

USAGE = """
Normalizes the mean, and optionally the variance, of features. The statistics are those of each utterance, of its
speaker with --utt2spk, or the same for all utterances if the first argument is a file.

Usage: apply-cmvn [options] (<cmvn-stats-rspecifier>|<cmvn-stats-rxfilename>) <feats-rspecifier> <feats-wspecifier>
e.g.:  apply-cmvn --utt2spk=ark:data/train/utt2spk scp:data/train/cmvn.scp scp:data/train/feats.scp ark:-
"""


@dataclass(frozen=True, kw_only=True)
class Options(CmvnOptions):
    """Options of apply-cmvn."""

    utt2spk: str = option("", "rspecifier of each utterance's speaker; the statistics are then looked up by speaker")
    skip_dims: str = option("", "dimensions to leave unchanged, e.g. 13:14:15")


@program("apply-cmvn", USAGE, Options)
def main(options: Options, stats_source: str, source: str, target: str) -> int:
    """Normalize a table, or copy it with --norm-means=false."""
    if not options.norm_means:
        counts = convert_table(
            "general-matrix", source, target, lambda _, feats: feats, block_function=lambda block: block
        )
        logger.info("Copied %d utterances.", counts.done)
        return counts.status
    skipped = parse_dims(options.skip_dims, "--skip-dims")
    with ExitStack() as stack:
        feats_reader = stack.enter_context(io_ark.SequentialReader[Matrix]("matrix", source, blocks=True))
        writer = stack.enter_context(io_ark.Writer[Matrix]("matrix", target))
        reader: BlockTable[DoubleMatrix] | None = None
        if io_ark.is_table_rspecifier(stats_source):
            table = LookupReader[DoubleMatrix]("double-matrix", stats_source, utt2spk=options.utt2spk)
            reader = BlockTable(stack.enter_context(table))
        elif options.utt2spk:
            raise OptionError(
                f"--utt2spk option not compatible with rxfilename as input: {stats_source} (did you forget ark:?)"
            )
        else:
            of_all: DoubleMatrix = io_ark.read_object("double-matrix", stats_source)

        def normalize(key: str, feats: Matrix) -> Matrix:
            if reader is None:
                stats: DoubleMatrix = of_all
            elif key in reader:
                stats = reader[key]
            else:
                raise Skip(
                    f"No normalization statistics available for key {key}, producing no output for this utterance"
                )
            stats = fake_stats(stats, skipped)
            result = apply_cmvn(feats, stats, options)
            if options.norm_vars and (floored := count_floored(stats)):
                logger.warning("Flooring cepstral variance in %d dimensions for %s", floored, key)
            return result

        def of_block(block: ArrayBlock) -> ArrayBlock | None:
            feats = block.matrix()
            each = [of_all] if reader is None else reader.values(block.names())
            if feats is None or each is None or any(stats.shape != each[0].shape for stats in each):
                return None
            try:
                all_stats = fake_stats(np.stack(each), skipped)
                check_stats(all_stats, feats.shape[1], options)
            except FeatureError:
                return None
            if options.norm_vars and count_floored(all_stats):
                return None
            scale, offset = scale_and_offset(all_stats, options, feats.dtype)
            shape = (len(block), feats.shape[1])
            factor = None if scale is None else np.broadcast_to(scale[:, 0], shape)
            return block.with_rows(normalized(feats, block.rows(), factor, np.broadcast_to(offset[:, 0], shape)))

        counts = map_table(feats_reader, writer, normalize, of_block)
    what = "mean and variance" if options.norm_vars else "mean"
    logger.info("Applied cepstral %s normalization to %d utterances, errors on %d", what, counts.done, counts.failed)
    return counts.status
