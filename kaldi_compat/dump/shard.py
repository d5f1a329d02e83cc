"""Write one archive, from its list of utterances to its manifest: the stages of a dump, with bounded memory."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import product
from operator import attrgetter
from pathlib import Path

from io_ark.tables import Script
from io_ark.text import escape_controls, format_count
from kaldi_compat.cli.in_process import run_commands_in_process
from kaldi_compat.cli.log import LOGGERS, make_command_handler
from kaldi_compat.cli.memory import keep_freed_memory
from kaldi_compat.dump.encode import Encoder
from kaldi_compat.dump.entries import Audio, AudioOrFailure, Failure, FeaturesOrFailure
from kaldi_compat.dump.errors import EXPECTED, DumpError
from kaldi_compat.dump.features import DeviceComputer
from kaldi_compat.dump.inputs import SCRIPT, SEGMENTS, InputWatch
from kaldi_compat.dump.model import ExtractorComputer
from kaldi_compat.dump.options import Job
from kaldi_compat.dump.plan import DumpPlan, Shard
from kaldi_compat.dump.read import Clock, TaskReader, get_max_waiting_bytes, list_tasks, read_tasks_ahead
from kaldi_compat.dump.spectral import Pending
from kaldi_compat.dump.write import ArchiveWriter, Manifest, clear_unfinished_files

logger = logging.getLogger(__name__)

STDERR = 2
# Maximum number of computed batches that wait to be encoded and written. The limit bounds the memory.
MAX_WAITING_BATCHES = 4
# Function that reports the progress of an archive: numbers of utterances, seconds of audio, and failures so far.
ProgressReporter = Callable[[int, float, int], None]


class ShardRunner:
    """Writes archives of a plan. Computes the features on ``device``: "cpu", or a GPU such as "cuda:0".

    With ``owns_process``, standard error of this process is written to the log file of the current archive.
    """

    def __init__(self, job: Job, plan: DumpPlan, device: str = "cpu", *, owns_process: bool = False) -> None:
        keep_freed_memory()
        self.job = job
        self.owns_process = owns_process
        self.plan = plan
        self.inputs = InputWatch(job, plan.settings, plan.stamps)
        self.compute: ExtractorComputer | DeviceComputer
        if job.source:
            self.compute = ExtractorComputer(job, plan.trial, device, is_new=plan.is_new)
        else:
            self.compute = DeviceComputer(job, plan, device)
        self.read = TaskReader(job.options, self.compute.memory)
        self.trial = plan.trial
        self.encode = Encoder(job.options, self.trial)
        self.recordings = Script.open(str(job.layout.data / SCRIPT)) if plan.listing == SEGMENTS else None

    def __call__(self, shard: Shard, report_progress: ProgressReporter = lambda *counts: None) -> Manifest:
        """Write the archives of a shard, one for each output, and return the manifest.

        After each batch, call ``report_progress`` with the shard's number of utterances so far, including failures, the
        seconds of audio with features, and the number of failures.

        Raises:
            OutputError: an archive cannot be written, or reads back with other bytes.
            PlanError: an input has changed since the plan was made.
            DumpError: the list of utterances has changed, or the features cannot be computed.
        """
        with write_log_file(self.job.layout.get_file_of_archive(shard.number, "log"), takes_stderr=self.owns_process):
            writer: ArchiveWriter | None = None
            try:
                writer = ArchiveWriter(self.job.layout, shard.number, self.trial)
                return self._make_archives(shard, writer, report_progress)
            except BaseException as error:
                if isinstance(error, Exception) and not isinstance(error, EXPECTED):
                    logger.exception("archive %d", shard.number)
                if writer is not None:
                    writer.abandon()
                # An interruption may come after a file was created and before the writer exists to abandon it.
                clear_unfinished_files(self.job.layout, shard.number, self.trial, include_own=True)
                if isinstance(error, Exception):
                    self.inputs.check()  # A changed input explains the error better than its message.
                raise

    def _make_archives(self, shard: Shard, writer: ArchiveWriter, report_progress: ProgressReporter) -> Manifest:
        """Write the archives of a shard with ``writer``. For the errors and the result, see :meth:`__call__`."""
        read_clock, compute_clock, write_clock = Clock(), Clock(), Clock()
        start = time.perf_counter()
        count, seconds, failure_count = 0, 0.0, 0
        pending_writes: deque[Future[None]] = deque()
        with ThreadPoolExecutor(1, thread_name_prefix="write") as writing_thread:
            for results in self._compute_results(shard, read_clock, compute_clock):
                for result in results:
                    # An utterance has a result for each output. Only the result of the first output is counted.
                    if isinstance(result, Failure) or result.name == self.trial.first:
                        count, seconds = count + len(result), seconds + result.seconds
                    if isinstance(result, Failure):
                        failure_count += 1
                        logger.warning("%s: %s", result.key, result.reason)
                while len(pending_writes) > MAX_WAITING_BATCHES:
                    pending_writes.popleft().result()
                pending_writes.append(writing_thread.submit(self._write_results, writer, results, write_clock))
                report_progress(count, seconds, failure_count)
            for pending_write in pending_writes:
                pending_write.result()
        if writer.processed_count != shard.count:
            raise DumpError(
                f"archive {shard.number} has {writer.processed_count} of {format_count(shard.count, 'utterance')}: "
                f"check whether {self.job.layout.data / self.plan.listing} has changed during the dump"
            )
        self.inputs.check()
        work = {"wall": time.perf_counter() - start, "read": read_clock.busy / self.job.options.readers}
        work |= {"compute": compute_clock.busy, "write": write_clock.busy}
        return writer.finish(work | self.compute.take_figures())

    def _write_results(self, writer: ArchiveWriter, results: Sequence[FeaturesOrFailure], clock: Clock) -> None:
        """Encode and write the results of a batch. Add the time to ``clock``."""
        with clock.measure():
            for result in results:
                blocks = [result] if isinstance(result, Failure) else self.encode(result)
                for block in blocks:
                    writer.add_block(block)

    def _compute_results(
        self, shard: Shard, read_clock: Clock, compute_clock: Clock
    ) -> Iterator[Sequence[FeaturesOrFailure]]:
        """Yield the results of each batch in the order of utterances. Start the next batch before waiting for one."""
        pending_batches: deque[tuple[list[Failure], Pending]] = deque()
        for batch in self._read_batches(shard, read_clock):
            with compute_clock.measure():
                audio = [block for block in batch if isinstance(block, Audio)]
                failures = [block for block in batch if isinstance(block, Failure)]
                # Without audio, ``list`` returns the empty list of results.
                pending_batches.append((failures, self.compute.submit(audio) if audio else list))
            if len(pending_batches) > 1:
                yield _finish_batch(pending_batches.popleft(), compute_clock)
        for pending_batch in pending_batches:
            yield _finish_batch(pending_batch, compute_clock)

    def _read_batches(self, shard: Shard, read_clock: Clock) -> Iterator[list[AudioOrFailure]]:
        """Yield the audio and failures of a shard in batches within the limits ``compute.window``, and read ahead."""
        options = self.job.options
        tasks = list_tasks(self.job, self.plan, shard, self.recordings, lambda: self.read.lines_at_once)
        blocks = read_tasks_ahead(tasks, self.read, threads=options.readers, max_files=options.window_utterances,
                                  clock=read_clock, max_bytes=get_max_waiting_bytes(options))  # fmt: skip
        with contextlib.closing(blocks):
            # The sizes of the blocks depend on the speed of reading, which must not affect the batches of an extractor.
            utterances = (utterance for block in blocks for utterance in block.separate())
            yield from group_blocks(utterances if self.job.source else blocks, *self.compute.window)


def group_blocks(
    blocks: Iterable[AudioOrFailure], max_utterances: int, max_seconds: float
) -> Iterator[list[AudioOrFailure]]:
    """Group consecutive blocks into batches of at most ``max_utterances`` utterances and ``max_seconds`` seconds.

    A block has one or more utterances, and is not split. A block that exceeds a limit forms a batch by itself.
    """
    batch: list[AudioOrFailure] = []
    utterances, seconds = 0, 0.0
    for block in blocks:
        if batch and (utterances + len(block) > max_utterances or seconds + block.seconds > max_seconds):
            yield batch
            batch, utterances, seconds = [], 0, 0.0
        batch.append(block)
        utterances += len(block)
        seconds += block.seconds
    if batch:
        yield batch


def _finish_batch(batch: tuple[list[Failure], Pending], compute_clock: Clock) -> list[FeaturesOrFailure]:
    """Return the results of ``batch`` (failures of reading, pending results), in the order of the utterances."""
    failures, pending = batch
    with compute_clock.measure():
        return sorted([*failures, *pending()], key=attrgetter("index"))


class _QuietHandler(logging.FileHandler):
    """Writes a log file in printable characters, and ignores errors of writing."""

    def format(self, record: logging.LogRecord) -> str:
        return escape_controls(super().format(record))

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(OSError):
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        pass


@contextlib.contextmanager
def write_log_file(path: Path, *, takes_stderr: bool = False) -> Iterator[None]:
    """Write the log messages of the ``with`` block, and with ``takes_stderr`` also its standard error, to a file.

    An old file is deleted. Without messages, no file is created. Errors of writing are ignored. In the block, commands
    that end with programs of this package run in this process.
    """
    with contextlib.suppress(OSError):
        path.unlink()
    handler = _QuietHandler(path, encoding="utf-8", delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    handlers = [handler, make_command_handler()]
    # Records of commands that run in this process are left to the second handler, which writes to standard error.
    handler.addFilter(lambda record: not handlers[1].filter(record))
    for package_logger, log_handler in product(LOGGERS, handlers):
        package_logger.addHandler(log_handler)
    try:
        with redirect_stderr(path) if takes_stderr else contextlib.nullcontext(), run_commands_in_process():
            yield
    finally:
        for package_logger, log_handler in product(LOGGERS, handlers):
            package_logger.removeHandler(log_handler)
        with contextlib.suppress(OSError):
            handler.close()


@contextlib.contextmanager
def redirect_stderr(path: Path) -> Iterator[None]:
    """Append standard error of the ``with`` block to a file, if it can be opened. Remove the file if it stays empty."""
    try:
        log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    except OSError:
        yield
        return
    saved_stderr = os.dup(STDERR)
    os.dup2(log, STDERR)
    try:
        yield
    finally:
        os.dup2(saved_stderr, STDERR)
        os.close(saved_stderr)
        if os.fstat(log).st_size == 0:
            with contextlib.suppress(OSError):
                path.unlink()
        os.close(log)
