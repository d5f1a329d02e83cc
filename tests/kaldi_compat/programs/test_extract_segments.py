"""Tests of extract-segments that the stored commands of Kaldi do not cover."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from kaldi_compat.programs import extract_segments
from tests.support.programs import run
from tests.support.tables import wav


def test_a_short_segment_without_channel_does_not_stop_the_program() -> None:
    wav("a.wav", 8000, np.ones((8000, 2)))
    Path("wav.scp").write_text("r a.wav\n")
    Path("segments").write_text("s1 r 0.1 0.15\ns2 r 0.1 0.5 1\n")
    status, stderr = run(extract_segments.main, "scp:wav.scp", "segments", "ark:o.ark")
    assert status == 0
    assert "Segment s1 too short, skipping it." in stderr
    assert "Successfully processed 1 lines out of 2 in the segments file." in stderr


def test_recordings_in_pipes_are_read_once_for_neighbouring_segments() -> None:
    wav("a.wav", 8000, np.ones((8000, 1)))
    Path("wav.scp").write_text("r echo x >> runs; cat a.wav |\n")
    Path("segments").write_text("s1 r 0 0.5\ns2 r 0.5 1.0\n")
    assert extract_segments.main(["scp:wav.scp", "segments", "ark:o.ark"]) == 0
    assert Path("runs").read_text() == "x\n"
