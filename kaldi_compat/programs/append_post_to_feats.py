"""append-post-to-feats: posteriors beside features."""

from __future__ import annotations

import numpy as np

import io_ark
from io_ark.codecs.posterior import Posterior
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import Skip, beside, convert, convert_table
from kaldi_compat.cli.objects import Matrix
from kaldi_compat.cli.posteriors import PosteriorOptions, posterior_matrix, require_post_dim
from kaldi_compat.cli.program import ERROR_STATUS, program

USAGE = """
Appends posteriors to features: a column for each class, zero where nothing is said.

Usage: append-post-to-feats [options] <feats-rspecifier> <posterior-rspecifier> <feats-wspecifier>
   or: append-post-to-feats [options] <feats-rxfilename> <posterior-rxfilename> <feats-wxfilename>
e.g.:  append-post-to-feats --post-dim=50 ark:input.ark scp:post.scp ark:output.ark
"""


@program("append-post-to-feats", USAGE, PosteriorOptions)
def main(options: PosteriorOptions, source: str, posteriors: str, target: str) -> int:
    """Append to a table, or to a single file."""
    require_post_dim(options)
    if not io_ark.is_table_rspecifier(source):
        posterior: Posterior = io_ark.read_object("posterior", posteriors)
        convert(
            "matrix",
            source,
            target,
            lambda key, feats: appended(key, feats, posterior, options.post_dim),
            binary=options.binary,
        )
        logger.info("Wrote appended features to %s", target)
        return 0
    with io_ark.RandomAccessReader[Posterior]("posterior", posteriors) as reader:
        counts = convert_table(
            "matrix",
            source,
            target,
            lambda key, feats: appended(key, feats, beside(key, posteriors, reader), options.post_dim),
        )
    logger.info("Done %d utts, errors on %d", counts.done, counts.failed)
    return 0 if counts.done else ERROR_STATUS


def appended(key: str, feats: Matrix, posterior: Posterior, num_classes: int) -> Matrix:
    """The features with a column for each class.

    Raises:
        Skip: the numbers of frames differ.
        FeatureError: a class is out of range.
    """
    if len(feats) != len(posterior):
        where = f" for utterance {key}" if key else ""
        raise Skip(f"{len(feats)} frames of features, but {len(posterior)} of posteriors{where}")
    return np.concatenate((feats, posterior_matrix(posterior, num_classes)), axis=1)
