"""CSV files of arrays: after the key, a row has the values of a frame of a matrix, of a vector, or a number."""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.errors import FormatError

Array = npt.NDArray[Any]
_NUMBERS = set("+-.0123456789aAeEfFiInNtTyY ")  # characters of numbers, with those of nan and infinity
_FLOATS = set(".eEnN")  # those that integers do not have
KEY, FRAME, VALUE = "utterance", "frame", "value"  # names of columns


def read_csv(path: Path) -> Iterator[tuple[str, Array]]:
    """Iterate over the keys and arrays of a file that :func:`write_csv` has written.

    CSV has no types: numbers without a point are int32, or int64 if they need it. Others are float32 if their digits
    are those of float32, otherwise float64.
    """
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = csv.reader(file, strict=True)
        header = next(lines, [])
        has_frames = header[1:2] == [FRAME]
        if header[:1] != [KEY] or len(header) == 1 + has_frames:
            raise FormatError(f"needs a first line such as '{KEY},{FRAME},0,1' (matrices) or '{KEY},0,1' (vectors), "
                              "which names the columns", file=str(path))  # fmt: skip
        for key, rows in groupby(_check_lengths(lines, len(header), path), key=lambda row: row[0]):
            if not has_frames:
                for row in rows:
                    yield key, _parse([row[1:]], path, key)[0]
                continue
            matrix = list(rows)
            if [row[1] for row in matrix] != [str(frame) for frame in range(len(matrix))]:
                raise FormatError(f"the frames are not 0 to {len(matrix) - 1} in order", file=str(path), key=key)
            yield key, _parse([row[2:] for row in matrix], path, key)


def _check_lengths(lines: Any, length: int, path: Path) -> Iterator[list[str]]:
    for row in lines:
        if len(row) != length:
            raise FormatError(f"line {lines.line_num} has {len(row)} values, not {length}", file=str(path))
        yield row


def _parse(rows: list[list[str]], path: Path, key: str) -> Array:
    characters = set().union(*(value for row in rows for value in row))
    try:
        if not characters <= _NUMBERS:  # Python would read 1_000, and digits of other scripts.
            raise ValueError("".join(sorted(characters - _NUMBERS)))
        if not characters & _FLOATS:
            integers = np.array([[int(value) for value in row] for row in rows], np.int64)
            narrow = integers.astype(np.int32)
            return narrow if np.array_equal(narrow, integers) else integers
        doubles = np.array([[float(value) for value in row] for row in rows])
    except (ValueError, OverflowError) as error:
        raise FormatError(f"has a value that is not a number: {error}", file=str(path), key=key) from None
    with np.errstate(over="ignore"):
        singles = doubles.astype(np.float32)
    has_few_digits = np.array_equal(singles.astype(str).astype(float), doubles, equal_nan=True)
    return singles if has_few_digits else doubles


@contextlib.contextmanager
def write_csv(path: Path) -> Iterator[Callable[[str, Array], None]]:
    """Write a CSV file. The first array decides whether it holds matrices, vectors or numbers, and its columns."""
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        header: list[Any] = []

        def put(key: str, array: Array) -> None:
            _check_array(array, key)
            columns = _name_columns(array)
            if not header:
                header.extend(columns)
                rows.writerow(columns)
            if columns != header:
                message = (
                    f"has the columns {_describe(columns)} after {_describe(header)}: a CSV file has one set of columns"
                )
                raise FormatError(message, key=key)
            shown = (array.astype(np.float32) if array.dtype == np.float16 else array).astype(str).tolist()
            if array.ndim == 2:
                rows.writerows([key, frame, *row] for frame, row in enumerate(shown))
            else:
                rows.writerow([key, *shown] if array.ndim else [key, shown])

        yield put


def _check_array(array: Array, key: str) -> None:
    reason = ""
    if array.ndim > 2 or array.dtype.kind not in "iuf":
        reason = (
            f"is an array of {array.ndim} dimensions of {array.dtype}: CSV files have matrices, vectors and numbers"
        )
    elif not array.size:
        reason = f"has no values (its shape is {array.shape}), so no row of a CSV file can hold it"
    if reason:
        raise FormatError(reason, key=key)


def _name_columns(array: Array) -> list[Any]:
    if array.ndim == 0:
        return [KEY, VALUE]
    return [KEY, *([FRAME] if array.ndim == 2 else []), *range(array.shape[-1])]


def _describe(columns: list[Any]) -> str:
    """Describe the columns after the key in a few words."""
    return ",".join(map(str, columns[1:])) if len(columns) < 5 else f"{columns[1]} to {columns[-1]}"
