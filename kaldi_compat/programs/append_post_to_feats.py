"""append-post-to-feats: append posteriors to features."""

from __future__ import annotations

import numpy as np

import io_ark
from io_ark.blocks import PosteriorArrays
from io_ark.codecs.blocks import ArrayBlock
from io_ark.codecs.posterior import PosteriorArraysCodec
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import BlockTable, LookupReader, Skip, Table, convert, convert_table, lookup
from kaldi_compat.cli.objects import Matrix
from kaldi_compat.cli.posteriors import PosteriorOptions, append_posterior, require_post_dim
from kaldi_compat.cli.program import ERROR_STATUS, program
from kaldi_compat.errors import FeatureError

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
        posterior: PosteriorArrays = io_ark.read_object(PosteriorArraysCodec(), posteriors)
        convert(
            "matrix",
            source,
            target,
            lambda _, feats: appended(feats, posterior, options.post_dim),
            binary=options.binary,
        )
        logger.info("Wrote appended features to %s", target)
        return 0
    with LookupReader[PosteriorArrays](PosteriorArraysCodec(), posteriors) as reader:
        table = BlockTable(reader)

        def of_block(block: ArrayBlock) -> ArrayBlock | None:
            feats, found = block.matrix(), table.values(block.names())
            if feats is None or found is None:
                return None
            if not np.array_equal([len(each.counts) for each in found], block.shapes[:, 0]):
                return None
            try:
                return block.with_rows(append_posterior(feats, PosteriorArrays.joined(found), options.post_dim))
            except FeatureError:  # raised again at its utterance
                return None

        counts = convert_table(
            "matrix",
            source,
            target,
            lambda key, feats: appended(feats, find(key, table), options.post_dim),
            block_function=of_block,
        )
    logger.info("Done %d utts, errors on %d", counts.done, counts.failed)
    return 0 if counts.done else ERROR_STATUS


def find(key: str, posteriors: Table[PosteriorArrays]) -> PosteriorArrays:
    """Return the posteriors of an utterance.

    Raises:
        Skip: there are none.
    """
    return lookup(key, posteriors, f"Could not read posteriors for utterance {key}")


def appended(feats: Matrix, posterior: PosteriorArrays, num_classes: int) -> Matrix:
    """Append one column per class to features.

    Raises:
        Skip: the numbers of frames differ.
        FeatureError: a class is out of range.
    """
    if len(feats) != len(posterior.counts):
        raise Skip(f"Mismatch of length! features: {len(feats)} posteriors: {len(posterior.counts)}")
    return append_posterior(feats, posterior, num_classes)
