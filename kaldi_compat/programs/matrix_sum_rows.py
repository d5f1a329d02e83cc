"""matrix-sum-rows: add up the rows of matrices."""

import numpy as np

from io_ark.blocks import ArrayBlock
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import convert_table, stack_rows
from kaldi_compat.cli.program import NoOptions, program
from kaldi_compat.functional.block_cmvn import compute_statistics

USAGE = """
Adds up the rows of each matrix of a table. Writes a table of the sums.

Usage: matrix-sum-rows [options] <matrix-rspecifier> <vector-wspecifier>
e.g.:  matrix-sum-rows ark:- ark:- | vector-sum ark:- sum.vec
"""


@program("matrix-sum-rows", USAGE)
def main(options: NoOptions, source: str, target: str) -> int:
    """Write the sum of the rows of each matrix. The exit status is 0 if an entry is written, otherwise 1."""
    num_rows = 0

    def sum_rows(block: ArrayBlock) -> ArrayBlock:
        """Return the sum of the rows of each matrix, a vector (columns,), and count the rows."""
        nonlocal num_rows
        matrices = stack_rows(block)
        # compute_statistics() adds up the rows in double precision, as Kaldi does here.
        sums = compute_statistics(matrices, block.compute_row_bounds())[:, 0, :-1].astype(np.float32)
        num_rows += len(matrices)
        return block.with_vectors(sums.reshape(-1), np.full(len(block), matrices.shape[1]))

    counts = convert_table(sum_rows, "matrix", source, target, kind_out="vector")
    logger.info("Summed rows %d matrices, %d rows in total.", counts.done, num_rows)
    return counts.status
