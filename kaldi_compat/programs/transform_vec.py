"""transform-vec: apply a linear or affine transform to vectors."""

import numpy as np

import io_ark
from io_ark.blocks import ArrayBlock
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import map_table, stack_vectors
from kaldi_compat.cli.objects import Matrix, Vector
from kaldi_compat.cli.program import NoOptions, program
from kaldi_compat.cli.tables import Tables
from kaldi_compat.errors import FeatureError
from kaldi_compat.exact.products import multiply_vectors

USAGE = """
Applies a transform, such as LDA or PCA, to vectors, such as i-vectors. The transform is linear if it has as many
columns as the vectors have elements, and affine if it has one more.

Usage: transform-vec [options] <transform-rxfilename> <vector-rspecifier> <vector-wspecifier>
e.g.:  transform-vec lda.mat scp:ivectors.scp ark:-
"""


@program("transform-vec", USAGE)
def main(options: NoOptions, transform: str, source: str, target: str) -> int:
    """Apply the transform in a file to a table of vectors. The exit status is 0 if a vector is written, otherwise 1."""
    with Tables() as tables:
        blocks, writer = tables.read("vector", source), tables.open_writer("vector", target)
        matrix = io_ark.load(transform, kind="matrix")
        counts = map_table(blocks, writer, lambda block: transform_vectors(block, matrix))
    logger.info("Applied transform to %d vectors.", counts.done)
    return counts.status


def transform_vectors(block: ArrayBlock, matrix: Matrix) -> ArrayBlock:
    """Apply a transform (out, dim), or (out, dim + 1) if its last column is an offset, to vectors (dim,) of a block.

    Raises:
        Skip: the vectors of several entries differ in length.
        FeatureError: the number of columns of the transform is neither ``dim`` nor ``dim + 1``.
    """
    rows = stack_vectors(block)
    dim, columns = rows.shape[1], matrix.shape[1]
    if columns not in (dim, dim + 1):
        raise FeatureError(f"Dimension mismatch: input vector has dimension {dim} and transform has {columns} columns.")
    offset: Vector | None = matrix[:, dim] if columns > dim else None
    result = multiply_vectors(matrix[:, :dim], rows, offset)
    return block.with_vectors(result.reshape(-1), np.full(len(block), len(matrix)))
