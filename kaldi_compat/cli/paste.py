"""Paste features side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kaldi_compat.cli.log import vlog
from kaldi_compat.cli.loop import Skip
from kaldi_compat.cli.objects import Matrix


def pasted(parts: Sequence[Matrix], tolerance: int, key: str = "") -> Matrix:
    """Matrices side by side, cut to the shortest one's rows.

    Raises:
        Skip: their numbers of rows differ by more than the tolerance, or one has none.
    """
    shortest, longest = min(map(len, parts)), max(map(len, parts))
    difference = f"{longest} and {shortest} frames" + (f" in utterance {key}" if key else "")
    if longest - shortest > tolerance or shortest == 0:
        raise Skip(f"Cannot paste {difference}: the tolerance is {tolerance}")
    if longest > shortest:
        vlog(2, "Cutting %s to the shorter", difference)
    return np.concatenate([part[:shortest] for part in parts], axis=1)
