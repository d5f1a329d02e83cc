"""Sources give the same bytes whatever they come from, and allocate no memory for bytes that are not there."""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from io_ark.errors import FormatError, OpenError, TruncatedError
from io_ark.streams.files import OpenFile
from io_ark.streams.source import BytesSource, FileSource, Source, StreamSource
from tests.support.processes import memory_below
from tests.support.reading_ways import Trickle


@contextmanager
def sources(data: bytes, folder: Path, step: int = 7) -> Iterator[list[Source]]:
    """The same bytes from memory, a stream, a slow stream and a file."""
    path = folder / "data"
    path.write_bytes(data)
    descriptor = os.open(path, os.O_RDONLY)
    yield [
        BytesSource(data),
        BytesSource(bytearray(b"xx" + data), 2),
        StreamSource(io.BytesIO(data)),
        StreamSource(Trickle(data, step)),
        FileSource(descriptor, 0, len(data), str(path)),
    ]
    os.close(descriptor)


Step = tuple[str, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["peek", "read", "take", "array", "skip", "line", "lines", "token", "until", "space", "some"]),
        st.integers(0, 9000),
    ),
    max_size=12,
)


def taken(source: Source, count: int) -> bytes:
    buffer, begin = source.take(count)
    return bytes(memoryview(buffer).cast("B")[begin : begin + count])


def act(source: Source, step: Step) -> object:
    """Return the result of one call as plain bytes."""
    name, count = step
    calls: dict[str, Callable[[], object]] = {
        "peek": lambda: source.peek(count),
        "read": lambda: bytes(source.read(count)),
        "take": lambda: taken(source, count),
        "array": lambda: source.read_array("<u2", count // 2).tobytes(),
        "skip": lambda: source.skip(count),
        "line": source.read_line,
        "lines": lambda: list(source.read_lines()) if count > 8000 else None,
        "token": source.read_token,
        "until": lambda: source.read_until(b"\xff]"),
        "space": source.skip_space,
        "some": lambda: bytes(source.read_some(1)),
    }
    return calls[name]()


@settings(max_examples=150, deadline=None)
@given(size=st.integers(0, 12000), seed=st.integers(0, 2**32 - 1), steps=STEPS, trickle=st.integers(1, 9000))
def test_sources_give_the_same_bytes(
    size: int, seed: int, steps: list[Step], trickle: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rng = np.random.default_rng(seed)
    data = rng.choice(
        np.frombuffer(b"abc]\xff \n\t", np.uint8), size, p=[0.5, 0.2, 0.2, 0.01, 0.01, 0.03, 0.03, 0.02]
    ).tobytes()
    with sources(data, tmp_path_factory.getbasetemp(), trickle) as all_sources:
        start = {id(source): source.tell() for source in all_sources}
        for step in steps:
            outcomes = []
            for source in all_sources:
                try:
                    outcomes.append((act(source, step), source.tell() - start[id(source)]))
                except TruncatedError:
                    outcomes.append(("truncated", 0))
            assert all(outcome == outcomes[0] for outcome in outcomes)
            if outcomes[0][0] == "truncated":
                return
        rests = [source.read_rest() for source in all_sources]
        assert all(rest == rests[0] for rest in rests)
        assert all(source.at_end() for source in all_sources)


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=300), st.data())
def test_token_equals_pythons_split(data: bytes, choice: st.DataObject) -> None:
    source = StreamSource(Trickle(data, choice.draw(st.integers(1, 20))))
    tokens = []
    while token := source.read_token():
        tokens.append(token)
    assert tokens == data.split()


def test_hostile_size_takes_no_memory(tmp_path: Path) -> None:
    with sources(b"x" * 5000, tmp_path) as all_sources:
        for source in all_sources:
            with memory_below(1 << 22), pytest.raises(TruncatedError, match="are available"):
                source.read(1 << 40)


def test_file_that_has_become_shorter_is_truncated(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"x" * 5000)
    file = OpenFile(str(path))
    for read in FileSource.read, FileSource.take:
        source = FileSource(file.descriptor, 0, 9000, str(path))
        with pytest.raises(TruncatedError, match="expected 8000 more bytes, but only 5000 are available"):
            read(source, 8000)


def test_part_beyond_the_end_is_truncated(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(bytes(range(10)))
    source = OpenFile(str(path)).open_source(0)
    assert source.read_at(3, 7) == bytes((7, 8, 9)) and source.tell() == 0
    with pytest.raises(TruncatedError, match="expected 4 more bytes, but only 3 are available"):
        source.read_at(4, 7)


def test_negative_size_is_refused(tmp_path: Path) -> None:
    with sources(b"x" * 50, tmp_path) as all_sources:
        for source in all_sources:
            for call in (source.read, source.skip, lambda count, source=source: source.read_array("<f4", count)):
                with pytest.raises(FormatError, match="invalid size"):
                    call(-1)


def test_arrays_are_writable_unless_views_of_memory(tmp_path: Path) -> None:
    data = bytes(range(256)) * 2000
    with sources(data, tmp_path) as all_sources:
        assert [source.read_array("<f4", 10000).flags.writeable for source in all_sources] == [
            False,
            True,
            True,
            True,
            True,
        ]


def test_long_object_is_read_from_a_pipe() -> None:
    data = np.random.default_rng(0).bytes(5_000_000)
    source = StreamSource(Trickle(data, 65536))
    assert source.read(3) == data[:3]
    assert source.read(4_999_990).tobytes() == data[3:4_999_993]  # type: ignore[union-attr]
    assert source.read_rest() == data[4_999_993:]


def test_growing_file_is_read_to_its_current_end(tmp_path: Path) -> None:
    path = tmp_path / "growing"
    path.write_bytes(b"ab")
    descriptor = os.open(path, os.O_RDONLY)
    source = FileSource(descriptor, 0, 2, str(path))
    assert bytes(source.read(2)) == b"ab"
    path.write_bytes(b"abcdef")
    assert bytes(source.read(4)) == b"cdef"
    os.close(descriptor)


def test_errors_have_file_and_offset(tmp_path: Path) -> None:
    source = BytesSource(b"0123456789", 4, "a.ark")
    source.skip(2)
    with pytest.raises(TruncatedError, match=r"^a\.ark:6: .*expected 9 more bytes, but only 4 are available$"):
        source.read(9)
    with pytest.raises(FormatError, match=r"^a\.ark:6: odd$"):
        source.fail("odd")
    with pytest.raises(OpenError):
        BytesSource(b"0123", 5)


@settings(max_examples=100, deadline=None)
@given(
    lines=st.lists(st.sampled_from([b"", b"a", b"bc d", b"x" * 5000]), max_size=6),
    ended=st.booleans(),
    trickle=st.integers(50, 9000),
)
@example(lines=[b"", b"a", b"bc d", b"x" * 5000], ended=True, trickle=1)
def test_lines_equal_pythons_split(lines: list[bytes], ended: bool, trickle: int) -> None:
    data = b"\n".join(lines) + (b"\n" if ended else b"")
    expected = data.split(b"\n")
    if not expected[-1]:
        expected.pop()
    assert list(StreamSource(Trickle(data, trickle)).read_lines()) == expected


@pytest.mark.parametrize("mmap", [False, True])
@settings(max_examples=60, deadline=None)
@given(steps=STEPS, cut=st.integers(0, 9000), seed=st.integers(0, 2**32 - 1))
def test_file_that_has_grown_is_read_whole(
    steps: list[Step], cut: int, seed: int, mmap: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = np.random.default_rng(seed).choice(np.frombuffer(b"abc]\xff \n\t", np.uint8), 12000).tobytes()
    path = tmp_path_factory.getbasetemp() / "growing"
    path.write_bytes(data[:cut])
    grown = OpenFile(str(path), mmap=mmap).open_source(0)
    with open(path, "ab") as file:
        file.write(data[cut:])
    whole = BytesSource(data)
    for step in steps:
        try:
            expected = act(whole, step)
        except TruncatedError:
            with pytest.raises(TruncatedError):
                act(grown, step)
            return
        assert act(grown, step) == expected
        assert grown.tell() == whole.tell()


class Broken(io.RawIOBase):
    """A stream that fails in a way of its own."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def readinto(self, buffer: object) -> int:
        raise self.error


@pytest.mark.parametrize("error", [OSError(5, "I/O error"), EOFError("ended"), zlib.error("corrupt"), KeyError("x")])
def test_error_of_a_stream_becomes_an_ark_error(error: Exception) -> None:
    with pytest.raises(OpenError, match=r"^b:0: cannot be read") as raised:
        StreamSource(Broken(error), "b").read(3)
    assert raised.value.__cause__ is error
