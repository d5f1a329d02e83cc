"""Post-processing of ragged batches: C and NumPy give the same bits, on each instruction set."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kaldi_compat import native
from kaldi_compat.exact import ragged
from kaldi_compat.functional.deltas import filtered
from kaldi_compat.native import ragged as compiled
from kaldi_compat.options.pitch import SmoothPitchOptions
from kaldi_compat.options.postprocessing import (
    DeltaOptions,
    ShiftedDeltaOptions,
    SlidingCmvnOptions,
    SpliceOptions,
    VadOptions,
)
from kaldi_compat.pitch.smooth import smooth_pitch

pytestmark = pytest.mark.skipif(not native.library(), reason=native.library().reason)

Function = Callable[[Any, Any], Any]
FUNCTIONS: dict[str, Function] = {
    "deltas": lambda x, b: ragged.deltas(x, b, DeltaOptions()),
    "deltas of order 3": lambda x, b: ragged.deltas(x, b, DeltaOptions(delta_order=3, delta_window=4)),
    "shifted deltas": lambda x, b: ragged.shifted_deltas(x, b, ShiftedDeltaOptions()),
    "deltas shifted back": lambda x, b: ragged.shifted_deltas(
        x, b, ShiftedDeltaOptions(delta_window=2, num_blocks=3, block_shift=-2)
    ),
    "splicing": lambda x, b: ragged.spliced(x, b, SpliceOptions()),
    "splicing of the future": lambda x, b: ragged.spliced(x, b, SpliceOptions(left_context=0, right_context=50)),
    "columns": lambda x, b: ragged.select_columns(x, [0, x.shape[1] - 1, 0]),
    "statistics": lambda x, b: ragged.stats(x, b, onto=ragged.stats(x, b)),
    "weighted statistics": lambda x, b: ragged.weighted_stats(x, b, np.resize(np.float32([1, 0.01, 0, 0.3]), len(x))),
    "products of columns": lambda x, b: ragged.products(x, b, x[::-1].copy()),
    "vectors appended": lambda x, b: ragged.appended(x, b, x[b[:-1], ::2]),
    "offsets": lambda x, b: ragged.normalized(x, b, None, x[b[:-1]]),
    "factors": lambda x, b: ragged.normalized(x, b, x[b[:-1]], x[b[1:] - 1]),
    "sliding means": lambda x, b: ragged.sliding_cmvn(x, b, SlidingCmvnOptions(cmn_window=20, min_cmn_window=7)),
    "centered variances": lambda x, b: ragged.sliding_cmvn(
        x, b, SlidingCmvnOptions(center=True, cmn_window=30, norm_vars=True)
    ),
    "means over windows": lambda x, b: ragged.window_means(x[:, 0] ** 2, x[:, -1].copy(), b, 9, 4),
    "means of the past": lambda x, b: ragged.window_means(x[:, 0] ** 2, x[:, 0].copy(), b, 700, -1),
    "means of the future": lambda x, b: ragged.window_means(x[:, 0] ** 2, x[:, 0].copy(), b, -1, 2),
    "voice activity": lambda x, b: ragged.voiced(x, b, VadOptions(vad_frames_context=3, vad_energy_mean_scale=1.0)),
}


@pytest.mark.parametrize("level", native.library().levels or [""])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_c_and_numpy_give_the_same_bits(name: str, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, of_library = FUNCTIONS[name], compiled._function
    rng = np.random.default_rng(len(name))
    monkeypatch.setattr(compiled, "_function", lambda called, _: of_library(called, level))
    for dim in (1, 3, 13, 40):
        counts = rng.integers(1, 40, 30)
        counts[3] = 600
        bounds = np.concatenate(([0], np.cumsum(counts)))
        x = rng.normal(12, 4, (bounds[-1], dim)).astype(np.float32)
        results = []
        for library in (native.library(), None):
            with monkeypatch.context() as patch:
                patch.setattr(ragged.native, "library", lambda library=library: library)
                results.append(function(x, bounds))
        for one, other in zip(*(each if isinstance(each, tuple) else (each,) for each in results), strict=True):
            np.testing.assert_array_equal(one, other)
            assert one.dtype == other.dtype


def test_sum_halfway_between_two_floats_is_rounded_once() -> None:
    # 1 + 2^-23 + 2^-24 - 2^-70: rounded to double that lies halfway between two floats, and the even one is wrong.
    x = np.array([[1 + 2.0**-23], [2.0**-24 + 2.0**-47]], np.float32)
    weights = (1.0, 1 - 2.0**-23)
    assert compiled.filtered(x, np.array([0, 2]), [weights], [0])[0] == 1 + 2.0**-23
    assert filtered(x, [weights], [0], 1)[0] == 1 + 2.0**-23


def test_functions_refuse_arrays_that_do_not_belong_together() -> None:
    x, bounds = np.zeros((4, 3), np.float32), np.array([0, 4])
    calls: list[Callable[[], Any]] = [
        lambda: compiled.spliced(x, np.array([0, 5]), 1, 1),
        lambda: compiled.spliced(x, np.array([0, 3, 2, 4]), 1, 1),
        lambda: compiled.spliced(x[:, :2], bounds, 1, 1),
        lambda: compiled.spliced(x.astype(np.float64), bounds, 1, 1),
        lambda: compiled.columns(x, [3]),
        lambda: compiled.columns(x, [-1]),
        lambda: compiled.affine(x, bounds, None, np.zeros((2, 3), np.float32)),
        lambda: compiled.stats(x, bounds, np.zeros((1, 2, 3))),
        lambda: compiled.smooth_pitch(x[:, :1].copy(), bounds, 3, 3),
        lambda: compiled.smooth_pitch(x, bounds, 0, 3),
        lambda: compiled.weighted_stats(x, bounds, np.ones(3, np.float32)),
        lambda: compiled.appended(x, bounds, np.zeros((2, 3), np.float32)),
        lambda: compiled.products(x, bounds, x[:3]),
        lambda: compiled.window_means(x[:, 0], x[:3, 0], bounds, 1, 1),
        lambda: compiled.window_means(x[:, 0], x[:, 0], bounds, -2, 1),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=r"must|belong|column|window"):
            call()


@pytest.mark.parametrize("level", native.library().levels or [""])
@pytest.mark.parametrize(("mean", "average"), [(151, 5), (21, 1), (1, 9), (3, 41)])
def test_smoothed_pitch_of_many_utterances(mean: int, average: int, level: str) -> None:
    rng = np.random.default_rng(mean)
    counts = np.concatenate((rng.integers(1, 50, 30), [700], np.arange(18, 26)))
    bounds = np.concatenate(([0], np.cumsum(counts)))
    tracks = np.stack((rng.random(bounds[-1]), rng.uniform(50, 400, bounds[-1]), rng.random(bounds[-1])), -1)
    tracks = tracks.astype(np.float32)
    options = SmoothPitchOptions(normalization_window_size=mean, average_window_size=average)
    expected = [smooth_pitch(tracks[first:end], options) for first, end in itertools.pairwise(bounds.tolist())]
    found = compiled.smooth_pitch(tracks, bounds, mean, average, level)
    np.testing.assert_array_equal(found, np.concatenate(expected))
