"""Post-processing of blocks: C and NumPy give the same bits, on each instruction set."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from kaldi_compat.exact import sums
from kaldi_compat.functional import block_cmvn as cmvn
from kaldi_compat.functional import block_deltas as deltas
from kaldi_compat.functional import block_vad as vad
from kaldi_compat.functional import columns, means
from kaldi_compat.functional.deltas import filter_frames
from kaldi_compat.options.pitch import SmoothPitchOptions
from kaldi_compat.options.postprocessing import (
    DeltaOptions,
    ShiftedDeltaOptions,
    SlidingCmvnOptions,
    SpliceOptions,
    VadOptions,
)
from kaldi_compat.pitch.smooth import smooth_pitch, smooth_utterances
from tests.support.native import assert_same_bits, needs_c

pytestmark = needs_c

Function = Callable[[Any, Any], Any]
FUNCTIONS: dict[str, Function] = {
    "deltas": lambda x, b: deltas.append_deltas(x, b, DeltaOptions()),
    "deltas of order 3": lambda x, b: deltas.append_deltas(x, b, DeltaOptions(delta_order=3, delta_window=4)),
    "shifted deltas": lambda x, b: deltas.append_shifted_deltas(x, b, ShiftedDeltaOptions()),
    "deltas shifted back": lambda x, b: deltas.append_shifted_deltas(
        x, b, ShiftedDeltaOptions(delta_window=2, num_blocks=3, block_shift=-2)
    ),
    "copies among filters": lambda x, b: deltas.filter_block(x, b, [(), (0.5, 0, -0.5), (), (), ()], [-2, 7, 3, 4, 4]),
    "splicing": lambda x, b: columns.splice_block(x, b, SpliceOptions()),
    "splicing of the future": lambda x, b: columns.splice_block(x, b, SpliceOptions(left_context=0, right_context=50)),
    "statistics": lambda x, b: cmvn.compute_statistics(x, b, onto=cmvn.compute_statistics(x, b)),
    "weighted statistics": lambda x, b: cmvn.compute_statistics(
        x, b, weights=np.resize(np.float32([1, 0.01, 0, 0.3]), len(x)), onto=cmvn.compute_statistics(x, b)
    ),
    "products of columns": lambda x, b: sums.compute_dot_products(x, b, x[::-1].copy()),
    "sliding means": lambda x, b: cmvn.normalize_by_sliding_windows(
        x, b, SlidingCmvnOptions(cmn_window=20, min_cmn_window=7)
    ),
    "centered variances": lambda x, b: cmvn.normalize_by_sliding_windows(
        x, b, SlidingCmvnOptions(center=True, cmn_window=30, norm_vars=True)
    ),
    "means over windows": lambda x, b: means.compute_window_means(x[:, 0] ** 2, x[:, -1].copy(), b, 9, 4),
    "means of the past": lambda x, b: means.compute_window_means(x[:, 0] ** 2, x[:, 0].copy(), b, 700, -1),
    "means of the future": lambda x, b: means.compute_window_means(x[:, 0] ** 2, x[:, 0].copy(), b, -1, 2),
    "voice activity": lambda x, b: vad.detect_voiced(x, b, VadOptions(vad_frames_context=3, vad_energy_mean_scale=1.0)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_c_and_numpy_give_the_same_bits(name: str) -> None:
    function = FUNCTIONS[name]
    rng = np.random.default_rng(len(name))
    for dim in (1, 3, 13, 40):
        counts = rng.integers(1, 40, 30)
        counts[3] = 600
        bounds = np.concatenate(([0], np.cumsum(counts)))
        x = rng.normal(12, 4, (bounds[-1], dim)).astype(np.float32)
        assert_same_bits(partial(function, x, bounds))


def test_sum_halfway_between_two_floats_is_rounded_once() -> None:
    # 1 + 2^-23 + 2^-24 - 2^-70: rounded to double that lies halfway between two floats, and the even one is wrong.
    x = np.array([[1 + 2.0**-23], [2.0**-24 + 2.0**-47]], np.float32)
    weights = (1.0, 1 - 2.0**-23)
    assert deltas.filter_block(x, np.array([0, 2]), [weights], [0])[0] == 1 + 2.0**-23
    assert filter_frames(x, [weights], [0], 1)[0] == 1 + 2.0**-23


def test_functions_refuse_arrays_that_do_not_belong_together() -> None:
    x, bounds = np.zeros((4, 3), np.float32), np.array([0, 4])
    splicing, windows = SpliceOptions(left_context=1, right_context=1), SmoothPitchOptions()
    calls: list[Callable[[], Any]] = [
        lambda: columns.splice_block(x, np.array([0, 5]), splicing),
        lambda: columns.splice_block(x, np.array([0, 3, 2, 4]), splicing),
        lambda: columns.splice_block(x[:, :2], bounds, splicing),
        lambda: columns.splice_block(x.astype(np.float64), bounds, splicing),
        lambda: columns.splice_block(x, bounds.astype(np.int32), splicing),
        lambda: cmvn.compute_statistics(x, bounds, onto=np.zeros((1, 2, 3))),
        lambda: smooth_utterances(x[:, :1].copy(), bounds, windows),
        lambda: cmvn.compute_statistics(x, bounds, weights=np.ones(3, np.float32)),
        lambda: sums.compute_dot_products(x, bounds, x[:3]),
        lambda: sums.compute_dot_products(x, bounds),
        lambda: sums.compute_signal_sums(x[:, 0], np.array([0, 5])),
        lambda: sums.compute_signal_sums(x[:, 0], np.array([1, 4])),
        lambda: sums.compute_signal_sums(x[:, 0], np.array([0, 3, 2, 4])),
        lambda: means.compute_window_means(x[:, 0], x[:3, 0], bounds, 1, 1),
        lambda: means.compute_window_means(x[:, 0], x[:, 0], bounds, -2, 1),
    ]
    for call in calls:
        with pytest.raises((ValueError, ctypes.ArgumentError), match=r"must|belong|column|window|contiguous"):
            call()


@pytest.mark.parametrize(("mean", "average"), [(151, 5), (21, 1), (1, 9), (3, 41)])
def test_smoothed_pitch_of_many_utterances(mean: int, average: int) -> None:
    rng = np.random.default_rng(mean)
    counts = np.concatenate((rng.integers(1, 50, 30), [700], np.arange(18, 26)))
    bounds = np.concatenate(([0], np.cumsum(counts)))
    tracks = np.stack((rng.random(bounds[-1]), rng.uniform(50, 400, bounds[-1]), rng.random(bounds[-1])), -1)
    tracks = tracks.astype(np.float32)
    options = SmoothPitchOptions(normalization_window_size=mean, average_window_size=average)
    expected = [smooth_pitch(tracks[first:end], options) for first, end in itertools.pairwise(bounds.tolist())]
    np.testing.assert_array_equal(smooth_utterances(tracks, bounds, options), np.concatenate(expected))
    assert_same_bits(partial(smooth_utterances, tracks, bounds, options))


def test_a_context_that_does_not_fit_into_memory_is_refused_before_any_is_taken() -> None:
    x, bounds = np.zeros((1000, 100), np.float32), np.array([0, 1000])
    with pytest.raises(MemoryError, match="Unable to allocate"):
        columns.splice_block(x, bounds, SpliceOptions(left_context=10**9))
