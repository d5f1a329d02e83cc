"""Tests of concat-feats that the stored commands of Kaldi do not cover."""

from __future__ import annotations

import kaldiio

from kaldi_compat.programs import concat_feats
from tests.support.programs import check_refused
from tests.support.tables import matrices


def test_frames_are_concatenated_and_other_dimensions_refused() -> None:
    kaldiio.save_mat("a.mat", matrices(2)["u0"])
    kaldiio.save_mat("b.mat", matrices(2, dim=4)["u0"])
    assert concat_feats.main(["a.mat", "a.mat", "a.mat", "o.mat"]) == 0
    assert kaldiio.load_mat("o.mat").shape == (6, 3)
    message = "b.mat has 4 columns, but a.mat has 3"
    check_refused(concat_feats.main, "a.mat", "b.mat", "o.mat", message=message)
