"""Write the archives of a plan on this machine, in this process or in worker processes, which may be killed."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import connection, current_process, get_context, resource_tracker
from typing import Any

from kaldi_compat.dump.devices import explain_unavailable, parse_devices, prepare_device, watch_device
from kaldi_compat.dump.errors import (
    DumpError,
    LostDeviceError,
    OutputError,
    UnavailableError,
    convert_to_user_error,
    format_error,
)
from kaldi_compat.dump.model import must_compare_extractor
from kaldi_compat.dump.options import Job
from kaldi_compat.dump.plan import DumpPlan, Shard
from kaldi_compat.dump.progress import Monitor
from kaldi_compat.dump.shard import ProgressReporter, ShardRunner
from kaldi_compat.dump.sources import make_source
from kaldi_compat.dump.user_code import end_fork, end_with_parent, get_signal_name, register_job_process
from kaldi_compat.dump.write import Counts, DamagedError, clear_unfinished_files, read_manifest, verify_manifest

TRIES = 3  # The job fails when this many workers have died, or lost their GPU, while writing the same archive.
SECONDS_BETWEEN_REPORTS = 0.2
UNCAUGHT_STATUS = 1  # Exit status of Python after an exception, such as an error in importing the main module.
SECONDS_TO_DIE = 5.0  # Time to wait for the exit status of a worker that has closed its connection.


def write_archives_locally(job: Job, plan: DumpPlan, shards: Sequence[Shard], monitor: Monitor) -> None:
    """Write the archives of ``shards`` on this machine, in worker processes, or in this process if one worker suffices.

    Without ``shards``, only compare the extractor with the plan, if necessary. Raise :class:`DumpError` if archives
    cannot be written, or if this process is daemonic, so that it cannot start workers.
    """
    devices = parse_devices(job.options.device)
    max_workers = max(job.options.nj, len(devices)) if job.options.on_gpu else min(job.options.nj, count_cores())
    worker_count = min(max_workers, len(shards))
    if job.options.on_gpu and 0 < worker_count < len(devices):
        monitor.say(f"the job uses {worker_count} of {len(devices)} GPUs, because there are no more archives to write")
    if worker_count > 1:
        if current_process().daemon:
            raise DumpError("a daemonic process, such as a worker of multiprocessing.Pool, cannot start worker "
                            "processes: compute in this process with --nj=1")  # fmt: skip
        _Workers(job, plan, shards, monitor, [devices[i % len(devices)] for i in range(worker_count)]).run()
    elif shards or must_compare_extractor(job):
        runner = _open_runner(job, plan, devices[0], owns_process=False)
        for shard in shards:
            with watch_device(devices[0]):
                manifest = runner(shard, partial(monitor.record_progress, shard.number))
                monitor.record_complete_archive(manifest)


def _open_runner(job: Job, plan: DumpPlan, device: str, *, owns_process: bool) -> ShardRunner:
    """Return a runner that computes on a device. Raise UnavailableError if the device is a GPU that is unavailable."""
    try:
        prepare_device(device, job.options.max_device_memory)
        return ShardRunner(job, plan, device, owns_process=owns_process)
    except RuntimeError as error:
        if (reason := explain_unavailable(error, device)) is None:
            raise
        raise UnavailableError(reason) from error


@dataclass
class _Worker:
    """The parent's view of a worker process."""

    process: Any  # The process object of multiprocessing.
    tasks: Any  # Connection that sends shards to the worker and receives its messages.
    lifeline: Any  # Connection that sends nothing. When the parent closes it or ends, the worker ends.
    device: str  # Device that the worker computes on, such as "cuda:0".
    shard: Shard | None = None  # The shard that the worker writes; None for an idle worker.


class _Workers:
    """Worker processes, one for each element of ``devices``, and the shards that wait to be written."""

    def __init__(
        self, job: Job, plan: DumpPlan, shards: Sequence[Shard], monitor: Monitor, devices: Sequence[str]
    ) -> None:
        self.job, self.plan, self.monitor = job, plan, monitor
        self.waiting = deque(shards)
        self.tries: Counter[int] = Counter()  # Failed workers by shard number, or by 0 if they had no shard.
        self.lost: set[str] = set()  # Devices that have stopped working in a worker.
        self.workers = [_start_worker(job, plan, device) for device in devices]

    def run(self) -> None:
        """Let workers write all archives. Replace dead workers. Finally, kill all workers and clean up their files."""
        try:
            while self.waiting or any(worker.shard for worker in self.workers):
                for worker in self.workers:
                    if worker.shard is None and self.waiting:
                        worker.shard = self.waiting.popleft()
                        with contextlib.suppress(OSError):  # Sending to a dead worker fails. It will be replaced.
                            worker.tasks.send(worker.shard)
                handles = {worker.tasks: worker for worker in self.workers}
                handles |= {worker.process.sentinel: worker for worker in self.workers}
                ready_workers = [handles[handle] for handle in connection.wait(list(handles))]
                # A worker that has sent a message and died is in the list twice, but is handled once.
                for worker in {id(worker): worker for worker in ready_workers}.values():
                    for message in _receive_messages(worker):
                        self._handle_message(worker, message)
        finally:
            for worker in self.workers:
                _end_worker(worker)
                if worker.shard:
                    clear_unfinished_files(self.job.layout, worker.shard.number, self.plan.trial)

    def _handle_message(self, worker: _Worker, message: tuple[Any, ...] | None) -> None:
        """Handle a message (kind and values), or None if the worker is dead. Raise the error of a message "stop"."""
        if message is None:
            self._replace_worker(worker)
            return
        kind, *values = message
        if kind == "progress":
            self.monitor.record_progress(*values)
        elif kind == "done":
            self._finish_archive(worker, values[0])
        elif kind == "lost":
            self.lost.add(worker.device)
            self.monitor.say(f"a new worker replaces a worker that lost its GPU: {values[0]}")
            self._replace_worker(worker, values[0])
        elif kind == "unavailable":
            self.workers.remove(worker)
            self._continue_without_worker(worker, values[0])
        else:
            raise values[0]

    def _finish_archive(self, worker: _Worker, shard: int) -> None:
        """Record shard number ``shard``, whose worker becomes idle. Raise OutputError if the shard is incomplete."""
        manifest = read_manifest(self.job.layout, shard)
        if manifest is None:
            path = self.job.layout.get_archive(shard)
            raise OutputError(
                f"{path} was written, but has disappeared or changed since: run the job again with --resume"
            )
        worker.shard = None
        self.monitor.record_complete_archive(manifest)

    def _continue_without_worker(self, worker: _Worker, error: DumpError) -> None:
        """End a worker whose GPU is unavailable, and put its archive back into the queue.

        Raises:
            DumpError: ``error``, if no worker is left, or if no other worker uses the GPU and no worker has lost it.
        """
        _end_worker(worker)
        if not any(other.device == worker.device or worker.device in self.lost for other in self.workers):
            raise error
        self.monitor.say(f"a worker of {worker.device} has ended: {error}")
        if worker.shard:
            self.waiting.appendleft(worker.shard)

    def _replace_worker(self, worker: _Worker, error: LostDeviceError | None = None) -> None:
        """Replace a worker that died or, with ``error``, lost its device. Queue the worker's archive again.

        Do nothing if the worker was replaced before.

        Raises:
            DumpError: TRIES workers have failed while writing this archive, or before writing any archive.
        """
        if worker not in self.workers:
            return
        if error is None:
            # A dead process closes its pipe before it has a status, which _end_worker() would change by killing it.
            worker.process.join(SECONDS_TO_DIE)
        self.workers[self.workers.index(worker)] = _start_worker(self.job, self.plan, worker.device)
        code = worker.process.exitcode
        _end_worker(worker)
        shard, cause = worker.shard, describe_ending(code)
        shard_number = shard.number if shard else 0
        self.tries[shard_number] += 1
        if self.tries[shard_number] >= TRIES:
            fault = "worker processes end before they start to write archives"
            if shard:
                fault = f"{TRIES} workers died while writing archive {shard_number}"
            raise error or DumpError(f"{fault}: the last worker {cause}")
        if shard:
            self.monitor.record_lost_archive(shard_number)
            self.waiting.appendleft(shard)


def describe_ending(code: int | None) -> str:
    """Describe the unexpected end of a worker. ``code`` is its exit status, such as -9 for SIGKILL, or None."""
    if code is None:
        return "closed its connection without an exit status"
    if code >= 0:
        uncaught = "see the messages above, unless " if code == UNCAUGHT_STATUS else ""
        return f"ended with status {code}: {uncaught}code in the worker has ended the process, as os._exit does"
    name = get_signal_name(-code)
    return f"was killed by {name}" + (": check that there is enough memory" if name == "SIGKILL" else "")


def _start_worker(job: Job, plan: DumpPlan, device: str) -> _Worker:
    """Start a worker process, which blocks SIGINT and ends with this process."""
    # A worker is spawned, because a child that is forked from a process with threads or an open GPU may fail.
    context = get_context("spawn")
    our_end, worker_end = context.Pipe()
    worker_lifeline, lifeline = context.Pipe(duplex=False)  # The worker ends when no process holds ``lifeline`` open.
    process = context.Process(target=_run_worker, args=(worker_end, worker_lifeline, job, plan, device), daemon=True)
    with postpone_interrupts(), _explain_pickling(job):
        process.start()
    worker_end.close()
    worker_lifeline.close()
    return _Worker(process, our_end, lifeline, device)


@contextlib.contextmanager
def _explain_pickling(job: Job) -> Iterator[None]:
    """Convert exceptions except OSError to a :class:`DumpError` about pickling, if the job has an extractor object."""
    try:
        yield
    except Exception as error:
        if job.extractor is None or isinstance(error, OSError):
            raise
        raise DumpError(
            f"{job.feature} cannot be sent to worker processes ({type(error).__name__}: {format_error(error)}): define "
            "it at the top level of a module, or compute in this process with --nj=1"
        ) from error


def refuse_start_in_worker(job: Job) -> None:
    """Raise :class:`DumpError` if a worker process starts a dump while it imports the main module.

    This happens if a script starts a dump without ``if __name__ == '__main__'``.
    """
    if getattr(current_process(), "_inheriting", False):  # multiprocessing has no public name for this state.
        remedy = ", or compute in this process with --nj=1" if job.options.nj > 1 else ""
        raise DumpError(
            "each worker process imports the main module, which starts a dump: put the call under "
            f"if __name__ == '__main__'{remedy}"
        )


@contextlib.contextmanager
def postpone_interrupts() -> Iterator[None]:
    """Block SIGINT in processes that the ``with`` block starts, and handle SIGINT in this process after the block.

    A signal that this thread blocks may still reach the process through another thread, such as a BLAS thread. So in
    the main thread, the handler of SIGINT is also replaced during the block.
    """
    resource_tracker.ensure_running()  # Starting the tracker later would unblock SIGINT.
    handler = signal.getsignal(signal.SIGINT)
    is_handled_here = callable(handler) and threading.current_thread() is threading.main_thread()
    received_arguments: list[tuple[Any, ...]] = []
    old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    if is_handled_here:
        signal.signal(signal.SIGINT, lambda *arguments: received_arguments.append(arguments))
    try:
        yield
    finally:
        if is_handled_here:
            signal.signal(signal.SIGINT, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)
        if received_arguments and callable(handler):
            handler(*received_arguments[0])


def _receive_messages(worker: _Worker) -> Iterator[tuple[Any, ...] | None]:
    """Yield the messages that a worker has sent, without waiting, and None if the worker is dead."""
    try:
        while worker.tasks.poll():
            yield worker.tasks.recv()
    except (EOFError, OSError):
        yield None


def _end_worker(worker: _Worker) -> None:
    """Kill a worker, and close the connections to it."""
    worker.process.kill()  # A process that lost its device may wait for the device and never end by itself.
    worker.process.join()
    worker.tasks.close()
    worker.lifeline.close()


def _run_worker(tasks: Any, lifeline: Any, job: Job, plan: DumpPlan, device: str) -> None:
    """Write the archives of each shard that the parent sends over the connection ``tasks``, until it is closed.

    The results are sent over the same connection: ("done", shard number), or, for an error that ends the worker,
    ("unavailable", "lost" or "stop", error). When the parent closes ``lifeline`` or ends, this process also ends.
    """
    end_with_parent()  # Linux ends this process even if a call blocks the thread below.
    threading.Thread(target=_end_after_parent, args=(lifeline,), daemon=True).start()
    if source := make_source(job):
        register_job_process(source.label)
    try:
        try:
            runner = _open_runner(job, plan, device, owns_process=True)
        except UnavailableError as error:
            tasks.send(("unavailable", error))
            return
        while True:
            shard = tasks.recv()
            with watch_device(device):
                runner(shard, _make_reporter(tasks, shard))
            end_fork()
            tasks.send(("done", shard.number))
    except EOFError:
        return
    except LostDeviceError as error:
        tasks.send(("lost", error))
    except Exception as error:
        with contextlib.suppress(OSError):  # The parent may have ended.
            tasks.send(("stop", convert_to_user_error(error)))


def _end_after_parent(lifeline: Any) -> None:
    """Wait until the parent closes the connection ``lifeline`` or ends. Then end this process."""
    with contextlib.suppress(EOFError, OSError):
        lifeline.recv()
    os._exit(1)


def _make_reporter(parent: Any, shard: Shard) -> ProgressReporter:
    """Return a function that sends the progress of ``shard`` to the parent process over the connection ``parent``."""
    last_time = time.monotonic()

    def report_progress(utterances: int, seconds: float, failures: int) -> None:
        """Send the counts, unless less than SECONDS_BETWEEN_REPORTS seconds have passed since the previous report."""
        nonlocal last_time
        if time.monotonic() - last_time >= SECONDS_BETWEEN_REPORTS:
            last_time = time.monotonic()
            parent.send(("progress", shard.number, utterances, seconds, failures))

    return report_progress


def list_complete_archives(job: Job, plan: DumpPlan) -> dict[int, Counts]:
    """Return the counts of the shards whose files are complete, by shard number. Only sizes are compared."""
    manifests = ((shard.number, read_manifest(job.layout, shard.number)) for shard in plan.shards)
    return {number: manifest.counts for number, manifest in manifests if manifest is not None}


def verify_archives(job: Job, shards: Sequence[Shard], say: Callable[[str], object]) -> dict[int, Counts]:
    """Verify the files of shards, and return the counts of the complete shards by shard number.

    Checksums are compared only with ``--verify``. A shard without a manifest is incomplete. A damaged shard is reported
    with ``say``, and its manifest is deleted, so that it is created again.
    """
    options, counts = job.options, dict[int, Counts]()
    check = partial(verify_manifest, job.layout, checksums=options.verify)
    with ThreadPoolExecutor(min(options.nj, count_cores())) as pool:
        for number, verification in [(shard.number, pool.submit(check, shard.number)) for shard in shards]:
            try:
                if manifest := verification.result():
                    counts[number] = manifest.counts
            except DamagedError as damage:
                say(f"archive {number} is created again: {damage}")
                job.layout.get_manifest(number).unlink(missing_ok=True)
    return counts


def count_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
