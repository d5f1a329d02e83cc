"""SpecAugment masks and warps within the frames of each utterance, and repeats with its seed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kaldi_compat import SpecAugment
from kaldi_compat.errors import FeatureError, OptionError


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@given(
    lengths=st.lists(st.integers(0, 40), min_size=1, max_size=4),
    masks=st.integers(0, 3),
    most=st.integers(0, 50),
    ratio=st.sampled_from([0.0, 0.2, 1.0]),
    seed=st.integers(0, 1000),
)
@settings(max_examples=150, deadline=None)
def test_masks_lie_within_the_frames_of_an_utterance_and_their_limits(
    lengths: list[int], masks: int, most: int, ratio: float, seed: int
) -> None:
    features = torch.rand(len(lengths), 40, 12) + 1
    frames = torch.tensor(lengths)
    for changes in ({"num_frequency_masks": 0}, {"num_time_masks": 0}):
        options: dict[str, Any] = {"num_time_masks": masks, "num_frequency_masks": masks, "fill": 0.0}
        augment = SpecAugment(time_mask=most, frequency_mask=most, time_mask_ratio=ratio, **{**options, **changes})
        masked = augment(features, frames, seeded(seed)) != features
        for row, count in zip(masked, lengths, strict=True):
            assert not row[count:].any()
            rows, columns = row[:count].any(1), row[:count].any(0)
            if "num_time_masks" in changes and count:
                assert columns.sum() <= masks * min(most, 12) and torch.equal(row[:count], columns.expand(count, -1))
            else:
                assert rows.sum() <= masks * min(most, int(ratio * count))
                assert torch.equal(row[:count], rows[:, None].expand(-1, 12))


def test_masks_reach_every_length_and_place() -> None:
    features = torch.ones(4000, 6, 5)
    masked = SpecAugment(1, 3, 1, 4, fill=0.0)(features, generator=seeded(0)) == 0
    in_time = masked.all(2)
    assert in_time.sum(1).unique().tolist() == [0, 1, 2, 3, 4] and in_time.any(0).all()
    assert abs(in_time.sum(1).double().mean() - 2) < 0.1
    in_frequency = masked.all(1)
    assert in_frequency.sum(1).unique().tolist() == [0, 1, 2, 3] and in_frequency.any(0).all()


def test_masked_features_have_the_mean_of_their_utterance() -> None:
    features = torch.randn(3, 50, 8)
    lengths = torch.tensor([50, 20, 1])
    masked = SpecAugment(1, 4, 1, 20)(features, lengths, seeded(1))
    for row, whole, count in zip(masked, features, lengths.tolist(), strict=True):
        mean = whole[:count].mean(0)
        changed = row[:count] != whole[:count]
        assert changed.any() or count == 1
        torch.testing.assert_close(row[:count][changed], mean.expand(count, -1)[changed])
        assert torch.equal(row[count:], whole[count:])


def test_masks_repeat_with_a_seed_and_not_in_evaluation() -> None:
    features, augment = torch.randn(2, 50, 8), SpecAugment(time_warp=5)
    assert torch.equal(augment(features, None, seeded(1)), augment(features, None, seeded(1)))
    assert not torch.equal(augment(features, None, seeded(1)), augment(features, None, seeded(2)))
    assert torch.equal(augment(features[0], generator=seeded(1)), augment(features[:1], generator=seeded(1))[0])
    assert augment.eval()(features) is features


@given(lengths=st.lists(st.integers(1, 60), min_size=1, max_size=5), most=st.integers(1, 30), seed=st.integers(0, 99))
@settings(max_examples=100, deadline=None)
def test_time_is_warped_without_a_break_between_the_ends(lengths: list[int], most: int, seed: int) -> None:
    ramp = torch.arange(60.0)[None, :, None].repeat(len(lengths), 1, 2)
    warped = SpecAugment(0, 0, 0, 0, time_warp=most)(ramp, torch.tensor(lengths), seeded(seed))
    for row, count in zip(warped[..., 0], lengths, strict=True):
        assert row[0] == 0 and row[count - 1] == count - 1
        steps = row[:count].diff()
        assert (steps > -1e-4).all()
        assert ((row[:count] - torch.arange(count)).abs() < min(most, max(1, count // 2))).all()
        assert torch.equal(row[count:], torch.arange(count, 60.0))


def test_time_is_warped_by_any_amount() -> None:
    ramp = torch.arange(100.0)[None, :, None].repeat(500, 1, 1)
    moved = (SpecAugment(0, 0, 0, 0, time_warp=10)(ramp, generator=seeded(0)) - ramp)[..., 0]
    furthest = moved.gather(1, moved.abs().argmax(1, keepdim=True))
    assert furthest.round().unique().tolist() == list(range(-9, 10))


def test_the_end_of_a_long_utterance_is_not_warped_into_padding() -> None:
    ramp = torch.arange(50001.0)[None, :, None].repeat(4, 1, 1)
    ramp[:, 50000:] = 1e9
    for seed in (28, 32, 40):  # rounded to single precision, these go past the end
        warped = SpecAugment(0, 0, 0, 0, time_warp=80)(ramp, torch.full((4,), 50000), seeded(seed))
        assert warped[:, :50000].max() == 49999


@pytest.mark.parametrize("options", [{"time_mask": -1}, {"time_mask_ratio": 1.5}, {"time_warp": -2}])
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=r"must be at least 0|must be from 0 to 1"):
        SpecAugment(**options)
    with pytest.raises(FeatureError, match="must have the shape"):
        SpecAugment()(torch.zeros(5))
