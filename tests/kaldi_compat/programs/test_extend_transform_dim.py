"""Tests of extend-transform-dim that the stored commands of Kaldi do not cover."""

from __future__ import annotations

import numpy as np

from kaldi_compat.programs import extend_transform_dim
from tests.support.programs import check_refused
from tests.support.tables import load, mat, read, save


def test_new_dimensions_are_left_unchanged() -> None:
    source = mat("in.mat", [[2, 7]])
    assert extend_transform_dim.main(["--new-dimension=2", source, "out.mat"]) == 0
    assert read("out.mat").tolist() == [[2, 0, 7], [0, 1, 0]]
    table = save("in.ark", {"a": np.eye(2, dtype=np.float32)})
    assert extend_transform_dim.main(["--new-dimension=3", table, "ark:out.ark"]) == 0
    assert load("out.ark")["a"].tolist() == np.eye(3).tolist()
    check_refused(
        extend_transform_dim.main, source, "out.mat", message="--new-dimension argument invalid or not specified"
    )
    two = mat("two.mat", np.eye(2))
    message = "the new dimension 1 must be at least 2"
    check_refused(extend_transform_dim.main, "--new-dimension=1", two, "out.mat", message=message)
