"""Tests of copy-vector that the stored commands of Kaldi do not cover."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kaldi_compat.programs import (
    copy_vector,
)

Run = Callable[..., int]


def test_vectors_are_truncated_extended_and_scaled() -> None:
    vector = np.array([1, 2, 3], np.float32)
    assert copy_vector.changed(vector, 2, 2.0).tolist() == [2, 4]
    assert copy_vector.changed(vector, 5, 1.0).tolist() == [1, 2, 3, 0, 0]
    assert copy_vector.changed(vector, 0, 1.0).tolist() == []
    assert copy_vector.changed(vector, -1, 1.0).tolist() == [1, 2, 3]


def test_a_factor_of_zero_gives_positive_zeros_as_in_openblas() -> None:
    zeros = copy_vector.changed(np.array([-1, np.nan, np.inf], np.float32), -1, 0.0)
    assert zeros.tobytes() == np.zeros(3, np.float32).tobytes()
