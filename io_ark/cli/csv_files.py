"""CSV files of arrays. A row has a key, and the values of a frame of a matrix, the values of a vector, or a number."""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Callable, Iterator
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.errors import ArkError, FormatError
from io_ark.text import format_count

Array = npt.NDArray[Any]
_NUMBERS = set("+-.0123456789aAeEfFiInNtTyY ")  # Characters that numbers, `nan` and `infinity` may have.
_FLOATS = set(".eEnN")  # Characters that occur in a float, `nan` or `infinity`, but not in an integer.
KEY, FRAME, VALUE = "utterance", "frame", "value"  # Column names that `ark convert` writes and expects.


def read_csv(path: Path) -> Iterator[tuple[str, Array | ArkError]]:
    """Iterate over the keys and arrays of a CSV file in the format of :func:`open_csv_writer`.

    CSV has no types. If all values of a file without frames are integers, an array becomes int32, or int64 if a number
    does not fit into int32. Other arrays become float32 if float32 represents all digits of the numbers, otherwise
    float64. A file with frames has no integers, because Kaldi has no matrices of integers.

    Raises:
        FormatError: the file is not UTF-8 or does not begin with column names, or a line has a wrong number of
            values. For an array with wrong frame numbers or a value that is not a number, the error is yielded.
    """
    try:
        yield from _read_arrays(path)
    except UnicodeDecodeError:
        raise FormatError("is not UTF-8: save the file with the encoding UTF-8", file=str(path)) from None


def _read_arrays(path: Path) -> Iterator[tuple[str, Array | ArkError]]:
    """Iterate over the keys and arrays of a CSV file in UTF-8 (see :func:`read_csv`)."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = csv.reader(file, strict=True)
        header = next(lines, [])
        has_frames = header[1:2] == [FRAME]
        value_names = header[2:] if has_frames else header[1:]
        if header[:1] != [KEY] or not value_names:
            raise FormatError(f"must begin with a line of column names, such as '{KEY},{FRAME},0,1' (matrices) or "
                              f"'{KEY},0,1' (vectors): add or correct this line", file=str(path))  # fmt: skip
        has_floats = has_frames or any(_FLOATS.intersection("".join(row[1:])) for row in lines)
        file.seek(0)
        lines = csv.reader(file, strict=True)
        next(lines)
        for key, rows in groupby(_check_lengths(lines, len(header), path), key=lambda row: row[0]):
            if not has_frames:
                for row in rows:
                    numbers = _parse_numbers([row[1:]], float if has_floats else int, path, key)
                    if not isinstance(numbers, ArkError):
                        numbers = numbers.reshape(()) if value_names == [VALUE] else numbers[0]
                    yield key, numbers
                continue
            frames = list(rows)
            if [row[1] for row in frames] != [str(number) for number in range(len(frames))]:
                message = f"the frames must be 0 to {len(frames) - 1} in order: sort the lines"
                yield key, FormatError(message, file=str(path), key=key)
                continue
            yield key, _parse_numbers([row[2:] for row in frames], float, path, key)


def _check_lengths(lines: Any, length: int, path: Path) -> Iterator[list[str]]:
    """Yield the rows of ``lines``, a ``csv.reader``. Raise FormatError for a row without exactly ``length`` values."""
    for row in lines:
        if len(row) != length:
            fault = f"line {lines.line_num} has {format_count(len(row), 'value')} instead of {length}"
            raise FormatError(f"{fault}: correct the line", file=str(path))
        yield row


def _parse_numbers(
    rows: list[list[str]], number_type: type[int] | type[float], path: Path, key: str
) -> Array | ArkError:
    """Convert rows of strings to an array (rows, columns) of int32 or float32, or of 64 bits if 32 bits lose digits.

    Return an error that names the key if a value is not a number of this type, or does not fit into 64 bits.
    """
    characters = set().union(*(value for row in rows for value in row))
    try:
        if not characters <= _NUMBERS:  # Python would accept 1_000 and non-ASCII digits as numbers.
            raise ValueError
        numbers = np.array(
            [[number_type(value) for value in row] for row in rows], np.int64 if number_type is int else np.float64
        )
        # A float of 2**53 or more may have lost digits of an integer in the file, or be infinite, so check its text.
        may_be_inexact = number_type is float and (abs(numbers) >= 2**53).any()
        if may_be_inexact and not all(_is_number(value, float) for value in chain(*rows)):
            raise OverflowError
    except (ValueError, OverflowError):
        invalid = next(value for value in chain(*rows) if not _is_number(value, number_type))
        type_name = "a 64-bit integer" if number_type is int else "a 64-bit float without loss of digits"
        problem = f"the value {invalid[:40]!r} is not a number, or does not fit into {type_name}"
        return FormatError(f"{problem}: correct the value", file=str(path), key=key)
    with np.errstate(over="ignore"):
        narrow_numbers = numbers.astype(np.int32 if number_type is int else np.float32)
    # 32 bits suffice if the shortest text of their value is the number in the file. A comparison of the values would
    # fail even for 0.1, which neither 32 nor 64 bits store exactly.
    is_exact = np.array_equal(narrow_numbers.astype(str).astype(numbers.dtype), numbers, equal_nan=True)
    return narrow_numbers if is_exact else numbers


def _is_number(value: str, number_type: type[int] | type[float]) -> bool:
    """Return True if a string is a number of ``number_type`` and fits into 64 bits without loss of integer digits."""
    try:
        parsed = number_type(value)
        if not _FLOATS.intersection(value):
            is_stored = parsed == int(value) and -(2**63) <= parsed < 2**63
        else:
            is_stored = np.isfinite(parsed) or "n" in value.lower()  # A number may be "inf" or "nan", but not 1e999.
    except ValueError:  # The value is not a number, or has more than 4,300 digits.
        return False
    return is_stored and set(value) <= _NUMBERS


@contextlib.contextmanager
def open_csv_writer(path: Path) -> Iterator[Callable[[str, Array], None]]:
    """Open a CSV file for writing, and yield a function ``write_array(key, array)`` that appends the rows of an array.

    The first array determines the columns, and whether the file has matrices, vectors or numbers. The function raises
    FormatError if an array cannot be stored as CSV, or if its columns differ from the columns of the first array.
    """
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        header: list[Any] = []

        def write_array(key: str, array: Array) -> None:
            _check_array(array, key)
            columns = _name_columns(array)
            if not header:
                header.extend(columns)
                writer.writerow(columns)
            if columns != header:
                message = f"has the columns {_format_columns(columns)}, but the CSV file has {_format_columns(header)}"
                raise FormatError(f"{message}: convert arrays of one shape only", key=key)
            # read_csv returns float32, for which the text of a float16 may have too few digits.
            texts = (array.astype(np.float32) if array.dtype == np.float16 else array).astype(str).tolist()
            if array.ndim == 2:
                writer.writerows([key, frame, *row] for frame, row in enumerate(texts))
            else:
                writer.writerow([key, *texts] if array.ndim else [key, texts])

        yield write_array


def _check_array(array: Array, key: str) -> None:
    """Raise FormatError if an array has no values, more than 2 dimensions, or a type that is not integer or float."""
    reason = ""
    if array.ndim > 2 or array.dtype.kind not in "iuf":
        reason = f"is a {array.ndim}-dimensional array of {array.dtype}, which CSV files cannot store: use .npz"
    elif not array.size:
        reason = f"has the shape {array.shape} and no values, which CSV files cannot store: use .npz"
    if reason:
        raise FormatError(reason, key=key)


def _name_columns(array: Array) -> list[Any]:
    """Return the column names of a CSV file that can store the array, such as utterance, frame, 0 and 1."""
    if array.ndim == 0:
        return [KEY, VALUE]
    return [KEY, *([FRAME] if array.ndim == 2 else []), *range(array.shape[-1])]


def _format_columns(columns: list[Any]) -> str:
    """List up to three columns after the key, such as ``0,1``, or name the first and last, such as ``frame to 79``."""
    return ",".join(map(str, columns[1:])) if len(columns) < 5 else f"{columns[1]} to {columns[-1]}"
