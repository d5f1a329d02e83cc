"""Reading: from a line of ``wav.scp`` or ``segments`` to audio, in threads, ahead of what computes."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import io_ark
from io_ark.errors import ArkError
from io_ark.tables.script import Script, split_line
from io_ark.text import split_words
from kaldi_compat.cli.loop import Skip
from kaldi_compat.cli.segments import Segment, SegmentOptions, cut, parse_segment
from kaldi_compat.dump.errors import one_line
from kaldi_compat.dump.options import Job
from kaldi_compat.dump.plan import SCRIPT, Plan, Shard, lines_of
from kaldi_compat.dump.speed_perturb import at_speed, split_speed
from kaldi_compat.errors import AudioError, KaldiCompatError

logger = logging.getLogger(__name__)

# How much audio may wait between reading and computing.
WAITING_BYTES = 256 << 20
RIFF = (b"RIFF", b"RIFX")
PIECE = 1 << 20  # samples of each channel that are decoded at once


@dataclass(frozen=True)
class Utterance:
    """Audio to compute features of.

    Attributes:
        index: its place in the archive's list.
        key: its name.
        wave: its samples, int16 of shape (channels, samples), and their rate.
    """

    index: int
    key: str
    wave: io_ark.Wave


@dataclass(frozen=True)
class Failure:
    """An utterance that there are no features of.

    Attributes:
        index: its place in the archive's list.
        key: its name.
        reason: why, in one line.
    """

    index: int
    key: str
    reason: str


def failed(index: int, key: str, error: BaseException) -> Failure:
    """The failure that an error is, which need not name the utterance once more."""
    return Failure(index, key, one_line(error).removeprefix(f"{key}: "))


Read = list[Utterance | Failure]


@dataclass(frozen=True)
class Task:
    """A file or command to read, and what is wanted of it.

    Attributes:
        rxfilename: what to read.
        whole: index and key of the one utterance that it is; None where segments are cut from it.
        segments: index and place of each segment.
    """

    rxfilename: str
    whole: tuple[int, str] | None = None
    segments: tuple[tuple[int, Segment], ...] = ()

    @property
    def wanted(self) -> list[tuple[int, str]]:
        """Index and key of all its utterances."""
        return [self.whole] if self.whole else [(index, segment.key) for index, segment in self.segments]


def tasks_of(job: Job, plan: Plan, shard: Shard, recordings: Script | None) -> Iterator[Task | Failure]:
    """What has to be read for an archive, in order; a failure for each line that cannot be meant.

    Args:
        job, plan, shard: whose list of utterances is read.
        recordings: wav.scp, where the list is segments.
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
        return index, Failure(index, split_words(line)[0], str(reason))


def _recording(numbered: tuple[int, Segment | Failure]) -> str | None:
    return numbered[1].recording if isinstance(numbered[1], Segment) else None


def read_task(task: Task, *, pipes: bool, native_speed: bool) -> Read:
    """Read what a task names; what is wrong becomes the failure of the utterances concerned."""
    try:
        wave = read_audio(task.rxfilename, pipes=pipes, native_speed=native_speed)
    except (ArkError, KaldiCompatError, OSError) as error:
        return [failed(index, key, error) for index, key in task.wanted]
    if task.whole:
        return [Utterance(*task.whole, wave)]
    return [_cut(wave, index, segment) for index, segment in task.segments]


def _cut(recording: io_ark.Wave, index: int, segment: Segment) -> Utterance | Failure:
    try:
        return Utterance(index, segment.key, cut(recording, segment, SegmentOptions()))
    except (Skip, AudioError) as reason:
        return failed(index, segment.key, reason)


def read_audio(rxfilename: str, *, pipes: bool = True, native_speed: bool = False) -> io_ark.Wave:
    """Read audio: WAV by ourselves; FLAC, OGG, MP3, SPHERE and what else libsndfile knows if a plain file is no WAV.

    Args:
        rxfilename: a file, ``file:offset``, or a command that ends in ``|``.
        pipes: whether commands may be run.
        native_speed: change the speed ourselves where the command is one of ``utils/perturb_data_dir_speed.sh``.

    Raises:
        ArkError: it cannot be read.
        AudioError: it is no audio.
    """
    factor = None
    if native_speed:
        rxfilename, factor = split_speed(rxfilename)
    path = Path(rxfilename)
    if not rxfilename.endswith("|") and path.is_file() and _start(path) not in RIFF:
        wave = _read_with_soundfile(path)
    else:
        wave = io_ark.read_object("wave", rxfilename, pipes=pipes)
    return wave if factor is None else at_speed(wave, factor)


def _start(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.read(4)


def _read_with_soundfile(path: Path) -> io_ark.Wave:
    try:
        import soundfile
    except ImportError:
        raise AudioError(
            f"{path} is no WAV file; other formats need soundfile: pip install kaldi-compat[audio]"
        ) from None
    try:
        with soundfile.SoundFile(str(path)) as file:
            samples, rate, announced = _frames(file), file.samplerate, file.frames
    except (soundfile.LibsndfileError, RuntimeError, TypeError) as error:
        reason = str(error).rpartition(": ")[2] if path.stat().st_size else "it is empty"
        raise AudioError(f"{path} cannot be read as audio: {reason}") from error
    if len(samples) < announced:
        logger.warning("%s: %d samples announced, but only %d are there", path, announced, len(samples))
    return io_ark.Wave(float(rate), np.ascontiguousarray(samples.T))


def _frames(file: Any) -> npt.NDArray[np.int16]:
    """All of a SoundFile, shape (samples, channels): in pieces, since a broken header may announce any length."""
    pieces: list[npt.NDArray[np.int16]] = []
    while not pieces or len(pieces[-1]) == PIECE:
        pieces.append(file.read(PIECE, dtype="int16", always_2d=True))
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


@dataclass
class Clock:
    """Seconds that a stage was busy, over all its threads."""

    busy: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, seconds: float) -> None:
        """Count some more."""
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
    """What the tasks give, in their order, read by threads ahead of what is asked for.

    How far ahead is bounded: by ``most`` tasks, and in bytes, as the largest task so far lets expect.
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
