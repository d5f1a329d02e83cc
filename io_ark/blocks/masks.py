"""Refuse masked arrays, whose masks NumPy drops silently."""

from __future__ import annotations

import numpy as np

from io_ark.errors import FormatError

_COMMON_TYPES = frozenset((int, float, np.ndarray))


def refuse_masks(value: object) -> None:
    """Raise FormatError if an element of an array, or of an array in nested lists, is masked."""
    if isinstance(value, list | tuple):
        if not _COMMON_TYPES.issuperset(map(type, value)):
            for element in value:
                refuse_masks(element)
    elif isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise FormatError("elements are masked: fill them with .filled(...), since Kaldi's formats have no masks")
