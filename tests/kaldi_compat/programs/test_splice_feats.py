"""Tests of splice-feats that the stored commands of Kaldi do not cover."""

from __future__ import annotations

import numpy as np

from kaldi_compat.programs import splice_feats
from tests.support.programs import check_refused
from tests.support.tables import load, save


def test_an_empty_matrix_is_refused() -> None:
    source = save("in.ark", {"a": np.ones((2, 3), np.float32), "empty": np.zeros((0, 0), np.float32)})
    check_refused(splice_feats.main, source, "ark:out.ark", message="empty: there are no frames to splice")
    assert list(load("out.ark")) == ["a"]
