"""Keys of tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import io_ark
from io_ark.errors import KeyFormatError


def test_tab_or_newline_may_follow_a_key(folder: Path) -> None:
    Path("a.txt").write_text("a\t1 2\nb\n\n  c 3\n")
    with io_ark.SequentialReader("int-vector", "ark:a.txt") as reader:
        assert [(key, value.tolist()) for key, value in reader] == [("a", [1, 2]), ("b", []), ("c", [3])]


@pytest.mark.parametrize("key", ["a\ud800", "\udc41", "", "a b", 5, None])
def test_invalid_key_is_refused(folder: Path, key: Any) -> None:
    with io_ark.Writer("int", "ark:k") as writer, pytest.raises(KeyFormatError, match="invalid key"):
        writer[key] = 1
    with io_ark.RandomAccessReader("matrix", "scp:feats.scp") as reader, pytest.raises(KeyFormatError):
        reader[key]


def test_key_that_is_not_utf8_is_written_unchanged(folder: Path) -> None:
    key = b"\xe9t\xe9".decode("utf-8", "surrogateescape")
    with io_ark.Writer("int", "ark,t:k") as writer:
        writer[key] = 1
    assert Path("k").read_bytes() == b"\xe9t\xe9 1 \n"
    assert [found for found, _ in io_ark.SequentialReader("int", "ark:k")] == [key]
