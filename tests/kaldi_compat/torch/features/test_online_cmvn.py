"""Online CMVN of tensors, against the bits of Kaldi, as a module and as a stream."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kaldi_compat import OnlineCmvn, OnlineCmvnOptions, OnlineCmvnStream
from kaldi_compat import numpy as exact
from kaldi_compat.errors import FeatureError, OptionError
from kaldi_compat.functional.cmvn import cmvn_statistics

FEATS = (np.random.default_rng(0).normal(size=(90, 5)) * 3 + 7).astype(np.float32)
STATISTICS = cmvn_statistics(FEATS.astype(np.float64) - 1)
OPTIONS = st.builds(
    OnlineCmvnOptions,
    cmn_window=st.integers(2, 100),
    global_frames=st.sampled_from([1, 20, 200]),
    speaker_frames=st.sampled_from([0, 10, 600]),
    norm_vars=st.booleans(),
)


@settings(max_examples=30)
@given(options=OPTIONS, length=st.integers(1, 90), skipped=st.sampled_from([(), (0, 3)]))
def test_module_agrees_with_kaldi(options: OnlineCmvnOptions, length: int, skipped: tuple[int, ...]) -> None:
    module = OnlineCmvn(STATISTICS, options, skip_dims=skipped)
    batch = torch.from_numpy(np.stack((FEATS, FEATS[::-1].copy())))
    found, lengths = module(batch, [90, length])
    assert lengths.tolist() == [90, length] and not found[1, length:].any()
    for row, count, feats in ((0, 90, FEATS), (1, length, FEATS[::-1])):
        wanted = exact.OnlineCmvn(STATISTICS, options, skip_dims=skipped)(np.ascontiguousarray(feats[:count]))
        np.testing.assert_allclose(found[row, :count], wanted, rtol=1e-3, atol=1e-4)


@settings(max_examples=30)
@given(options=OPTIONS, cuts=st.lists(st.integers(0, 90), max_size=4).map(sorted), other=st.integers(0, 90))
def test_stream_adapts_to_each_speaker_as_kaldi_does(options: OnlineCmvnOptions, cuts: list[int], other: int) -> None:
    stream = OnlineCmvn(STATISTICS, options).stream(2)
    by_slot = [exact.OnlineCmvn(STATISTICS, options) for _ in range(2)]
    for utterance in range(3):
        if utterance == 2:
            stream.new_speaker([True, False])
            by_slot[0].reset()
        bounds = [0, *cuts, 90]
        for begin, end in pairwise(bounds):
            lengths = [end - begin, max(min(end, other) - begin, 0)]
            chunk = torch.from_numpy(np.stack((FEATS[begin:end], FEATS[begin:end] + 3)))
            found, counts = stream(chunk, lengths, final=end == 90 and begin == bounds[-2])
            assert counts.tolist() == lengths
            for slot, count in enumerate(lengths):
                wanted = by_slot[slot](chunk[slot, :count].numpy())
                np.testing.assert_allclose(found[slot, :count], wanted, rtol=1e-3, atol=1e-4)
        for each in by_slot:
            each.end_utterance()


def test_statistics_that_do_not_fit_are_refused() -> None:
    with pytest.raises(FeatureError, match="pass statistics of the same features"):
        OnlineCmvn(STATISTICS)(torch.ones(4, 3))
    with pytest.raises(FeatureError, match="shape"):
        OnlineCmvn(STATISTICS[0])
    with pytest.raises(OptionError, match="OnlineCmvn"):
        OnlineCmvnStream(OnlineCmvnOptions())  # type: ignore[arg-type]


def test_speaker_of_a_single_frame_fills_the_window() -> None:
    """The frame 6 and the frame 2 of the earlier utterance have the mean 4."""
    statistics = torch.tensor([[40.0, 10.0], [200.0, 0.0]])
    stream = OnlineCmvn(statistics, cmn_window=2, global_frames=1, speaker_frames=1).stream()
    stream(torch.tensor([[2.0]]), final=True)
    assert stream(torch.tensor([[6.0]])).tolist() == [[2.0]]
