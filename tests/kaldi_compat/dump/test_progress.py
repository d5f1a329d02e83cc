"""The progress of a dump, and the counts behind it."""

from __future__ import annotations

import io
import os

import pytest

from kaldi_compat.dump.errors import DumpError
from kaldi_compat.dump.finalize import Outcome
from kaldi_compat.dump.progress import Monitor
from kaldi_compat.dump.report_charts import encode_png
from kaldi_compat.dump.write import Manifest


class Terminal(io.StringIO):
    """A stream that looks like a terminal."""

    def isatty(self) -> bool:
        return True


def test_counts_of_archives_add_up_and_can_be_withdrawn() -> None:
    before = Manifest(1, utterances=2, seconds=3600.0, failures=[("c", "broken")])
    monitor = Monitor(10, done={before.shard: before.counts}, stream=io.StringIO())
    monitor.record_progress(2, 3, 7200.0, 1)
    assert monitor.totals == (6, 10800.0, 2)
    monitor.record_lost(2)
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
        assert b"0 of 1 utterances" in shown.read(1000)


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
    import numpy as np

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
