"""Reading: from a line of ``wav.scp`` or ``segments`` to audio, in threads, ahead of the computation."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

import io_ark
from io_ark.codecs import codec
from io_ark.errors import ArkError
from io_ark.tables.script import Script, split_line
from io_ark.text import split_words
from kaldi_compat.cli.loop import Skip
from kaldi_compat.cli.segments import Segment, SegmentOptions, cut, parse_segment
from kaldi_compat.dump.commands import read_from_command
from kaldi_compat.dump.errors import one_line
from kaldi_compat.dump.failures import reason_for
from kaldi_compat.dump.options import DumpOptions, Job
from kaldi_compat.dump.plan import SCRIPT, Plan, Shard, lines_of
from kaldi_compat.dump.speed_perturb import at_speed, split_speed
from kaldi_compat.errors import AudioError, KaldiCompatError

__all__ = ["Clock", "Failure", "Task", "Utterance", "failed", "read_ahead", "read_audio", "read_task", "tasks_of"]

logger = logging.getLogger(__name__)

# Bytes of audio that may wait between reading and computing.
WAITING_BYTES = 256 << 20
RIFF = (b"RIFF", b"RIFX")
CHUNK = 1 << 20  # samples of each channel that are decoded at once


@dataclass(frozen=True)
class Utterance:
    """Audio to compute features of.

    Attributes:
        index: its position in the archive's list.
        key: its name.
        wave: its samples, int16 of shape (channels, samples), and their rate.
    """

    index: int
    key: str
    wave: io_ark.Wave


@dataclass(frozen=True)
class Failure:
    """An utterance without features.

    Attributes:
        index: its position in the archive's list.
        key: its name.
        reason: the cause in one line, which does not repeat the key.
    """

    index: int
    key: str
    reason: str


def failed(index: int, key: str, error: BaseException) -> Failure:
    """Return the failure that an error means for an utterance."""
    if isinstance(error, MemoryError):
        return Failure(index, key, "not enough memory for it: cut it into segments")
    return Failure(index, key, reason_for(key, one_line(error)))


Read = list[Utterance | Failure]


@dataclass(frozen=True)
class Task:
    """A file or command to read, and the utterances to take from it.

    Attributes:
        rxfilename: the file or command.
        whole: index and key of the one utterance that it is; None if segments are cut from it.
        segments: index and times of each segment.
    """

    rxfilename: str
    whole: tuple[int, str] | None = None
    segments: tuple[tuple[int, Segment], ...] = ()

    @property
    def wanted(self) -> list[tuple[int, str]]:
        """Index and key of all its utterances."""
        return [self.whole] if self.whole else [(index, segment.key) for index, segment in self.segments]


def tasks_of(job: Job, plan: Plan, shard: Shard, recordings: Script | None) -> Iterator[Task | Failure]:
    """Yield the files to read for an archive, in order, and a failure for each invalid line.

    Args:
        job, plan, shard: identify the list of utterances.
        recordings: wav.scp, if the list is ``segments``.
    """
    lines = lines_of(plan, shard, job.layout.data)
    if recordings is None:
        for index, line in enumerate(lines):
            key, rxfilename = split_line(line.encode("utf-8", "surrogateescape"), SCRIPT, index + 1)
            yield Task(rxfilename, whole=(index, key))
        return
    for recording, group in itertools.groupby(map(_segment, itertools.count(), lines), _recording):
        found = None if recording is None else recordings.get(recording)
        segments = []
        for index, segment in group:
            if isinstance(segment, Failure):
                yield segment
            elif found is None:
                yield Failure(index, segment.key, f"its recording {recording} is not in {SCRIPT}")
            else:
                segments.append((index, segment))
        if found is not None and segments:
            yield Task(found, segments=tuple(segments))


def _segment(index: int, line: str) -> tuple[int, Segment | Failure]:
    try:
        return index, parse_segment(line)
    except Skip as reason:
        return index, failed(index, split_words(line)[0], reason)


def _recording(numbered: tuple[int, Segment | Failure]) -> str | None:
    return numbered[1].recording if isinstance(numbered[1], Segment) else None


def read_task(task: Task, options: DumpOptions) -> Read:
    """Read a task's audio; an error becomes the failure of the utterances concerned."""
    try:
        wave = read_audio(
            task.rxfilename,
            pipes=options.pipes,
            network=options.network,
            own_speed=bool(options.speeds),
            max_duration=options.max_duration,
            timeout=options.command_timeout,
        )
    except (ArkError, KaldiCompatError, OSError, MemoryError) as error:
        return [failed(index, key, error) for index, key in task.wanted]
    if task.whole:
        return [Utterance(*task.whole, wave)]
    return [_cut(wave, index, segment) for index, segment in task.segments]


def _cut(recording: io_ark.Wave, index: int, segment: Segment) -> Utterance | Failure:
    try:
        return Utterance(index, segment.key, cut(recording, segment, SegmentOptions()))
    except (Skip, AudioError) as reason:
        return failed(index, segment.key, reason)


def read_audio(
    rxfilename: str,
    *,
    pipes: bool = True,
    network: bool = True,
    own_speed: bool = False,
    max_duration: float = float("inf"),
    timeout: float = 0.0,
) -> io_ark.Wave:
    """Read audio: WAV, or other formats with the extra ``audio``.

    Args:
        rxfilename: a file, ``file:offset``, a URL, or a command that ends in ``|``.
        pipes: whether commands may be run.
        network: whether URLs may be read.
        own_speed: change the speed here if the command is one of ``utils/perturb_data_dir_speed.sh``.
        max_duration: the longest audio that is accepted, in seconds.
        timeout: seconds that a command may take; 0 is no limit.

    Raises:
        ArkError: it cannot be read.
        AudioError: it is not audio, or is too long.
    """
    factor = None
    if own_speed:
        rxfilename, factor = split_speed(rxfilename)
    if rxfilename.endswith("|"):
        wave = read_from_command(rxfilename, codec("wave", max_duration=max_duration), pipes=pipes, timeout=timeout)
    else:
        wave = io_ark.read_object("wave", rxfilename, pipes=pipes, network=network, max_duration=max_duration)
    return wave if factor is None else at_speed(wave, factor)


@dataclass
class Clock:
    """Counts the seconds that a stage was busy, over all its threads."""

    busy: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, seconds: float) -> None:
        """Add to the count."""
        with self._lock:
            self.busy += seconds

    def __enter__(self) -> Clock:
        self._since = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.add(time.perf_counter() - self._since)


def read_ahead(
    tasks: Iterable[Task | Failure], read: Callable[[Task], Read], threads: int, most: int, clock: Clock
) -> Generator[Utterance | Failure]:
    """Yield the results of the tasks in order, read by threads ahead of the consumer.

    They read at most ``most`` tasks ahead, and fewer if the largest task so far suggests more than WAITING_BYTES.
    """
    largest = 1
    pending: deque[Future[Read]] = deque()

    def timed(task: Task | Failure) -> Read:
        if isinstance(task, Failure):
            return [task]
        start = time.perf_counter()
        try:
            return read(task)
        finally:
            clock.add(time.perf_counter() - start)

    pool = ThreadPoolExecutor(threads, thread_name_prefix="read")
    try:
        waiting = iter(tasks)
        while True:
            ahead = max(threads, min(most, WAITING_BYTES // largest))
            pending.extend(pool.submit(timed, task) for task in itertools.islice(waiting, max(0, ahead - len(pending))))
            if not pending:
                return
            result = pending.popleft().result()
            largest = max(largest, sum(each.wave.samples.nbytes for each in result if isinstance(each, Utterance)))
            yield from result
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
