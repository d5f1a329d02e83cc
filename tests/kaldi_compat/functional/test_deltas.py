"""Deltas and shifted deltas: regression slopes, and chunks with their context."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from kaldi_compat.errors import FeatureError, OptionError
from kaldi_compat.functional.deltas import (
    add_deltas,
    add_shifted_deltas,
    compute_derivative_filter,
    compute_inner_deltas,
    compute_inner_shifted_deltas,
    count_delta_context,
    count_shifted_delta_context,
)
from kaldi_compat.options.postprocessing import DeltaOptions, ShiftedDeltaOptions

FEATURES = hnp.arrays(
    np.float32, st.tuples(st.integers(1, 30), st.integers(1, 4)), elements=st.floats(-50, 50, width=32)
)
DELTA_OPTIONS = st.builds(DeltaOptions, delta_order=st.integers(0, 3), delta_window=st.integers(1, 4))
SHIFTED_OPTIONS = st.builds(
    ShiftedDeltaOptions, delta_window=st.integers(1, 3), num_blocks=st.integers(0, 4), block_shift=st.integers(-2, 5)
)


@given(FEATURES, st.integers(1, 5))
def test_a_delta_is_the_slope_of_the_regression_line(features: np.ndarray, window: int) -> None:
    frames, dim = features.shape
    with_deltas = add_deltas(features.astype(np.float64), DeltaOptions(delta_order=1, delta_window=window))
    padded = np.pad(features.astype(np.float64), ((window, window), (0, 0)), "edge")
    slopes = [np.polyfit(np.arange(2 * window + 1), padded[t : t + 2 * window + 1], 1)[0] for t in range(frames)]
    np.testing.assert_allclose(with_deltas[:, dim:], slopes, atol=1e-9)


@pytest.mark.parametrize(
    ("window", "last_weight"), [(293, "0x1.23a552p-16"), (294, "0x1.21ab96p-16"), (999, "0x1.92db0ep-20")]
)
def test_wide_windows_have_the_weights_of_kaldi(window: int, last_weight: str) -> None:
    """A C++ program added the squares from left to right in float, as Kaldi does. Their sum has more than 24 bits."""
    assert compute_derivative_filter((1.0,), window)[-1] == float.fromhex(last_weight)


@given(FEATURES, DELTA_OPTIONS)
def test_second_order_is_the_delta_of_the_delta(features: np.ndarray, options: DeltaOptions) -> None:
    # Inside, where no edge frame is repeated.
    frames, dim = features.shape
    inside = slice(count_delta_context(options), frames - count_delta_context(options))
    one = DeltaOptions(delta_order=1, delta_window=options.delta_window)
    derivative = features.astype(np.float64)
    ours = add_deltas(derivative, options)
    for order in range(options.delta_order + 1):
        np.testing.assert_allclose(ours[inside, order * dim : (order + 1) * dim], derivative[inside], atol=1e-9)
        derivative = add_deltas(derivative, one)[:, dim:]


@given(FEATURES, DELTA_OPTIONS, SHIFTED_OPTIONS, st.integers(1, 7))
def test_chunks_with_their_context_give_the_same(
    features: np.ndarray, deltas: DeltaOptions, shifted: ShiftedDeltaOptions, chunk: int
) -> None:
    context = count_delta_context(deltas)
    left, right = count_shifted_delta_context(shifted)
    for whole, inside, before, after in (
        (add_deltas(features, deltas), lambda x: compute_inner_deltas(x, deltas), context, context),
        (add_shifted_deltas(features, shifted), lambda x: compute_inner_shifted_deltas(x, shifted), left, right),
    ):
        padded = np.pad(features, ((before, after), (0, 0)), "edge")
        starts = range(0, len(features), chunk)
        pieces = [inside(padded[t : min(t + chunk, len(features)) + before + after]) for t in starts]
        np.testing.assert_array_equal(np.concatenate(pieces), whole)


@pytest.mark.parametrize("wrong", [{"delta_order": -1}, {"delta_window": 0}, {"delta_window": 1000}])
def test_invalid_options_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(OptionError, match=next(iter(wrong))):
        DeltaOptions(**wrong)


@pytest.mark.parametrize(
    "wrong", [np.zeros(3, np.float32), np.zeros((3, 2), np.int16), torch.zeros(3, 2).int(), [[1.0]]]
)
def test_input_other_than_a_real_matrix_is_refused(wrong: object) -> None:
    with pytest.raises(FeatureError):
        add_deltas(wrong)  # type: ignore[type-var]


def test_blocks_beyond_32_bits_are_refused() -> None:
    with pytest.raises(OptionError, match=r"exceed 2\*\*31 frames"):
        ShiftedDeltaOptions(block_shift=10**9)
