"""The command ``kaldi-compat dump``, and those of ``kaldi-compat`` that only print something."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import Any

from io_ark.text import printable
from kaldi_compat.cli.program import end_of_process, open_closed_streams, printing
from kaldi_compat.dump.arguments import parse_arguments
from kaldi_compat.dump.commands import COMMANDS
from kaldi_compat.dump.configuration import OWN_FLAGS, as_text, conf_texts
from kaldi_compat.dump.devices import devices_of
from kaldi_compat.dump.errors import DumpError, as_user_error
from kaldi_compat.dump.failures import by_reason
from kaldi_compat.dump.files import check_writable, make_directory
from kaldi_compat.dump.finalize import (
    Outcome,
    finalize,
    prepare_archives,
    start_over,
)
from kaldi_compat.dump.inputs import InputWatch, digests_of_files, stamps_of
from kaldi_compat.dump.lock import check_system, lock, share
from kaldi_compat.dump.model import MATRIX, try_extractor
from kaldi_compat.dump.options import FEATURES, SOURCES, Job, Layout
from kaldi_compat.dump.outputs import check_outputs, check_speed_outputs, clear_all_unfinished
from kaldi_compat.dump.plan import (
    DumpPlan,
    check_inputs,
    check_places,
    lines_of,
    listing_of,
    make_plan,
    read_plan,
    update_plan,
    write_plan,
)
from kaldi_compat.dump.progress import HOUR, Monitor
from kaldi_compat.dump.sources import option_of, source_of
from kaldi_compat.dump.speakers import check_speakers
from kaldi_compat.dump.spectral import check_feature
from kaldi_compat.dump.speed_perturb import make_speed_directory
from kaldi_compat.dump.user_code import Interrupted, supervise
from kaldi_compat.dump.workers import complete, cores, run_local, verify_archives
from kaldi_compat.dump.write import read_manifest
from kaldi_compat.errors import INTERRUPTED_STATUS, KaldiCompatError, OptionError
from kaldi_compat.options.base import require
from kaldi_compat.options.config import normalize

FAILED_STATUS, INVALID_STATUS, ERROR_STATUS = 1, 2, 255
AT_ONCE = "kaldi-compat: interrupted, and ended at once; --resume continues with what is missing\n"
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
# Time after a signal in which the job ends in order, before it ends at once.
SECONDS_TO_END = 1.5
REASONS_SHOWN = 5
# What the summary says of utterances that archives count.
NOTES = {
    "computed_on_cpu": "did not fit into a GPU's memory when it was their turn, and ran on the CPU",
    "without_kernels": "ran on GPUs without the fused kernels: the .log files say why",
    "resampled": "with another sampling rate {verb} resampled",
    "uncompressed": "with NaN or infinite features {verb} not compressed: see the .log files",
}
INTERRUPTED = "interrupted; what is complete is kept, and --resume continues with what is missing"


def main(argv: Sequence[str] | None = None) -> int:
    """Run this command line and return the exit status; without one, this process's, which may end here."""
    if argv is None:
        open_closed_streams()
        status = _run(sys.argv[1:], is_program=True)
        if status == INTERRUPTED_STATUS:
            os._exit(status)  # Python would wait for threads, which may wait for a file that nobody writes
        return end_of_process(status)
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        return _run(argv)
    finally:
        for number, handler in handlers.items():
            with contextlib.suppress(ValueError):  # not in the main thread, so it was not changed
                signal.signal(number, handler)


def _run(argv: Sequence[str], *, is_program: bool = False) -> int:
    try:
        given = parse_arguments(argv)
    except OptionError as error:
        return _say(str(error), INVALID_STATUS)
    if isinstance(given, str):
        return printing(lambda: print(given) or 0)
    if is_program and (source := source_of(given)) and hasattr(os, "fork"):
        return supervise(lambda: _run_job(given), source.label, _say)
    return _run_job(given)


def _run_job(job: Job) -> int:
    deadline = Deadline(SECONDS_TO_END, end_at_once)
    take_signals(deadline)
    try:
        with COMMANDS.allowed():
            outcome = run(job)
        if not outcome.good_enough:
            return _say("fewer than 95% of the utterances have features: probably a serious error", FAILED_STATUS)
        return 0
    except KeyboardInterrupt:
        return _say(INTERRUPTED, INTERRUPTED_STATUS)
    except Exception as error:
        return _say(str(as_user_error(error)), ERROR_STATUS)
    finally:
        deadline.cancel()


class Deadline:
    """Calls a function in a thread some time after :meth:`start`.

    A signal handler may start it: it does so by a write to a pipe, since a new thread would wait for locks that the
    interrupted code may hold.
    """

    def __init__(self, seconds: float, call: Callable[[], object]) -> None:
        self._listening, self._writing = os.pipe()
        self._cancelled = threading.Event()
        threading.Thread(target=self._wait, args=(seconds, call), name="deadline", daemon=True).start()

    def _wait(self, seconds: float, call: Callable[[], object]) -> None:
        if hasattr(signal, "pthread_sigmask"):  # not on Windows
            signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # this thread must not take them while the main one waits
        started = b""
        with contextlib.suppress(OSError):  # user code has closed it
            started = os.read(self._listening, 1)
            os.close(self._listening)
        if started and not self._cancelled.wait(seconds):
            call()

    def start(self) -> None:
        """Let the time run."""
        os.write(self._writing, b".")

    def cancel(self) -> None:
        """Do not call the function any more."""
        self._cancelled.set()
        with contextlib.suppress(OSError):
            os.close(self._writing)


def end_at_once() -> None:
    """End this process and its commands."""
    with contextlib.suppress(OSError):
        os.write(2, AT_ONCE.encode())
    COMMANDS.end()
    os._exit(INTERRUPTED_STATUS)


def take_signals(deadline: Deadline) -> None:
    """Let ^C, SIGTERM and SIGHUP end the job in order until a deadline, and a second signal end it at once."""
    if threading.current_thread() is not threading.main_thread():
        return
    taken = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]

    def end_in_order(*_: object) -> None:
        for number in taken:
            signal.signal(number, lambda *_: end_at_once())
        deadline.start()
        COMMANDS.end()  # which frees the threads that read from them
        raise Interrupted

    for number in taken:
        signal.signal(number, end_in_order)


def _say(message: str, status: int = 0) -> int:
    with contextlib.suppress(OSError, ValueError):
        print(f"kaldi-compat: {printable(_spelled.get()(message))}", file=sys.stderr, flush=True)
    return status


def dump(data: Any, extractor: Any, log: Any, archives: Any, name: str, options: dict[str, Any]) -> Outcome:
    """Run the job of a call from Python (see :func:`kaldi_compat.dump.dump`): that of a command line."""
    is_object = not isinstance(extractor, str)
    source = {} if not is_object and extractor in ("", *FEATURES) else option_of(extractor, name)
    is_given = bool(extractor) or not options.keys().isdisjoint(SOURCES)
    require(is_given, "no extractor is given: a feature, a preset, package.module:name, or an object")
    require(source.keys().isdisjoint(options), f"{next(iter(source), '')} is given twice: {extractor!r} is one")
    values = {key: ",".join(map(str, value)) if isinstance(value, list | tuple) else as_text(value)
              for key, value in (source | options).items()}  # fmt: skip
    flags = [f"--{normalize(key)}={value}" for key, value in values.items()]
    feature = [extractor] if extractor and not source else []
    with with_keywords(), COMMANDS.allowed():
        job = parse_arguments(["dump", *flags, "--", *feature, *map(os.fspath, (data, log, archives))])
        if isinstance(job, str):
            raise OptionError("there are no options help and version")
        return run(replace(job, extractor=extractor if is_object else None))


_spelled: ContextVar[Callable[[str], str]] = ContextVar("_spelled", default=str)


def as_keywords(message: str) -> str:
    """Spell the flags in a message as Python's keywords.

    >>> as_keywords("--per-speaker needs it: start again without --resume, or with --seed=3")
    'per_speaker=True needs it: start again without resume=True, or with seed=3'
    """

    def keyword(found: re.Match[str]) -> str:
        is_switch = isinstance(getattr(OWN_FLAGS.get(found[1]), "default", ""), bool) and not found[2]
        return found[1].replace("-", "_") + ("=True" if is_switch else found[2])

    return re.sub(r"(?<![\w-])--([a-z][a-z0-9-]*)(=?)", keyword, message)


@contextlib.contextmanager
def with_keywords() -> Iterator[None]:
    """Spell options as keywords in what this block prints and raises."""
    before = _spelled.set(as_keywords)
    try:
        yield
    except KaldiCompatError as error:
        error.args = (as_keywords(str(error)),)
        raise
    finally:
        _spelled.reset(before)


def run(job: Job) -> Outcome:
    """Run a job, or resume it, and return its outcome; that of a part counts what is complete of all.

    Raises:
        DumpError: it cannot be started or cannot continue; complete archives stay.
    """
    check_system()
    # Anything invalid is refused before any file is touched.
    check_inputs(job)
    check_feature(job, conf_texts(job))
    if job.options.report:
        check_writable(Path(job.options.report))
    if job.options.runner == "local":
        devices_of(job.options.device)
    else:
        from kaldi_compat.dump.ray_engine import check_cluster

        check_cluster(job.options.address)
    for name in [name for name, path in job.conf_paths().items() if path is None]:
        _say(f"there is no conf/{name} here, so Kaldi's defaults hold")
    job = with_speeds(job)
    if source := source_of(job):
        job = source.local_job()
    stamps = stamps_of(job, conf_texts(job))
    if not (job.options.shard and job.layout.plan.exists()):
        listing = job.layout.in_data(listing_of(job))
        with open(listing, "rb") as lines:
            check_speakers(job, listing, lines)
    number, parts = job.options.part
    made = None if _follows_plan(job) else _made_plan(job)
    check_outputs(job, made or read_plan(job.layout.plan))
    with locked_plan(job, made) as found:
        plan = replace(found, stamps=stamps)
        mine = plan.part(number, parts)
        if job.options.shard:  # of all utterances, many parts would spend more time on this than on their own
            own = chain.from_iterable(lines_of(plan, shard, job.layout.data) for shard in mine)
            check_speakers(job, job.layout.in_data(plan.listing), own)
        before = verify_archives(job, mine, _say) if job.options.resumes or job.options.shard else {}
        missing = [shard for shard in mine if shard.number not in before]
        prepare_archives(job.layout, plan.trial, [shard.number for shard in missing])
        monitor = Monitor(sum(shard.count for shard in mine), job.options.max_failures, before)
        try:
            _runner(job)(job, plan, missing, monitor)
        finally:
            monitor.close()
        done = complete(job, plan)
        if lost := [shard.number for shard in mine if shard.number not in done]:
            raise DumpError(
                f"archive {lost[0]} is not complete: is another dump into {job.layout.archives} running? "
                "--resume makes what is missing"
            )
        if left := len(plan.shards) - len(done):
            archives = "archive is" if left == 1 else "archives are"
            _say(f"part {number} of {parts} is done; {left} {archives} left to other parts")
            return Outcome(sum(n - failed for n, _, failed in done.values()), 0, (), 0.0, {})
        InputWatch(job, plan.settings, stamps).check()
        outcome = finalize(job, plan)
        summarize(job, outcome, monitor)
        if job.options.report:
            from kaldi_compat.dump.report import write_report

            write_report(job, plan, outcome, monitor)
    if outcome.incomplete:
        raise DumpError(f"{outcome.incomplete[0]} is not complete: see above. The archives are complete")
    return outcome


def _runner(job: Job) -> Any:
    if job.options.runner == "local":
        return run_local
    from kaldi_compat.dump.ray_engine import run_on_ray

    return run_on_ray


def with_speeds(job: Job) -> Job:
    """Make the data directory of changed speeds and return the job on it; without speeds, return the job."""
    if not job.options.speeds:
        return job
    source, target = job.layout.data, Path(job.options.speed_dir)
    layout = job.layout
    # Directories that were not given follow the new data directory.
    log = "" if layout.log == source / "log" else layout.log
    archives = "" if layout.archives == (source / "data").absolute() else layout.archives
    changed = replace(job, layout=Layout.of(target, layout.feature, log, archives))
    check_places(changed.layout)
    continues = job.options.resumes or job.options.shard
    if not (continues and changed.layout.plan.exists()):
        check_speed_outputs(job, changed)
        make_speed_directory(source, target, job.options.speed_factors)
    return changed


def _follows_plan(job: Job) -> bool:
    return (job.options.resumes or bool(job.options.shard)) and job.layout.plan.exists()


def _made_plan(job: Job) -> DumpPlan:
    """Return a new plan, with the outputs of an extractor, which is tried out; no file is touched."""
    plan, options = make_plan(job), job.options
    if job.source:
        trial, lines = try_extractor(job, cores())
        for line in lines:
            _say(line)
        used = digests_of_files({name: Path(path) for name, path in trial.files.items()})
        inputs = plan.settings["inputs"] | used
        plan = replace(plan, settings=plan.settings | {"trial": asdict(trial), "inputs": inputs})
    if options.cmvn and (kind := plan.trial.outputs[plan.trial.first][0]) != MATRIX:
        raise DumpError(f"--cmvn needs matrices of features, and {plan.trial.first} is a {kind}")
    if options.per_speaker and not plan.trial.vectors:
        raise DumpError("--per-speaker needs vectors, and there are none among the outputs: --pool=mean makes them")
    return plan


@contextlib.contextmanager
def locked_plan(job: Job, made: DumpPlan | None) -> Iterator[DumpPlan]:
    """Write a plan, or read it, and lock it: nobody else may work on these archives, except on other parts of it.

    Args:
        job: the job.
        made: the plan to write; a part follows the one that another part wrote meanwhile. None: read it.
    """
    layout = job.layout
    make_directory(layout.log)
    in_parts = bool(job.options.shard)
    held = lock(layout.lock, layout.plan if in_parts else None)
    try:
        if removed := clear_all_unfinished(job):
            _say(f"removed {removed} unfinished file{'s' * (removed > 1)} that killed dumps left")
        if made is None or _follows_plan(job):
            plan = resumed(job)
        else:
            if job.options.resumes:
                _say(f"there is nothing to resume in {layout.log}, so the dump starts")
            if layout.plan.exists():
                _say(f"the archives of an earlier dump are made again ({layout.plan}); --resume would keep them")
            plan = made
            start_over(layout, plan)
            write_plan(plan, layout.plan)
        if in_parts:
            share(held, layout.lock)
        yield plan
    finally:
        os.close(held)


def resumed(job: Job) -> DumpPlan:
    """Read the plan to resume, and discard the archives that are to be made again.

    Raises:
        PlanError: the plan is damaged, or does not fit the job.
    """
    layout, options = job.layout, job.options
    plan = read_plan(layout.plan)
    manifests = {shard.number: read_manifest(layout, shard.number) for shard in plan.shards}
    with_failures = [number for number, manifest in manifests.items() if manifest and manifest.failures]
    current = update_plan(plan, job, layout.plan, with_failures)
    if options.retry_failed:
        for number in {shard.number for shard in plan.part(*options.part)}.intersection(with_failures):
            layout.manifest(number).unlink(missing_ok=True)
            _say(f"archive {number} is made again: some of its utterances failed")
    if current != plan:
        write_plan(current, layout.plan)
    return current


def summarize(job: Job, outcome: Outcome, monitor: Monitor) -> None:
    """Print the result."""
    lines = [
        f"{outcome.utterances} of {outcome.wanted} utterances have {job.feature} features: "
        f"{outcome.seconds / HOUR:.2f} hours of audio, {len(outcome.failures)} failures",
        f"this run: {monitor.summary(outcome.bound)}",
    ]
    if peak := outcome.work.get("peak_device_memory"):
        lines.append(f"peak device memory of a worker: {peak / 2**30:.2f} GiB")
    if job.options.on_gpu and job.with_pitch:
        lines.append("pitch was tracked on the CPU: no kernel does that")
    for name, text in NOTES.items():
        if count := int(outcome.work.get(name, 0)):
            lines.append(f"{utterances(count)} {text.format(verb='is' if count == 1 else 'are')}")
    lines += outcome.warnings
    reasons = by_reason(outcome.failures)
    lines += [f"  {utterances(len(group))}: {text} (first: {group[0][0]})" for text, group in reasons[:REASONS_SHOWN]]
    if len(reasons) > REASONS_SHOWN:
        lines.append(f"  and {len(reasons) - REASONS_SHOWN} more reasons")
    if outcome.failures:
        lines.append(f"the failed utterances are listed in {job.layout.failures}")
    for line in lines:
        _say(line)


def utterances(count: int) -> str:
    """Write a number of utterances.

    >>> utterances(1), utterances(2)
    ('1 utterance', '2 utterances')
    """
    return f"{count} utterance{'' if count == 1 else 's'}"
