"""Tests of apply-cmvn that the stored commands of Kaldi do not cover."""

from __future__ import annotations

from pathlib import Path

import kaldiio
import numpy as np
import pytest

import io_ark
from kaldi_compat.functional.cmvn import cmvn_stats
from kaldi_compat.programs import (
    apply_cmvn,
    compute_cmvn_stats,
)
from tests.support.programs import check_refused
from tests.support.tables import load, mat, matrices, save

Stderr = pytest.CaptureFixture[str]


def test_options_and_statistics_that_do_not_match_are_refused() -> None:
    values = matrices(5)
    source = save("in.ark", values)
    io_ark.write_object("double-matrix", "all.mat", cmvn_stats(values["u0"]))
    for arguments, says in (
        (["--norm-vars", "--norm-means=false", "all.mat"], "--norm-vars=true needs --norm-means=true"),
        (["--utt2spk=ark:x", "all.mat"], "--utt2spk option not compatible with rxfilename"),
        (["--skip-dims=1,2", "all.mat"], "--skip-dims: expected a colon-separated list of integers"),
        (["--skip-dims=3", "all.mat"], "u0: dimensions to skip must lie in 0 to 2: 3"),
        (["--skip-dims=1", mat("three.mat", np.ones((3, 4)))], "u0: CMVN statistics have two rows"),
        ([mat("wrong.mat", np.ones((2, 9)))], "u0: CMVN statistics of shape (2, 9) do not fit"),
        ([mat("nothing.mat", np.zeros((2, 4)))], "u0: too little to normalize by"),
    ):
        check_refused(apply_cmvn.main, *arguments, source, "ark:out.ark", message=says)
    assert apply_cmvn.main(["all.mat", source, "ark:out.ark"]) == 0
    np.testing.assert_allclose(load("out.ark")["u0"].mean(axis=0), 0, atol=1e-6)


def test_without_means_compressed_matrices_are_copied_unchanged() -> None:
    kaldiio.save_ark("in.ark", matrices(20), compression_method=2)
    assert apply_cmvn.main(["--norm-means=false", "ark:absent", "ark:in.ark", "ark:out.ark"]) == 0
    assert Path("out.ark").read_bytes() == Path("in.ark").read_bytes()


def test_floored_variance_is_logged(capsys: Stderr) -> None:
    values = {"a": np.array([[1, 2], [1, 3]], np.float32)}
    source = save("in.ark", values)
    compute_cmvn_stats.main([source, "ark:stats.ark"])
    assert apply_cmvn.main(["--norm-vars=true", "ark:stats.ark", source, "ark:out.ark"]) == 0
    assert "Flooring cepstral variance from 0 to 1e-20" in capsys.readouterr().err
    np.testing.assert_allclose(load("out.ark")["a"], [[0, -1], [0, 1]])


def test_a_skipped_dimension_gets_no_negative_zero_as_in_kaldi() -> None:
    io_ark.write_object("double-matrix", "stats", np.array([[3.0, 4.0, 2.0], [9.0, 16.0, 0.0]]))
    source = save("in.ark", {"a": np.full((1, 2), -0.0, np.float32)})
    assert apply_cmvn.main(["--skip-dims=0", "stats", source, "ark:out.ark"]) == 0
    ((zero, _),) = load("out.ark")["a"]
    assert zero == 0
    assert not np.signbit(zero)
