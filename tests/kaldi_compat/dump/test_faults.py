"""A dump whose process is killed, or whose system calls fail, at any of its writes: nothing is lost in silence."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kaldi_compat.dump.shard import redirect_stderr
from tests.support.dump_data import dump, make_data, results
from tests.support.faults import at_call
from tests.support.resources import list_open_files

pytestmark = pytest.mark.sweep

OPTIONS = ("--shard-utterances=2", "--cmvn=speaker,global")
KILLED = 137


def dumped_in_a_child(data: Path, number: int, act: Callable[[], None], *arguments: str) -> tuple[int, int]:
    """Run a dump in a forked child; return its exit status, and the number of calls unless it was killed."""
    listening, telling = os.pipe()
    if (child := os.fork()) == 0:
        os.close(listening)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        count = at_call(number, act)
        status = KILLED
        try:
            status = dump(data, *OPTIONS, *arguments)
        finally:
            sys.setprofile(None)
            os.write(telling, b"%d" % count[0])
            os._exit(status)
    os.close(telling)
    with open(listening, "rb") as told:
        count = told.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), int(count or 0)


def fail(number: int) -> None:
    raise OSError(number, os.strerror(number))


FAULTS = {
    "kill": lambda: os._exit(KILLED),
    "EIO": lambda: fail(errno.EIO),
    "ENOSPC": lambda: fail(errno.ENOSPC),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("step", [29, pytest.param(1, marks=pytest.mark.slow)])
def test_fault_at_any_call_loses_nothing(tmp_path: Path, fault: str, step: int) -> None:
    data = make_data(tmp_path, 4, samples=(2000, 3000))
    status, count = dumped_in_a_child(data, sys.maxsize, lambda: None)
    assert status == 0 and count > 100
    expected = results(data)
    for number in range(list(FAULTS).index(fault), count, step):
        for name in ("data", "log", "conf", ".backup"):
            shutil.rmtree(data / name, ignore_errors=True)
        for name in set(results(data)):
            (data / name).unlink()
        status, _ = dumped_in_a_child(data, number, FAULTS[fault])
        left = results(data)
        assert all(expected[name] == content for name, content in left.items()), f"half a file after call {number}"
        assert status in ({KILLED} if fault == "kill" else {0, 255}), number
        if status == 0:
            assert left == expected, f"call {number} failed, and nobody was told"
        assert fault == "kill" or not list(data.rglob("*unfinished*")), number
        assert dump(data, *OPTIONS, "--resume") == 0
        assert results(data) == expected and not list(data.rglob("*unfinished*")), number


def folder_of(data: Path) -> dict[str, bytes]:
    """Return the content of the other formats of a dump."""
    paths = [*data.glob("feats.tar"), *data.glob("feats/*")]
    return {str(path): path.read_bytes() for path in paths}


@pytest.mark.parametrize("step", [23, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("wanted", ["npy", "webdataset"])
def test_kill_at_any_call_leaves_another_format_old_or_new(tmp_path: Path, wanted: str, step: int) -> None:
    data = make_data(tmp_path, 3, samples=(2000, 3000))
    older, newer = (f"--format={wanted}", "--num-mel-bins=20"), (f"--format={wanted}", "--num-mel-bins=21")
    assert dump(data, *OPTIONS, *newer) == 0
    expected = results(data), folder_of(data)
    status, count = dumped_in_a_child(data, sys.maxsize, lambda: None, *newer)
    assert dump(data, *OPTIONS, *older) == status == 0
    before = folder_of(data)
    assert before.keys() == expected[1].keys() and before != expected[1]
    for number in range(count - 1, 0, -step):
        status, _ = dumped_in_a_child(data, number, FAULTS["kill"], *newer)
        assert status in (KILLED, 0), number
        left = folder_of(data)
        assert left in (before, expected[1]) or (not left and list(data.glob("*-replaced"))), number
        assert dump(data, *OPTIONS, *newer) == 0
        assert (results(data), folder_of(data)) == expected and not list(data.rglob("*unfinished*")), number
        assert dump(data, *OPTIONS, *older) == 0
        assert folder_of(data) == before


def test_log_that_cannot_be_removed_does_not_end_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "unlink", refused)
    before = list_open_files()
    with redirect_stderr(tmp_path / "log"):
        pass
    assert list_open_files() <= before


def test_standard_error_of_a_block_is_appended_to_its_log_which_is_removed_if_it_stays_empty(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for line in (b"one\n", b"two\n"):
        with redirect_stderr(log):
            os.write(2, line)
    assert log.read_bytes() == b"one\ntwo\n"
    with redirect_stderr(tmp_path / "empty"):
        pass
    assert not (tmp_path / "empty").exists()
