"""Scalars: int32, float, double, bool.

Source: ``BasicHolder`` in Kaldi's ``src/util/kaldi-holder-inl.h`` and ``WriteBasicType`` in ``src/base/io-funcs.cc``.
"""

from __future__ import annotations

import re
import struct

from io_ark.codecs import base
from io_ark.codecs.base import Codec, Sink
from io_ark.codecs.pack import Pack, floats, integers
from io_ark.codecs.text_format import format_row
from io_ark.codecs.text_parse import nearest_float32
from io_ark.errors import FormatError
from io_ark.streams.source import Source

# Simple values that are in range, on a line of their own. Other lines take the slow path, which waits for more bytes of
# a pipe than the value has.
_INT_LINE = re.compile(rb"[ \t]*([+-]?[0-9]{1,9})[ \t\r]*\n")
_FLOAT_LINE = re.compile(rb"[ \t]*([+-]?[0-9]{1,20}(?:\.[0-9]{0,20})?(?:[eE](?:-[0-9]{1,2}|\+?0?[0-9]))?)[ \t\r]*\n")


def _end_text(source: Source) -> None:
    """Read the text after a scalar: white space and the end of the line."""
    rest = source.read_until(b"\n")
    if rest.strip():
        source.fail(f"expected the end of the line after one value, found {base.quoted(rest.strip())}")
    if not source.at_end():
        source.skip(1)


def _start_text(source: Source) -> None:
    """Check that a value follows on this line."""
    ahead = source.peek(base.LONGEST_TOKEN)
    blank = len(ahead) - len(ahead.lstrip(b" \t\v\f\r"))
    if ahead[blank : blank + 1] in (b"", b"\n"):
        source.fail("expected a value, found the end of the line")


class IntCodec(Codec[int]):
    """Codec of 32-bit integers."""

    scan_kind = "int"

    def pack(self, binary: bool) -> Pack:
        return integers(binary)

    def read_body(self, source: Source, binary: bool) -> int:
        if binary:
            return base.read_int32(source, True)
        if simple := source.match(_INT_LINE):
            return int(simple[1])
        _start_text(source)
        value = base.read_int32(source, False)
        _end_text(source)
        return value

    def write_body(self, sink: Sink, value: int, binary: bool) -> None:
        number = base.as_int32(value)
        sink.write(base.int32_bytes(number) if binary else b"%d \n" % number)


class FloatCodec(Codec[float]):
    """Codec of floats, or doubles if ``double``; reads either."""

    def __init__(self, double: bool = False) -> None:
        self.double = double
        self.scan_kind = "double" if double else "float"
        self._packed = struct.Struct("<bd" if double else "<bf")

    def pack(self, binary: bool) -> Pack:
        return floats(binary, self.double)

    def read_body(self, source: Source, binary: bool) -> float:
        if binary:
            return base.read_float(source, True, not self.double)
        if simple := source.match(_FLOAT_LINE):
            return float(simple[1]) if self.double else nearest_float32(simple[1])
        _start_text(source)
        value = base.read_float(source, False, not self.double)
        _end_text(source)
        return value

    def write_body(self, sink: Sink, value: float, binary: bool) -> None:
        try:
            packed = self._packed.pack(self._packed.size - 1, float(value))
        except (OverflowError, TypeError, ValueError) as error:
            raise FormatError(f"{value!r} is not a {'double' if self.double else 'float'}") from error
        sink.write(packed if binary else (format_row([self._packed.unpack(packed)[1]]) + "\n").encode("ascii"))


class BoolCodec(Codec[bool]):
    """Codec of booleans."""

    scan_kind = "bool"

    def read_body(self, source: Source, binary: bool) -> bool:
        if binary:
            return base.read_bool(source, True)
        _start_text(source)
        value = base.read_bool(source, False)
        _end_text(source)
        return value

    def write_body(self, sink: Sink, value: bool, binary: bool) -> None:
        sink.write((b"T" if value else b"F") + (b"" if binary else b" \n"))
