"""splice-feats: concatenate each frame with its neighbors."""

from io_ark.blocks import ArrayBlock
from kaldi_compat.cli.loop import convert_table, stack_rows
from kaldi_compat.cli.program import program
from kaldi_compat.errors import FeatureError
from kaldi_compat.functional import columns
from kaldi_compat.options.postprocessing import SpliceOptions

USAGE = """
Concatenates each frame with frames to its left and right, e.g. for LDA. The first and last frame are repeated.

Usage: splice-feats [options] <feats-rspecifier> <feats-wspecifier>
e.g.:  splice-feats scp:feats.scp ark:-
"""


@program("splice-feats", USAGE, SpliceOptions)
def main(options: SpliceOptions, source: str, target: str) -> int:
    """Concatenate each frame of a table with its neighbors. As in Kaldi, the exit status is always 0."""

    def splice_frames(block: ArrayBlock) -> ArrayBlock:
        """Concatenate each frame with its neighbors in the same utterance. Raise FeatureError for empty features."""
        feats = stack_rows(block)
        if feats.size == 0:
            raise FeatureError("there are no frames to splice: remove the utterance")
        return block.with_rows(columns.splice_block(feats, block.compute_row_bounds(), options))

    convert_table(splice_frames, "matrix", source, target, output_first=True)
    return 0
