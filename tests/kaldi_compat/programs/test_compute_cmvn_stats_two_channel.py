"""Tests of compute-cmvn-stats-two-channel that the stored commands of Kaldi do not cover."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kaldi_compat.functional.cmvn import cmvn_stats
from kaldi_compat.programs import compute_cmvn_stats_two_channel
from tests.support.programs import check_refused
from tests.support.tables import load, matrices, save

Stderr = pytest.CaptureFixture[str]


def test_the_louder_side_of_each_frame_counts(capsys: Stderr) -> None:
    values = matrices(5, 5, 4, 3, 2)
    calls = Path("calls")
    calls.write_text("u1 call1 B\nu0 call1 A\nu2 call0 A\nu3 call0 B\nu4 call2 A\nmissing call3 A\nalso call3 B\n")
    source = save("in.ark", values)
    assert compute_cmvn_stats_two_channel.main([str(calls), source, "ark:out.ark"]) == 0
    err = capsys.readouterr().err
    assert "Number of frames differ between u2 and u3: 4 vs. 3" in err
    assert "Call call2 has 1 utterances, expected two" in err
    assert "for 5 utterances; 2 had errors" in err
    stats = load("out.ark")
    assert list(stats) == ["u2", "u3", "u1", "u0", "u4"]
    for alone in ("u2", "u3", "u4"):
        np.testing.assert_array_equal(stats[alone], cmvn_stats(values[alone]))
    louder = values["u0"][:, 0] >= values["u1"][:, 0]
    np.testing.assert_allclose(stats["u0"][0, -1], np.where(louder, 1, 0.01).sum(), rtol=1e-6)
    np.testing.assert_allclose(stats["u1"][0, -1], np.where(louder, 0.01, 1).sum(), rtol=1e-6)
    empty = save("empty.ark", {key: np.empty((0, 0), np.float32) for key in ("u0", "u1")})
    calls.write_text("u0 call0 A\nu1 call0 B\n")
    assert compute_cmvn_stats_two_channel.main([str(calls), empty, "ark:out.ark"]) == 0
    assert {key: each.tolist() for key, each in load("out.ark").items()} == {key: [[0], [0]] for key in ("u0", "u1")}
    calls.write_text("u1 call1\n")
    message = "Expecting 3 fields per line of reco2file_and_channel file calls, got: u1 call1 (line 1)"
    check_refused(compute_cmvn_stats_two_channel.main, str(calls), source, "ark:out.ark", message=message)
