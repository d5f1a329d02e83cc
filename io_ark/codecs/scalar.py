"""Scalars: int32, float, double, bool.

Source: ``BasicHolder`` in Kaldi's ``src/util/kaldi-holder-inl.h`` and ``WriteBasicType`` in ``src/base/io-funcs.cc``.
"""

from __future__ import annotations

import struct
from typing import TypeVar

import numpy as np

from io_ark.blocks.base import refuse_masks
from io_ark.codecs import base
from io_ark.codecs.base import Codec, Sink
from io_ark.codecs.pack import Pack, create_number_pack
from io_ark.codecs.text_format import format_row
from io_ark.errors import FormatError
from io_ark.streams.source import Source
from io_ark.text import quote_value

Value = TypeVar("Value")

# A size byte, and a number. They are no attributes of a codec, because a Struct cannot be pickled.
_SIZED_FLOAT = struct.Struct("<bf")
_SIZED_DOUBLE = struct.Struct("<bd")
_BLANKS = (b" ", b"\t", b"\v", b"\f", b"\r")


def _read_line_end(source: Source) -> None:
    """Read the white space and the newline after a scalar in text. Raise FormatError for any other character."""
    remainder = source.read_until(b"\n").strip()
    if remainder:
        source.fail(f"expected the end of the line after one value, found {base.quote(remainder)}")
    if not source.at_end():
        source.skip(1)


def _skip_blanks(source: Source) -> None:
    """Skip the blanks before a scalar in text. Raise FormatError if the line or the source ends after the blanks."""
    while (next_byte := source.peek(1)) in _BLANKS:
        source.skip(1)
    if next_byte in (b"", b"\n"):
        source.fail("expected a value, found the end of the line")


class _ScalarCodec(Codec[Value]):
    """Base class of codecs of scalars. In text, a scalar fills a line."""

    def read_body(self, source: Source, binary: bool) -> Value:
        if binary:
            return self._read_value(source, True)
        _skip_blanks(source)
        value = self._read_value(source, False)
        _read_line_end(source)
        return value

    def _read_value(self, source: Source, binary: bool) -> Value:
        raise NotImplementedError


class IntCodec(_ScalarCodec[int]):
    """Codec of 32-bit integers."""

    scan_kind = "int"

    def create_pack(self, binary: bool) -> Pack:
        return create_number_pack(binary, np.int32)

    def _read_value(self, source: Source, binary: bool) -> int:
        return base.read_int32(source, binary)

    def write_body(self, sink: Sink, value: int, binary: bool) -> None:
        number = base.as_int32(value)
        sink.write(base.encode_int32(number) if binary else b"%d \n" % number)


class FloatCodec(_ScalarCodec[float]):
    """Codec of floating-point numbers. It reads floats and doubles, and writes doubles if ``double`` is True."""

    def __init__(self, double: bool = False) -> None:
        self.double = double
        self.scan_kind = "double" if double else "float"

    def create_pack(self, binary: bool) -> Pack:
        return create_number_pack(binary, np.float64 if self.double else np.float32)

    def _read_value(self, source: Source, binary: bool) -> float:
        return base.read_float(source, binary, not self.double)

    def write_body(self, sink: Sink, value: float, binary: bool) -> None:
        refuse_masks(value)
        layout = _SIZED_DOUBLE if self.double else _SIZED_FLOAT
        try:
            packed = layout.pack(layout.size - 1, float(value))
        except (OverflowError, TypeError, ValueError) as error:
            name = "double" if self.double else "float"
            raise FormatError(f"{quote_value(value)} is not a number that fits into a {name}") from error
        sink.write(packed if binary else (format_row([layout.unpack(packed)[1]]) + "\n").encode("ascii"))


class BoolCodec(_ScalarCodec[bool]):
    """Codec of booleans."""

    scan_kind = "bool"

    def _read_value(self, source: Source, binary: bool) -> bool:
        return base.read_bool(source, binary)

    def write_body(self, sink: Sink, value: bool, binary: bool) -> None:
        if not isinstance(value, bool | np.bool_):
            raise FormatError(f"expected True or False, not {quote_value(value)}")
        sink.write((b"T" if value else b"F") + (b"" if binary else b" \n"))
