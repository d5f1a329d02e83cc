"""Interpolation of pitch, against numbers that Kaldi wrote."""

from __future__ import annotations

import numpy as np
import pytest

from kaldi_compat import native
from kaldi_compat.exact.rand import KaldiRandom
from kaldi_compat.options.pitch import InterpolatePitchOptions
from kaldi_compat.pitch import interpolate

# Four utterances of (correlation, pitch), and the pitch that Kaldi's interpolate-pitch writes for them.
TRACKS = [[(-0.8, 175), (0.5, 180)], [(-0.5, 200)], [(-0.25, 120)], [(0.9, 120), (-0.25, 100)]]
PITCH = [179.6393, 181.4225, 196.3534, 118.6591, 118.8889, 117.7841]


def test_negative_correlation_in_the_last_frame_in_numpy() -> None:
    tracks = [np.array(track, np.float32) for track in TRACKS]
    smooth = [track for _, track in interpolate.interpolate_tracks(enumerate(tracks))]
    np.testing.assert_allclose(np.concatenate(smooth)[:, 1], PITCH, rtol=0, atol=5e-5)


@pytest.mark.skipif(not native.library(), reason="there is no C library")
def test_negative_correlation_in_the_last_frame_in_c() -> None:
    features, bounds = np.concatenate(TRACKS).astype(np.float32), np.array([0, 2, 3, 4, 6])
    counts = interpolate.InterpolationCounts()
    smooth = interpolate.interpolate_ragged(features, bounds, InterpolatePitchOptions(), KaldiRandom(), counts)
    np.testing.assert_allclose(smooth[:, 1], PITCH, rtol=0, atol=5e-5)
