"""The functions in C for lines of data directories give what those in Python give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from io_ark import native
from io_ark.data_dir import lines

pytestmark = pytest.mark.skipif(not native.library(), reason="the C library was not built")
WORDS = st.sampled_from([b"a", b"b", b"a-1", b"a-2", b"bb", b"\xff", b"a\0b", b"long-key-of-an-utterance"])
GAPS = st.sampled_from([b" ", b"  ", b"\t", b" \t", b"\r", b"\v", b"\f"])
KEYS = WORDS | st.just(b"")


@st.composite
def chunks(draw: st.DrawFn) -> bytes:
    """Draw lines, of which some are empty, indented or sorted, and the last may lack its newline."""
    found = draw(st.lists(st.lists(WORDS, max_size=4), max_size=12))
    texts = [draw(st.sampled_from([b"", b"", b"", b" ", b"\t"])) + draw(GAPS).join(each) for each in found]
    texts = sorted(texts) if draw(st.booleans()) else texts
    return b"\n".join(texts) + draw(st.sampled_from([b"\n", b"\n", b""]))


def by_both(monkeypatch: Any, function: Any) -> tuple[Any, Any]:
    found = []
    for least in (0, 1 << 60):
        monkeypatch.setattr(lines, "IN_C", least)
        monkeypatch.setattr(lines, "_loaded", [])
        monkeypatch.setattr(lines, "MOST_HELD", least)  # sorted keys are read along with the lines
        found.append(function())
    return found[0], found[1]


@given(chunk=chunks(), number=st.integers(1, 3), awk=st.booleans())
def test_fields_in_c_are_those_of_python(chunk: bytes, number: int, awk: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        ours, plain = by_both(patch, lambda: vars(lines.Fields(chunk, number, awk=awk)))
    assert ours == plain


@given(
    keys=st.lists(KEYS, max_size=9) | st.lists(KEYS, unique=True).map(sorted) | st.lists(KEYS, max_size=3).map(sorted),
    text=st.lists(chunks(), min_size=1, max_size=3),
    number=st.integers(1, 2),
    step=st.integers(1, 2),
)
def test_lines_are_parted_in_c_as_in_python(keys: list[bytes], text: list[bytes], number: int, step: int) -> None:
    whole = [each if each.endswith(b"\n") else each + b"\n" for each in text]

    def parted() -> Any:
        found = lines.Keys(
            lambda: [b"".join(key + b"\n" for key in keys[at : at + step]) for at in range(-step, len(keys), step)]
        )
        return found.count, found.has_repeated, [found.runs(chunk, number) for chunk in whole]

    with pytest.MonkeyPatch.context() as patch:
        ours, plain = by_both(patch, parted)
    assert ours == plain


@given(pairs=st.lists(st.tuples(WORDS, WORDS), min_size=1), is_sorted=st.booleans(), step=st.integers(1, 20))
def test_speakers_are_grouped_in_c_as_in_python(pairs: list[tuple[bytes, bytes]], is_sorted: bool, step: int) -> None:
    if is_sorted:
        pairs = sorted(pairs, key=lambda pair: pair[1])
    text = [b"%b %b\n" % pair for pair in pairs]
    source = [b"".join(text[at : at + step]) for at in range(0, len(text), step)]

    def grouped() -> bytes:
        return b"".join(lines.spk2utt(source, lambda *_: None))

    with pytest.MonkeyPatch.context() as patch:
        ours, plain = by_both(patch, grouped)
    assert ours == plain


def test_large_files_are_read_in_c(tmp_path: Path) -> None:
    text = b"".join(b"utt%07d spk%04d\n" % (i, i // 50) for i in range(40000))
    (tmp_path / "utt2spk").write_bytes(text)
    assert len(text) > lines.IN_C
    written: list[bytes] = []
    keys = lines.Keys(lambda: [b"utt0000003\n", b"utt0039999\n"])
    assert lines.select(keys, str(tmp_path / "utt2spk"), lambda part: written.append(bytes(part))) == (2, 40000)
    assert b"".join(written) == b"utt0000003 spk0000\nutt0039999 spk0799\n"


def test_short_last_chunk_is_grouped_in_python(monkeypatch: Any) -> None:
    source = [b"".join(b"u%06d s%04d\n" % (i, i // 50) for i in range(first, first + 20000)) for first in (0, 20000)]
    grouped = lines.spk2utt([*source, b"u040000 s0800\n"], lambda *_: None)
    monkeypatch.setattr(lines, "split_lines", lambda chunk: pytest.fail("read line by line"))
    assert b"".join(grouped).endswith(b"\ns0800 u040000\n")


def test_sorted_keys_behind_an_empty_chunk_are_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "IN_C", 0)
    monkeypatch.setattr(lines, "MOST_HELD", 0)
    (tmp_path / "text").write_bytes(b"a 1\nb 2\nc 3\n")
    known = lines.Keys(lambda: [b"b\n", b"c\n"])
    both = list(lines.Keys(lambda: [b"a\n", b"b\nc\n"]).also_in(known))
    written: list[bytes] = []
    assert both[0] == b"" and lines.select(lines.Keys(lambda: both), str(tmp_path / "text"), written.append) == (2, 3)
    assert b"".join(written) == b"b 2\nc 3\n"


def test_long_line_needs_memory_for_as_many_lines_as_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    room = lines._room
    monkeypatch.setattr(lines, "IN_C", 0)
    monkeypatch.setattr(lines, "_room", lambda kind, size: (sizes.append(size), room(kind, size))[1])
    keys = lines.Keys(lambda: [b"a\n"])
    chunk = b"a " + b"x" * 100_000 + b"\nb"
    assert keys.parts(chunk)[0] == [(0, chunk[:-1]), (-1, b"b")] and max(sizes) < 1000


def test_more_keys_than_the_index_holds_are_looked_up_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("IN_C", "MOST_HELD", "MOST_INDEXED"):
        monkeypatch.setattr(lines, name, 0)
    keys = lines.Keys(lambda: [b"a\n", b"b\n"])
    chunk = b"b\na\nb\nc\n"  # not in the order of the keys
    assert keys.parts(chunk)[0] == [(0, chunk[:6]), (-1, b"c\n")]


@given(
    keys=st.sets(st.integers(0, 120), min_size=1),
    wanted=st.sets(st.integers(0, 120)),
    of_keys=st.integers(1, 4),
    of_lines=st.integers(1, 4),
)
def test_sorted_lines_are_not_found_along_with_sorted_keys(
    keys: set[int], wanted: set[int], of_keys: int, of_lines: int
) -> None:
    named, asked = (sorted(b"%d\n" % number for number in each) for each in (keys, wanted))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "IN_C", 0)
        patch.setattr(lines, "MOST_HELD", 0)
        found = lines.Keys(lambda: (b"".join(named[at : at + of_keys]) for at in range(0, len(named), of_keys)))
        for _ in range(2):  # the second file starts again
            kept: list[bytes] = []
            for at in range(0, len(asked), of_lines):
                parts, _ = found.parts(b"".join(asked[at : at + of_lines]))
                kept += [some for part, some in parts if part == 0]
            assert b"".join(kept) == b"".join(sorted({*named} & {*asked}))
        assert found._slots is None  # no key was indexed


@pytest.fixture(params=[0, 1 << 60], ids=["in C", "in Python"])
def two_lines(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read two lines of "a1 s" at a time, in C or in Python."""
    for name, value in {"CHUNK": 6, "IN_C": request.param, "_loaded": [], "MOST_HELD": 0}.items():
        monkeypatch.setattr(lines, name, value)


@pytest.mark.usefixtures("two_lines")
def test_bad_line_of_a_later_chunk_has_its_number_in_the_file(tmp_path: Path) -> None:
    path = str(tmp_path / "a")
    found: list[Any] = []

    def bad(number: int, line: bytes = b"") -> None:
        found.append((number, line))
        raise ValueError

    Path(path).write_bytes(b"a1 s\na2 s\na3 s\n    \na5 s\n")
    with pytest.raises(ValueError):
        lines.select(lines.Keys(lambda: [b"a1\na2\n", b"a3\na5\n"]), path, found.append, bad=bad)
    assert found == [b"a1 s\na2 s\n", b"a3 s\n", (4, b"")]
    for function in (lines.of_two_words, lines.spk2utt):
        with pytest.raises(ValueError):
            list(function(lines.chunks(path), bad))
        assert found.pop() == (4, b"    \n")
    with pytest.raises(ValueError):
        list(lines.utt2spk(lines.chunks(path), bad))
    assert found.pop() == (4, b"    ")


@pytest.mark.usefixtures("two_lines")
@pytest.mark.parametrize("text", [b"a1 s\na3 s\na2 s\na4 s\n", b"a1 s\na2 s\na2 s\na4 s\n", b"a1 s\na2 s\na3 s\na4 s"])
def test_lines_out_of_order_are_found_across_chunks(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "a").write_bytes(text)
    assert not lines.is_sorted(str(tmp_path / "a"))
    (tmp_path / "a").write_bytes(b"".join(b"%b\n" % line for line in sorted({*text.split(b"\n")} - {b""})))
    assert lines.is_sorted(str(tmp_path / "a"))


def test_lines_of_one_key_keep_their_order_in_temporary_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MOST_TO_SORT", 0)
    chunks = [[b"b 1\na 2\n", b"a 1\n"], [b"b 2\na 0\n", b"a 3"]]
    assert b"".join(lines.sort_lines(chunks, lines.sort_key)) == b"a 2\na 1\na 0\na 3\nb 1\nb 2\n"
    assert b"".join(lines.sort_lines(chunks)) == b"a 0\na 1\na 2\na 3\nb 1\nb 2\n"


@pytest.mark.usefixtures("two_lines")
@pytest.mark.parametrize("most", [0, 1 << 60])
def test_marked_lines_are_not_in_order_or_end_otherwise(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(lines, "MOST_TO_SORT", most)
    made = lines.in_order([b"a 1\nb\n", b"\n", b"c\r\nd"], iter([b"3", b"10", b"2", b"0", b"12"]))
    assert list(made) == [b"c\r\n", b"b\n", b"d", b"\n", b"a 1\n"]


@pytest.mark.usefixtures("two_lines")
def test_key_that_is_there_twice_has_the_number_of_the_first() -> None:
    keys = lines.Keys(lambda: [b"b\na\n", b"b\nc\n"])
    found, count, _ = keys.runs(b"a\nb\nb\nx\nc\n", bounds=lines.EACH_KEY)
    assert (list(found[2::4]), list(found[3::4]), count) == ([1, 2, -1, 3], [1, 2, 1, 1], 5) and keys.has_repeated


@pytest.mark.usefixtures("two_lines")
def test_keys_with_carriage_returns_are_taken_for_sorted() -> None:
    keys = lines.Keys(lambda: [b"a\rz\na\x01q\n"])  # as awk parts them
    assert keys.parts(b"a\x01q 1\n")[0] == [(0, b"a\x01q 1\n")]
