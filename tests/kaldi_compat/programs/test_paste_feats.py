"""Tests of paste-feats that the stored commands of Kaldi do not cover."""

from __future__ import annotations

import numpy as np

from kaldi_compat.programs import paste_feats
from tests.support.programs import check_refused
from tests.support.tables import save


def test_an_unsorted_second_table_fails_between_blocks() -> None:
    values = {key: np.ones((rows, 13), np.float32) for key, rows in (("b", 1), ("a", 1), ("c", 9000), ("d", 1))}
    first, second = save("in.ark", values), "ark,s:in.ark"
    message = "a: comes after 'b': the table is not sorted"
    check_refused(paste_feats.main, first, second, "ark:out.ark", message=message)
