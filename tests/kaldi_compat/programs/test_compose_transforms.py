"""Tests of compose-transforms that the stored commands of Kaldi do not cover."""

from __future__ import annotations

import numpy as np
import pytest

from kaldi_compat.programs import compose_transforms
from tests.support.programs import check_refused
from tests.support.tables import load, mat, save, text

Stderr = pytest.CaptureFixture[str]


def test_tables_are_composed_by_key_and_by_speaker(capsys: Stderr) -> None:
    a = {"u0": np.eye(2, dtype=np.float32), "u1": np.full((2, 2), 3, np.float32), "u2": np.eye(2, dtype=np.float32)}
    b = {"s": np.array([[1, 2], [3, 4]], np.float32), "u0": np.full((2, 2), 5, np.float32)}
    tables = [save("a.ark", a), save("b.ark", b)]
    assert compose_transforms.main([*tables, "ark:out.ark"]) == 0
    assert capsys.readouterr().err.count("WARNING") == 2
    assert {key: value.tolist() for key, value in load("out.ark").items()} == {"u0": [[5, 5], [5, 5]]}
    utt2spk = text("utt2spk", "u0 s\nu1 s\nu2 t\n")
    assert compose_transforms.main([f"--utt2spk={utt2spk}", *tables, "ark:out.ark"]) == 0
    out = load("out.ark")
    assert list(out) == ["u0", "u1"]
    np.testing.assert_array_equal(out["u1"], a["u1"] @ b["s"])
    single = mat("b.mat", b["s"])
    assert compose_transforms.main([tables[0], single, "ark:out.ark"]) == 0
    np.testing.assert_array_equal(load("out.ark")["u1"], a["u1"] @ b["s"])
    assert compose_transforms.main([single, tables[0], "ark:out.ark"]) == 0
    np.testing.assert_array_equal(load("out.ark")["u1"], b["s"] @ a["u1"])
    for wrong, message in (
        ([single, single, "ark:out.ark"], "ark:out.ark: the output must be a table if"),
        ([*tables, "out.mat"], "out.mat: the output must be a table if"),
        ([f"--utt2spk={utt2spk}", single, *tables[1:], "ark:o"], "--utt2spk needs two tables"),
        ([single, mat("three.mat", np.eye(3)), "out.mat"], "2 columns cannot follow one with 3 rows"),
    ):
        check_refused(compose_transforms.main, *wrong, message=message)
    assert compose_transforms.main([single, mat("empty.mat", np.zeros((0, 0))), "out.mat"]) == 1
