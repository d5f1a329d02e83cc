"""post-to-feats: posteriors as a matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from io_ark.codecs.posterior import Posterior
from kaldi_compat.errors import FeatureError
from kaldi_compat.options import option, require
from kaldi_compat.programs.log import logger
from kaldi_compat.programs.loop import convert
from kaldi_compat.programs.objects import Matrix
from kaldi_compat.programs.program import ERROR_STATUS, program

USAGE = """
Writes posteriors as features: a column for each class, zero where nothing is said.

Usage: post-to-feats [options] <posterior-rspecifier> <feats-wspecifier>
   or: post-to-feats [options] <posterior-rxfilename> <feats-wxfilename>
e.g.:  post-to-feats --post-dim=50 ark:post.ark ark:feat.ark
"""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of the programs that turn posteriors into features."""

    binary: bool = option(True, "write a single file in binary (a table's wspecifier says so itself)")
    post_dim: int = option(0, "number of classes; must be given")


@program("post-to-feats", USAGE, Options)
def main(options: Options, source: str, target: str) -> int:
    """Convert a table, or a single file."""
    require_post_dim(options)
    counts = convert(
        "posterior",
        source,
        target,
        lambda _, posterior: posterior_matrix(posterior, options.post_dim),
        binary=options.binary,
        kind_out="matrix",
    )
    logger.info("Done %d utts, errors on %d", counts.done, counts.failed)
    return 0 if counts.done else ERROR_STATUS


def require_post_dim(options: Options) -> None:
    """Raise OptionError unless the number of classes was given."""
    require(options.post_dim > 0, "the number of classes must be given: --post-dim=D")


def posterior_matrix(posterior: Posterior, num_classes: int) -> Matrix:
    """A posterior as ``(frames, classes)``; of a class that a frame names twice, the last weight counts.

    Raises:
        FeatureError: a class is out of range.
    """
    matrix = np.zeros((len(posterior), num_classes), np.float32)
    for row, frame in zip(matrix, posterior, strict=True):
        for index, weight in frame:
            if not 0 <= index < num_classes:
                raise FeatureError(f"the posterior of class {index} does not fit --post-dim={num_classes}")
            row[index] = weight
    return matrix
