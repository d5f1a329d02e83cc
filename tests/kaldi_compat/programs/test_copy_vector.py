"""Tests of copy-vector that the stored commands of Kaldi do not cover."""

from __future__ import annotations

import numpy as np

from io_ark.blocks import ArrayBlock
from kaldi_compat.programs import copy_vector


def test_vectors_are_truncated_extended_and_scaled() -> None:
    def changed(dim: int, scale: float) -> list[list[float]]:
        block = ArrayBlock.of(["a", "b"], [np.array(each, np.float32) for each in ([1, 2, 3], [4])])
        return [vector.tolist() for _, vector in copy_vector.changed(block, dim, scale).entries()]

    assert changed(2, 2.0) == [[2, 4], [8, 0]]
    assert changed(5, 1.0) == [[1, 2, 3, 0, 0], [4, 0, 0, 0, 0]]
    assert changed(0, 1.0) == [[], []]
    assert changed(-1, 1.0) == [[1, 2, 3], [4]]


def test_a_factor_of_zero_gives_positive_zeros_as_in_openblas() -> None:
    block = ArrayBlock.of(["a"], [np.array([-1, np.nan, np.inf], np.float32)])
    zeros = copy_vector.changed(block, -1, 0.0).values
    assert zeros.tobytes() == np.zeros(3, np.float32).tobytes()
