"""post-to-feats: convert posteriors to matrices."""

import numpy as np

import io_ark
from io_ark.blocks import ArrayBlock, PosteriorBlock
from io_ark.codecs import PosteriorArraysCodec
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import convert_table_or_file
from kaldi_compat.cli.posteriors import PosteriorOptions, make_posterior_matrix, require_post_dim
from kaldi_compat.cli.program import ERROR_STATUS, program

USAGE = """
Converts posteriors to features. Each class becomes a column, which is zero where a frame does not list the class.

Usage: post-to-feats [options] <posterior-rspecifier> <feats-wspecifier>
   or: post-to-feats [options] <posterior-rxfilename> <feats-wxfilename>
e.g.:  post-to-feats --post-dim=50 ark:post.ark ark:feat.ark
"""


@program("post-to-feats", USAGE, PosteriorOptions)
def main(options: PosteriorOptions, source: str, target: str) -> int:
    """Convert a table or a file of posteriors to matrices. The exit status is 0 if there is a result, otherwise 255."""
    require_post_dim(options)

    def convert_block(block: PosteriorBlock) -> ArrayBlock:
        """Convert the posteriors of each utterance to a matrix (frames, classes)."""
        rows = make_posterior_matrix(block.posteriors, options.post_dim)
        shapes = np.stack((block.frames, np.full(len(block), options.post_dim)), axis=1)
        return ArrayBlock(block.keys, rows.reshape(-1), shapes)

    counts = convert_table_or_file(
        convert_block, PosteriorArraysCodec(), source, target, binary=options.binary, kind_out="matrix"
    )
    if io_ark.is_table_wspecifier(target):
        logger.info("Done %d utts, errors on %d", counts.done, counts.failed)
    else:
        logger.info("Wrote posteriors as feature-matrix to %s", target)
    return 0 if counts.done else ERROR_STATUS
