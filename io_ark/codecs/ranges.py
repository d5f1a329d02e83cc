"""Apply ranges such as ``[0:9]`` in ``feats.ark:123[0:9]`` to matrices and vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from io_ark.errors import RangeError
from io_ark.logs import logger
from io_ark.specifier import Range

_FLOAT = np.dtype(np.float32)


def extract_range(value: Any, selection: Range, name: str = "") -> Any:
    """Return a copy of the part of a matrix or vector of floats that a range selects.

    ``value`` is an array, or an object with a method ``extract_part``, such as a sparse matrix. As in Kaldi, the range
    may exceed the last row by up to three rows. The existing rows are then copied, and a warning is logged. Messages
    contain ``name``, the location of the object. Raise RangeError if the range is outside the object, or the object is
    not a matrix or vector of floats.
    """
    can_extract = hasattr(value, "extract_part")
    shape: tuple[int, ...] = getattr(value, "shape", ())
    is_float = getattr(value, "dtype", _FLOAT).kind == "f"  # Compressed and sparse matrices of floats have no dtype.
    if not (can_extract or isinstance(value, np.ndarray)) or not is_float or len(shape) not in (1, 2):
        raise RangeError(f"the range [{selection.text}] needs a matrix or vector of floats: omit the range", file=name)
    slices = find_slices(selection, shape[0], shape[1] if len(shape) == 2 else None, name)[: len(shape)]
    return value.extract_part(*slices) if can_extract else value[slices].copy()


def find_slices(selection: Range, rows: int, columns: int | None, name: str = "") -> tuple[slice, slice]:
    """Return the slices of rows and columns that a range selects. Warn if the range exceeds the rows.

    For a vector, ``rows`` is its length, and ``columns`` is None. ``name`` is the location of the object, for messages.
    Raise RangeError if the range is outside the object.
    """
    try:
        slices = selection.to_slices(rows, columns)
    except ValueError as error:
        raise RangeError(str(error), file=name) from None
    if selection.rows is not None and selection.rows[1] >= rows:
        unit = "elements" if columns is None else "rows"
        logger.warning("%s: the range [%s] exceeds the %d %s", name, selection.text, rows, unit)
    return slices
