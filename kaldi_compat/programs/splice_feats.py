"""splice-feats: each frame beside its neighbours."""

from __future__ import annotations

from kaldi_compat.cli.loop import convert_table
from kaldi_compat.cli.objects import Matrix
from kaldi_compat.cli.program import program
from kaldi_compat.errors import FeatureError
from kaldi_compat.functional.splice import splice
from kaldi_compat.options.postprocessing import SpliceOptions

USAGE = """
Puts the frames to the left and right of each frame beside it, for LDA for example; the frames at the edges repeat.

Usage: splice-feats [options] <feats-rspecifier> <feats-wspecifier>
e.g.:  splice-feats scp:feats.scp ark:-
"""


@program("splice-feats", USAGE, SpliceOptions)
def main(options: SpliceOptions, source: str, target: str) -> int:
    """Splice a table; success even if it is empty, as in Kaldi."""

    def spliced(key: str, feats: Matrix) -> Matrix:
        if feats.size == 0:
            raise FeatureError("there are no frames to splice")
        return splice(feats, options)

    convert_table("matrix", source, target, spliced)
    return 0
