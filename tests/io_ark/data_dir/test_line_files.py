"""Lines, fields, order and selection agree with their definitions, whatever the size of chunks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from io_ark.data_dir import line_chunks, lists
from io_ark.data_dir.awk_numbers import replace_values
from io_ark.data_dir.line_chunks import read_chunks
from io_ark.data_dir.line_fields import get_column, get_field, require_two_fields, split_fields
from io_ark.data_dir.line_order import find_unsorted_key, get_sort_key, is_sorted, sort_lines
from io_ark.data_dir.line_selection import select_lines
from io_ark.data_dir.lists import shuffle_lines
from io_ark.data_dir.speaker_lists import convert_to_spk2utt, convert_to_utt2spk

WORDS = st.sampled_from([b"a", b"b", b"a-1", b"a-2", b"bb", b"\xff", b"a\0b", b"long-key-of-an-utterance"])
GAPS = st.sampled_from([b" ", b"  ", b"\t", b" \t", b"\r", b"\v", b"\f"])


@st.composite
def chunks(draw: st.DrawFn) -> bytes:
    """Draw lines, of which some are empty or indented, and the last may lack its newline."""
    lines = draw(st.lists(st.lists(WORDS, max_size=4), max_size=12))
    texts = [draw(st.sampled_from([b"", b"", b" ", b"\t"])) + draw(GAPS).join(words) for words in lines]
    return b"\n".join(texts) + draw(st.sampled_from([b"\n", b""]))


@given(chunk=chunks(), number=st.integers(1, 3), awk=st.booleans())
def test_column_is_not_the_field_of_each_line(chunk: bytes, number: int, awk: bool) -> None:
    lines = chunk.split(b"\n")
    lines = lines if lines[-1] else lines[:-1]
    assert get_column(chunk, number, awk=awk) == [get_field(line, number, awk=awk) for line in lines]


@given(keys=st.lists(WORDS), previous=WORDS | st.none())
def test_unsorted_key_is_another(keys: list[bytes], previous: bytes | None) -> None:
    before = [previous, *keys] if previous is not None else [b"", *keys]
    expected = [at for at, (a, b) in enumerate(zip(before, keys, strict=False), 1) if b <= a]
    assert find_unsorted_key(keys, previous) == (expected or [0])[0]


@pytest.fixture
def two_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read two lines such as "a1 s" at a time."""
    monkeypatch.setattr(line_chunks, "CHUNK_BYTES", 6)


@pytest.mark.usefixtures("two_lines")
def test_bad_line_of_a_later_chunk_has_its_number_in_the_file(tmp_path: Path) -> None:
    path = str(tmp_path / "a")
    calls: list[Any] = []

    def refuse(number: int, line: bytes = b"") -> None:
        calls.append((number, line))
        raise ValueError

    Path(path).write_bytes(b"a1 s\na2 s\na3 s\n    \na5 s\n")
    with pytest.raises(ValueError):
        select_lines({b"a1", b"a2", b"a3", b"a5"}, path, calls.append, refuse=refuse)
    assert calls == [b"a1 s\na2 s\n", b"a3 s\n", (4, b"")]
    for function in (require_two_fields, convert_to_spk2utt):
        with pytest.raises(ValueError):
            list(function(read_chunks(path), refuse))
        assert calls.pop() == (4, b"    \n")
    with pytest.raises(ValueError):
        list(convert_to_utt2spk(read_chunks(path), refuse))
    assert calls.pop() == (4, b"    ")


@pytest.mark.usefixtures("two_lines")
@pytest.mark.parametrize("text", [b"a1 s\na3 s\na2 s\na4 s\n", b"a1 s\na2 s\na2 s\na4 s\n", b"a1 s\na2 s\na3 s\na4 s"])
def test_lines_out_of_order_are_found_across_chunks(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "a").write_bytes(text)
    assert not is_sorted(str(tmp_path / "a"))
    (tmp_path / "a").write_bytes(b"".join(b"%b\n" % line for line in sorted({*text.split(b"\n")} - {b""})))
    assert is_sorted(str(tmp_path / "a"))


def test_lines_of_one_key_keep_their_order() -> None:
    files = [[b"b 1\na 2\n", b"a 1\n"], [b"b 2\na 0\n", b"a 3"]]
    assert b"".join(sort_lines(files, get_sort_key)) == b"a 2\na 1\na 0\na 3\nb 1\nb 2\n"
    assert b"".join(sort_lines(files)) == b"a 0\na 1\na 2\na 3\nb 1\nb 2\n"


def test_blanks_before_a_key_are_part_of_it_when_lines_are_sorted() -> None:
    assert sort_lines([[b"a 1\n b 1\n\tb 1\n a 2\n  c\n"]], get_sort_key) == [
        b"\tb 1\n",
        b"  c\n",
        b" a 2\n",
        b" b 1\n",
        b"a 1\n",
    ]


def test_shuffled_lines_lack_one_or_their_ends() -> None:
    lines = [b"a 1\n", b"b\n", b"\n", b"c\r\n", b"d"]
    assert sorted(shuffle_lines([b"a 1\nb\n", b"\n", b"c\r\nd"])) == sorted(lines)


@given(pairs=st.lists(st.tuples(WORDS, WORDS), min_size=1), step=st.integers(1, 20))
def test_speakers_are_grouped_in_the_order_in_which_they_appear(pairs: list[tuple[bytes, bytes]], step: int) -> None:
    lines = [b"%b %b\n" % pair for pair in pairs]
    utt2spk = [b"".join(lines[at : at + step]) for at in range(0, len(lines), step)]
    spk2utt = convert_to_spk2utt(utt2spk, lambda *_: None)
    speakers = list(dict.fromkeys(speaker for _, speaker in pairs))
    expected = [[speaker, *(name for name, other in pairs if other == speaker)] for speaker in speakers]
    assert [line.split() for line in spk2utt] == expected


def test_a_line_precedes_the_lines_that_continue_it() -> None:
    """LC_ALL=C sort does not compare newlines, which are larger than tabs."""
    assert sort_lines([[b"a\tb\na b\n"], [b"a\n", b"a\x01"]]) == [b"a\n", b"a\x01\n", b"a\tb\n", b"a b\n"]


def test_blanks_before_a_number_are_not_counted_as_digits() -> None:
    assert lists._parse_integer(20 * " " + "-12a") == -12


@pytest.mark.parametrize(("value", "text"), [(0.5, b"0.5"), (1e6, b"1000000"), (1e7 / 3, b"3.33333e+06")])
def test_value_is_replaced_after_a_key_with_a_carriage_return(value: float, text: bytes) -> None:
    assert replace_values(b"a\rb 1\n c\t2 x\n", [value, 2]) == b"a\rb %b\nc 2\n" % text


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        (b" a\r b \n", [b"a\r", b"b"]),
        (b"\ta\f\tb\n", [b"a\f", b"b"]),
        (b"\n", []),
        (b" \r\n", [b"\r"]),
        (b"a  b\v", [b"a", b"b\v"]),
    ],
)
def test_awk_splits_at_blanks_and_tabs(line: bytes, fields: list[bytes]) -> None:
    assert split_fields(line, awk=True) == fields
    assert [get_field(line, number, awk=True) for number in (1, 2)] == [*fields, b"", b""][:2]
    assert get_column(line, 2, awk=True) == [get_field(line, 2, awk=True)]
    assert split_fields(line) == line.split()
