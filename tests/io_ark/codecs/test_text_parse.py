"""Numbers in text: Kaldi's streams, and the code that converts many numbers at once, agree."""

from __future__ import annotations

import itertools
from typing import NoReturn

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from io_ark.codecs.text_parse import parse_rows, round_to_float32, scan_rows
from io_ark.errors import FormatError
from tests.support.codec_tools import from_bytes, to_bytes

QUICK = settings(max_examples=300, deadline=None)


class Refused(Exception):
    pass


def fail(message: str, place: int) -> NoReturn:
    raise Refused


def outcome(text: bytes, single: bool, slow: bool) -> list[list[str]] | None:
    """The rows read, or None if the text is refused; as hexadecimal, so that -0 and nan compare."""
    try:
        if slow:
            rows = scan_rows(text, single, fail)
        else:
            values, counts = parse_rows(text, np.float32 if single else np.float64, fail)
            ends = np.cumsum([0, *counts])
            rows = [values[a:b].tolist() for a, b in itertools.pairwise(ends)]
    except Refused:
        return None
    return [[float(x).hex() for x in row] for row in rows]


NUMBER = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(lambda x: f"{x:.7g}"),
    st.floats(allow_nan=False, allow_infinity=False, width=32).map(repr),
    st.integers(-(10**12), 10**12).map(str),
    st.decimals(-100, 100, places=5).map(str),
    st.sampled_from(
        ["-0", "0.", "1e5", "1e+05", "1E-05", "-.5", "16777217", "16777217.0000001", "1.00000005960464478"]
    ),
)
ODD = st.sampled_from(
    [*"-.+e;\n\t", "1-2", "1.2.3", "inf", "-inf", "NaN", "nan1", "Infinity", ".5", "+1", "1e", "1e+", "1e400", "1e39",
     "--1", "1_0", "1,2", "0x1", "1e5.5", "12345678901234567890", "1e-400", "5e-324", "1e-45", "3.4028236e38", "\x80"]
)  # fmt: skip


@QUICK
@given(
    words=st.lists(st.one_of(NUMBER, NUMBER, ODD), max_size=12),
    gaps=st.lists(st.sampled_from([" ", "\n", "  ", ";", "\t", " \r\n"]), min_size=13, max_size=13),
    single=st.booleans(),
)
@example(words=["1e-45", "16777217.0000001"], gaps=[" "] * 13, single=True)
def test_array_parser_equals_the_scanner(words: list[str], gaps: list[str], single: bool) -> None:
    text = "".join(gap + word for gap, word in zip(gaps, words, strict=False)).encode("latin1")
    expected = outcome(text, single, slow=True)
    assert outcome(text, single, slow=False) == expected


@QUICK
@given(
    values=st.lists(st.one_of(st.floats(), st.floats(-1e8, 1e8), st.integers(-(10**8), 10**8).map(lambda i: i / 4))),
    columns=st.integers(1, 40),
)
@example(values=[7.8486615, 1.0, 2.0, 3.0, 7.2624955, 1.0], columns=3)  # Python rounds two of them
@example(values=[0.0, -0.0, 9999999.4, 9999999.5, 1e-4, 9.9999999e-5, 0.99999995, 1234567.5, 123456.75], columns=3)
def test_printing_many_as_printing_each(values: list[float], columns: int) -> None:
    numbers = np.array([*values, *np.full(columns, 0.5)])
    matrix = numbers[: len(numbers) // columns * columns].reshape(-1, columns)
    rows = to_bytes("double-matrix", matrix, binary=False).decode()
    assert rows == " [" + "".join("\n  " + "".join(printed(x) + " " for x in row) for row in matrix) + "]\n"
    vector = to_bytes("double-vector", numbers, binary=False).decode()
    assert vector == " [ " + "".join(printed(x) + " " for x in numbers) + "]\n"


def printed(value: float) -> str:
    return ("-nan" if np.signbit(value) else "nan") if np.isnan(value) else format(value, ".7g")


@QUICK
@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.integers(-2, 2))
def test_rounding_once(value: float, beyond: int) -> None:
    # A number next to the middle between two floats, closer to it than a float64 can say.
    with np.errstate(over="ignore"):
        other = float(np.nextafter(np.float32(value), np.float32(np.inf)))
    if not np.isfinite(other):
        return
    from decimal import Decimal, localcontext

    with localcontext() as context:
        context.prec = 400
        middle = (Decimal(value) + Decimal(other)) / 2
        text = format(middle + beyond * (Decimal(other) - Decimal(value)) / 10**20, "f")
    expected = other if beyond > 0 else value
    if beyond:
        assert round_to_float32(text.encode()) == expected


def test_digits_beyond_pythons_limit_decide() -> None:
    middle = b"1.000000059604644775390625"  # of 1 and the next float32
    assert round_to_float32(middle + b"0" * 5000) == 1
    assert round_to_float32(middle + b"0" * 5000 + b"1") == np.nextafter(np.float32(1), np.float32(2))


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (b" [\n  1 2 \n  3 4 ]\n", [[1, 2], [3, 4]]),
        (b"[ 1 2 ; 3 4 ]", [[1, 2], [3, 4]]),
        (b"[ ]\n", []),
        (b" []\n", []),
        (b"[ 1\n\n;2 ]\r\n", [[1], [2]]),
        (b"[ INF nan infinity ]", [[np.inf, np.nan, np.inf]]),
        (b"[ 1-2 ]", [[1, -2]]),
    ],
)
def test_layouts_of_matrices(text: bytes, rows: list[list[float]]) -> None:
    for kind in "matrix", "double-matrix":
        read = from_bytes(kind, text)
        assert np.array_equal(read, np.array(rows).reshape(read.shape), equal_nan=True)
        assert read.shape == (len(rows), len(rows[0]) if rows else 0)


@pytest.mark.parametrize(
    ("kind", "text"),
    [*(("matrix", text) for text in (b"", b"[", b"[ 1 2", b"1 2 ]", b"[1 2 ]", b"[ 1 2\n3 ]", b"[ -inf ]", b"[ +1 ]",
                                     b"[ .5 ]", b"[ one ]", b"[ 1e39 ]", b"[ - ]", b"[ 1e ]")),
     *(("vector", text) for text in (b"[ 1\n2 ]", b"[ 1 ; 2 ]", b"[ 1-2 ]", b"[ 1 2", b"[ -inf ]")),
     ("int-vector", b"1 2.5\n"), ("int-vector", b"1 2147483648\n"), ("int-vector", b"1 99999999999999999999\n"),
     ("int-vector", b"1 x\n"), ("int-vector", b""), ("int8-vector", b"128\n"), ("int-vector-vector", b"1 2 ; 3\n"),
     ("int-pair-vector", b"1 2 ; 3\n"), ("int-pair-vector", b"1 2 ; 3 4 ;\n"), ("float-pair-vector", b"1 x\n"),
     ("int", b"\n"), ("int", b"1 2\n"), ("int", b"1.5\n"), ("float", b"inf\n"), ("bool", b"yes\n"), ("token", b"a b\n"),
     ("posterior", b"1 2 3\n"), ("posterior", b"[ 1 0.5 2 ]\n"), ("posterior", b"[ 1 0.5\n"), ("float", b"1e39\n")],
)  # fmt: skip
def test_text_that_kaldi_refuses_is_an_error(kind: str, text: bytes) -> None:
    with pytest.raises(FormatError):
        from_bytes(kind, text)


@QUICK
@given(st.lists(st.one_of(st.integers(-(2**31), 2**31 - 1), st.integers(-(10**5), 10**5))), st.integers(0, 8))
@example([0, -1, 9, 10, 99999999, -99999999], 0)
@example([100000000], 8)
def test_printing_many_integers(values: list[int], digits: int) -> None:
    numbers = values + np.random.default_rng(digits).integers(-(10**digits), 10**digits, 40).tolist()
    assert to_bytes("int-vector", numbers, binary=False).decode() == "".join(f"{i} " for i in numbers) + "\n"


def test_integers_as_a_stream_takes_them() -> None:
    assert from_bytes("int-vector", b" 1\t-2 +3 007 4-5 \n").tolist() == [1, -2, 3, 7, 4, -5]
    assert from_bytes("int-vector", b"\n").tolist() == []
    lists = from_bytes("int-vector-vector", b"1 2 ; ; 3 ;\n")
    assert [numbers.tolist() for numbers in lists] == [[1, 2], [], [3]]


@pytest.mark.parametrize(("kind", "bits"), [("int-vector", 32), ("int8-vector", 8), ("int-vector-vector", 32)])
def test_error_names_the_width_of_the_integers(kind: str, bits: int) -> None:
    with pytest.raises(FormatError, match=f"expected integers of {bits} bits, found 'x'"):
        from_bytes(kind, b"1 x ;\n" if kind == "int-vector-vector" else b"1 x\n")


@pytest.mark.parametrize("start", [b"RIFF", b"RIFX"])
def test_a_wav_file_is_no_matrix(start: bytes) -> None:
    with pytest.raises(FormatError, match="expected a matrix, found a WAV file: compute features first"):
        from_bytes("matrix", start + b"\0\1\0\0WAVEfmt ")


def test_error_has_the_position_of_the_fault() -> None:
    with pytest.raises(FormatError) as caught:
        from_bytes("matrix", b"[ 1 2\n 3 four ]\n")
    assert caught.value.offset == 9
    assert "'four'" in str(caught.value)
    with pytest.raises(FormatError) as caught:
        from_bytes("matrix", b"[ " + b"1 2\n" * 50000 + b"3 four ]\n")
    assert caught.value.offset == 2 + 200000 + 2
