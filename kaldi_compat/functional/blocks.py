"""Blocks of utterances as arguments of C functions, and as separate utterances."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat.exact.arrays import Floats, Integers


def make_c_arguments(x: Floats, bounds: Integers) -> tuple[Floats, Integers, int, int]:
    """Check the bounds of a block of utterances, and return the first arguments of the C functions for blocks.

    Args:
        x: (frames, columns): frames of all utterances.
        bounds: (utterances + 1,): first frame of each utterance, followed by the number of frames.

    Returns:
        ``x``, ``bounds``, the number of utterances, and the number of columns.

    Raises:
        ValueError: the bounds do not start with 0, decrease, or do not end with the number of frames.
    """
    if bounds[0] != 0 or bounds[-1] != len(x) or (len(bounds) > 2 and (bounds[1:] < bounds[:-1]).any()):
        raise ValueError(f"the bounds of the utterances must start with 0, never decrease, and end with {len(x)}")
    return x, bounds, len(bounds) - 1, x.shape[1]


def split_utterances(x: npt.NDArray[Any], bounds: Integers) -> list[npt.NDArray[Any]]:
    """Split ``x`` (frames, ...) into utterances at ``bounds`` (utterances + 1,)."""
    return [x[first:end] for first, end in itertools.pairwise(bounds.tolist())]


def map_utterances(x: Floats, bounds: Integers, function: Callable[[Floats], Any]) -> Floats:
    """Split ``x`` (frames, columns) at ``bounds``, apply a function to each utterance, and concatenate the results."""
    concatenated: Floats = np.concatenate(list(map(function, split_utterances(x, bounds))))
    return concatenated
