"""Read the audio of lines of ``wav.scp`` or ``segments``, in threads, ahead of the computation."""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import io_ark
from io_ark.blocks import Skip, WaveBlock
from io_ark.codecs import codec
from io_ark.data_dir import Segment
from io_ark.errors import ArkError
from io_ark.streams import Access
from io_ark.streams.files import OpenFiles
from io_ark.tables import Script
from io_ark.tables.blocks import BlockLoader, FileMemory
from io_ark.tables.loader import read_rxfilename
from io_ark.tables.script import split_line
from io_ark.text import split_words
from kaldi_compat.cli.segments import SegmentOptions, cut_segment, parse_segment
from kaldi_compat.dump.commands import read_from_command
from kaldi_compat.dump.entries import Audio, AudioOrFailure, Failure, OnGrid, make_failure
from kaldi_compat.dump.inputs import SCRIPT
from kaldi_compat.dump.options import DumpOptions, Job
from kaldi_compat.dump.plan import DumpPlan, Shard, read_shard_lines
from kaldi_compat.dump.speed_perturb import change_speed, split_speed
from kaldi_compat.errors import AudioError, KaldiCompatError

logger = logging.getLogger(__name__)

# Limits in bytes of the audio that waits between reading and computing. MAX_WAITING_BYTES is the limit of a process.
# Processes with a GPU share MAX_PINNED_BYTES of pinned memory, but each one may use at least MIN_WAITING_BYTES.
MAX_WAITING_BYTES, MAX_PINNED_BYTES, MIN_WAITING_BYTES = 256 << 20, 1 << 30, 32 << 20
# Bytes of audio in a block that is read at once: BLOCK_BYTES for a CPU, ROW_BYTES for a GPU, which needs large copies.
BLOCK_BYTES, ROW_BYTES = 1 << 20, 1 << 24
# Number of lines of wav.scp that are read together: initial value, and maximum.
FIRST_LINES, MAX_LINES = 8, 256
MAX_BLOCK_FILE_BYTES = 64 << 20  # A larger file is read alone, to check its duration before its samples.
MAX_OPEN_ARCHIVES = 4  # Archives that a thread keeps open, because successive lines often name the same archive.


class RowMemory(FileMemory):
    """Memory from which a GPU can copy, and in which samples of wave files start at multiples of the frame shift."""

    tensor: Any = None  # int16 tensor of the latest allocation; None for ordinary memory.


@dataclass(frozen=True)
class Task:
    """A file or command to read, and the utterances in it."""

    rxfilename: str  # The file or command.
    # Index in the archive's list, key and segment of each utterance. The segment is None for a whole recording.
    utterances: tuple[tuple[int, str, Segment | None], ...]


@dataclass(frozen=True)
class Lines:
    """Consecutive lines of ``wav.scp`` that name files and are read together."""

    index: int  # Position of the first line in the archive's list.
    lines: list[bytes]  # The lines without newlines.

    def __len__(self) -> int:
        return len(self.lines)

    def make_task(self, number: int) -> Task:
        """Return the task that reads line ``number`` of ``lines``, counted from 0."""
        return _parse_task(self.index + number, self.lines[number])


ReadResult = list[Audio | Failure | Lines]


def list_tasks(
    job: Job, plan: DumpPlan, shard: Shard, recordings: Script | None, get_line_count: Callable[[], int] = lambda: 1
) -> Iterator[Task | Lines | Failure]:
    """Yield the tasks that read the utterances of a shard, in the order of its list (wav.scp or segments).

    Consecutive segments of one recording form one task. Invalid segments, and segments of a recording that is not in
    wav.scp, are failures. Lines of wav.scp that name files are yielded in groups, as ``Lines``.

    Args:
        recordings: wav.scp if the list is ``segments``, and None if the list is wav.scp.
        get_line_count: function that returns the number of lines of wav.scp to read together next.
    """
    lines = read_shard_lines(plan, shard, job.layout.data)
    if recordings is None:
        yield from _iterate_script_tasks(lines, get_line_count)
        return
    segments = (_parse_segment(index, line) for index, line in enumerate(lines))
    for recording, group in itertools.groupby(segments, lambda item: getattr(item[1], "recording", None)):
        rxfilename = None if recording is None else recordings.get(recording)
        utterances = []
        for index, segment in group:
            if isinstance(segment, Failure):
                yield segment
            elif rxfilename is None:
                yield Failure(index, segment.key, f"the recording {recording} is not in {SCRIPT}: add the recording")
            else:
                utterances.append((index, segment.key, segment))
        if rxfilename is not None and utterances:
            yield Task(rxfilename, tuple(utterances))


def _iterate_script_tasks(lines: Iterable[bytes], get_line_count: Callable[[], int]) -> Iterator[Task | Lines]:
    """Yield a task for each line of wav.scp with a command, and other lines in groups of up to ``get_line_count()``."""
    index, lines = 0, iter(lines)
    while chunk := list(itertools.islice(lines, get_line_count())):
        for is_command, group in itertools.groupby(chunk, lambda line: line.rstrip().endswith(b"|")):
            group_lines = list(group)
            if is_command:  # A command takes long, so each one is a separate task for a thread.
                yield from (_parse_task(index + i, line) for i, line in enumerate(group_lines))
            else:
                yield Lines(index, group_lines)
            index += len(group_lines)


def _parse_task(index: int, line: bytes) -> Task:
    """Return the task that reads one line of wav.scp, at position ``index`` of the archive's list."""
    key, rxfilename = split_line(line, SCRIPT, index + 1)
    return Task(rxfilename, ((index, key, None),))


def _parse_segment(index: int, line: bytes) -> tuple[int, Segment | Failure]:
    """Return ``index``, and the segment that ``line`` of ``segments`` describes, or a failure if it is invalid."""
    text = line.decode("utf-8", "surrogateescape")
    try:
        return index, parse_segment(text)
    except Skip as reason:
        return index, make_failure(index, split_words(text)[0], reason)


class TaskReader:
    """Reads tasks and lines. Threads may share a reader.

    ``memory`` returns the memory into which a thread reads wave files. None stands for ordinary memory.

    Attributes:
        lines_at_once: number of lines to read together, which is adapted to the sizes of earlier files.
    """

    def __init__(self, options: DumpOptions, memory: Callable[[], RowMemory] | None = None) -> None:
        self.options = options
        self._memory = memory
        # A block for a GPU is not split, so it must fit into a batch. A second at 16 kHz has 32000 bytes.
        bytes_for_gpu = int(min(ROW_BYTES, max(1, 32000 * options.seconds_in_batch)))
        self._bytes_at_once = BLOCK_BYTES if memory is None else bytes_for_gpu
        self.lines_at_once = FIRST_LINES
        self._codec = codec("wave")
        self._local = threading.local()

    def __call__(self, task: Task | Lines | Failure) -> ReadResult:
        """Return the audio and failures of a task. If a block fills up, the last element has the unread lines."""
        if isinstance(task, Failure):
            return [task]
        return [*read_task(task, self.options)] if isinstance(task, Task) else self._read_lines(task)

    def _read_lines(self, lines: Lines) -> ReadResult:
        """Read lines until a block is full. Return the audio, failures and unread lines. Adapt ``lines_at_once``."""
        results: ReadResult = []
        line_count = size = 0
        while line_count < len(lines) and size < self._bytes_at_once:
            audio = self._load_block(lines.lines, line_count)
            if audio is not None:
                results.append(Audio(lines.index + line_count, audio, self._find_place(audio)))
                line_count, size = line_count + len(audio), size + audio.samples.nbytes
                continue
            line_results = read_task(lines.make_task(line_count), self.options)
            results += line_results
            line_count, size = line_count + 1, size + sum(result.nbytes for result in line_results)
        if line_count < len(lines):
            self.lines_at_once = line_count
            return [*results, Lines(lines.index + line_count, lines.lines[line_count:])]
        # Read twice as many lines next time if they would still fit into a block.
        if 2 * size <= self._bytes_at_once and len(lines) >= self.lines_at_once:
            self.lines_at_once = min(2 * len(lines), MAX_LINES)
        return results

    def _load_block(self, lines: list[bytes], first: int) -> WaveBlock | None:
        """Return a block of one or more lines from index ``first`` on, or None if line ``first`` must be read alone."""
        if not hasattr(self._local, "loader"):  # Each thread has its own loader and memory.
            files = OpenFiles(MAX_OPEN_ARCHIVES)
            self._local.memory = memory = None if self._memory is None else self._memory()
            if memory is not None:
                memory.size = self._bytes_at_once
            self._local.loader = BlockLoader(
                self._codec.create_scan(), files, max_file_bytes=MAX_BLOCK_FILE_BYTES, memory=memory
            )
        block = self._local.loader.load(lines, first)
        if not isinstance(block, WaveBlock) or (block.compute_durations() > self.options.max_duration).any():
            return None
        return block

    def _find_place(self, audio: WaveBlock) -> OnGrid | None:
        """Return the place of ``audio``, which this thread has just read, or None if a GPU cannot copy from there."""
        memory = self._local.memory
        if memory is None or memory.tensor is None:
            return None
        is_in_memory = audio.samples.__array_interface__["data"][0] == memory.tensor.data_ptr()
        return OnGrid(memory.tensor, 0) if is_in_memory else None


def read_task(task: Task, options: DumpOptions) -> list[AudioOrFailure]:
    """Return the audio or failure of each utterance of a task. If the file cannot be read, all of them are failures."""
    try:
        wave = read_audio(task.rxfilename, options)
    except (ArkError, KaldiCompatError, OSError, MemoryError) as error:
        return [make_failure(index, key, error) for index, key, _ in task.utterances]
    return [_cut_utterance(wave, *utterance) for utterance in task.utterances]


def _cut_utterance(recording: io_ark.Wave, index: int, key: str, segment: Segment | None) -> AudioOrFailure:
    """Return the audio of a segment, or of the recording if ``segment`` is None. Return a failure if it is invalid."""
    try:
        wave = recording if segment is None else cut_segment(recording, segment, SegmentOptions())
        return Audio.from_wave(index, key, wave)
    except (Skip, AudioError) as reason:
        return make_failure(index, key, reason)


def read_audio(rxfilename: str, options: DumpOptions) -> io_ark.Wave:
    """Read a WAV file, or audio in another format if the extra ``audio`` is installed.

    Args:
        rxfilename: a file, ``file:offset``, a URL, or a command that ends in ``|``. With the option ``speeds``, a
            command of ``utils/perturb_data_dir_speed.sh`` is not run, and the speed is changed here instead.
        options: options of the dump.

    Raises:
        ArkError: the file cannot be read or is not audio, the command failed, or the audio is too long.
        OptionError: Kaldi's resampling cannot change the speed of audio with this sampling rate.
    """
    factor = None
    if options.speeds:
        rxfilename, factor = split_speed(rxfilename)
    wave_codec = codec("wave", max_duration=options.max_duration)
    if rxfilename.endswith("|"):
        wave = read_from_command(rxfilename, wave_codec, pipes=options.pipes, timeout=options.command_timeout)
    else:
        wave = read_rxfilename(wave_codec, rxfilename, Access(options.pipes, options.network, private=False))
    return wave if factor is None else change_speed(wave, factor)


class Clock:
    """Counts the busy seconds of a stage, summed over its threads."""

    def __init__(self) -> None:
        self.busy = 0.0
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def measure(self) -> Iterator[None]:
        """Add the duration of the body of the ``with`` statement to ``busy``, in seconds."""
        start = time.perf_counter()
        try:
            yield
        finally:
            with self._lock:
                self.busy += time.perf_counter() - start


def get_max_waiting_bytes(options: DumpOptions) -> int:
    """Return the limit in bytes of the audio that waits in a process. On GPUs, ``nj`` processes share pinned memory."""
    if not options.on_gpu:
        return MAX_WAITING_BYTES
    return min(MAX_WAITING_BYTES, max(MIN_WAITING_BYTES, MAX_PINNED_BYTES // options.nj))


def read_tasks_ahead(
    tasks: Iterable[Task | Lines | Failure],
    read: Callable[[Any], ReadResult],
    threads: int,
    max_files: int,
    clock: Clock,
    max_bytes: int = MAX_WAITING_BYTES,
) -> Generator[AudioOrFailure]:
    """Yield the audio and failures of the tasks in order, while threads already read the next tasks.

    At least ``threads`` tasks are read ahead. Further tasks are started while fewer than ``max_files`` files are read
    ahead, and while the audio would not exceed ``max_bytes`` if each task were as large as the largest task so far.
    ``clock`` measures the calls of ``read``, which reads one task. Lines that it leaves unread form the next task.
    """
    largest_size = 1  # Size in bytes of the audio of the largest task so far.
    pending: deque[tuple[int, Future[ReadResult]]] = deque()

    def measure_read(task: Task | Lines | Failure) -> ReadResult:
        with clock.measure():
            return read(task)

    pool = ThreadPoolExecutor(threads, thread_name_prefix="read")
    try:
        unread_tasks = iter(tasks)
        file_count = 0
        while True:
            while len(pending) < threads or (file_count < max_files and (len(pending) + 1) * largest_size <= max_bytes):
                if (task := next(unread_tasks, None)) is None:
                    break
                count = len(task) if isinstance(task, Lines) else 1
                pending.append((count, pool.submit(measure_read, task)))
                file_count += count
            if not pending:
                return
            count, future = pending.popleft()
            result = future.result()
            file_count -= count
            if result and isinstance(unread := result[-1], Lines):
                pending.appendleft((len(unread), pool.submit(measure_read, unread)))
                file_count += len(unread)
            blocks = [block for block in result if not isinstance(block, Lines)]
            largest_size = max(largest_size, sum(block.nbytes for block in blocks))
            yield from blocks
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
