"""The progress of a dump, and the counts behind it."""

from __future__ import annotations

import io
import os
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from kaldi_compat.dump.cli import main
from kaldi_compat.dump.errors import DumpError
from kaldi_compat.dump.finalize import Outcome
from kaldi_compat.dump.progress import Monitor
from kaldi_compat.dump.report_charts import encode_png
from kaldi_compat.dump.write import Manifest
from tests.support.dump_data import keys_of
from tests.support.extractors import module_data


class Terminal(io.StringIO):
    """A stream that looks like a terminal."""

    def isatty(self) -> bool:
        return True


def test_counts_of_archives_add_up_and_can_be_withdrawn() -> None:
    before = Manifest(1, utterances=2, seconds=3600.0, failures=[("c", "broken")])
    monitor = Monitor(10, done={before.shard: before.counts}, stream=io.StringIO())
    monitor.record_progress(2, 3, 7200.0, 1)
    assert monitor.totals == (6, 10800.0, 2)
    monitor.record_lost_archive(2)
    assert monitor.totals == (3, 3600.0, 1)
    assert monitor.speed == 0  # what was there before is not this run's


def test_more_failures_than_allowed_stop_the_job() -> None:
    monitor = Monitor(10, max_failures=2, stream=io.StringIO())
    monitor.record_progress(1, 5, 1.0, 2)
    with pytest.raises(DumpError, match="3 utterances failed"):
        monitor.record_progress(2, 1, 1.0, 1)


def test_lines_without_a_terminal() -> None:
    stream = io.StringIO()
    monitor = Monitor(4, stream=stream)
    monitor.record_progress(1, 4, 7200.0, 1)
    monitor.close()
    (line,) = stream.getvalue().splitlines()
    assert line.startswith("4 of 4 utterances, 2.00 h, ") and line.endswith("1 failed")


def test_a_bar_on_a_terminal() -> None:
    pytest.importorskip("tqdm")
    stream = Terminal()
    monitor = Monitor(4, stream=stream)
    monitor.record_progress(1, 1, 3600.0, 0)
    monitor.close()
    assert "1/4" in stream.getvalue() and "1.00 h" in stream.getvalue() and "real time" in stream.getvalue()


def test_lines_on_a_terminal_without_a_width() -> None:
    ours, theirs = os.openpty()
    with open(theirs, "w") as stream, open(ours, "rb", buffering=0) as shown:
        Monitor(1, stream=stream).close()
        assert b"0 of 1 utterance," in shown.read(1000)


def test_a_closed_standard_error_stops_nothing() -> None:
    class Broken(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    monitor = Monitor(1, stream=Broken())
    monitor.record_progress(1, 1, 1.0, 0)
    monitor.close()
    assert monitor.totals[0] == 1


def test_pictures_are_png_files() -> None:
    matplotlib = pytest.importorskip("matplotlib.image")
    levels = np.arange(12, dtype=np.uint8).reshape(3, 4) * 20
    read = matplotlib.imread(io.BytesIO(encode_png(levels)), format="png")
    np.testing.assert_array_equal(np.round(read * 255).astype(np.uint8), levels)


def at(monitor: Monitor, seconds: float, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(Monitor, "elapsed", seconds)
    return monitor.describe()


def test_time_left_waits_until_it_means_something(monkeypatch: pytest.MonkeyPatch) -> None:
    monitor = Monitor(1000, stream=io.StringIO())
    monitor.record_progress(1, 100, 1.0, 0)
    assert "left" not in at(monitor, 1.0, monkeypatch)
    assert "0:01:30 left" in at(monitor, 10.0, monkeypatch)
    assert "0:01:34 left" in at(monitor, 10.55, monkeypatch)  # 94.95 seconds
    monitor.record_progress(1, 1000, 10.0, 0)
    assert "left" not in at(monitor, 100.0, monkeypatch)  # At the end.
    few = Monitor(1000, stream=io.StringIO())
    few.record_progress(1, 5, 1.0, 0)
    assert "left" not in at(few, 10.0, monkeypatch)


def test_time_left_of_a_resumed_dump_counts_this_run_only(monkeypatch: pytest.MonkeyPatch) -> None:
    before = Manifest(1, utterances=900, seconds=900.0)
    monitor = Monitor(1000, done={1: before.counts}, stream=io.StringIO())
    monitor.record_progress(2, 10, 1.0, 0)
    assert "0:01:30 left" in at(monitor, 10.0, monkeypatch)  # ten in ten seconds, 90 to go


def test_stage_that_was_busy_for_the_longest_time_is_named() -> None:
    outcomes = {bound: Outcome(1, 1, (), 1.0, {"wall": 9.0, "read": 1.0, "write": 1.0, bound: 2.0})
                for bound in ("read", "compute", "write")}  # fmt: skip
    assert all(outcome.bound == bound for bound, outcome in outcomes.items())


@pytest.mark.parametrize(("allowed", "failures", "stops"), [(0, 0, False), (0, 1, True), (-1, 9, False), (2, 2, False)])
def test_failures_that_are_allowed(allowed: int, failures: int, stops: bool) -> None:
    monitor = Monitor(10, max_failures=allowed, stream=io.StringIO())
    with pytest.raises(DumpError, match=f"--max-failures is {allowed}: see") if stops else nullcontext():
        monitor.record_progress(1, 10, 1.0, failures)


def test_line_is_shown_at_most_every_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    stream = io.StringIO()
    monitor = Monitor(8, stream=stream)
    for count, seconds in enumerate((109.5, 110.0, 111.0, 119.5, 120.0), start=1):
        now[0] = seconds
        monitor.record_progress(1, count, 3600.0 * count, 0)
    assert [line.partition(",")[0] for line in stream.getvalue().splitlines()] == [
        "2 of 8 utterances", "5 of 8 utterances"
    ]  # fmt: skip
    assert "5.00 h, 900x real time, 0:00:12 left, 0 failed" in stream.getvalue()
    points = zip((9.5, 10.0, 11.0, 19.5, 20.0), np.arange(1, 6) * 3600.0, strict=True)
    assert monitor.speed_points == [(0.0, 0.0), *points]
    now[0] = 120.4
    monitor.record_progress(1, 6, 7 * 3600.0, 0)
    assert len(monitor.speed_points) == 6  # Less than half a second has passed.
    monitor.close()
    assert monitor.speed_points[-1] == (pytest.approx(20.4), 7 * 3600.0)
    assert monitor.summarize("read") == f"20.4 s, {7 * 3600 / 20.4:.0f} times real time; bound by: read"


def test_messages_are_printable_and_a_closed_stream_stops_none() -> None:
    class Broken(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    stream = io.StringIO()
    Monitor(1, stream=stream).say("\x1b[2Jkey")
    assert stream.getvalue() == "\\x1b[2Jkey\n"
    Monitor(1, stream=Broken()).say("a")
    assert Monitor(0, stream=stream).summarize("read") == "nothing was left to compute: all archives were complete"


def test_utterance_with_several_outputs_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = module_data(tmp_path, 5)
    key, *others = keys_of(data / "wav.scp")
    (data / "wav" / f"{key}.wav").write_bytes(b"RIFF")
    counts: list[tuple[int, int, float, int]] = []
    monkeypatch.setattr(Monitor, "record_progress", lambda self, *args: counts.append(args))
    assert main(["dump", "--module=extract.py:Mean", str(data), "--nj=1", "--window-utterances=2"]) == 1
    assert [(shard, count, failures) for shard, count, _, failures in counts] == [
        (1, 2, 1), (1, 4, 1), (1, 5, 1), (1, 5, 1)
    ]  # fmt: skip
    durations = [float(line.split()[1]) for line in (data / "utt2dur").read_text().splitlines()]
    assert len(durations) == len(others) and counts[-2:] == [(1, 5, pytest.approx(sum(durations)), 1)] * 2
