"""Dense vectors: ``FV`` (float) and ``DV`` (double) in binary, numbers in brackets in text.

Source: ``Vector::Read`` and ``VectorBase::Write`` in Kaldi's ``src/matrix/kaldi-vector.cc``.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.codecs.base import BINARY_MARKER, FloatArrayCodec, Sink, as_floats, quote_or_end, view_raw_bytes
from io_ark.codecs.dense import read_bracketed_text
from io_ark.codecs.pack import Pack
from io_ark.codecs.text_format import encode_list
from io_ark.codecs.text_parse import parse_rows, read_rows, warn_of_nonfinite
from io_ark.streams.source import Source

Array = npt.NDArray[Any]

_HEADER = struct.Struct("<3sbi")
_MARKED_HEADER = struct.Struct("<6si")  # Start of a vector in binary (see FloatArrayCodec), and its length.
_START_BYTES = _MARKED_HEADER.size
_PRECISIONS: dict[bytes, np.dtype[Any]] = {b"FV ": np.dtype("<f4"), b"DV ": np.dtype("<f8")}


class VectorCodec(FloatArrayCodec):
    """Codec of vectors: arrays of shape (length,). Vectors of either precision are read into one precision."""

    name = "vector"

    def create_pack(self, binary: bool) -> Pack:
        return Pack(arrays=(self._stored_dtype, 1) if binary else None)

    def read(self, source: Source) -> Array:
        head = source.peek_buffered(_START_BYTES)
        # A fast path for the common case, because calls take most of the time for short vectors.
        if len(head) == _START_BYTES:
            start, count = _MARKED_HEADER.unpack(head)
            if start == self._start and count >= 0:
                source.skip(_START_BYTES)
                byte_count = count * self._itemsize
                if byte_count > source.max_copied_bytes:
                    return source.read_array(self._stored_dtype, count)
                window, at = source.take(byte_count)
                vector: Array = np.ndarray((count,), self._stored_dtype, bytearray(window[at : at + byte_count]))
                return vector
        return super().read(source)

    def read_body(self, source: Source, binary: bool) -> Array:
        if not binary:
            return self._read_text(source)
        stored_dtype, count = _read_header(source)
        values = source.read_array(stored_dtype, count)
        if stored_dtype != self.dtype:
            with np.errstate(over="ignore", invalid="ignore"):
                values = values.astype(self.dtype)
        return values

    def skip_body(self, source: Source) -> tuple[int, ...]:
        stored_dtype, count = _read_header(source)
        source.skip(count * stored_dtype.itemsize)
        return (count,)

    def _read_text(self, source: Source) -> Array:
        """Read a vector in text. Raise FormatError unless it is one row of numbers with white space between them."""
        text, at = read_bracketed_text(source, "vector")
        if b"\n" in text or b"\r" in text or b";" in text:
            row_end = min(i for i in map(text.find, (b"\n", b"\r", b";")) if i >= 0)
            source.fail("a vector in text has more than one row: read the object as a matrix", at + row_end)
        if (numbers_and_counts := read_rows(text, self.dtype == np.float32)) is not None:
            return numbers_and_counts[0]
        values, _ = parse_rows(text, self.dtype, lambda message, i: source.fail(f"a vector in text: {message}", at + i))
        if len(values) != len(text.split()):  # The parser reads a word such as 1-2 as two numbers.
            source.fail("a vector in text: white space is missing between two numbers", at)
        warn_of_nonfinite(values, "vector")
        return values

    def write_body(self, sink: Sink, value: npt.ArrayLike, binary: bool) -> None:
        vector = as_floats(value, self.dtype, 1)
        if binary:
            sink.write(_MARKED_HEADER.pack(self._start, len(vector))[len(BINARY_MARKER) :])
            sink.write(view_raw_bytes(vector))
        else:
            sink.write(encode_list(vector, (b" [ ", b"]\n")))


def _read_header(source: Source) -> tuple[np.dtype[Any], int]:
    """Read the header of a vector in binary. Return the stored dtype and the number of elements.

    Raise FormatError if the header is invalid or incomplete.
    """
    head = source.peek(_HEADER.size)
    stored_dtype = _PRECISIONS.get(head[:3])
    if len(head) < _HEADER.size and (stored_dtype is not None or b" " not in head):
        source.read(_HEADER.size)  # This raises TruncatedError, because the source has fewer bytes.
    if stored_dtype is None:
        source.fail(f"expected a vector (FV or DV), found {quote_or_end(head.split(b' ')[0])}")
    _, size, count = _HEADER.unpack(head)
    if size != 4:
        source.fail("expected the size of a vector as a 4-byte integer")
    if count < 0:
        source.fail(f"invalid size of a vector: {count}")
    source.skip(_HEADER.size)
    return stored_dtype, count
