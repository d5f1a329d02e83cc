"""Opening rxfilenames: files, offsets, standard input."""

from __future__ import annotations

import io
import os
import sys
import threading
from pathlib import Path

import pytest

from io_ark.errors import OpenError
from io_ark.streams.input import open_input
from io_ark.streams.output import open_output
from tests.support.tables import content


class FakeStandardInput:
    """Stand-in for ``sys.stdin`` over bytes."""

    def __init__(self, data: bytes) -> None:
        self.buffer = io.BytesIO(data)


def test_rxfilename_opens_file_offset_or_command(tmp_path: Path) -> None:
    path = tmp_path / "a b"
    path.write_bytes(b"0123456789")
    assert content(str(path)) == b"0123456789"
    assert content(f"{path}:4") == b"456789"
    assert content(f"{path}:10") == b""
    assert content(f"cat '{path}' | tr 0 x |") == b"x123456789"


def test_offset_into_a_device_is_refused() -> None:
    assert content("/dev/null") == b""
    with pytest.raises(OpenError, match="not a regular file"):
        content("/dev/null:3")


def test_named_pipe_is_read_as_a_stream(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_bytes, args=(b"x" * 100_000,))
    writer.start()
    assert content(str(fifo)) == b"x" * 100_000
    writer.join()


def test_standard_input_read_ahead_is_kept_for_the_next_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", FakeStandardInput(b"first second third"))
    with open_input("-") as opened:
        assert opened.source.read_token() == b"first"
        with pytest.raises(OpenError, match="named twice"):
            open_input("")
    with open_input("") as opened:  # what was read ahead is not lost
        assert opened.source.read_rest() == b" second third"
    monkeypatch.setattr(sys, "stdin", FakeStandardInput(b"other"))
    assert content("-") == b"other"
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(OpenError, match="closed"):
        open_input("-")


@pytest.mark.parametrize("stream", ["stdin", "stdout"])
def test_standard_stream_without_bytes_is_an_ark_error(stream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, stream, io.StringIO("a b\n"))
    with pytest.raises(OpenError, match=f"standard {stream[3:]}put: cannot be .*StringIO"):
        (open_input if stream == "stdin" else open_output)("-")
