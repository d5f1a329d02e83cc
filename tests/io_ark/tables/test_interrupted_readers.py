"""Readers that ^C interrupts: whoever reads on gets every entry, or an error; never an early end or a missing key."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Set
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import io_ark
from io_ark.codecs.matrix import MatrixCodec
from io_ark.errors import ArkError, FormatError, MissingKeyError, OpenError
from io_ark.streams.source import Source
from io_ark.tables import blocks, random_access, readers, repeat_errors
from tests.support.tables import write_table

KEYS = [f"utt{i:02}" for i in range(12)]
OWN = {each.__file__ for each in (io_ark.api, blocks, random_access, readers)}
Step = Callable[[], "str | None"]
"""Takes one entry and returns its key; None at the end."""


@pytest.fixture(autouse=True)
def table(folder: Path) -> None:
    write_entries()


def write_entries() -> None:
    # Objects that are read alone, together, and alone again.
    values = {key: np.full((1 if 3 < i < 9 else 90, 60), i, np.float32) for i, key in enumerate(KEYS)}
    write_table("matrix", "ark,scp:t.ark,t.scp", values)


def same_iterator(entries: Iterable[Any]) -> Step:
    iterator = iter(entries)

    def step() -> str | None:
        item = next(iterator, None)
        return None if item is None else str(item[0])

    return step


def new_iterators(entries: Iterable[Any]) -> Step:
    def step() -> str | None:
        for item in entries:
            return str(item[0])
        return None

    return step


def looked_up(reader: Any, contains: bool) -> Step:
    left = list(KEYS)

    def step() -> str | None:
        if not left:
            return None
        if contains:
            assert left[0] in reader
        try:
            assert reader[left[0]].max() == int(left[0][3:])
        except MissingKeyError as error:
            raise AssertionError from error
        return left.pop(0)

    return step


def looked_up_together(reader: io_ark.RandomAccessReader[Any]) -> Step:
    left = [KEYS[:3], KEYS[3:7], KEYS[7:]]

    def step() -> str | None:
        if not left:
            return None
        assert reader.get_many(left[0]) is not None
        return " ".join(left.pop(0))

    return step


def sequential(rspecifier: str, **options: Any) -> io_ark.SequentialReader[Any]:
    return io_ark.SequentialReader(rspecifier, kind="matrix", **options)


def in_blocks(rspecifier: str) -> Step:
    found = sequential(rspecifier).blocks()

    def step() -> str | None:
        block = next(found, None)
        return None if block is None else " ".join(block.decode_keys())

    return step


WAYS: dict[str, Callable[[], Step]] = {
    "archive": lambda: same_iterator(sequential("ark:t.ark")),
    "archive, iterated anew": lambda: new_iterators(sequential("ark:t.ark")),
    "archive in blocks": lambda: in_blocks("ark:t.ark"),
    "archive, values later": lambda: same_iterator(sequential("ark:t.ark").entries()),
    "archive, read ahead": lambda: new_iterators(sequential("ark:t.ark", background=True)),
    "pipe": lambda: new_iterators(sequential("ark:cat t.ark |")),
    "permissive": lambda: new_iterators(sequential("ark,p:t.ark")),
    "script": lambda: new_iterators(sequential("scp:t.scp")),
    "script in blocks": lambda: in_blocks("scp:t.scp"),
    "script, permissive": lambda: same_iterator(sequential("scp,p:t.scp").entries()),
    "io_ark.read": lambda: same_iterator(io_ark.read("ark:t.ark")),
    "look-up": lambda: looked_up(io_ark.RandomAccessReader("ark:t.ark", kind="matrix"), False),
    "look-up and question": lambda: looked_up(io_ark.RandomAccessReader("ark,p:t.ark", kind="matrix"), True),
    "look-up, sorted": lambda: looked_up(io_ark.RandomAccessReader("ark,s:t.ark", kind="matrix"), False),
    "look-up, sorted calls": lambda: looked_up(io_ark.RandomAccessReader("ark,s,cs:t.ark", kind="matrix"), False),
    "look-up by script": lambda: looked_up(io_ark.RandomAccessReader("scp:t.scp", kind="matrix"), True),
    "look-up together": lambda: looked_up_together(io_ark.RandomAccessReader("ark:t.ark", kind="matrix")),
}


class Interrupt:
    """Raises KeyboardInterrupt before an instruction of these files."""

    def __init__(self, left: int, files: Set[str | None] = OWN) -> None:
        self.left, self.files = left, files

    def __call__(self, frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename not in self.files:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self

    def during(self, step: Step) -> str | None:
        before = sys.gettrace()
        sys.settrace(self)
        try:
            return step()
        finally:
            sys.settrace(before)


def read_on(step: Step, interrupt: Interrupt) -> str:
    """Read to the end, and on after the interrupt; return how that ended."""
    seen: list[str] = []
    while True:
        try:
            key = interrupt.during(step)
        except KeyboardInterrupt:
            continue
        except ArkError as error:
            assert interrupt.left <= 0
            assert "interrupted" in str(error)
            for _ in range(2):
                with pytest.raises(type(error)):
                    step()
            return "refused"
        if key is None:
            assert " ".join(seen).split() == KEYS
            return "whole"
        seen.append(key)


@pytest.mark.sweep
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_interrupted_reader_does_not_end_early(way: str) -> None:
    outcomes = outcomes_of(WAYS[way])
    assert outcomes <= {"whole", "refused"}
    assert outcomes == {"whole"} if way == "look-up by script" else "refused" in outcomes


def outcomes_of(way: Callable[[], Step], files: Set[str | None] = OWN) -> set[str]:
    whole = Interrupt(10**9, files)
    assert read_on(way(), whole) == "whole"
    count = 10**9 - whole.left
    return {read_on(way(), Interrupt(left, files)) for left in range(1, count, max(1, count // 80))}


@pytest.mark.parametrize("error", [MemoryError(), KeyboardInterrupt(), FormatError("is damaged", key="utt05")])
@pytest.mark.parametrize("way", ["archive", "archive, iterated anew", "look-up", "look-up, sorted calls"])
def test_error_of_one_entry_is_raised_again(way: str, error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(*_: object) -> Iterator[Any]:
        yield "utt00", np.zeros((1, 1), np.float32)
        raise error

    monkeypatch.setattr(readers, "read_archive", damaged)
    monkeypatch.setattr(random_access, "read_entries", damaged)
    step = WAYS[way]()
    assert step() == "utt00"
    with pytest.raises(type(error)):
        step()
    for _ in range(3):
        with pytest.raises(FormatError if isinstance(error, ArkError) else OpenError) as caught:
            step()
        assert str(caught.value) == (
            "utt05: is damaged"
            if isinstance(error, ArkError)
            else "t.ark: an earlier read failed or was interrupted: open the table again"
        )


def test_failed_command_is_an_error_for_every_missing_key() -> None:
    with io_ark.RandomAccessReader("ark:cat t.ark; false |", kind="matrix") as reader:
        for _ in range(2):
            with pytest.raises(ArkError, match="exit status 1"):
                assert "other" in reader
        assert reader["utt07"].max() == 7


def test_next_loop_after_an_interrupt_does_not_skip_the_entry() -> None:
    """The first object of a script file is read outside of the generator, which could go on with the second."""

    class Interrupted(MatrixCodec):
        def create_scan(self) -> None:
            return None

        def read(self, source: Source) -> Any:
            nonlocal reads
            reads += 1
            if reads == 1:
                raise KeyboardInterrupt
            return super().read(source)

    reads = 0
    with io_ark.SequentialReader[Any]("scp:t.scp", kind=Interrupted()) as reader:
        with pytest.raises(KeyboardInterrupt):
            next(iter(reader))
        with pytest.raises(OpenError, match="an earlier read failed or was interrupted"):
            next(iter(reader))


def test_iterator_that_the_user_leaves_does_not_fail_the_next() -> None:
    with sequential("ark:t.ark") as reader:
        for item in reader:
            if item[0] == "utt05":
                break
        entries = reader.entries()
        assert next(entries)[0] == "utt06"
        entries.close()  # type: ignore[attr-defined]
        assert next(entries, None) is None
        assert [key for key, _ in reader] == KEYS[7:]

    @repeat_errors
    def numbers() -> Iterator[int]:
        yield from range(3)

    assert list(numbers()) == [0, 1, 2]


@pytest.mark.parametrize("order", ["be", "bk", "bek", "bkbe", "ebke"])
def test_block_that_the_user_leaves_is_gone_on_with(order: str) -> None:
    keys = [f"u{i:05}" for i in range(30_000)]
    write_table("int", "ark:many.ark", {key: i for i, key in enumerate(keys)})
    with io_ark.SequentialReader("ark:many.ark", kind="int", background=True) as reader:
        each = {"b": reader.blocks, "k": reader.entries, "e": reader.__iter__}
        found: list[str] = []
        for way in order:
            for _, item in zip(range(5), each[way](), strict=False):
                found += item.decode_keys() if way == "b" else [item[0]]
        assert found == keys[: len(found)]
        assert found + [key for key, _ in reader] == keys
