"""Shared code of add-deltas and add-deltas-sdc: keep the first columns of features and append to them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from io_ark.blocks import ArrayBlock, Skip
from kaldi_compat.cli.loop import convert_table, features
from kaldi_compat.cli.objects import Indices, Matrix
from kaldi_compat.errors import FeatureError
from kaldi_compat.options.base import BaseOptions, option


class TruncateOptions(BaseOptions):
    """Options that apply before deltas are added."""

    truncate: int = option(0, "use only this many of the features' first columns; 0 uses all", ge=0)


def append_to_table(
    options: TruncateOptions, source: str, target: str, append: Callable[[Matrix, Indices], Matrix]
) -> int:
    """Apply a function to each matrix of a table, cut to the first ``options.truncate`` columns.

    Args:
        options: the number of columns.
        source: rspecifier of features.
        target: wspecifier of the results.
        append: takes the rows of some utterances and their boundaries (see :mod:`kaldi_compat.functional`).
    """

    def appended(block: ArrayBlock) -> ArrayBlock:
        feats = features(block)
        if feats.size == 0:
            raise Skip(f"Empty feature matrix for key {block.names()[0]}")
        if options.truncate > feats.shape[1]:
            raise FeatureError(
                f"Cannot truncate features as dimension {feats.shape[1]} is smaller than --truncate={options.truncate}"
            )
        if options.truncate:
            feats = np.ascontiguousarray(feats[:, : options.truncate])
        return block.with_rows(append(feats, block.rows()))

    convert_table(appended, "matrix", source, target, output_first=True)
    return 0
