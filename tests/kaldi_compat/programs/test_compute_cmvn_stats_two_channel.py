"""Tests of compute-cmvn-stats-two-channel that the stored commands of Kaldi do not cover."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kaldi_compat.programs import compute_cmvn_stats_two_channel
from tests.support.tables import load, save

Stderr = pytest.CaptureFixture[str]


def test_empty_utterances_of_a_call_have_statistics_of_nothing() -> None:
    Path("calls").write_text("u0 call0 A\nu1 call0 B\n")
    empty = save("empty.ark", {key: np.empty((0, 0), np.float32) for key in ("u0", "u1")})
    assert compute_cmvn_stats_two_channel.main(["calls", empty, "ark:out.ark"]) == 0
    assert {key: each.tolist() for key, each in load("out.ark").items()} == {key: [[0], [0]] for key in ("u0", "u1")}
