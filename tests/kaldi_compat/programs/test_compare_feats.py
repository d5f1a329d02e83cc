"""Tests of compare-feats that the stored commands of Kaldi do not cover."""

from __future__ import annotations

import numpy as np
import pytest

from kaldi_compat.programs import compare_feats
from tests.support.tables import save

Stderr = pytest.CaptureFixture[str]


def test_digits_are_kaldis(capsys: Stderr) -> None:
    rng = np.random.default_rng(15)
    x = (rng.integers(-999, 999, (1000, 3)) / 8).astype(np.float32)
    y = (x + rng.integers(-99, 99, (1000, 3)) / 8).astype(np.float32)
    assert compare_feats.main([save("x.ark", {"u": x}), save("y.ark", {"u": y})]) == 0
    err = capsys.readouterr().err
    # Written by Kaldi. In double, the second product would be 5.01901e+06.
    assert "cross-product for each column dimension:  [ 5.01907e+06 5.019e+06 5.14514e+06 ]" in err
    assert "Overall similarity for the two feats is:0.99496 " in err
