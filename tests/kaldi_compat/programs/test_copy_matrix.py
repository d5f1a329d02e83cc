"""Tests of copy-matrix that the stored commands of Kaldi do not cover."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaldi_compat.errors import OptionError
from kaldi_compat.programs import copy_matrix


@given(
    st.lists(st.floats(-20, 20, width=32), min_size=1, max_size=8),
    st.sampled_from(["apply_exp", "apply_log", "apply_softmax_per_row"]),
    st.sampled_from([1.0, 2.0, -1.0]),
)
def test_functions_are_those_of_numpy(row: list[float], function: str, power: float) -> None:
    matrix = np.array([row, row[::-1]], np.float32)
    exact = matrix.astype(np.float64)
    exact = {
        "apply_exp": np.exp(exact),
        "apply_log": np.log(np.maximum(exact, 1e-20)),
        "apply_softmax_per_row": np.exp(exact) / np.exp(exact).sum(1, keepdims=True),
    }[function]
    with np.errstate(all="ignore"):
        result = copy_matrix.transformed(matrix, copy_matrix.Options(**{function: True}, apply_power=power))
        np.testing.assert_allclose(result, exact**power, rtol=1e-5, atol=1e-30)


def test_two_functions_are_refused() -> None:
    with pytest.raises(OptionError):
        copy_matrix.Options(apply_exp=True, apply_log=True)


def test_the_power_of_a_half_is_no_square_root_as_in_c() -> None:
    matrix = np.array([[-0.0, -np.inf, 4]], np.float32)
    result = copy_matrix.transformed(matrix, copy_matrix.Options(apply_power=0.5))
    np.testing.assert_array_equal(result, [[0, np.inf, 2]])
    assert not np.signbit(result).any()
