"""add-deltas: features and how they change over time."""

from __future__ import annotations

from dataclasses import dataclass

from kaldi_compat.cli.program import program
from kaldi_compat.cli.truncate import TruncateOptions, append_to_table
from kaldi_compat.functional.deltas import add_deltas
from kaldi_compat.options.postprocessing import DeltaOptions

USAGE = """
Appends deltas, the deltas' deltas and so on to features.

Usage: add-deltas [options] <feats-rspecifier> <feats-wspecifier>
e.g.:  add-deltas scp:feats.scp ark:-
"""


@dataclass(frozen=True, kw_only=True)
class Options(DeltaOptions, TruncateOptions):
    """Options of add-deltas."""

    def __post_init__(self) -> None:
        DeltaOptions.__post_init__(self)
        TruncateOptions.__post_init__(self)


@program("add-deltas", USAGE, Options)
def main(options: Options, source: str, target: str) -> int:
    """Add deltas; success even if there is nothing to add them to, as in Kaldi."""
    return append_to_table(options, source, target, lambda feats: add_deltas(feats, options))
