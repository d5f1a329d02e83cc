"""Append columns to the first columns of features, for add-deltas and add-deltas-sdc."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from io_ark.blocks import ArrayBlock, Skip
from kaldi_compat.cli.loop import convert_table, stack_rows
from kaldi_compat.cli.objects import Indices, Matrix
from kaldi_compat.errors import FeatureError
from kaldi_compat.options.base import BaseOptions
from kaldi_compat.options.declaration import option


class TruncateOptions(BaseOptions):
    """Options that apply before deltas are added."""

    truncate: int = option(0, "use only this many of the features' first columns; 0 uses all", ge=0)


def append_columns(
    options: TruncateOptions, source: str, target: str, append: Callable[[Matrix, Indices], Matrix]
) -> int:
    """Cut each matrix of a table to its first ``options.truncate`` columns, unless it is 0, and append columns.

    Empty matrices are skipped with a warning. Return the exit status 0.

    Args:
        options: options of the program.
        source: rspecifier of features.
        target: wspecifier of the results.
        append: function from the rows of several utterances and their boundaries (see :mod:`kaldi_compat.functional`)
            to the rows with appended columns.

    Raises:
        FeatureError: a matrix has fewer than ``options.truncate`` columns.
    """

    def append_to_block(block: ArrayBlock) -> ArrayBlock:
        """Truncate the columns of the matrices of a block, and append columns."""
        feats = stack_rows(block)
        if feats.size == 0:
            raise Skip(f"Empty feature matrix for key {block.decode_keys()[0]}")
        if options.truncate > feats.shape[1]:
            raise FeatureError(
                f"Cannot truncate features as dimension {feats.shape[1]} is smaller than --truncate={options.truncate}"
            )
        if options.truncate:
            feats = np.ascontiguousarray(feats[:, : options.truncate])
        return block.with_rows(append(feats, block.compute_row_bounds()))

    convert_table(append_to_block, "matrix", source, target, output_first=True)
    return 0
