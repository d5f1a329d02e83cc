"""The program ``kaldi-compat``: jobs on whole data directories, of which ``kaldi-compat dump`` is the only one."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NoReturn

from kaldi_compat import __version__
from kaldi_compat.cli.program import end_of_process, open_closed_streams
from kaldi_compat.dump.commands import COMMANDS
from kaldi_compat.dump.configuration import check_overrides, conf_texts, configured_options, take_overrides
from kaldi_compat.dump.devices import devices_of
from kaldi_compat.dump.errors import DumpError, as_user_error
from kaldi_compat.dump.failures import by_reason, printable
from kaldi_compat.dump.files import check_writable, make_directory
from kaldi_compat.dump.finalize import Outcome, finalize, prepare_archives, start_over
from kaldi_compat.dump.lock import lock_alone, lock_with_others, share
from kaldi_compat.dump.options import FEATURES, DumpOptions, Job, Layout
from kaldi_compat.dump.plan import (
    Plan,
    check_inputs,
    check_speakers,
    how_to_start_over,
    make_plan,
    read_plan,
    updated,
    write_plan,
)
from kaldi_compat.dump.progress import HOUR, Monitor
from kaldi_compat.dump.spectral import check_warps
from kaldi_compat.dump.speed_perturb import make_speed_directory
from kaldi_compat.dump.workers import complete, run_local, verified
from kaldi_compat.dump.write import STATS, Manifest, read_manifest
from kaldi_compat.errors import INTERRUPTED_STATUS
from kaldi_compat.options.base import info
from kaldi_compat.options.config import parse_integer, parse_real

__all__ = [
    "Deadline",
    "counted",
    "dump",
    "end_at_once",
    "integer",
    "main",
    "make_dump_parser",
    "make_parser",
    "number",
    "parse_job",
    "planned",
    "resumed",
    "summarize",
    "take_signals",
    "with_speeds",
    "without_values",
]

FAILED_STATUS, USAGE_STATUS, ERROR_STATUS = 1, 2, 255
EPILOG = """\
examples:
  kaldi-compat dump fbank data/train --conf conf/fbank.conf --nj 8
  kaldi-compat dump fbank data/train --num-mel-bins=80 --dither=0 --nj 8
  kaldi-compat dump fbank data/train --conf conf/fbank.conf --nj 8 --resume         after an interruption
  kaldi-compat dump mfcc_pitch data/train exp/make_mfcc mfcc --nj 8 --cmvn speaker
  kaldi-compat dump fbank data/train --device cuda --shard-utterances 5000

The feature's own options, such as --num-mel-bins=80 of fbank (see compute-fbank-feats --help), are accepted too and win
over the configuration file.

exit status: 0 if at least 95% of the utterances have features, else 1; 255 if the job cannot be done, 2 for an invalid
command line, 130 after ^C, SIGTERM or SIGHUP. The file <log>/dump_<feature>_<name>.failures lists the utterances that
failed, with reasons."""
AT_ONCE = "kaldi-compat: interrupted, and ended at once; --resume continues with what is missing\n"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Time after a signal in which the job ends in order, before it ends at once.
SECONDS_TO_END = 1.5
REASONS_SHOWN = 5
INTERRUPTED = "interrupted; what is complete is kept, and --resume continues with what is missing"
BOOLEANS = {"true": True, "false": False}


def main(argv: Sequence[str] | None = None) -> int:
    """Run this command line and return the exit status; without one, this process's, which may end here."""
    if argv is None:
        open_closed_streams()
        status = _run(sys.argv[1:])
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


def _run(argv: Sequence[str]) -> int:
    make_parser().parse_args(argv[:1])
    deadline = Deadline(SECONDS_TO_END, end_at_once)
    take_signals(deadline)
    try:
        with COMMANDS.allowed():
            return dump(parse_job(argv[1:]))
    except KeyboardInterrupt:
        return _say(INTERRUPTED, INTERRUPTED_STATUS)
    except Exception as error:
        return _say(str(as_user_error(error)), ERROR_STATUS)
    finally:
        deadline.cancel()


def parse_job(argv: Sequence[str]) -> Job:
    """Parse the arguments of ``kaldi-compat dump``; options may stand before, after and between the others.

    Raises:
        OptionError: an option is unknown or has an invalid value.
        SystemExit: the command line is invalid otherwise, or asks for help.
    """
    others, overrides = take_overrides(argv, FEATURES)
    arguments = vars(make_dump_parser().parse_intermixed_args(without_values(others)))
    feature, data, log, archives = (arguments.pop(name) for name in ("feature", "data", "log", "archives"))
    job = Job(Layout.of(data, feature, log, archives), DumpOptions(**arguments), overrides)
    check_overrides(job)
    return job


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
        raise KeyboardInterrupt

    for number in taken:
        signal.signal(number, end_in_order)


def _say(message: str, status: int = 0) -> int:
    with contextlib.suppress(OSError, ValueError):
        print(f"kaldi-compat: {printable(message)}", file=sys.stderr, flush=True)
    return status


class _Parser(argparse.ArgumentParser):
    """Reports an invalid command line in one line, and suggests the option that was meant."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)

    def error(self, message: str) -> NoReturn:
        unknown = message.partition("unrecognized arguments: ")[2].split()[:1]
        near = difflib.get_close_matches(unknown[0], self._option_string_actions, n=1) if unknown else []
        hint = f": did you mean {near[0]}?" if near else f" (see {self.prog} --help)"
        self.exit(_say(f"{message}{hint}", USAGE_STATUS))


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of the arguments before the command's own."""
    parser = _Parser(prog="kaldi-compat", description="Kaldi's features for whole data directories.")
    parser.add_argument("--version", action="version", version=__version__)
    parser.add_argument("command", choices=["dump"], help="compute the features of a data directory: see dump --help")
    return parser


def make_dump_parser() -> argparse.ArgumentParser:
    """Make the parser of a dump's command line, derived from :class:`DumpOptions`."""
    parser = _Parser(
        prog="kaldi-compat dump",
        description="Computes the features of a Kaldi data directory, and leaves it as steps/make_<feature>.sh does.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="kaldi-compat dump [options] <feature> <data> [<log> [<archives>]]",
    )
    parser.add_argument("feature", choices=FEATURES, metavar="feature", help=", ".join(FEATURES))
    parser.add_argument("data", help="data directory with wav.scp, and optionally segments")
    parser.add_argument("log", nargs="?", default="", help="directory of plan and logs (default: <data>/log)")
    parser.add_argument("archives", nargs="?", default="", help="directory of archives (default: <data>/data)")
    for field in fields(DumpOptions):
        flag = "--" + field.name.replace("_", "-")
        default: Any = field.default
        shown = info(field).description if default == "" else f"{info(field).description} (default: {default})"
        if isinstance(default, bool):
            parser.add_argument(flag, action=argparse.BooleanOptionalAction, default=default, help=shown)
        else:
            parser.add_argument(flag, type=KINDS[type(default)], default=default, help=shown, metavar="VALUE")
    return parser


def integer(text: str) -> int:
    """Parse an option's value by the rules of Kaldi's programs."""
    if (value := parse_integer(text)) is None:
        raise argparse.ArgumentTypeError(f"expected an integer of 32 bits, not {text!r}")
    return value


def number(text: str) -> float:
    """Parse a number, like :func:`integer`."""
    if (value := parse_real(text)) is None:
        raise argparse.ArgumentTypeError(f"expected a number, not {text!r}")
    return value


KINDS: dict[type, Callable[[str], int | float | str]] = {int: integer, float: number, str: str}


def without_values(arguments: Sequence[str]) -> list[str]:
    """Rewrite a command line such that booleans have their values in their names, as argparse expects.

    Kaldi's scripts take ``--compress true``, its programs ``--compress=true``.

    >>> without_values(["--compress", "false", "--resume=true", "data", "--nj", "4"])
    ['--no-compress', '--resume', 'data', '--nj', '4']
    """
    booleans = {"--" + field.name.replace("_", "-") for field in fields(DumpOptions) if isinstance(field.default, bool)}
    rewritten: list[str] = []
    for argument in arguments:
        flag, _, value = argument.partition("=")
        if argument in BOOLEANS and rewritten and rewritten[-1] in booleans:
            flag, value = rewritten.pop(), argument
        if flag in booleans and value in BOOLEANS:
            rewritten.append(flag if BOOLEANS[value] else flag.replace("--", "--no-", 1))
        else:
            rewritten.append(argument)
    return rewritten


def dump(job: Job) -> int:
    """Run a job, or resume it, and return the exit status.

    Raises:
        DumpError: it cannot be started or cannot continue; complete archives stay.
    """
    # Anything invalid is refused before any file is touched.
    check_inputs(job)
    configured_options(job, conf_texts(job))
    check_warps(job)
    if job.options.report:
        check_writable(Path(job.options.report))
    if job.options.engine == "local":
        devices_of(job.options.device)
    for name in [name for name, path in job.conf_paths().items() if path is None]:
        _say(f"there is no conf/{name} here, so Kaldi's defaults hold")
    job = with_speeds(job)
    check_speakers(job)
    number, parts = job.options.part
    with planned(job) as plan:
        mine = plan.part(number, parts)
        before = verified(job, mine, _say) if job.options.resumes or job.options.shard else {}
        missing = [shard for shard in mine if shard.number not in before]
        prepare_archives(job.layout, [shard.number for shard in missing])
        monitor = Monitor(sum(shard.count for shard in mine), job.options.max_failures, before)
        try:
            _engine(job)(job, plan, missing, monitor)
        finally:
            monitor.close()
        done = complete(job, plan)
        if lost := [shard.number for shard in mine if shard.number not in done]:
            raise DumpError(
                f"archive {lost[0]} is not complete: is another dump into {job.layout.archives} running? "
                "--resume makes what is missing"
            )
        if left := len(plan.shards) - len(done):
            return _say(f"part {number} of {parts} is done; {left} archives are left to other parts", 0)
        outcome = finalize(job, plan)
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
    """Make the data directory of changed speeds and return the job on it; without speeds, return the job."""
    if not job.options.speeds:
        return job
    source, target = job.layout.data, Path(job.options.speed_dir)
    layout = job.layout
    # Directories that were not given follow the new data directory.
    log = "" if layout.log == source / "log" else layout.log
    archives = "" if layout.archives == (source / "data").absolute() else layout.archives
    changed = replace(job, layout=Layout.of(target, layout.feature, log, archives))
    continues = job.options.resumes or job.options.shard
    if not (continues and changed.layout.plan.exists()):
        make_speed_directory(source, target, job.options.speed_factors)
    return changed


@contextlib.contextmanager
def planned(job: Job) -> Iterator[Plan]:
    """Make or read the plan, and lock it: nobody else may work on these archives, except on other parts of the plan."""
    layout = job.layout
    make_directory(layout.log)
    in_parts = bool(job.options.shard)
    lock = lock_with_others(layout.lock, layout.plan) if in_parts else lock_alone(layout.lock)
    try:
        if (job.options.resumes or in_parts) and layout.plan.exists():
            plan = resumed(job)
        else:
            if job.options.resumes:
                _say(f"there is nothing to resume in {layout.log}, so the dump starts")
            plan = make_plan(job)
            start_over(layout, plan)
            write_plan(plan, layout.plan)
        if in_parts:
            share(lock, layout.lock)
        yield plan
    finally:
        os.close(lock)


def resumed(job: Job) -> Plan:
    """Read the plan to resume, and discard the archives that are to be made again.

    Raises:
        PlanError: the plan is damaged, or does not fit the job.
        DumpError: other parts of the plan were made without the statistics that are requested.
    """
    layout, options = job.layout, job.options
    plan = read_plan(layout.plan)
    manifests = {shard.number: read_manifest(layout, shard.number) for shard in plan.shards}
    with_failures = [number for number, manifest in manifests.items() if manifest and manifest.failures]
    current = updated(plan, job, layout.plan, with_failures)
    mine = {shard.number for shard in plan.part(*options.part)}
    if options.cmvn_levels:
        _refuse_without_stats(job, {n: each for n, each in manifests.items() if n not in mine})
    if options.retry_failed:
        for number in mine.intersection(with_failures):
            layout.manifest(number).unlink(missing_ok=True)
            _say(f"archive {number} is made again: some of its utterances failed")
    if current != plan:
        write_plan(current, layout.plan)
    return current


def _refuse_without_stats(job: Job, manifests: dict[int, Manifest | None]) -> None:
    for number, manifest in manifests.items():
        if manifest and STATS not in manifest.files:
            raise DumpError(
                f"{job.layout.stats(number)} is missing: other parts of the plan {job.layout.plan} were made without "
                f"--cmvn: {how_to_start_over(job.options)}"
            )


def summarize(job: Job, outcome: Outcome, monitor: Monitor) -> None:
    """Print the result."""
    lines = [
        f"{outcome.utterances} of {outcome.wanted} utterances have {job.feature} features: "
        f"{outcome.seconds / HOUR:.2f} hours of audio, {len(outcome.failures)} failures",
        f"this run took {monitor.elapsed:.1f} s, {monitor.speed:.0f} times real time; bound by: {outcome.bound}",
    ]
    if peak := outcome.work.get("peak_device_memory"):
        lines.append(f"peak device memory of a worker: {peak / 2**30:.2f} GiB")
    if uncompressed := int(outcome.work.get("uncompressed", 0)):
        verb = "is" if uncompressed == 1 else "are"
        lines.append(f"{counted(uncompressed)} with NaN or infinite features {verb} not compressed: see the .log files")
    lines += outcome.warnings
    reasons = by_reason(outcome.failures)
    lines += [f"  {counted(count)}: {text} (first: {key})" for count, text, key in reasons[:REASONS_SHOWN]]
    if len(reasons) > REASONS_SHOWN:
        lines.append(f"  and {len(reasons) - REASONS_SHOWN} more reasons")
    if outcome.failures:
        lines.append(f"the failed utterances are listed in {job.layout.failures}")
    for line in lines:
        _say(line)


def counted(utterances: int) -> str:
    """Write a number of utterances.

    >>> counted(1), counted(2)
    ('1 utterance', '2 utterances')
    """
    return f"{utterances} utterance{'' if utterances == 1 else 's'}"
