"""Blocks as C takes them, and as utterances one by one."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat.exact.arrays import Floats, Integers


def for_c(x: Floats, bounds: Integers) -> tuple[Floats, Integers, int, int]:
    """Return the first arguments of most functions: features, boundaries, and the numbers of utterances and columns."""
    if bounds[0] != 0 or bounds[-1] != len(x) or (len(bounds) > 2 and (bounds[1:] < bounds[:-1]).any()):
        raise ValueError(f"the boundaries of utterances do not belong to {len(x)} rows")
    return x, bounds, len(bounds) - 1, x.shape[1]


def utterances(x: npt.NDArray[Any], bounds: Integers) -> list[npt.NDArray[Any]]:
    """Return the frames of each utterance."""
    return [x[first:end] for first, end in itertools.pairwise(bounds.tolist())]


def by_utterance(x: Floats, bounds: Integers, function: Callable[[Floats], Any]) -> Floats:
    """Return the results of a function for each utterance, one after the other."""
    joined: Floats = np.concatenate([function(each) for each in utterances(x, bounds)])
    return joined
