"""matrix-sum-rows: add up the rows of matrices."""

from __future__ import annotations

import numpy as np

from io_ark.blocks import ArrayBlock
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import convert_table
from kaldi_compat.cli.objects import Matrix, Vector
from kaldi_compat.cli.program import NoOptions, program

USAGE = """
Adds up the rows of each matrix of a table and writes the table of the sums.

Usage: matrix-sum-rows [options] <matrix-rspecifier> <vector-wspecifier>
e.g.:  matrix-sum-rows ark:- ark:- | vector-sum ark:- sum.vec
"""


@program("matrix-sum-rows", USAGE)
def main(options: NoOptions, source: str, target: str) -> int:
    """Convert a table."""
    rows = 0

    def add(block: ArrayBlock) -> ArrayBlock:
        nonlocal rows
        rows += int(block.shapes[:, 0].sum())
        return block.map(lambda key, matrix: row_sum(matrix))  # type: ignore[return-value]

    counts = convert_table(add, "matrix", source, target, kind_out="vector")
    logger.info("Summed rows %d matrices, %d rows in total.", counts.done, rows)
    return counts.status


def row_sum(matrix: Matrix) -> Vector:
    """Return the sum of the rows, added in double precision."""
    total: Vector = matrix.sum(axis=0, dtype=np.float64).astype(np.float32)
    return total
