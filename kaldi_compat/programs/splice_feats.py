"""splice-feats: concatenate each frame with its neighbours."""

from __future__ import annotations

from io_ark.codecs.blocks import ArrayBlock
from kaldi_compat.cli.loop import convert_table
from kaldi_compat.cli.objects import Matrix
from kaldi_compat.cli.program import program
from kaldi_compat.errors import FeatureError
from kaldi_compat.exact import ragged
from kaldi_compat.functional.splice import splice
from kaldi_compat.options.postprocessing import SpliceOptions

USAGE = """
Concatenates each frame with frames to its left and right, e.g. for LDA. The first and last frame are repeated.

Usage: splice-feats [options] <feats-rspecifier> <feats-wspecifier>
e.g.:  splice-feats scp:feats.scp ark:-
"""


@program("splice-feats", USAGE, SpliceOptions)
def main(options: SpliceOptions, source: str, target: str) -> int:
    """Splice a table. As in Kaldi, the status is 0 even for an empty table."""

    def spliced(key: str, feats: Matrix) -> Matrix:
        if feats.size == 0:
            raise FeatureError("there are no frames to splice")
        return splice(feats, options)

    def of_block(block: ArrayBlock) -> ArrayBlock | None:
        feats = block.matrix()
        return None if feats is None else block.with_rows(ragged.spliced(feats, block.rows(), options))

    convert_table("matrix", source, target, spliced, output_first=True, block_function=of_block)
    return 0
