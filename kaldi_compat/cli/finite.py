"""Warn of values that are not finite, which Kaldi's programs pass on without a message."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from io_ark.blocks import ArrayBlock
from kaldi_compat.cli.log import logger

_ADVICE = "remove the utterance, or compute its features again, with --dither=1 if its audio has digital silence"
# Messages, with ``%s`` for the key of the entry.
NEW_STATISTICS = (
    "The statistics of utterance %s hold NaN or infinite values, because its features or weights do, or exceed 1e19: "
    f"{_ADVICE}"
)
GIVEN_STATISTICS = (
    "The statistics of %s hold NaN or infinite values, and therefore the normalized features do: compute the "
    "statistics again from features without such values"
)
NORMALIZED_FEATURES = f"The normalized features of utterance %s hold NaN or infinite values: {_ADVICE}"


class FiniteCheck:
    """Logs one warning for a run of a program if values are NaN or infinite."""

    def __init__(self) -> None:
        self._has_warned = False

    def check(self, message: str, entries: Iterable[tuple[str, Any]]) -> None:
        """Check keys and arrays. This is slow, so callers first test a sum, which large finite values may overflow."""
        if self._has_warned:
            return
        for key, array in entries:
            if not np.isfinite(array).all():
                logger.warning(message, key)
                self._has_warned = True
                return

    def check_last_rows(self, block: ArrayBlock) -> None:
        """Check the last row of each matrix of a block, for a running sum that keeps values which are not finite."""
        rows = block.values.reshape(-1, block.shapes[0, 1]) if block.values.size else block.values
        ends = block.rows()[1:]
        if not self._has_warned and len(rows) and not np.isfinite(rows[ends[block.shapes[:, 0] > 0] - 1].sum()):
            self.check(NORMALIZED_FEATURES, ((key, matrix[-1:]) for key, matrix in block.entries()))
