"""Tests of the order of the entries that ``sum-post`` writes."""

import numpy as np

from kaldi_compat.programs.sum_post import sort_runs_by_weight


def test_runs_are_sorted_by_weight_separately() -> None:
    weights = np.array([3, 1, 2, 0.5, 0.1, 0.2, 9, 8, 7], np.float32)
    keys, starts, sizes = np.array([0, 0, 0, 1, 1, 1, 2, 2, 3]), np.array([0, 3, 6, 8]), np.array([3, 3, 2, 1])
    order = np.arange(9)
    sort_runs_by_weight(order, weights, keys, starts, sizes)
    assert order.tolist() == [1, 2, 0, 4, 5, 3, 7, 6, 8]
