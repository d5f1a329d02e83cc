"""The commands ``dump``, ``info``, ``programs``, ``--help`` and ``--version`` of ``kaldi-compat``."""

from __future__ import annotations

import contextlib
import errno
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
from typing import Any, NoReturn

from io_ark.text import escape, format_count
from kaldi_compat.cli.command_line import CommonOptions
from kaldi_compat.cli.program import end_process, open_closed_streams, run_printing_command
from kaldi_compat.dump.arguments import is_feature, list_flags, parse_arguments
from kaldi_compat.dump.commands import COMMANDS
from kaldi_compat.dump.configuration import OWN_FLAGS, format_value, read_confs
from kaldi_compat.dump.devices import parse_devices
from kaldi_compat.dump.errors import DumpError, convert_to_user_error, group_by_reason
from kaldi_compat.dump.files import check_system, check_writable, lock_dump, make_directory, share_lock
from kaldi_compat.dump.finalize import Outcome, finalize_dump, prepare_archives, prepare_directories
from kaldi_compat.dump.inputs import SCRIPT, InputWatch, compute_digests, get_stamps
from kaldi_compat.dump.model import MATRIX, Trial, try_extractor
from kaldi_compat.dump.options import FEATURES, SOURCES, DumpOptions, Job, Layout
from kaldi_compat.dump.outputs import check_outputs, check_speed_outputs, remove_all_unfinished_files
from kaldi_compat.dump.plan import (
    DumpPlan,
    Shard,
    check_directory_paths,
    check_inputs,
    get_listing,
    make_plan,
    read_plan,
    read_shard_lines,
    update_plan,
    write_plan,
)
from kaldi_compat.dump.progress import HOUR, Monitor
from kaldi_compat.dump.sources import make_source, make_source_option
from kaldi_compat.dump.speakers import check_speakers
from kaldi_compat.dump.spectral import check_feature
from kaldi_compat.dump.speed_perturb import make_speed_directory
from kaldi_compat.dump.user_code import Interrupted, supervise_job
from kaldi_compat.dump.workers import (
    count_cores,
    list_complete_archives,
    refuse_start_in_worker,
    verify_archives,
    write_archives_locally,
)
from kaldi_compat.dump.write import read_manifest
from kaldi_compat.errors import INTERRUPTED_STATUS, KaldiCompatError, OptionError
from kaldi_compat.options.base import require
from kaldi_compat.options.config import find_flag, get_flags, normalize

FAILED_STATUS, INVALID_STATUS, ERROR_STATUS = 1, 2, 255
ENDED_AT_ONCE = "kaldi-compat: interrupted, and ended at once; --resume creates the missing archives\n"
SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
SECONDS_TO_END = 1.5  # Time that a job may take to clean up after a signal, before the process ends at once.
MISSING_FILE = os.strerror(errno.ENOENT)  # End of the reason of a failure because of a missing file.
MAX_REASONS = 5  # Maximum number of reasons of failures that the summary lists.
# Texts of the summary, which follow "3 utterances", for counts in the manifests.
NOTES = {
    "computed_on_cpu": "did not fit into a GPU's memory, and ran on the CPU",
    "without_kernels": "ran on GPUs without the fused kernels: the .log files say why",
    "resampled": "with another sampling rate {verb} resampled",
    "empty": "{verb} written without frames, for example because the audio is too short",
    "uncompressed": "with NaN or infinite features {verb} not compressed: see the .log files",
}
INTERRUPTED = "interrupted; complete archives are kept, and --resume creates the missing archives"


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line of ``kaldi-compat``, by default the command line of this process, and return the exit status.

    The status is 0 for success, 1 if fewer than 95% of the utterances have features, 2 for an invalid command line, 130
    after an interruption, 141 if the reader of the output has closed its pipe, and 255 for other errors. Without
    ``argv``, end the process with the status, except under a debugger. With ``argv``, restore the signal handlers.
    """
    if argv is None:
        open_closed_streams()
        status = _run_command_line(sys.argv[1:], is_program=True)
        if status == INTERRUPTED_STATUS:
            os._exit(status)  # Python would wait for threads, which may read a pipe without a writer.
        return end_process(status)
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        return _run_command_line(argv)
    finally:
        for number, handler in handlers.items():
            with contextlib.suppress(ValueError):  # Outside of the main thread, no handler can be changed.
                signal.signal(number, handler)


def _run_command_line(argv: Sequence[str], *, is_program: bool = False) -> int:
    """Run a command line and return the exit status. If ``is_program``, a child process runs jobs with an extractor."""
    try:
        job = parse_arguments(argv)
    except OptionError as error:
        return _say(str(error), INVALID_STATUS)
    if isinstance(job, str):
        return run_printing_command(lambda: print(job) or 0)  # The text of a command such as info.
    if is_program and (source := make_source(job)) and hasattr(os, "fork"):
        return supervise_job(lambda: _run_job(job), source.label, _say)
    return _run_job(job)


def _run_job(job: Job) -> int:
    """Install signal handlers, run a job, print its error or its summary, and return the exit status."""
    deadline = Deadline(SECONDS_TO_END, end_at_once)
    install_signal_handlers(deadline)
    try:
        with COMMANDS.allow_commands():
            outcome = run_dump(job)
        if not outcome.good_enough:
            return _say("fewer than 95% of the utterances have features: see the messages above", FAILED_STATUS)
        return 0
    except KeyboardInterrupt:
        return _say(INTERRUPTED, INTERRUPTED_STATUS)
    except Exception as error:
        return _say(str(convert_to_user_error(error)), ERROR_STATUS)
    finally:
        deadline.cancel()


class Deadline:
    """Calls ``call`` in a thread ``seconds`` after :meth:`start`, unless :meth:`cancel` is called in time.

    The thread exists from the start and waits for a byte in a pipe, so that a signal handler may call :meth:`start`.
    A handler that starts a thread might wait for a lock that the interrupted code holds.
    """

    def __init__(self, seconds: float, call: Callable[[], object]) -> None:
        self._reading_end, self._writing_end = os.pipe()
        self._canceled = threading.Event()
        threading.Thread(target=self._wait, args=(seconds, call), name="deadline", daemon=True).start()

    def _wait(self, seconds: float, call: Callable[[], object]) -> None:
        """Wait for :meth:`start`, and then for ``seconds``. Run ``call`` unless :meth:`cancel` has been called."""
        if hasattr(signal, "pthread_sigmask"):  # Windows has no signal masks.
            signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # The main thread must receive the signals.
        started = b""  # The byte that start() writes. It is empty if cancel() has closed the pipe without a start.
        with contextlib.suppress(OSError):  # The user's code may have closed the pipe.
            started = os.read(self._reading_end, 1)
            os.close(self._reading_end)
        if started and not self._canceled.wait(seconds):
            call()

    def start(self) -> None:
        """Start the time limit, after which the thread runs ``call`` unless :meth:`cancel` is called before."""
        os.write(self._writing_end, b".")

    def cancel(self) -> None:
        """Keep the thread from running ``call``, and end the thread."""
        self._canceled.set()
        with contextlib.suppress(OSError):
            os.close(self._writing_end)


def end_at_once() -> NoReturn:
    """Print a message, kill the commands of ``wav.scp``, and end this process without any other cleanup."""
    with contextlib.suppress(OSError):
        os.write(2, ENDED_AT_ONCE.encode())
    COMMANDS.end()
    os._exit(INTERRUPTED_STATUS)


def install_signal_handlers(deadline: Deadline) -> None:
    """Install handlers of SIGINT, SIGTERM and SIGHUP. The first signal ends the job cleanly.

    It starts ``deadline``, and raises :class:`Interrupted` in the main thread. The second signal ends the process at
    once. Ignored signals remain ignored. Outside of the main thread, do nothing, because Python allows no handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    handled_signals = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]

    def end_job_cleanly(*_: object) -> None:
        """Raise :class:`Interrupted`, which ends the job. A further signal, or ``deadline``, ends the process."""
        for number in handled_signals:
            signal.signal(number, lambda *_: end_at_once())
        deadline.start()
        COMMANDS.end()  # Threads that wait for the output of commands then continue.
        raise Interrupted

    for number in handled_signals:
        signal.signal(number, end_job_cleanly)


def _say(message: str, status: int = 0) -> int:
    """Print "kaldi-compat: " and a message to standard error if it is open, and return ``status``."""
    with contextlib.suppress(OSError, ValueError):
        print(f"kaldi-compat: {escape(_spell_options.get()(message))}", file=sys.stderr, flush=True)
    return status


def dump(data: Any, extractor: Any, log: Any, archives: Any, name: str, options: dict[str, Any]) -> Outcome:
    """Implement :func:`kaldi_compat.dump.dump`, whose docstring describes the arguments and errors."""
    if not {"help", "version"}.isdisjoint(map(normalize, options)):  # These options print text, and start no job.
        advice = "run `kaldi-compat dump --help` or `kaldi-compat --version`"
        raise OptionError(f"help and version are not options of a call from Python: {advice}")
    is_folder = isinstance(extractor, str | os.PathLike) and os.path.isdir(extractor)
    is_swapped = is_folder and is_feature(data)
    require(not is_swapped, f"{data!r} is a feature: pass the data directory first, and the feature second")
    is_object = not isinstance(extractor, str)
    is_feature_or_missing = not is_object and extractor in ("", *FEATURES)
    own_option = {} if is_feature_or_missing else make_source_option(extractor, name)
    own_name = next(iter(own_option), "")  # Name of the option that selects the extractor, such as "module".
    conflict = f"{own_name}=... and the extractor {extractor!r} exclude each other: pass only one of them"
    require(not own_option.keys() & options.keys(), conflict)
    values = {key: ",".join(map(str, value)) if isinstance(value, list | tuple) else format_value(value)
              for key, value in (own_option | options).items()}  # fmt: skip
    flags = [f"--{normalize(key)}={value}" for key, value in values.items()]
    feature = [extractor] if extractor and not own_option else []
    with spell_options_as_keywords(), COMMANDS.allow_commands():
        if not extractor and options.keys().isdisjoint(SOURCES):
            for key in options:  # The user may have misspelled the option that names the extractor.
                find_flag(list_flags() | get_flags(CommonOptions), key)
            raise OptionError("no extractor is given: pass a feature, a preset, package.module:name, or an object")
        job = parse_arguments(["dump", *flags, "--", *feature, *map(os.fspath, (data, log, archives))])
        assert not isinstance(job, str), "only help and version, which are refused above, result in text"
        return run_dump(replace(job, extractor=extractor if is_object else None))


# Function that spells the options in a message: as flags of the command line, or as Python's keywords.
_spell_options: ContextVar[Callable[[str], str]] = ContextVar("_spell_options", default=str)


def spell_as_keywords(message: str) -> str:
    """Replace flags in a message with keywords: ``--resume`` with ``resume=True``, ``--seed=3`` with ``seed=3``."""

    def spell_flag(match: re.Match[str]) -> str:
        """Return the keyword for a flag: ``seed=`` for ``--seed=``, or ``resume=True`` for ``--resume``."""
        name, equals_sign = match.groups()  # The second string is "" if no value follows.
        is_switch = isinstance(getattr(OWN_FLAGS.get(name), "default", ""), bool) and not equals_sign
        return name.replace("-", "_") + ("=True" if is_switch else equals_sign)

    message = message.replace(": --help lists", ": kaldi-compat dump --help lists")  # No keyword prints the help.
    return re.sub(r"(?<![\w-])--(?!help\b)([a-z][a-z0-9-]*)(=?)", spell_flag, message)


@contextlib.contextmanager
def spell_options_as_keywords() -> Iterator[None]:
    """In the ``with`` block, spell options as keywords in printed messages and in a KaldiCompatError that is raised."""
    token = _spell_options.set(spell_as_keywords)
    try:
        yield
    except KaldiCompatError as error:
        error.args = (spell_as_keywords(str(error)),)
        raise
    finally:
        _spell_options.reset(token)


def run_dump(job: Job) -> Outcome:
    """Run or resume a job, print its progress and summary, and return its outcome.

    While archives of other parts of the job are missing, only ``utterances`` of the outcome is set. It is the number of
    utterances with features in the complete archives of all parts.

    Raises:
        DumpError: an input or the plan to resume is invalid, an output cannot be written, another dump uses the same
            directories, too many utterances fail, or an output in the format of ``--format`` is incomplete.
        ArkError: an output would replace an input, or a killed job has left the data directory half changed.
        OptionError: a configuration file or the command line has an invalid option.
    """
    confs = _check_job(job)  # Invalid options and inputs are refused before any file is changed.
    _announce_confs(job)
    if job.options.speeds:
        job = make_speed_job(job)
    if source := make_source(job):
        job = source.make_local_job()
    stamps = get_stamps(job, confs)
    if job.options.by_speaker and not (job.options.shard and job.layout.plan.exists()):
        listing = job.layout.data / get_listing(job)
        with open(listing, "rb") as lines:
            check_speakers(job, listing, lines)
    new_plan = None if _follows_plan(job) else _make_plan_with_trial(job)
    followed_plan = new_plan or read_plan(job.layout.plan)
    _check_kinds(job.options, followed_plan.trial)
    check_outputs(job, followed_plan)
    with lock_plan(job, new_plan) as current_plan:
        plan = replace(current_plan, stamps=stamps)
        shards = plan.select_part(*job.options.part)
        # A part of a job checks only the lines of its archives, because many parts would check each line many times.
        if job.options.shard and job.options.by_speaker:
            lines_of_part = chain.from_iterable(read_shard_lines(plan, shard, job.layout.data) for shard in shards)
            check_speakers(job, job.layout.data / plan.listing, lines_of_part)
        monitor = _write_missing_archives(job, plan, shards)
        counts = list_complete_archives(job, plan)
        if incomplete_shards := [shard.number for shard in shards if shard.number not in counts]:
            raise DumpError(
                f"archive {incomplete_shards[0]} is not complete: check whether another dump into "
                f"{job.layout.archives} is running, then create the missing archives with --resume"
            )
        if remaining_count := len(plan.shards) - len(counts):
            failure_counts = {number: failures for number, (_, _, failures) in counts.items()}
            failed_shards = [shard.number for shard in shards if failure_counts[shard.number]]
            _announce_end_of_part(job, remaining_count, failed_shards)
            utterances = sum(count - failures for count, _, failures in counts.values())
            return Outcome(utterances, wanted=0, failures=(), seconds=0.0, work={})
        InputWatch(job, plan.settings, stamps).check()
        outcome = finalize_dump(job, plan)
        print_summary(job, outcome, monitor)
        if job.options.report:
            from kaldi_compat.dump.report import write_report

            write_report(job, plan, outcome, monitor)
    if outcome.incomplete:
        raise DumpError(f"{outcome.incomplete[0]} is not complete: see the messages above. The archives are complete")
    return outcome


def _check_job(job: Job) -> dict[str, str]:
    """Refuse a job with invalid options, inputs or devices. Return the texts of its configuration files by name."""
    check_system()
    refuse_start_in_worker(job)
    check_inputs(job)
    confs = read_confs(job)
    if job.spectral:
        check_feature(job, confs)
    if job.options.report:
        check_writable(Path(job.options.report))
    if job.options.runner == "local":
        parse_devices(job.options.device)
    else:
        from kaldi_compat.dump.ray_runner import check_cluster

        check_cluster(job.options.address)
    return confs


def _write_missing_archives(job: Job, plan: DumpPlan, shards: Sequence[Shard]) -> Monitor:
    """Write the archives of ``shards`` that are not complete yet. Return the monitor with the counts of utterances."""
    complete_before = verify_archives(job, shards, _say) if job.options.resumes or job.options.shard else {}
    missing_shards = [shard for shard in shards if shard.number not in complete_before]
    prepare_archives(job.layout, plan.trial, [shard.number for shard in missing_shards])
    monitor = Monitor(sum(shard.count for shard in shards), job.options.max_failures, complete_before)
    try:
        _choose_runner(job)(job, plan, missing_shards, monitor)
    finally:
        monitor.close()
    return monitor


def _announce_confs(job: Job) -> None:
    """Print which configuration files are read from ``conf`` in the working directory, and which are missing there."""
    options = job.options
    named_confs = {Path(name) for name in (options.conf, options.pitch_conf, options.pitch_postprocess_conf) if name}
    for name, path in job.conf_paths.items():
        if path is None:
            _say(f"there is no conf/{name} in the working directory, so Kaldi's defaults are used")
        elif path not in named_confs:
            _say(f"the options of {Path(name).stem} are read from {path} in the working directory")


def _announce_end_of_part(job: Job, remaining_count: int, failed_shards: list[int]) -> None:
    """Print that this part is done, how many archives other parts must write, and the first log with failures.

    ``failed_shards`` has the numbers of this part's shards in which utterances failed.
    """
    number, parts = job.options.part
    archives = "archive is" if remaining_count == 1 else "archives are"
    _say(f"part {number} of {parts} is done; {remaining_count} {archives} left to other parts")
    if failed_shards:
        log = job.layout.get_file_of_archive(failed_shards[0], "log")
        more_count = len(failed_shards) - 1
        more_logs = f" and {format_count(more_count, 'more log')}" if more_count else ""
        _say(f"the failed utterances of this part are listed in {log}{more_logs}")


def _choose_runner(job: Job) -> Any:
    """Return the function that writes the missing archives, on this machine or on a Ray cluster."""
    if job.options.runner == "local":
        return write_archives_locally
    from kaldi_compat.dump.ray_runner import write_archives_on_ray

    return write_archives_on_ray


def make_speed_job(job: Job) -> Job:
    """Return the job for the data directory ``--speed-dir``, which has a copy of each utterance at each speed.

    Create the directory, unless ``--resume`` or ``--shard`` continues an existing plan.
    """
    source, target = job.layout.data, Path(job.options.speed_dir)
    layout = job.layout
    # Default directories of the log and archives are inside the data directory, so they move to the new directory.
    log = "" if layout.log == source / "log" else layout.log
    archives = "" if layout.archives == (source / "data").absolute() else layout.archives
    speed_job = replace(job, layout=Layout.from_paths(target, layout.feature, log, archives), speed_source=source)
    check_directory_paths(speed_job.layout)
    if not _follows_plan(speed_job):
        check_speed_outputs(job, speed_job)
        make_speed_directory(source, target, job.options.speed_factors)
    return speed_job


def _follows_plan(job: Job) -> bool:
    """Return True if the options ask to resume a job or to run a part of it, and its plan exists."""
    return (job.options.resumes or bool(job.options.shard)) and job.layout.plan.exists()


def _make_plan_with_trial(job: Job) -> DumpPlan:
    """Make a new plan. If the job has an extractor, try it, and add the results to the plan. Write no files."""
    plan = make_plan(job)
    if job.source:
        trial, lines = try_extractor(job, count_cores())
        for line in lines:
            _say(line)
        used_digests = compute_digests({name: Path(path) for name, path in trial.files.items()})
        inputs = plan.settings["inputs"] | used_digests
        plan = replace(plan, settings=plan.settings | {"trial": asdict(trial), "inputs": inputs})
    return plan


def _check_kinds(options: DumpOptions, trial: Trial) -> None:
    """Raise DumpError if an option needs a kind of output that the dump does not have.

    ``--cmvn`` needs a matrix as the first output. For an extractor, ``--compress`` needs at least one output that is a
    matrix. ``--per-speaker`` needs at least one vector of floats.
    """
    if options.cmvn and (kind := trial.outputs[trial.first][0]) != MATRIX:
        raise DumpError(f"--cmvn needs matrices of features, but {trial.first} has the type {kind}: leave out --cmvn")
    if options.source and options.compress and all(kind != MATRIX for kind, _ in trial.outputs.values()):
        kind = trial.outputs[trial.first][0]
        raise DumpError(f"--compress needs matrices, but {trial.first} has the type {kind}: leave out --compress")
    if options.per_speaker and not trial.vectors:
        raise DumpError(
            "--per-speaker needs vectors, but no output is a vector: add --pool=mean, or leave out --per-speaker"
        )


@contextlib.contextmanager
def lock_plan(job: Job, new_plan: DumpPlan | None) -> Iterator[DumpPlan]:
    """Lock the dump for the ``with`` block, write or read its plan, and yield the plan.

    During the block, only other parts of the job can run. The temporary files of killed dumps are removed first. For a
    new plan, the outputs of an earlier dump are removed or moved (see :func:`prepare_directories`).

    ``new_plan`` is the plan to write, or None to read the existing plan. If another part of the job has written a plan
    in the meantime, that plan is read instead.
    """
    layout = job.layout
    make_directory(layout.log)
    is_part = bool(job.options.shard)
    descriptor = lock_dump(layout.lock, layout.plan if is_part else None)
    try:
        if removed_count := remove_all_unfinished_files(job):
            _say(f"removed {format_count(removed_count, 'unfinished file')} that killed dumps left")
        if new_plan is None or _follows_plan(job):
            plan = read_resumed_plan(job)
            _say_unused_shard_size(job.options, plan)
        else:
            if job.options.resumes:
                _say(f"there is nothing to resume in {layout.log}, so a new dump starts")
            if layout.plan.exists():
                _say(
                    f"the archives of an earlier dump are created again ({layout.plan}); --resume would keep them if "
                    "the options are the same"
                )
            plan = replace(new_plan, is_new=True)
            prepare_directories(layout, plan)
            write_plan(plan, layout.plan)
        if is_part:
            share_lock(descriptor, layout.lock)
        yield plan
    finally:
        os.close(descriptor)


def read_resumed_plan(job: Job) -> DumpPlan:
    """Read the plan to resume, and write it again if this run changes it. Raise PlanError for an unusable plan.

    With ``--retry-failed``, delete the manifests of this part's archives in which utterances failed, so that this run
    creates these archives again.
    """
    layout, options = job.layout, job.options
    plan = read_plan(layout.plan)
    manifests = {shard.number: read_manifest(layout, shard.number) for shard in plan.shards}
    failed_shards = [number for number, manifest in manifests.items() if manifest and manifest.failures]
    updated_plan = update_plan(plan, job, layout.plan, failed_shards)
    if options.retry_failed:
        for number in {shard.number for shard in plan.select_part(*options.part)}.intersection(failed_shards):
            layout.get_manifest(number).unlink(missing_ok=True)
            _say(f"archive {number} is created again, because some of its utterances failed")
    if updated_plan != plan:
        write_plan(updated_plan, layout.plan)
    return updated_plan


def _say_unused_shard_size(options: DumpOptions, plan: DumpPlan) -> None:
    """Print a message if ``--shard-utterances`` would give a different number of archives than the plan has."""
    size = options.shard_utterances
    if size and -(-plan.count // size) != len(plan.shards):
        max_count = max(shard.count for shard in plan.shards)
        archives = f"{format_count(len(plan.shards), 'archive')} of up to {format_count(max_count, 'utterance')}"
        _say(f"--shard-utterances={size} has no effect on the existing plan, which has {archives}")


def print_summary(job: Job, outcome: Outcome, monitor: Monitor) -> None:
    """Print a job's numbers and warnings, and the most frequent reasons for failure, to standard error."""
    lines = [
        f"{outcome.utterances} of {outcome.wanted} utterances have {job.feature} features: "
        f"{outcome.seconds / HOUR:.2f} hours of audio, "
        f"{format_count(len(outcome.failures), 'failure')}",
        f"this run: {monitor.summarize(outcome.bound)}",
    ]
    if peak := outcome.work.get("peak_device_memory"):
        lines.append(f"peak device memory of a worker: {peak / 2**30:.2f} GiB")
    if job.options.on_gpu and job.with_pitch:
        lines.append("pitch was tracked on the CPU, because it cannot be tracked on a GPU")
    for name, text in NOTES.items():
        if count := int(outcome.work.get(name, 0)):
            lines.append(f"{format_count(count, 'utterance')} {text.format(verb='is' if count == 1 else 'are')}")
    lines += outcome.warnings
    reasons = group_by_reason(outcome.failures)
    first_failures = [(len(group), *group[0]) for _, group in reasons[:MAX_REASONS]]
    lines += [f"  {format_count(count, 'utterance')}: {reason} (first: {key})" for count, key, reason in first_failures]
    if any(reason.endswith(MISSING_FILE) and not reason.startswith("/") for _, _, reason in first_failures):
        lines.append(f"relative file names in {SCRIPT} are relative to the working directory, {os.getcwd()}")
    if (more_count := len(reasons) - MAX_REASONS) > 0:
        lines.append(f"  and {format_count(more_count, 'more reason')}")
    if outcome.failures:
        lines.append(f"the failed utterances are listed in {job.layout.failures}")
    for line in lines:
        _say(line)
