"""Tests of kaldi_compat.cli.loop."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kaldi_compat.cli.loop import Skip, map_table

Run = Callable[..., int]


def test_skips_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    def function(key: str, value: int) -> int:
        if value < 0:
            raise Skip(f"{key} is negative" if value < -1 else "")
        return value

    written: dict[str, int] = {}
    counts = map_table([("a", 1), ("b", -1), ("c", -2), ("d", 2)], written, function)
    assert (counts.done, counts.failed, counts.total, counts.status) == (2, 2, 4, 0)
    assert written == {"a": 1, "d": 2}
    assert [record.getMessage() for record in caplog.records] == ["c is negative"]
