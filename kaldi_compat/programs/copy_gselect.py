"""copy-gselect: copy lists of selected Gaussians."""

from io_ark.blocks import Block, PosteriorBlock
from io_ark.codecs import IntListsCodec
from kaldi_compat.cli.alignments import limit_pairs, map_parts, replace_posteriors
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.loop import map_table, pack_if_possible
from kaldi_compat.cli.program import program
from kaldi_compat.cli.tables import Tables
from kaldi_compat.options.base import BaseOptions
from kaldi_compat.options.declaration import option

USAGE = """
Copies the indices of the Gaussians that were selected for each frame. The best Gaussian comes first, and --n shortens
the lists.

Usage: copy-gselect [options] <gselect-rspecifier> <gselect-wspecifier>
e.g.:  copy-gselect --n=10 ark:1.gsel ark:2.gsel
"""


class Options(BaseOptions):
    n: int = option(0, "Gaussians to keep in each frame; 0 keeps all", ge=0)


@program("copy-gselect", USAGE, Options)
def main(options: Options, source: str, target: str) -> int:
    """Copy a table of lists of Gaussians, shortened if --n is set. Return 0 if an entry is written, otherwise 1."""
    codec = IntListsCodec()
    with Tables() as tables:
        blocks, writer = tables.read(codec, source), tables.open_writer(codec, target)

        def shorten_lists(block: PosteriorBlock) -> Block:
            """Shorten lists to their first --n integers. Without --n, return all lists packed, for faster writing."""
            if not options.n:
                return pack_if_possible(block, writer)
            return replace_posteriors(block, map_parts(lambda part: limit_pairs(options.n, part), block.posteriors))

        counts = map_table(blocks, writer, shorten_lists)
    limited = f",  limiting sizes to {options.n}" if options.n else " "
    logger.info("Copied %d gselect objects%s", counts.done, limited)
    return counts.status
