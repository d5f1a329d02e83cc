"""kaldiio's ``compression_header``: headers and methods of compressed matrices (src/matrix/compressed-matrix.h).

The headers are for code that parses files itself. :mod:`io_ark.codecs.compressed` reads and writes archives.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from io_ark.codecs.compressed import compress

__all__ = [
    "GlobalHeader", "PerColHeader", "kAutomaticMethod", "kOneByteAuto", "kOneByteUnsignedInteger", "kOneByteZeroOne",
    "kSpeechFeature", "kTwoByteAuto", "kTwoByteSignedInteger",
]  # fmt: skip

Array = npt.NDArray[Any]

kAutomaticMethod, kSpeechFeature, kTwoByteAuto, kTwoByteSignedInteger = 1, 2, 3, 4
kOneByteAuto, kOneByteUnsignedInteger, kOneByteZeroOne = 5, 6, 7


@dataclass
class GlobalHeader:
    """Header of a compressed matrix.

    Attributes:
        type: format, "CM", "CM2" or "CM3".
        min_value: value of integer 0.
        range: difference between the values of the largest integer and of integer 0.
        rows, cols: shape of the matrix.
        endian: byte order in files, "<" or ">".
        c: largest stored integer, 65535 or 255.
        size: number of bytes of the token and the header.

    >>> import numpy as np
    >>> from kaldi_standins.kaldiio.compression_header import GlobalHeader, kOneByteAuto
    >>> GlobalHeader.compute(np.array([[0.0, 1.0], [2.0, 3.0]]), kOneByteAuto).type
    'CM3'
    """

    type: str
    min_value: float
    range: float
    rows: int
    cols: int
    endian: str = "<"

    def __post_init__(self) -> None:
        self.c = 255.0 if self.type == "CM3" else 65535.0
        self.size = len(self.type) + 1 + 4 * 4  # The token, a space, and four numbers of 4 bytes.

    @staticmethod
    def read(fd: IO[bytes], type: str = "CM", endian: str = "<") -> GlobalHeader:
        """Read the header from an open binary file, after its token ``type`` and a space. ``endian`` is "<" or ">"."""
        min_value, span, rows, cols = struct.unpack(f"{endian}ffii", fd.read(16))
        return GlobalHeader(type, min_value, span, rows, cols, endian)

    def write(self, fd: IO[bytes], endian: str | None = None) -> int:
        """Write the token and the header to an open binary file, and return the number of bytes written.

        ``endian`` is the byte order, by default ``self.endian``.
        """
        numbers = self.min_value, self.range, self.rows, self.cols
        fd.write(self.type.encode() + b" " + struct.pack(f"{endian or self.endian}ffii", *numbers))
        return self.size

    @staticmethod
    def compute(array: Array, compression_method: int, endian: str = "<") -> GlobalHeader:
        """Return the header that an array (rows, columns) has after compression with a method from 1 to 7."""
        matrix = compress(array, compression_method)
        return GlobalHeader(matrix.format.decode(), matrix.minimum, matrix.range, *matrix.shape, endian)

    def float_to_uint(self, array: Array) -> Array:
        """Convert values in the header's range to integers of the same shape, uint8 for "CM3" and otherwise uint16."""
        scaled = np.asarray((array - self.min_value) / self.range * self.c + 0.499)  # Kaldi's constant for rounding.
        return scaled.astype(f"{self.endian}u{1 if self.type == 'CM3' else 2}")

    def uint_to_float(self, array: Array) -> Array:
        """Convert stored integers to float32 values of the same shape."""
        return self.min_value + array.astype(np.float32) * self.range / self.c


@dataclass
class PerColHeader:
    """The percentiles 0, 25, 75 and 100 of each column of a matrix in the format "CM": arrays of shape (columns, 1).

    ``endian`` is the byte order in files, "<" or ">", and ``size`` is the number of bytes in a file.

    >>> import numpy as np
    >>> from kaldi_standins.kaldiio.compression_header import GlobalHeader, PerColHeader, kSpeechFeature
    >>> matrix = np.array([[0.0, 1.0], [2.0, 3.0]])
    >>> PerColHeader.compute(matrix, GlobalHeader.compute(matrix, kSpeechFeature)).p0.shape
    (2, 1)
    """

    p0: Array
    p25: Array
    p75: Array
    p100: Array
    endian: str = "<"

    def __post_init__(self) -> None:
        self.size = 8 * len(self.p0)  # Four percentiles of 2 bytes for each column.
        # Percentiles at both ends of a range, the code of the lower percentile, and the number of steps between them.
        self._ranges = (self.p0, self.p25, 0, 64), (self.p25, self.p75, 64, 128), (self.p75, self.p100, 192, 63)

    @staticmethod
    def read(fd: IO[bytes], global_header: GlobalHeader) -> PerColHeader:
        """Read the percentiles of the columns, which follow ``global_header``, from an open binary file."""
        integers = np.frombuffer(fd.read(8 * global_header.cols), global_header.endian + "u2").reshape(-1, 4, 1)
        p0, p25, p75, p100 = global_header.uint_to_float(integers).swapaxes(0, 1)
        return PerColHeader(p0, p25, p75, p100, global_header.endian)

    def write(self, fd: IO[bytes], global_header: GlobalHeader, endian: str | None = None) -> int:
        """Write the percentiles to an open binary file, as integers in the range of ``global_header``.

        Return the number of bytes written. ``endian`` is the byte order, by default ``self.endian``.
        """
        integers = global_header.float_to_uint(np.concatenate([self.p0, self.p25, self.p75, self.p100], axis=1))
        return fd.write(integers.astype((endian or self.endian) + "u2").tobytes())

    @staticmethod
    def compute(array: Array, global_header: GlobalHeader) -> PerColHeader:
        """Return the percentiles that method 2 stores for an array (rows, columns) with this ``global_header``."""
        percentiles = compress(array, kSpeechFeature).percentiles
        p0, p25, p75, p100 = global_header.uint_to_float(percentiles.T[:, :, None])
        return PerColHeader(p0, p25, p75, p100, global_header.endian)

    def float_to_char(self, array: Array) -> Array:
        """Convert values (columns, rows) to codes from 0 to 255, uint8 of the same shape.

        The codes 0, 64, 192 and 255 stand for the four percentiles of a column, with linear steps in between (Kaldi's
        ``FloatToChar``).
        """
        codes_by_range = [
            np.clip((array - low) / (high - low) * steps + 0.5, 0, steps) + offset
            for low, high, offset, steps in self._ranges
        ]
        codes: Array = np.choose((array >= self.p25) + (array >= self.p75).astype(int), codes_by_range)
        return codes.astype(np.uint8)

    def char_to_float(self, array: Array) -> Array:
        """Convert codes (columns, rows) to float32 values of the same shape, as Kaldi's ``CharToFloat`` does."""
        codes = array.astype(np.float32)
        values_by_range = [
            low + (high - low) * (codes - offset) * (1 / steps) for low, high, offset, steps in self._ranges
        ]
        values: Array = np.choose((codes > 64) + (codes > 192).astype(int), values_by_range)
        return values
