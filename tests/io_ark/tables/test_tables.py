"""Tables: Kaldi's rules of success, its options, and peers that read and write the same."""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kaldi_native_io
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import io_ark
from io_ark.errors import (
    ArkError,
    ClosedError,
    FormatError,
    KeyFormatError,
    MissingKeyError,
    OpenError,
    OrderError,
    PipeError,
    RangeError,
    SpecifierError,
    TruncatedError,
    WriteError,
)

INPUTS = Path(__file__).parents[3] / "reference_data" / "inputs"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Kaldi's own archives of the reference set, as the working folder."""
    for name in ("feats.ark", "feats.scp", "truncated.ark", "unsorted.scp", "dup.scp", "badoffset.scp", "blankline.scp",
                 "keyonly.scp", "garbage.ark", "ranges.scp", "ranges_bad.scp"):  # fmt: skip
        shutil.copy(INPUTS / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


KEYS = ["u01_normal", "u02_feat", "u18_long"]


def shapes(rspecifier: str, **options: object) -> list[tuple[str, tuple[int, ...]]]:
    with io_ark.SequentialReader("matrix", rspecifier, **options) as reader:
        return [(key, value.shape) for key, value in reader]


WHOLE = [("u01_normal", (37, 13)), ("u02_feat", (64, 40)), ("u18_long", (300, 23))]


@pytest.mark.parametrize(
    "rspecifier",
    ["ark:feats.ark", "scp:feats.scp", "ark,bg:feats.ark", "scp,bg:feats.scp", "ark,p:feats.ark", "scp,p:feats.scp",
     "ark,s,cs,o:feats.ark", "t,scp:feats.scp", "ark:cat feats.ark |", "scp:cat feats.scp|", "scp,bg,p:feats.scp"],
)  # fmt: skip
def test_every_way_to_read_gives_the_same(rspecifier: str, folder: Path) -> None:
    assert shapes(rspecifier) == WHOLE


@pytest.mark.parametrize(
    ("rspecifier", "error", "complaint"),
    [
        ("ark:nosuch.ark", OpenError, "^nosuch.ark: cannot be opened: No such file"),
        ("scp:nosuch.scp", OpenError, "^nosuch.scp: cannot be opened"),
        ("ark:garbage.ark", FormatError, "^garbage.ark:[0-9]+: u1: "),
        ("ark,p:garbage.ark", FormatError, "^garbage.ark:[0-9]+: u1: "),
        ("ark:truncated.ark", TruncatedError, "^truncated.ark:[0-9]+: u18_long: .* should follow"),
        ("ark,bg:truncated.ark", TruncatedError, "u18_long"),
        ("scp:badoffset.scp", OpenError, "^feats.ark:99999999: u01_normal: "),
        ("scp:blankline.scp", FormatError, "^blankline.scp: line 2 is blank"),
        ("scp:keyonly.scp", FormatError, "^keyonly.scp: line 1 has a key"),
        ("scp:ranges_bad.scp", RangeError, "does not lie within a matrix of 37 x 13"),
        ("scp,p:ranges_bad.scp", RangeError, "does not lie within"),
        ("ark:cat feats.ark; exit 3 |", PipeError, "exit status 3"),
        ("ark:exit 3 |", PipeError, "exit status 3"),
        ("scp:cat feats.scp; exit 3 |", PipeError, "exit status 3"),
        ("ark:echo utt1 |", FormatError, "utt1"),
        ("ark:printf utt1 |", TruncatedError, "after the key 'utt1', before its object"),
        ("ark:printf 'utt1\\vx' |", FormatError, "a space should follow the key"),
        ("feats.ark", SpecifierError, "no rspecifier"),
        ("", SpecifierError, "no rspecifier"),
    ],
)
def test_what_is_wrong_is_said_and_never_passed_over(
    rspecifier: str, error: type[ArkError], complaint: str, folder: Path
) -> None:
    with pytest.raises(error, match=complaint):
        shapes(rspecifier)


@pytest.mark.parametrize(
    ("rspecifier", "left", "skipped"),
    [
        ("ark,p:truncated.ark", WHOLE[:2], 1),
        ("ark,p,bg:truncated.ark", WHOLE[:2], 1),
        ("scp,p:badoffset.scp", [], 2),
        ("scp,p:blankline.scp", WHOLE[:2], 1),
        ("ark,p:cat feats.ark; exit 3 |", WHOLE, 1),
        ("ark,p:exit 3 |", [], 1),
        ("scp,p:cat feats.scp; exit 3 |", WHOLE, 1),
    ],
)
def test_permissive_readers_pass_over_and_count(
    rspecifier: str, left: object, skipped: int, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reader: io_ark.SequentialReader[np.ndarray] = io_ark.SequentialReader("matrix", rspecifier)  # type: ignore[type-arg]
    assert [(key, value.shape) for key, value in reader] == left
    assert reader.skipped == skipped == len(caplog.records)


def test_the_objects_before_an_error_are_given(folder: Path) -> None:
    reader: Iterator[tuple[str, object]] = iter(io_ark.SequentialReader("matrix", "ark:truncated.ark"))
    assert [next(reader)[0], next(reader)[0]] == KEYS[:2]
    with pytest.raises(TruncatedError):
        next(reader)


def test_a_reader_notices_a_wrong_name_when_it_is_made(folder: Path) -> None:
    for rspecifier in "ark:nosuch", "scp:nosuch", "ark:garbage.ark", "ark,bg:nosuch", "scp:keyonly.scp":
        with pytest.raises(ArkError):
            io_ark.SequentialReader("matrix", rspecifier)


def test_values_of_a_script_are_read_only_if_wanted(folder: Path) -> None:
    Path("some.scp").write_text(Path("feats.scp").read_text() + "u99 nosuch.ark:3\n")
    with io_ark.SequentialReader("matrix", "scp:some.scp") as reader:
        loads = dict(reader.entries())
    assert list(loads) == [*KEYS, "u99"]
    assert loads["u02_feat"]().shape == (64, 40)
    with pytest.raises(OpenError, match=r"^nosuch\.ark: u99: "):
        loads["u99"]()


@pytest.mark.parametrize("rspecifier", ["ark:yes 'utt [ 1 2 ]' |", "ark,bg:yes 'utt [ 1 2 ]' |"])
def test_a_reader_is_closed_in_the_middle(rspecifier: str, capfd: pytest.CaptureFixture[str]) -> None:
    threads = threading.active_count()
    with io_ark.SequentialReader("vector", rspecifier) as reader:
        assert next(iter(reader))[0] == "utt"
    assert threading.active_count() == threads
    assert capfd.readouterr().err == ""
    with pytest.raises(ClosedError):
        next(iter(reader))
    reader.close()


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.sampled_from([1, 2, 3, 40, 700]), min_size=1, max_size=8), data=st.data())
def test_the_lines_of_a_script_may_come_in_any_order(
    rows: list[int], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("order")
    lines: list[tuple[str, np.ndarray]] = []
    for name in ("a", "b"):
        values = {f"{name}{i}": np.random.default_rng(i).random((n, 3), np.float32) for i, n in enumerate(rows)}
        with io_ark.Writer("matrix", f"ark,scp:{folder}/{name}.ark,{folder}/{name}.scp") as writer:
            for key, value in values.items():
                writer[key] = value
        lines += zip((folder / f"{name}.scp").read_text().splitlines(), values.values(), strict=True)
    chosen = data.draw(st.lists(st.sampled_from(lines), max_size=20), label="lines")
    (folder / "chosen.scp").write_text("".join(f"{line}\n" for line, _ in chosen))
    read = list(io_ark.SequentialReader("matrix", f"scp:{folder}/chosen.scp"))
    assert [key for key, _ in read] == [line.split()[0] for line, _ in chosen]
    assert all(np.array_equal(value, expected) for (_, value), (_, expected) in zip(read, chosen, strict=True))


def test_an_archive_may_have_tabs_and_newlines_after_keys(folder: Path) -> None:
    Path("a.txt").write_text("a\t1 2\nb\n\n  c 3\n")
    with io_ark.SequentialReader("int-vector", "ark:a.txt") as reader:
        assert [(key, value.tolist()) for key, value in reader] == [("a", [1, 2]), ("b", []), ("c", [3])]


def test_ranges_of_one_object_are_copies(folder: Path) -> None:
    Path("r.scp").write_text("a feats.ark:11[0:3]\nb feats.ark:11[0:3]\nc feats.ark:11[2:3,1:2]\nd feats.ark:11\n")
    with io_ark.SequentialReader("matrix", "scp:r.scp") as reader:
        values = {}
        for key, value in reader:
            values[key] = value.copy()
            value[:] = 0
    np.testing.assert_array_equal(values["a"], values["d"][:4])
    np.testing.assert_array_equal(values["b"], values["d"][:4])
    np.testing.assert_array_equal(values["c"], values["d"][2:4, 1:3])


def test_a_range_of_what_has_no_parts_is_an_error(folder: Path) -> None:
    Path("i.scp").write_text("a i.txt:2[0:1]\n")
    Path("i.txt").write_text("a 1 2 3\n")
    with pytest.raises(RangeError, match="of floats only"):
        list(io_ark.SequentialReader("int-vector", "scp:i.scp"))


def test_a_range_past_the_end_is_warned_of(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert io_ark.read_object("matrix", "feats.ark:11[30:39]").shape == (7, 13)
    assert "goes beyond the last of 37 rows" in caplog.text


RANDOM = ["ark:feats.ark", "scp:feats.scp", "ark,s:feats.ark", "ark,s,cs:feats.ark", "ark,o:feats.ark",
          "scp,p:feats.scp", "scp,s:feats.scp", "ark,s,o:feats.ark",
          "ark,p:feats.ark", "ark:cat feats.ark |"]  # fmt: skip


@pytest.mark.parametrize("rspecifier", RANDOM)
def test_keys_are_looked_up(rspecifier: str, folder: Path) -> None:
    with io_ark.RandomAccessReader("matrix", rspecifier) as reader:
        assert "a" not in reader
        assert "u01_normal" in reader
        assert reader["u01_normal"].shape == (37, 13)
        assert "u01_normalx" not in reader
        assert reader.get("u02_feat").shape == (64, 40)  # type: ignore[union-attr]
        assert reader["u18_long"].shape == (300, 23)
        assert reader.get("v") is None
        with pytest.raises(MissingKeyError, match="v: the table has no such key"):
            reader["v"]
        with pytest.raises(KeyFormatError):
            assert "a b" in reader
    with pytest.raises(ClosedError):
        assert "u01_normal" in reader


@pytest.mark.parametrize("rspecifier", ["ark:feats.ark", "scp:feats.scp", "ark,s:feats.ark"])
def test_keys_are_looked_up_in_any_order_and_again(rspecifier: str, folder: Path) -> None:
    with io_ark.RandomAccessReader("matrix", rspecifier) as reader:
        for key in ["u18_long", "u01_normal", "u02_feat", "u01_normal"]:
            assert (key, reader[key].shape) in WHOLE


def test_broken_promises_about_order_are_errors(folder: Path) -> None:
    shutil.copy("feats.ark", "twice.ark")
    with open("twice.ark", "ab") as twice:
        twice.write(Path("feats.ark").read_bytes())
    for rspecifier, keys, complaint in (
        ("scp,s:unsorted.scp", [], "not sorted"),
        ("scp:dup.scp", [], "twice"),
        ("scp,s:dup.scp", [], "not sorted"),
        ("ark:twice.ark", ["zzz"], "u01_normal: is twice"),
        ("ark,o:twice.ark", ["u02_feat", "zzz"], "u01_normal: is twice"),
        ("ark,s:twice.ark", ["zzz"], "u01_normal: comes after 'u18_long'"),
        ("ark,s,cs:twice.ark", ["zzz"], "u01_normal: comes after 'u18_long'"),
        ("ark,s,cs:feats.ark", ["u18_long", "u01_normal"], "asked for after 'u18_long'"),
        ("ark,o:feats.ark", ["u01_normal", "u01_normal"], "asked for twice"),
        ("ark,s,o:feats.ark", ["u01_normal", "u01_normal"], "asked for twice"),
    ):
        with pytest.raises(OrderError, match=complaint), io_ark.RandomAccessReader("matrix", rspecifier) as reader:
            for key in keys:
                assert reader.get(key) is not None


def answers(reader: Any, calls: str) -> Iterator[object]:
    """What a reader says up to its first refusal: ``?key`` asks whether the key is there, ``key`` for its value."""
    try:
        for call in calls.split():
            yield call[1:] in reader if call[0] == "?" else reader[call]
    except (RuntimeError, ArkError):
        yield "refused"


@pytest.mark.parametrize("options", ["ark", "ark,o", "ark,s", "ark,s,o"])
@pytest.mark.parametrize("table", ["a 1\nb 2\nc 3\n", "a 1\nb 2\na 3\nc 4\n"])
@pytest.mark.parametrize(
    "calls", ["a ?a", "a a", "a b ?b b", "a b ?b ?a", "a c", "a c a ?a", "b c a ?a", "?a a b c ?b", "?d ?b", "c b ?c"]
)
def test_calls_are_answered_as_by_kaldi(options: str, table: str, calls: str, tmp_path: Path) -> None:
    (tmp_path / "t").write_text(table)
    specifier = f"{options}:{tmp_path}/t"
    kaldi, ours = kaldi_native_io.RandomAccessInt32Reader(specifier), io_ark.RandomAccessReader("int", specifier)
    assert list(answers(ours, calls)) == list(answers(kaldi, calls))


def test_an_archive_that_ends_in_an_error_is_one_when_a_key_needs_it(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with io_ark.RandomAccessReader("matrix", "ark:truncated.ark") as reader:
        assert reader["u02_feat"].shape == (64, 40)
        with pytest.raises(TruncatedError, match="u18_long"):
            assert "u18_long" in reader
    with io_ark.RandomAccessReader("matrix", "ark,p:truncated.ark") as permissive:
        assert "u18_long" not in permissive
        assert permissive["u02_feat"].shape == (64, 40)
    assert len(caplog.records) == 1


def test_permissive_lookup_checks_that_the_object_is_there(folder: Path) -> None:
    with io_ark.RandomAccessReader("matrix", "scp,p:badoffset.scp") as reader:
        assert "u01_normal" not in reader
    with io_ark.RandomAccessReader("matrix", "scp:badoffset.scp") as reader:
        assert "u01_normal" in reader
        with pytest.raises(OpenError, match="u01_normal"):
            reader["u01_normal"]


def test_values_of_speakers_are_looked_up_by_utterance(folder: Path) -> None:
    Path("utt2spk").write_text("utt1 u01_normal\nutt2 u02_feat\nutt3 nobody\n")
    with io_ark.RandomAccessReader("matrix", "scp:feats.scp", utt2spk="ark:utt2spk") as reader:
        assert reader["utt2"].shape == (64, 40)
        assert "utt3" not in reader
        with pytest.raises(MissingKeyError, match="utt4: is not in the utt2spk map"):
            assert "utt4" in reader


def test_memory_is_let_go_of_as_promised(folder: Path) -> None:
    for rspecifier, held in ("ark:feats.ark", 3), ("ark,o:feats.ark", 0):
        with io_ark.RandomAccessReader("matrix", rspecifier) as reader:
            for key in KEYS:
                reader[key]
            assert len(reader._lookup._values) == held  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("wspecifier", "back"),
    [("ark:o", "ark:o"), ("ark,t:o", "ark:o"), ("ark,scp:o,s", "scp:s"), ("ark,scp,t:o,s", "scp:s"),
     ("ark,f:o", "ark:o"), ("ark:| cat > o", "ark:o")],
)  # fmt: skip
def test_what_is_written_is_read(wspecifier: str, back: str, folder: Path) -> None:
    rng = np.random.default_rng(0)
    table = {f"utt{i}é": rng.standard_normal((i, 5 if i else 0)).astype(np.float32) for i in range(10)}
    with io_ark.Writer("matrix", wspecifier) as writer:
        for key, value in table.items():
            writer[key] = value
    with io_ark.SequentialReader("matrix", back) as reader:
        again = dict(reader)
    assert list(again) == list(table)
    for key, value in table.items():
        np.testing.assert_allclose(again[key], value, rtol=0 if "t" not in wspecifier.split(":")[0] else 1e-4)


def test_a_script_says_where_each_object_goes(folder: Path) -> None:
    Path("w.scp").write_text("b b.mat\na | cat > a.mat\n")
    one = np.ones((2, 2), np.float32)
    with io_ark.Writer("matrix", "scp:w.scp") as writer:
        writer["a"] = one
        writer["b"] = 2 * one
        with pytest.raises(WriteError, match="no entry for this key"):
            writer["c"] = one
    with io_ark.Writer("matrix", "scp,p,t:w.scp") as writer:
        writer["c"] = one
    np.testing.assert_array_equal(io_ark.read_object("matrix", "a.mat"), one)
    np.testing.assert_array_equal(io_ark.read_object("matrix", "b.mat"), 2 * one)
    with pytest.raises(OrderError, match="twice"):
        io_ark.Writer("matrix", "scp:dup.scp")


def test_a_refused_value_leaves_no_half_entry(folder: Path) -> None:
    with io_ark.Writer("matrix", "ark,scp:o,s") as writer:
        writer["a"] = np.ones((2, 2), np.float32)
        for key, value, error in ("b", "no matrix", FormatError), ("c d", np.ones((2, 2)), KeyFormatError):
            with pytest.raises(error):
                writer[key] = value
        writer["e"] = np.ones((2, 2), np.float32)
    assert [key for key, _ in shapes("ark:o")] == [key for key, _ in shapes("scp:s")] == ["a", "e"]
    with pytest.raises(ClosedError):
        writer["f"] = np.ones((2, 2), np.float32)
    writer.close()


def test_output_that_does_not_get_there_is_an_error(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(WriteError, match="No space left"), io_ark.Writer("matrix", "ark:/dev/full") as writer:
        writer["a"] = np.ones((2, 2), np.float32)
    with pytest.raises(PipeError, match="exit status 3"), io_ark.Writer("matrix", "ark:| cat > o; exit 3") as writer:
        writer["a"] = np.ones((2, 2), np.float32)
    with pytest.raises(OpenError, match="nosuch/s"):
        io_ark.Writer("matrix", "ark,scp:o,nosuch/s")
    with pytest.raises(ZeroDivisionError), io_ark.Writer("matrix", "ark:/dev/full") as writer:
        writer["a"] = np.ones((2, 2), np.float32)
        raise ZeroDivisionError
    assert "No space left" in caplog.text


def test_a_script_into_what_is_no_file_is_warned_of(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    io_ark.Writer("matrix", "ark,scp:| cat > o,s").close()
    assert "cannot point into what is not a file" in caplog.text


def test_single_objects_are_written_and_read(folder: Path) -> None:
    vector = np.arange(5, dtype=np.float32)
    for binary in True, False:
        io_ark.write_object("vector", "v", vector, binary)
        np.testing.assert_array_equal(io_ark.read_object("vector", "v"), vector)
        np.testing.assert_array_equal(io_ark.read_object("vector", "v[1:3]"), vector[1:4])
        np.testing.assert_array_equal(io_ark.read_object("vector", "cat v |"), vector)


MATRICES = st.dictionaries(
    st.text("abcdefghij_-0123456789", min_size=1, max_size=12),
    st.tuples(st.integers(1, 300), st.integers(1, 30), st.integers(0, 2**32 - 1)),
    min_size=1,
    max_size=8,
)


def made(table: dict[str, tuple[int, int, int]]) -> dict[str, np.ndarray]:  # type: ignore[type-arg]
    return {
        key: np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float32)
        for key, (rows, columns, seed) in sorted(table.items())
    }


@settings(max_examples=30, deadline=None)
@given(table=MATRICES)
def test_kaldi_native_io_writes_what_we_write_and_reads_it(
    table: dict[str, tuple[int, int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp()
    matrices = made(table)
    with io_ark.Writer("matrix", f"ark,scp:{folder}/o.ark,{folder}/o.scp") as ours:
        for key, value in matrices.items():
            ours[key] = value
    ark, scp = (folder / "o.ark").read_bytes(), (folder / "o.scp").read_bytes()
    with kaldi_native_io.FloatMatrixWriter(f"ark,scp:{folder}/o.ark,{folder}/o.scp") as theirs:
        for key, value in matrices.items():
            theirs[key] = value
    assert ark == (folder / "o.ark").read_bytes()
    assert scp == (folder / "o.scp").read_bytes()
    for rspecifier in (f"ark:{folder}/o.ark", f"scp:{folder}/o.scp"):
        with kaldi_native_io.SequentialFloatMatrixReader(rspecifier) as reader:
            for key, value in reader:
                np.testing.assert_array_equal(value, matrices[key])
        with io_ark.SequentialReader("matrix", rspecifier) as reader:
            assert [key for key, _ in reader] == list(matrices)
    with io_ark.RandomAccessReader("matrix", f"ark,s,cs:{folder}/o.ark") as lookup:
        for key, value in matrices.items():
            np.testing.assert_array_equal(lookup[key], value)


@settings(max_examples=60, deadline=None)
@given(damage=st.lists(st.tuples(st.integers(0, 39837), st.integers(0, 255)), max_size=4), cut=st.integers(0, 39838))
def test_a_damaged_archive_raises_our_errors_only(
    damage: list[tuple[int, int]], cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = bytearray((INPUTS / "feats.ark").read_bytes())
    for at, byte in damage:
        data[at] = byte
    path = tmp_path_factory.getbasetemp() / "damaged.ark"
    path.write_bytes(data[:cut])
    for rspecifier in f"ark:{path}", f"ark,p:{path}":
        try:
            for _ in io_ark.read(rspecifier):
                pass
        except ArkError as error:
            assert "\n" not in str(error)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 12), columns=st.integers(1, 5), double=st.booleans(), text=st.sampled_from(["", ",t"]),
    first=st.integers(0, 13), length=st.integers(0, 14), left=st.integers(0, 5), width=st.integers(0, 5),
)  # fmt: skip
def test_a_range_is_a_slice(
    rows: int, columns: int, double: bool, text: str, first: int, length: int, left: int, width: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    folder = tmp_path_factory.getbasetemp()
    matrix = np.arange(rows * columns, dtype=np.float64).reshape(rows, columns)
    with io_ark.Writer(
        "double-matrix" if double else "matrix", f"ark{text},scp:{folder}/r.ark,{folder}/r.scp"
    ) as writer:
        writer["before"] = matrix
        writer["a"] = matrix
    place = (folder / "r.scp").read_text().split()[-1]
    last, right = first + length, left + width
    for part, wanted in (f"[{first}:{last}]", matrix[first : last + 1]), (
        f"[{first}:{last},{left}:{right}]", matrix[first : last + 1, left : right + 1]
    ):  # fmt: skip
        fits = first < rows and last < rows + 3 and ("," not in part or right < columns)
        for load in io_ark.load, lambda name: io_ark.read_object("matrix", name):
            if fits:
                value = load(place + part)
                np.testing.assert_array_equal(value, wanted)
                assert value.flags.writeable and value.flags.c_contiguous
            else:
                with pytest.raises(RangeError, match="does not lie within"):
                    load(place + part)


def test_a_range_of_a_cut_matrix_is_an_error(folder: Path) -> None:
    with pytest.raises(TruncatedError):
        io_ark.read_object("matrix", "truncated.ark:12223[0:1]")


@pytest.mark.parametrize("mmap", [False, True])
def test_a_range_of_an_archive_that_has_grown_is_of_its_matrix(folder: Path, mmap: bool) -> None:
    first, second = (np.arange(i, i + 20000, dtype=np.float32).reshape(2000, 10) for i in (0, 7))
    with io_ark.Writer("matrix", "ark:g.ark") as writer:
        writer["k"] = first
        writer["k3"] = second
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


@pytest.mark.parametrize("rspecifier", ["ark,bg:feats.ark", "scp,bg:feats.scp", "ark,bg:yes 'a 1' |"])
def test_a_dropped_reader_lets_go_of_its_thread_and_files(folder: Path, rspecifier: str) -> None:
    threads, descriptors = threading.active_count(), len(os.listdir("/proc/self/fd"))
    kind = "token" if "yes" in rspecifier else "matrix"
    for _ in range(5):
        reader = io_ark.SequentialReader[object](kind, rspecifier)
        next(iter(reader))
    del reader
    for _ in range(100):
        if (threading.active_count(), len(os.listdir("/proc/self/fd"))) == (threads, descriptors):
            return
        time.sleep(0.05)
    pytest.fail("a thread or a file is left")


@pytest.mark.parametrize("key", ["a\ud800", "\udc41", "", "a b", 5, None])
def test_a_key_that_cannot_be_written_is_refused(folder: Path, key: Any) -> None:
    with io_ark.Writer("int", "ark:k") as writer, pytest.raises(KeyFormatError, match="cannot be a key"):
        writer[key] = 1
    with io_ark.RandomAccessReader("matrix", "scp:feats.scp") as reader, pytest.raises(KeyFormatError):
        reader[key]


def test_a_key_that_is_not_utf8_is_written_as_it_was(folder: Path) -> None:
    key = b"\xe9t\xe9".decode("utf-8", "surrogateescape")
    with io_ark.Writer("int", "ark,t:k") as writer:
        writer[key] = 1
    assert Path("k").read_bytes() == b"\xe9t\xe9 1 \n"
    assert [found for found, _ in io_ark.SequentialReader("int", "ark:k")] == [key]
