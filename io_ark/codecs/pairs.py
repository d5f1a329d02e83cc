"""Read and write pairs of an int32 and a float, the elements of sparse vectors and posteriors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from io_ark.codecs import base
from io_ark.codecs.base import Sink, quote
from io_ark.codecs.int_vector import read_sized_records, write_sized_records
from io_ark.codecs.text_format import format_row
from io_ark.codecs.text_parse import round_to_float32
from io_ark.streams.source import Source
from io_ark.text import parse_integer

Pair = tuple[int, float]

_LAYOUTS = {
    size: np.dtype([("index_size", "u1"), ("index", "<i4"), ("value_size", "u1"), ("value", f"<f{size}")])
    for size in (4, 8)
}


def read_pairs(source: Source, count: int, what: str) -> list[Pair]:
    """Read ``count`` pairs of an int32 and a float in binary, and round the floats to float32.

    Raise FormatError unless all stored floats have 4 bytes, or all have 8 bytes. ``what`` names the pairs in errors.
    """
    if count == 0:
        return []
    head = source.peek(6)  # The size byte and the four bytes of the integer, and then the size byte of the float.
    layout = _LAYOUTS[8 if head[5:] == b"\x08" else 4]
    records = read_sized_records(source, layout, count, what)
    with np.errstate(over="ignore"):
        values = records["value"].astype(np.float32)
    return list(zip(records["index"].tolist(), values.tolist(), strict=True))


def write_pairs(sink: Sink, pairs: Sequence[Pair]) -> None:
    """Write pairs of an integer and a float in binary, as int32 and float32."""
    if pairs:
        indices, values = zip(*pairs, strict=True)
        write_sized_records(sink, _LAYOUTS[4], index=np.array(indices, np.int64), value=np.array(values, np.float32))


def parse_pairs(text: bytes, source: Source, offset: int) -> list[Pair]:
    """Parse pairs of an integer and a float in text, such as ``3 0.5 7 0.25``.

    ``offset`` is the offset of the text in the source, for errors. Raise FormatError if the words are not pairs of an
    integer and a number, or a value is out of range.
    """
    words = text.split()
    if len(words) % 2:
        source.fail("expected pairs of an integer and a number, found an odd number of words", offset)
    pairs = []
    for index, value in zip(words[0::2], words[1::2], strict=True):
        if not base.INTEGER.fullmatch(index) or not base.NUMBER.fullmatch(value):
            source.fail(f"expected an integer and a number, found {quote(index)} and {quote(value)}", offset)
        rounded = round_to_float32(value)
        integer = parse_integer(index)
        if not base.INT32_MIN <= integer <= base.INT32_MAX or np.isinf(rounded):
            source.fail(f"{quote(value if np.isinf(rounded) else index)} is out of range for 32 bits", offset)
        pairs.append((integer, rounded))
    return pairs


def format_pairs(pairs: Sequence[Pair]) -> str:
    """Format pairs of an integer and a float in text. A space follows every number."""
    return "".join([f"{index} {format_row([value])}" for index, value in pairs])
