"""Batches hold every utterance once an epoch over all ranks, keep their limits, and resume where they stopped."""

from __future__ import annotations

import json
import time
import warnings
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from kaldi_compat.errors import OptionError
from kaldi_compat.torch.data.sampling import BucketBatchSampler

SPOKEN = np.random.default_rng(0).gamma(3.0, 250.0, 2000).astype(int) + 50  # frames of utterances, some long
LIMITS = st.one_of(
    st.fixed_dictionaries({"batch_size": st.integers(1, 9)}),
    st.fixed_dictionaries({"max_frames": st.integers(1, 2000)}),
    st.fixed_dictionaries({"batch_size": st.integers(1, 9), "max_frames": st.integers(1, 2000)}),
    st.fixed_dictionaries({"max_seconds": st.floats(1, 20), "sample_frequency": st.just(100)}),
)
LENGTHS = st.lists(st.integers(0, 500), min_size=1, max_size=60)


def ranks_of(world_size: int, lengths: Any, **options: Any) -> list[BucketBatchSampler]:
    return [BucketBatchSampler(lengths, rank=rank, world_size=world_size, **options) for rank in range(world_size)]


@given(
    lengths=LENGTHS,
    limits=LIMITS,
    world_size=st.integers(1, 4),
    shuffle=st.booleans(),
    drop_last=st.booleans(),
    epoch=st.integers(0, 3),
)
@example([100] * 15, {"batch_size": 4}, 1, True, False, 0)
@settings(max_examples=200, deadline=None)
def test_every_utterance_comes_once_an_epoch_within_the_limits(
    lengths: list[int], limits: dict[str, Any], world_size: int, shuffle: bool, drop_last: bool, epoch: int
) -> None:
    try:
        samplers = ranks_of(world_size, lengths, shuffle=shuffle, drop_last=drop_last, **limits)
        for sampler in samplers:
            sampler.set_epoch(epoch)
    except OptionError as error:
        assert drop_last and "pass drop_last=False" in str(error)
        return
    ranks = [list(sampler) for sampler in samplers]
    assert {len(batches) for batches in ranks} == {len(samplers[0])}
    batches = [batch for rank in ranks for batch in rank]
    size = limits.get("max_frames", 100 * limits.get("max_seconds", np.inf))
    for batch in batches:
        assert 1 <= len(batch) <= limits.get("batch_size", np.inf)
        assert len(batch) == 1 or max(lengths[i] for i in batch) * len(batch) <= size
    seen = Counter(i for batch in batches for i in batch)
    if drop_last:
        assert max(seen.values()) == 1
        assert "max_frames" in limits or "max_seconds" in limits or {len(b) for b in batches} == {limits["batch_size"]}
    else:
        assert set(seen) == set(range(len(lengths)))
        assert max(seen.values()) == 1 or max(map(len, batches)) == 1  # no batch could be split


@pytest.mark.parametrize(
    ("utterances", "batch_size", "drop_last", "batches"),
    [(15, 4, False, 4), (15, 4, True, 3), (400, 32, True, 12), (2000, 32, False, 63), (3, 4, False, 1)],
)
def test_small_data_has_whole_batches(utterances: int, batch_size: int, drop_last: bool, batches: int) -> None:
    sampler = BucketBatchSampler(SPOKEN[:utterances], batch_size=batch_size, drop_last=drop_last)
    sizes = sorted(map(len, sampler))
    assert len(sizes) == batches
    assert set(sizes[1:]) <= {batch_size}


@pytest.mark.parametrize("lengths", [[10] * 50 + [1] * 50, [10] * 50 + [4] * 50 + [1] * 50])
@pytest.mark.parametrize("limit", [{"batch_size": 10}, {"max_frames": 100}])
def test_utterances_of_two_lengths_are_not_mixed(lengths: list[int], limit: dict[str, int]) -> None:
    batches = list(BucketBatchSampler(lengths, **limit))
    assert all(len({lengths[i] for i in batch}) == 1 for batch in batches)


def test_buckets_save_padding_and_change_with_the_epoch() -> None:
    lengths = np.random.default_rng(0).integers(100, 2000, 1000)
    for limits in ({"batch_size": 16}, {"max_frames": 16000}):
        sampler = BucketBatchSampler(lengths, **limits)  # type: ignore[arg-type]
        batches = list(sampler)
        padded = sum(int(lengths[batch].max()) * len(batch) for batch in batches)
        assert padded < 1.06 * lengths.sum()
        assert list(sampler) == batches
        sampler.set_epoch(1)
        second = list(sampler)
        assert len({frozenset(b) for b in batches} & {frozenset(b) for b in second}) < 0.1 * len(batches)
        assert second != list(BucketBatchSampler(lengths, seed=1, **limits))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("utterances", "limits", "padding", "again"),  # lhotse's, at as many batches: 44 of at most 32 utterances, not 32
    [
        (1000, {"max_seconds": 600.0}, 0.0374, 1.0),
        (3000, {"max_seconds": 600.0}, 0.0357, 0.43),
        (30_000, {"max_seconds": 600.0}, 0.0360, 0.05),
        (1000, {"batch_size": 23}, 0.0367, 0.72),
        (3000, {"batch_size": 28}, 0.0360, 0.29),
    ],
)
def test_speech_is_padded_less_and_mixed_more_than_by_lhotse(
    utterances: int, limits: dict[str, Any], padding: float, again: float
) -> None:
    seconds = np.random.default_rng(0).lognormal(np.log(11.0), 0.5, utterances).clip(1.0, 35.0)
    sampler = BucketBatchSampler(seconds, **limits)
    batches = list(sampler)
    batch_of = {i: number for number, batch in enumerate(batches) for i in batch}
    sampler.set_epoch(1)
    later = list(sampler)
    padded = sum(float(seconds[batch].max()) * len(batch) for batch in later)
    assert 1 - seconds.sum() / padded < padding
    together = sum(n * (n - 1) for batch in later for n in Counter(batch_of[i] for i in batch).values())
    assert together < again * sum(len(batch) * (len(batch) - 1) for batch in later)


def test_ranks_get_batches_of_similar_size_at_the_same_time() -> None:
    steps = list(zip(*ranks_of(4, SPOKEN, max_frames=16000), strict=True))
    totals = np.array([[SPOKEN[batch].sum() for batch in step] for step in steps])
    assert np.median(totals.min(1) / totals.max(1)) > 0.9
    np.testing.assert_allclose(totals.sum(0), totals.sum() / 4, rtol=0.02)


@given(lengths=LENGTHS, limits=LIMITS, world_size=st.integers(1, 3), done=st.integers(0, 30), epoch=st.integers(0, 2))
@settings(max_examples=100, deadline=None)
def test_resumed_batches_are_those_of_an_undisturbed_epoch(
    lengths: list[int], limits: dict[str, Any], world_size: int, done: int, epoch: int
) -> None:
    for sampler, other in zip(
        ranks_of(world_size, lengths, **limits), ranks_of(world_size, lengths, **limits), strict=True
    ):
        sampler.set_epoch(epoch)
        assume(done <= len(sampler))
        whole = list(sampler)
        batches = iter(sampler)
        for _ in range(done):
            next(batches)
        saved = json.loads(json.dumps(sampler.state_dict()))
        assert saved == {**sampler.state_dict(), "batches": done}
        for _ in range(min(2, len(sampler) - done)):  # workers read ahead
            next(batches)
        assert sampler.state_dict(done) == saved
        other.load_state_dict(saved)
        other.set_epoch(epoch)  # as at the start of every epoch
        assert list(other) == whole[done:]
        assert list(other) == whole
        other.load_state_dict(saved)
        other.set_epoch(epoch + 1)
        sampler.set_epoch(epoch + 1)
        assert list(other) == list(sampler)


def test_an_iterator_is_resumed_as_torchdatas_loader_does() -> None:
    sampler, other = (BucketBatchSampler(SPOKEN, batch_size=100, seed=seed) for seed in (3, 4))
    sampler.set_epoch(2)
    whole = list(sampler)
    batches: Any = iter(sampler)
    for _ in range(5):
        next(batches)
    resumed: Any = iter(other)
    resumed.load_state_dict(batches.state_dict())
    assert list(resumed) == whole[5:]
    assert list(other) == whole


@pytest.mark.parametrize(("workers", "persistent"), [(0, False), (2, False), (2, True)])
@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_a_data_loader_resumes_within_an_epoch(workers: int, persistent: bool) -> None:
    sampler = BucketBatchSampler(SPOKEN[:200], batch_size=16)
    whole = list(sampler)
    sampler.load_state_dict(sampler.state_dict(5))
    context = "fork" if workers else None
    loader = DataLoader(
        range(200),  # type: ignore[arg-type]
        batch_sampler=sampler,
        num_workers=workers,
        persistent_workers=persistent,
        multiprocessing_context=context,
    )
    assert [batch.tolist() for batch in loader] == whole[5:]
    assert [batch.tolist() for batch in loader] == whole


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_a_stateful_data_loader_resumes_within_an_epoch(workers: int) -> None:
    loaders = pytest.importorskip("torchdata.stateful_dataloader")

    def make(seed: int = 0) -> tuple[BucketBatchSampler, Any]:
        sampler = BucketBatchSampler(SPOKEN[:200], batch_size=16, seed=seed)
        context = "fork" if workers else None
        return sampler, loaders.StatefulDataLoader(
            list(range(200)), batch_sampler=sampler, num_workers=workers, multiprocessing_context=context
        )

    (sampler, loader), (_, resumed) = make(), make(seed=7)
    sampler.set_epoch(1)
    whole = [batch.tolist() for batch in loader]
    batches = iter(loader)
    assert [next(batches).tolist() for _ in range(5)] == whole[:5]
    resumed.load_state_dict(loader.state_dict())
    assert [batch.tolist() for batch in resumed] == whole[5:]
    assert [batch.tolist() for batch in resumed] == whole
    assert Counter(number for batch in whole for number in batch) == Counter(range(200))


@pytest.mark.parametrize(
    ("lengths", "options", "says"),
    [
        ([5, 6], {}, "pass batch_size, max_frames or max_seconds"),
        ([5, 6], {"batch_size": 0}, "batch_size=0 must be at least 1"),
        ([5, 6], {"max_frames": -1}, "max_frames=-1 must be a positive, finite number"),
        ([5, 6], {"max_seconds": 1.0, "sample_frequency": 0}, "sample_frequency=0 must be a positive, finite number"),
        ([5, 6], {"batch_size": 1, "num_buckets": 0}, "num_buckets=0 must be at least 1"),
        ([], {"batch_size": 2}, "lengths is empty: pass one length for each utterance"),
        ([5, -6], {"batch_size": 2}, "must be finite numbers >= 0"),
        ([5.0, float("nan")], {"batch_size": 2}, "must be finite numbers >= 0"),
        (
            [5, 6, 7],
            {"batch_size": 4, "drop_last": True},
            "world_size=1, because .* full batches of 3 utterances is only 0",
        ),
        (
            [5] * 9,
            {"batch_size": 4, "drop_last": True, "rank": 0, "world_size": 3},
            "world_size=3, because .* full batches of 9 utterances is only 2",
        ),
        ([5], {"batch_size": 1, "rank": 0}, "rank and world_size together"),
        ([5], {"batch_size": 1, "rank": 2, "world_size": 2}, "rank=2 must be from 0 to 1"),
    ],
)
def test_what_gives_no_batches_is_refused_with_advice(lengths: list[float], options: dict[str, Any], says: str) -> None:
    with pytest.raises(OptionError, match=says):
        BucketBatchSampler(lengths, **options)


@pytest.mark.parametrize("wrong", [{"batches": 10**9}, {"batches": -1}, {"epoch": -1}])
def test_a_refused_state_changes_nothing(wrong: dict[str, int]) -> None:
    sampler = BucketBatchSampler(SPOKEN, batch_size=4)
    state, batches = sampler.state_dict(3), list(sampler)
    with pytest.raises(OptionError):
        sampler.load_state_dict({**state, "epoch": 7, "seed": 7, **wrong})  # type: ignore[typeddict-item]
    assert list(sampler) == batches
    sampler.load_state_dict(state)
    assert list(sampler) == batches[3:]


def test_a_state_of_other_data_or_limits_is_refused() -> None:
    state = BucketBatchSampler(SPOKEN, batch_size=4).state_dict()
    others: list[dict[str, Any]] = [
        {"lengths": SPOKEN[::-1]}, {"lengths": SPOKEN[:-1]}, {"batch_size": 5}, {"max_frames": 9e9}, {"shuffle": False},
        {"drop_last": True}, {"num_buckets": 29}, {"rank": 0, "world_size": 2},
    ]  # fmt: skip
    for changes in others:
        other = BucketBatchSampler(**{"lengths": SPOKEN, "batch_size": 4, **changes})
        with pytest.raises(OptionError, match="saved with different lengths, limits or ranks"):
            other.load_state_dict(state)


def test_a_position_beyond_the_epoch_is_refused_when_it_is_saved_or_loaded() -> None:
    sampler = BucketBatchSampler([5] * 9, batch_size=4)
    state = sampler.state_dict(3)
    with pytest.raises(OptionError, match=r"batches=4 must be at most 3, .*: start the count again in each epoch"):
        sampler.state_dict(4)
    with pytest.raises(OptionError, match="batches=4 must be at most 3"):
        sampler.load_state_dict({**state, "batches": 4})


def test_a_sampler_says_what_it_holds() -> None:
    sampler = BucketBatchSampler([5] * 9, batch_size=4, max_seconds=1.5, sample_frequency=100, rank=1, world_size=3)
    sampler.set_epoch(2)
    assert repr(sampler) == (
        "<BucketBatchSampler: 9 utterances in 1 batch of at most 4 utterances and 150 of padded length, epoch 2, "
        "rank 1 of 3>"
    )


def peak_bytes() -> int:
    resource = pytest.importorskip("resource")
    return 1024 * int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


@pytest.mark.slow
def test_ten_million_utterances_are_planned_within_half_a_minute_and_a_gigabyte() -> None:
    lengths = np.random.default_rng(0).lognormal(7.0, 0.5, 10_000_000).astype(np.int32)
    start, before = time.process_time(), peak_bytes()
    sampler = BucketBatchSampler(lengths, max_frames=60000, rank=1, world_size=8)
    assert time.process_time() - start < 30
    assert peak_bytes() - before < 1e9
    assert len(sampler) > 20000


def test_utterances_above_the_padded_size_bring_a_warning() -> None:
    with pytest.warns(UserWarning, match="the length of 1 of 2 utterances exceeds max_frames or max_seconds"):
        sampler = BucketBatchSampler([10, 20], max_frames=15, shuffle=False)
    assert list(sampler) == [[1], [0]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        BucketBatchSampler([10, 20], max_frames=15, max_length=15)
    with pytest.warns(UserWarning, match="2 of 2 .* itself: pass sample_frequency if the lengths are not in sec"):
        BucketBatchSampler([16000, 24000], max_seconds=60)
        BucketBatchSampler([10, 20], max_frames=20)
