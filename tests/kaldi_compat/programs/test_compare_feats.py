"""Tests of compare-feats that the stored commands of Kaldi do not cover."""

from __future__ import annotations

import numpy as np
import pytest

from kaldi_compat.programs import compare_feats
from tests.support.tables import matrices, save

Stderr = pytest.CaptureFixture[str]


def test_similarity_is_logged_and_decides_the_status(capsys: Stderr) -> None:
    values = matrices(50, 40)
    one = save("one.ark", values)
    # 2 x.y / (x.x + y.y) for y = x / 2 is 0.8.
    half = save("half.ark", {key: value / 2 for key, value in values.items()})
    assert compare_feats.main([one, one]) == 0
    assert "Overall similarity for the two feats is:1 " in capsys.readouterr().err
    assert compare_feats.main([one, half]) == 1
    err = capsys.readouterr().err
    assert "Similarity metric for each dimension  [ 0.8 0.8 0.8 ]" in err
    assert "Features are considered dissimilar since 0.8 < 0.99" in err
    assert compare_feats.main(["--threshold=0.79", one, half]) == 0
    other = save("other.ark", {"u0": values["u0"][:-1]})
    assert compare_feats.main([one, other]) == 1
    err = capsys.readouterr().err
    assert "Feature dimensions differ for utterance u0, 50x3 vs. 49x3, skipping utterance." in err
    assert "Second table has no feature for utterance u1" in err


def test_empty_features_are_not_said_to_differ(capsys: Stderr) -> None:
    values = matrices(50, 40)
    table = save("some.ark", values | {"v": np.empty((0, 0), np.float32)})
    assert compare_feats.main([table, table]) == 0
    err = capsys.readouterr().err
    assert "dimensions differ" not in err
    assert "Both features of utterance v are empty, skipping utterance." in err
    assert f"Processed {len(values)} feature files, 1 had errors." in err


def test_digits_are_kaldis(capsys: Stderr) -> None:
    rng = np.random.default_rng(15)
    x = (rng.integers(-999, 999, (1000, 3)) / 8).astype(np.float32)
    y = (x + rng.integers(-99, 99, (1000, 3)) / 8).astype(np.float32)
    assert compare_feats.main([save("x.ark", {"u": x}), save("y.ark", {"u": y})]) == 0
    err = capsys.readouterr().err
    # Written by Kaldi. In double, the second product would be 5.01901e+06.
    assert "cross-product for each column dimension:  [ 5.01907e+06 5.019e+06 5.14514e+06 ]" in err
    assert "Overall similarity for the two feats is:0.99496 " in err


def test_columns_of_zeros_and_infinity_are_logged_as_in_kaldi(capsys: Stderr) -> None:
    table = save("zeros.ark", {"u": np.array([[0, 1e20, 1]] * 3, np.float32)})
    assert compare_feats.main([table, table]) == 1
    err = capsys.readouterr().err
    assert "self-product of 1st features for each column dimension:  [ 0 inf 3 ]" in err
    assert "Similarity metric for each dimension  [ -nan -nan 1 ]" in err
    assert "Features are considered dissimilar since -nan < 0.99" in err
    assert "overflow" not in err
