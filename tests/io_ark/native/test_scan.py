"""Scanning blocks of archives in C gives what the codecs read entry by entry."""

from __future__ import annotations

import io
import os
import struct
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from io_ark.codecs import InfoCodec, codec
from io_ark.codecs.scan import Window, scan_line
from io_ark.errors import ArkError
from io_ark.native import library
from io_ark.streams.source import BytesSource, StreamSource
from io_ark.tables.blocks import read_entries
from io_ark.tables.keys import read_key
from tests.support.reading_ways import frozen, without_library
from tests.support.table_samples import VALUES, archive

pytestmark = pytest.mark.skipif(not library(), reason=library().reason)
TABLES = [(kind, binary) for kind in VALUES for binary in (True, False)]


def one_by_one(data: bytes, kind: str) -> tuple[list[tuple[str, Any]], str]:
    """The entries that the codec reads, and the error that ends them."""
    source, reader = BytesSource(data), codec(kind)
    entries: list[tuple[str, Any]] = []
    try:
        while (key := read_key(source)) is not None:
            entries.append((key, reader.read(source)))
    except ArkError as error:
        return entries, error.message
    return entries, ""


def in_blocks(source: Any, kind: str) -> tuple[list[tuple[str, Any]], str]:
    """The same, read in blocks."""
    entries: list[tuple[str, Any]] = []
    try:
        entries.extend(read_entries(source, codec(kind)))
    except ArkError as error:
        return entries, error.message
    return entries, ""


@pytest.mark.parametrize(
    ("kind", "line"),
    [("posterior-arrays", b" [ 3 0.5 4 0.5 ] [ 1 1 ]"), ("int-vector-vector", b"1 2 ; ; 3 ;"),
     ("int-pair-vector", b"1 2 ; 3 4")],
)  # fmt: skip
def test_line_of_kaldis_layout_is_left_to_python(kind: str, line: bytes) -> None:
    assert scan_line(kind, line) is not None and scan_line(kind, line + b" x") is None


@pytest.mark.parametrize(("kind", "binary"), TABLES)
def test_entries_are_those_of_the_codec(kind: str, binary: bool) -> None:
    data = archive(kind, binary)
    expected, error = one_by_one(data, kind)
    assert not error
    assert len(expected) == len(VALUES[kind])
    for source in BytesSource(data), StreamSource(io.BytesIO(data)):
        entries, error = in_blocks(source, kind)
        assert not error
        assert frozen(entries) == frozen(expected)
    scan = codec(kind).create_scan()
    assert scan is not None
    # What Kaldi writes is read in C; of integers of 8 bits in text, that is left to Python.
    found = scan.scan_entries(Window(data, 0, len(data), len(data)))
    assert (found is None) == ((kind, binary) == ("int8-vector", False))
    taken = [] if found is None else found.block.decode_keys()
    has_extremes = kind in ("int", "double")  # in text, numbers of ten digits and 1e300 are left to Python, too
    assert len(taken) == len(expected) or found is None or has_extremes


@pytest.mark.parametrize("kind", ["vector", "matrix", "int-vector", "int-pair-vector", "int-vector-vector"])
def test_arrays_of_a_block_are_apart_and_writable(kind: str) -> None:
    arrays = [value for _, value in read_entries(StreamSource(io.BytesIO(archive(kind, True))), codec(kind))]
    if kind == "int-vector-vector":
        arrays = [array for value in arrays for array in value]
    copies = [array.copy() for array in arrays]
    for i, array in enumerate(arrays):
        assert array.flags.c_contiguous
        array[...] = 7
        assert all(np.array_equal(a, b) for a, b in zip(arrays[i + 1 :], copies[i + 1 :], strict=True))


@given(table=st.sampled_from(TABLES), cut=st.integers(0, 400), data=st.data())
def test_damaged_archives_give_the_same_entries_and_error(
    table: tuple[str, bool], cut: int, data: st.DataObject
) -> None:
    kind, binary = table
    damaged = bytearray(archive(kind, binary)[: cut + 1])
    piece = st.sampled_from([b"\xff", b"\0", b"\4", b" ", b"\n", b"]", b"[", b";", b"-", b".", b"e", b"9", b"\0B"])
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        damaged[at : at + data.draw(st.integers(0, 2))] = data.draw(piece)
        damaged += b"\n"
    # The plain way checks the first bytes, too: a configuration file or a single object is refused.
    with without_library():
        expected = in_blocks(BytesSource(bytes(damaged)), kind)
    assert frozen(in_blocks(BytesSource(bytes(damaged)), kind)) == frozen(expected)


@pytest.mark.parametrize(("kind", "objects"), [
    ("bool", [b"X\n", b"\0BX", b"\0B"]),
    ("vector", [b"[ 1 x ]\n", b" [ 1 x\n", b" [ x\n", b" [ 1 ; 2 ]\n", b" [ 1 \n", b" [ 1 2x\n"]),
    ("matrix", [b" [\n 1\n 2 3 ]\n", b" [ 1 ;\n"]),
])  # fmt: skip
def test_damaged_object_has_the_error_of_the_codec(kind: str, objects: list[bytes]) -> None:
    for each in objects:
        good = archive(kind, each.startswith(b"\0"))
        damaged = good + b"a " + each
        entries, error = in_blocks(BytesSource(damaged), kind)
        assert len(entries) == len(one_by_one(good, kind)[0]) and error
        assert frozen((entries, error)) == frozen(one_by_one(damaged, kind))


@pytest.mark.parametrize("native", [True, False])
def test_an_entry_that_has_come_through_a_pipe_is_given_at_once(native: bool) -> None:
    reading, writing = os.pipe()
    with open(reading, "rb", buffering=0) as raw, nullcontext() if native else without_library():
        entries = read_entries(StreamSource(raw), codec("int"))
        for i in range(3):
            os.write(writing, b"key%d %d \n" % (i, i) + b"half"[: 4 * (i == 2)])
            assert next(entries) == (f"key{i}", i)
        os.write(writing, b"key 3 \n")
        assert next(entries) == ("halfkey", 3)
        os.close(writing)
        assert next(entries, None) is None


def test_source_goes_back_to_the_first_entry_that_is_not_taken() -> None:
    source = BytesSource(b"a 1 \nb 2 \nc 3 \n")
    entries = read_entries(source, codec("int"))
    assert next(entries) == ("a", 1)
    entries.close()
    assert source.read_rest() == b"b 2 \nc 3 \n"


@pytest.mark.parametrize("kind", ["token", "token-vector", "int-vector"])
def test_line_break_after_a_key_is_not_a_space(kind: str) -> None:
    data = b"a 1\nb\n2\nc 3\n"
    expected = one_by_one(data, kind)
    assert frozen(in_blocks(StreamSource(io.BytesIO(data)), kind)) == frozen(expected)
    scan = codec(kind).create_scan()
    assert scan is not None
    found = scan.scan_entries(Window(data, 0, len(data), len(data)))
    assert found is not None and found.block.decode_keys() == ["a"]


def test_shape_whose_size_overflows_64_bits_is_left_to_the_codec() -> None:
    # The product is 2**61 + 4, so in 64 bits the matrix would have 32 bytes.
    data = b"a \0BDM " + struct.pack("<bibi", 4, 1824726041, 4, 1263665316) + bytes(32)
    scan = InfoCodec("matrix").create_scan()
    assert scan is not None and scan.scan_entries(Window(data, 0, len(data), len(data))) is None


@pytest.mark.parametrize("kind", ["bool", "int", "float", "token"])
def test_places_that_many_entries_share_give_each_its_value(kind: str) -> None:
    # Together the values need more room than the window has, so the rest is left to the next call.
    data = {"bool": b"T\n", "token": b"a\n"}.get(kind, b"1\n")
    scan = codec(kind).create_scan()
    assert scan is not None
    found = scan.scan_at(
        Window(data, 0, len(data), len(data)), [b"k%d" % i for i in range(9)], np.zeros((9, 2), np.int64)
    )
    assert found is None or len(list(found.block.entries())) == len(found.block.decode_keys()) < 9
