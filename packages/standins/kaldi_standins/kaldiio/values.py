"""Values in kaldiio's shapes: text, audio, and ranges of both.

Source: ``read_ascii_mat``, ``write_array_ascii`` and ``_convert_to_slice`` in kaldiio's ``matio.py``.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from io_ark.codecs import AnyCodec, Codec, codec
from io_ark.codecs.audio import detect_audio_format
from io_ark.codecs.base import BINARY_MARKER, NUMBER, Sink, as_array, skip_line_end
from io_ark.codecs.detect import detect_kind
from io_ark.codecs.int_vector import PlainIntVectorCodec
from io_ark.errors import ArkError, RangeError, SpecifierError
from io_ark.specifier import Range
from io_ark.streams.access import Access
from io_ark.streams.files import OpenFiles
from io_ark.streams.source import BytesSource, Source
from io_ark.tables.loader import Loader
from kaldi_standins.as_stored import write_empty_matrix
from kaldi_standins.kaldiio.big_endian import swap_bytes
from kaldi_standins.kaldiio.extended import find_extended_reader, make_extended_writer
from kaldi_standins.kaldiio.wavio import decode_audio, read_audio, write_audio

_MAX_TAG_BYTES = 6  # Number of bytes of "AUDIO", the longest tag, and of the byte after the tag.
_FIRST_PEEK_BYTES = 1 << 12  # Number of bytes that are read ahead at first, to recognize an object in text.
_WHOLE_NUMBER_BYTES = b"+-0123456789 \t["  # Bytes of a text vector of whole numbers before its closing bracket.


class KaldiioCodec(AnyCodec):
    """Codec of objects of any kind in kaldiio's shapes.

    Audio is ``(rate, samples)``. A vector in text is an int32 array if all numbers are whole, and otherwise float32.

    Args:
        compress: compression method of matrices, from 1 to 7. None for no compression.
        endian: byte order, "<" or ">".
        write_function: "soundfile", "numpy" or "pickle". None for Kaldi's formats.
        write_kwargs: arguments of the function that ``write_function`` names.
        load_kwargs: arguments of ``soundfile.read`` for objects that soundfile wrote.
    """

    def __init__(
        self,
        compress: int | None = None,
        *,
        endian: str = "<",
        write_function: str | None = None,
        write_kwargs: Mapping[str, Any] | None = None,
        load_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(compress)
        if endian not in ("<", ">"):
            raise SpecifierError(f"endian={endian!r} is not a byte order: use '<' or '>'")
        self._big_endian, self._load_kwargs = endian == ">", load_kwargs or {}
        self._writer = None if write_function is None else make_extended_writer(write_function, write_kwargs or {})

    def read(self, source: Source) -> Any:
        """Read an object in Kaldi's binary or text format, audio, or an object that only kaldiio has."""
        head = source.peek(_MAX_TAG_BYTES)
        if head[:2] == BINARY_MARKER:
            little_endian_source = (
                BytesSource(swap_bytes(source, ">"), name=source.name) if self._big_endian else source
            )
            return self.detect_codec(little_endian_source).read(little_endian_source)
        if head[:4] in (b"RIFF", b"RIFX"):
            return read_audio(source)
        if (read_extended := find_extended_reader(head)) is not None:
            return read_extended(source, **self._load_kwargs)
        # Audio in all other formats extends to the end of the source, so it can only be a whole file.
        if source.tell() == 0 and detect_audio_format(source):
            return decode_audio(source.read_rest(), source)
        return self._read_text(source)

    def _read_text(self, source: Source) -> Any:
        """Read an object in text. A vector or line of numbers becomes an int32 array if all are whole, else float32.

        Any other object has the type that :class:`~io_ark.codecs.AnyCodec` detects. Raise FormatError at the end.
        """
        if (source.tell() == 0 and not _peek_until(source, b"\n").strip()) or not source.peek(1):
            source.fail("expected an object, found nothing")  # A blank line is an empty vector only in an archive.
        kind, _ = detect_kind(source)
        if kind == "vector" and source.peek(_FIRST_PEEK_BYTES).lstrip().startswith(b"["):
            if not _peek_until(source, b"]").translate(None, _WHOLE_NUMBER_BYTES):
                integers = PlainIntVectorCodec().read_body(source, False)
                skip_line_end(source)
                return integers
        elif kind == "int":
            return codec("int-vector").read(source)
        elif kind in ("double", "token-vector"):
            words = _peek_until(source, b"\n").split()
            if all(map(NUMBER.fullmatch, words)):
                source.read_line()
                return np.array([float(word) for word in words], np.float32)
        return super().read(source)

    def read_part(self, source: Source, selection: Range | None) -> Any:
        head = source.peek(_MAX_TAG_BYTES)
        if head[:2] != BINARY_MARKER or self._big_endian:
            return Codec.read_part(self, source, selection)  # Only little-endian binary arrays can be read in part.
        return super().read_part(source, selection)

    def write_body(self, sink: Sink, value: Any, binary: bool) -> None:
        """Write a value by ``write_function``, or else audio as a WAV file and other values in Kaldi's format.

        Arrays in text have kaldiio's digits, and binary objects have the byte order of the codec.
        """
        if self._writer is not None:
            self._writer(sink, value)
        elif (audio := _unpack_audio(value)) is not None:
            write_audio(sink, *audio)
        elif not binary and isinstance(value, np.ndarray) and value.dtype.kind in "fi" and value.ndim in (1, 2):
            sink.write(format_array(as_array(value)))
        elif binary and self._big_endian:
            buffer = io.BytesIO()
            self._write_binary(buffer, value)
            sink.write(swap_bytes(BytesSource(buffer.getvalue()), "<"))
        elif binary:
            self._write_binary(sink, value)
        else:
            super().write_body(sink, value, binary)

    def _write_binary(self, sink: Sink, value: Any) -> None:
        """Write an object in little-endian binary. An empty float matrix keeps its numbers of rows and columns."""
        if isinstance(value, np.ndarray) and value.ndim == 2 and value.size == 0 and value.dtype.kind == "f":
            write_empty_matrix(sink, value)
        else:
            super().write_body(sink, value, True)


def _peek_until(source: Source, stop: bytes) -> bytes:
    """Return the bytes before the first byte ``stop``, or all remaining bytes, without consuming them."""
    size = _FIRST_PEEK_BYTES
    while stop not in (head := source.peek(size)) and len(head) == size:
        size *= 4
    return head.partition(stop)[0]


def format_array(array: npt.NDArray[Any], digit: str = "") -> bytes:
    """Format a vector or matrix in text as kaldiio does. ``digit`` is the format of a number, such as ".12g".

    By default, numbers have the digits that ``str`` writes for the number in double precision.
    """
    if array.ndim == 1:
        return f" [ {_format_row(array, digit)}]\n".encode("ascii")
    return (" [" + "".join([f"\n  {_format_row(row, digit)}" for row in array]) + "]\n").encode("ascii")


def _format_row(values: npt.NDArray[Any], digit: str) -> str:
    return "".join([f"{value:{digit}} " for value in values.tolist()])


@lru_cache
def get_codec(endian: str) -> KaldiioCodec:
    """Return the codec for objects of a byte order, "<" or ">"."""
    return KaldiioCodec(endian=endian)


def load_numpy_range(load: Callable[[str], Any], rxfilename: str, kaldi_error: ArkError) -> Any:
    """Load an object and cut it by kaldiio's rules for ranges, after Kaldi's rules have caused ``kaldi_error``.

    ``load`` is called with the rxfilename without its range, and returns the object. Raise ``kaldi_error`` if
    ``rxfilename`` does not end with a range by kaldiio's rules, or the object cannot be sliced by the range.
    """
    name, bracket, range_text = rxfilename.rstrip().removesuffix("]").rpartition("[")
    slices = parse_slices(range_text) if bracket and rxfilename.rstrip().endswith("]") else None
    if slices is None:
        raise kaldi_error
    value = load(name)
    try:
        return cut_slices(value, slices)
    except (IndexError, TypeError, ValueError):  # Too many axes, an object without axes, or a step of 0.
        raise kaldi_error from None


class KaldiioLoader(Loader):
    """Loads the objects of a script file in kaldiio's shapes. Ranges follow Kaldi's rules, or else kaldiio's.

    Args:
        access: permission to run commands and to open URLs.
        max_open_files: maximum number of open archives.
        endian: byte order, "<" or ">".
        in_order: True if objects are read in file order, which makes reading ahead useful.
    """

    def __init__(self, access: Access, max_open_files: int, endian: str, *, in_order: bool = False) -> None:
        files = OpenFiles(max_open_files, access=access)
        super().__init__(get_codec(endian), access, files=files, in_order=in_order)

    def load_value(self, key: str | None, rxfilename: str) -> Any:
        """Load the object at a location. A range that Kaldi refuses follows kaldiio's rules. Errors name the key."""
        try:
            return super().load_value(key, rxfilename)
        except (RangeError, SpecifierError) as error:
            return load_numpy_range(partial(super().load_value, key), rxfilename, error)


def parse_slices(range_text: str) -> tuple[slice, ...] | None:
    """Parse a range such as ``0:9,2`` as kaldiio does. Return None for any other string.

    The range has one part for each axis: ``first:last`` or ``first:last:step`` (with ``last`` included), a single
    index, or, for the whole axis, "" or ":". Each slice of the result excludes its end, as in Python.
    """
    slices = []
    for interval in range_text.split(","):
        if interval in ("", ":"):
            slices.append(slice(None))
            continue
        try:
            first, *last_and_step = map(int, interval.split(":"))
        except ValueError:
            return None
        if len(last_and_step) > 2:
            return None
        last = last_and_step[0] if last_and_step else first
        slices.append(slice(first, last + 1, *last_and_step[1:]))
    return tuple(slices)


def cut_slices(value: Any, slices: tuple[slice, ...]) -> Any:
    """Return the part ``slices`` of an array, or audio ``(rate, samples)`` with this part of its samples."""
    return (value[0], value[1][slices]) if is_audio(value) else value[slices]


def is_audio(value: Any) -> TypeGuard[tuple[int, npt.NDArray[Any]]]:
    """Return True for audio ``(rate, samples)``, a plain tuple. Training examples are named tuples, so return False."""
    return type(value) is tuple


def _unpack_audio(value: Any) -> tuple[Any, npt.NDArray[Any]] | None:
    """Return the rate in Hz and the samples of a pair ``(rate, samples)``. Return None for any other value."""
    if not (isinstance(value, list | tuple) and len(value) == 2):
        return None
    rate, samples = value
    return (rate, samples) if isinstance(samples, np.ndarray) and isinstance(rate, int | float | np.number) else None
