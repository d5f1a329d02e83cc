"""Arbitrary bytes give an object or an :class:`ArkError`, no other exception, and take little memory."""

from __future__ import annotations

import io
import logging
import re
import tracemalloc
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import io_ark
from io_ark.codecs import KINDS, AnyCodec, codec, read_any
from io_ark.errors import ArkError, FormatError, TruncatedError
from io_ark.specifier import parse_range
from io_ark.streams.source import BytesSource, Source, StreamSource
from io_ark.text import parse_integer
from tests.support.codec_samples import BINARY_ONLY, samples

pytestmark = pytest.mark.sweep

logging.getLogger("io_ark").addHandler(logging.NullHandler())
SAMPLES = samples()
SETTINGS = settings(max_examples=400, deadline=None)
# Python objects and NumPy headers for a few bytes of input each, and what the code itself holds on to.
BYTES_FOR_A_BYTE = 200
BYTES_FOR_ALL = 1 << 20
OF_MATRICES = parse_range("0:0,0:0"), parse_range("1:1,0:1")
OF_VECTORS = parse_range("0:0")


def mutations(data: bytes) -> st.SearchStrategy[bytes]:
    """Copies of ``data`` with some bytes changed, left out or put in."""
    place = st.integers(0, len(data))
    piece = st.one_of(
        st.binary(min_size=1, max_size=5),
        st.sampled_from(
            [b"\xff\xff\xff\x7f", b"\xff\xff\xff\xff", b"\0\0\0\0", *(bytes([byte]) for byte in b"\4\x08 \n]e-")]
        ),
    )
    edits = st.lists(st.tuples(place, st.integers(0, 4), st.one_of(st.just(b""), piece)), min_size=1, max_size=4)

    def edited(changes: list[tuple[int, int, bytes]]) -> bytes:
        copy = bytearray(data)
        for at, removed, added in changes:
            copy[at : at + removed] = added
        return bytes(copy)

    return edits.map(edited)


def read_all(source: Source, kind: str | None) -> None:
    """Read objects until nothing is left or something is wrong."""
    while not source.at_end():
        before = source.tell()
        try:
            read_any(source) if kind is None else codec(kind).read(source)
        except ArkError as error:
            assert str(error)
            return
        if source.tell() == before:
            return


def read_parts(data: bytes, kind: str | None) -> None:
    """Read ranges of an object."""
    reader = AnyCodec() if kind is None else codec(kind)
    # Rows of a general matrix are made full, however wide a sparse one says that it is.
    for part in OF_MATRICES if kind == "general-matrix" else (*OF_MATRICES, OF_VECTORS):
        try:
            reader.read_part(BytesSource(data), part)
        except ArkError as error:
            assert str(error)


@SETTINGS
@given(st.sampled_from(SAMPLES).flatmap(lambda sample: st.tuples(st.just(sample[0]), mutations(sample[1]))))
def test_changed_objects(sample: tuple[str, bytes]) -> None:
    kind, data = sample
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_all(BytesSource(data), kind)
        read_all(StreamSource(io.BytesIO(data)), kind)
        read_all(BytesSource(data), None)
        read_parts(data, kind)
        read_parts(data, None)


@SETTINGS
@given(kind=st.sampled_from(KINDS), data=st.binary(max_size=200), binary=st.booleans())
def test_arbitrary_bytes_give_a_value_or_an_ark_error(kind: str, data: bytes, binary: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_all(BytesSource(b"\0B" * binary + data), kind)
        read_all(BytesSource(b"\0B" * binary + data), None)


@given(st.data())
@SETTINGS
def test_info_of_damaged_objects(data: st.DataObject) -> None:
    kind, valid = data.draw(st.sampled_from(SAMPLES))
    damaged = data.draw(mutations(valid))
    source, other = BytesSource(damaged), BytesSource(damaged)
    try:
        info = codec(kind).read_part(source, None)
    except ArkError as error:
        with pytest.raises(type(error)) as raised:
            codec(kind).read(other)
        assert str(raised.value) == str(error)
        return
    try:
        value = codec(kind).read(other)
    except FormatError as error:
        assert not isinstance(error, TruncatedError)  # but something about numbers, which are not looked at
        return
    assert source.tell() == other.tell()
    assert getattr(info, "shape", None) == getattr(getattr(value, "samples", value), "shape", None)


def places_of_sizes(data: bytes) -> set[int]:
    """Return places where a size may stand: after the length of an integer, a dozen behind each token, and others."""
    places = {*range(2, len(data) - 3, 1 + len(data) // 200 * 10)}
    token, behind = b"", dict[bytes, list[int]]()
    for each in re.finditer(rb"<\w+>|[A-Z]{2} |\x04", data):
        if each[0] == b"\4":
            behind.setdefault(token, []).append(each.end())
        else:
            token = each[0]
    return places.union(*(ends[:6] + ends[6 :: 1 + len(ends) // 6] for ends in behind.values()))


@pytest.mark.costly
@pytest.mark.parametrize(
    ("kind", "data"), [(kind, data) for kind, data in SAMPLES if data[:1] == b"\0" or kind == "htk"]
)
def test_false_sizes_take_no_memory(kind: str, data: bytes) -> None:
    # Each of these places says a large number, in turn.
    tracemalloc.start()
    try:
        for source_type in "bytes", "stream":
            for at in places_of_sizes(data):
                for lie in b"\xff\xff\xff\x7f", b"\x40\x42\x0f\x00":
                    lying = data[:at] + lie + data[at + 4 :]
                    tracemalloc.reset_peak()
                    start = tracemalloc.get_traced_memory()[0]
                    read_all(BytesSource(lying) if source_type == "bytes" else StreamSource(io.BytesIO(lying)), kind)
                    if source_type == "bytes":
                        read_parts(lying, kind)
                    peak = tracemalloc.get_traced_memory()[1] - start
                    allowed = BYTES_FOR_ALL + BYTES_FOR_A_BYTE * len(lying) + (1 << 21) * (source_type == "stream")
                    assert peak < allowed, (peak, at, lie)
    finally:
        tracemalloc.stop()


NUMBERS = [b"9" * 5000, b"-" + b"9" * 5000, b"1e99999999999999999999", b"0e-99999999999999999999", b"0." + b"3" * 5000]


@pytest.mark.parametrize("kind", sorted({kind for kind, data in SAMPLES if data[:2] != b"\0B"} - BINARY_ONLY))
def test_numbers_of_any_length_in_text_are_refused_in_one_line(kind: str) -> None:
    tried = 0
    for text in (data for each, data in SAMPLES if each == kind and data[:2] != b"\0B" and len(data) < 20_000):
        places = list(re.finditer(rb"[0-9][0-9.e+-]*", text))
        for place in places[:: max(1, len(places) // 8)]:
            for number in NUMBERS:
                tried += 1
                source = BytesSource(text[: place.start()] + number + text[place.end() :])
                try:
                    codec(kind).read(source)
                except ArkError as error:
                    assert "\n" not in str(error) and len(str(error)) < 3000
    assert tried or kind in ("bool", "config", "lines", "symbol-table", "token", "token-vector", "wave-info")


def test_integers_of_any_length_are_parsed() -> None:
    for digits in ("7", "0" * 5000 + "7", "+" + "0" * 500 + "7"):
        assert parse_integer(digits) == parse_integer(digits.encode()) == 7
    assert parse_integer("-" + "9" * 5000) == -(2**64) and parse_integer("9" * 5000) == 2**64
    for place in "a.ark:" + "9" * 5000, "a.ark:" + "0" * 5000 + "7":
        with pytest.raises(ArkError, match=r"beyond the size of any file|cannot be opened"):
            io_ark.load(place)
