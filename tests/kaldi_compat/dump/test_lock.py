"""Locks of a dump: whole dumps exclude each other, and parts of one plan share the lock once the plan exists."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import time
from pathlib import Path

import pytest

from kaldi_compat.dump import files as locks
from kaldi_compat.dump.cli import lock_plan
from kaldi_compat.dump.errors import DumpError
from kaldi_compat.dump.files import lock_dump, share_lock
from kaldi_compat.dump.plan import make_plan
from tests.support.dump_data import job_of, make_data

OTHER, NO_PART = "another dump into the same archives is running", "not a part of the same plan is running"


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    monkeypatch.setattr(locks, "SECONDS_TO_WAIT", 0.2)
    monkeypatch.setattr(locks, "SECONDS_BETWEEN_TRIES", 0.01)
    return tmp_path / "lock", tmp_path / "plan"


def test_whole_dump_excludes_all_others(places: tuple[Path, Path]) -> None:
    path, plan = places
    whole = lock_dump(path)
    for _ in range(2):
        with pytest.raises(DumpError, match=f"{OTHER} and has locked {path}: wait until that dump ends"):
            lock_dump(path)
        with pytest.raises(DumpError, match=NO_PART):
            lock_dump(path, plan)
        plan.touch()
    os.close(whole)
    os.close(lock_dump(path))


def test_parts_share_the_lock_once_there_is_a_plan(places: tuple[Path, Path]) -> None:
    path, plan = places
    first = lock_dump(path, plan)  # which makes the plan
    with pytest.raises(DumpError, match=NO_PART):
        lock_dump(path, plan)
    plan.touch()
    with pytest.raises(DumpError, match=NO_PART):
        lock_dump(path, plan)
    share_lock(first, path)
    others = [lock_dump(path, plan) for _ in range(2)]
    with pytest.raises(DumpError, match=OTHER):
        lock_dump(path)
    for descriptor in (first, *others):
        os.close(descriptor)
    os.close(lock_dump(path))


def test_part_waits_for_the_plan_and_a_whole_dump_does_not(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, plan = places
    monkeypatch.setattr(locks, "SECONDS_TO_WAIT", 60.0)
    first = lock_dump(path, plan)
    start = time.monotonic()
    with pytest.raises(DumpError, match=OTHER):
        lock_dump(path)
    assert time.monotonic() - start < 30

    def finish() -> None:
        plan.touch()
        share_lock(first, path)

    timer = threading.Timer(0.1, finish)
    timer.start()
    os.close(lock_dump(path, plan))
    timer.join()
    os.close(first)


def test_file_system_without_locks_is_said_and_used(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def flock(descriptor: int, kind: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    os.close(lock_dump(places[0]))
    assert f"cannot lock {places[0]}: No locks available" in caplog.text


def test_system_without_locks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    locks.check_system()
    monkeypatch.setattr(locks, "HAS_LOCKS", False)
    with pytest.raises(DumpError, match="needs file locks"):
        locks.check_system()


def test_parts_of_a_dump_work_at_the_same_time_and_a_whole_dump_alone(
    places: tuple[Path, Path], tmp_path: Path
) -> None:
    data = make_data(tmp_path, 4)
    parts = [job_of(data, nj=2, shard=f"{number}/2") for number in (1, 2)]
    plan = make_plan(parts[0])
    with lock_plan(parts[0], plan) as first, lock_plan(parts[1], None) as second:
        assert first == second == plan
        with pytest.raises(DumpError, match=OTHER), lock_plan(job_of(data, nj=2), plan):
            pass
    with lock_plan(job_of(data, nj=2), plan), pytest.raises(DumpError, match=NO_PART), lock_plan(parts[0], None):
        pass
    with lock_plan(parts[0], None) as again:
        assert again == plan


def test_plan_that_was_deleted_before_it_was_locked_is_missing(tmp_path: Path) -> None:
    """This run has read the plan without the lock, and has not tried the extractor for a new plan."""
    data = make_data(tmp_path, 2)
    job = job_of(data, resume=True)
    with pytest.raises(DumpError, match=r"^there is no plan .*: start without --resume"), lock_plan(job, None):
        pass
