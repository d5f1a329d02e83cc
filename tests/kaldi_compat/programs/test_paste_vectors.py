"""Tests of paste-vectors that the stored commands of Kaldi do not cover."""

from __future__ import annotations

import numpy as np

from kaldi_compat.programs import paste_vectors
from tests.support.programs import check_failed
from tests.support.tables import load, save


def test_vectors_of_the_same_key_are_concatenated() -> None:
    one = save("one.ark", {"a": np.array([1, 2], np.float32), "b": np.ones(2, np.float32)})
    two = save("two.ark", {"a": np.array([3], np.float32)})
    assert paste_vectors.main([one, two, one, "ark:out.ark"]) == 0
    assert {key: value.tolist() for key, value in load("out.ark").items()} == {"a": [1, 2, 3, 1, 2]}
    other = save("other.ark", {"c": np.ones(1, np.float32)})
    check_failed(paste_vectors.main, one, other, "ark:out.ark", message=f"Missing utt a from input {other}")
