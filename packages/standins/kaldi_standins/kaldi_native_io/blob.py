"""Blobs, an object of kaldi_native_io only: a magic number, the size in 8 bytes, and the bytes.

Source: ``kaldi_native_io/python/csrc/blob.h`` in kaldi_native_io.
"""

from __future__ import annotations

import struct

from io_ark.codecs.base import Codec, Sink, read_marker
from io_ark.errors import FormatError, RangeError
from io_ark.streams.source import Source
from io_ark.text import format_count

_MAGIC = 0x20221114
_HEADER = struct.Struct("<iq")


class BlobCodec(Codec[bytes]):
    """Codec of bytes."""

    kind = "blob"

    def read_body(self, source: Source, binary: bool) -> bytes:
        return bytes(source.read(self._read_size(source, binary)))

    def read_slice(self, source: Source, first: int, last: int) -> bytes:
        """Read the bytes ``first`` to ``last`` (included) of a blob, counted from 0. A ``last`` of -1 is the last byte.

        Raise RangeError if the range is empty, or is not within the blob.
        """
        size = self._read_size(source, read_marker(source))
        end = size - 1 if last == -1 else last
        if not 0 <= first <= end < size:
            advice = f"give the first and the last byte in order, from 0 to {size - 1}" if size else "omit the range"
            message = f"the range [{first}:{last}] does not fit a blob of {format_count(size, 'byte')}: {advice}"
            raise RangeError(message, file=source.name)
        source.skip(first)
        return bytes(source.read(end + 1 - first))

    def _read_size(self, source: Source, binary: bool) -> int:
        """Read the header of a blob after its binary marker, and return the number of bytes that follow."""
        if not binary:
            source.fail("expected a binary object: a blob has no text format")
        magic, size = _HEADER.unpack(source.read(_HEADER.size))
        if magic != _MAGIC or size < 0:
            source.fail(
                "is not a blob of kaldi_native_io: use the reader of another type", source.tell() - _HEADER.size
            )
        return int(size)

    def write_body(self, sink: Sink, value: bytes, binary: bool) -> None:
        if not binary:
            raise FormatError("a blob has no text format: write it to a table without the option 't'")
        data = bytes(memoryview(value))
        sink.write(_HEADER.pack(_MAGIC, len(data)))
        sink.write(data)
