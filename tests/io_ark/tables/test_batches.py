"""Small entries that are written together are those that are written one by one."""

from __future__ import annotations

import errno
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from io_ark.codecs import codec
from io_ark.errors import FormatError, WriteError
from io_ark.native import NATIVE
from io_ark.streams.output import Output
from io_ark.tables import batches
from io_ark.tables.writers import Writer
from tests.support.table_samples import VALUES

KINDS = ["int", "float", "double", "token", "token-vector", "vector", "double-vector"]


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_batches_have_the_bytes_of_the_codec(
    kind: str, binary: bool, native: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not native:
        monkeypatch.setattr(NATIVE, "in_use", False)
    values = 4 * VALUES[kind]
    if kind in ("float", "double"):
        values += [2**-11, 1e-45, float("nan"), float("inf"), 3, np.float32(0.5), True]
    if kind == "int":
        values += [True, np.int64(5)]
    expected = io.BytesIO()
    with Writer[Any](f"ark{'' if binary else ',t'}:{tmp_path}/a.ark", kind=kind) as writer:
        for i, value in enumerate(values):
            key = ("k\u00e9y-%d" if i % 7 == 3 else "key-%d") % i
            writer[key] = value
            expected.write(f"{key} ".encode())
            codec(kind).write(expected, value, binary=binary)
    assert (tmp_path / "a.ark").read_bytes() == expected.getvalue()


def test_entry_after_a_failed_write_is_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "_MAX_PENDING", 40)
    writer = Writer[Any](f"ark:{tmp_path}/a", kind="int")
    full = OSError(errno.ENOSPC, "No space left on device")
    writer["a"] = 1
    with monkeypatch.context() as patched:
        patched.setattr(Output, "write", lambda *_: (_ for _ in ()).throw(full))
        with pytest.raises(OSError, match="No space"):
            writer.flush()  # of fewer entries than are written together
    for key in "c", "d":
        with pytest.raises(WriteError, match="earlier write failed"):
            writer[key] = 3
    with pytest.raises(WriteError):
        writer.close()


def test_value_changed_after_write_is_written_unchanged(tmp_path: Path) -> None:
    vector, words = np.ones(3, np.float32), ["a"]
    with Writer[Any](f"ark:{tmp_path}/v", kind="vector") as writer:
        writer["key"] = vector
        vector[:] = 2
    with Writer[Any](f"ark:{tmp_path}/w", kind="token-vector") as writer:
        writer["key"] = words
        words.append("b")
    assert (tmp_path / "v").read_bytes().endswith(np.ones(3, np.float32).tobytes())
    assert (tmp_path / "w").read_bytes() == b"key a \n"


@pytest.mark.parametrize(
    ("kind", "value"), [("int", 2**31), ("token", "a b"), ("token-vector", ["a", ""]), ("float", "x")]
)
def test_invalid_value_is_refused_at_its_call(kind: str, value: Any, tmp_path: Path) -> None:
    usual = VALUES[kind][-1]
    with Writer[Any](f"ark:{tmp_path}/a", kind=kind) as writer:
        writer["first"] = usual
        with pytest.raises(FormatError, match="second"):
            writer["second"] = value
        writer["third"] = usual
    lines = (tmp_path / "a").read_bytes()
    assert lines.startswith(b"first ")
    assert b"second" not in lines
    assert b"third " in lines


def test_pending_entries_are_written_by_flush_and_on_deletion(tmp_path: Path) -> None:
    writer = Writer[Any](f"ark,t:{tmp_path}/a", kind="int")
    writer["one"] = 1
    writer.flush()
    assert (tmp_path / "a").read_bytes() == b"one 1 \n"
    writer["two"] = 2
    del writer
    assert (tmp_path / "a").read_bytes() == b"one 1 \ntwo 2 \n"
