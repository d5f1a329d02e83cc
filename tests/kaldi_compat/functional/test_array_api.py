"""Functions for arrays and tensors give the same results for both."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from kaldi_compat.functional.array_api import running_sum_by_doubling


@given(length=st.integers(0, 70), axis=st.integers(-2, 1), seed=st.integers(0, 1000))
def test_sums_by_doubling_are_running_sums(length: int, axis: int, seed: int) -> None:
    x = np.random.default_rng(seed).integers(-99, 99, (3, length)).astype(np.float64)
    assert np.array_equal(running_sum_by_doubling(x, axis), np.cumsum(x, axis))
    tensor = running_sum_by_doubling(torch.from_numpy(x), axis)
    assert torch.equal(tensor, torch.from_numpy(np.cumsum(x, axis)))
