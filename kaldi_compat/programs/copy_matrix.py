"""copy-matrix: matrices from one table or file to another, through scaling and element-wise functions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import convert
from kaldi_compat.cli.objects import Matrix
from kaldi_compat.cli.program import program
from kaldi_compat.exact.libm import expf, logf
from kaldi_compat.options.base import as_float32, option, require

USAGE = """
Copies matrices (features, transforms); optionally scales them and applies a function to them, in the order
scale, log, exp, softmax, power.

Usage: copy-matrix [options] <matrix-rspecifier> <matrix-wspecifier>
   or: copy-matrix [options] <matrix-rxfilename> <matrix-wxfilename>
e.g.:  copy-matrix --binary=false 1.mat -
       copy-matrix ark:2.trans ark,t:-
"""

LOG_FLOOR = np.float32(1.0e-20)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of copy-matrix."""

    binary: bool = option(True, "write a single file in binary (a table's wspecifier says so itself)")
    scale: float = option(1.0, "factor on each matrix")
    apply_log: bool = option(False, "take the log of each element, floored at 1e-20")
    apply_exp: bool = option(False, "take the exponential of each element")
    apply_power: float = option(1.0, "raise each element to this power")
    apply_softmax_per_row: bool = option(False, "apply the softmax to each row")

    def __post_init__(self) -> None:
        require(
            self.apply_log + self.apply_exp + self.apply_softmax_per_row <= 1,
            "only one of --apply-log, --apply-exp and --apply-softmax-per-row can be given",
        )


@program("copy-matrix", USAGE, Options)
def main(options: Options, source: str, target: str) -> int:
    """Copy a table, or a single file."""
    with np.errstate(all="ignore"):  # infinities and NaN are results here, as they are in Kaldi
        counts = convert("matrix", source, target, lambda _, m: transformed(m, options), binary=options.binary)
    logger.info("Copied %d matrices.", counts.done)
    return counts.status


def transformed(matrix: Matrix, options: Options) -> Matrix:
    """The matrix after what the options ask for."""
    if options.scale != 1.0:
        matrix = matrix * np.float32(options.scale)
    if options.apply_log:
        matrix = logf(np.maximum(matrix, LOG_FLOOR))
    if options.apply_exp:
        matrix = expf(matrix)
    if options.apply_softmax_per_row:
        matrix = softmax(matrix)
    if options.apply_power != 1.0:
        matrix = np.power(matrix, as_float32(options.apply_power), dtype=np.float64).astype(np.float32)
    return matrix


def softmax(matrix: Matrix) -> Matrix:
    """Exponentials of each row, divided by their sum, which is taken in Kaldi's order."""
    if matrix.size == 0:
        return matrix
    exponentials = expf(matrix - matrix.max(axis=-1, keepdims=True))
    sums = np.add.accumulate(exponentials, axis=-1)[:, -1:]
    return exponentials * (1.0 / sums.astype(np.float64)).astype(np.float32)
