"""Shared code of the programs that combine entries of several tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kaldi_compat.cli.log import vlog
from kaldi_compat.cli.loop import Skip
from kaldi_compat.cli.objects import Matrix

__all__ = ["common_length", "missing", "pasted"]


def missing(key: str, name: str) -> str:
    """Return Kaldi's warning for an utterance that one of several inputs lacks."""
    return f"Missing utt {key} from input {name}"


def common_length(lengths: Sequence[int], tolerance: int, key: str = "") -> int:
    """Return the smallest of several lengths.

    Raises:
        Skip: the lengths differ by more than the tolerance, or one is zero.
    """
    shortest, longest = min(lengths), max(lengths)
    mismatch = f"Length mismatch {longest} vs. {shortest}" + (f" for utt {key}" if key else "")
    if longest - shortest > tolerance or shortest == 0:
        raise Skip(f"{mismatch} exceeds tolerance {tolerance}")
    if longest > shortest:
        vlog(2, "%s within tolerance %d", mismatch, tolerance)
    return shortest


def pasted(parts: Sequence[Matrix], tolerance: int, key: str = "") -> Matrix:
    """Concatenate the columns of matrices, cut to the rows of the shortest one.

    Raises:
        Skip: the numbers of rows differ by more than the tolerance, or a matrix has no rows.
    """
    shortest = common_length(list(map(len, parts)), tolerance, key)
    return np.concatenate([part[:shortest] for part in parts], axis=1)
