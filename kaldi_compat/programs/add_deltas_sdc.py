"""add-deltas-sdc: append shifted delta cepstra to features."""

from kaldi_compat.cli.program import program
from kaldi_compat.cli.truncate import TruncateOptions, append_columns
from kaldi_compat.functional.block_deltas import append_shifted_deltas
from kaldi_compat.options.postprocessing import ShiftedDeltaOptions

USAGE = """
Appends shifted delta cepstra to features. These are the deltas at each frame and at several later frames.

Usage: add-deltas-sdc [options] <feats-rspecifier> <feats-wspecifier>
e.g.:  add-deltas-sdc scp:feats.scp ark:-
"""


class Options(ShiftedDeltaOptions, TruncateOptions):
    """Options of add-deltas-sdc."""


@program("add-deltas-sdc", USAGE, Options)
def main(options: Options, source: str, target: str) -> int:
    """Append shifted deltas to a table of features. As in Kaldi, the exit status is 0 even for an empty table."""
    return append_columns(options, source, target, lambda feats, bounds: append_shifted_deltas(feats, bounds, options))
