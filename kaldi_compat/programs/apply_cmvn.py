"""apply-cmvn: mean and variance normalization by statistics of the utterance, the speaker, or all."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

import io_ark
from kaldi_compat.cli.dims import parse_dims
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import Skip, convert_table
from kaldi_compat.cli.objects import DoubleMatrix, Matrix
from kaldi_compat.cli.program import program
from kaldi_compat.errors import OptionError
from kaldi_compat.functional.cmvn import apply_cmvn, count_floored, fake_stats
from kaldi_compat.options.base import option
from kaldi_compat.options.postprocessing import CmvnOptions

USAGE = """
Applies cepstral mean, and optionally variance, normalization: by each utterance's own statistics, by its speaker's with
--utt2spk, or by the same for all if the first argument is a file and not a table.

Usage: apply-cmvn [options] (<cmvn-stats-rspecifier>|<cmvn-stats-rxfilename>) <feats-rspecifier> <feats-wspecifier>
e.g.:  apply-cmvn --utt2spk=ark:data/train/utt2spk scp:data/train/cmvn.scp scp:data/train/feats.scp ark:-
"""


@dataclass(frozen=True, kw_only=True)
class Options(CmvnOptions):
    """Options of apply-cmvn."""

    utt2spk: str = option("", "rspecifier of each utterance's speaker; the statistics are then by speaker")
    skip_dims: str = option("", "dimensions to leave as they are, e.g. 13:14:15")


@program("apply-cmvn", USAGE, Options)
def main(options: Options, stats_source: str, source: str, target: str) -> int:
    """Normalize a table, or copy it if means are to stay."""
    if not options.norm_means:
        counts = convert_table("general-matrix", source, target, lambda _, feats: feats)
        logger.info("Copied %d utterances.", counts.done)
        return counts.status
    skipped = parse_dims(options.skip_dims, "--skip-dims")
    with ExitStack() as stack:
        reader: io_ark.RandomAccessReader[DoubleMatrix] | None = None
        if io_ark.is_table_rspecifier(stats_source):
            reader = stack.enter_context(
                io_ark.RandomAccessReader("double-matrix", stats_source, utt2spk=options.utt2spk)
            )
        elif options.utt2spk:
            raise OptionError(f"--utt2spk goes with a table, but {stats_source} is a file (is ark: missing?)")
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
            normalized = apply_cmvn(feats, stats, options)
            if options.norm_vars and (floored := count_floored(stats)):
                logger.warning("Flooring cepstral variance in %d dimensions for %s", floored, key)
            return normalized

        counts = convert_table("matrix", source, target, normalize)
    what = "mean and variance" if options.norm_vars else "mean"
    logger.info("Applied cepstral %s normalization to %d utterances, errors on %d", what, counts.done, counts.failed)
    return counts.status
