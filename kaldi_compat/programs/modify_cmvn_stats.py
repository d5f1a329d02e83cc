"""modify-cmvn-stats: exclude dimensions from normalization, or convert statistics to means and variances."""

from io_ark.blocks import ArrayBlock, Skip
from kaldi_compat.cli.dims import parse_dims
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import convert_table, stack_matrices
from kaldi_compat.cli.program import program
from kaldi_compat.errors import FeatureError
from kaldi_compat.functional.cmvn import compute_mean_and_variance, replace_statistics
from kaldi_compat.options.base import BaseOptions
from kaldi_compat.options.declaration import option

USAGE = """
Changes normalization statistics. Sets the given dimensions to zero mean and unit variance, so that they will not be
normalized, or converts the statistics to means and variances.

Usage: modify-cmvn-stats [options] [<fake-dims>] <stats-rspecifier> <stats-wspecifier>
e.g.:  modify-cmvn-stats 13:14:15 ark:- ark:-
       modify-cmvn-stats --convert-to-mean-and-var=true ark:- ark:-
"""


class Options(BaseOptions):
    convert_to_mean_and_var: bool = option(False, "write the mean and the variance of each dimension")


@program("modify-cmvn-stats", USAGE, Options)
def main(options: Options, first: str, second: str, target: str | None = None) -> int:
    """Replace or convert CMVN statistics. Return 0 if there is output, else 1. Two arguments replace no dimension."""
    dims, source, output = ("", first, second) if target is None else (first, second, target)
    fake_dims = parse_dims(dims, "first argument")

    def modify_statistics(block: ArrayBlock) -> ArrayBlock:
        """Replace the statistics of ``fake_dims``, and compute means and variances if the options ask for them.

        Raise FeatureError if a matrix does not have two rows, or Skip if a count allows no means and variances.
        """
        statistics = stack_matrices(block)
        if statistics.shape[1] != 2:
            raise FeatureError(
                f"Expected input to be CMVN stats (should have two rows), not a matrix with {statistics.shape[1]} rows"
            )
        statistics = replace_statistics(statistics, fake_dims)
        if options.convert_to_mean_and_var:
            if (statistics[:, 0, -1] <= 0).any():
                raise Skip(
                    f"Zero or negative count for speaker {block.decode_keys()[0]}, "
                    "not outputting mean and variance stats."
                )
            statistics = compute_mean_and_variance(statistics)
        return block.with_matrices(statistics)

    counts = convert_table(modify_statistics, "double-matrix", source, output)
    logger.info("Modified %d sets of stats.", counts.done)
    return counts.status
