"""Warn of values that are not finite, which Kaldi's programs pass on without a message."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from io_ark.blocks import ArrayBlock
from kaldi_compat.cli.log import logger

_ADVICE = "remove the utterance, or compute its features again, with --dither=1 if its audio has digital silence"


class FiniteCheck:
    """Logs one warning for a table if values of an entry are NaN or infinite.

    Args:
        message: what the values are, with ``%s`` for the key of the entry.
    """

    def __init__(self, message: str) -> None:
        self._message = message
        self._has_warned = False

    def check(self, entries: Iterable[tuple[str, Any]]) -> None:
        """Check keys and arrays. The sum of an array is not finite if a value is not."""
        if self._has_warned:
            return
        for key, array in entries:
            if not np.isfinite(array.sum()):
                logger.warning(f"{self._message}: {_ADVICE}", key)
                self._has_warned = True
                return

    def check_last_rows(self, block: ArrayBlock) -> None:
        """Check the last row of each matrix of a block, for a running sum that keeps values which are not finite."""
        rows = block.values.reshape(-1, block.shapes[0, 1]) if block.values.size else block.values
        ends = block.rows()[1:]
        if not self._has_warned and len(rows) and not np.isfinite(rows[ends[block.shapes[:, 0] > 0] - 1].sum()):
            self.check((key, matrix[-1:]) for key, matrix in block.entries())
