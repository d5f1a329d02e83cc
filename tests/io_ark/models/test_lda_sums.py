"""The order in which the offset of an LDA transform is added up."""

from __future__ import annotations

import numpy as np
import pytest

from io_ark.models.lda import _sum_columns


@pytest.mark.parametrize("columns", [1, 3, 4, 7, 8, 9])
def test_columns_are_added_in_four_lanes_and_the_rest_in_order(columns: int) -> None:
    products = np.random.default_rng(columns).normal(size=(50, columns)).astype(np.float32)
    lanes = [np.zeros(50, np.float32) for _ in range(4)]
    for column in range(columns & ~3):
        lanes[column % 4] = lanes[column % 4] + products[:, column]
    total = (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])
    for column in range(columns & ~3, columns):
        total = total + products[:, column]
    np.testing.assert_array_equal(_sum_columns(products), total)
