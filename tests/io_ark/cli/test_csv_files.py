"""CSV files of ``ark convert``, as spreadsheets and pandas read them."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import io_ark
from io_ark.cli.csv_files import read_csv
from io_ark.errors import FormatError
from tests.support.ark_program import Ark

RNG = np.random.default_rng(0)


def write(kind: Any = None, **values: Any) -> None:
    with io_ark.writer("ark:in.ark", **({"kind": kind} if kind else {})) as writer:
        for key, value in values.items():
            writer[key] = value


def test_matrix_has_a_row_for_each_frame(ark: Ark) -> None:
    write(**{'a,"b': np.array([[1, 0.1], [-1e-30, np.nan]], "f4"), "ü": np.array([[2, np.inf]], "f4")})
    ark("convert in.ark o.csv")
    with open("o.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    ark("convert o.csv back.ark")
    assert Path("back.ark").read_bytes() == Path("in.ark").read_bytes()
    assert rows == [
        ["utterance", "frame", "0", "1"],
        ['a,"b', "0", "1.0", "0.1"],
        ['a,"b', "1", "-1e-30", "nan"],
        ["ü", "0", "2.0", "inf"],
    ]


@pytest.mark.parametrize(
    ("kind", "value", "first"),
    [
        ("matrix", RNG.standard_normal((4, 3)).astype(np.float32), "utterance,frame,0,1,2"),
        ("double-matrix", RNG.standard_normal((4, 3)), "utterance,frame,0,1,2"),
        ("vector", RNG.standard_normal(3).astype(np.float32), "utterance,0,1,2"),
        ("double-vector", RNG.standard_normal(3), "utterance,0,1,2"),
        ("int-vector", np.array([3, -(2**31), 2**31 - 1], np.int32), "utterance,0,1,2"),
    ],
)
def test_numbers_come_back_with_their_type(kind: Any, value: Any, first: str, ark: Ark) -> None:
    write(kind, a=value, b=value)
    ark("convert in.ark o.csv")
    assert Path("o.csv").read_text().splitlines()[0] == first
    ark("convert o.csv back.ark")
    back = dict(io_ark.read("back.ark", kind=kind))
    assert list(back) == ["a", "b"]
    assert back["a"].dtype == value.dtype
    np.testing.assert_array_equal(back["a"], value)
    assert Path("back.ark").read_bytes() == Path("in.ark").read_bytes()


def test_numbers_have_a_column_of_values(ark: Ark) -> None:
    Path("utt2score").write_text("a 1.25\nb 0.1\n")
    ark("convert ark:utt2score o.csv")
    assert Path("o.csv").read_bytes() == b"utterance,value\na,1.25\nb,0.1\n"
    ark("convert ark:utt2score o.npz")
    for source in "o.csv", "o.npz", "ark:utt2score":
        ark(f"convert {source} back.ark")
        np.testing.assert_array_equal(
            [value for _, value in io_ark.read("back.ark", kind="float")], np.float32([1.25, 0.1])
        )


def test_entries_that_no_row_can_hold_fail(ark: Ark) -> None:
    write(a=np.zeros((2, 3), "f4"), wide=np.zeros((2, 4), "f4"), empty=np.zeros((0, 0), "f4"), b=np.ones((1, 3), "f4"))
    said = ark("convert in.ark o.csv", 1).err
    assert (
        "ark: wide: has the columns frame to 3, but the CSV file has frame to 2: convert arrays of one shape only\n"
        in said
    )
    assert "ark: empty: has the shape (0, 0) and no values" in said
    assert [line[0] for line in Path("o.csv").read_text().splitlines()] == ["u", "a", "a", "b"]


def test_numbers_of_other_types_are_written_as_they_are_or_refused(ark: Ark) -> None:
    narrow = np.array([[0.1, 3.3, np.inf]], np.float16)
    arrays: dict[str, Any] = {
        "cube": np.zeros((1, 1, 3)),
        "mask": np.ones((1, 3), bool),
        "complex": np.ones((1, 3), "c8"),
    }
    np.savez("a.npz", **arrays, narrow=narrow)
    said = ark("convert a.npz o.csv", 1).err
    for key, kind in ("cube", "3-dimensional array of float64"), ("mask", "2-dimensional array of bool"):
        assert f"ark: a.npz: {key}: is a {kind}, which CSV files cannot store: use .npz\n" in said
    assert "complex: is a 2-dimensional array of complex64" in said and "o.csv: 1 entry, 3 failed" in said
    ark("convert o.csv back.npz")
    with np.load("back.npz") as back:
        np.testing.assert_array_equal(back["narrow"], narrow.astype(np.float32))
        assert back["narrow"].dtype == np.float32
    np.savez("b.npz", a=np.arange(3, dtype=np.uint8), b=np.arange(5))
    assert (
        "ark: b.npz: b: has the columns 0 to 4, but the CSV file has 0,1,2: convert"
        in ark("convert b.npz b.csv", 1).err
    )


def test_columns_of_spreadsheets_are_read(ark: Ark) -> None:
    Path("s.csv").write_bytes("\ufeffutterance,pitch,energy\r\nu1,100,-3.5\r\n".encode())
    ark("convert s.csv back.ark")
    assert dict(io_ark.read("back.ark"))["u1"].tolist() == [100, -3.5]


@pytest.mark.parametrize(
    ("text", "kind", "arrays"),
    [
        ("\ufeffutterance,frame,0,1\na,0,1,2\na,1,3,4\n", "matrix", {"a": [[1, 2], [3, 4]]}),
        ("\ufeffutterance,0,1\na,1,2\nb,1.5,-2\n", "vector", {"a": [1, 2], "b": [1.5, -2]}),
        ("utterance,0\na,1E2\n", "vector", {"a": [100]}),
        ("utterance,value\na,1\nb,1.5\n", "float", {"a": 1, "b": 1.5}),
        ("utterance,value\n1.5,1\nend,2\n", "int", {"1.5": 1, "end": 2}),
        ("utterance,0\na,2147483648.0\nb,2147483647.0\n", "double-vector", {"a": [2.0**31], "b": [2.0**31 - 1]}),
    ],
)
def test_table_has_one_kind(text: str, kind: Any, arrays: Any, ark: Ark) -> None:
    Path("s.csv").write_text(text, encoding="utf-8")
    ark("convert s.csv back.ark")
    assert {key: np.asarray(value).tolist() for key, value in io_ark.read("back.ark", kind=kind)} == arrays


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must begin with a line of column names, such as 'utterance,frame,0,1'"),
        ("a,0,1\nb,1,2\n", "must begin with a line of column names"),
        ("utterance\nb\n", "must begin with a line of column names"),
        ("utterance,0,1\nb,1\n", "line 2 has 2 values instead of 3"),
        (f"utterance,0,1\nb,-{2**63},e\n", "b: the value 'e' is not a number, or does not fit into a 64-bit float"),
        (f"utterance,0,1\nb,-{2**63},-\n", "b: the value '-' is not a number, or does not fit into a 64-bit integer"),
        ("utterance,0\nb,1e\n", "b: the value '1e' is not a number"),
        ("utterance,0\nb,1_000\n", "b: the value '1_000' is not a number"),
        ("utterance,0\nb,True\n", "b: the value 'True' is not a number"),
        ("utterance,0\nb,\n", "b: the value '' is not a number"),
        (f"utterance,0\nb,{2**63}\n", f"b: the value '{2**63}' is not a number, or does not fit into a 64-bit integer"),
        (
            f"utterance,frame,0\nb,0,{2**53}\nb,1,-{2**53 + 1}\n",
            f"b: the value '-{2**53 + 1}' is not a number, or does not fit into a 64-bit float",
        ),
        (f"utterance,0\na,1.5\nb,{2**53 + 1}\n", f"b: the value '{2**53 + 1}' is not a number, or does not fit"),
        (f"utterance,0\nb,{'9' * 5000}\n", f"b: the value '{'9' * 40}' is not a number, or"),
        (f"utterance,frame,0\nb,0,{'9' * 5000}\n", f"b: the value '{'9' * 40}' is not a number, or"),
        ("utterance,frame,0\nb,0,-1e999\n", "b: the value '-1e999' is not a number, or does not fit"),
        ("utterance,frame,0\nb,1,2\n", "b: the frames must be 0 to 0 in order"),
        ("utterance,frame,0\nb,0,2\nb,2,2\n", "b: the frames must be 0 to 1 in order"),
        ('utterance,0\n"b"x,2\n', "cannot be read: "),
        ("utterance,0\n\udce4,2\n", "is not UTF-8: save the file with the encoding UTF-8"),
    ],
)
def test_other_files_are_refused(text: str, message: str, ark: Ark) -> None:
    Path("s.csv").write_bytes(text.encode("utf-8", "surrogateescape"))
    has_other = "\na," in text
    first, *others = ark("convert s.csv back.ark", 1 if has_other else 2).err.splitlines()
    assert first.startswith("ark: s.csv: ") and message in first
    summary = (
        "back.ark: 1 entry, 1 failed" if has_other else "ark: s.csv: no entry could be converted: nothing was written"
    )
    assert others == [summary] * len(others) and len(others) == first.startswith(("ark: s.csv: a: ", "ark: s.csv: b: "))


@pytest.mark.parametrize("header", ["utterance", "utterance,frame", "key,0"])
def test_header_without_columns_of_values_is_refused(header: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"{header}\n")
    with pytest.raises(FormatError, match="must begin with a line of column names"):
        list(read_csv(tmp_path / "a.csv"))
