"""Shared code of add-deltas and add-deltas-sdc: keep the first columns of features and append to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kaldi_compat.cli.loop import Skip, convert_table
from kaldi_compat.cli.objects import Matrix
from kaldi_compat.errors import FeatureError
from kaldi_compat.options.base import BaseOptions, option

__all__ = ["TruncateOptions", "append_to_table"]


@dataclass(frozen=True, kw_only=True)
class TruncateOptions(BaseOptions):
    """Options that apply before deltas are added."""

    truncate: int = option(0, "use only this many of the features' first columns; 0 uses all", ge=0)


def append_to_table(options: TruncateOptions, source: str, target: str, append: Callable[[Matrix], Matrix]) -> int:
    """Apply ``append`` to each matrix of a table, cut to the first ``options.truncate`` columns."""

    def appended(key: str, feats: Matrix) -> Matrix:
        if len(feats) == 0:
            raise Skip(f"Empty feature matrix for key {key}")
        if options.truncate > feats.shape[1]:
            raise FeatureError(
                f"Cannot truncate features as dimension {feats.shape[1]} is smaller than --truncate={options.truncate}"
            )
        return append(feats[:, : options.truncate] if options.truncate else feats)

    convert_table("matrix", source, target, appended, output_first=True)
    return 0
