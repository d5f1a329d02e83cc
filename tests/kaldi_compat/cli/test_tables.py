"""Tests of kaldi_compat.cli.tables: reading ahead, and look-up of the keys of a block."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import io_ark
from io_ark.blocks import Skip, create_block
from kaldi_compat.cli import tables as module
from kaldi_compat.cli.tables import LookupReader, Tables


@pytest.fixture(params=[True, False], autouse=True)
def has_second_core(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(module, "has_second_core", lambda: request.param)
    return bool(request.param)


def test_items_come_in_order_and_an_error_after_those_before_it() -> None:
    def items() -> Iterator[int]:
        yield from range(20)
        raise OSError("gone")

    got: list[int] = []
    with Tables() as tables, pytest.raises(OSError, match="gone"):
        for item in tables.map_in_threads(lambda number: number * number, tables.compute_ahead(items())):
            got.append(item)  # noqa: PERF402
    assert got == [number * number for number in range(20)]


@pytest.mark.parametrize("threads", range(5))
def test_items_are_computed_although_the_system_starts_no_more_threads(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, started = threading.Thread.start, []

    def start_some(thread: threading.Thread) -> None:
        if len(started) == threads:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_some)
    with Tables() as tables:
        assert list(tables.map_in_threads(abs, tables.compute_ahead(iter(range(20))))) == list(range(20))


def test_the_error_of_a_computation_is_raised_in_its_place() -> None:
    got: list[float] = []
    with Tables() as tables, pytest.raises(ZeroDivisionError):
        got.extend(tables.map_in_threads(lambda number: 6 / number, iter([3, 2, 0, 1])))
    assert got == [2, 3]


def test_the_queue_is_bounded_and_its_thread_ends_with_the_context(has_second_core: bool) -> None:
    made: list[int] = []
    before = set(threading.enumerate())
    with Tables() as tables:
        items = tables.compute_ahead(made.append(number) or number for number in range(1000))  # type: ignore[func-returns-value]
        assert next(items) == 0
        time.sleep(0.1 * has_second_core)
        assert len(made) < 10
    assert before.issuperset(threading.enumerate())


def test_keys_of_a_block_are_looked_up_once(tmp_path: Path) -> None:
    """The option "o" promises that no key is looked up twice; the loop asks again for parts of a block."""
    path = tmp_path / "v.ark"
    with io_ark.Writer(f"ark:{path}", kind="vector") as writer:
        for number, key in enumerate("abde"):
            writer[key] = np.full(2, number, np.float32)
    block = create_block(list("abcde"), list(range(5)))
    for options in "ark", "ark,o", "ark,s,cs":
        with LookupReader[np.ndarray](f"{options}:{path}", kind="vector") as reader:
            with pytest.raises(Skip):
                reader.require_values(block, str)
            for at, key in enumerate("abcde"):
                part = block.select(np.arange(5) == at)
                if key == "c":
                    with pytest.raises(Skip, match="no c"):
                        reader.require_values(part, lambda key: f"no {key}")
                else:
                    assert reader.require_values(part, str)[0][0] == "abde".index(key)


def test_a_key_that_comes_several_times_is_looked_up_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments name one recording many times."""
    with io_ark.Writer(f"ark,scp:{tmp_path}/v.ark,{tmp_path}/v.scp", kind="vector") as writer:
        writer["a"] = np.ones(2, np.float32)
    read: list[str] = []
    look_up = io_ark.RandomAccessReader.__getitem__

    def recorded(reader: io_ark.RandomAccessReader[np.ndarray], key: str) -> np.ndarray:
        read.append(key)
        return look_up(reader, key)

    monkeypatch.setattr(io_ark.RandomAccessReader, "__getitem__", recorded)
    with LookupReader[np.ndarray](f"scp:{tmp_path}/v.scp", kind="vector") as reader:
        assert len(reader.find_values(["a", "a", "a"])) == 3
    assert read == ["a"]


def test_an_error_is_raised_again_at_its_key(tmp_path: Path) -> None:
    path = tmp_path / "v.ark"
    path.write_text("a [ 1 ]\nb [ 2 ]\nc [ x ]\nd [ 4 ]\n")
    block = create_block(list("abcd"), list(range(4)))
    with LookupReader[np.ndarray](f"ark:{path}", kind="vector") as reader:
        messages = []
        for part in (block, block.select(np.arange(4) >= 2), block.select(np.arange(4) == 2)):
            with pytest.raises(io_ark.ArkError) as caught:
                reader.require_values(part, str)
            messages.append(str(caught.value))
        assert len(set(messages)) == 1
        assert [each.tolist() for each in reader.require_values(block.select(np.arange(4) < 2), str)] == [[1], [2]]


def test_error_of_an_entry_between_those_looked_up(tmp_path: Path) -> None:
    path = tmp_path / "v.ark"
    path.write_text("a 1\nb 2\nunasked 3 4\nd 5\n")
    block = create_block(list("abd"), list(range(3)))
    with LookupReader[float](f"ark:{path}", kind="float") as reader:
        for part in block, block.select(np.arange(3) == 2):
            with pytest.raises(io_ark.ArkError, match="unasked"):
                reader.require_values(part, str)
        assert reader.require_values(block.select(np.arange(3) < 2), str) == [1, 2]


def test_look_up_goes_on_with_what_arrived_before_a_command_failed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "t").write_text("a 1\nb 2\n")
    reader = LookupReader[int](f"ark:cat {tmp_path}/t; false |", kind="int")
    assert "x" not in reader and "y" not in reader and reader["b"] == 2
    assert reader.get_many(["a", "z"]) is None and reader.get_many(["a", "b"]) == [1, 2]
    assert [record.message for record in caplog.records if "exit status 1" in record.message] == [
        f"cat {tmp_path}/t; false |: the command had nonzero return status 256 (exit status 1), so the table may be "
        "incomplete: correct the command"
    ]
