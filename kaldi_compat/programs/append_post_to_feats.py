"""append-post-to-feats: append posteriors to features."""

from functools import partial

import io_ark
from io_ark.blocks import ArrayBlock, PosteriorArrays, Skip
from io_ark.codecs import PosteriorArraysCodec
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import convert_file, map_table, stack_rows
from kaldi_compat.cli.paste import log_status
from kaldi_compat.cli.posteriors import PosteriorOptions, append_posterior, require_post_dim
from kaldi_compat.cli.program import program
from kaldi_compat.cli.tables import Tables

USAGE = """
Appends posteriors to features. Each class becomes a column, which is zero where a frame does not list the class.

Usage: append-post-to-feats [options] <feats-rspecifier> <posterior-rspecifier> <feats-wspecifier>
   or: append-post-to-feats [options] <feats-rxfilename> <posterior-rxfilename> <feats-wxfilename>
e.g.:  append-post-to-feats --post-dim=50 ark:input.ark scp:post.scp ark:output.ark
"""


@program("append-post-to-feats", USAGE, PosteriorOptions)
def main(options: PosteriorOptions, source: str, posteriors: str, target: str) -> int:
    """Append posteriors to a table or file of features. Return 255 for a table without output, otherwise 0."""
    require_post_dim(options)
    codec = PosteriorArraysCodec()
    if not io_ark.is_table_rspecifier(source):
        feats, posterior = io_ark.load(source, kind="matrix"), io_ark.load(posteriors, kind=codec)
        append_one = partial(append_posteriors, posteriors=[posterior], num_classes=options.post_dim)
        convert_file(append_one, feats, source, target, binary=options.binary)
        logger.info("Wrote appended features to %s", target)
        return 0
    with Tables() as tables:
        blocks, table = tables.read("matrix", source), tables.open_lookup(codec, posteriors)
        writer = tables.open_writer("matrix", target)

        def append_to_block(block: ArrayBlock) -> ArrayBlock:
            """Look up the posteriors of the utterances of a block, and append them to the features."""
            values = table.require_values(block, "Could not read posteriors for utterance {}".format)
            return append_posteriors(block, values, options.post_dim)

        counts = map_table(blocks, writer, append_to_block)
    return log_status(counts)


def append_posteriors(block: ArrayBlock, posteriors: list[PosteriorArrays], num_classes: int) -> ArrayBlock:
    """Append the posterior of each class as a column to the features of each utterance.

    ``posteriors`` has the posteriors of each utterance, and ``num_classes`` is the number of appended columns.

    Raises:
        Skip: the features and the posteriors of an utterance have different numbers of frames.
        FeatureError: a class is out of range.
    """
    feats = stack_rows(block)
    if [len(posterior.counts) for posterior in posteriors] != block.shapes[:, 0].tolist():
        raise Skip(f"Mismatch of length! features: {len(feats)} posteriors: {len(posteriors[0].counts)}")
    return block.with_rows(append_posterior(feats, PosteriorArrays.concatenate(posteriors), num_classes))
