"""ivector-compute-lda: estimate an LDA transform of speaker vectors."""

from __future__ import annotations

import numpy as np

import io_ark
from io_ark.models import Lda
from io_ark.models.lda import compute_mean, compute_norm
from kaldi_compat.cli.files import format_wxfilename
from kaldi_compat.cli.log import log_verbose, logger
from kaldi_compat.cli.objects import Vector
from kaldi_compat.cli.program import FileOptions, program
from kaldi_compat.cli.speakers import require_usable_vector
from kaldi_compat.cli.tables import Tables
from kaldi_compat.errors import OptionError
from kaldi_compat.exact.arrays import Floats
from kaldi_compat.exact.sums import multiply_matrix_vector
from kaldi_compat.options.declaration import option

USAGE = """
Estimates an LDA transform from the vectors of utterances and their speakers. The transform is affine: it subtracts the
mean of all vectors.

Usage: ivector-compute-lda [options] <ivector-rspecifier> <utt2spk-rspecifier> <lda-wxfilename>
e.g.:  ivector-compute-lda scp:ivectors.scp ark:data/train/utt2spk transform.mat
"""


class Options(FileOptions):
    dim: int = option(100, "number of dimensions that remain", ge=1)
    total_covariance_factor: float = option(
        0.0, "0 makes the within-speaker covariance unit, 1 the total covariance; values between interpolate them"
    )
    covariance_floor: float = option(
        1e-6, "the smallest eigenvalue of the normalized covariance, relative to the largest eigenvalue", ge=0
    )


@program("ivector-compute-lda", USAGE, Options)
def main(options: Options, source: str, utt2spk: str, target: str) -> int:
    """Estimate an affine LDA transform from a table of vectors, write it to a file, and return the exit status 0."""
    vectors, speakers, num_failed, dim = dict[str, Vector](), dict[str, str](), 0, 0
    with Tables() as tables:
        blocks, table = tables.read("vector", source), tables.open_lookup("token", utt2spk)
        for block in blocks:
            for key, vector in block.entries():
                if key in vectors:
                    logger.warning("Duplicate iVector found for utterance %s, ignoring it.", key)
                    num_failed += 1
                elif not table.has_key(key):
                    logger.warning("utt2spk has no entry for utterance %s, skipping it.", key)
                    num_failed += 1
                else:
                    dim = dim or len(vector)
                    require_usable_vector(key, vector, dim, "earlier vectors have")
                    vectors[key] = vector
                    speakers[key] = table[key]
    logger.info("Read %d utterances, %d with errors.", len(vectors), num_failed)
    if not vectors:
        warning = "The vectors %s have no readable entry, so the utt2spk table %s is not used"
        if num_failed:
            warning = ("No key of the vectors %s is in the utt2spk table %s, which must have a line '<utterance> "
                       "<speaker>' for each vector")  # fmt: skip
        logger.warning(warning, source, utt2spk)
        raise OptionError("Did not read any utterances.")
    if options.dim > dim:
        raise OptionError(f"dim must be at most {dim}, the dimension of the vectors, not {options.dim}")
    logger.info("Computing within-class covariance.")
    # Kaldi adds the vectors in the order of their keys, which affects the last bits of the mean.
    keys = sorted(vectors)
    stacked = np.stack([vectors[key] for key in keys])
    lda = Lda.fit(
        stacked, [speakers[key] for key in keys], dim=options.dim,
        total_covariance_factor=options.total_covariance_factor, covariance_floor=options.covariance_floor,
    )  # fmt: skip
    offset = _compute_offset(lda.matrix[:, :-1], compute_mean(stacked))
    matrix = np.append(lda.matrix[:, :-1], offset[:, None], axis=1)
    log_verbose(2, "2-norm of transformed iVector mean is %g", compute_norm(offset))
    io_ark.save(target, matrix, kind="matrix", binary=options.binary)
    logger.info("Wrote LDA transform to %s", format_wxfilename(target))
    return 0


def _compute_offset(linear: Floats, mean: Floats) -> Floats:
    """Return ``-linear @ mean`` (out,) with the rounding errors of Kaldi's ``AddMatVec``, which show in the output.

    ``linear`` is (out, dim), and ``mean`` (dim,). OpenBLAS multiplies groups of four columns with a kernel, and adds
    the remaining one to three columns without fused products.
    """
    kernel_columns = len(mean) // 4 * 4
    product = multiply_matrix_vector(
        linear[:, :kernel_columns], mean[:kernel_columns], np.zeros(len(linear), np.float32)
    )
    for column in range(kernel_columns, len(mean)):
        product = product + linear[:, column] * mean[column]
    return 0 - product  # Unlike a minus sign, the subtraction of 0 gives 0 and not -0.
