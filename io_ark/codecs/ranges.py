"""Apply ranges such as ``[0:9]`` in ``feats.ark:123[0:9]`` to matrices and vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from io_ark.errors import RangeError
from io_ark.logs import logger
from io_ark.specifier import Range

_FLOAT = np.dtype(np.float32)


def extract_range(value: Any, part: Range, name: str = "") -> Any:
    """Return a copy of the part of a matrix or vector of floats that a range selects.

    ``value`` is an array, or an object with a ``part`` method, such as a sparse matrix. The end of the range may exceed
    the rows by three. The rows that exist are then copied, and a warning names the location ``name``.

    Raises:
        RangeError: the range is outside the object, or the object is not a matrix or vector of floats.
    """
    has_part_method = hasattr(value, "part")
    shape: tuple[int, ...] = getattr(value, "shape", ())
    is_float = getattr(value, "dtype", _FLOAT).kind == "f"  # Compressed and sparse matrices are float without a dtype.
    if not (has_part_method or isinstance(value, np.ndarray)) or not is_float or len(shape) not in (1, 2):
        raise RangeError(f"the range [{part.text}] needs a matrix or vector of floats: omit the range", file=name)
    slices = find_slices(part, shape[0], shape[1] if len(shape) == 2 else None, name)[: len(shape)]
    return value.part(*slices) if has_part_method else value[slices].copy()


def find_slices(part: Range, rows: int, columns: int | None, name: str = "") -> tuple[slice, slice]:
    """Return the slices of rows and columns that a range selects. Warn if it exceeds the rows.

    The arguments are those of :meth:`Range.to_slices`. ``name`` is the location of the object, for messages.

    Raises:
        RangeError: the range is outside of the object.
    """
    try:
        slices = part.to_slices(rows, columns)
    except ValueError as error:
        raise RangeError(str(error), file=name) from None
    if part.rows is not None and part.rows[1] >= rows:
        unit = "elements" if columns is None else "rows"
        logger.warning("%s: the range [%s] exceeds the %d %s", name, part.text, rows, unit)
    return slices
