"""post-to-feats: posteriors as a matrix."""

from __future__ import annotations

from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import convert
from kaldi_compat.cli.posteriors import PosteriorOptions, posterior_matrix, require_post_dim
from kaldi_compat.cli.program import ERROR_STATUS, program

USAGE = """
Writes posteriors as features: a column for each class, zero where nothing is said.

Usage: post-to-feats [options] <posterior-rspecifier> <feats-wspecifier>
   or: post-to-feats [options] <posterior-rxfilename> <feats-wxfilename>
e.g.:  post-to-feats --post-dim=50 ark:post.ark ark:feat.ark
"""


@program("post-to-feats", USAGE, PosteriorOptions)
def main(options: PosteriorOptions, source: str, target: str) -> int:
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
