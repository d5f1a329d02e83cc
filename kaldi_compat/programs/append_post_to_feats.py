"""append-post-to-feats: append posteriors to features."""

from __future__ import annotations

import numpy as np

import io_ark
from io_ark.codecs.posterior import Posterior
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import LookupReader, Skip, Table, convert, convert_table, lookup
from kaldi_compat.cli.objects import Matrix
from kaldi_compat.cli.posteriors import PosteriorOptions, posterior_matrix, require_post_dim
from kaldi_compat.cli.program import ERROR_STATUS, program

USAGE = """
Appends posteriors to features: one column per class, zero where a frame does not list the class.

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
            lambda _, feats: appended(feats, posterior, options.post_dim),
            binary=options.binary,
        )
        logger.info("Wrote appended features to %s", target)
        return 0
    with LookupReader[Posterior]("posterior", posteriors) as reader:
        counts = convert_table(
            "matrix",
            source,
            target,
            lambda key, feats: appended(feats, find(key, reader), options.post_dim),
        )
    logger.info("Done %d utts, errors on %d", counts.done, counts.failed)
    return 0 if counts.done else ERROR_STATUS


def find(key: str, posteriors: Table[Posterior]) -> Posterior:
    """Return the posteriors of an utterance.

    Raises:
        Skip: there are none.
    """
    return lookup(key, posteriors, f"Could not read posteriors for utterance {key}")


def appended(feats: Matrix, posterior: Posterior, num_classes: int) -> Matrix:
    """Append one column per class to features.

    Raises:
        Skip: the numbers of frames differ.
        FeatureError: a class is out of range.
    """
    if len(feats) != len(posterior):
        raise Skip(f"Mismatch of length! features: {len(feats)} posteriors: {len(posterior)}")
    return np.concatenate((feats, posterior_matrix(posterior, num_classes)), axis=1)
