"""Tests of get-full-lda-mat that the stored commands of Kaldi do not cover."""

from __future__ import annotations

import numpy as np

from kaldi_compat.programs import get_full_lda_mat
from tests.support.tables import mat, read


def test_missing_rows_are_appended_and_the_inverse_is_written() -> None:
    lda = np.random.default_rng(1).normal(size=(4, 4))
    arguments = [mat("kept.mat", [[1, 0, 0, 2]]), mat("lda.mat", lda), "full.mat"]
    assert get_full_lda_mat.main([*arguments, "inverse.mat"]) == 0
    np.testing.assert_allclose(read("full.mat"), np.vstack(([[1, 0, 0, 2]], lda[1:])), rtol=1e-6)
    np.testing.assert_allclose(read("full.mat") @ read("inverse.mat"), np.eye(4), atol=1e-5)
