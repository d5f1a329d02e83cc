"""ivector-normalize-length: give speaker vectors the same length."""

import numpy as np

from io_ark.blocks import ArrayBlock
from kaldi_compat.cli.log import format_number, log_verbose, logger
from kaldi_compat.cli.loop import convert_table, stack_vectors
from kaldi_compat.cli.objects import Matrix, Vector
from kaldi_compat.cli.program import program
from kaldi_compat.options.base import BaseOptions
from kaldi_compat.options.declaration import option

USAGE = """
Scales speaker vectors to the length sqrt(dimension), or to the length 1 with --scaleup=false.

Usage: ivector-normalize-length [options] <ivector-rspecifier> <ivector-wspecifier>
e.g.:  ivector-normalize-length ark:ivectors.ark ark:normalized_ivectors.ark
"""


class Options(BaseOptions):
    normalize: bool = option(True, "scale the vectors; false copies them")
    scaleup: bool = option(True, "scale to the square root of the dimension instead of 1")


@program("ivector-normalize-length", USAGE, Options)
def main(options: Options, source: str, target: str) -> int:
    """Scale vectors, or copy them with --normalize=false, and log length ratios. Return 0 with output, else 1."""
    ratios: list[float] = []

    def normalize_vectors(block: ArrayBlock) -> ArrayBlock:
        """Scale the vectors of a block unless --normalize=false. Store the ratios of lengths to the target length."""
        rows = stack_vectors(block)
        target_length = np.sqrt(rows.shape[1]) if options.scaleup else 1.0
        block_ratios = (compute_lengths(rows).astype(np.float64) / target_length).astype(np.float32)
        for key, ratio in zip(block.decode_keys(), block_ratios.tolist(), strict=True):
            log_verbose(2, "Ratio for key %s is %g", key, ratio)
            if ratio == 0:
                logger.warning("Zero iVector")
        ratios.extend(block_ratios.tolist())
        factors = np.where(block_ratios == 0, 1, (1.0 / block_ratios.astype(np.float64)).astype(np.float32))
        # The factor of a vector of infinite length is 0. As in BLAS, a factor of 0 also sets infinite elements to 0.
        scaled = np.where(factors[:, None] == 0, np.float32(0), rows * factors[:, None])
        return block.with_vectors(scaled.reshape(-1)) if options.normalize else block

    with np.errstate(all="ignore"):
        counts = convert_table(normalize_vectors, "vector", source, target)
        logger.info("Processed %d iVectors.", counts.done)
        if ratios:  # np.cumsum() adds from left to right, as Kaldi does.
            mean = np.float32(np.cumsum(ratios)[-1] / len(ratios))
            squares = np.cumsum(np.square(ratios, dtype=np.float32), dtype=np.float64)[-1]
            deviation = np.float32(np.sqrt(squares / len(ratios) - mean * mean))
            numbers = map(format_number, (mean, deviation))
            logger.info("Average ratio of iVector to expected length was %s, standard deviation was %s", *numbers)
    return counts.status


def compute_lengths(rows: Matrix) -> Vector:
    """Compute the Euclidean lengths (entries,) of the rows. As in Kaldi, squares are added in single precision."""
    # The column of zeros gives rows without elements the length 0.
    squares = np.append(np.zeros((len(rows), 1), np.float32), rows * rows, axis=1)
    result: Vector = np.sqrt(np.add.accumulate(squares, axis=1)[:, -1])
    return result
