"""add-deltas: append deltas to features."""

from kaldi_compat.cli.program import program
from kaldi_compat.cli.truncate import TruncateOptions, append_columns
from kaldi_compat.functional.block_deltas import append_deltas
from kaldi_compat.options.postprocessing import DeltaOptions

USAGE = """
Appends deltas of first and higher order to features.

Usage: add-deltas [options] <feats-rspecifier> <feats-wspecifier>
e.g.:  add-deltas scp:feats.scp ark:-
"""


class Options(DeltaOptions, TruncateOptions):
    """Options of add-deltas."""


@program("add-deltas", USAGE, Options)
def main(options: Options, source: str, target: str) -> int:
    """Append deltas to a table of features. As in Kaldi, the exit status is 0 even for an empty table."""
    return append_columns(options, source, target, lambda feats, bounds: append_deltas(feats, bounds, options))
