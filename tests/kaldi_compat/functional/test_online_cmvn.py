"""Normalization of frames as they arrive; its bits are those of the stored commands of apply-cmvn-online."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaldi_compat.errors import FeatureError, OptionError
from kaldi_compat.functional.cmvn import cmvn_statistics
from kaldi_compat.numpy import OnlineCmvn
from kaldi_compat.options.postprocessing import OnlineCmvnOptions
from tests.support.native import LEVELS, computing, needs_c

FEATS = (np.random.default_rng(0).normal(size=(90, 5)) * 3 + 7).astype(np.float32)
STATISTICS = cmvn_statistics(FEATS.astype(np.float64) - 1)
CUTS = st.lists(st.integers(0, 90), max_size=6).map(sorted)
COMMON: dict[str, Any] = {"norm_vars": st.booleans(), "global_frames": st.just(20)}


@given(
    cuts=CUTS,
    options=st.builds(OnlineCmvnOptions, cmn_window=st.integers(1, 100), speaker_frames=st.integers(0, 50), **COMMON),
)
def test_chunks_give_the_frames_of_the_whole_utterance(cuts: list[int], options: OnlineCmvnOptions) -> None:
    whole, chunked = OnlineCmvn(STATISTICS, options), OnlineCmvn(STATISTICS, options)
    for begin in (40, 0):  # a second utterance of the speaker begins with what the first one left
        wanted = whole(FEATS[begin:])
        parts = [chunked(part) for part in np.split(FEATS[begin:], [min(cut, 90 - begin) for cut in cuts])]
        np.testing.assert_array_equal(np.concatenate(parts), wanted)
        whole.end_utterance()
        chunked.end_utterance()


@pytest.mark.parametrize("norm_vars", [False, True])
def test_frames_are_normalized_by_the_window_before_them(norm_vars: bool) -> None:
    online = OnlineCmvn(STATISTICS, cmn_window=30, global_frames=10, norm_vars=norm_vars, skip_dims=[2])
    found = online(FEATS)
    for t in range(len(FEATS)):
        window = FEATS[max(t - 29, 0) : t + 1].astype(np.float64)
        weights = np.append(np.ones(len(window)), 0)
        mean, square = window.sum(0), np.square(window).sum(0)
        lacking = min(30 - len(window), 10) / STATISTICS[0, -1]
        count = weights.sum() + lacking * STATISTICS[0, -1]
        mean, square = (mean + lacking * STATISTICS[0, :-1]) / count, (square + lacking * STATISTICS[1, :-1]) / count
        wanted = (FEATS[t] - mean) / (np.sqrt(square - mean**2) if norm_vars else 1)
        wanted[2] = FEATS[t, 2]
        np.testing.assert_allclose(found[t], wanted, rtol=1e-4, atol=1e-4)


def test_another_speaker_begins_anew() -> None:
    online = OnlineCmvn(STATISTICS, cmn_window=300)
    first = online(FEATS[:10])
    online.end_utterance()
    assert (online(FEATS[:10]) != first).any()
    online.reset()
    np.testing.assert_array_equal(online(FEATS[:10]), first)


def test_statistics_that_do_not_fit_are_refused() -> None:
    with pytest.raises(FeatureError, match="do not fit"):
        OnlineCmvn(STATISTICS)(FEATS[:, :3])
    with pytest.raises(FeatureError, match="count no frames"):
        OnlineCmvn(np.zeros((2, 6)))(FEATS)
    with pytest.raises(OptionError, match="norm_means"):
        OnlineCmvn(STATISTICS, norm_means=False, norm_vars=True)
    assert OnlineCmvn(STATISTICS)(FEATS[:0]).shape == (0, 5)


def test_window_of_one_frame_has_no_variance_and_warns(caplog: pytest.LogCaptureFixture) -> None:
    online = OnlineCmvn(STATISTICS, cmn_window=1, norm_vars=True, skip_dims=[0])
    with caplog.at_level("WARNING", "kaldi_compat"):
        online(np.full((2, 5), 2, np.float32))
    assert caplog.messages == ["Flooring cepstral variance from 0 to 1e-20"] * 8


@needs_c
@settings(max_examples=40)
@given(
    cuts=CUTS,
    options=st.builds(
        OnlineCmvnOptions,
        cmn_window=st.integers(2, 100),
        speaker_frames=st.sampled_from([-1, 0, 3, 50, 600]),
        **COMMON,
    ),
    adapts=st.booleans(),
    skipped=st.sampled_from([(), (1,), (0, 4)]),
)
def test_c_and_numpy_give_the_same_bits(
    cuts: list[int], options: OnlineCmvnOptions, adapts: bool, skipped: tuple[int, ...]
) -> None:
    bounds, results = np.array([0, *cuts, 90]), []
    for how in (None, *LEVELS):
        online = OnlineCmvn(STATISTICS, options, skip_dims=skipped)
        with computing(how):
            online(FEATS[:7])
            found = [online.utterances(FEATS, bounds, adapts=adapts)]
            online.end_utterance()
            results.append([*found, online(FEATS[:40]), online(FEATS[40:])])
    for other in results[1:]:
        for one, two in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(one.view(np.int32), two.view(np.int32))


def test_utterances_count_once_if_one_of_them_is_refused() -> None:
    """The loop of programs asks again for parts of a block that raised an error."""
    online = OnlineCmvn(STATISTICS, norm_vars=True)
    online(FEATS)
    before = online._seen
    feats = np.concatenate((FEATS, np.full((1, 5), np.inf, np.float32)))
    with pytest.raises(FeatureError, match="infinite"), np.errstate(all="ignore"):
        online.utterances(feats, np.array([0, 90, 91]), adapts=True)
    assert online._seen is before


@pytest.mark.parametrize("how", [*LEVELS, None])
def test_no_frames_stay_none(how: str | None) -> None:
    with computing(how):
        assert OnlineCmvn(STATISTICS).utterances(FEATS[:0], np.array([0]), adapts=False).shape == (0, 5)


def test_floored_variance_is_the_plain_way_and_warns(caplog: pytest.LogCaptureFixture) -> None:
    constant = np.ones((3, 5), np.float32)
    OnlineCmvn(cmvn_statistics(constant), norm_vars=True).utterances(constant, np.array([0, 3]), adapts=False)
    assert "Flooring cepstral variance from" in caplog.text


def test_empty_window_is_accepted_where_nothing_is_subtracted() -> None:
    online = OnlineCmvn(STATISTICS, cmn_window=0, norm_means=False)
    np.testing.assert_array_equal(online(FEATS), FEATS)
    with pytest.raises(OptionError, match="no frame for the mean"):
        OnlineCmvn(STATISTICS, cmn_window=0)
