"""Count and show the progress of a dump: a bar of tqdm on a terminal, otherwise lines of text."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, TextIO

from io_ark.text import escape, format_count
from kaldi_compat.dump.errors import DumpError
from kaldi_compat.dump.write import Counts, Manifest

SECONDS_BETWEEN_LINES = 10.0
SECONDS_BETWEEN_POINTS = 0.5
SECONDS_BEFORE_ESTIMATE = 5.0
SHARE_BEFORE_ESTIMATE = 0.01
HOUR = 3600.0
# Format of tqdm's bar. :meth:`Monitor.describe` replaces the other figures of tqdm.
BAR = "{percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} utt [{elapsed}{postfix}]"


class Monitor:
    """Counts utterances, hours and failures over all archives, and shows them.

    Args:
        total: number of utterances of the job.
        max_failures: number of failures that the job tolerates before it stops; -1 for no limit.
        done: counts of the archives that were complete at the start of this run, by archive number.
        stream: stream for the progress; None for standard error.
    """

    def __init__(
        self, total: int, max_failures: int = -1, done: Mapping[int, Counts] | None = None, stream: TextIO | None = None
    ):
        self.total = total
        self.max_failures = max_failures
        self._stream = stream
        self.start = time.monotonic()
        self._counts = dict(done or {})
        self._initial_totals = self.totals
        self._last_line_time = self.start
        # Time since the start of this run, and audio computed since then, both in seconds, for the speed chart.
        self.speed_points: list[tuple[float, float]] = [(0.0, 0.0)]
        self._bar = _make_bar(self.total, self.totals[0], self.stream)

    @property
    def stream(self) -> TextIO:
        """The stream for the progress. It is looked up on every use, because code may replace ``sys.stderr``."""
        return sys.stderr if self._stream is None else self._stream

    @property
    def totals(self) -> Counts:
        """Number of finished utterances, including failures; seconds of audio with features; number of failures."""
        utterances, seconds, failures = zip((0, 0.0, 0), *self._counts.values(), strict=True)
        return sum(utterances), sum(seconds), sum(failures)

    @property
    def computed_count(self) -> int:
        """Number of utterances that were finished in this run, including failures."""
        return self.totals[0] - self._initial_totals[0]

    @property
    def elapsed(self) -> float:
        """Time since the start of this run, in seconds."""
        return time.monotonic() - self.start

    @property
    def speed(self) -> float:
        """Speed of this run: seconds of audio with features per second of elapsed time."""
        return self._count_seconds() / max(self.elapsed, 1e-9)

    def _count_seconds(self) -> float:
        return self.totals[1] - self._initial_totals[1]

    def record_progress(self, shard: int, utterances: int, seconds: float, failures: int) -> None:
        """Replace the counts of a shard, and show the progress.

        Args:
            shard: number of the shard.
            utterances: number of finished utterances of the shard, including failures.
            seconds: duration in seconds of the audio of the finished utterances with features.
            failures: number of failed utterances of the shard.

        Raises:
            DumpError: more utterances of the job have failed than ``max_failures`` allows.
        """
        self._counts[shard] = (utterances, seconds, failures)
        if self.elapsed - self.speed_points[-1][0] >= SECONDS_BETWEEN_POINTS:
            self.speed_points.append((self.elapsed, self._count_seconds()))
        self._show_progress()
        if 0 <= self.max_failures < (failed_count := self.totals[2]):
            raise DumpError(
                f"{format_count(failed_count, 'utterance')} failed, and --max-failures is "
                f"{self.max_failures}: see the .log files in the log directory for the reasons"
            )

    def record_complete_archive(self, manifest: Manifest) -> None:
        """Record the final counts of a complete archive, and show the progress."""
        self.record_progress(manifest.shard, *manifest.counts)

    def say(self, message: str) -> None:
        """Print a message above the bar, or as a line between the lines of progress."""
        message = escape(message)
        with contextlib.suppress(OSError):  # A pipe may have lost its reader, which must not stop the job.
            if self._bar is None:
                print(message, file=self.stream, flush=True)
            else:
                self._bar.write(message, file=self.stream)

    def record_lost_archive(self, shard: int) -> None:
        """Remove the counts of an archive that must be written again, because its worker failed."""
        self._counts.pop(shard, None)

    def close(self) -> None:
        """Record a speed point if audio was computed after the last point. Print the last line, or close the bar."""
        if self._count_seconds() > self.speed_points[-1][1]:
            self.speed_points.append((self.elapsed, self._count_seconds()))
        if self._bar is None:
            self._print_progress()
        else:
            self._show_progress()
            self._bar.close()

    def describe(self) -> str:
        """Describe the progress, such as "1.50 h, 90x real time, 0:20:00 left, 0 failed". Omit unknown values."""
        utterances, seconds, failures = self.totals
        remaining, computed = self.total - utterances, self.computed_count
        # There is no estimate at first, because all workers finish their first batches late and at the same time.
        has_estimate = (
            remaining and computed and self.elapsed >= SECONDS_BEFORE_ESTIMATE
            and computed >= SHARE_BEFORE_ESTIMATE * self.total
        )  # fmt: skip
        time_left = f", {timedelta(seconds=int(remaining * self.elapsed / computed))} left" if has_estimate else ""
        speed = f", {self.speed:.0f}x real time" if computed else ""
        return f"{seconds / HOUR:.2f} h{speed}{time_left}, {failures} failed"

    def summarize(self, bound: str) -> str:
        """Describe the time, speed and busiest stage ``bound`` of this run, or say that nothing was left to compute."""
        if not self.computed_count:
            return "nothing was left to compute: all archives were complete"
        return f"{self.elapsed:.1f} s, {self.speed:.0f} times real time; bound by: {bound}"

    def _show_progress(self) -> None:
        """Update the bar. Without a bar, print a line unless one was printed less than SECONDS_BETWEEN_LINES ago."""
        if self._bar is not None:
            self._bar.update(self.totals[0] - self._bar.n)
            self._bar.set_postfix_str(self.describe(), refresh=False)
        elif time.monotonic() - self._last_line_time >= SECONDS_BETWEEN_LINES:
            self._print_progress()

    def _print_progress(self) -> None:
        """Print a line with the number of finished utterances and :meth:`describe`."""
        self._last_line_time = time.monotonic()
        with contextlib.suppress(OSError):  # A pipe may have lost its reader, which must not stop the job.
            total = format_count(self.total, "utterance")
            print(f"{self.totals[0]} of {total}, {self.describe()}", file=self.stream, flush=True)


def _make_bar(total: int, initial: int, stream: TextIO) -> Any:
    """Return a bar that starts at ``initial`` of ``total`` utterances, or None without a terminal or tqdm."""
    if not _is_terminal(stream):
        return None
    try:
        import tqdm
    except ImportError:
        return None
    return tqdm.tqdm(total=total, initial=initial, file=stream, bar_format=BAR, dynamic_ncols=True)


def _is_terminal(stream: TextIO) -> bool:
    """Return True if a stream is a terminal whose width is positive or unknown, so that it can show a bar."""
    try:
        return stream.isatty() and os.get_terminal_size(stream.fileno()).columns > 0
    except OSError:
        return True
