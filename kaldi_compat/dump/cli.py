"""kaldi-compat: jobs on whole data directories. ``kaldi-compat dump`` is the one that there is."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from kaldi_compat import __version__
from kaldi_compat.cli.program import end_of_process, open_closed_streams
from kaldi_compat.dump.devices import devices_of
from kaldi_compat.dump.errors import told
from kaldi_compat.dump.files import check_writable, make_directory
from kaldi_compat.dump.finalize import Outcome, finish, start_over
from kaldi_compat.dump.lock import lock_alone, lock_with_others, share
from kaldi_compat.dump.options import FEATURES, DumpOptions, Job, Layout
from kaldi_compat.dump.plan import Plan, check_inputs, check_plan, check_speakers, make_plan, read_plan, write_plan
from kaldi_compat.dump.progress import HOUR, Monitor
from kaldi_compat.dump.spectral import check_warps, configured_options
from kaldi_compat.dump.speed_perturb import make_speed_directory
from kaldi_compat.dump.workers import complete, run_local
from kaldi_compat.errors import INTERRUPTED_STATUS
from kaldi_compat.options.base import meaning
from kaldi_compat.options.config import parse_integer, parse_real

FAILED_STATUS, ERROR_STATUS = 1, 255
EPILOG = """\
examples:
  kaldi-compat dump fbank data/train --conf conf/fbank.conf --nj 8
  kaldi-compat dump fbank data/train --conf conf/fbank.conf --nj 8 --resume         after a stop
  kaldi-compat dump mfcc_pitch data/train exp/make_mfcc mfcc --nj 8 --cmvn speaker
  kaldi-compat dump fbank data/train --device cuda --shard-utterances 5000

exit status: 0 if at least 95% of the utterances have features, else 1; 255 if the job cannot be done, 2 if the command
line cannot be meant, 130 after ^C or SIGTERM. What failed, and why, is in <log>/dump_<feature>_<name>.failures."""
AT_ONCE = "kaldi-compat: interrupted again, and ended at once; --resume goes on from what is complete\n"
SIGNALS = (signal.SIGINT, signal.SIGTERM)
TRUTHS = {"true": True, "false": False}


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
    make_parser().parse_args(argv[:1])
    # Options may stand before, after and between the arguments.
    arguments = vars(make_dump_parser().parse_intermixed_args(without_values(argv[1:])))
    feature, data, log, archives = (arguments.pop(name) for name in ("feature", "data", "log", "archives"))
    take_signals()
    try:
        job = Job(Layout.of(data, feature, log, archives), DumpOptions(**arguments))
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


def make_parser() -> argparse.ArgumentParser:
    """What comes before the command's own arguments."""
    parser = argparse.ArgumentParser(prog="kaldi-compat", description="Kaldi's features for whole data directories.")
    parser.add_argument("--version", action="version", version=__version__)
    parser.add_argument("command", choices=["dump"], help="compute the features of a data directory: see dump --help")
    return parser


def make_dump_parser() -> argparse.ArgumentParser:
    """The command line of a dump, derived from :class:`DumpOptions`."""
    parser = argparse.ArgumentParser(
        prog="kaldi-compat dump",
        description="Computes the features of a Kaldi data directory, and leaves it as steps/make_<feature>.sh does.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="kaldi-compat dump [options] <feature> <data> [<log> [<archives>]]",
    )
    parser.add_argument("feature", choices=FEATURES, metavar="feature", help=", ".join(FEATURES))
    parser.add_argument("data", help="data directory with wav.scp, and segments if need be")
    parser.add_argument("log", nargs="?", default="", help="directory of plan and logs (default: <data>/log)")
    parser.add_argument("archives", nargs="?", default="", help="directory of archives (default: <data>/data)")
    for field in fields(DumpOptions):
        flag = "--" + field.name.replace("_", "-")
        default: Any = field.default
        shown = meaning(field) if default == "" else f"{meaning(field)} (default: {default})"
        if isinstance(default, bool):
            parser.add_argument(flag, action=argparse.BooleanOptionalAction, default=default, help=shown)
        else:
            parser.add_argument(flag, type=KINDS[type(default)], default=default, help=shown, metavar="VALUE")
    return parser


def integer(text: str) -> int:
    """An option's value, read by the rules that hold for Kaldi's programs."""
    if (value := parse_integer(text)) is None:
        raise argparse.ArgumentTypeError(f"expected an integer of 32 bits, not {text!r}")
    return value


def number(text: str) -> float:
    """As :func:`integer`."""
    if (value := parse_real(text)) is None:
        raise argparse.ArgumentTypeError(f"expected a number, not {text!r}")
    return value


KINDS: dict[type, Callable[[str], int | float | str]] = {int: integer, float: number, str: str}


def without_values(arguments: Sequence[str]) -> list[str]:
    """A command line whose booleans have their values in their names, as argparse wants it.

    Kaldi's scripts take ``--compress true``, its programs ``--compress=true``.

    >>> without_values(["--compress", "false", "--resume=true", "data", "--nj", "4"])
    ['--no-compress', '--resume', 'data', '--nj', '4']
    """
    booleans = {"--" + field.name.replace("_", "-") for field in fields(DumpOptions) if isinstance(field.default, bool)}
    rewritten: list[str] = []
    for argument in arguments:
        flag, _, value = argument.partition("=")
        if argument in TRUTHS and rewritten and rewritten[-1] in booleans:
            flag, value = rewritten.pop(), argument
        if flag in booleans and value in TRUTHS:
            rewritten.append(flag if TRUTHS[value] else flag.replace("--", "--no-", 1))
        else:
            rewritten.append(argument)
    return rewritten


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
