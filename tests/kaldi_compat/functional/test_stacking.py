"""Stacking, padding and normalization of frames: properties, on arrays and tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kaldi_compat import CenteredMean, Floor, GlobalCmvn, LowFrameRate, PadFrames, StackFrames, UtteranceCmvn
from kaldi_compat.errors import FeatureError, OptionError
from kaldi_compat.functional.normalization import subtract_centered_mean, utterance_cmvn
from kaldi_compat.functional.stacking import low_frame_rate, pad_frames, stack_frames
from kaldi_compat.options.frontend import (
    CenteredMeanOptions,
    LowFrameRateOptions,
    PadFramesOptions,
    StackFramesOptions,
    UtteranceCmvnOptions,
)

MODULES: list[Any] = [
    LowFrameRate(),
    LowFrameRate(stack=2, stride=5),
    StackFrames(size=3),
    PadFrames(length=20),
    PadFrames(multiple=4, value=-1.0),
    UtteranceCmvn(norm_vars=True),
    UtteranceCmvn(norm_vars=True, unbiased=True, epsilon=1e-7),
    CenteredMean(context=3),
    GlobalCmvn(mean=3.0, std=2.0),
    Floor(minimum=0.5),
]


def frames(count: int, dim: int = 2, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, dim, generator=torch.Generator().manual_seed(seed))


@given(count=st.integers(1, 40), stack=st.integers(1, 9), stride=st.integers(1, 9))
def test_a_joined_frame_holds_its_neighbours_with_the_ends_repeated(count: int, stack: int, stride: int) -> None:
    numbers = np.arange(float(count))[:, None]
    joined = low_frame_rate(numbers, LowFrameRateOptions(stack=stack, stride=stride))
    expected = [
        [min(max(t * stride - (stack - 1) // 2 + j, 0), count - 1) for j in range(stack)]
        for t in range(-(-count // stride))
    ]
    assert joined.tolist() == expected


@given(count=st.integers(0, 20), size=st.integers(1, 6))
def test_stacks_hold_every_frame_once_and_then_zeros(count: int, size: int) -> None:
    numbers = np.arange(1.0, count + 1)[:, None]
    stacks = stack_frames(numbers, StackFramesOptions(size=size))
    assert stacks.shape == (-(-count // size), size)
    assert stacks.ravel().tolist() == [*range(1, count + 1), *[0.0] * (stacks.size - count)]


@pytest.mark.parametrize("module", MODULES, ids=repr)
def test_rows_of_a_padded_batch_are_those_of_each_alone(module: Any) -> None:
    whole = frames(26).repeat(3, 1, 1)
    lengths = [26, 13, 1]
    for row, length in zip(whole, lengths, strict=True):
        row[length:] = torch.nan
    processed, counts = module(whole, lengths)
    for row, length, count in zip(processed, lengths, counts.tolist(), strict=True):
        alone, own = module(whole[:1, :length], [length])
        assert own.tolist() == [count]
        torch.testing.assert_close(row[:count], alone[0, :count])
    assert torch.isfinite(processed).all()


@pytest.mark.parametrize("ddof", [0, 1])
def test_utterance_cmvn_has_the_mean_and_deviation_of_numpy(ddof: int) -> None:
    features = frames(50, 5) * 4 + 10
    options = UtteranceCmvnOptions(norm_vars=True, unbiased=bool(ddof), epsilon=0.01)
    wide = features.double().numpy()
    expected = (wide - wide.mean(0)) / np.sqrt(wide.var(0, ddof=ddof) + 0.01)
    np.testing.assert_allclose(utterance_cmvn(features, options), expected, atol=1e-5)
    np.testing.assert_allclose(utterance_cmvn(features.numpy(), options), expected, atol=1e-5)


def test_constant_columns_become_zero() -> None:
    features = torch.full((1000, 3), -15.942385)
    for options in (UtteranceCmvnOptions(norm_vars=True), UtteranceCmvnOptions(norm_vars=True, unbiased=True)):
        assert not utterance_cmvn(features, options).any()
        assert not utterance_cmvn(features.numpy(), options).any()
        assert not utterance_cmvn(features[:1], options).any()


def test_centered_mean_is_that_of_an_average_pool() -> None:
    features = frames(30, 4)
    pooled = torch.nn.functional.avg_pool1d(features.T[None], 9, 1, 4, count_include_pad=False)[0].T
    torch.testing.assert_close(subtract_centered_mean(features, CenteredMeanOptions(context=4)), features - pooled)


def test_padding_cuts_and_fills() -> None:
    features = np.ones((2, 5, 1))
    assert pad_frames(features, PadFramesOptions(length=3)).shape == (2, 3, 1)
    padded = pad_frames(features, PadFramesOptions(length=8, value=2.0), lengths=[5, 1])
    assert padded[..., 0].tolist() == [[1.0] * 5 + [2.0] * 3, [1.0] + [2.0] * 7]
    assert pad_frames(features, PadFramesOptions(multiple=4)).shape == (2, 8, 1)
    assert pad_frames(features, PadFramesOptions(multiple=5)).shape == (2, 5, 1)


@given(cuts=st.lists(st.integers(0, 30), max_size=4).map(sorted), stack=st.integers(1, 8), stride=st.integers(1, 8))
def test_streams_give_the_frames_of_the_whole(cuts: list[int], stack: int, stride: int) -> None:
    features = frames(30)
    options = LowFrameRateOptions(stack=stack, stride=stride)
    for stream, whole in [
        (LowFrameRate(options).stream(), low_frame_rate(features, options)),
        (StackFrames(size=stack).stream(), stack_frames(features, StackFramesOptions(size=stack))),
    ]:
        parts = [stream(part) for part in torch.tensor_split(features, cuts)]
        assert torch.equal(torch.cat([*parts, stream.flush()]), whole)


def test_wrong_input_is_refused() -> None:
    with pytest.raises(FeatureError, match=r"\(\.\.\., frames, dim\)"):
        LowFrameRate()(torch.zeros(5))
    with pytest.raises(FeatureError, match="lengths must be from 0 to 5, not from 9 to 9"):
        StackFrames()(torch.zeros(1, 5, 2), [9])
    with pytest.raises(OptionError, match="did you mean stack"):
        LowFrameRate(lfr_m=3)  # type: ignore[call-arg]
