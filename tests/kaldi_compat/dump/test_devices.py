"""GPUs of a dump: each gets an archive, and one that admits no more processes costs a worker, not the job."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from io_ark import Wave
from kaldi_compat.dump import cli, read, shard, workers
from kaldi_compat.dump.devices import explain_unavailable, parse_devices, watch_device
from kaldi_compat.dump.entries import Audio, AudioOrFailure, Encoded, Failure
from kaldi_compat.dump.errors import DumpError, LostDeviceError, OutputError, UnavailableError
from kaldi_compat.dump.finalize import Outcome
from kaldi_compat.dump.options import DumpOptions, Job, Layout
from kaldi_compat.dump.plan import Shard, make_plan
from kaldi_compat.dump.progress import Monitor
from kaldi_compat.dump.read import Clock
from kaldi_compat.dump.shard import ShardRunner
from kaldi_compat.dump.spectral import Pending, SpectralComputer
from kaldi_compat.dump.write import ArchiveWriter
from kaldi_compat.torch import kernels
from tests.support.dump_data import audio, dump, job_of, make_data, said_by

BUSY = "CUDA error: CUDA-capable device(s) is/are busy or unavailable\nCUDA kernel errors might be ..."


@pytest.mark.parametrize(
    ("is_built", "gpus", "message"),
    [
        (False, 0, "--device=cuda:1: PyTorch .* was built without CUDA: install a build with CUDA, or use"),
        (True, 0, "--device=cuda:1: PyTorch sees 0 GPUs here: use --device=cpu$"),
        (True, 1, "--device=cuda:1: PyTorch sees 1 GPU here: use --device=cpu, or numbers from 0 to 0"),
    ],
)
def test_missing_gpu_is_told_from_a_build_without_cuda(
    monkeypatch: pytest.MonkeyPatch, is_built: bool, gpus: int, message: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: bool(gpus))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.backends.cuda, "is_built", lambda: is_built)
    with pytest.raises(DumpError, match=message):
        parse_devices("cuda:1")


def test_a_plan_has_an_archive_for_each_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    data = make_data(tmp_path)
    assert len(make_plan(job_of(data, device="cuda")).shards) == 8
    assert len(make_plan(job_of(data, device="cuda:1,3")).shards) == 4
    assert len(make_plan(job_of(data, device="cuda", nj=10)).shards) == 10


@pytest.mark.parametrize(("archives", "used", "says"), [(8, 8, ""), (3, 3, "the job uses 3 of 8 GPUs, because")])
def test_all_gpus_are_used_whatever_nj_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, archives: int, used: int, says: str
) -> None:
    gpus = [f"cuda:{i}" for i in range(8)]
    started: list[list[str]] = []
    monkeypatch.setattr(workers, "parse_devices", lambda text: gpus)
    team = SimpleNamespace(run=lambda: None)
    monkeypatch.setattr(workers, "_Workers", lambda job, plan, shards, monitor, used: started.append(used) or team)
    job = job_of(make_data(tmp_path), device="cuda", nj=4)
    said: list[str] = []
    monitor = cast(Any, SimpleNamespace(say=said.append))
    workers.write_archives_locally(job, cast(Any, None), [Shard(i + 1, 0, 10, 1) for i in range(archives)], monitor)
    assert started == [gpus[:used]]
    assert says in "".join(said) and bool(said) == bool(says)


def test_summary_counts_what_ran_otherwise_on_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SpectralComputer, "take_figures", lambda self: {"computed_on_cpu": 1.0, "without_kernels": 3.0})
    said = said_by(make_data(tmp_path, 2))
    assert "1 utterance did not fit into a GPU's memory" in said
    assert "3 utterances ran on GPUs without the fused kernels" in said


def test_summary_says_that_pitch_is_tracked_on_the_cpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = Job(Layout.from_paths(make_data(tmp_path, 2), "fbank_pitch"), DumpOptions(device="cuda"))
    cli.print_summary(job, Outcome(2, 2, (), 1.0, {}), Monitor(2))
    assert "pitch was tracked on the CPU" in capsys.readouterr().err


def test_results_leave_before_the_batch_after_the_next_is_read(tmp_path: Path) -> None:
    job = job_of(make_data(tmp_path, 1))
    runner = ShardRunner(job, make_plan(job))
    begun: list[int] = []

    def read_batches(archive: Shard, reading: Clock) -> Iterator[list[AudioOrFailure]]:
        for i in range(4):
            begun.append(i)
            yield [Audio.from_wave(i, f"utt{i}", Wave(16000.0, audio(1600, i)))]

    runner._read_batches = read_batches  # type: ignore[method-assign]
    left = [
        (len(begun), [each.index for each in results])
        for results in runner._compute_results(Shard(1, 0, 1, 4), Clock(), Clock())
    ]
    assert left == [(2, [0]), (3, [1]), (4, [2]), (4, [3])]


def test_errors_of_opening_a_gpu_say_what_to_do() -> None:
    busy, full = (
        explain_unavailable(RuntimeError(BUSY), "cuda:0"),
        explain_unavailable(RuntimeError("CUDA error: out of memory"), "cuda:0"),
    )
    assert busy and "--nj" in busy and "\n" not in busy
    assert full and "no memory" in full
    assert explain_unavailable(RuntimeError("CUDA error: an illegal memory access"), "cuda:0") is None


def test_errors_of_a_gpu_that_is_gone_say_so() -> None:
    for text in ("No CUDA GPUs are available", "CUDA error: invalid device ordinal\nCUDA kernel errors might"):
        said = explain_unavailable(RuntimeError(text), "cuda:1")
        assert said and said.startswith("cuda:1 has disappeared") and "\n" not in said


def worker(device: str, shard: Shard | None = None) -> Any:
    closed = SimpleNamespace(close=lambda: None)
    process = SimpleNamespace(join=lambda timeout=None: None, kill=lambda: None, exitcode=1)
    return SimpleNamespace(process=process, tasks=closed, lifeline=closed, device=device, shard=shard)


def team_of(monkeypatch: pytest.MonkeyPatch, *devices: str) -> tuple[Any, list[str]]:
    """Return workers on these devices, the first of which makes an archive, and what is said."""
    said: list[str] = []
    monitor = cast(Any, SimpleNamespace(say=said.append, record_lost_archive=lambda number: None))
    team = workers._Workers(cast(Any, None), cast(Any, None), [], monitor, [])
    team.workers = [worker(device) for device in devices]
    team.workers[0].shard = Shard(3, 0, 10, 1)
    monkeypatch.setattr(workers, "_start_worker", lambda job, plan, device: worker(device))
    return team, said


def test_a_gpu_that_admits_one_process_costs_the_other_workers_only(monkeypatch: pytest.MonkeyPatch) -> None:
    team, said = team_of(monkeypatch, "cuda:0", "cuda:0", "cuda:1")
    first, second, _ = team.workers
    team._handle_message(first, ("unavailable", UnavailableError("it is busy")))
    assert list(team.waiting) == [first.shard] and "it is busy" in said[0]
    with pytest.raises(UnavailableError):
        team._handle_message(second, ("unavailable", UnavailableError("busy")))


def test_a_gpu_that_is_lost_costs_its_archive_and_its_workers_only(monkeypatch: pytest.MonkeyPatch) -> None:
    team, said = team_of(monkeypatch, "cuda:0", "cuda:1")
    first, shard = team.workers[0], team.workers[0].shard
    team._handle_message(first, ("lost", LostDeviceError("it hangs")))
    team._handle_message(first, None)  # its end
    assert [each.device for each in team.workers] == ["cuda:0", "cuda:1"] and first not in team.workers
    assert list(team.waiting) == [shard] and "it hangs" in said[0]
    team._handle_message(team.workers[0], ("unavailable", UnavailableError("it is gone")))
    assert [each.device for each in team.workers] == ["cuda:1"] and "it is gone" in said[1]
    team.lost.add("cuda:1")
    with pytest.raises(UnavailableError, match="gone, too"):
        team._handle_message(team.workers[0], ("unavailable", UnavailableError("it is gone, too")))


class Dying:
    """A process that has closed its connection, and ends a moment later with status 3 unless it is killed before."""

    def __init__(self) -> None:
        self.exitcode: int | None = None

    def join(self, timeout: float | None = None) -> None:
        self.exitcode = self.exitcode or 3

    def kill(self) -> None:
        self.exitcode = self.exitcode or -9


@pytest.mark.parametrize(("shard", "message"), [
    (Shard(3, 0, 10, 1), "^3 workers died while writing archive 3: the last worker ended with status 3: code in"),
    (None, "^worker processes end before they start to write archives: the last worker ended with status 3: code in"),
])  # fmt: skip
def test_third_worker_that_dies_stops_the_job_with_its_own_status(
    monkeypatch: pytest.MonkeyPatch, shard: Shard | None, message: str
) -> None:
    team, said = team_of(monkeypatch, "cpu", "cpu")
    other = team.workers[1]
    for number in range(3):
        dead = team.workers[0]
        dead.process, dead.shard = Dying(), shard
        if number == 2:
            with pytest.raises(DumpError, match=message):
                team._handle_message(dead, None)
        else:
            team._handle_message(dead, None)
            assert team.workers[0] is not dead and team.workers[1] is other
            assert list(team.waiting) == [shard] * (shard is not None)
            team.waiting.clear()
    assert not said


def test_worker_has_ended_before_its_files_are_removed() -> None:
    calls: list[str] = []
    process = SimpleNamespace(kill=lambda: calls.append("kill"), join=lambda: calls.append("join"))
    tasks, lifeline = (SimpleNamespace(close=partial(calls.append, name)) for name in ("tasks", "lifeline"))
    workers._end_worker(workers._Worker(process, tasks, lifeline, "cpu"))
    assert calls == ["kill", "join", "tasks", "lifeline"]


def test_an_archive_at_which_gpus_are_lost_again_and_again_stops_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    team, _ = team_of(monkeypatch, "cuda:0")
    shard = team.workers[0].shard
    with pytest.raises(LostDeviceError, match="the third time"):
        for error in ("once", "twice", "the third time"):
            team.workers[0].shard = shard
            team._handle_message(team.workers[0], ("lost", LostDeviceError(error)))


@pytest.mark.parametrize(("device", "broken", "raised"), [
    ("cuda:1", True, LostDeviceError), ("cuda:1", False, RuntimeError), ("cpu", True, RuntimeError)
])  # fmt: skip
def test_errors_after_which_a_gpu_does_nothing_are_told_apart(
    monkeypatch: pytest.MonkeyPatch, device: str, broken: bool, raised: type[Exception]
) -> None:
    monkeypatch.setattr(kernels, "is_broken", lambda device: broken and device == torch.device("cuda:1"))
    with pytest.raises(raised, match="unspecified launch failure") as caught, watch_device(device):
        raise RuntimeError("CUDA error: unspecified launch failure\nCUDA kernel errors might be ...")
    assert type(caught.value) is raised


def test_results_that_wait_to_be_written_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[int] = []
    ahead: list[int] = []
    submit, add = SpectralComputer.submit, ArchiveWriter.add_block

    def counted(self: SpectralComputer, batch: Sequence[Audio]) -> Pending:
        computed.append(len(batch))
        return submit(self, batch)

    def slow(self: ArchiveWriter, entry: Encoded | Failure) -> None:
        time.sleep(0.01)
        add(self, entry)
        ahead.append(sum(computed) - self.processed_count)

    monkeypatch.setattr(SpectralComputer, "submit", counted)
    monkeypatch.setattr(ArchiveWriter, "add_block", slow)
    monkeypatch.setattr(shard, "MAX_WAITING_BATCHES", 1)
    monkeypatch.setattr(read, "BLOCK_BYTES", 1)
    monkeypatch.setattr(read, "FIRST_LINES", 1)
    assert dump(make_data(tmp_path, 30), "--window-utterances=1") == 0
    assert len(ahead) == 30 and 2 <= max(ahead) <= 1 + 1 + 3  # waiting, written, and computed


def test_error_of_the_writing_thread_ends_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: ArchiveWriter, entry: Encoded | Failure) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ArchiveWriter, "add_block", full)
    data = make_data(tmp_path, 3)
    assert "No space left" in said_by(data, status=255)
    assert not list((data / "data").iterdir())


@pytest.mark.parametrize("starts", [True, False])
def test_workers_that_die_again_and_again_stop_the_job(monkeypatch: pytest.MonkeyPatch, starts: bool) -> None:
    team, said = team_of(monkeypatch, "cpu", "cpu")
    shard = team.workers[0].shard
    cause = (
        "ended with status 1: see the messages above, unless code in the worker has ended the process, as os._exit does"
    )
    text = (
        f"3 workers died while writing archive 3: the last worker {cause}"
        if starts
        else f"worker processes end before they start to write archives: the last worker {cause}"
    )
    for _ in range(2):
        team.workers[0].shard = shard if starts else None
        team._handle_message(team.workers[0], None)
    assert list(team.waiting) == ([shard] * 2 if starts else []) and len(team.workers) == 2 and not said
    team.workers[0].shard = shard if starts else None
    with pytest.raises(DumpError, match=f"^{re.escape(text)}$"):
        team._handle_message(team.workers[0], None)


def test_messages_of_workers_are_handled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    team, _ = team_of(monkeypatch, "cpu", "cpu")
    first, shard = team.workers[0], team.workers[0].shard
    shown: list[Any] = []
    team.monitor.record_progress, team.monitor.record_complete_archive = (
        lambda *counts: shown.append(counts),
        shown.append,
    )
    team.job = SimpleNamespace(layout=Layout.from_paths(tmp_path, "fbank"))
    team._handle_message(first, ("progress", 3, 1, 2.5, 0))
    with pytest.raises(DumpError, match="bad data"):
        team._handle_message(first, ("stop", DumpError("bad data")))
    with pytest.raises(OutputError, match=r"\.3\.ark was written, but has disappeared or changed since: run the job"):
        team._handle_message(first, ("done", 3))
    assert first.shard is shard
    monkeypatch.setattr(workers, "read_manifest", lambda layout, number: f"manifest {number}")
    team._handle_message(first, ("done", 3))
    assert first.shard is None and shown == [(3, 1, 2.5, 0), "manifest 3"] and not team.waiting and not team.tries


def test_worker_reports_at_most_every_fifth_of_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now, sent = [100.0], list[Any]()
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    report = workers._make_reporter(SimpleNamespace(send=sent.append), Shard(7, 0, 10, 1))
    for count, seconds in enumerate((100.1, 100.25, 100.3, 100.44, 100.5)):
        now[0] = seconds
        report(count, 1.5, 0)
    assert sent == [("progress", 7, 1, 1.5, 0), ("progress", 7, 4, 1.5, 0)]


@pytest.mark.parametrize(("nj", "cores", "shards", "used"), [(4, 2, 9, 2), (2, 4, 9, 2), (4, 4, 3, 3), (4, 1, 9, 0),
                                                             (4, 4, 1, 0), (4, 4, 0, None)])  # fmt: skip
def test_workers_on_a_cpu_are_no_more_than_cores_and_archives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nj: int, cores: int, shards: int, used: int | None
) -> None:
    """One worker is this process, which is 0 here; without archives there is none."""
    started: list[int] = []
    done: list[Any] = []

    def start(job: Any, plan: Any, shards: Any, monitor: Any, devices: Sequence[str]) -> Any:
        return SimpleNamespace(run=lambda: started.append(len(devices)))

    def open_runner(*_: Any, **options: Any) -> Any:
        assert options == {"owns_process": False}
        started.append(0)
        return lambda shard, report: shard.number

    monkeypatch.setattr(workers, "_Workers", start)
    monkeypatch.setattr(workers, "_open_runner", open_runner)
    monkeypatch.setattr(workers, "count_cores", lambda: cores)
    job = Job(Layout.from_paths(tmp_path, "fbank"), DumpOptions(nj=nj))
    monitor = cast(Any, SimpleNamespace(record_complete_archive=done.append, record_progress=print, say=None))
    workers.write_archives_locally(job, cast(Any, None), [Shard(i + 1, 0, 10, 1) for i in range(shards)], monitor)
    assert started == ([] if used is None else [used])
    assert done == (list(range(1, shards + 1)) if used == 0 else [])


@pytest.mark.parametrize(("text", "error", "message"), [
    ("CUDA-capable device(s) is/are busy or unavailable", UnavailableError, "^cuda:3 is in use by another process"),
    ("a mistake in the program", RuntimeError, "^a mistake in the program$"),
])  # fmt: skip
def test_gpu_that_cannot_be_opened_is_told_from_other_errors(
    monkeypatch: pytest.MonkeyPatch, text: str, error: type[Exception], message: str
) -> None:
    def prepare(device: str, max_memory: float) -> None:
        assert (device, max_memory) == ("cuda:3", 2.0)
        raise RuntimeError(text)

    monkeypatch.setattr(workers, "prepare_device", prepare)
    job = Job(Layout.from_paths("data", "fbank"), DumpOptions(device="cuda", max_device_memory=2.0))
    with pytest.raises(error, match=message):
        workers._open_runner(job, cast(Any, None), "cuda:3", owns_process=False)


@pytest.mark.parametrize(("error", "kind"), [
    (UnavailableError("busy"), "unavailable"), (LostDeviceError("gone"), "lost"), (DumpError("bad"), "stop"),
    (EOFError(), None),
])  # fmt: skip
@pytest.mark.parametrize("is_alone", [False, True])
def test_worker_tells_its_parent_why_it_ends(
    monkeypatch: pytest.MonkeyPatch, error: Exception, kind: str | None, is_alone: bool
) -> None:
    """A worker whose parent has ended as well says nothing."""
    sent: list[Any] = []

    def open_runner(*_: Any, **options: Any) -> Any:
        assert options == {"owns_process": True}
        raise error

    def send(message: Any) -> None:
        if is_alone and kind == "stop":
            raise BrokenPipeError
        sent.append(message)

    owned: list[str] = []  # Names of extractors whose forked children end, if their code forks in the worker.
    for name in ("end_with_parent", "_end_after_parent"):
        monkeypatch.setattr(workers, name, lambda *_: None)
    monkeypatch.setattr(workers, "make_source", lambda job: SimpleNamespace(label="Extractor"))
    monkeypatch.setattr(workers, "register_job_process", owned.append)
    monkeypatch.setattr(workers, "_open_runner", open_runner)
    workers._run_worker(SimpleNamespace(send=send), None, cast(Any, None), cast(Any, None), "cpu")
    assert [message[0] for message in sent] == ([kind] if kind and not (is_alone and kind == "stop") else [])
    assert all(str(message[1]) == str(error) for message in sent) and owned == ["Extractor"]
