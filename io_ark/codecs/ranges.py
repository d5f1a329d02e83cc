"""Part of an object: what the brackets in ``feats.ark:123[0:9]`` take out of a matrix or vector."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from io_ark.errors import RangeError
from io_ark.specifier import Range

logger = logging.getLogger("io_ark")

_FLOAT = np.dtype(np.float32)


def extract_range(value: Any, part: Range, name: str = "") -> Any:
    """The rows and columns of a matrix, or the elements of a vector, that a range names; a copy.

    Args:
        value: a float matrix or vector; what is compressed gives an array, what is sparse, or an outline, its like.
        part: the range; it may go up to three rows beyond the last, which a warning tells.
        name: where the object came from, for messages.

    Raises:
        RangeError: the range does not lie within the object, or the object is of a kind that has no parts.

    >>> from io_ark.specifier import parse_range
    >>> extract_range(np.eye(3), parse_range("0:1,2:2"))
    array([[0.],
           [0.]])
    """
    by_itself = hasattr(value, "part")
    shape: tuple[int, ...] = getattr(value, "shape", ())
    kind = getattr(value, "dtype", _FLOAT).kind  # compressed and sparse ones do not say
    if not (by_itself or isinstance(value, np.ndarray)) or kind != "f" or len(shape) not in (1, 2):
        raise RangeError(f"a range [{part.text}] can be taken of a matrix or vector of floats only", file=name)
    chosen = slices(part, shape[0], shape[1] if len(shape) == 2 else None, name)[: len(shape)]
    return value.part(*chosen) if by_itself else value[chosen].copy()


def slices(part: Range, rows: int, columns: int | None, name: str = "") -> tuple[slice, slice]:
    """What a range means for an object of so many rows (elements) and columns (None for a vector).

    Raises:
        RangeError: the range does not lie within the object.
    """
    try:
        chosen = part.bounds(rows, columns)
    except ValueError as error:
        raise RangeError(str(error), file=name) from None
    if part.rows is not None and part.rows[1] >= rows:
        logger.warning("%s: the range [%s] goes beyond the last of %d rows", name, part.text, rows)
    return chosen
