"""GPUs of a dump: each gets an archive, and one that admits no more processes costs a worker, not the job."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from io_ark import Wave
from kaldi_compat.dump import workers
from kaldi_compat.dump.devices import why_unavailable
from kaldi_compat.dump.entries import Audio, Entry
from kaldi_compat.dump.errors import UnavailableError
from kaldi_compat.dump.options import DumpOptions, Job, Layout
from kaldi_compat.dump.plan import Shard, make_plan
from kaldi_compat.dump.read import Clock
from kaldi_compat.dump.shard import ShardRunner
from kaldi_compat.dump.spectral import SpectralComputer
from kaldi_compat.dump.write_behind import WorkBehind
from tests.support.dump_data import audio, dump, make_data

BUSY = "CUDA error: CUDA-capable device(s) is/are busy or unavailable\nCUDA kernel errors might be ..."


def test_a_plan_has_an_archive_for_each_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    layout = Layout.of(make_data(tmp_path), "fbank")
    assert len(make_plan(Job(layout, DumpOptions(device="cuda"))).shards) == 8
    assert len(make_plan(Job(layout, DumpOptions(device="cuda:1,3"))).shards) == 4
    assert len(make_plan(Job(layout, DumpOptions(device="cuda", nj=10))).shards) == 10


@pytest.mark.parametrize(("archives", "used", "says"), [(8, 8, ""), (3, 3, "3 of 8 GPUs are used")])
def test_all_gpus_are_used_whatever_nj_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, archives: int, used: int, says: str
) -> None:
    gpus = [f"cuda:{i}" for i in range(8)]
    started: list[list[str]] = []
    monkeypatch.setattr(workers, "devices_of", lambda text: gpus)
    team = SimpleNamespace(run=lambda: None)
    monkeypatch.setattr(workers, "_Workers", lambda job, plan, shards, monitor, used: started.append(used) or team)
    job = Job(Layout.of(make_data(tmp_path), "fbank"), DumpOptions(device="cuda", nj=4))
    said: list[str] = []
    monitor = cast(Any, SimpleNamespace(say=said.append))
    workers.run_local(job, cast(Any, None), [Shard(i + 1, 0, 10, 1) for i in range(archives)], monitor)
    assert started == [gpus[:used]]
    assert says in "".join(said) and bool(said) == bool(says)


def test_summary_counts_what_ran_otherwise_on_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(SpectralComputer, "figures", lambda self: {"computed_on_cpu": 1.0, "without_kernels": 3.0})
    assert dump(make_data(tmp_path, 2)) == 0
    said = capsys.readouterr().err
    assert "1 utterance did not fit into a GPU's memory" in said
    assert "3 utterances ran on GPUs without the fused kernels" in said


def test_results_leave_before_the_batch_after_the_next_is_read(tmp_path: Path) -> None:
    job = Job(Layout.of(make_data(tmp_path, 1), "fbank"), DumpOptions())
    runner = ShardRunner(job, make_plan(job))
    read: list[int] = []

    def batches(shard: Shard, reading: Clock) -> Iterator[list[Entry]]:
        for i in range(4):
            read.append(i)
            yield [Audio.of(i, f"utt{i}", Wave(16000.0, audio(1600, i)))]

    runner._batches = batches  # type: ignore[method-assign]
    left = [
        (len(read), [each.index for each in results])
        for results in runner._results(Shard(1, 0, 1, 4), Clock(), Clock())
    ]
    assert left == [(1, []), (2, [0]), (3, [1]), (4, [2]), (4, [3])]


def test_errors_of_opening_a_gpu_say_what_to_do() -> None:
    busy, full = (
        why_unavailable(RuntimeError(BUSY), "cuda:0"),
        why_unavailable(RuntimeError("CUDA error: out of memory"), "cuda:0"),
    )
    assert busy and "--nj" in busy and "\n" not in busy
    assert full and "no memory" in full
    assert why_unavailable(RuntimeError("CUDA error: an illegal memory access"), "cuda:0") is None


def worker(device: str, shard: Shard | None = None) -> Any:
    closed = SimpleNamespace(close=lambda: None)
    return SimpleNamespace(
        process=SimpleNamespace(join=lambda: None), tasks=closed, lifeline=closed, device=device, shard=shard
    )


def test_a_gpu_that_admits_one_process_costs_the_other_workers_only() -> None:
    said: list[str] = []
    monitor = cast(Any, SimpleNamespace(say=said.append))
    shard = Shard(3, 0, 10, 1)
    team = workers._Workers(cast(Any, None), cast(Any, None), [], monitor, [])
    team.workers = [worker("cuda:0")]
    team.release(worker("cuda:0", shard), UnavailableError("it is busy"))
    assert list(team.waiting) == [shard] and "it is busy" in said[0]
    team.workers = [worker("cuda:1")]
    with pytest.raises(UnavailableError):
        team.release(worker("cuda:0", shard), UnavailableError("busy"))


def test_queue_of_the_writer_is_bounded_by_bytes() -> None:
    done: list[int] = []
    go_on, full = threading.Event(), threading.Event()
    added: list[int] = []

    def work(item: int) -> None:
        go_on.wait(10)
        done.append(item)

    def put_all(queue: WorkBehind[int]) -> None:
        for item in range(30):
            queue.put(item, 10)  # three fit
            added.append(item)
            if item == 2:
                full.set()
        full.clear()

    with WorkBehind(work, most=30) as queue:
        thread = threading.Thread(target=put_all, args=(queue,))
        thread.start()
        assert full.wait(10)
        time.sleep(0.1)  # in which more would be added
        in_time, waits = list(added), thread.is_alive() and full.is_set()
        go_on.set()
        thread.join(10)
        assert in_time == [0, 1, 2] and waits and not thread.is_alive() and not full.is_set()
        queue.put(30, 1000)  # more than fits, alone
    assert done == list(range(31))


def test_error_of_the_writer_reaches_the_one_who_puts() -> None:
    def work(item: int) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"), WorkBehind(work, most=5) as queue:
        for item in range(100):
            queue.put(item, 5)
