"""Single objects, script lines in any order, and ranges."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import io_ark
from io_ark.errors import FormatError, RangeError, TruncatedError
from tests.support.tables import write_table


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.sampled_from([1, 2, 3, 40, 700]), min_size=1, max_size=8), data=st.data())
def test_script_in_any_order_reads_the_same_values(
    rows: list[int], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("order")
    lines: list[tuple[str, np.ndarray]] = []
    for name in ("a", "b"):
        values = {f"{name}{i}": np.random.default_rng(i).random((n, 3), np.float32) for i, n in enumerate(rows)}
        write_table("matrix", f"ark,scp:{folder}/{name}.ark,{folder}/{name}.scp", values)
        lines += zip((folder / f"{name}.scp").read_text().splitlines(), values.values(), strict=True)
    chosen = data.draw(st.lists(st.sampled_from(lines), max_size=20), label="lines")
    (folder / "chosen.scp").write_text("".join(f"{line}\n" for line, _ in chosen))
    read = list(io_ark.SequentialReader(f"scp:{folder}/chosen.scp", kind="matrix"))
    assert [key for key, _ in read] == [line.split()[0] for line, _ in chosen]
    assert all(np.array_equal(value, expected) for (_, value), (_, expected) in zip(read, chosen, strict=True))


def test_ranges_of_one_object_are_copies(folder: Path) -> None:
    Path("r.scp").write_text("a feats.ark:11[0:3]\nb feats.ark:11[0:3]\nc feats.ark:11[2:3,1:2]\nd feats.ark:11\n")
    with io_ark.SequentialReader("scp:r.scp", kind="matrix") as reader:
        values = {}
        for key, value in reader:
            values[key] = value.copy()
            value[:] = 0
    np.testing.assert_array_equal(values["a"], values["d"][:4])
    np.testing.assert_array_equal(values["b"], values["d"][:4])
    np.testing.assert_array_equal(values["c"], values["d"][2:4, 1:3])


def test_range_of_a_token_is_an_error(folder: Path) -> None:
    Path("i.scp").write_text("a i.txt:2[0:1]\n")
    Path("i.txt").write_text("a 1 2 3\n")
    with pytest.raises(RangeError, match="needs a matrix or vector of floats"):
        list(io_ark.SequentialReader("scp:i.scp", kind="int-vector"))


def test_single_objects_are_written_and_read_back(folder: Path) -> None:
    vector = np.arange(5, dtype=np.float32)
    for binary in True, False:
        io_ark.save("v", vector, kind="vector", binary=binary)
        np.testing.assert_array_equal(io_ark.load("v", kind="vector"), vector)
        np.testing.assert_array_equal(io_ark.load("v[1:3]", kind="vector"), vector[1:4])
        np.testing.assert_array_equal(io_ark.load("cat v |", kind="vector"), vector)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 12), columns=st.integers(1, 5), double=st.booleans(), text=st.sampled_from(["", ",t"]),
    first=st.integers(0, 13), length=st.integers(0, 14), left=st.integers(0, 5), width=st.integers(0, 5),
)  # fmt: skip
def test_range_equals_a_slice(
    rows: int, columns: int, double: bool, text: str, first: int, length: int, left: int, width: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    folder = tmp_path_factory.getbasetemp()
    matrix = np.arange(rows * columns, dtype=np.float64).reshape(rows, columns)
    kind = "double-matrix" if double else "matrix"
    write_table(kind, f"ark{text},scp:{folder}/r.ark,{folder}/r.scp", {"before": matrix, "a": matrix})
    place = (folder / "r.scp").read_text().split()[-1]
    last, right = first + length, left + width
    for part, wanted in (f"[{first}:{last}]", matrix[first : last + 1]), (
        f"[{first}:{last},{left}:{right}]", matrix[first : last + 1, left : right + 1]
    ):  # fmt: skip
        fits = first < rows and last < rows + 3 and ("," not in part or right < columns)
        for load in io_ark.load, lambda name: io_ark.load(name, kind="matrix"):
            if fits:
                value = load(place + part)
                np.testing.assert_array_equal(value, wanted)
                assert value.flags.writeable and value.flags.c_contiguous
            else:
                with pytest.raises(RangeError, match="does not fit"):
                    load(place + part)


def test_range_of_a_truncated_matrix_is_an_error(folder: Path) -> None:
    with pytest.raises(TruncatedError):
        io_ark.load("truncated.ark:12223[0:1]", kind="matrix")


@pytest.mark.parametrize("mmap", [False, True])
def test_archive_that_grows_while_open_is_read(folder: Path, mmap: bool) -> None:
    first, second = (np.arange(i, i + 20000, dtype=np.float32).reshape(2000, 10) for i in (0, 7))
    write_table("matrix", "ark:g.ark", {"k": first, "k3": second})
    whole = Path("g.ark").read_bytes()
    place = whole.index(b"k3 ") + 3
    for cut in 40_000, place, place + 20:
        Path("g.ark").write_bytes(whole[:cut])
        Path("g.scp").write_text("short nosuch\nk g.ark:2\n" + f"k3 g.ark:{place}\npart g.ark:2[500:502]\n")
        table = io_ark.load_scp("g.scp", kind="matrix", mmap=mmap)
        with pytest.raises(FormatError):
            table["k" if cut < place else "k3"]
        with open("g.ark", "ab") as file:
            file.write(whole[cut:])
        np.testing.assert_array_equal(table["part"], first[500:503])
        np.testing.assert_array_equal(table["k3"], second)
        np.testing.assert_array_equal(table["k"], first)


def test_ranges_of_several_commands_are_those_of_each(folder: Path) -> None:
    names = ("u01_normal", "u02_feat")
    for name in names:
        io_ark.save(f"{name}.mat", dict(io_ark.read("feats.ark"))[name], kind="matrix")
    Path("p.scp").write_text("".join(f"{i}{j} cat {c}.mat |[{j}:{j}]\n" for i, c in enumerate(names) for j in range(2)))
    found = dict(io_ark.SequentialReader("scp:p.scp", kind="matrix"))
    for i, name in enumerate(names):
        matrix = io_ark.load(f"{name}.mat", kind="matrix")
        for j in range(2):
            np.testing.assert_array_equal(found[f"{i}{j}"], matrix[j : j + 1])


@pytest.mark.parametrize(("part", "warns"), [("[0:36]", False), ("[35:36]", False), ("[0:37]", True)])
def test_range_warns_from_the_first_row_that_is_missing(
    part: str, warns: bool, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    io_ark.load(f"feats.ark:11{part}", kind="matrix")
    assert ["exceeds the 37 rows" in message for message in caplog.messages] == [True] * warns
