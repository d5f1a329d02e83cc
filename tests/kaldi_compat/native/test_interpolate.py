"""The C half of the interpolation of pitch against the NumPy half, byte for byte, on every dispatch level."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaldi_compat.exact.rand import KaldiRandom
from kaldi_compat.native import interpolate as compiled
from kaldi_compat.native import library
from kaldi_compat.options.pitch import InterpolatePitchOptions
from kaldi_compat.pitch import interpolate
from kaldi_compat.pitch.interpolate import InterpolationCounts, RaggedGrids

pytestmark = pytest.mark.skipif(not library(), reason=library().reason)


def track_of(seed: int, frames: int) -> np.ndarray[Any, Any]:
    """Voicing and pitch, with gaps."""
    rng = np.random.default_rng(seed)
    pitch = 120 + 3 * rng.normal(size=frames).cumsum()
    gaps = np.sin(np.arange(frames) / rng.uniform(1, 30)) > rng.uniform(-1, 1)
    features = np.stack((rng.uniform(-0.1 if seed % 2 else 0.2, 1, frames), np.where(gaps, 0, abs(pitch))), -1)
    features[::17, 0] = 1
    return features.astype(np.float32)


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
def test_interpolation_of_many_utterances(seed: int, lengths: list[int], options: InterpolatePitchOptions) -> None:
    tracks = [track_of(seed + i, n) for i, n in enumerate(lengths)]
    random, counts = KaldiRandom(), InterpolationCounts()
    expected = list(interpolate.interpolate_tracks(enumerate(tracks), options, random, counts))
    features, bounds = np.concatenate(tracks), np.concatenate(([0], np.cumsum(lengths)))
    same_random, same_counts = KaldiRandom(), InterpolationCounts()
    found = interpolate.interpolate_ragged(features, bounds, options, same_random, same_counts)
    np.testing.assert_array_equal(found, np.concatenate([each for _, each in expected]))
    assert same_counts == counts
    assert same_random.draws(3).tolist() == random.draws(3).tolist()


@pytest.mark.parametrize("level", library().levels)
def test_interpolation_is_the_same_on_all_levels(level: str) -> None:
    options = InterpolatePitchOptions()
    grids = RaggedGrids.of(track_of(3, 300), np.array([0, 120, 300]), options, KaldiRandom())
    for reach in (0, 3, 20):
        expected = compiled.most_probable_paths(grids, reach, np.float32(4), 0.005, library().levels[0])
        found = compiled.most_probable_paths(grids, reach, np.float32(4), 0.005, level)
        np.testing.assert_array_equal(found, expected)


def test_grids_that_do_not_belong_together_are_refused() -> None:
    grids = RaggedGrids.of(track_of(3, 30), np.array([0, 30]), InterpolatePitchOptions(), KaldiRandom())
    with pytest.raises(ValueError, match="belong together"):
        compiled.most_probable_paths(grids, 1000, np.float32(4), 0.005)
    grids.nearest = grids.nearest + grids.states[0]
    with pytest.raises(ValueError, match="not on its grid"):
        compiled.most_probable_paths(grids, 3, np.float32(4), 0.005)


def test_pitches_too_far_apart_need_too_much_memory() -> None:
    track = np.array([[0.5, 100], [0.5, 1e30]], np.float32)
    with pytest.raises(MemoryError, match="pitches between 100 and 1e"):
        interpolate.interpolate_smoothly(track)


def test_track_without_frames_stays_empty() -> None:
    assert interpolate.interpolate_smoothly(np.zeros((0, 2), np.float32)).shape == (0, 2)
