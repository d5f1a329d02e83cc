"""Refuse masked arrays, whose masks NumPy drops silently."""

from __future__ import annotations

import numpy as np

from io_ark.errors import FormatError

_COMMON_TYPES = frozenset((int, float, np.ndarray))


def refuse_masks(value: object) -> None:
    """Check that no element is masked, in an array or in lists of arrays."""
    if isinstance(value, list | tuple):
        if not _COMMON_TYPES.issuperset(map(type, value)):
            for each in value:
                refuse_masks(each)
    elif isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise FormatError("elements are masked: fill them with .filled(...), since Kaldi's formats have no masks")
