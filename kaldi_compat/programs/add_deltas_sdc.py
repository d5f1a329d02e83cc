"""add-deltas-sdc: features and their shifted deltas."""

from __future__ import annotations

from dataclasses import dataclass

from kaldi_compat.cli.program import program
from kaldi_compat.cli.truncate import TruncateOptions, append_to_table
from kaldi_compat.functional.deltas import add_shifted_deltas
from kaldi_compat.options.postprocessing import ShiftedDeltaOptions

USAGE = """
Appends shifted delta cepstra to features: the deltas at this frame and at several frames further on.

Usage: add-deltas-sdc [options] <feats-rspecifier> <feats-wspecifier>
e.g.:  add-deltas-sdc scp:feats.scp ark:-
"""


@dataclass(frozen=True, kw_only=True)
class Options(ShiftedDeltaOptions, TruncateOptions):
    """Options of add-deltas-sdc."""

    def __post_init__(self) -> None:
        ShiftedDeltaOptions.__post_init__(self)
        TruncateOptions.__post_init__(self)


@program("add-deltas-sdc", USAGE, Options)
def main(options: Options, source: str, target: str) -> int:
    """Add shifted deltas; success even if there is nothing to add them to, as in Kaldi."""
    return append_to_table(options, source, target, lambda feats: add_shifted_deltas(feats, options))
