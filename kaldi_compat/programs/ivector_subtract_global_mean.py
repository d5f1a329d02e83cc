"""ivector-subtract-global-mean: subtract the mean of all speaker vectors."""

import numpy as np

import io_ark
from io_ark.blocks import ArrayBlock
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import map_table, stack_vectors
from kaldi_compat.cli.program import program
from kaldi_compat.cli.sums import sum_vectors
from kaldi_compat.cli.tables import Tables
from kaldi_compat.errors import FeatureError
from kaldi_compat.options.base import BaseOptions
from kaldi_compat.options.declaration import option

USAGE = """
Subtracts the mean of speaker vectors from each vector. Given three arguments, subtracts the mean in a file.

Usage: ivector-subtract-global-mean [options] [<mean-rxfilename>] <ivector-rspecifier> <ivector-wspecifier>
e.g.:  ivector-subtract-global-mean scp:ivectors.scp ark:-
       ivector-subtract-global-mean mean.vec scp:ivectors.scp ark:-
"""


class Options(BaseOptions):
    subtract_mean: bool = option(True, "subtract the mean of the table; false copies it (only with two arguments)")


@program("ivector-subtract-global-mean", USAGE, Options)
def main(options: Options, first: str, second: str, last_target: str | None = None) -> int:
    """Subtract the mean of a table from its vectors. Return 0 if a vector is written, otherwise 1.

    With three arguments, subtract the mean in the file ``first`` from the vectors of the table ``second``.
    """
    source, target = (first, second) if last_target is None else (second, last_target)
    # The mean of a file is subtracted in single precision, the mean of the table in double precision.
    global_mean = None if last_target is None else io_ark.load(first, kind="vector")
    with Tables() as tables:
        blocks, writer = tables.read("vector", source), tables.open_writer("vector", target)
        if global_mean is None:
            stored_blocks = list(blocks)
            total, count = sum_vectors(stored_blocks)
            logger.info("Read %d iVectors.", count)
            if count:
                logger.info("Norm of iVector mean was %g", np.linalg.norm(total) / count)
            shift = float(np.float32(-1.0 / max(count, 1))) * total
            counts = map_table(
                stored_blocks, writer, lambda block: shift_vectors(block, shift) if options.subtract_mean else block
            )
        else:
            counts = map_table(blocks, writer, lambda block: shift_vectors(block, -global_mean))
    logger.info("Wrote %d mean-subtracted iVectors", counts.done)
    return counts.status


def shift_vectors(block: ArrayBlock, shift: np.ndarray) -> ArrayBlock:
    """Add the vector ``shift`` (dim,) to every vector of a block. Compute in the dtype of ``shift``, and store float32.

    Raises:
        Skip: the vectors of several entries differ in length.
        FeatureError: the dimensions of ``shift`` and of the vectors differ.
    """
    rows = stack_vectors(block)
    if rows.shape[1] != len(shift):
        raise FeatureError(
            f"the vectors have dimension {rows.shape[1]}, but the mean has {len(shift)}: use the mean of these vectors"
        )
    return block.with_vectors((rows + shift).astype(np.float32).reshape(-1))
