"""Fast paths of codecs, which read many numbers at a time, give the values and errors of the slow paths."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from io_ark import SequentialReader
from io_ark.codecs import IntListsCodec, codec, compress, posterior
from io_ark.codecs import int_vector as integers
from io_ark.errors import ArkError, FormatError
from io_ark.streams.source import BytesSource, Source, StreamSource
from tests.support.codec_tools import archive_bytes, from_bytes, to_bytes
from tests.support.reading_ways import Trickle, frozen, without_library

QUICK = settings(max_examples=400, deadline=None)
FILES = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
LISTS = ("posterior", "int-vector-vector")


def long_way() -> ExitStack:
    """Codecs without their shortcuts."""
    off = ExitStack()
    off.enter_context(without_library())
    for module, name in (integers, "read_lists"), (posterior, "read_lists"):
        off.enter_context(patch.object(module, name, lambda *_, **__: (np.empty(0, np.int32), np.empty(0, np.int64))))
    return off


def outcome(kind: str, source: Source) -> Any:
    """Return the value read and where it ends, or the error and its offset."""
    try:
        return frozen(codec(kind).read(source)), source.tell()
    except ArkError as error:
        return type(error), error.offset


def assert_the_same_both_ways(kind: str, data: bytes) -> None:
    short = outcome(kind, BytesSource(data))
    with long_way():
        assert outcome(kind, BytesSource(data)) == short


INTEGERS = st.one_of(st.integers(0, 9999), st.integers(-(2**31), 2**31 - 1)).map(str)
NUMBERS = st.one_of(
    INTEGERS,
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(lambda x: f"{x:.7g}"),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(["1.00000005960464478", "7.0064923216240862e-46", "3.4028235677973366e38", "1e-39"]),
)
ODD_WORDS = st.sampled_from(
    ["1-2", "-", "--1", "+1", "+", ".5", "5.", ".", "1_0", "1e", "1e5", "e", "nan", "inf", "-inf", "1e39", "1e400",
     "0x1", "2147483648", "-2147483649", "\xe9", "[", "]", "99999999999999999999", "-9999999999999999999", "1.2.3", ";",
     "x"]
)  # fmt: skip
ODD_GAPS = st.sampled_from(["", "  ", "\t", "\r", "\v"])


@st.composite
def lists_in_text(draw: st.DrawFn, begin: str, element: tuple[Any, ...], end: str) -> str:
    """Lists laid out as Kaldi does it; sometimes a word or a space of them is another."""
    lists = draw(st.lists(st.lists(st.tuples(*element), max_size=3), max_size=4))
    words = [word for item in lists for word in (begin, *(x for pair in item for x in pair), end) if word]
    pieces = [piece for word in words for piece in (word, " ")]
    for _ in range(draw(st.integers(0, 2)) if pieces else 0):
        place = draw(st.integers(0, len(pieces) - 1))
        pieces[place] = draw(ODD_GAPS if place % 2 else ODD_WORDS)
    return "".join(pieces)


def on_a_line(texts: st.SearchStrategy[str], *examples: str) -> Callable[[Any], Any]:
    """Decorate a test of a text and the end of its line, with these examples."""

    def decorate(test: Any) -> Any:
        for text in examples:
            test = example(text=text, end="\n")(test)
        return QUICK(given(text=texts, end=st.sampled_from(["\n", "", " \n", "\r\n"]))(test))

    return decorate


@on_a_line(
    lists_in_text("[", (INTEGERS, NUMBERS), "]"),
    "[ 1 0.5 ] 3 [ 2 0.5 ] ",
    "[ 12 ] [ 1 0.5 7 2 ] ",
    "[ 1 [ 2 0.5 ] ] ",
    "[ 1 0.5 ] 5",
    "] [ 1 0.5 ",
    "[] [1 0.5] ",
)
def test_posteriors_in_text(text: str, end: str) -> None:
    assert_the_same_both_ways("posterior", (text + end).encode("latin1") + b"next line\n")


@on_a_line(lists_in_text("", (INTEGERS,), ";"), "1 2 ; 5", "1 2; ", " ; ", "1-2 ; ")
def test_vectors_of_vectors_in_text(text: str, end: str) -> None:
    assert_the_same_both_ways("int-vector-vector", (text + end).encode("latin1") + b"next line\n")


@given(st.lists(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=4), max_size=9), st.booleans())
@example([[1] * 40_000, [], [2] * 3], True)
def test_lists_of_integers_are_posteriors_of_weight_1(lists: list[list[int]], binary: bool) -> None:
    data, sink = to_bytes("int-vector-vector", lists, binary), BytesIO()
    with without_library():
        plain = IntListsCodec().read(BytesSource(data))
    read = IntListsCodec().read(BytesSource(data))
    assert read.to_lists() == plain.to_lists() == [[(number, 1.0) for number in each] for each in lists]
    IntListsCodec().write(sink, read, binary=binary)
    assert sink.getvalue() == data


@QUICK
@given(
    kind=st.sampled_from(["int-pair-vector", "float-pair-vector"]),
    text=lists_in_text("", (NUMBERS, INTEGERS), ";"),
    cut=st.sampled_from([0, 2, 1]),
)
@example(kind="int-pair-vector", text="1 2 3 ; 4 ; ", cut=2)
@example(kind="float-pair-vector", text="1 2 ; -3 4", cut=0)
def test_pairs_in_text(kind: str, text: str, cut: int) -> None:
    text = text.replace("] [", "").replace(" ; ;", " ;")
    assert_the_same_both_ways(kind, text[: len(text) - cut].encode("latin1") + b"\nnext line\n")


@QUICK
@given(
    kind=st.sampled_from(["vector", "double-vector", "int-vector", "int8-vector", "int", "float", "double", "token"]),
    words=st.lists(st.one_of(NUMBERS, INTEGERS, ODD_WORDS), max_size=4),
    gaps=st.lists(st.one_of(st.just(" "), st.just(" "), ODD_GAPS, st.just("\n")), min_size=5, max_size=5),
)
@example(kind="float", words=["1e39"], gaps=[" "] * 5)
@example(kind="float", words=["123456789012345678901234567890123456789e9"], gaps=[" "] * 5)
@example(kind="int", words=["-2147483649"], gaps=[" "] * 5)
@example(kind="token", words=["a"], gaps=["\n\n", " \r"] * 3)
def test_rows_scalars_and_tokens(kind: str, words: list[str], gaps: list[str]) -> None:
    text = "".join(gap + word for gap, word in zip(gaps, words, strict=False)) + gaps[-1]
    if "vector" in kind and "int" not in kind:
        text = f" [ {text}]"
    assert_the_same_both_ways(kind, (text + "\n").encode("latin1") + b"next line\n")


@QUICK
@given(st.lists(st.text(min_size=1).map(lambda x: x.encode("utf-8")), max_size=9), st.binary(max_size=9))
@example([b"\xc2", b"\xa0", b"\xe3\x80\x80", b"\x85"], b"")
def test_tokens_of_any_bytes(words: list[bytes], odd: bytes) -> None:
    line = b" ".join([*words, odd]).replace(b"\n", b"")
    assert from_bytes("token-vector", line + b"\n") == [
        word.decode("utf-8", "surrogateescape") for word in line.split()
    ]


def value_of(kind: str, lengths: list[int]) -> Any:
    rng = np.random.default_rng(len(lengths))
    if kind == "posterior":
        return [[(int(rng.integers(-9, 9999)), float(np.float32(rng.random()))) for _ in range(n)] for n in lengths]
    return [rng.integers(-(2**31), 2**31, n).astype(np.int32) for n in lengths]


@QUICK
@given(
    kind=st.sampled_from(LISTS),
    lengths=st.one_of(st.lists(st.integers(0, 4), max_size=30), st.lists(st.just(2), max_size=30)),
    change=st.none() | st.tuples(st.integers(0, 2000), st.sampled_from([0, 1, 2, 4, 5, 8, 127, 255])),
    size=st.integers(0, 2000),
    step=st.integers(1, 40),
)
def test_lists_in_binary(kind: str, lengths: list[int], change: tuple[int, int] | None, size: int, step: int) -> None:
    data = bytearray(to_bytes(kind, value_of(kind, lengths)))
    if change:
        data[change[0] % len(data)] = change[1]
        data = data[:size]
    assert_the_same_both_ways(kind, bytes(data))
    short = outcome(kind, StreamSource(Trickle(bytes(data) + b"next", step)))
    with long_way():
        assert outcome(kind, StreamSource(Trickle(bytes(data) + b"next", step))) == short


@pytest.mark.parametrize("kind", LISTS)
@pytest.mark.parametrize("lengths", [[3] * 3000, [0, 9000, 1, 2], list(range(130))])
def test_lists_longer_than_what_is_taken_at_once(tmp_path: Path, kind: str, lengths: list[int]) -> None:
    value = value_of(kind, lengths)
    for binary in True, False:
        path = tmp_path / "ark"
        path.write_bytes(archive_bytes([(b"a", value), (b"b", value)], kind, binary))
        with SequentialReader(f"ark:{path}", kind=kind) as reader:
            short = [(key, frozen(read)) for key, read in reader]
        with long_way(), SequentialReader(f"ark:{path}", kind=kind) as reader:
            assert [(key, frozen(read)) for key, read in reader] == short
        assert [key for key, _ in short] == ["a", "b"]


def test_reading_does_not_wait_for_bytes_after_the_object() -> None:
    class Waiting(Trickle):
        def readinto(self, buffer: Any) -> int:
            assert self._data.tell() < len(self._data.getbuffer()), "it waits for more than the object"
            return super().readinto(buffer)

    for kind in LISTS:
        value = value_of(kind, [2, 0, 3])
        read = codec(kind).read(StreamSource(Waiting(to_bytes(kind, value), 7)))
        assert frozen(read) == frozen(value)


@pytest.mark.parametrize("method", [2, 3, 5])
@pytest.mark.parametrize("step", [1, 16, 17, 20, 30])
def test_compressed_matrices_are_read_from_any_parts(method: int, step: int) -> None:
    stored = compress(np.arange(30, dtype=np.float32).reshape(10, 3), method)
    source = StreamSource(Trickle(to_bytes("compressed-matrix", stored), step))
    source.peek(1)  # as after a key, so that the first part is there
    assert frozen(codec("matrix").read(source)) == frozen(stored.to_array())


def test_vectors_of_a_vector_can_be_written_to_and_do_not_overlap() -> None:
    for binary in True, False:
        first, second = from_bytes("int-vector-vector", to_bytes("int-vector-vector", [[1], [2, 3]], binary))
        first[:] = 9
        assert second.tolist() == [2, 3]


@pytest.mark.parametrize(("lists", "value"), [([[1.5]], "1.5"), ([[1], [2**31]], "2147483648"), ([["1"]], "'1'"),
                                              ([[[1]]], "[1]"), ([[1, [2]]], "[2]"), ([[None]], "None")])  # fmt: skip
def test_error_names_the_invalid_element_of_lists_of_integers(lists: Any, value: str) -> None:
    with pytest.raises(FormatError) as caught:
        to_bytes("int-vector-vector", lists)
    assert caught.value.message.startswith((f"expected an integer, not {value}", f"{value} does not fit into 32 bits"))
    with pytest.raises(FormatError):
        to_bytes("int-vector", lists[-1])


def test_numbers_of_numpy_are_written_as_pythons() -> None:
    mixed = [[(np.int64(3), np.float32(0.5)), (True, 1)]]
    for binary in True, False:
        assert to_bytes("posterior", mixed, binary) == to_bytes("posterior", [[(3, 0.5), (1, 1.0)]], binary)


@pytest.mark.parametrize("frame", [b"[ 12 0.5 ] ", b"[12 0.5]  "])
def test_long_posteriors_take_time_in_proportion(frame: bytes) -> None:
    begin = time.process_time()
    assert len(from_bytes("posterior", frame * 160_000 + b"\n")) == 160_000
    assert time.process_time() - begin < 6  # 16 seconds where each frame copies the rest
