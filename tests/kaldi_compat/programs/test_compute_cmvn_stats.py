"""Tests of compute-cmvn-stats that the stored commands of Kaldi do not cover."""

from __future__ import annotations

from pathlib import Path

from kaldi_compat.programs import compute_cmvn_stats
from tests.support.programs import run


def test_global_statistics_without_features_are_an_empty_matrix() -> None:
    status, stderr = run(compute_cmvn_stats.main, "scp:/dev/null", "g")
    assert status == 1 and "no features" in stderr
    assert Path("g").read_bytes() == b"\0BFM \4\0\0\0\0\4\0\0\0\0"  # what Kaldi's program writes
