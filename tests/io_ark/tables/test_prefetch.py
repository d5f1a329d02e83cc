"""Reading ahead in a thread."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import io_ark
from io_ark.errors import ClosedError
from tests.support.resources import list_resources, wait_for_release


@pytest.mark.parametrize("rspecifier", ["ark,bg:feats.ark", "scp,bg:feats.scp", "ark,bg:yes 'a 1' |"])
def test_dropped_reader_releases_thread_and_files(folder: Path, rspecifier: str) -> None:
    before = list_resources()
    kind = "token" if "yes" in rspecifier else "matrix"
    for _ in range(5):
        reader = io_ark.SequentialReader[object](rspecifier, kind=kind)
        next(iter(reader))
    del reader
    assert not wait_for_release(before)


@pytest.mark.parametrize("rspecifier", ["ark,bg:feats.ark", "scp,bg:cat feats.scp |"])
def test_fork_during_background_reading_raises_in_the_child(folder: Path, rspecifier: str) -> None:
    with io_ark.SequentialReader(rspecifier, kind="matrix") as reader:
        entries = iter(reader)
        next(entries)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                signal.alarm(10)  # a child that hangs ends by SIGALRM
                list(entries)
            except ClosedError as error:
                reader.close()
                status = 0 if "forked" in str(error) else 2
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        assert len(list(entries)) == 2
