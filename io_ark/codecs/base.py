"""What every Kaldi object is made of: the binary marker, tokens, and numbers that say their own size.

Facts from Kaldi's ``src/base/io-funcs.cc`` and ``io-funcs-inl.h``.
"""

from __future__ import annotations

import operator
import re
import struct
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from io_ark.codecs.array_info import Outline
from io_ark.codecs.batch import Batch
from io_ark.codecs.ranges import extract_range
from io_ark.codecs.text_parse import nearest_float32
from io_ark.errors import ArkError, FormatError
from io_ark.native.scan import Scanner, scanner
from io_ark.specifier import Range
from io_ark.streams.source import Source

T = TypeVar("T")

# What comes of treating a value as something that it is not (RuntimeError: tensors that do not become arrays).
_NOT_OF_THE_KIND = (AttributeError, TypeError, ValueError, OverflowError, RuntimeError, struct.error)

BINARY_MARKER = b"\0B"
INT32_MAX = 2**31 - 1
INT32_MIN = -(2**31)
# How far to look ahead for a number or a token written as text; none that Kaldi writes is nearly as long.
LONGEST_NUMBER = 400
LONGEST_TOKEN = 4096

WHITE_SPACE = b" \t\n\v\f\r"
INTEGER = re.compile(rb"[+-]?[0-9]+")
NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")

_SIZED_INT32 = struct.Struct("<bi")
_FLOAT = struct.Struct("<f")
_DOUBLE = struct.Struct("<d")


class Sink(Protocol):
    """Where a codec puts bytes."""

    def write(self, data: Any, /) -> Any:
        """Take all of these bytes (any object with a buffer)."""


class Codec(Generic[T]):
    """Turns one kind of object into bytes and back; knows no file and no key.

    A subclass says what follows the binary marker (or, without one, what the text looks like).

    Attributes:
        kind: the name that :func:`io_ark.codecs.codec` knows it by; "" if it was not made there.
        marker: what is written before an object in binary: nothing where it stands in a file as it is.
        scan_kind: the name that :mod:`io_ark.native.scan` knows such objects by; "" if it does not.
    """

    kind = ""
    marker = BINARY_MARKER
    scan_kind = ""

    def read(self, source: Source) -> T:
        """The object that starts at the next byte of ``source``, in binary or in text.

        Raises:
            FormatError: something else stands there.
            TruncatedError: the object is not all there.
        """
        return self.read_body(source, read_marker(source))

    def scanner(self) -> Scanner | None:
        """Return the C code that reads many small objects of this kind at a time; None if there is none."""
        return scanner(self.scan_kind) if self.scan_kind else None

    def batch(self, binary: bool) -> Batch | None:
        """Return how many small objects of this kind are written together; None if they are written one by one."""
        return None

    def read_range(self, source: Source, part: Range) -> T:
        """Part of the object that starts at the next byte; what follows that part may stay unread.

        Raises:
            RangeError: it has no such part.
        """
        value: T = extract_range(self.read(source), part, source.name)
        return value

    def read_outline(self, source: Source) -> Any:
        """Something of the shape of the object that starts at the next byte, which is passed over.

        Where a header tells the shape, the bytes that it announces have to be there, but are not looked at: the result
        is an :class:`~io_ark.codecs.array_info.Outline` (of audio, a :class:`~io_ark.codecs.wave.WaveInfo`). Else it is the
        object itself.

        Raises:
            FormatError, TruncatedError: as of :meth:`read`.
        """
        return self.read(source)

    def write(self, sink: Sink, value: T, *, binary: bool = True) -> None:
        """Put ``value`` into ``sink``, after the binary marker if ``binary``.

        Raises:
            FormatError: the value is not of this kind.
        """
        if binary and self.marker:
            sink.write(self.marker)
        try:
            self.write_body(sink, value, binary)
        except ArkError:
            raise
        except _NOT_OF_THE_KIND as error:
            named = self.kind or type(self).__name__
            raise FormatError(f"a {type(value).__name__} cannot be written as {named!r}: {error}") from error

    def read_body(self, source: Source, binary: bool) -> T:
        """The object without its marker, as it stands within larger objects."""
        raise NotImplementedError

    def write_body(self, sink: Sink, value: T, binary: bool) -> None:
        """Put the object without a marker."""
        raise NotImplementedError


class ArrayCodec(Codec[npt.NDArray[Any]]):
    """A codec of arrays that in binary follow a header with their shape.

    Attributes:
        dtype: of the arrays that it reads.
    """

    dtype: np.dtype[Any]

    def read_outline(self, source: Source) -> Any:
        if not read_marker(source):
            return self.read_body(source, False)
        return Outline(self.skip_body(source), self.dtype)

    def skip_body(self, source: Source) -> tuple[int, ...]:
        """Go past an array in binary, after its marker; its shape."""
        raise NotImplementedError


def read_marker(source: Source) -> bool:
    """Whether the object that starts here is binary; passes over the marker."""
    marker = source.peek(2)
    if marker == BINARY_MARKER:
        source.skip(2)
        return True
    if marker[:1] == b"\0":
        source.fail("a zero byte that no 'B' follows: neither a binary nor a text object starts here")
    return False


def shown(text: bytes) -> str:
    """Bytes of a file as they may appear in a message: short, on one line."""
    cut = text if len(text) <= 20 else text[:17] + b"..."
    return repr(bytes(cut).decode("latin1"))


def peek_byte(source: Source, binary: bool) -> bytes:
    """The next byte (in text: that is not white space), unread; empty at the end."""
    if not binary:
        source.skip_space()
    return source.peek(1)


def read_token(source: Source, binary: bool) -> bytes:
    """A token and the one space after it."""
    at = source.tell()
    if not binary:
        source.skip_space()
    token = source.peek(LONGEST_TOKEN).split(maxsplit=1)[:1]
    if not token or source.peek(1) in WHITE_SPACE:
        source.fail("a token should stand here", at)
    source.skip(len(token[0]))
    if source.peek(1) not in WHITE_SPACE:
        source.fail(f"no space after the token {shown(token[0])}", at)
    if not source.at_end():
        source.skip(1)
    return token[0]


def expect_token(source: Source, binary: bool, *expected: bytes) -> bytes:
    """The token that stands here, which has to be one of these."""
    at = source.tell()
    token = read_token(source, binary)
    if token not in expected:
        source.fail(f"{' or '.join(map(shown, expected))} should stand here, not {shown(token)}", at)
    return token


def read_int32(source: Source, binary: bool) -> int:
    """A 32-bit integer."""
    if binary:
        at = source.tell()
        size, value = _SIZED_INT32.unpack(source.read(5))
        if size != 4:
            source.fail(f"a 4-byte integer should stand here (a byte 4, then its bytes), not a byte {size % 256}", at)
        return int(value)
    found = _read_text(source, INTEGER, "an integer")
    value = int(found)
    if not INT32_MIN <= value <= INT32_MAX:
        source.fail(f"{shown(found)} does not fit into 32 bits", source.tell() - len(found))
    return value


def read_size(source: Source, binary: bool, of: str) -> int:
    """A 32-bit count, which cannot be negative; ``of`` says of what."""
    at = source.tell()
    size = read_int32(source, binary)
    if size < 0:
        source.fail(f"{of}: {size}, which cannot be", at)
    return size


def as_int32(value: object) -> int:
    """``value`` as an integer of 32 bits.

    Raises:
        FormatError: it is none, or too large.
    """
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError as error:
        raise FormatError(f"an integer is wanted, not {value!r}") from error
    if not INT32_MIN <= number <= INT32_MAX:
        raise FormatError(f"{number} does not fit into 32 bits")
    return number


def int32_bytes(value: int) -> bytes:
    """A 32-bit integer in binary."""
    return _SIZED_INT32.pack(4, value)


def read_float(source: Source, binary: bool, single: bool = True) -> float:
    """A float (``single``) or double; in binary, stored as either. In text neither ``inf`` nor ``nan``, as in Kaldi."""
    at = source.tell()
    if binary:
        size = source.read(1)[0]
        if size not in (4, 8):
            source.fail(f"a float should stand here (a byte 4 or 8, then its bytes), not a byte {size}", at)
        stored = _FLOAT if size == 4 else _DOUBLE
        value = float(stored.unpack(source.read(size))[0])
        if size == 4 or not single:
            return value
        with np.errstate(over="ignore"):
            return float(np.float32(value))
    text = _read_text(source, NUMBER, "a number")
    value = nearest_float32(text) if single else float(text)
    if np.isinf(value):
        source.fail(f"{shown(text)} is beyond the range of a {'float' if single else 'double'}", at)
    return value


def read_bool(source: Source, binary: bool) -> bool:
    """``T`` or ``F``."""
    letter = peek_byte(source, binary)
    if letter not in (b"T", b"F"):
        source.fail(f"T or F should stand here, not {shown(letter) if letter else 'the end'}")
    source.skip(1)
    return letter == b"T"


def _read_text(source: Source, pattern: re.Pattern[bytes], what: str) -> bytes:
    source.skip_space()
    ahead = source.peek(LONGEST_NUMBER)
    found = pattern.match(ahead)
    if not found:
        start = ahead.split(maxsplit=1)[:1]
        source.fail(f"{what} should stand here, not {shown(start[0]) if start else 'the end'}")
    if found.end() == LONGEST_NUMBER:
        source.fail(f"a number of {LONGEST_NUMBER} or more characters")
    source.skip(found.end())
    return found[0]


def end_line(source: Source) -> None:
    r"""Pass over the ``\n`` or ``\r\n`` that ends a text object, if it is there."""
    end = source.peek(2)
    if end == b"\r\n":
        source.skip(2)
    elif end[:1] == b"\n":
        source.skip(1)


def raw_bytes(array: npt.NDArray[Any]) -> memoryview | bytes:
    """An array's bytes in C order, without a copy where it is contiguous."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data if array.size else b""
