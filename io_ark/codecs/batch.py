"""Encode many small entries of a table at once.

A batch accepts only values of common types that need no conversion. All others are left to the codec, which converts
them or raises an error. A batch copies values, so later changes by the caller have no effect.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.codecs.text_format import format_row
from io_ark.native import NATIVE

_NATIVE = bool(NATIVE.library())
_LONGEST_ENTRY = 18  # characters of an entry besides its key
_INT32_MAX = 2**31 - 1
_FLOAT32_MAX = 3.4028234663852886e38
# Maximum number of bytes of an object in a batch.
_LARGEST = 1 << 12


@dataclass(frozen=True)
class Batch:
    """Functions that write entries of a kind together.

    Attributes:
        take: copies a value into the form that is kept; returns None if the codec has to write it.
        encode: returns the bytes of entries from their keys and kept values.
    """

    take: Callable[[Any], Any]
    encode: Callable[[Sequence[str], Sequence[Any]], bytes]


def _take_integer(value: Any) -> int | None:
    return value if type(value) is int and -_INT32_MAX <= value <= _INT32_MAX else None


def _take_double(value: Any) -> float | None:
    return value if type(value) is float else None


def _take_float(value: Any) -> float | None:
    return value if type(value) is float and -_FLOAT32_MAX <= value <= _FLOAT32_MAX else None


def _joined(keys: Sequence[str]) -> bytes:
    return ("\n".join(keys) + "\n").encode("ascii")


def print_numbers(keys: bytes, numbers: npt.NDArray[Any]) -> bytes:
    r"""Return entries of a table in text.

    Args:
        keys: a newline after each.
        numbers: one for each key, as int32 or float64.

    >>> print_numbers(b"a\nb\n", np.array([1.5, 2.0]))
    b'a 1.5 \nb 2 \n'
    """
    if _NATIVE:
        text = np.empty(len(keys) + _LONGEST_ENTRY * len(numbers), np.uint8)
        _check_keys(keys, numbers)
        is_float = numbers.dtype.kind == "f"
        used = NATIVE.function("ark_print_entries")(keys, numbers, is_float, len(numbers), text)
        if used >= 0:  # else a float is hard to print
            return text[:used].tobytes()
    form = format_row if numbers.dtype.kind == "f" else lambda row: f"{row[0]} "
    entries = zip(keys.split(b"\n")[:-1], numbers.tolist(), strict=True)
    return b"".join([b"%b %b\n" % (key, form([number]).encode("ascii")) for key, number in entries])


def pack_numbers(keys: bytes, numbers: npt.NDArray[Any]) -> bytes:
    """Return entries of a table in binary.

    Args:
        keys: a newline after each.
        numbers: one for each key, as int32, float32 or float64.
    """
    if _NATIVE:
        packed = np.empty(len(keys) + (3 + numbers.itemsize) * len(numbers), np.uint8)
        _check_keys(keys, numbers)
        used = NATIVE.function("ark_pack_entries")(keys, numbers, numbers.itemsize, len(numbers), packed)
        return packed[:used].tobytes()
    start = b" \0B%c" % numbers.itemsize
    return b"".join([key + start + each.tobytes() for key, each in zip(keys.split(b"\n")[:-1], numbers, strict=True)])


def _check_keys(keys: bytes, numbers: npt.NDArray[Any]) -> None:
    if keys.count(b"\n") != len(numbers) or keys[-1:] != b"\n" or not numbers.flags.c_contiguous:
        raise ValueError(f"{len(numbers)} numbers do not belong to these keys")


def integers(binary: bool) -> Batch:
    """Return the batch of single int32 values."""

    def encode(keys: Sequence[str], values: Sequence[int]) -> bytes:
        numbers = np.array(array("i", values))
        return pack_numbers(_joined(keys), numbers) if binary else print_numbers(_joined(keys), numbers)

    return Batch(_take_integer, encode)


def floats(binary: bool, double: bool) -> Batch:
    """Return the batch of single floats, or doubles."""

    def encode(keys: Sequence[str], values: Sequence[float]) -> bytes:
        numbers = np.array(values) if double else np.array(values, np.float32)
        if binary:
            return pack_numbers(_joined(keys), numbers)
        return print_numbers(_joined(keys), numbers.astype(np.float64))

    return Batch(_take_double if double else _take_float, encode)


def lines(take: Callable[[Any], str | None]) -> Batch:
    """Return the batch of objects that are one line of ASCII text each, which ``take`` returns."""

    def encode(keys: Sequence[str], values: Sequence[str]) -> bytes:
        return "".join([f"{key} {value}\n" for key, value in zip(keys, values, strict=True)]).encode("ascii")

    return Batch(take, encode)


def objects(take: Callable[[Any], bytes | None], largest: int = _LARGEST) -> Batch:
    """Return the batch of objects of at most ``largest`` bytes, which ``take`` returns."""

    def take_small(value: Any) -> bytes | None:
        taken = take(value)
        return taken if taken is not None and len(taken) <= largest else None

    def encode(keys: Sequence[str], values: Sequence[bytes]) -> bytes:
        parts = [b" "] * (3 * len(keys))
        parts[0::3] = "\n".join(keys).encode("ascii").split(b"\n")
        parts[2::3] = values
        return b"".join(parts)

    return Batch(take_small, encode)
