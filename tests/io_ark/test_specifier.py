"""Specifiers, compared with the cases of Kaldi's own tests (kaldi-table-test, kaldi-io-test)."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import io_ark
from io_ark.errors import ArkError, KeyFormatError, SpecifierError
from io_ark.specifier import (
    Rspecifier,
    Wspecifier,
    classify_rspecifier,
    classify_wspecifier,
    is_table_rspecifier,
    is_table_wspecifier,
    parse_range,
    parse_rspecifier,
    parse_rxfilename,
    parse_wspecifier,
    parse_wxfilename,
    split_range,
)
from io_ark.tables.keys import check_key


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("ark:foo|", Rspecifier("ark", "foo|")),
        ("b,ark:foo|", Rspecifier("ark", "foo|")),
        ("ark,b:foo|", Rspecifier("ark", "foo|")),
        ("scp,b:foo|", Rspecifier("scp", "foo|")),
        ("t,scp:a", Rspecifier("scp", "a")),
        ("scp,scp,b:foo|", None),
        ("ark,scp,b:foo|", None),
        ("scp,o:foo|", Rspecifier("scp", "foo|", once=True)),
        ("scp,no:foo|", Rspecifier("scp", "foo|")),
        ("s,scp,no:foo|", Rspecifier("scp", "foo|", sorted=True)),
        ("scp,s,ns,cs,p,bg:x", Rspecifier("scp", "x", called_sorted=True, permissive=True, background=True)),
        ("scp,p,np,cs,ncs:x", Rspecifier("scp", "x")),
        ("scp t:x", Rspecifier("scp", "x")),
        ("scp:", Rspecifier("scp", "")),
        ("ark: x", Rspecifier("ark", " x")),
        ("ark:a:b", Rspecifier("ark", "a:b")),
        ("scp, t:x", None),
        ("", None),
        (":", None),
        (":x", None),
        ("t:x", None),
        ("scp", None),
        ("ark", None),
        ("ark:foo ", None),
        (" ark:foo", None),
        ("ark,f:foo", None),
        ("ark,:foo", None),
        ("ARK:foo", None),
        ("feats.ark:123", None),
    ],
)
def test_rspecifiers_are_classified_as_in_kaldi(text: str, meant: Rspecifier | None) -> None:
    assert classify_rspecifier(text) == meant


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("b,ark:|foo", Wspecifier("ark", "|foo")),
        ("t,ark:|foo", Wspecifier("ark", "|foo", binary=False)),
        ("t,scp:a b c d", Wspecifier("scp", "", "a b c d", binary=False)),
        ("t,ark,scp:a b,c,d", Wspecifier("both", "a b", "c,d", binary=False)),
        ("ark t:x", Wspecifier("ark", "x", binary=False)),
        ("ark,t,b:x", Wspecifier("ark", "x")),
        ("b,ark,scp:,", Wspecifier("both")),
        ("f,b,ark,scp:,", Wspecifier("both", flush=True)),
        ("f,nf,p,ark:x", Wspecifier("ark", "x", permissive=True)),
        ("ark:", Wspecifier("ark")),
        ("", None),
        (" t,ark:boo", None),
        ("t,ark:boo ", None),
        ("scp,ark:a,b", None),
        ("ark,scp:a", None),
        ("ark,ark:a", None),
        ("t:a", None),
        ("ark,s:a", None),
    ],
)
def test_wspecifiers_are_classified_as_in_kaldi(text: str, meant: Wspecifier | None) -> None:
    assert classify_wspecifier(text) == meant


@pytest.mark.parametrize(
    ("text", "kind", "detail"),
    [
        ("", "stdin", ""),
        ("-", "stdin", ""),
        ("a", "file", "a"),
        ("a b c:", "file", "a b c:"),
        ("a b c/3", "file", "a b c/3"),
        ("b|", "pipe", "b"),
        (" b c|", "pipe", " b c"),
        ("a b c:123", "file", "a b c"),
        ("a:b:3", "file", "a:b"),
        ("ark", "file", "ark"),
        ("apple,pear:x", "file", "apple,pear:x"),
    ],
)
def test_rxfilenames_are_classified_as_in_kaldi(text: str, kind: str, detail: str) -> None:
    target = parse_rxfilename(text)
    assert (target.kind, target.path or target.command) == (kind, detail)
    assert target.offset == (int(text.rpartition(":")[2]) if text[-1:].isdigit() and ":" in text else None)


@pytest.mark.parametrize(
    "text", [" ", " a ", "a ", "a\n", "|b", "a|b", "ark,s,cs:a b c", "scp:a b c", "ark,t:x", "a:99999999999999999999"]
)
def test_invalid_rxfilename_is_refused(text: str) -> None:
    with pytest.raises(SpecifierError, match=r"^[^\n]+$"):
        parse_rxfilename(text)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "stdout"),
        ("-", "stdout"),
        ("a", "file"),
        ("|b", "pipe"),
        ("| b ", "pipe"),
        ("a b c:", "file"),
        ("c/3", "file"),
    ],
)
def test_wxfilenames_are_classified_as_in_kaldi(text: str, kind: str) -> None:
    assert parse_wxfilename(text).kind == kind


@pytest.mark.parametrize("text", [" ", " a ", "a ", "b|", "b c|", "a b c:123", "a:3", "ark,s,cs:a b c", "scp:a", "a|b"])
def test_invalid_wxfilename_is_refused(text: str) -> None:
    with pytest.raises(SpecifierError):
        parse_wxfilename(text)


@pytest.mark.parametrize(
    "text", ["a.ark:123[]", "[0:1]", "a[0:1][2:3]", "a[0:1,2:3,4:5]", "a[x]", "a[1]", "a[-1:2]", "a[,]"]
)
def test_malformed_range_is_refused(text: str) -> None:
    with pytest.raises(SpecifierError, match=r"ends in '\]' but|is not a range"):
        split_range(text)


@pytest.mark.parametrize(
    ("text", "rows", "columns", "expected"),
    [
        ("0:9", 20, 4, (slice(0, 10), slice(0, 4))),
        ("0:9,1:2", 20, 4, (slice(0, 10), slice(1, 3))),
        (":,1:2", 20, 4, (slice(0, 20), slice(1, 3))),
        (":", 20, 4, (slice(0, 20), slice(0, 4))),
        ("5:22", 20, 4, (slice(5, 20), slice(0, 4))),
        ("5:23", 20, 4, None),
        ("20:21", 20, 4, None),
        ("9:8", 20, 4, None),
        ("0:9,0:4", 20, 4, None),
        ("0:9,3:2", 20, 4, None),
        (":", 0, 0, None),
    ],
)
def test_ranges_of_matrices_have_kaldis_tolerance(
    text: str, rows: int, columns: int, expected: tuple[slice, slice] | None
) -> None:
    if expected is None:
        with pytest.raises(ValueError, match="does not fit"):
            parse_range(text).to_slices(rows, columns)
    else:
        assert parse_range(text).to_slices(rows, columns) == expected


@pytest.mark.parametrize("written", ["2:4,0:1", "2:4,:", ":,:"])
def test_range_of_columns_of_a_vector_is_refused(written: str) -> None:
    assert parse_range("2:4").to_slices(9)[0] == slice(2, 5)
    with pytest.raises(ValueError, match=r"rows and columns, .* a vector of length 9"):
        parse_range(written).to_slices(9)


@pytest.mark.parametrize("key", ["", " ", "a b", "a\t", "\n", "a\0b", "\x7f", "a\x1fb"])
def test_empty_key_or_white_space_is_refused(key: str) -> None:
    with pytest.raises(KeyFormatError):
        check_key(key)


@pytest.mark.parametrize("key", ["a", "utt-1_2.3", "é", "話者1", "\udcff"])
def test_other_text_is_a_valid_key(key: str) -> None:
    check_key(key)


@given(st.text(max_size=30))
def test_arbitrary_text_raises_ark_errors_only(text: str) -> None:
    for parse in (parse_rspecifier, parse_wspecifier, parse_rxfilename, parse_wxfilename, split_range, parse_range):
        try:
            parse(text)
        except ArkError as error:
            assert "\n" not in str(error)


@given(st.lists(st.sampled_from(["b", "t", "o", "no", "s", "ns", "cs", "ncs", "p", "np", "bg"]), max_size=6), st.data())
def test_options_come_in_any_order_and_the_last_one_counts(options: list[str], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(options)))
    table = classify_rspecifier(",".join([*options[:at], "ark", *options[at:]]) + ":x")
    assert table is not None
    for name, flag in ("once", "o"), ("sorted", "s"), ("called_sorted", "cs"), ("permissive", "p"):
        said = [option for option in options if option in (flag, f"n{flag}")]
        assert getattr(table, name) == (bool(said) and said[-1] == flag)
    assert table.background == ("bg" in options)


MISTAKEN = [
    "scp,ark:o.scp,o.ark",
    "scp,ark,t:o.scp,o.ark",
    "ark,scp:o.ark",
    "ark,ark:o",
    "scp,scp:o",
    "ark,:o",
    "ark, t:o",
]
MISTAKEN += [
    "ark,text:o",
    "ark,T:o",
    "ark,gz:o",
    "t,scp,ark:o.scp,o.ark",
    "ark,b,x:o",
    "ark,1:o",
    "ark,scp,o:a,b",
    ",ark:o",
]
# Names of files that only resemble a specifier.
REAL_FILES = ["archive", "archive:5", "scpfile.ark:12", "ark_dir/x.ark:15", "ark dir/x.ark:15", "ark,dir/x.ark:15"]
REAL_FILES += [
    "arks,t:x.ark",
    "a,ark_b:x.ark",
    "my,ark.1:x.ark",
    "ark.scp:x.ark",
    "./scp,ark:o",
    "time 12:30.ark",
    "ark,x",
]


@pytest.mark.parametrize("name", MISTAKEN)
def test_invalid_specifiers_are_not_taken_for_file_names(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for job in (io_ark.writer, io_ark.read, io_ark.load, io_ark.load_scp, partial(io_ark.save, value=[1])):
        with pytest.raises(
            SpecifierError, match=r"is neither a file name nor a valid .specifier: write 'ark:FILE'|is the"
        ):
            job(name)
        assert not list(tmp_path.iterdir())
    for job in (io_ark.SequentialReader, io_ark.RandomAccessReader, io_ark.Writer):
        with pytest.raises(SpecifierError):
            job(name, kind="token")
    assert not list(tmp_path.iterdir())
    io_ark.save(Path(name), "word")
    assert io_ark.load(Path(name)) == "word"


@pytest.mark.parametrize("name", REAL_FILES)
def test_names_of_files_that_resemble_a_specifier_are_read_and_written(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path, _, offset = name.rpartition(":")
    file = Path(path) if offset.isdigit() else Path(name)
    file.parent.mkdir(exist_ok=True)
    file.write_text(" " * int(offset) + "word\n" if offset.isdigit() else "word\n")
    assert io_ark.load(name) == "word"
    if not offset.isdigit():
        io_ark.save(name, "other")
        assert io_ark.load(name) == "other"


@given(
    st.lists(st.sampled_from(["ark", "scp", "b", "t", "o", "s", "cs", "p", "bg", "f", "nf", "x", "abc"]), min_size=1),
    st.sampled_from(["o", "o.ark,o.scp"]),
)
def test_names_with_ark_or_scp_before_the_colon_are_valid_specifiers_or_refused(words: list[str], rest: str) -> None:
    name = f"{','.join(words)}:{rest}"
    tables = [word for word in words if word in ("ark", "scp")]
    options = set(words) - {"ark", "scp"}
    readable = len(tables) == 1 and options <= {"b", "t", "o", "s", "cs", "p", "bg"}
    both = tables == ["ark", "scp"] and "," in rest
    writable = (len(tables) == 1 or both) and options <= {"b", "t", "f", "nf", "p"}
    assert is_table_rspecifier(name) == readable
    assert is_table_wspecifier(name) == writable
    for parse in (parse_rxfilename, parse_wxfilename):
        if tables:
            with pytest.raises(SpecifierError):
                parse(name)
        else:
            assert parse(name).path == name
