"""Runs the archives of a plan on this machine: in this process, or in worker processes that may die."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import connection, get_context, resource_tracker
from typing import Any

from kaldi_compat.dump.devices import devices_of, prepare_device
from kaldi_compat.dump.errors import OutputError, WorkerError, told
from kaldi_compat.dump.options import Job
from kaldi_compat.dump.plan import Plan, Shard
from kaldi_compat.dump.progress import Monitor
from kaldi_compat.dump.shard import ShardRunner
from kaldi_compat.dump.write import Counts, clear_unfinished, read_manifest

TRIES = 3
SECONDS_BETWEEN_REPORTS = 0.2


def run_local(job: Job, plan: Plan, shards: Sequence[Shard], monitor: Monitor) -> None:
    """Make these archives.

    Raises:
        DumpError: something that stops the job; archives that are complete stay.
    """
    devices = devices_of(job.options.device)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    most = max(job.options.nj, len(devices)) if job.options.on_gpu else min(job.options.nj, cores)
    count = min(most, len(shards))
    if count > 1:
        _run_workers(job, plan, shards, monitor, [devices[i % len(devices)] for i in range(count)])
    elif shards:
        prepare_device(devices[0], job.options.max_device_memory)
        runner = ShardRunner(job, plan, devices[0])
        for shard in shards:
            monitor.done(runner(shard, lambda *counts, shard=shard: monitor.progress(shard.number, *counts)))


@dataclass
class _Worker:
    """A worker process as its parent sees it."""

    process: Any
    tasks: Any  # connection: shards to it, reports from it
    lifeline: Any  # closing it, or dying, ends the worker
    device: str
    shard: Shard | None = None


def _run_workers(job: Job, plan: Plan, shards: Sequence[Shard], monitor: Monitor, devices: Sequence[str]) -> None:
    waiting = deque(shards)
    tries: Counter[int] = Counter()
    workers = [_start(job, plan, device) for device in devices]
    try:
        while waiting or any(worker.shard for worker in workers):
            for worker in workers:
                if worker.shard is None and waiting:
                    _give(worker, waiting.popleft())
            handles = {worker.tasks: worker for worker in workers} | {w.process.sentinel: w for w in workers}
            for worker in {id(handles[ready]): handles[ready] for ready in connection.wait(list(handles))}.values():
                for message in _messages(worker):
                    if message is not None:
                        _hear(worker, message, job, monitor)
                    else:
                        workers[workers.index(worker)] = _start(job, plan, worker.device)
                        _bury(worker, waiting, tries, monitor)
    finally:
        for worker in workers:
            worker.process.kill()
        for worker in workers:
            worker.process.join()
            worker.tasks.close()
            worker.lifeline.close()
            if worker.shard:
                clear_unfinished(job.layout, worker.shard.number)


def _start(job: Job, plan: Plan, device: str) -> _Worker:
    # A forked child of a process that has threads, or a GPU open, is not safe to use.
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    listening, lifeline = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(theirs, listening, job, plan, device), daemon=True)
    with _interrupts_held():
        process.start()
    theirs.close()
    listening.close()
    return _Worker(process, ours, lifeline, device)


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """A process that is started meanwhile hears no ^C: its parent, which hears it afterwards, decides what it means."""
    resource_tracker.ensure_running()  # which lets ^C through again when it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _messages(worker: _Worker) -> Iterator[tuple[Any, ...] | None]:
    """What a worker has to say; at last None if it is dead."""
    try:
        while worker.tasks.poll():
            yield worker.tasks.recv()
    except (EOFError, OSError):
        yield None


def _give(worker: _Worker, shard: Shard) -> None:
    worker.shard = shard
    with contextlib.suppress(OSError):  # a worker that died is found dead by its sentinel
        worker.tasks.send(shard)


def _hear(worker: _Worker, message: tuple[Any, ...], job: Job, monitor: Monitor) -> None:
    kind, *rest = message
    if kind == "progress":
        monitor.progress(*rest)
    elif kind == "done":
        manifest = read_manifest(job.layout, rest[0])
        if manifest is None:
            raise OutputError(f"{job.layout.archive(rest[0])} was written, but is not there any more")
        worker.shard = None
        monitor.done(manifest)
    else:
        raise rest[0]


def _bury(worker: _Worker, waiting: deque[Shard], tries: Counter[int], monitor: Monitor) -> None:
    """Have what a dead worker was at done again by another one."""
    worker.process.join()
    worker.tasks.close()
    worker.lifeline.close()
    shard = worker.shard
    if shard is None:
        tries[0] += 1
        if tries[0] >= TRIES:
            raise WorkerError(f"worker processes end before they start ({_ending(worker.process.exitcode)})")
        return
    tries[shard.number] += 1
    if tries[shard.number] >= TRIES:
        raise WorkerError(
            f"{TRIES} workers died at archive {shard.number}, the last one {_ending(worker.process.exitcode)}: "
            "is there enough memory?"
        )
    monitor.lost(shard.number)
    waiting.appendleft(shard)


def _ending(code: int | None) -> str:
    return f"by signal {-code}" if code and code < 0 else f"with status {code}"


def _work(tasks: Any, lifeline: Any, job: Job, plan: Plan, device: str) -> None:
    """A worker's life: archives as they are given, until its parent is gone."""
    threading.Thread(target=_end_with_parent, args=(lifeline,), daemon=True).start()
    try:
        prepare_device(device, job.options.max_device_memory)
        runner = ShardRunner(job, plan, device, owns_process=True)
        while True:
            shard = tasks.recv()
            runner(shard, _reporter(tasks, shard))
            tasks.send(("done", shard.number))
    except EOFError:
        return
    except Exception as error:
        with contextlib.suppress(OSError):  # the parent is gone, and this process will be
            tasks.send(("stop", told(error)))


def _end_with_parent(lifeline: Any) -> None:
    with contextlib.suppress(EOFError, OSError):
        lifeline.recv()
    os._exit(1)


def _reporter(tasks: Any, shard: Shard) -> Any:
    last = time.monotonic()

    def report(*counts: float) -> None:
        nonlocal last
        if time.monotonic() - last >= SECONDS_BETWEEN_REPORTS:
            last = time.monotonic()
            tasks.send(("progress", shard.number, *counts))

    return report


def complete(job: Job, plan: Plan) -> dict[int, Counts]:
    """What was done of each archive that is complete, by its number."""
    found = ((shard.number, read_manifest(job.layout, shard.number)) for shard in plan.shards)
    return {number: manifest.counts for number, manifest in found if manifest is not None}
