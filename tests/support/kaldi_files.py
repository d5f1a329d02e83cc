"""Contents of files written by Kaldi's programs, and distances between them.

A reader of its own, so that the comparison with Kaldi's outputs does not lean on the code under test.
"""

from __future__ import annotations

import re
import struct
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
BINARY = b"\0B"
DTYPES = {"F": np.dtype("<f4"), "D": np.dtype("<f8")}


class Object(NamedTuple):
    """One object: its key (empty outside archives) or its words, what kind it is, and its numbers."""

    label: Any
    kind: str
    numbers: Array


class Difference(NamedTuple):
    """|ours - Kaldi| / max(1, |Kaldi|) over all numbers of a file: its 99.9th percentile and its maximum."""

    quantile: float
    maximum: float


def objects(name: str, data: bytes) -> list[Object]:
    """The objects in a file's bytes; the file's name tells HTK's and Sphinx's formats."""
    if name.endswith((".htk", ".mfc")):
        return [_big_or_little_header(name, data)]
    if data.startswith((BINARY, b"RIFF")):
        return [Object("", *_binary(data, 0)[:2])]
    if re.match(rb"\S+ (\0B|RIFF)", data[:300]):
        return _archive(data)
    words = [_number_or_word(word) for word in data.split()]
    numbers = np.array([word for word in words if isinstance(word, float)])
    return [Object(tuple(word for word in words if isinstance(word, str)), "text", numbers)]


def difference(ours: list[Object], kaldis: list[Object]) -> Difference:
    """Return the largest difference; infinite if keys, kinds, shapes or finiteness differ."""
    infinite = Difference(np.inf, np.inf)
    if [each.label for each in ours] != [each.label for each in kaldis]:
        return infinite
    quantiles, maxima = [0.0], [0.0]
    for our, kaldi in zip(ours, kaldis, strict=True):
        a, b = our.numbers.astype(np.float64), kaldi.numbers.astype(np.float64)
        if our.kind != kaldi.kind or a.shape != b.shape or (np.isfinite(a) != np.isfinite(b)).any():
            return infinite
        error = np.abs(a - b)[np.isfinite(b)] / np.maximum(1, np.abs(b[np.isfinite(b)]))
        if error.size:
            quantiles.append(float(np.quantile(error, 0.999)))
            maxima.append(float(error.max()))
    return Difference(max(quantiles), max(maxima))


def _number_or_word(word: bytes) -> float | str:
    try:
        return float(word)
    except ValueError:
        return word.decode("latin1")


def _big_or_little_header(name: str, data: bytes) -> Object:
    size, dtype = (12, ">f4") if name.endswith(".htk") else (4, "<f4")
    key = data.index(b" ") + 1 if size == 12 and b" " in data[:40] and data[0] else 0
    return Object(data[: key + size], name[-3:], np.frombuffer(data[key + size :], dtype))


def _archive(data: bytes) -> list[Object]:
    found, at = [], 0
    while at < len(data):
        end = data.index(b" ", at)
        kind, numbers, after = _binary(data, end + 1)
        found.append(Object(data[at:end].decode(), kind, numbers))
        at = after
    return found


def _binary(data: bytes, at: int) -> tuple[str, Array, int]:
    if data[at : at + 4] == b"RIFF":
        (size,) = struct.unpack_from("<I", data, at + 40)
        parts = [np.frombuffer(data, "u1", 40, at), np.frombuffer(data, "<i2", size // 2, at + 44)]
        return "wave", np.concatenate([part.astype(np.float64) for part in parts]), at + 44 + size
    if data[at : at + 2] != BINARY:
        raise ValueError(f"neither binary nor wave at byte {at}")
    at += 2
    token = re.compile(rb"(FM|DM|FV|DV|CM|CM2|CM3) ").match(data, at)
    if token:
        return _matrix(token[1].decode(), data, token.end())
    if data[at] == 8:
        return "double", np.frombuffer(data, "<f8", 1, at + 1), at + 9
    if data[at] != 4:
        raise ValueError(f"unknown object at byte {at}")
    (count,) = struct.unpack_from("<xi", data, at)
    if data[at + 5 : at + 6] == b"\4" or (count == 0 and at + 5 == len(data)):
        elements = np.frombuffer(data, np.dtype([("size", "u1"), ("value", "<i4")]), count, at + 5)
        return "ints", elements["value"], at + 5 + 5 * count
    return "int", np.array([count]), at + 5


def _matrix(kind: str, data: bytes, at: int) -> tuple[str, Array, int]:
    if kind.startswith("C"):
        return (kind, *_compressed(kind, data, at))
    dtype = DTYPES[kind[0]]
    if kind[1] == "V":
        (count,) = struct.unpack_from("<xi", data, at)
        return kind, np.frombuffer(data, dtype, count, at + 5), at + 5 + count * dtype.itemsize
    rows, columns = struct.unpack_from("<xixi", data, at)
    count = rows * columns
    return kind, np.frombuffer(data, dtype, count, at + 10).reshape(rows, columns), at + 10 + count * dtype.itemsize


def _compressed(kind: str, data: bytes, at: int) -> tuple[Array, int]:
    low, span, rows, columns = struct.unpack_from("<ffii", data, at)
    at += 16
    if kind != "CM":
        dtype = np.dtype("<u2" if kind == "CM2" else "u1")
        steps = 65535.0 if kind == "CM2" else 255.0
        values = np.frombuffer(data, dtype, rows * columns, at).reshape(rows, columns)
        return values * (span / steps) + low, at + rows * columns * dtype.itemsize
    marks = np.frombuffer(data, "<u2", columns * 4, at).reshape(columns, 4) * (span / 65535.0) + low
    at += columns * 8
    codes = np.frombuffer(data, "u1", rows * columns, at).reshape(columns, rows)
    values = np.stack([np.interp(column, [0, 64, 192, 255], mark) for column, mark in zip(codes, marks, strict=True)])
    return values.T, at + rows * columns
