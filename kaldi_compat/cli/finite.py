"""Warn of values that are not finite, which Kaldi's programs pass on without a message."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from io_ark.blocks import ArrayBlock
from kaldi_compat.cli.log import logger
from kaldi_compat.cli.objects import Indices, Matrix

_ADVICE = "remove the utterance, or compute its features again, with --dither=1 if its audio has digital silence"
# Messages, with ``%s`` for the key of the entry.
NEW_STATISTICS = (
    "The statistics of utterance %s contain NaN or infinite values, because its features or weights do, "
    f"or exceed 1e19: {_ADVICE}"
)
GIVEN_STATISTICS = (
    "The statistics of %s contain NaN or infinite values, and therefore the normalized features do: compute the "
    "statistics again from features without such values"
)
NORMALIZED_FEATURES = f"The normalized features of utterance %s contain NaN or infinite values: {_ADVICE}"


class FiniteCheck:
    """Logs one warning for a run of a program if values are NaN or infinite."""

    def __init__(self) -> None:
        self._has_warned = False

    def check_arrays(self, message: str, entries: Iterable[tuple[str, Any]]) -> None:
        """Log a warning for the first array that is not finite, unless a warning was logged before.

        This check is slow, so callers run it only if the sum of all values is not finite, which may be an overflow.
        ``message`` contains ``%s`` for the key. ``entries`` yields pairs of a key and an array.
        """
        if self._has_warned:
            return
        for key, array in entries:
            if not np.isfinite(array).all():
                logger.warning(message, key)
                self._has_warned = True
                return

    def check_last_rows(self, block: ArrayBlock, rows: Matrix, bounds: Indices) -> None:
        """Log a warning if the last row of a matrix is not finite, unless a warning was logged before.

        The rows must come from running sums, so that NaN or infinity in a row also appears in all later rows.

        Args:
            block: the matrices. In a block of several matrices, none may be empty.
            rows: all rows of the matrices, (rows, columns).
            bounds: boundaries of the matrices, (entries + 1,): matrix ``m`` has rows ``bounds[m]`` to
                ``bounds[m + 1] - 1``.
        """
        if rows.size and not math.isfinite((last_rows := rows.take(bounds[1:] - 1, axis=0)).sum()):
            self.check_arrays(NORMALIZED_FEATURES, zip(block.decode_keys(), last_rows, strict=True))
