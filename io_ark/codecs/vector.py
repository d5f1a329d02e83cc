"""Dense vectors: ``FV`` (float) and ``DV`` (double) in binary, numbers in brackets in text.

Source: ``Vector::Read`` and ``VectorBase::Write`` in Kaldi's ``src/matrix/kaldi-vector.cc``.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.codecs.base import ArrayCodec, Sink, raw_bytes, shown
from io_ark.codecs.batch import Batch, objects
from io_ark.codecs.dense import bracketed_text
from io_ark.codecs.text_format import format_values
from io_ark.codecs.text_parse import parse, parse_short_row
from io_ark.errors import FormatError
from io_ark.streams.source import Source

Array = npt.NDArray[Any]

_HEADER = struct.Struct("<3sbi")
_USUAL = struct.Struct("<5sbi")  # with the binary marker
_PRECISIONS: dict[bytes, np.dtype[Any]] = {b"FV ": np.dtype("<f4"), b"DV ": np.dtype("<f8")}


class VectorCodec(ArrayCodec):
    """A vector as an array of one dimension; reads either precision into the one asked for.

    Args:
        dtype: float32 or float64, the precision of what is read and written.
    """

    def __init__(self, dtype: npt.DTypeLike = np.float32) -> None:
        self.dtype = np.dtype(dtype)
        self._start = b"\0BFV " if self.dtype == np.float32 else b"\0BDV "
        self._stored = self.dtype.newbyteorder("<")
        self.scan_kind = "vector" if self.dtype == np.float32 else "double-vector"

    def batch(self, binary: bool) -> Batch | None:
        return objects(self._plain_bytes) if binary else None

    def _plain_bytes(self, value: object) -> bytes | None:
        """An array of this type in binary, with the marker; None of anything else."""
        if type(value) is not np.ndarray or value.ndim != 1 or value.dtype != self.dtype:
            return None
        return _USUAL.pack(self._start, 4, len(value)) + value.tobytes()

    def read(self, source: Source) -> Array:
        # The common case by the shortest way, as for matrices.
        head = source.peek(_USUAL.size)
        if len(head) == _USUAL.size:
            start, size, count = _USUAL.unpack(head)
            if start == self._start and size == 4 and count >= 0:
                source.skip(_USUAL.size)
                return source.read_array(self._stored, count)
        return super().read(source)

    def read_body(self, source: Source, binary: bool) -> Array:
        if not binary:
            return self._read_text(source)
        stored, count = _read_header(source)
        values = source.read_array(stored, count)
        if stored != self.dtype:
            with np.errstate(over="ignore"):
                values = values.astype(self.dtype)
        return values

    def skip_body(self, source: Source) -> tuple[int, ...]:
        stored, count = _read_header(source)
        source.skip(count * stored.itemsize)
        return (count,)

    def _read_text(self, source: Source) -> Array:
        text, at = bracketed_text(source, "vector")
        usual = parse_short_row(text, self.dtype == np.float32)
        if usual is not None:
            return usual
        if b"\n" in text or b"\r" in text or b";" in text:
            place = min(i for i in map(text.find, (b"\n", b"\r", b";")) if i >= 0)
            source.fail("a vector in text goes over more than one row: this may be a matrix", at + place)
        values, _ = parse(text, self.dtype, lambda message, i: source.fail(f"a vector in text: {message}", at + i))
        if len(values) != len(text.split()):
            source.fail("a vector in text: white space is missing between two numbers", at)
        return values

    def write_body(self, sink: Sink, value: npt.ArrayLike, binary: bool) -> None:
        vector = as_vector(value, self.dtype)
        if binary:
            sink.write(_HEADER.pack(b"FV " if self.dtype == np.float32 else b"DV ", 4, len(vector)))
            sink.write(raw_bytes(vector))
        else:
            sink.write(b" [ " + format_values(vector) + b"]\n")


def _read_header(source: Source) -> tuple[np.dtype[Any], int]:
    """The precision and how many numbers a header says, which is passed over."""
    head = source.peek(_HEADER.size)
    stored = _PRECISIONS.get(head[:3])
    if stored is None:
        source.fail(f"a vector (FV or DV) should stand here, not {shown(head.split(b' ')[0])}")
    if len(head) < _HEADER.size:
        source.read(_HEADER.size)  # which says what is missing
    _, size, count = _HEADER.unpack(head)
    if size != 4 or count < 0:
        source.fail(f"a vector of {count} numbers" if size == 4 else "a vector's dimension should be 4 bytes")
    source.skip(_HEADER.size)
    return stored, count


def as_vector(value: npt.ArrayLike, dtype: npt.DTypeLike) -> Array:
    """``value`` as an array of one dimension in this precision."""
    array = np.asarray(value)
    if array.ndim != 1 or array.dtype.kind not in "fiub":
        raise FormatError(f"a vector of numbers is an array of 1 dimension, not {array.ndim} of {array.dtype}")
    with np.errstate(over="ignore"):
        return array.astype(np.dtype(dtype).newbyteorder("<"), copy=False)
