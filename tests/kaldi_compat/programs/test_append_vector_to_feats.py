"""Tests of append-vector-to-feats that the stored commands of Kaldi do not cover."""

from __future__ import annotations

import numpy as np
import pytest

import io_ark
from kaldi_compat.programs import append_vector_to_feats
from tests.support.programs import check_failed
from tests.support.tables import load, mat, matrices, read, save

Stderr = pytest.CaptureFixture[str]


def test_vectors_are_appended_to_each_frame(capsys: Stderr) -> None:
    values = matrices(2, 3)
    vectors = save("vectors.ark", {"u1": np.array([7, 8], np.float32)})
    assert append_vector_to_feats.main([save("in.ark", values), vectors, "ark:out.ark"]) == 0
    assert "Could not read vector for utterance u0" in capsys.readouterr().err
    out = load("out.ark")
    assert list(out) == ["u1"]
    np.testing.assert_array_equal(out["u1"], np.hstack((values["u1"], [[7, 8]] * 3)))
    io_ark.write_object("vector", "v", np.array([9], np.float32))
    assert append_vector_to_feats.main([mat("in.mat", [[1], [2]]), "v", "out.mat"]) == 0
    assert read("out.mat").tolist() == [[1, 9], [2, 9]]
    message = "Done 0 utts, errors on 0"
    check_failed(append_vector_to_feats.main, save("none.ark", {}), vectors, "ark:out.ark", message=message)
