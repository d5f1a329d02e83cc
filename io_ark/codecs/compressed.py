"""Compressed matrices: one or two bytes per element.

There are three formats on disk, and seven methods that choose a format and the range of values that its integers
represent. The arithmetic follows Kaldi's step by step in float32, so that bytes and values are identical to Kaldi's.

Source: Kaldi's ``src/matrix/compressed-matrix.h`` and ``compressed-matrix.cc``.
"""

from __future__ import annotations

import enum
import io
import struct
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.blocks import ArrayBlock, PackedBlock
from io_ark.codecs.base import BINARY_MARKER, Codec, Sink, as_floats, quote_or_end, register_kind, view_raw_bytes
from io_ark.codecs.dense import HEADER_SIZE, read_dense, read_text_matrix, write_text_matrix
from io_ark.errors import FormatError
from io_ark.native import NATIVE
from io_ark.streams.source import BytesSource, Source
from io_ark.text import quote_value

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]

_HEADER = struct.Struct("<ffii")
MAX_HEADER_BYTES = len(b"CM2 ") + _HEADER.size
_FORMATS: dict[bytes, np.dtype[Any]] = {b"CM": np.dtype("u1"), b"CM2": np.dtype("<u2"), b"CM3": np.dtype("u1")}
_NO_PERCENTILES = np.empty((0, 4), np.uint16)
# Upper bound on the bytes between the key of a matrix and its percentiles: a space, the binary marker, a token such as
# "CM2 ", and a range and a shape in 16 bytes.
_MAX_ENTRY_BYTES = 24
# Step of a percentile as a share of the range: Kaldi's own float32 constant for 1/65535.
_PER_STEP = np.float32(1.52590218966964e-05)
_PER_CODE = {b"CM2": 1.0 / 65535, b"CM3": 1.0 / 255}  # Step of an integer as a share of the range.


def align_numbers(array: Array) -> Array:
    """Return ``array`` if it is contiguous and aligned, as C requires, or otherwise a contiguous and aligned copy."""
    return array if array.flags.c_contiguous and array.flags.aligned else array.copy()


class CompressionMethod(enum.IntEnum):
    """Compression method of a matrix, with the numbers of Kaldi's ``--compression-method``.

    >>> from io_ark.codecs import CompressionMethod
    >>> CompressionMethod.of("speech")
    <CompressionMethod.SPEECH_FEATURE: 2>
    """

    AUTO = 1  # SPEECH_FEATURE for more than 8 rows, otherwise TWO_BYTE_AUTO.
    SPEECH_FEATURE = 2  # One byte, with a range for each column and a finer scale between its quartiles.
    TWO_BYTE_AUTO = 3  # Two bytes, between the least and the greatest element.
    TWO_BYTE_SIGNED_INTEGER = 4  # Two bytes, from -32768 to 32767.
    ONE_BYTE_AUTO = 5  # One byte, between the least and the greatest element.
    ONE_BYTE_UNSIGNED_INTEGER = 6  # One byte, from 0 to 255.
    ONE_BYTE_ZERO_ONE = 7  # One byte, from 0 to 1.

    @classmethod
    def of(cls, method: int | str) -> CompressionMethod:
        """Return the method with the number or name ``method``. The name ``speech`` is short for ``speech_feature``.

        Names may have upper or lower case, and ``-`` instead of ``_``.

        Raises:
            FormatError: the method is unknown.
        """
        names = {"SPEECH": cls.SPEECH_FEATURE, **cls.__members__}
        try:
            return names[method.upper().replace("-", "_")] if isinstance(method, str) else cls(method)
        except (KeyError, ValueError) as error:
            methods = ", ".join(f"{m.value} {m.name.lower()}" for m in cls)
            raise FormatError(f"unknown compression method {quote_value(method)}: choose one of {methods}") from error


_FORMAT_OF = {
    CompressionMethod.SPEECH_FEATURE: b"CM",
    CompressionMethod.TWO_BYTE_AUTO: b"CM2",
    CompressionMethod.TWO_BYTE_SIGNED_INTEGER: b"CM2",
    CompressionMethod.ONE_BYTE_AUTO: b"CM3",
    CompressionMethod.ONE_BYTE_UNSIGNED_INTEGER: b"CM3",
    CompressionMethod.ONE_BYTE_ZERO_ONE: b"CM3",
}
_FIXED_RANGES = {
    CompressionMethod.TWO_BYTE_SIGNED_INTEGER: (-32768.0, 65535.0),
    CompressionMethod.ONE_BYTE_UNSIGNED_INTEGER: (0.0, 255.0),
    CompressionMethod.ONE_BYTE_ZERO_ONE: (0.0, 1.0),
}


@register_kind("compressed-matrix")
@dataclass(frozen=True, eq=False)
class CompressedMatrix:
    """Compressed matrix: integers, and the range of values that they stand for. ``numpy.asarray`` decompresses it.

    Attributes:
        format: ``b"CM"``, ``b"CM2"`` or ``b"CM3"``.
        minimum: value of the code 0, or for ``CM``, of the percentile 0.
        range: difference between this value and the value of the largest code, or for ``CM``, of the percentile 65535.
        codes: the integers. ``CM``: uint8 of shape (columns, rows). ``CM2``: uint16 of shape (rows, columns). ``CM3``:
            uint8 of shape (rows, columns).
        percentiles: for ``CM`` only, uint16 of shape (columns, 4). The values of the codes 0, 64, 192 and 255 of each
            column, as distances from the minimum in units of 1/65535 of the range.

    >>> import numpy as np
    >>> from io_ark.codecs.compressed import compress
    >>> compressed = compress([[0.0, 1.0], [2.0, 3.0]], "one_byte_auto")
    >>> compressed.shape, np.asarray(compressed).tolist()
    ((2, 2), [[0.0, 1.0], [2.0, 3.0]])
    """

    format: bytes
    minimum: float
    range: float
    codes: Array
    percentiles: Array

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        first, second = self.codes.shape
        return (second, first) if self.format == b"CM" else (first, second)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        if copy is False:  # NumPy 2 requires this error.
            raise ValueError("a compressed matrix cannot be viewed as an array: omit copy=False")
        return self.to_array(np.float32 if dtype is None else dtype)

    def to_array(self, dtype: npt.DTypeLike = np.float32) -> Array:
        """Decompress to an array of shape (rows, columns). Values are computed in float32, then cast to ``dtype``."""
        header, percentiles, codes = _encode_parts(self)
        data = b"".join((percentiles, codes))
        return _decompress(header, *self.shape, data, begin=0).astype(dtype, copy=False)

    def extract_part(self, rows: slice, columns: slice) -> Array:
        """Decompress the matrix, and return a copy of the rows and columns that two slices select."""
        part: Array = self.to_array()[rows, columns].copy()
        return part

    def multiply(self, factor: float) -> CompressedMatrix:
        """Return this matrix times ``factor``. The minimum and the range change, and the integers do not."""
        minimum, span = (float(np.float32(x) * np.float32(factor)) for x in (self.minimum, self.range))
        return replace(self, minimum=minimum, range=span)


def _decompress_in_c(header: bytes, rows: int, columns: int, data: Any, begin: int) -> Array:
    """Compute :func:`_decompress` in C."""
    values = np.empty((rows, columns), np.float32)
    integers = data if type(data) is bytes else np.frombuffer(data, np.uint8)
    NATIVE.get_function("ark_decompress")(header, integers, begin, values)
    return values


@NATIVE.twin(_decompress_in_c)
def _decompress(header: bytes, rows: int, columns: int, data: Any, begin: int) -> Array:
    """Return the float32 values of a compressed matrix, shape (rows, columns).

    Args:
        header: the name of the format, a space, and the minimum, range, rows and columns (:data:`_HEADER`). More bytes
            may follow.
        rows, columns: shape in the header.
        data: bytes-like object with the percentiles (only for CM) and codes.
        begin: offset of the percentiles or codes in ``data``.
    """
    matrix = _unpack_matrix(header, data, begin)
    minimum, span, codes = np.float32(matrix.minimum), np.float32(matrix.range), matrix.codes.astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):  # A damaged header may have any range, so values may overflow.
        if matrix.format != b"CM":
            # The factor is the difference between the values of successive integers. As in Kaldi, it is computed in
            # float64 and then rounded to float32.
            linear: Array = codes * np.float32(matrix.range * _PER_CODE[matrix.format]) + minimum
            return linear
        p0, p25, p75, p100 = _scale_percentiles(minimum, span, matrix.percentiles)
        # As in Kaldi, differences are multiplied by codes in float32, and all other steps are in float64.
        low = p0 + ((p25 - p0) * codes).astype(np.float64) * (1 / 64)
        middle = p25 + ((p75 - p25) * (codes - 64)).astype(np.float64) * (1 / 128)
        high = p75 + ((p100 - p75) * (codes - 192)).astype(np.float64) * (1 / 63)
        values: Array = np.where(codes <= 64, low, np.where(codes <= 192, middle, high))
        return np.ascontiguousarray(values.T, np.float32)


def _unpack_matrix(header: bytes, data: Any, begin: int) -> CompressedMatrix:
    """Return a compressed matrix whose arrays are views of ``data``. For the arguments, see :func:`_decompress`."""
    format_name, _, numbers = header.partition(b" ")
    minimum, span, rows, columns = _HEADER.unpack_from(numbers)
    if format_name != b"CM":
        codes = np.frombuffer(data, _FORMATS[format_name], rows * columns, begin).reshape(rows, columns)
        return CompressedMatrix(format_name, minimum, span, codes, _NO_PERCENTILES)
    percentiles = np.frombuffer(data, "<u2", 4 * columns, begin).reshape(columns, 4)
    codes = np.frombuffer(data, np.uint8, rows * columns, begin + percentiles.nbytes).reshape(columns, rows)
    return CompressedMatrix(format_name, minimum, span, codes, percentiles)


def _scale_percentiles(minimum: np.float32, span: np.float32, percentiles: Array) -> Array:
    """Convert stored percentiles, uint16 of shape (columns, 4), to float32 values of shape (4, columns, 1)."""
    values: Array = minimum + span * _PER_STEP * percentiles.T.astype(np.float32)
    return values[:, :, None]


def compress(matrix: npt.ArrayLike, method: int | str = CompressionMethod.AUTO) -> CompressedMatrix:
    """Compress a matrix with the arithmetic of Kaldi's ``CompressedMatrix::CopyFromMat``.

    Args:
        matrix: array of shape (rows, columns). Values in float64 are rounded to float32 first.
        method: number or name of a :class:`CompressionMethod`. Methods with a fixed range clip values outside it.

    Raises:
        FormatError: the method is unknown, ``matrix`` is not a matrix of numbers or contains NaN, or the range of its
            values is not finite in float32 and the method has no fixed range.

    >>> import numpy as np
    >>> from io_ark.codecs.compressed import compress
    >>> compress(np.array([[0.0, 1.0], [2.0, 3.0]]), "two_byte_auto").codes
    array([[    0, 21845],
           [43690, 65535]], dtype=uint16)
    """
    compressed = read_compressed(BytesSource(_encode_matrix(matrix, CompressionMethod.of(method))))
    return replace(compressed, codes=compressed.codes.copy(), percentiles=compressed.percentiles.copy())


def _encode_matrix(matrix: npt.ArrayLike, method: CompressionMethod) -> bytes | memoryview:
    """Compress a matrix, and return its bytes without the binary marker. For the errors, see :func:`compress`."""
    values = as_floats(matrix, np.float32, 2)
    if values.size == 0:
        return b"CM " + bytes(_HEADER.size)
    # The block is one entry with an empty key. Its object starts with the binary marker.
    packed = compressed_block(ArrayBlock(b"\n", values.reshape(-1), np.array([values.shape])), method)
    if packed is None:  # The matrix cannot be compressed, so _compress_values raises the error.
        return b"".join(_encode_parts(_compress_values(values, method)))
    return packed.data.data[int(packed.objects[0]) + len(BINARY_MARKER) :]


def _compress_values(values: Array, method: CompressionMethod) -> CompressedMatrix:
    """Compress a nonempty float32 matrix of shape (rows, columns). For the errors, see :func:`compress`."""
    if method == CompressionMethod.AUTO:  # As in Kaldi, the number of rows decides.
        method = CompressionMethod.SPEECH_FEATURE if len(values) > 8 else CompressionMethod.TWO_BYTE_AUTO
    format_name, (minimum, span) = _FORMAT_OF[method], _find_range(values, method)
    if format_name != b"CM":
        codes = _scale_to_integers(values, minimum, span, _FORMATS[format_name])
        return CompressedMatrix(format_name, float(minimum), float(span), codes, _NO_PERCENTILES)
    percentiles = _choose_percentiles(values.T, minimum, span)
    codes = _scale_within_percentiles(values.T, _scale_percentiles(minimum, span, percentiles))
    return CompressedMatrix(format_name, float(minimum), float(span), codes, percentiles)


def _find_range(values: Array, method: CompressionMethod) -> tuple[np.float32, np.float32]:
    """Return the smallest value that the stored integers can represent, and the span from it to the largest value.

    Both are float32. A method with a fixed range ignores ``values``, except for NaN. Raise FormatError if the matrix
    contains NaN, or if the method has no fixed range and the span is not finite in float32.
    """
    least, greatest = values.min(), values.max()
    if np.isnan(least) or np.isnan(greatest):
        raise FormatError("a matrix with NaN cannot be compressed: write it without compression")
    if method in _FIXED_RANGES:
        low, span = _FIXED_RANGES[method]
        return np.float32(low), np.float32(span)
    if least == 0:
        # If the matrix has zeros of both signs, Kaldi's minimum has the sign of the first zero.
        least = values.flat[np.flatnonzero(values == 0)[0]]
    with np.errstate(over="ignore", invalid="ignore"):
        if least == greatest:
            # A constant matrix needs a positive range. As in Kaldi, compute the sum in float64 and round it to float32.
            greatest = np.float32(np.float64(least) + (1.0 + np.abs(np.float64(least))))
        span = greatest - least
    if not np.isfinite(span):
        problem = f"a matrix with values from {least} to {greatest} cannot be compressed"
        raise FormatError(f"{problem}, because their range is not finite in float32: write it without compression")
    return least, span


def _scale_to_integers(values: Array, minimum: np.float32, span: np.float32, dtype: np.dtype[Any]) -> Array:
    """Map the range from ``minimum`` to ``minimum + span`` to the integers from 0 to the maximum of ``dtype``.

    ``dtype`` is uint8 or uint16. As in Kaldi's FloatToUint8 and FloatToUint16, 0.499 is added before truncation. Values
    outside the range are clipped.
    """
    with np.errstate(over="ignore"):
        scaled = np.clip((values - minimum) / span, 0, 1) * np.float32(np.iinfo(dtype).max)
    # Add in float64, because a sum in float32 could round up to the next integer.
    rounded: Array = np.add(scaled, 0.499, dtype=np.float64)
    return rounded.astype(dtype)


def _scale_within_percentiles(values: Array, percentiles: Array) -> Bytes:
    """Return the codes (0 to 255) of values, with 64, 128 and 63 steps between the percentiles (Kaldi's FloatToChar).

    ``values`` and the result have the shape (columns, rows). ``percentiles`` has the shape (4, columns, 1).
    """

    def count_steps(low: Array, high: Array, count: int) -> Array:
        """Return the step nearest to each value, from 0 at ``low`` to ``count`` at ``high``, or 0 if both are equal."""
        # Two percentiles may be equal in float32. Kaldi's conversion of the quotient to an integer then overflows, and
        # the result is clipped to the smallest code.
        steps = (values - low) / (high - low) * np.float32(count)
        rounded: Array = np.where(np.isfinite(steps), np.clip(np.trunc(steps.astype(np.float64) + 0.5), 0, count), 0)
        return rounded

    p0, p25, p75, p100 = percentiles
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        upper = np.where(values < p75, 64 + count_steps(p25, p75, 128), 192 + count_steps(p75, p100, 63))
        return np.where(values < p25, count_steps(p0, p25, 64), upper).astype(np.uint8)


def _choose_percentiles(columns: Array, minimum: np.float32, span: np.float32) -> Array:
    """Return four ascending percentiles of each column, uint16 of shape (columns, 4) (Kaldi's ComputeColHeader).

    ``columns`` holds the values, shape (columns, rows). A percentile is stored as its distance from ``minimum``, in
    units of 1/65535 of ``span``.
    """
    rows = columns.shape[1]
    quarter = rows // 4
    # With fewer than 5 rows, all values are percentiles. The loop below adds missing percentiles.
    ranks = [0, quarter, 3 * quarter, rows - 1] if rows >= 5 else list(range(rows))
    percentile_values = np.ascontiguousarray(np.sort(columns, axis=1)[:, ranks])
    steps = np.zeros((len(columns), 4), np.int64)
    steps[:, : len(ranks)] = _scale_to_integers(percentile_values, minimum, span, _FORMATS[b"CM2"])
    steps[:, 0] = np.minimum(steps[:, 0], 65532)  # The limits leave room for larger percentiles up to 65535.
    for i, limit in (1, 65533), (2, 65534), (3, 65535):
        steps[:, i] = np.minimum(np.maximum(steps[:, i], steps[:, i - 1] + 1), limit)
    return steps.astype(np.uint16)


def read_compressed(source: Source) -> CompressedMatrix:
    """Read a compressed matrix in binary, after the marker. Raise FormatError if it is invalid or incomplete."""
    head = source.peek(MAX_HEADER_BYTES)
    _, columns, size = _read_header(source, head)
    if columns == 0:
        format_name = head.partition(b" ")[0]
        return CompressedMatrix(format_name, 0.0, 0.0, np.empty((0, 0), _FORMATS[format_name]), _NO_PERCENTILES)
    return _unpack_matrix(head, source.read_array(np.uint8, size), 0)


def read_and_decompress(source: Source, head: bytes) -> Array:
    """Read a compressed matrix in binary, after the marker, and return its float32 values (rows, columns).

    ``head`` holds the next :data:`MAX_HEADER_BYTES` bytes of the source, or all bytes if there are fewer. Raise
    FormatError if the matrix is invalid or incomplete.
    """
    rows, columns, size = _read_header(source, head)
    return _decompress(head, rows, columns, *source.take(size)) if columns else np.empty((0, 0), np.float32)


def skip_compressed(source: Source) -> tuple[int, int]:
    """Skip a compressed matrix in binary, after the marker. Return its numbers of rows and columns.

    Raise FormatError if the matrix is invalid or incomplete.
    """
    rows, columns, size = _read_header(source, source.peek(MAX_HEADER_BYTES))
    source.skip(size)
    return rows, columns


def _read_header(source: Source, head: bytes) -> tuple[int, int, int]:
    """Read the header of a compressed matrix. Return the numbers of rows, columns, and bytes after the header.

    ``head`` is described in :func:`read_and_decompress`. For a matrix without columns, all numbers are 0. Raise
    FormatError if the header is invalid or incomplete.
    """
    format_name, space, numbers = head.partition(b" ")
    stored_dtype = _FORMATS.get(format_name)
    if not space and len(head) < _HEADER.size:
        source.read(_HEADER.size)  # This raises TruncatedError, because the source has fewer bytes.
    if stored_dtype is None or not space:
        source.fail(f"expected a compressed matrix (CM, CM2 or CM3), found {quote_or_end(format_name)}")
    if len(numbers) < _HEADER.size:
        source.read(len(format_name) + 1 + _HEADER.size)  # Missing bytes raise TruncatedError.
    _, _, rows, columns = _HEADER.unpack_from(numbers)
    if columns < 0 or (rows < 0 and columns > 0):
        source.fail(f"invalid size of a compressed matrix: {rows} rows, {columns} columns; the file is damaged")
    source.skip(len(format_name) + 1 + _HEADER.size)
    if columns == 0:
        # Kaldi writes 4 extra bytes after the header of an empty matrix, but its reader does not read them, so they are
        # optional.
        if source.peek(4) == bytes(4):
            source.skip(4)
        return 0, 0, 0
    return rows, columns, rows * columns * stored_dtype.itemsize + (8 * columns if format_name == b"CM" else 0)


def _encode_parts(matrix: CompressedMatrix) -> tuple[bytes, bytes | memoryview, bytes | memoryview]:
    """Return the bytes of the header, of the percentiles (empty unless the format is CM) and of the codes.

    Raise ValueError if the percentiles do not match the columns.
    """
    format_name, (rows, columns) = matrix.format, matrix.shape
    if matrix.percentiles.shape != (columns if format_name == b"CM" else 0, 4):
        raise ValueError(f"percentiles of shape {matrix.percentiles.shape} do not match {columns} columns")
    percentiles = matrix.percentiles.astype("<u2", copy=False)
    codes = matrix.codes.astype(_FORMATS[format_name], copy=False)
    header = format_name + b" " + _HEADER.pack(matrix.minimum, matrix.range, rows, columns)
    return header, view_raw_bytes(percentiles), view_raw_bytes(codes)


def _compress_block_in_c(block: ArrayBlock, method: int) -> PackedBlock | None:
    """Compute :func:`compressed_block` in C."""
    if block.dimensions != 2 or block.values.dtype != np.float32:
        return None
    count, shapes = len(block), np.ascontiguousarray(block.shapes, np.int64)
    if block.keys.count(b"\n") != count or block.count_elements().sum() != block.values.size:
        raise ValueError("the keys, shapes and values of a block do not match")
    # A column has 8 bytes of percentiles, and an element at most 2 bytes.
    max_bytes = len(block.keys) + _MAX_ENTRY_BYTES * count + 8 * int(shapes[:, 1].sum()) + 2 * block.values.size
    packed, starts, ends = np.empty(max_bytes, np.uint8), np.empty(count, np.int64), np.empty(count, np.int64)
    size = NATIVE.get_function("ark_compress_arrays")(
        block.keys, shapes, align_numbers(block.values), count, method, packed, starts, ends
    )
    return PackedBlock(block.keys, packed[:size], starts) if size >= 0 else None


@NATIVE.twin(_compress_block_in_c)
def compressed_block(block: ArrayBlock, method: int) -> PackedBlock | None:
    """Compress the matrices of a block with the arithmetic of :func:`compress`.

    Args:
        block: nonempty matrices in float32.
        method: number of the :class:`CompressionMethod`.

    Returns:
        The entries of an archive, or None if the block has other values, or a matrix cannot be compressed.

    >>> import numpy as np
    >>> from io_ark.blocks import ArrayBlock
    >>> from io_ark.codecs import CompressionMethod, compressed_block
    >>> block = ArrayBlock(b"utt1\\n", np.zeros(6, np.float32), np.array([[2, 3]]))
    >>> bytes(compressed_block(block, CompressionMethod.TWO_BYTE_AUTO).data[:11])
    b'utt1 \\x00BCM2 '
    """
    if block.dimensions != 2 or block.values.dtype != np.float32 or not block.shapes.all():
        return None
    entries, starts = io.BytesIO(), []
    try:
        for key, (_, matrix) in zip(block.keys.split(b"\n"), block.entries(), strict=False):
            entries.write(key + b" ")
            starts.append(entries.tell())
            entries.write(BINARY_MARKER)
            entries.writelines(_encode_parts(_compress_values(matrix, CompressionMethod(method))))
    except FormatError:
        return None
    return PackedBlock(block.keys, np.frombuffer(entries.getvalue(), np.uint8), np.array(starts, np.int64))


class CompressedMatrixCodec(Codec[Any]):
    """Codec that reads a :class:`CompressedMatrix`, and writes a :class:`CompressedMatrix` or an array.

    As in Kaldi, dense matrices are compressed when they are read, and decompressed values are written in text.

    Args:
        method: compression method of matrices that are not compressed yet.
    """

    def __init__(self, method: int | str = CompressionMethod.AUTO) -> None:
        self.method = CompressionMethod.of(method)

    def read_body(self, source: Source, binary: bool) -> CompressedMatrix:
        if binary and source.peek(1) == b"C":
            return read_compressed(source)
        dtype = np.dtype(np.float32)
        matrix = read_dense(source, source.peek(HEADER_SIZE), dtype) if binary else read_text_matrix(source, dtype)
        return compress(matrix, self.method)

    def write_body(self, sink: Sink, value: Any, binary: bool) -> None:
        if not binary:
            matrix = value if isinstance(value, CompressedMatrix) else compress(value, self.method)
            write_text_matrix(sink, matrix.to_array())
            return
        is_compressed = isinstance(value, CompressedMatrix)
        parts = _encode_parts(value) if is_compressed else (_encode_matrix(value, self.method),)
        for part in parts:
            sink.write(part)
