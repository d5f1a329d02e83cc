"""modify-cmvn-stats: exclude dimensions from normalization, or convert statistics to means and variances."""

from __future__ import annotations

from dataclasses import dataclass

from io_ark.codecs.blocks import ArrayBlock
from kaldi_compat.cli.dims import parse_dims
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import Skip, convert_table
from kaldi_compat.cli.objects import DoubleMatrix
from kaldi_compat.cli.program import program
from kaldi_compat.errors import FeatureError
from kaldi_compat.functional.cmvn import fake_stats, mean_and_variance
from kaldi_compat.options.base import BaseOptions, option

USAGE = """
Copies normalization statistics. Sets the given dimensions to zero mean and unit variance, so that they will not be
normalized; or converts the statistics to means and variances.

Usage: modify-cmvn-stats [options] [<fake-dims>] <stats-rspecifier> <stats-wspecifier>
e.g.:  modify-cmvn-stats 13:14:15 ark:- ark:-
       modify-cmvn-stats --convert-to-mean-and-var=true ark:- ark:-
"""


@dataclass(frozen=True, kw_only=True)
class Options(BaseOptions):
    """Options of modify-cmvn-stats."""

    convert_to_mean_and_var: bool = option(False, "write the mean and the variance of each dimension")


@program("modify-cmvn-stats", USAGE, Options)
def main(options: Options, first: str, second: str, third: str | None = None) -> int:
    """Modify a table of statistics."""
    dims, source, target = ("", first, second) if third is None else (first, second, third)
    fake_dims = parse_dims(dims, "first argument")

    def modify(key: str, stats: DoubleMatrix) -> DoubleMatrix:
        if len(stats) != 2:
            raise FeatureError(
                f"Expected input to be CMVN stats (should have two rows), not a matrix with {len(stats)}"
            )
        stats = fake_stats(stats, fake_dims)
        if not options.convert_to_mean_and_var:
            return stats
        if stats[0, -1] <= 0:
            raise Skip(f"Zero or negative count for speaker {key}, not outputting mean and variance stats.")
        return mean_and_variance(stats)

    def of_block(block: ArrayBlock) -> ArrayBlock | None:
        stats = block.stacked()
        if stats is None or stats.shape[1] != 2 or options.convert_to_mean_and_var:
            return None
        return block.with_matrices(fake_stats(stats, fake_dims))

    counts = convert_table("double-matrix", source, target, modify, block_function=of_block)
    logger.info("Modified %d sets of stats.", counts.done)
    return counts.status
