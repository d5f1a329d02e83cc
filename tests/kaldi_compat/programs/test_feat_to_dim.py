"""Tests of feat-to-dim that the stored commands of Kaldi do not cover."""

from __future__ import annotations

import pytest

from kaldi_compat.programs import feat_to_dim
from tests.support.programs import check_refused
from tests.support.tables import matrices, save, text


def test_dimension_is_that_of_the_first_utterance_or_a_table(capfd: pytest.CaptureFixture[str]) -> None:
    source = save("a.ark", matrices(4, 7))
    assert feat_to_dim.main([source, "-"]) == 0
    assert capfd.readouterr().out == "3\n"
    assert feat_to_dim.main([source, "ark,t:-"]) == 0
    assert capfd.readouterr().out == "u0 3 \nu1 3 \n"


def test_an_empty_table_is_refused() -> None:
    check_refused(feat_to_dim.main, text("none.ark", ""), "-", message="Could not read any features from ark:none.ark")
