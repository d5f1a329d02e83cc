"""Splicing: neighbours, batches and edges."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaldi_compat.errors import OptionError
from kaldi_compat.functional.splice import splice, splice_inner_frames
from kaldi_compat.options.postprocessing import SpliceOptions


@given(st.integers(0, 8), st.integers(0, 5), st.integers(0, 5), st.integers(0, 4))
def test_each_frame_has_its_neighbours_beside_it(frames: int, left: int, right: int, padding: int) -> None:
    options = SpliceOptions(left_context=left, right_context=right)
    # Frame t holds t and t + 0.5: what is where can be read off. What lies past the length must not show.
    features = np.arange(frames + padding)[:, None] + np.array([0.0, 0.5])
    features[frames:] = np.nan
    spliced = splice(features[None], options, lengths=[frames])[0]
    width = left + 1 + right
    assert spliced.shape == (frames + padding, 2 * width)
    for t in range(frames):
        neighbours = np.clip(np.arange(t - left, t + right + 1), 0, frames - 1)
        np.testing.assert_array_equal(spliced[t].reshape(width, 2), neighbours[:, None] + np.array([0.0, 0.5]))
    assert not spliced[frames:].any()


def test_frames_with_their_context_need_no_edges() -> None:
    features = np.random.default_rng(0).normal(size=(10, 3))
    options = SpliceOptions(left_context=2, right_context=1)
    np.testing.assert_array_equal(splice_inner_frames(features, options), splice(features, options)[2:-1])


def test_a_context_is_not_negative() -> None:
    with pytest.raises(OptionError, match="left_context"):
        SpliceOptions(left_context=-1)
