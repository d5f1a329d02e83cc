"""Programs that cut features to their first columns and append to what is left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kaldi_compat.cli.loop import Skip, convert_table
from kaldi_compat.cli.objects import Matrix
from kaldi_compat.errors import FeatureError
from kaldi_compat.options.base import option, require


@dataclass(frozen=True, kw_only=True)
class TruncateOptions:
    """What is done to features before deltas are added."""

    truncate: int = option(0, "use only this many of the features' first columns; 0 uses all")

    def __post_init__(self) -> None:
        require(self.truncate >= 0, f"--truncate={self.truncate}: must not be negative")


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
