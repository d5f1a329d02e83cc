"""Interpolation of pitch: numbers that Kaldi wrote; C, on each instruction set, and NumPy give the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaldi_compat.exact.rand import KaldiRandom
from kaldi_compat.options.pitch import InterpolatePitchOptions
from kaldi_compat.pitch.interpolate import (
    InterpolationCounts,
    RaggedGrids,
    interpolate_smoothly,
    interpolate_utterances,
)
from tests.support.native import LEVELS, computing, needs_c

# Four utterances of (correlation, pitch), and the pitch that Kaldi's interpolate-pitch writes for them.
TRACKS = np.array([(-0.8, 175), (0.5, 180), (-0.5, 200), (-0.25, 120), (0.9, 120), (-0.25, 100)], np.float32)
BOUNDS = np.array([0, 2, 3, 4, 6])
PITCH = [179.6393, 181.4225, 196.3534, 118.6591, 118.8889, 117.7841]

Result = tuple[np.ndarray[Any, Any], InterpolationCounts, list[int]]


def track_of(seed: int, frames: int) -> np.ndarray[Any, Any]:
    """Voicing and pitch, with gaps."""
    rng = np.random.default_rng(seed)
    pitch = 120 + 3 * rng.normal(size=frames).cumsum()
    gaps = np.sin(np.arange(frames) / rng.uniform(1, 30)) > rng.uniform(-1, 1)
    features = np.stack((rng.uniform(-0.1 if seed % 2 else 0.2, 1, frames), np.where(gaps, 0, abs(pitch))), -1)
    features[::17, 0] = 1
    return features.astype(np.float32)


def interpolated(
    how: str | None, features: np.ndarray[Any, Any], bounds: np.ndarray[Any, Any], options: InterpolatePitchOptions
) -> Result:
    """Interpolate by an instruction set or in NumPy; also counts, and random numbers drawn afterwards."""
    random, counts = KaldiRandom(), InterpolationCounts()
    with computing(how):
        smooth = interpolate_utterances(features, bounds, options, random, counts)
    return smooth, counts, random.draws(3).tolist()


@pytest.mark.parametrize("how", [*LEVELS, None])
def test_negative_correlation_in_the_last_frame(how: str | None) -> None:
    smooth, _, _ = interpolated(how, TRACKS, BOUNDS, InterpolatePitchOptions())
    np.testing.assert_allclose(smooth[:, 1], PITCH, rtol=0, atol=5e-5)


@needs_c
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 999),
    lengths=st.lists(st.integers(1, 90), min_size=1, max_size=8),
    options=st.builds(
        InterpolatePitchOptions,
        pitch_interval=st.sampled_from([0.5, 4.0]),
        interpolator_factor=st.sampled_from([1e-5, 0.5]),
        max_voicing_prob=st.sampled_from([0.9, 1.0]),
        max_pitch_change_per_frame=st.sampled_from([9.0, 10.0, 50.0]),
    ),
)
def test_c_and_numpy_interpolate_many_utterances_with_the_same_bits(
    seed: int, lengths: list[int], options: InterpolatePitchOptions
) -> None:
    features = np.concatenate([track_of(seed + i, n) for i, n in enumerate(lengths)])
    bounds = np.concatenate(([0], np.cumsum(lengths)))
    expected = interpolated(None, features, bounds, options)
    for level in LEVELS:
        found = interpolated(level, features, bounds, options)
        np.testing.assert_array_equal(found[0], expected[0])
        assert found[1:] == expected[1:]


@pytest.mark.parametrize(("highest", "states"), [(100, 4), (120, 7), (121, 7), (122, 8)])
def test_grid_has_two_pitches_more_than_steps(highest: float, states: int) -> None:
    # Kaldi: floor((highest - lowest) / interval + 0.5) + 2, of at least two intervals of 4 Hz
    track = np.array([[0.5, 100], [0.5, highest]], np.float32)
    assert RaggedGrids.from_features(
        track, np.array([0, 2]), InterpolatePitchOptions(), KaldiRandom()
    ).states.tolist() == [states]


def test_pitches_too_far_apart_need_too_much_memory() -> None:
    track = np.array([[0.5, 100], [0.5, 1e30]], np.float32)
    with pytest.raises(MemoryError, match="pitches between 100 and 1e"):
        interpolate_smoothly(track)


def test_moves_longer_than_the_grid_take_no_memory() -> None:
    track = track_of(0, 20)
    near, far = (InterpolatePitchOptions(max_pitch_change_per_frame=change) for change in (1e3, 1e12))
    assert (interpolate_smoothly(track, far) == interpolate_smoothly(track, near)).all()


def test_track_without_frames_stays_empty() -> None:
    assert interpolate_smoothly(np.zeros((0, 2), np.float32)).shape == (0, 2)
