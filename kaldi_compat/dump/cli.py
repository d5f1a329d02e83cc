"""kaldi-compat: jobs on whole data directories. ``kaldi-compat dump`` is the one that there is."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kaldi_compat.cli.program import end_of_process, open_closed_streams
from kaldi_compat.dump.arguments import parse_arguments
from kaldi_compat.dump.devices import devices_of
from kaldi_compat.dump.errors import told
from kaldi_compat.dump.files import check_writable, make_directory
from kaldi_compat.dump.finalize import Outcome, finish, start_over
from kaldi_compat.dump.lock import lock_alone, lock_with_others, share
from kaldi_compat.dump.options import DumpOptions, Job, Layout
from kaldi_compat.dump.plan import Plan, check_inputs, check_plan, check_speakers, make_plan, read_plan, write_plan
from kaldi_compat.dump.progress import HOUR, Monitor
from kaldi_compat.dump.spectral import check_warps, configured_options
from kaldi_compat.dump.speed_perturb import make_speed_directory
from kaldi_compat.dump.workers import complete, run_local
from kaldi_compat.errors import INTERRUPTED_STATUS, OptionError

FAILED_STATUS, INVALID_STATUS, ERROR_STATUS = 1, 2, 255
AT_ONCE = "kaldi-compat: interrupted again, and ended at once; --resume goes on from what is complete\n"
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def main(argv: Sequence[str] | None = None) -> int:
    """Run this command line and return the exit status; without one, this process's, which may end here."""
    if argv is None:
        open_closed_streams()
        return end_of_process(_run(sys.argv[1:]))
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        return _run(argv)
    finally:
        for number, handler in handlers.items():
            with contextlib.suppress(ValueError):  # not in the main thread, so it was not changed
                signal.signal(number, handler)


def _run(argv: Sequence[str]) -> int:
    try:
        given = parse_arguments(argv)
    except OptionError as error:
        return _say(str(error), INVALID_STATUS)
    if given.text:
        print(given.text, flush=True)
        return 0
    take_signals()
    try:
        values: dict[str, Any] = given.values or {}
        job = Job(Layout.of(given.data, given.feature, given.log, given.archives), DumpOptions(**values))
        return dump(job)
    except KeyboardInterrupt:
        return _say("interrupted; what is complete stays, and --resume goes on from there", INTERRUPTED_STATUS)
    except Exception as error:
        return _say(str(told(error)), ERROR_STATUS)


def take_signals() -> None:
    """Let ^C, and SIGTERM, which batch systems send before they kill, end the job in order; once more, at once."""
    if threading.current_thread() is not threading.main_thread():
        return
    taken = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]

    def end_at_once(*_: object) -> None:
        with contextlib.suppress(OSError):
            os.write(2, AT_ONCE.encode())
        os._exit(INTERRUPTED_STATUS)

    def end_in_order(*_: object) -> None:
        for number in taken:
            signal.signal(number, end_at_once)
        raise KeyboardInterrupt

    for number in taken:
        signal.signal(number, end_in_order)


def _say(message: str, status: int) -> int:
    with contextlib.suppress(OSError, ValueError):
        print(f"kaldi-compat: {message}", file=sys.stderr, flush=True)
    return status


def dump(job: Job) -> int:
    """Do a job, or go on with it, and return the exit status.

    Raises:
        DumpError: it cannot be started or cannot go on; archives that are complete stay.
    """
    check_inputs(job)
    # What cannot be meant is refused before anything is touched.
    configured_options(job)
    check_warps(job)
    if job.options.report:
        check_writable(Path(job.options.report))
    if job.options.engine == "local":
        devices_of(job.options.device)
    job = with_speeds(job)
    check_speakers(job)
    number, parts = job.options.part
    with planned(job) as plan:
        mine = plan.part(number, parts)
        done = complete(job, plan)
        before = {shard.number: done[shard.number] for shard in mine if shard.number in done}
        monitor = Monitor(sum(shard.count for shard in mine), job.options.max_failures, before)
        try:
            _engine(job)(job, plan, [shard for shard in mine if shard.number not in before], monitor)
        finally:
            monitor.close()
        missing = len(plan.shards) - len(complete(job, plan))
        if missing:
            return _say(f"part {number} of {parts} is done; {missing} archives are left to other parts", 0)
        outcome = finish(job, plan)
        summarize(job, outcome, monitor)
        if job.options.report:
            from kaldi_compat.dump.report import write_report

            write_report(job, plan, outcome, monitor)
    if not outcome.good_enough:
        return _say("fewer than 95% of the utterances have features: probably a serious error", FAILED_STATUS)
    return 0


def _engine(job: Job) -> Any:
    if job.options.engine == "local":
        return run_local
    from kaldi_compat.dump.ray_engine import run_on_ray

    return run_on_ray


def with_speeds(job: Job) -> Job:
    """The job on the data directory of changed speeds, which is made; or the job itself."""
    if not job.options.speeds:
        return job
    source, target = job.layout.data, Path(job.options.speed_dir)
    layout = job.layout
    # Directories that were not given follow the new data directory.
    log = "" if layout.log == source / "log" else layout.log
    archives = "" if layout.archives == (source / "data").absolute() else layout.archives
    changed = replace(job, layout=Layout.of(target, layout.feature, log, archives))
    goes_on = job.options.resume or job.options.shard
    if not (goes_on and changed.layout.plan.exists()):
        make_speed_directory(source, target, job.options.speed_factors)
    return changed


@contextlib.contextmanager
def planned(job: Job) -> Iterator[Plan]:
    """The plan, made or read, while nobody else works on the same archives except on other parts of the plan."""
    layout = job.layout
    make_directory(layout.log)
    in_parts = bool(job.options.shard)
    lock = lock_with_others(layout.lock, layout.plan) if in_parts else lock_alone(layout.lock)
    try:
        if job.options.resume or (in_parts and layout.plan.exists()):
            plan = read_plan(layout.plan)
            check_plan(plan, job, layout.plan)
        else:
            plan = make_plan(job)
            start_over(layout, plan)
            write_plan(plan, layout.plan)
        if in_parts:
            share(lock, layout.lock)
        yield plan
    finally:
        os.close(lock)


def summarize(job: Job, outcome: Outcome, monitor: Monitor) -> None:
    """Print how it went."""
    lines = [
        f"{outcome.utterances} of {outcome.wanted} utterances have {job.feature} features: "
        f"{outcome.seconds / HOUR:.2f} hours of audio, {len(outcome.failures)} failures",
        f"this run took {monitor.elapsed:.1f} s, {monitor.speed:.0f} times real time; bound by: {outcome.bound}",
    ]
    if peak := outcome.work.get("peak_device_memory"):
        lines.append(f"peak device memory of a worker: {peak / 2**30:.2f} GiB")
    lines += [f"  {key}: {reason}" for key, reason in outcome.failures[:5]]
    if len(outcome.failures) > 5:
        lines.append(f"  and {len(outcome.failures) - 5} more: see {job.layout.failures}")
    for line in lines:
        _say(line, 0)
