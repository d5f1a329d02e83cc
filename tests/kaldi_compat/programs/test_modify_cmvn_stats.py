"""Tests of modify-cmvn-stats that the stored commands of Kaldi do not cover."""

from __future__ import annotations

import numpy as np
import pytest

from kaldi_compat.functional.cmvn import cmvn_stats
from kaldi_compat.programs import modify_cmvn_stats
from tests.support.programs import check_refused
from tests.support.tables import load, matrices, save

Stderr = pytest.CaptureFixture[str]


def test_statistics_become_means_and_variances_or_leave_dimensions_out(capsys: Stderr) -> None:
    values = {"a": matrices(7)["u0"].astype(np.float64)}
    stats = {"a": cmvn_stats(values["a"]), "none": np.zeros((2, 4))}
    source = save("stats.ark", stats)
    assert modify_cmvn_stats.main(["--convert-to-mean-and-var=true", source, "ark:out.ark"]) == 0
    assert "Zero or negative count for speaker none" in capsys.readouterr().err
    out = load("out.ark")
    assert list(out) == ["a"]
    np.testing.assert_allclose(out["a"], [values["a"].mean(axis=0), values["a"].var(axis=0)])
    assert modify_cmvn_stats.main(["0:2", source, "ark:out.ark"]) == 0
    faked = load("out.ark")["a"]
    np.testing.assert_array_equal(faked[:, [0, 2]], [[0, 0], [7, 7]])
    np.testing.assert_array_equal(faked[:, [1, 3]], stats["a"][:, [1, 3]])
    message = "first argument: expected a colon-separated list of integers"
    check_refused(modify_cmvn_stats.main, "0-2", source, "ark:out.ark", message=message)
    one_row = save("one.ark", {"a": np.ones((1, 4))})
    check_refused(modify_cmvn_stats.main, one_row, "ark:out.ark", message="a: Expected input to be CMVN stats")
