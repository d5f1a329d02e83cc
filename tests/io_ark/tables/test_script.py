"""Script files: how lines are parsed, ten million lines in little memory, and look-ups as in a dictionary."""

from __future__ import annotations

import itertools
import pickle
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from io_ark.errors import FormatError, MissingKeyError, OpenError, OrderError, SpecifierError
from io_ark.tables import script
from io_ark.tables.script import LineSplitter, Script, ScriptTable, split_line


@pytest.fixture(scope="module", params=[0, script._MAX_DICTIONARY_LINES], ids=["index", "dictionary"], autouse=True)
def few_lines(request: pytest.FixtureRequest) -> Iterator[None]:
    """Both ways to find a key: the index of long scripts, and the dictionary of short ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(script, "_MAX_DICTIONARY_LINES", request.param)
        yield


KEYS = st.text(
    st.characters(min_codepoint=33, max_codepoint=0x2FF, exclude_categories=("C", "Z")), min_size=1, max_size=40
).filter(lambda key: not key.startswith(('{"', '["', "[{")))  # A file that starts so is refused as JSON.
BLANKS = st.text(" \t\r\v\f", min_size=1, max_size=3)
RESTS = st.text("abc/.:0123 []|é", min_size=1, max_size=20).map(str.strip).filter(bool)


@settings(max_examples=200, deadline=None)
@given(
    st.dictionaries(KEYS, RESTS, max_size=60),
    st.lists(BLANKS, min_size=1, max_size=5),
    st.sampled_from(["", " ", "\t"]),
    st.booleans(),
)
@example({"a": "b"}, [" "], "", False)
@example({"a": "x.ark:1", "é": "y.ark:2"}, [" "], "", True)
@example({"a": "x.ark:1", "b": "c d", "e": "f"}, [" "], "", True)
@example({"a": "b", "c": "d"}, [" "], " ", True)
@example({"a" * 8: "x", "a" * 16: "y", "a" * 7: "z", "a" * 9: "w"}, [" "], "", False)
def test_script_equals_a_dictionary_of_its_lines(
    table: dict[str, str], blanks: list[str], indent: str, ended: bool
) -> None:
    lines = [f"{indent}{key}{blanks[i % len(blanks)]}{rest}" for i, (key, rest) in enumerate(table.items())]
    data = "\n".join(lines).encode() + (b"\n" if ended and lines else b"")
    found = Script(data)
    assert list(found.items()) == list(table.items())
    assert list(found) == list(table)
    assert len(found) == len(table)
    found.check_unique()
    for key in table:
        assert found[key] == table[key]
        for other in (key + "x", key[:-1], "x" + key):
            assert (other in found) == (other in table)
            assert found.get(other) == table.get(other)


@settings(max_examples=100, deadline=None)
@given(st.lists(KEYS, min_size=1, max_size=30))
def test_duplicate_and_unsorted_keys_are_errors(keys: list[str]) -> None:
    found = Script("".join(f"{key} x\n" for key in keys).encode())
    if len(set(keys)) < len(keys):
        with pytest.raises(OrderError, match="duplicate key"):
            found.check_unique()
    else:
        found.check_unique()
    encoded = [key.encode() for key in keys]
    if all(first < second for first, second in itertools.pairwise(encoded)):
        found.check_sorted()
    else:
        wrong = next(i for i in range(1, len(keys)) if encoded[i - 1] >= encoded[i])
        with pytest.raises(OrderError, match=f"line {wrong + 1} comes after"):
            found.check_sorted()


def test_lines_are_found_across_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "_CHUNK_BYTES", 50)
    monkeypatch.setattr(script, "_LINES_PER_STEP", 7)
    lines = {f"key{i:04}" + "x" * (i % 90): f"{i}.ark:{i}" for i in range(300)}
    found = Script("".join(f"{key} {rest}\n" for key, rest in lines.items()).encode())
    assert dict(found.items()) == lines
    assert {key: found[key] for key in reversed(list(lines))} == lines
    found.check_unique()
    with pytest.raises(OrderError, match="line 4 comes after"):
        Script(b"a x\nb x\nc x\nb x\nd x\n").check_sorted()


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"a 1\n\nb 2\n", "line 2 is blank"),
        (b"a 1\n  \nb 2\n", "line 2 is blank"),
        (b"\n", "line 1 is blank"),
        (b"a\n", "line 1 has a key .'a'. without a value"),
        (b"a 1\nb \t \n", "line 2 has a key .'b'. without a value"),
        (b"a 1\nb", "line 2 has a key .'b'. without a value"),
        (b"\0B\x04", "is binary"),
        (b"utt1 \0BFM \4\1\0\0\0\4\1\0\0\0\0\0\0\n\0", "is binary"),  # An archive of a matrix.
        (b"utt1 \0B\4\5\0\0\0", "is binary"),  # An archive without a byte that ends a line.
        (b"x" * 70000 + b" 1\n", "line 1: the key has 70000 bytes: shorten it"),
        (b"a 1\n" + b"k" * 100_000 + b" 2\n", "line 2: the key has 100000 bytes: shorten it to at most 65535 bytes"),
        (b"a 1\nb\0c 2\n", "line 2: the key has a control character"),
        (b"a 1\nb 2\n\x1bk 3", "line 3: the key has a control character"),
    ],
)
def test_broken_lines_are_named(data: bytes, complaint: str) -> None:
    with pytest.raises(FormatError, match=complaint):
        Script(data, "x.scp")


def test_many_blanks_take_linear_time() -> None:
    blanks = b" \t" * 500_000
    begin = time.process_time()
    found = Script(blanks + b"a" + blanks + b"1\nb" + blanks + b"2" + blanks + b"\nc 3\n")
    assert time.process_time() - begin < 1.5  # 5 seconds where all lines are looked at again for each blank
    assert dict(found.items()) == {"a": "1", "b": "2", "c": "3"}
    with pytest.raises(FormatError, match=r"line 2 has a key .'b'. without a value"):
        Script(b"a 1\nb" + blanks + b"\n")


def test_split_line_complains_like_the_whole_file() -> None:
    assert split_line(b"  a \t b c  ", "x.scp", 1) == ("a", "b c")
    for line, complaint in (b"", "line 7 is blank"), (b"  ", "line 7 is blank"), (b" a ", "line 7 has a key"):
        with pytest.raises(FormatError, match=rf"^x\.scp: {complaint}"):
            split_line(line, "x.scp", 7)


def test_only_blank_lines_after_the_first_wait_for_others() -> None:
    splitter = LineSplitter("x.scp")
    found = [[str(each) for each in splitter.split(line)] for line in (b"", b"a", b"", b"c 3")]
    assert [len(each) for each in found] == [1, 1, 0, 2]
    for [complaint, *_], text in zip(
        [found[0], found[1], found[3]], ("1 is blank", "2 has a key", "3 is blank"), strict=True
    ):
        assert complaint.startswith(f"x.scp: line {text}")


def test_transcripts_may_be_empty() -> None:
    found = Script(b"a\nb some words\nc \n", empty=True)
    assert dict(found.items()) == {"a": "", "b": "some words", "c": ""}
    with pytest.raises(FormatError, match="line 2 is blank"):
        Script(b"a\n\nb\n", empty=True)


def test_bytes_that_are_not_utf8_survive() -> None:
    found = Script(b"\xff\xfe x\xe9.ark:1\n")
    assert [key.encode("utf-8", "surrogateescape") for key in found] == [b"\xff\xfe"]
    assert found["\udcff\udcfe"].encode("utf-8", "surrogateescape") == b"x\xe9.ark:1"


def test_missing_key_is_a_key_error() -> None:
    with pytest.raises(MissingKeyError, match=r"^x\.scp: b: "):
        Script(b"a 1\n", "x.scp")["b"]
    with pytest.raises(KeyError):
        ScriptTable(Script(b"a 1\n"), lambda key, rest: rest)["b"]


def test_duplicate_key_is_refused() -> None:
    with pytest.raises(OrderError, match=r"^x\.scp: a: is a duplicate key on line 3: remove"):
        ScriptTable(Script(b"a 1\nb 2\na 3\n", "x.scp"), lambda key, rest: rest)


def test_mapped_file_that_is_cut_off_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "MIN_MAPPED_BYTES", 10)
    path = tmp_path / "feats.scp"
    path.write_text("".join(f"utt{i:05} feats.ark:{i}\n" for i in range(5000)))
    mapped = Script.open(path)
    assert mapped["utt04999"] == "feats.ark:4999"
    path.write_text("utt0 feats.ark:1\n")  # as the next run of a recipe does
    for read in (
        lambda: mapped["utt04999"],
        lambda: mapped.get_line(4000),
        lambda: list(mapped),
        lambda: list(mapped.iterate_lines()),
    ):
        with pytest.raises(OpenError, match=r"feats\.scp: has changed since it was opened"):
            read()


def test_large_file_is_mapped_and_pickled_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "MIN_MAPPED_BYTES", 10)
    path = tmp_path / "big.scp"
    path.write_text("".join(f"key{i} {i}.ark:{i}\n" for i in range(1000)))
    opened = Script.open(str(path))
    pickled = pickle.dumps(opened)
    assert len(pickled) < 500
    again = pickle.loads(pickled)
    assert again["key7"] == opened["key7"] == "7.ark:7"
    path.write_text("other 1\n")
    with pytest.raises(SpecifierError, match="has changed"):
        pickle.loads(pickled)


def test_line_takes_tens_of_bytes() -> None:
    count = 70_000
    data = "".join(f"speaker{i % 999:03}-utterance{i:07} feats.ark:{i * 31}\n" for i in range(count)).encode()
    tracemalloc.start()
    found = Script(data)
    assert found["speaker007-utterance0000007"] == "feats.ark:217"
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held < 24 * count


def test_keys_of_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "hash", lambda key: 1 << 40, raising=False)
    found = Script(b"a 1\nb 2\nc 3\nb 4\n")
    assert [found[key] for key in "ca"] == ["3", "1"] and "d" not in found
    with pytest.raises(OrderError, match="b: is a duplicate key on line 4"):
        found.check_unique()


@pytest.mark.parametrize("lines", [3, 70_000])
def test_key_that_cannot_be_encoded_is_missing(lines: int) -> None:
    script = Script(b"".join([b"k%d x\n" % i for i in range(lines)]))
    assert "k1" in script and "k\ud800" not in script
    for key in "k\ud800", 5:
        with pytest.raises(MissingKeyError, match="the key is not in the script file"):
            script[key]  # type: ignore[index]


@pytest.mark.parametrize("blank", [1, 3, 70_000])
def test_trailing_blank_lines_of_a_script_are_skipped_with_a_warning(
    blank: int, caplog: pytest.LogCaptureFixture
) -> None:
    found = Script(b"a 1\nb 2\n" + b" \n" * blank, "x.scp")
    assert dict(found.items()) == {"a": "1", "b": "2"}
    assert [record.message for record in caplog.records] == [
        f"x.scp: skipped {blank} blank line{'s' if blank > 1 else ''} at the end"
    ]


def test_control_characters_after_the_key_are_kept() -> None:
    assert Script(b"a x\x01y\nb 2\x02\n", "x.scp")["a"] == "x\x01y"


@pytest.mark.parametrize("name", ["/dev/zero", "cat /dev/zero |"])
def test_endless_script_file_ends_with_an_error(name: str) -> None:
    with pytest.raises(FormatError, match="no line break in 64 MiB"):
        Script.open(name)
