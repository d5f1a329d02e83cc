"""Tests of apply-cmvn that the stored commands of Kaldi do not cover."""

from __future__ import annotations

from pathlib import Path

import kaldiio
import numpy as np
import pytest

import io_ark
from kaldi_compat.programs import (
    apply_cmvn,
)
from tests.support.tables import load, matrices, save

Stderr = pytest.CaptureFixture[str]


def test_without_means_compressed_matrices_are_copied_unchanged() -> None:
    kaldiio.save_ark("in.ark", matrices(20), compression_method=2)
    assert apply_cmvn.main(["--norm-means=false", "ark:absent", "ark:in.ark", "ark:out.ark"]) == 0
    assert Path("out.ark").read_bytes() == Path("in.ark").read_bytes()


def test_a_skipped_dimension_gets_no_negative_zero_as_in_kaldi() -> None:
    io_ark.write_object("double-matrix", "stats", np.array([[3.0, 4.0, 2.0], [9.0, 16.0, 0.0]]))
    source = save("in.ark", {"a": np.full((1, 2), -0.0, np.float32)})
    assert apply_cmvn.main(["--skip-dims=0", "stats", source, "ark:out.ark"]) == 0
    ((zero, _),) = load("out.ark")["a"]
    assert zero == 0
    assert not np.signbit(zero)
