"""scale-post: scale posteriors by one number, or by a number for each utterance."""

import numpy as np

import io_ark
from io_ark.blocks import PosteriorBlock
from io_ark.codecs import PosteriorArraysCodec
from kaldi_compat.cli.alignments import parse_number, replace_posteriors, scale_posteriors
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import map_table
from kaldi_compat.cli.program import NoOptions, program
from kaldi_compat.cli.tables import Tables

USAGE = """
Scales posteriors by one number, or by a number for each utterance. A scale of 0 removes all entries.

Usage: scale-post [options] <posteriors-rspecifier> (<scale-rspecifier>|<scale>) <posteriors-wspecifier>
e.g.:  scale-post ark:1.post 0.5 ark:2.post
"""


@program("scale-post", USAGE)
def main(options: NoOptions, source: str, scale: str, target: str) -> int:
    """Scale a table of posteriors by the number or the table ``scale``. Return 0 if an entry is written, else 1."""
    scalar = None
    if not io_ark.is_table_rspecifier(scale):
        scalar = parse_number(scale, f"Bad second argument {scale} (expected scale or scale rspecifier)")
    with Tables() as tables:
        blocks = tables.read(PosteriorArraysCodec(), source)
        table = tables.open_lookup("float", scale) if scalar is None else None
        writer = tables.open_writer(PosteriorArraysCodec(), target)

        def scale_block(block: PosteriorBlock) -> PosteriorBlock:
            """Scale the posteriors of each utterance by its factor in the table, or by the factor of all utterances."""
            # The warning about a missing factor is empty, so that nothing is logged.
            factors = [scalar] * len(block) if table is None else table.require_values(block, lambda key: "")
            factors_of_frames = np.repeat(np.array(factors, np.float32), block.frames)
            return replace_posteriors(block, scale_posteriors(block.posteriors, factors_of_frames))

        counts = map_table(blocks, writer, scale_block)
    logger.info("Done %d posteriors;  %d had no scales.", counts.done, counts.failed)
    return counts.status
