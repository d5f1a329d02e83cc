"""Sequential readers: Kaldi's rules of success and the option p."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

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
    OpenError,
    PipeError,
    RangeError,
    SpecifierError,
    TruncatedError,
)
from tests.support.tables import shapes

WHOLE = [("u01_normal", (37, 13)), ("u02_feat", (64, 40)), ("u18_long", (300, 23))]


@pytest.mark.parametrize(
    "rspecifier",
    ["ark:feats.ark", "scp:feats.scp", "ark,bg:feats.ark", "scp,bg:feats.scp", "ark,p:feats.ark", "scp,p:feats.scp",
     "ark,s,cs,o:feats.ark", "t,scp:feats.scp", "ark:cat feats.ark |", "scp:cat feats.scp|", "scp,bg,p:feats.scp"],
)  # fmt: skip
def test_all_rspecifiers_give_the_same_entries(rspecifier: str, folder: Path) -> None:
    assert shapes(rspecifier) == WHOLE


@pytest.mark.parametrize(
    ("rspecifier", "error", "complaint"),
    [
        ("ark:nosuch.ark", OpenError, "^nosuch.ark: cannot be opened: No such file"),
        ("scp:nosuch.scp", OpenError, "^nosuch.scp: cannot be opened"),
        ("ark:garbage.ark", FormatError, "^garbage.ark:[0-9]+: u1: "),
        ("ark,p:garbage.ark", FormatError, "^garbage.ark:[0-9]+: u1: "),
        ("ark:truncated.ark", TruncatedError, "^truncated.ark:[0-9]+: u18_long: .*expected [0-9]+ more bytes"),
        ("ark,bg:truncated.ark", TruncatedError, "u18_long"),
        ("scp:badoffset.scp", OpenError, "^feats.ark:99999999: u01_normal: "),
        ("scp:blankline.scp", FormatError, "^blankline.scp: line 2 is blank"),
        ("scp:keyonly.scp", FormatError, "^keyonly.scp: line 1 has a key"),
        ("scp:ranges_bad.scp", RangeError, "does not fit a matrix of 37 x 13"),
        ("scp,p:ranges_bad.scp", RangeError, "does not fit"),
        ("ark:cat feats.ark; exit 3 |", PipeError, "exit status 3"),
        ("ark:exit 3 |", PipeError, "exit status 3"),
        ("scp:cat feats.scp; exit 3 |", PipeError, "exit status 3"),
        ("ark:echo utt1 |", FormatError, "utt1"),
        ("ark:printf utt1 |", TruncatedError, "after the key 'utt1', before the object"),
        ("ark:printf 'utt1\\vx' |", FormatError, "expected a space after the key"),
        ("feats.ark", SpecifierError, "is not an rspecifier"),
        ("", SpecifierError, "is not an rspecifier"),
    ],
)
def test_damaged_table_is_an_error(rspecifier: str, error: type[ArkError], complaint: str, folder: Path) -> None:
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
def test_permissive_reader_skips_and_counts(
    rspecifier: str, left: object, skipped: int, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reader: io_ark.SequentialReader[np.ndarray] = io_ark.SequentialReader(rspecifier, kind="matrix")  # type: ignore[type-arg]
    assert [(key, value.shape) for key, value in reader] == left
    assert reader.skipped == skipped == len(caplog.records)


def test_constructor_reports_a_missing_file(folder: Path) -> None:
    for rspecifier in "ark:nosuch", "scp:nosuch", "ark:garbage.ark", "ark,bg:nosuch", "scp:keyonly.scp":
        with pytest.raises(ArkError):
            io_ark.SequentialReader(rspecifier, kind="matrix")


@pytest.mark.parametrize(("line", "complaint"), [(b"\0B a.ark\n", "is binary"), (b"a a.ark:2]\n", "a: .* ends in ']'")])
@pytest.mark.parametrize("options", ["", ",p"])
def test_constructor_reports_a_first_line_that_names_nothing(
    line: bytes, complaint: str, options: str, tmp_path: Path
) -> None:
    (tmp_path / "bad.scp").write_bytes(line)
    with pytest.raises((FormatError, RangeError), match=complaint):
        io_ark.SequentialReader(f"scp{options}:{tmp_path}/bad.scp", kind="matrix")


def test_entries_reads_values_on_demand(folder: Path) -> None:
    Path("some.scp").write_text(Path("feats.scp").read_text() + "u99 nosuch.ark:3\n")
    with io_ark.SequentialReader("scp:some.scp", kind="matrix") as reader:
        loads = dict(reader.entries())
    assert list(loads) == [*dict(WHOLE), "u99"]
    assert loads["u02_feat"]().shape == (64, 40)
    with pytest.raises(OpenError, match=r"^nosuch\.ark: u99: "):
        loads["u99"]()


@pytest.mark.parametrize("rspecifier", ["ark:yes 'utt [ 1 2 ]' |", "ark,bg:yes 'utt [ 1 2 ]' |"])
def test_reader_can_be_closed_in_the_middle(rspecifier: str, capfd: pytest.CaptureFixture[str]) -> None:
    threads = set(threading.enumerate())
    with io_ark.SequentialReader(rspecifier, kind="vector") as reader:
        assert next(iter(reader))[0] == "utt"
    assert threads.issuperset(threading.enumerate())
    assert capfd.readouterr().err == ""
    with pytest.raises(ClosedError):
        next(iter(reader))
    reader.close()


@settings(max_examples=60, deadline=None)
@given(damage=st.lists(st.tuples(st.integers(0, 39837), st.integers(0, 255)), max_size=4), cut=st.integers(0, 39838))
def test_damaged_archive_raises_ark_errors_only(
    damage: list[tuple[int, int]], cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = bytearray((Path(__file__).parents[3] / "reference_data" / "inputs" / "feats.ark").read_bytes())
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


@pytest.mark.parametrize("end", ["\n", "\n\n", "  \n\t", " "])
@pytest.mark.parametrize("rspecifier", ["scp:x.scp", "scp,p:x.scp", "scp:cat x.scp |", "scp,bg:x.scp"])
def test_trailing_blank_lines_are_skipped_with_a_warning(
    rspecifier: str, end: str, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Path("x.scp").write_text(Path("feats.scp").read_text() + end)
    assert shapes(rspecifier) == WHOLE
    assert [record.message for record in caplog.records if "blank line" in record.message] != []
    assert {key: value.shape for key, value in io_ark.load_scp("x.scp", kind="matrix").items()} == dict(WHOLE)


@pytest.mark.parametrize("kind", ["matrix", "general-matrix"])
@pytest.mark.parametrize("rspecifier", ["scp:x.scp", "scp,p:x.scp", "scp,p,bg:x.scp"])
@pytest.mark.parametrize("part", ["abc", "0:9:2", "1", "0:3,1:2,3:4", "-1:2", "]"])
def test_malformed_range_is_an_error_in_a_permissive_reader(
    rspecifier: str, kind: str, part: str, folder: Path
) -> None:
    first = Path("feats.scp").read_text().split("\n", 1)[0]
    Path("x.scp").write_text(f"{first}\n{first}[{part}]\n")
    with pytest.raises(SpecifierError, match=r"is not a range|not in a range"):
        list(io_ark.SequentialReader(rspecifier, kind=kind))


@pytest.mark.parametrize("rspecifier", ["scp:x.scp", "scp,p:x.scp"])
def test_malformed_range_is_an_error_in_a_permissive_lookup(rspecifier: str, folder: Path) -> None:
    first = Path("feats.scp").read_text().split("\n", 1)[0]
    Path("x.scp").write_text(f"{first}[abc]\n")
    with (
        io_ark.RandomAccessReader(rspecifier, kind="matrix") as reader,
        pytest.raises(SpecifierError, match="not a range"),
    ):
        reader.get(first.split()[0])


@pytest.mark.parametrize("form", ["ark:cut.ark", "ark:cat cut.ark |"])
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("matrix", np.ones((2, 3), np.float32)),
        ("compressed-matrix", np.ones((2, 3), np.float32)),
        ("vector", [1.0, 2.0]),
        ("int-vector", [1, 2]),
        ("posterior", [[(1, 0.5)]]),
        ("float", 0.5),
    ],
)
def test_archive_that_is_cut_anywhere_in_an_object_is_truncated(
    kind: str, value: object, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with io_ark.Writer("ark:whole.ark", kind=kind) as writer:
        writer["u1"] = writer["u2"] = value
    whole = Path("whole.ark").read_bytes()
    first = whole.index(b"u2 ") + 3
    read_as = "matrix" if kind == "compressed-matrix" else kind
    for end in range(first + 1, len(whole)):
        Path("cut.ark").write_bytes(whole[:end])
        with pytest.raises(TruncatedError, match="u2"):
            list(io_ark.SequentialReader(form, kind=read_as))


def test_tab_or_newline_may_follow_a_key(folder: Path) -> None:
    Path("a.txt").write_text("a\t1 2\nb\n\n  c 3\n")
    with io_ark.SequentialReader("ark:a.txt", kind="int-vector") as reader:
        assert [(key, value.tolist()) for key, value in reader] == [("a", [1, 2]), ("b", []), ("c", [3])]


def test_tab_may_follow_a_key_that_is_longer_than_the_buffer(folder: Path) -> None:
    key = "k" * 300_000
    (folder / "long.txt").write_text(f"{key}\t1 2\n")
    for rspecifier in (f"ark:{folder}/long.txt", f"ark:cat {folder}/long.txt |"):
        with io_ark.SequentialReader[Any](rspecifier, kind="int-vector") as reader:
            assert [(name, list(value)) for name, value in reader] == [(key, [1, 2])]


@pytest.mark.parametrize("key", ["a\ud800", "\udc41", "", "a b", 5, None])
def test_invalid_key_is_refused(folder: Path, key: Any) -> None:
    with io_ark.Writer("ark:k", kind="int") as writer, pytest.raises(KeyFormatError, match="invalid key"):
        writer[key] = 1
    with io_ark.RandomAccessReader("scp:feats.scp", kind="matrix") as reader, pytest.raises(KeyFormatError):
        reader[key]


def test_key_that_is_not_utf8_is_written_unchanged(folder: Path) -> None:
    key = b"\xe9t\xe9".decode("utf-8", "surrogateescape")
    with io_ark.Writer("ark,t:k", kind="int") as writer:
        writer[key] = 1
    assert Path("k").read_bytes() == b"\xe9t\xe9 1 \n"
    assert [found for found, _ in io_ark.SequentialReader("ark:k", kind="int")] == [key]
