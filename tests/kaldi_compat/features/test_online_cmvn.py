"""Normalization of frames as they arrive; its bits are those of the stored commands of apply-cmvn-online."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kaldi_compat.errors import FeatureError, OptionError
from kaldi_compat.features.numpy import OnlineCmvn
from kaldi_compat.functional.cmvn import cmvn_stats
from kaldi_compat.options.online_cmvn import OnlineCmvnOptions

FEATS = (np.random.default_rng(0).normal(size=(90, 5)) * 3 + 7).astype(np.float32)
STATS = cmvn_stats(FEATS.astype(np.float64) - 1)


@given(
    cuts=st.lists(st.integers(0, 90), max_size=6).map(sorted),
    window=st.integers(1, 100),
    norm_vars=st.booleans(),
    most=st.integers(0, 50),
)
def test_chunks_give_the_frames_of_the_whole_utterance(
    cuts: list[int], window: int, norm_vars: bool, most: int
) -> None:
    options = OnlineCmvnOptions(cmn_window=window, norm_vars=norm_vars, global_frames=20, speaker_frames=most)
    whole, chunked = OnlineCmvn(STATS, options), OnlineCmvn(STATS, options)
    for begin in (40, 0):  # a second utterance of the speaker begins with what the first one left
        wanted = whole(FEATS[begin:])
        parts = [chunked(part) for part in np.split(FEATS[begin:], [min(cut, 90 - begin) for cut in cuts])]
        np.testing.assert_array_equal(np.concatenate(parts), wanted)
        whole.end_utterance()
        chunked.end_utterance()


@pytest.mark.parametrize("norm_vars", [False, True])
def test_frames_are_normalized_by_the_window_before_them(norm_vars: bool) -> None:
    online = OnlineCmvn(STATS, cmn_window=30, global_frames=10, norm_vars=norm_vars, skip_dims=[2])
    found = online(FEATS)
    for t in range(len(FEATS)):
        window = FEATS[max(t - 29, 0) : t + 1].astype(np.float64)
        weights = np.append(np.ones(len(window)), 0)
        mean, square = window.sum(0), np.square(window).sum(0)
        lacking = min(30 - len(window), 10) / STATS[0, -1]
        count = weights.sum() + lacking * STATS[0, -1]
        mean, square = (mean + lacking * STATS[0, :-1]) / count, (square + lacking * STATS[1, :-1]) / count
        wanted = (FEATS[t] - mean) / (np.sqrt(square - mean**2) if norm_vars else 1)
        wanted[2] = FEATS[t, 2]
        np.testing.assert_allclose(found[t], wanted, rtol=1e-4, atol=1e-4)


def test_another_speaker_begins_anew() -> None:
    online = OnlineCmvn(STATS, cmn_window=300)
    first = online(FEATS[:10])
    online.end_utterance()
    assert (online(FEATS[:10]) != first).any()
    online.reset()
    np.testing.assert_array_equal(online(FEATS[:10]), first)


def test_statistics_that_do_not_fit_are_refused() -> None:
    with pytest.raises(FeatureError, match="do not fit"):
        OnlineCmvn(STATS)(FEATS[:, :3])
    with pytest.raises(FeatureError, match="count no frames"):
        OnlineCmvn(np.zeros((2, 6)))(FEATS)
    with pytest.raises(OptionError, match="norm_means"):
        OnlineCmvn(STATS, norm_means=False, norm_vars=True)
    assert OnlineCmvn(STATS)(FEATS[:0]).shape == (0, 5)


def test_window_of_one_frame_has_no_variance_and_warns(caplog: pytest.LogCaptureFixture) -> None:
    online = OnlineCmvn(STATS, cmn_window=1, norm_vars=True, skip_dims=[0])
    with caplog.at_level("WARNING", "kaldi_compat"):
        online(np.full((2, 5), 2, np.float32))
    assert caplog.messages == ["Flooring cepstral variance from 0 to 1e-20"] * 8
