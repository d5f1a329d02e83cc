"""Values in kaldiio's shapes: text, audio, and ranges of both.

Source: ``read_ascii_mat``, ``write_array_ascii`` and ``_convert_to_slice`` in kaldiio's ``matio.py``.
"""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from io_ark.codecs import AnyCodec, Codec, codec
from io_ark.codecs.base import BINARY_MARKER, NUMBER, Sink, end_line
from io_ark.codecs.detect import detect_kind
from io_ark.codecs.int_vector import PlainIntVectorCodec
from io_ark.codecs.wave import Wave
from io_ark.errors import ArkError, FormatError, RangeError, SpecifierError
from io_ark.specifier import Range
from io_ark.streams.files import OpenFiles
from io_ark.streams.source import Source
from io_ark.tables.loader import Loader, name_key

__all__ = ["KaldiioCodec", "KaldiioLoader", "as_kaldiio", "from_kaldiio", "is_audio"]

_FIRST_LOOK = 1 << 12
_WHOLE_NUMBERS = b"+-0123456789 \t["


class KaldiioCodec(AnyCodec):
    """Codec of objects of any kind. As in kaldiio, numbers in text are an array, of int32 if all are whole numbers."""

    def read(self, source: Source) -> Any:
        if not _is_text(source):
            return super().read(source)
        kind, _ = detect_kind(source)
        if kind == "vector" and source.peek(_FIRST_LOOK).lstrip().startswith(b"["):
            if not _look(source, b"]").translate(None, _WHOLE_NUMBERS):
                integers = PlainIntVectorCodec().read_body(source, False)
                end_line(source)
                return integers
        elif kind == "int":
            return codec("int-vector").read(source)
        elif kind in ("double", "token-vector"):
            words = _look(source, b"\n").split()
            if all(map(NUMBER.fullmatch, words)):
                source.read_line()
                return np.array([float(word) for word in words], np.float32)
        return super().read(source)

    def read_range(self, source: Source, part: Range) -> Any:
        return Codec.read_range(self, source, part) if _is_text(source) else super().read_range(source, part)

    def write_body(self, sink: Sink, value: Any, binary: bool) -> None:
        if not binary and isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.ndim in (1, 2):
            sink.write(_text_of(value))
        else:
            super().write_body(sink, value, binary)


def _is_text(source: Source) -> bool:
    start = source.peek(4)
    return start[:2] != BINARY_MARKER and start not in (b"RIFF", b"RIFX")


def _look(source: Source, stop: bytes) -> bytes:
    """Return the bytes before this byte without consuming them."""
    size = _FIRST_LOOK
    while stop not in (ahead := source.peek(size)) and len(ahead) == size:
        size *= 4
    return ahead.partition(stop)[0]


def _text_of(array: npt.NDArray[Any]) -> bytes:
    """Format a float array as kaldiio does: with the digits that identify each number uniquely."""
    if array.ndim == 1:
        return f" [ {_row_of(array)}]\n".encode("ascii")
    return (" [" + "".join([f"\n  {_row_of(row)}" for row in array]) + "]\n").encode("ascii")


def _row_of(values: npt.NDArray[Any]) -> str:
    return "".join([f"{value} " for value in values.tolist()])


class KaldiioLoader:
    """Loads objects in kaldiio's shapes.

    Args:
        pipes: allow commands.
        max_open_files: maximum number of archives kept open.
    """

    def __init__(self, pipes: bool, max_open_files: int = 1) -> None:
        self._loader = Loader(KaldiioCodec(), pipes=pipes, files=OpenFiles(max_open_files))

    def load(self, rxfilename: str) -> Any:
        """Load the object of an rxfilename, or a range of it by Kaldi's or NumPy's rules.

        Raises:
            ArkError: the object cannot be opened or read, or has no such range.
        """
        try:
            return as_kaldiio(self._loader.load(rxfilename))
        except (RangeError, SpecifierError) as error:
            name, bracket, part = rxfilename.rstrip().removesuffix("]").rpartition("[")
            slices = _slices(part) if bracket and rxfilename.rstrip().endswith("]") else None
            if slices is None:
                raise
            refused = error
        value = as_kaldiio(self._loader.load(name))
        try:
            return (value[0], value[1][slices]) if is_audio(value) else value[slices]
        except (IndexError, TypeError):
            raise refused from None

    def load_value(self, key: str, rxfilename: str) -> Any:
        """Load the object of a line in a script file. Errors have the key."""
        try:
            return self.load(rxfilename)
        except ArkError as error:
            raise name_key(error, key) from error.__cause__


def _slices(part: str) -> tuple[slice, ...] | None:
    """Parse a range as kaldiio does: slices that include both ends; None if it is not a range."""
    slices = []
    for text in part.split(","):
        if text in ("", ":"):
            slices.append(slice(None))
            continue
        try:
            first, *more = map(int, text.split(":"))
        except ValueError:
            return None
        if len(more) > 2:
            return None
        slices.append(slice(first, (more[0] if more else first) + 1, *more[1:]))
    return tuple(slices)


def is_audio(value: Any) -> TypeGuard[tuple[int, npt.NDArray[Any]]]:
    """Return True for ``(rate, samples)``, and False for named tuples, such as training examples."""
    return type(value) is tuple


def as_kaldiio(value: Any) -> Any:
    """Convert a value to kaldiio's shape: audio to ``(rate, samples)``, with samples of shape (time, channels)."""
    if not isinstance(value, Wave):
        return value
    samples = value.samples
    return int(value.sample_frequency), samples[0] if len(samples) == 1 else samples.T.copy()


def from_kaldiio(value: Any) -> Any:
    """Convert a value from kaldiio's shape: ``(rate, samples)`` or ``(samples, rate)`` is audio.

    Raises:
        FormatError: the samples are not int16.
    """
    if not (isinstance(value, list | tuple) and len(value) == 2):
        return value
    rate, samples = value if isinstance(value[1], np.ndarray) else (value[1], value[0])
    if not isinstance(samples, np.ndarray) or not isinstance(rate, int | float | np.number):
        return value
    if samples.dtype != np.int16:
        raise FormatError(f"audio needs samples of int16, not of {samples.dtype}: scale, round and convert them")
    return Wave(float(rate), np.atleast_2d(samples.T))
