"""Mean and variance normalization: properties of any statistics and window."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kaldi_compat.errors import FeatureError, OptionError
from kaldi_compat.functional.block_cmvn import normalize_by_sliding_windows
from kaldi_compat.functional.cmvn import (
    apply_cmvn,
    cmvn_statistics,
    compute_mean_and_variance,
    compute_sliding_windows,
    online_cmvn,
    replace_statistics,
    sliding_cmvn,
    weigh_two_channels,
)
from kaldi_compat.numpy import OnlineCmvn as ArrayOnlineCmvn
from kaldi_compat.options.postprocessing import CmvnOptions, SlidingCmvnOptions
from kaldi_compat.torch.features.postprocessing import Cmvn, OnlineCmvn

RANDOM = np.random.default_rng(0)
VARS = CmvnOptions(norm_vars=True)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=20))
def test_weight_equals_repeated_frames(weights: list[int]) -> None:
    features = RANDOM.normal(size=(len(weights), 3))
    weighted = cmvn_statistics(features, weights=np.array(weights, float))
    np.testing.assert_allclose(weighted, cmvn_statistics(np.repeat(features, weights, axis=0)), atol=1e-12)


def test_frame_of_weight_zero_is_ignored() -> None:
    features = np.array([[1.0, 2.0], [np.nan, np.inf]])
    assert cmvn_statistics(features, weights=[1.0, 0.0]).tolist() == [[1.0, 2.0, 1.0], [1.0, 4.0, 0.0]]


def test_statistics_in_a_batch() -> None:
    batch = RANDOM.normal(size=(3, 10, 2)).astype(np.float32)
    lengths = [10, 0, 4]
    for x in (batch, torch.tensor(batch)):
        statistics = np.asarray(cmvn_statistics(x, lengths=lengths))
        for row, of_row, length in zip(batch, statistics, lengths, strict=True):
            np.testing.assert_allclose(of_row, cmvn_statistics(row[:length]), rtol=1e-14)


@given(st.integers(2, 40), st.booleans())
def test_normalized_by_its_own_statistics(frames: int, norm_vars: bool) -> None:
    features = RANDOM.normal(3.0, 2.0, (frames, 4))
    options = CmvnOptions(norm_vars=norm_vars)
    normalized = apply_cmvn(features, cmvn_statistics(features), options)
    np.testing.assert_allclose(normalized.mean(axis=0), 0.0, atol=1e-12)
    if norm_vars:
        np.testing.assert_allclose(normalized.std(axis=0), 1.0, rtol=1e-9)
    back = apply_cmvn(normalized, cmvn_statistics(features), CmvnOptions(norm_vars=norm_vars, reverse=True))
    np.testing.assert_allclose(back, features, atol=1e-9)


def test_skipped_dimensions_stay_and_others_do_not() -> None:
    features = RANDOM.normal(5.0, 3.0, (20, 3))
    normalized = apply_cmvn(features, replace_statistics(cmvn_statistics(features), [1]), VARS)
    np.testing.assert_allclose(normalized[:, 1], features[:, 1], atol=1e-12)
    np.testing.assert_allclose(normalized[:, [0, 2]].mean(axis=0), 0.0, atol=1e-12)
    without_variances = replace_statistics(cmvn_statistics(features)[:1], [1])
    np.testing.assert_allclose(apply_cmvn(features, without_variances)[:, 1], features[:, 1])


def test_a_constant_dimension_is_floored_not_divided_by_zero() -> None:
    features = np.ones((5, 2), np.float32)
    statistics = cmvn_statistics(features)
    assert not compute_mean_and_variance(statistics)[1].any()
    assert np.isfinite(apply_cmvn(features, statistics, VARS)).all()


def test_mean_and_variance_of_the_statistics() -> None:
    features = RANDOM.normal(size=(50, 3))
    np.testing.assert_allclose(
        compute_mean_and_variance(cmvn_statistics(features)), [features.mean(axis=0), features.var(axis=0)]
    )


def test_quieter_channel_gets_the_smaller_weight() -> None:
    one, other = np.array([[3.0], [1.0], [2.0]]), np.array([[1.0], [3.0], [2.0]])
    weights = weigh_two_channels(one, other, 0.25)
    assert [w.tolist() for w in weights] == [[1.0, 0.25, 0.25], [0.25, 1.0, 1.0]]


@pytest.mark.parametrize(
    ("statistics", "options", "says"),
    [
        (np.zeros((2, 4)), CmvnOptions(), "count 0 frames"),
        (np.full((2, 4), np.nan), CmvnOptions(), "count nan"),
        (np.ones((2, 5)), CmvnOptions(), r"\(2, 5\) do not fit"),
        (np.ones((3, 4)), CmvnOptions(), r"\(3, 4\) do not fit"),
        (np.ones((1, 4)), VARS, "no variances"),
        (np.array([[np.inf, 1, 1, 3], [1, 1, 1, 0]]), VARS, "infinite"),
    ],
)
def test_statistics_that_cannot_be_applied(statistics: np.ndarray, options: CmvnOptions, says: str) -> None:
    with pytest.raises(FeatureError, match=says):
        apply_cmvn(np.zeros((7, 3), np.float32), statistics, options)


def test_statistics_and_options_out_of_range_are_refused() -> None:
    with pytest.raises(FeatureError, match="0 to 2"):
        replace_statistics(np.ones((2, 4)), [3])
    with pytest.raises(FeatureError, match="weights"):
        cmvn_statistics(np.zeros((7, 3)), weights=np.zeros(6))
    with pytest.raises(OptionError, match="norm_vars"):
        CmvnOptions(norm_means=False, norm_vars=True)
    with pytest.raises(OptionError, match="cmn_window"):
        SlidingCmvnOptions(cmn_window=0)


def window_by_the_book(t: int, frames: int, options: SlidingCmvnOptions) -> tuple[int, int]:
    """The window as Kaldi's options describe it: at the ends it is shifted, and shortened only if it must be."""
    if options.center:
        start = t - options.cmn_window // 2
        end = start + options.cmn_window
        if start < 0:
            start, end = 0, end - start
    else:
        start, end = max(t - options.cmn_window, 0), max(t + 1, options.min_cmn_window)
    if end > frames:
        start, end = max(start - (end - frames), 0), frames
    return start, end


SLIDING: Any = st.builds(
    SlidingCmvnOptions,
    cmn_window=st.integers(1, 12),
    min_cmn_window=st.integers(1, 15),
    norm_vars=st.booleans(),
    center=st.booleans(),
)


@given(st.integers(1, 30), SLIDING, st.integers(0, 2**32))
@settings(max_examples=200)
def test_each_window_is_the_one_described(frames: int, options: SlidingCmvnOptions, seed: int) -> None:
    # Whole numbers: a window's variance is then none at all, or not so small that it magnifies rounding.
    features = np.random.default_rng(seed).integers(-9, 10, (frames, 2)).astype(np.float64)
    start, end = compute_sliding_windows(np.arange(frames), frames, options)
    ours = sliding_cmvn(features, options)
    for t in range(frames):
        first, last = window_by_the_book(t, frames, options)
        assert (start[t], end[t]) == (first, last)
        window = features[first:last]
        wanted = features[t] - window.mean(axis=0)
        if options.norm_vars:
            wanted = wanted / np.sqrt(np.maximum(window.var(axis=0), 1e-10)) if len(window) > 1 else np.zeros(2)
        np.testing.assert_allclose(ours[t], wanted, atol=1e-7)


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        ((2.04490471, 0.733060837, 4.29995537), (-0.213436037, -1.10399818, 1.31743431)),
        ((7.24595547, -6.32924843, -5.48203182), (1.41201794, -0.774229884, -0.637788057)),
    ],
)
def test_deviations_are_powers_of_the_c_library(frames: tuple[float, ...], expected: tuple[float, ...]) -> None:
    """C++ computed the expected numbers. With AVX-512, the operator ** of NumPy gives another digit in each case."""
    features = np.array(frames, np.float32)[:, None]
    normalized = sliding_cmvn(features, SlidingCmvnOptions(center=True, cmn_window=10, norm_vars=True))
    assert normalized.ravel().tolist() == np.array(expected, np.float32).tolist()


def test_a_large_offset_costs_no_digits() -> None:
    features = RANDOM.normal(size=(20000, 1))
    options = SlidingCmvnOptions(cmn_window=300, norm_vars=True)
    np.testing.assert_allclose(sliding_cmvn(features + 1e6, options), sliding_cmvn(features, options), atol=1e-8)


def test_module_with_statistics_of_a_corpus() -> None:
    features = torch.randn(30, 3) * 5 + 7
    statistics = cmvn_statistics(features.numpy())
    module = Cmvn(statistics, norm_vars=True, skip_dims=[1])
    wanted = apply_cmvn(features, replace_statistics(statistics, [1]), VARS)
    assert torch.equal(module(features), wanted)
    assert torch.equal(module.half()(features), wanted), "a model in half precision must not round the statistics"
    batch, lengths = module(features[None], torch.tensor([20]))
    assert lengths.tolist() == [20]
    assert torch.equal(batch[0, :20], wanted[:20])
    assert not batch[0, 20:].any()
    assert [each.shape[0] for each in module([features, features[:4]])] == [30, 4]
    back = Cmvn(statistics, norm_vars=True, reverse=True)(Cmvn(statistics, norm_vars=True)(features))
    torch.testing.assert_close(back, features)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_features_are_summed_in_more(dtype: torch.dtype) -> None:
    features = (torch.randn(3000, 2) * 50 + 300).to(dtype)
    np.testing.assert_allclose(cmvn_statistics(features), cmvn_statistics(features.float()), rtol=1e-12)
    for options in (CmvnOptions(), VARS):
        ours = apply_cmvn(features, cmvn_statistics(features), options)
        assert ours.dtype == dtype
        torch.testing.assert_close(ours.float().mean(0), torch.zeros(2), atol=1.0, rtol=0)


def test_invalid_arguments_of_the_module_are_refused() -> None:
    with pytest.raises(FeatureError, match="count 0 frames"):
        Cmvn(np.zeros((2, 4)))
    with pytest.raises(FeatureError, match="features of dimension 3, but the features have dimension 4"):
        Cmvn(np.ones((2, 4)))(torch.zeros(5, 4))
    with pytest.raises(OptionError, match="need statistics: pass the statistics of a corpus"):
        Cmvn(reverse=True)
    with pytest.raises(OptionError, match="Cmvn takes CmvnOptions, not SlidingCmvnOptions"):
        Cmvn(options=SlidingCmvnOptions())  # type: ignore[arg-type]


def test_statistics_of_a_batch_are_refused_with_what_to_do() -> None:
    with pytest.raises(FeatureError, match=r"Cmvn\(norm_vars=True\)\(features, lengths\)"):
        Cmvn(np.ones((3, 2, 5)))


@pytest.mark.parametrize("statistics", ["cmvn.ark", {"ann": np.ones((2, 3))}], ids=["file name", "table"])
def test_a_table_of_statistics_is_refused_with_what_to_do(statistics: Any) -> None:
    features = np.ones((5, 2), np.float32)
    for normalize in (
        Cmvn,
        OnlineCmvn,
        ArrayOnlineCmvn,
        lambda matrix: apply_cmvn(features, matrix),
        lambda matrix: apply_cmvn(torch.tensor(features), matrix),
        lambda matrix: online_cmvn(features, matrix),
    ):
        with pytest.raises(FeatureError, match=r"one matrix \(2, dim \+ 1\), .*load_scp\(FILE\)\[SPEAKER\]"):
            normalize(statistics)


def test_statistics_in_a_tensor_raise_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Cmvn(torch.tensor([[4.0, 6.0, 2.0], [10.0, 20.0, 0.0]]))


@pytest.mark.parametrize("norm_vars", [False, True])
@pytest.mark.parametrize("center", [False, True])
def test_sliding_cmvn_of_arrays_has_the_bits_of_the_program(center: bool, norm_vars: bool) -> None:
    rng = np.random.default_rng(0)
    features, lengths = rng.normal(60, 5, (3, 200, 4)).astype(np.float32), [200, 70, 0]
    options = SlidingCmvnOptions(cmn_window=60, min_cmn_window=20, center=center, norm_vars=norm_vars)
    batch = sliding_cmvn(features, options, lengths=lengths)
    for row, length, found in zip(features, lengths, batch, strict=True):
        alone = (
            np.zeros((0, 4))
            if length == 0
            else normalize_by_sliding_windows(row[:length], np.array([0, length]), options)
        )
        np.testing.assert_array_equal(found[:length], alone)
        np.testing.assert_array_equal(sliding_cmvn(row[:length], options), alone)
        assert not found[length:].any()
    assert sliding_cmvn(features[:0], options).shape == (0, 200, 4)
