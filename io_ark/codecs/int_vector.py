"""Vectors of integers, vectors of vectors, and vectors of pairs. In binary, a size byte precedes every number.

Source: ``BasicVectorHolder``, ``BasicVectorVectorHolder`` and ``BasicPairVectorHolder`` in Kaldi's
``src/util/kaldi-holder-inl.h``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from itertools import accumulate, chain, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.blocks import ArrayBlock, Block, PackedBlock
from io_ark.codecs import base
from io_ark.codecs.base import ArrayCodec, Codec, Sink, as_array, encode_int32, quote, view_raw_bytes
from io_ark.codecs.nested_lists import (
    convert_numbers,
    encode_objects,
    read_lists,
    remove_counts,
    split_pairs,
    write_lists,
)
from io_ark.codecs.pack import Pack, encode_entries
from io_ark.codecs.scan import scan_line
from io_ark.codecs.text_format import encode_list, encode_lists
from io_ark.codecs.text_parse import round_to_float32
from io_ark.errors import FormatError
from io_ark.streams.source import Source

Array = npt.NDArray[Any]

_INT32 = np.dtype(np.int32)
_COUNT = "the number of integers"
_WORD = re.compile(rb"\S+")
_MAX_INTEGER_CHARACTERS = 18  # Maximum length of an integer in text. Every integer of this length fits into 64 bits.
_DIGITS = b"0123456789 "  # If a line has only these characters, NumPy parses it as `istream >> int` does.


def create_sized_layout(dtype: npt.DTypeLike, *names: str) -> np.dtype[Any]:
    """Return the dtype of a record with one number for each name. A size byte ``NAME_size`` precedes each number."""
    return np.dtype([field for name in names for field in ((name + "_size", "u1"), (name, np.dtype(dtype)))])


def read_sized_records(source: Source, layout: np.dtype[Any], count: int, what: str) -> Array:
    """Read ``count`` records of numbers in binary, and check the size byte before every number.

    ``layout`` is the dtype of a record (see :func:`create_sized_layout`) and of the result, shape (count,). ``what``
    describes the records in errors. Raise FormatError if a size byte is wrong, and TruncatedError if the source has
    fewer than ``count`` records.
    """
    at = source.tell()
    records = source.read_array(layout, count)
    for name in layout.names or ():
        if name.endswith("_size"):
            size = layout[name.removesuffix("_size")].itemsize
            wrong_records = np.flatnonzero(records[name] != size)
            if len(wrong_records):
                offset = at + int(wrong_records[0]) * layout.itemsize
                message = f"{what}: expected a byte {size} before each number of {size} bytes; the file is damaged"
                source.fail(message, offset)
    return records


def write_sized_records(sink: Sink, layout: np.dtype[Any], **columns: Array) -> None:
    """Write records of numbers in binary. ``columns`` maps names of ``layout`` to arrays of shape (records,)."""
    records = np.empty(len(next(iter(columns.values()))), layout)
    for name, values in columns.items():
        records[name + "_size"] = layout[name].itemsize
        records[name] = values
    sink.write(view_raw_bytes(records))


def read_text_line(source: Source, what: str) -> tuple[bytes, int]:
    """Read a line. Return the line without its newline, and the offset of the line in the source.

    Raise FormatError if the source has no further line. ``what`` describes the expected line in the error.
    """
    at = source.tell()
    if source.at_end():
        source.fail(f"expected {what}, found the end")
    return source.read_line(), at


def parse_integers(text: bytes, source: Source, offset: int, dtype: npt.DTypeLike = np.int32) -> Array:
    """Parse the integers in a line of text with the syntax of ``istream >> int``, which reads ``1-2`` as 1 and -2.

    Return an array of shape (numbers,) and of the integer type ``dtype``. ``offset`` is the offset of the line in the
    source, for errors. Raise FormatError if a word is not an integer, or an integer is out of range.
    """
    limits = np.iinfo(np.dtype(dtype))
    if text[:1].isdigit() and not text.translate(None, _DIGITS):
        parsed_numbers = np.fromstring(text, np.int64, sep=" ")
        if parsed_numbers.max() <= limits.max:
            return parsed_numbers.astype(dtype)
    values: list[int] = []
    for word in _WORD.finditer(text):
        numbers = base.INTEGER.findall(word[0])
        if b"".join(numbers) != word[0] or max(map(len, numbers)) > _MAX_INTEGER_CHARACTERS:
            source.fail(f"expected integers of {limits.bits} bits, found {quote(word[0])}", offset + word.start())
        values += map(int, numbers)
    if values and not limits.min <= min(values) <= max(values) <= limits.max:
        source.fail(f"integers from {min(values)} to {max(values)} do not fit into {limits.bits} bits", offset)
    return np.array(values, dtype)


def to_integers(value: npt.ArrayLike, dtype: npt.DTypeLike) -> Array:
    """Convert ``value`` to an array of shape (numbers,) of the integer type ``dtype``.

    Raise FormatError if the value does not have one dimension, or an element is not an integer in the range of
    ``dtype``.
    """
    if type(value) is np.ndarray and value.dtype == dtype and value.ndim == 1:
        return value
    array = as_array(value)
    if array.ndim != 1:
        raise FormatError(f"a vector of integers has 1 dimension, not {array.ndim}: reshape the array")
    if array.size and array.dtype.kind not in "iub":
        raise FormatError(f"a vector of integers cannot hold {array.dtype}: convert it to an integer type")
    if not are_within_range(array, dtype):
        value_range, limits = f"{array.min()} to {array.max()}", np.iinfo(dtype)
        raise FormatError(f"integers from {value_range} do not fit: pass integers from {limits.min} to {limits.max}")
    return array.astype(dtype, copy=False)


def are_within_range(values: Array, dtype: npt.DTypeLike) -> bool:
    """Return True if all integers in ``values`` are within the range of the type ``dtype``."""
    limits = np.iinfo(np.dtype(dtype))
    return not values.size or limits.min <= int(values.min()) <= int(values.max()) <= limits.max


class IntVectorCodec(ArrayCodec):
    """Codec of vectors of integers: arrays of shape (length,). ``dtype`` is int32 or int8."""

    def __init__(self, dtype: npt.DTypeLike = np.int32) -> None:
        self.dtype = base.to_little_endian(dtype)
        self._layout = create_sized_layout(self.dtype, "value")
        self.scan_kind = "int-vector" if self.dtype.itemsize == 4 else "int8-vector"

    def read_body(self, source: Source, binary: bool) -> Array:
        if not binary:
            text, at = read_text_line(source, "a list of integers")
            return parse_integers(text, source, at, self.dtype)
        count = base.read_size(source, True, _COUNT)
        # np.ascontiguousarray would return a single element as a view with the stride of its record.
        records = read_sized_records(source, self._layout, count, "a vector of integers")
        return np.array(records["value"])

    def skip_body(self, source: Source) -> tuple[int, ...]:
        count = base.read_size(source, True, _COUNT)
        source.skip(count * self._layout.itemsize)
        return (count,)

    def write_body(self, sink: Sink, value: npt.ArrayLike, binary: bool) -> None:
        numbers = to_integers(value, self.dtype)
        if binary:
            sink.write(encode_int32(len(numbers)))
            write_sized_records(sink, self._layout, value=numbers)
        else:
            sink.write(encode_list(numbers.astype(np.int32, copy=False), (b"", b"\n")))

    def create_pack(self, binary: bool) -> Pack:
        return Pack(encode_block=partial(self._pack_block, binary)) if self.dtype.itemsize == 4 else Pack()

    def _pack_block(self, binary: bool, block: Block) -> PackedBlock | None:
        """Encode the entries of a block of vectors of int32. Return None for any other block."""
        if not isinstance(block, ArrayBlock) or block.values.dtype != self.dtype or block.dimensions != 1:
            return None
        lengths, columns = block.shapes[:, 0], (np.ascontiguousarray(block.values),)
        separator, brackets = (b" \0B", None) if binary else (b" ", (b"", b"\n"))
        objects = encode_objects(list_counts=None, lengths=lengths, columns=columns, brackets=brackets)
        return encode_entries(block.keys, separator, objects)


class IntVectorVectorCodec(Codec[list[Array]]):
    """Codec of lists of vectors of int32. The vectors may differ in length."""

    scan_kind = "int-vector-vector"
    _vector = IntVectorCodec()

    def read_body(self, source: Source, binary: bool) -> list[Array]:
        if not binary:
            return self._read_text(source)
        lengths, numbers = self.read_arrays(source)
        return [numbers[begin:end] for begin, end in pairwise(accumulate(lengths.tolist(), initial=0))]

    def read_arrays(self, source: Source) -> tuple[Array, Array]:
        """Read vectors in binary. Return their lengths, shape (vectors,), and all their numbers, shape (numbers,)."""
        count = base.read_size(source, True, "the number of vectors")
        length_arrays, number_arrays = [np.empty(0, np.int64)], [np.empty(0, np.int32)]
        while count > 0:
            numbers, ends = read_lists(source, limit=count, width=1)
            if len(ends):
                length_arrays.append(np.diff(ends, prepend=0) - 1)  # A count precedes the numbers of each list.
                number_arrays.append(remove_counts(numbers, ends))
            else:  # The next list is long or invalid. IntVectorCodec reads the list, or raises the error.
                number_arrays.append(self._vector.read_body(source, True))
                length_arrays.append(np.array([len(number_arrays[-1])]))
            count -= len(length_arrays[-1])
        return np.concatenate(length_arrays), np.concatenate(number_arrays)

    def _read_text(self, source: Source) -> list[Array]:
        """Read a line of lists as one array per list. Raise FormatError unless every list ends with a semicolon."""
        text, at = read_text_line(source, "a list of lists of integers")
        if source.tell() == at + len(text):
            source.fail("a list of lists of integers lacks the end of its line: the file may be truncated")
        scanned_lists: list[Array] | None = scan_line(self.scan_kind, text)
        if scanned_lists is not None:
            return scanned_lists
        *lists, remainder = text.split(b";")
        if remainder.strip():
            source.fail("expected ';' after every list of integers, including the last list: create the file again", at)
        return [parse_integers(numbers, source, at) for numbers in lists]

    def write_body(self, sink: Sink, value: Iterable[npt.ArrayLike], binary: bool) -> None:
        vectors: list[Any] = list(value)
        if {list, tuple}.issuperset(map(type, vectors)):  # All numbers can be converted in one call.
            numbers = convert_numbers(list(chain.from_iterable(vectors)), _INT32)
        else:
            vectors = [to_integers(vector, _INT32) for vector in vectors]
            numbers = np.concatenate([*vectors, np.empty(0, _INT32)])
        lengths = list(map(len, vectors))
        if binary:
            write_lists(sink, lengths, (numbers,))
        else:
            sink.write(encode_lists(lengths, (numbers,), (b"", b"; "))[0] + b"\n")


class PairVectorCodec(Codec[Array]):
    """Codec of vectors of pairs of numbers: arrays of shape (pairs, 2). ``dtype`` is int32 or float32."""

    def __init__(self, dtype: npt.DTypeLike = np.int32) -> None:
        self.dtype = base.to_little_endian(dtype)
        self._layout = create_sized_layout(self.dtype, "first", "second")
        self.scan_kind = "int-pair-vector" if self.dtype.kind == "i" else "float-pair-vector"

    def create_pack(self, binary: bool) -> Pack:
        return Pack(encode_block=partial(self._pack_block, binary))

    def _pack_block(self, binary: bool, block: Block) -> PackedBlock | None:
        """Encode the entries of a block of arrays of shape (pairs, 2). Return None for any other block."""
        if not isinstance(block, ArrayBlock) or block.values.dtype != self.dtype or (block.shapes[:, 1] != 2).any():
            return None
        counts, columns = block.shapes[:, 0], block.values.reshape(-1, 2).T
        first, second = np.ascontiguousarray(columns[0]), np.ascontiguousarray(columns[1])
        if binary:
            return encode_entries(block.keys, b" \0B", encode_objects(None, lengths=counts, columns=(first, second)))
        ones = np.ones(len(first), np.int64)  # In text, each pair is written as a list with one element.
        lines = encode_objects(counts, lengths=ones, columns=(first, second), brackets=(b"", b"; "))
        return encode_entries(block.keys, b" ", [line.removesuffix(b"; ") + b"\n" for line in lines])

    def read_body(self, source: Source, binary: bool) -> Array:
        if not binary:
            return self._read_text(source)
        count = base.read_size(source, True, "the number of pairs")
        records = read_sized_records(source, self._layout, count, "a vector of pairs")
        pairs = np.empty((count, 2), self.dtype)
        pairs[:, 0] = records["first"]
        pairs[:, 1] = records["second"]
        return pairs

    def _read_text(self, source: Source) -> Array:
        """Read a line of pairs of numbers with semicolons between the pairs, as an array of shape (pairs, 2).

        Raise FormatError for any other line.
        """
        text, at = read_text_line(source, "a list of pairs")
        if not text.strip():
            return np.empty((0, 2), self.dtype)
        scanned_pairs: Array | None = scan_line(self.scan_kind, text)
        if scanned_pairs is not None:
            return scanned_pairs
        pairs = [self._parse_numbers(pair, source, at) for pair in text.split(b";")]
        for i, pair in enumerate(pairs):
            if len(pair) != 2:
                message = f"expected 2 numbers in pair {i} (from 0; pairs are separated by ';'), found {len(pair)}"
                source.fail(message, at)
        return np.array(pairs, self.dtype)

    def _parse_numbers(self, text: bytes, source: Source, at: int) -> Array:
        """Parse ``text``, a part of the line at the offset ``at``, as numbers of the type ``dtype``.

        Raise FormatError for a word that is not such a number.
        """
        if self.dtype.kind == "i":
            return parse_integers(text, source, at)
        numbers = []
        for word in text.split():
            value = round_to_float32(word) if base.NUMBER.fullmatch(word) else np.inf
            if np.isinf(value):
                source.fail(f"{quote(word)} is not a number that fits into a float", at)
            numbers.append(value)
        return np.array(numbers, self.dtype)

    def write_body(self, sink: Sink, value: npt.ArrayLike, binary: bool) -> None:
        first, second = self._split_columns(value)
        if binary:
            sink.write(encode_lists([len(first)], (first, second))[0])
        else:
            lines, _ = encode_lists([1] * len(first), (first, second), (b"", b"; "))
            sink.write(lines.removesuffix(b"; ") + b"\n")

    def _split_columns(self, value: npt.ArrayLike) -> tuple[Array, Array]:
        """Return the first and the second numbers of pairs as two arrays (pairs,).

        Raise FormatError or TypeError if ``value`` does not hold pairs of numbers of type ``dtype``.
        """
        if isinstance(value, list | tuple):
            first, second = split_pairs(value)
            return convert_numbers(first, self.dtype), convert_numbers(second, self.dtype)
        array = as_array(value)
        if array.size == 0:
            return np.empty(0, self.dtype), np.empty(0, self.dtype)
        if array.ndim != 2 or array.shape[1] != 2:
            raise FormatError(
                f"expected a vector of pairs as an array of shape (pairs, 2), not {array.shape}: reshape the array"
            )
        if self.dtype.kind == "i":
            array = to_integers(array.reshape(-1), np.int32).reshape(-1, 2)
        elif array.dtype.kind not in "fiub":
            raise FormatError(f"expected a vector of pairs of floats, not of {array.dtype}: convert the array")
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(array[:, 0], self.dtype), np.ascontiguousarray(array[:, 1], self.dtype)


class PlainIntVectorCodec(Codec[npt.NDArray[np.int32]]):
    """Codec of integers without size bytes, and with brackets in text.

    This is the layout of Kaldi's ``ReadIntegerVector`` and ``WriteIntegerVector`` (``src/base/io-funcs-inl.h``) for
    single files and within other objects. Tables of int-vectors have a different layout.

    >>> from io_ark.codecs import PlainIntVectorCodec
    >>> from io_ark.streams.source import BytesSource
    >>> PlainIntVectorCodec().read(BytesSource(b"[ 1 2 3 ]\\n")).tolist()
    [1, 2, 3]
    """

    def read_body(self, source: Source, binary: bool) -> npt.NDArray[np.int32]:
        if binary:
            return source.read_array("<i4", base.read_size(source, True, _COUNT))
        source.skip_space()
        at = source.tell()
        if source.peek(1) != b"[":
            source.fail("expected '[' before a list of integers", at)
        text = source.read_until(b"]")
        source.skip(1)
        return parse_integers(text[1:].replace(b"\n", b" "), source, at)  # The list may have several lines.

    def write_body(self, sink: Sink, value: npt.ArrayLike, binary: bool) -> None:
        numbers = to_integers(value, "<i4")
        if binary:
            sink.write(encode_int32(len(numbers)))
            sink.write(view_raw_bytes(numbers))
        else:
            sink.write(encode_list(numbers, (b"[ ", b"]\n")))
