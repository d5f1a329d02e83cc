"""copy-post: copy posteriors, optionally scaled."""

from io_ark.blocks import Block, PosteriorBlock
from io_ark.codecs import PosteriorArraysCodec
from kaldi_compat.cli.alignments import replace_posteriors, scale_posteriors
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import map_table, pack_if_possible
from kaldi_compat.cli.program import program
from kaldi_compat.cli.tables import Tables
from kaldi_compat.options.base import BaseOptions
from kaldi_compat.options.declaration import option

USAGE = """
Copies tables of posteriors, optionally scaled.

Usage: copy-post [options] <post-rspecifier> <post-wspecifier>
e.g.:  copy-post --scale=0.5 ark:1.post ark,t:-
"""


class Options(BaseOptions):
    scale: float = option(1.0, "factor on the posteriors; 0 removes them")


@program("copy-post", USAGE, Options)
def main(options: Options, source: str, target: str) -> int:
    """Copy a table of posteriors, scaled if --scale is set. Return 0 if an utterance is written, otherwise 1."""
    codec = PosteriorArraysCodec()
    with Tables() as tables:
        blocks, writer = tables.read(codec, source), tables.open_writer(codec, target)

        def scale_block(block: PosteriorBlock) -> Block:
            """Scale the posteriors of a block. For a scale of 1, return them packed, for faster writing."""
            if options.scale == 1.0:
                return pack_if_possible(block, writer)
            return replace_posteriors(block, scale_posteriors(block.posteriors, options.scale))

        counts = map_table(blocks, writer, scale_block)
    logger.info("Done copying %d posteriors.", counts.done)
    return counts.status
