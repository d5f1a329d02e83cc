"""get-full-lda-mat: extend an LDA+MLLT matrix to a square one, and compute its inverse."""

import numpy as np

import io_ark
from kaldi_compat.cli.objects import Matrix
from kaldi_compat.cli.program import FileOptions, program
from kaldi_compat.errors import FeatureError
from kaldi_compat.functional.transform import full_lda

USAGE = """
Appends to an LDA+MLLT matrix the missing rows of the full LDA matrix. The full matrix comes from est-lda
--write-full-matrix. Writes the result and, given a fourth file, its inverse.

Usage: get-full-lda-mat [options] <lda-mllt-rxfilename> <full-lda-rxfilename> <full-lda-mllt-wxfilename>
                        [<inv-full-lda-mllt-wxfilename>]
e.g.:  get-full-lda-mat final.mat full.mat full_lda_mllt.mat full_lda_mllt_inv.mat
"""


@program("get-full-lda-mat", USAGE, FileOptions)
def main(options: FileOptions, lda_mllt: str, lda: str, target: str, inverse_target: str | None = None) -> int:
    """Write the full LDA+MLLT matrix, and with a fourth argument also its inverse. Return the exit status 0."""
    full: Matrix = full_lda(io_ark.load(lda_mllt, kind="matrix"), io_ark.load(lda, kind="matrix"))
    io_ark.save(target, full, kind="matrix", binary=options.binary)
    if inverse_target is not None:
        try:
            inverse = np.linalg.inv(full)
        except np.linalg.LinAlgError as error:
            raise FeatureError(
                f"the full LDA+MLLT matrix of {lda_mllt} and {lda} has no inverse: omit the fourth argument"
            ) from error
        io_ark.save(inverse_target, inverse, kind="matrix", binary=options.binary)
    return 0
