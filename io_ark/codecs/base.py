"""Building blocks of Kaldi objects: the binary marker, tokens, and numbers after their sizes.

Source: Kaldi's ``src/base/io-funcs.cc`` and ``io-funcs-inl.h``.
"""

from __future__ import annotations

import operator
import re
import struct
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from io_ark.blocks import ArrayInfo
from io_ark.blocks.base import refuse_masks
from io_ark.codecs.pack import Pack
from io_ark.codecs.ranges import extract_range
from io_ark.codecs.scan import Scan, make_scan
from io_ark.codecs.text_parse import round_to_float32
from io_ark.errors import ArkError, FormatError
from io_ark.specifier import Range
from io_ark.streams.foreign import refuse_foreign_file
from io_ark.streams.source import Source
from io_ark.text import quote_value

T = TypeVar("T")

# Errors that codecs raise for values of a wrong type. Tensors without a conversion to arrays raise RuntimeError.
_TYPE_ERRORS = (AttributeError, TypeError, ValueError, OverflowError, RuntimeError, struct.error)

BINARY_MARKER = b"\0B"
INT32_MAX = 2**31 - 1
INT32_MIN = -(2**31)
# Maximum length of a number in text. Kaldi writes far fewer characters, so a longer number shows a damaged file.
MAX_NUMBER_CHARACTERS = 400
MAX_TOKEN_BYTES = 4096  # Maximum length of a token, so that other data is not searched to its end for a space.

WHITE_SPACE = b" \t\n\v\f\r"
# Text that starts with one of these bytes is not checked for foreign formats, which saves time.
_STARTS_OF_NUMBERS = [b"%c" % byte for byte in b" 0123456789-"]
_TOKEN = re.compile(rb"(\S{1,%d})\s" % MAX_TOKEN_BYTES)
INTEGER = re.compile(rb"[+-]?[0-9]+")
NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
# Matches the available bytes after a number that may continue: no bytes, or the start of an exponent.
_UNFINISHED = re.compile(rb"(?:[eE][+-]?)?\Z")

_SIZED_INT32 = struct.Struct("<bi")
_FLOAT = struct.Struct("<f")
_DOUBLE = struct.Struct("<d")


class Sink(Protocol):
    """Protocol of objects to which codecs write bytes."""

    def write(self, data: Any, /) -> Any:
        """Write all bytes of ``data``, an object that supports the buffer protocol."""


class Codec(Generic[T]):
    """Base class of codecs. A codec converts one kind of object to bytes and back, without its key in a table.

    A subclass implements the format after the binary marker, and the text format.

    Attributes:
        kind: name of the kind, which :func:`io_ark.codecs.codec` sets. "" for a codec that you create yourself.
        marker: bytes before an object in binary, or b"" for formats without a marker.
        scan_kind: name of the kind in :mod:`io_ark.codecs.scan`, or "" for kinds without a scan.
    """

    kind = ""
    marker = BINARY_MARKER
    scan_kind = ""

    def starts_object(self, source: Source) -> bool:
        """Return True if the next bytes of ``source`` start an object and cannot be a key in an archive."""
        return source.peek_buffered(2) == BINARY_MARKER

    def read(self, source: Source) -> T:
        """Read the object at the current position of ``source``, in binary or in text.

        Raises:
            FormatError: the bytes are not an object of this kind.
            TruncatedError: the object is incomplete.
        """
        return self.read_body(source, read_marker(source))

    def read_single(self, source: Source) -> T:
        """Read the object at the current position of ``source``. Afterwards, the position of ``source`` is undefined.

        This can be faster than :meth:`read`, because the end of the object may stay unread and unchecked.
        """
        return self.read(source)

    def create_scan(self) -> Scan | None:
        """Return a reader of blocks of small objects, or None if no reader exists or the C library is missing."""
        return make_scan(self.scan_kind) if self.scan_kind else None

    def create_pack(self, binary: bool) -> Pack:
        """Return the methods to encode all entries of a block at once, in binary or (``binary=False``) in text."""
        return Pack()

    def read_part(self, source: Source, selection: Range | None) -> Any:
        """Read a part of the object at the current position, or skip the object and return its shape.

        Args:
            source: source at the first byte of the object.
            selection: rows and columns to read. The bytes after them may stay unread. None skips the object.

        Returns:
            The selected part. If ``selection`` is None, an :class:`~io_ark.blocks.ArrayInfo` (for audio, a
            :class:`~io_ark.codecs.wave.WaveInfo`), or the whole object if it has no header with a shape.

        Raises:
            FormatError: the bytes are not an object of this kind.
            TruncatedError: the object is incomplete, even if its data is only skipped.
            RangeError: the range is outside the object.
        """
        value = self.read(source)
        return value if selection is None else extract_range(value, selection, source.name)

    def write(self, sink: Sink, value: T, *, binary: bool = True) -> None:
        """Write ``value`` to ``sink``. In binary, write the marker first.

        Raise FormatError if the value cannot be written as this kind.
        """
        if binary and self.marker:
            sink.write(self.marker)
        try:
            self.write_body(sink, value, binary)
        except ArkError:
            raise
        except _TYPE_ERRORS as error:
            kind = self.kind or type(self).__name__
            raise FormatError(f"a {type(value).__name__} cannot be written as {kind!r}: {error}") from error

    def read_body(self, source: Source, binary: bool) -> T:
        """Read an object whose marker has been read or is absent, in binary (``binary=True``) or in text."""
        raise NotImplementedError

    def write_body(self, sink: Sink, value: T, binary: bool) -> None:
        """Write an object without its marker, in binary (``binary=True``) or in text."""
        raise NotImplementedError


# Maps classes to the kind of object that their instances are written as by default.
VALUE_KINDS: dict[type, str] = {}
Class = TypeVar("Class", bound=type)


def register_kind(kind: str) -> Callable[[Class], Class]:
    """Return a class decorator that makes ``kind`` the default kind for writing instances of the class."""

    def register_class(value_class: Class) -> Class:
        VALUE_KINDS[value_class] = kind
        return value_class

    return register_class


class ArrayCodec(Codec[npt.NDArray[Any]]):
    """Base class of codecs of arrays whose header contains the shape.

    Attributes:
        dtype: type of the elements of arrays that are read.
    """

    dtype: np.dtype[Any]

    def read_part(self, source: Source, selection: Range | None) -> Any:
        if selection is not None:
            return super().read_part(source, selection)
        if not read_marker(source):
            return self.read_body(source, False)
        return ArrayInfo(self.skip_body(source), self.dtype)

    def skip_body(self, source: Source) -> tuple[int, ...]:
        """Skip an array in binary, after its marker, and return its shape."""
        raise NotImplementedError


class FloatArrayCodec(ArrayCodec):
    """Base class of codecs of float arrays.

    Args:
        dtype: type of the elements of arrays that are read and written, float32 or float64.

    Attributes:
        name: kind of float32 arrays, such as "matrix". The kind of float64 arrays is this name after ``double-``.
    """

    name = ""

    def __init__(self, dtype: npt.DTypeLike = np.float32) -> None:
        self.dtype = np.dtype(dtype)
        self._stored_dtype, self._itemsize = to_little_endian(self.dtype), self.dtype.itemsize
        is_single = self.dtype == np.float32
        self.scan_kind = self.name if is_single else f"double-{self.name}"
        # The bytes of an array in binary before its first dimension: the marker, a token such as FM, a space, and the
        # byte 4, which is the length of the dimension in bytes.
        self._start = b"%b%c%c \4" % (BINARY_MARKER, b"F" if is_single else b"D", self.name[0].upper().encode())


def read_marker(source: Source) -> bool:
    """If the object at the current position is binary, skip its marker and return True. Return False for text.

    Raise FormatError if no Kaldi object begins at the current position.
    """
    marker = source.peek(2)
    if marker == BINARY_MARKER:
        source.skip(2)
        return True
    if marker[:1] not in _STARTS_OF_NUMBERS:
        refuse_foreign_file(source, "object")
    if marker == BINARY_MARKER[:1]:
        source.read(2)  # This raises TruncatedError, because the input ends after the zero byte.
    if marker[:1] == b"\0":
        source.fail("expected a binary or text object, found a zero byte without the 'B' of a binary object")
    return False


def quote(text: bytes) -> str:
    """Quote bytes of a file for a message. If there are more than 20, show the first 17 and ``...``."""
    shown = text if len(text) <= 20 else text[:17] + b"..."
    return repr(bytes(shown).decode("latin1"))


def quote_or_end(text: bytes) -> str:
    """Quote bytes of a file for a message, or return "the end" if there are none."""
    return quote(text) if text else "the end"


def peek_byte(source: Source, binary: bool) -> bytes:
    """Return the next byte without consuming it, or b"" at the end of the source. In text, skip white space first."""
    if not binary:
        source.skip_space()
    return source.peek(1)


def read_token(source: Source, binary: bool) -> bytes:
    """Read a token, skip the byte of white space after it, and return the token. In text, first skip white space.

    Raise FormatError if the next bytes are white space or the end of the source, or if the token has more than
    ``MAX_TOKEN_BYTES`` bytes.
    """
    at = source.tell()
    if not binary:
        source.skip_space()
    if match := source.match(_TOKEN):
        return match[1]
    token = source.peek(MAX_TOKEN_BYTES).split(maxsplit=1)[:1]
    if not token or source.peek(1) in WHITE_SPACE:
        source.fail("expected a token, found white space or the end", at)
    source.skip(len(token[0]))
    if source.peek(1) not in WHITE_SPACE:
        source.fail(f"no space in {MAX_TOKEN_BYTES} bytes after the start of the token {quote(token[0])}; the file is "
                    "damaged", at)  # fmt: skip
    if not source.at_end():
        source.skip(1)
    return token[0]


def expect_token(source: Source, binary: bool, *expected: bytes) -> bytes:
    """Read a token and return it. Raise FormatError unless it is one of the ``expected`` tokens."""
    at = source.tell()
    token = read_token(source, binary)
    if token not in expected:
        source.fail(f"expected {' or '.join(map(quote, expected))}, found {quote(token)}", at)
    return token


def read_int32(source: Source, binary: bool) -> int:
    """Read a 32-bit integer. Raise FormatError if there is no integer, or if it does not fit into 32 bits."""
    if binary:
        at = source.tell()
        size, value = _SIZED_INT32.unpack(source.read(5))
        if size != 4:
            source.fail(f"expected a 4-byte integer (a byte 4, then its bytes), found a byte {size % 256}", at)
        return int(value)
    text = _read_number(source, INTEGER, "an integer")
    value = int(text)
    if not INT32_MIN <= value <= INT32_MAX:
        source.fail(f"{quote(text)} does not fit into 32 bits", source.tell() - len(text))
    return value


def read_size(source: Source, binary: bool, what: str) -> int:
    """Read a count, which is a 32-bit integer. Raise FormatError for any other data, and for a negative number.

    ``what`` describes the count in the error message.
    """
    at = source.tell()
    size = read_int32(source, binary)
    if size < 0:
        source.fail(f"{what} is negative: {size}; the file is damaged", at)
    return size


def as_int32(value: object) -> int:
    """Convert ``value`` to a Python integer. Raise FormatError for a value that is not an integer of 32 bits."""
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError as error:
        raise FormatError(f"expected an integer, not {quote_value(value)}") from error
    if not INT32_MIN <= number <= INT32_MAX:
        raise FormatError(f"{number} does not fit into 32 bits: use integers from {INT32_MIN} to {INT32_MAX}")
    return number


def encode_int32(value: int) -> bytes:
    """Encode a 32-bit integer in binary: a byte 4, and then the integer in little-endian byte order."""
    return _SIZED_INT32.pack(4, value)


def read_float(source: Source, binary: bool, is_single: bool = True) -> float:
    """Read a float and round it to float32, or read a double if ``is_single`` is False.

    A binary number of the other type is converted. As in Kaldi, ``inf`` and ``nan`` in text are refused. Raise
    FormatError if there is no number, or a number in text is out of range.
    """
    at = source.tell()
    if binary:
        size = source.read(1)[0]
        if size not in (4, 8):
            source.fail(f"expected a float (a byte 4 or 8, then its bytes), found a byte {size}", at)
        number_struct = _FLOAT if size == 4 else _DOUBLE
        value = float(number_struct.unpack(source.read(size))[0])
        if size == 4 or not is_single:
            return value
        with np.errstate(over="ignore"):
            return float(np.float32(value))
    text = _read_number(source, NUMBER, "a number")
    value = round_to_float32(text) if is_single else float(text)
    if np.isinf(value):
        source.fail(f"{quote(text)} is out of range for a {'float' if is_single else 'double'}", at)
    return value


def read_bool(source: Source, binary: bool) -> bool:
    """Read a boolean, which is stored as ``T`` or ``F``. Raise FormatError for any other character."""
    letter = peek_byte(source, binary)
    if letter not in (b"T", b"F"):
        source.fail(f"expected T or F, found {quote_or_end(letter)}")
    source.skip(1)
    return letter == b"T"


def _read_number(source: Source, pattern: re.Pattern[bytes], what: str) -> bytes:
    """Skip white space, and read a number in text that matches ``pattern``. ``what`` names the number in errors.

    Raise FormatError if there is no such number, or if it has ``MAX_NUMBER_CHARACTERS`` or more characters.
    """
    source.skip_space()
    next_bytes = source.peek_buffered(MAX_NUMBER_CHARACTERS)
    number = pattern.match(next_bytes)
    # A complete number needs no further bytes, for which the reader of a pipe might have to wait.
    if not number or _UNFINISHED.match(next_bytes, number.end()):
        next_bytes = source.peek(MAX_NUMBER_CHARACTERS)
        number = pattern.match(next_bytes)
    if not number:
        source.fail(f"expected {what}, found {quote_or_end(b''.join(next_bytes.split(maxsplit=1)[:1]))}")
    if number.end() == MAX_NUMBER_CHARACTERS:
        source.fail(f"a number has {MAX_NUMBER_CHARACTERS} or more characters; the file is damaged, or has another "
                    "kind of object")  # fmt: skip
    source.skip(number.end())
    return number[0]


def skip_line_end(source: Source) -> None:
    r"""Skip the ``\n`` or ``\r\n`` that ends a text object, if it is present."""
    end = source.peek(2)
    if end == b"\r\n":
        source.skip(2)
    elif end[:1] == b"\n":
        source.skip(1)


def as_array(value: npt.ArrayLike) -> npt.NDArray[Any]:
    """Convert ``value`` to an array. Raise FormatError if ``value`` has masked elements."""
    if type(value) is not np.ndarray:
        refuse_masks(value)
    return np.asarray(value)


def as_floats(value: npt.ArrayLike, dtype: npt.DTypeLike, dimensions: int) -> npt.NDArray[Any]:
    """Convert ``value`` to a vector (``dimensions=1``) or a matrix (``dimensions=2``) of the float type ``dtype``.

    An empty matrix gets the shape (0, 0), because Kaldi's programs fail when they read a matrix with rows but no
    columns, or with columns but no rows. Raise FormatError if ``value`` is not numeric, has masked elements, or has a
    different number of dimensions.
    """
    array = value if type(value) is np.ndarray else as_array(value)
    if array.dtype == dtype and array.ndim == dimensions and array.size:
        return array
    if array.ndim != dimensions or array.dtype.kind not in "fiub":
        description = f"a {array.ndim}-dimensional array of {array.dtype}"
        raise FormatError(f"expected a {dimensions}-dimensional array of numbers, not {description}: convert the array")
    with np.errstate(over="ignore"):
        return array.astype(dtype, copy=False) if array.size else np.empty((0,) * dimensions, dtype)


def to_little_endian(dtype: npt.DTypeLike) -> np.dtype[Any]:
    """Return ``dtype`` in little-endian byte order.

    memoryview reads arrays of this type, but not arrays of the type that ``newbyteorder`` returns.
    """
    return np.dtype(f"<{np.dtype(dtype).str[1:]}")


# Maximum bytes of an array that is copied, because creating a view of its bytes would take longer.
_MAX_COPIED_BYTES = 1 << 12


def view_raw_bytes(array: npt.NDArray[Any]) -> bytes | memoryview:
    """Return the bytes of an array in C order. A large, contiguous array is viewed without a copy."""
    if array.nbytes <= _MAX_COPIED_BYTES:
        return array.tobytes()
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
