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


@pytest.mark.parametrize(("frames", "dim"), [(1, 3), (16384, 1), (16385, 1), (1261, 13), (2521, 13), (2, 20000)])
def test_products_are_added_up_over_all_frames(frames: int, dim: int) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, frames, dim)).astype(np.float32)
    expected = [np.einsum("td,td->d", a, b, dtype=np.float64) for a, b in ((x, x), (y, y), (x, y))]
    np.testing.assert_allclose(compare_feats.products_of(x, y), expected, rtol=1e-6, atol=1e-5)
