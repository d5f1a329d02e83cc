"""add-deltas: features and how they change over time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kaldi_compat.deltas import add_deltas
from kaldi_compat.errors import FeatureError
from kaldi_compat.options import DeltaOptions, option, require
from kaldi_compat.programs.loop import Skip, convert_table
from kaldi_compat.programs.objects import Matrix
from kaldi_compat.programs.program import program

USAGE = """
Appends deltas, the deltas' deltas and so on to features.

Usage: add-deltas [options] <feats-rspecifier> <feats-wspecifier>
e.g.:  add-deltas scp:feats.scp ark:-
"""


@dataclass(frozen=True, kw_only=True)
class TruncateOptions:
    """What is done to features before deltas are added."""

    truncate: int = option(0, "use only this many of the features' first columns; 0 uses all")

    def __post_init__(self) -> None:
        require(self.truncate >= 0, f"--truncate={self.truncate}: must not be negative")


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


def append_to_table(options: TruncateOptions, source: str, target: str, append: Callable[[Matrix], Matrix]) -> int:
    """Apply ``append`` to each matrix of a table, cut to the wanted columns."""

    def appended(key: str, feats: Matrix) -> Matrix:
        if len(feats) == 0:
            raise Skip(f"Empty feature matrix for key {key}")
        if options.truncate > feats.shape[1]:
            raise FeatureError(f"cannot cut features of dimension {feats.shape[1]} to --truncate={options.truncate}")
        return append(feats[:, : options.truncate] if options.truncate else feats)

    convert_table("matrix", source, target, appended)
    return 0
