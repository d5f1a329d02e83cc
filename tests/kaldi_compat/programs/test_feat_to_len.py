"""Tests of feat-to-len that the stored commands of Kaldi do not cover."""

from __future__ import annotations

import pytest

from kaldi_compat.programs import feat_to_len
from tests.support.tables import matrices, save, text


def test_lengths_are_a_table_or_a_total(capfd: pytest.CaptureFixture[str]) -> None:
    source = save("a.ark", matrices(4, 7))
    assert feat_to_len.main([source]) == 0
    assert capfd.readouterr().out == "11\n"
    assert feat_to_len.main([source, "ark,t:-"]) == 0
    assert capfd.readouterr().out == "u0 4 \nu1 7 \n"
    assert feat_to_len.main([text("none.ark", "")]) == 0
    assert capfd.readouterr().out == "0\n"
