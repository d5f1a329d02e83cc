"""copy-matrix: copy matrices, optionally scaled and transformed element by element."""

import numpy as np

import io_ark
from io_ark.blocks import ArrayBlock
from io_ark.libm import logf
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import convert_table_or_file, stack_rows
from kaldi_compat.cli.objects import Matrix
from kaldi_compat.cli.program import FileOptions, program
from kaldi_compat.exact.libm import expf
from kaldi_compat.exact.products import scale_vector
from kaldi_compat.options.base import as_float32, require
from kaldi_compat.options.declaration import option

USAGE = """
Copies matrices, such as features and transforms. Optionally applies, in this order: scale, log, exp, softmax, power.

Usage: copy-matrix [options] <matrix-rspecifier> <matrix-wspecifier>
   or: copy-matrix [options] <matrix-rxfilename> <matrix-wxfilename>
e.g.:  copy-matrix --binary=false 1.mat -
       copy-matrix ark:2.trans ark,t:-
"""

LOG_FLOOR = np.float32(1.0e-20)


class Options(FileOptions):
    scale: float = option(1.0, "factor on each matrix")
    apply_log: bool = option(False, "take the log of each element, floored at 1e-20")
    apply_exp: bool = option(False, "take the exponential of each element")
    apply_power: float = option(1.0, "raise each element to this power")
    apply_softmax_per_row: bool = option(False, "apply the softmax to each row")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.apply_log + self.apply_exp + self.apply_softmax_per_row <= 1,
            "--apply-log, --apply-exp and --apply-softmax-per-row exclude each other: set one of them",
        )


@program("copy-matrix", USAGE, Options)
def main(options: Options, source: str, target: str) -> int:
    """Copy a table or file of matrices with the selected changes. Return 0 if a matrix is written, otherwise 1."""
    has_changes = options != Options(binary=options.binary)

    def change_block(block: ArrayBlock) -> ArrayBlock:
        return block.with_rows(change_elements(stack_rows(block), options)) if has_changes else block

    with np.errstate(all="ignore"):  # As in Kaldi, infinities and NaN are valid results.
        counts = convert_table_or_file(change_block, "matrix", source, target, binary=options.binary, output_first=True)
    if io_ark.is_table_wspecifier(target):
        logger.info("Copied %d matrices.", counts.done)
    else:
        logger.info("Copied matrix to %s", target)
    return counts.status


def change_elements(matrix: Matrix, options: Options) -> Matrix:
    """Scale and transform the elements of a matrix as the options say, in the order of Kaldi's program."""
    if options.scale != 1.0:
        matrix = scale_vector(matrix, options.scale)
    if options.apply_log:
        matrix = logf(np.maximum(matrix, LOG_FLOOR))
    if options.apply_exp:
        matrix = expf(matrix)
    if options.apply_softmax_per_row:
        matrix = apply_softmax(matrix)
    if options.apply_power != 1.0:
        # np.power takes the square root for an exponent of 0.5, which differs from C's pow() for -0 and -infinity.
        matrix = np.float_power(matrix, as_float32(options.apply_power)).astype(np.float32)
    return matrix


def apply_softmax(matrix: Matrix) -> Matrix:
    """Compute the softmax of each row, with sums in Kaldi's order."""
    if matrix.size == 0:
        return matrix
    exponentials = expf(matrix - matrix.max(axis=-1, keepdims=True))
    sums = np.add.accumulate(exponentials, axis=-1)[:, -1:]
    return exponentials * (1.0 / sums.astype(np.float64)).astype(np.float32)
