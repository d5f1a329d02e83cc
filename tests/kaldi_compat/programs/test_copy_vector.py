"""Tests of copy-vector that the stored commands of Kaldi do not cover."""

from __future__ import annotations

import numpy as np

from io_ark.blocks import ArrayBlock
from kaldi_compat.programs import copy_vector


def test_a_factor_of_zero_gives_positive_zeros_as_in_openblas() -> None:
    block = ArrayBlock.of(["a"], [np.array([-1, np.nan, np.inf], np.float32)])
    zeros = copy_vector.changed(block, -1, 0.0).values
    assert zeros.tobytes() == np.zeros(3, np.float32).tobytes()
