"""Tests of kaldi_compat.cli.pipeline."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from kaldi_compat.cli.pipeline import QUEUE_SIZE, WriteBehind

Run = Callable[..., int]


class SlowWriter:
    def __init__(self, fail_at: str = "") -> None:
        self.written: list[str] = []
        self.fail_at = fail_at
        self.go_on = threading.Event()

    def __setitem__(self, key: str, value: Any, /) -> None:
        self.go_on.wait(10)
        if key == self.fail_at:
            raise OSError("disk full")
        self.written.append(key)


def test_writing_in_the_background_keeps_the_order_and_waits_for_the_end() -> None:
    writer = SlowWriter()
    writer.go_on.set()
    with WriteBehind(writer) as behind:
        for i in range(50):
            behind[str(i)] = i
    assert writer.written == [str(i) for i in range(50)]


def test_the_queue_of_a_slow_writer_is_bounded() -> None:
    writer = SlowWriter()
    handed_over = 0

    def produce() -> None:
        nonlocal handed_over
        with WriteBehind(writer) as behind:
            for i in range(100):
                behind[str(i)] = i
                handed_over += 1

    thread = threading.Thread(target=produce)
    thread.start()
    time.sleep(0.2)
    assert handed_over <= QUEUE_SIZE + 1
    writer.go_on.set()
    thread.join()
    assert len(writer.written) == 100


def test_an_error_of_the_writer_is_raised_and_nothing_is_written_after_it() -> None:
    writer = SlowWriter(fail_at="3")
    writer.go_on.set()
    with pytest.raises(OSError, match="disk full"), WriteBehind(writer) as behind:
        for i in range(100):
            behind[str(i)] = i
    assert writer.written == ["0", "1", "2"]
