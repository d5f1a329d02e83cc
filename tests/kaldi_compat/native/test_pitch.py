"""The C half of the pitch tracker and of resampling against the NumPy half, byte for byte, on every dispatch level."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kaldi_compat.errors import AudioError
from kaldi_compat.exact import resample, sums
from kaldi_compat.native import library
from kaldi_compat.native import pitch as compiled
from kaldi_compat.options.pitch import PitchOptions
from kaldi_compat.pitch import exact, ragged, tracker
from kaldi_compat.pitch.exact import PitchTables
from tests.support.native import LEVELS, computing

pytestmark = pytest.mark.skipif(not library(), reason=library().reason)

OPTIONS = st.builds(
    PitchOptions,
    min_f0=st.sampled_from([60.0, 100.0]),
    delta_pitch=st.sampled_from([0.005, 0.02, 0.1]),
    penalty_factor=st.sampled_from([0.0, 1e-6, 0.1, 10.0]),
    upsample_filter_width=st.sampled_from([1, 4, 5, 6]),
    frame_length=st.sampled_from([10.0, 16.0, 25.0, 40.0]),
    soft_min_f0=st.sampled_from([0.0, 10.0]),
)


def signal_of(seed: int, samples: int, quiet: bool) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    tone = np.sin(np.arange(samples) * rng.uniform(0.1, 0.6)) * rng.uniform(0, 5000)
    signal: np.ndarray[Any, Any] = (tone + rng.normal(0, 300, samples)).astype(np.float32)
    if quiet:
        signal[samples // 3 :] = 0  # digital silence: many predecessors have the same cost
    return signal


@settings(max_examples=60, deadline=None)
@given(
    rate_in=st.sampled_from([8000, 16000, 11025, 44100]),
    rate_out=st.sampled_from([4000, 8000, 16000]),
    samples=st.integers(0, 3000),
    start=st.integers(0, 2000),
    outputs=st.tuples(st.integers(0, 900), st.integers(0, 900)),
    zeros=st.sampled_from([1, 2, 6]),
    integers=st.booleans(),
)
def test_resampling(
    rate_in: int, rate_out: int, samples: int, start: int, outputs: tuple[int, int], zeros: int, integers: bool
) -> None:
    x = signal_of(samples, samples, quiet=False).astype(np.int16 if integers else np.float32)
    filters = resample.resampling_filters(rate_in, rate_out, 1000.0, zeros)
    wanted = (min(outputs), max(outputs))
    inside = resample.outputs_inside(filters, wanted, start, samples)
    expected = resample.resample_in_numpy(x.astype(np.float32), filters, wanted, inside)
    for level in LEVELS:
        with computing(level):
            np.testing.assert_array_equal(resample.resample_chunk(x, filters, wanted, start), expected)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(0, 400))
def test_sums(seed: int, n: int) -> None:
    x, y = np.random.default_rng(seed).normal(0, 1e3, (2, n)).astype(np.float32)
    for level in LEVELS:
        with computing(level):
            assert sums.vector_dot(x, y) == sums.dot(x, y)
            assert sums.vector_sum(x) == sums.plain_sum(x)


@settings(max_examples=25, deadline=None)
@given(
    options=OPTIONS, seed=st.integers(0, 999), frames=st.integers(1, 40), shift=st.integers(1, 60), quiet=st.booleans()
)
def test_correlations(options: PitchOptions, seed: int, frames: int, shift: int, quiet: bool) -> None:
    tables = PitchTables.of(options)
    signal = signal_of(seed, (frames - 1) * shift + tables.span, quiet)
    ballast = np.random.default_rng(seed).choice([0.0, 1.0, 1e9], frames).astype(np.float32)
    expected = exact.correlate_in_numpy(tables, signal, shift, ballast)
    for level in library().levels:
        for ours, theirs in zip(compiled.correlate(tables, signal, shift, ballast, level), expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)


@settings(max_examples=25, deadline=None)
@given(
    options=OPTIONS,
    seed=st.integers(0, 999),
    frames=st.integers(0, 40),
    coarse=st.booleans(),
    chunks=st.lists(st.integers(0, 40), min_size=1, max_size=5),
)
def test_searches(options: PitchOptions, seed: int, frames: int, coarse: bool, chunks: list[int]) -> None:
    rng = np.random.default_rng(seed)
    tables = PitchTables.of(options)
    states = len(tables.weights)
    searched = rng.uniform(-1, 1, (frames, tables.lags)).astype(np.float32)
    searched[rng.random(frames) < 0.5] *= np.float32(1e-4)
    if coarse:  # many costs are the same
        searched = np.round(searched * 4) / np.float32(4)
    scale = rng.choice([1.0, 0.7], frames).astype(np.float32)
    groups = exact.row_groups(np.minimum(sorted([*chunks, frames]), frames))
    start = rng.choice([0.0, 0.5, 1.0], states).astype(np.float32)
    expected = start.copy(), np.empty((frames, states), np.int16), np.empty(frames, np.int16)
    exact.search_in_numpy(tables, searched, scale, groups, *expected)
    path = rng.integers(0, states, frames).astype(np.int16)
    values = exact.interpolate_in_numpy(tables, searched, groups, path)
    for level in library().levels:
        found = start.copy(), np.empty((frames, states), np.int16), np.empty(frames, np.int16)
        compiled.search(tables, searched, scale, groups, *found, level=level)
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)
        np.testing.assert_array_equal(compiled.interpolate(tables, searched, groups, path, level), values)


def test_a_path_of_states_that_do_not_exist_is_refused() -> None:
    tables = PitchTables.of(PitchOptions())
    correlation = np.zeros((1, tables.lags), np.float32)
    with pytest.raises(ValueError, match="do not exist"):
        compiled.interpolate(tables, correlation, np.zeros(1, np.uint8), np.array([417], np.int16))


def test_a_signal_too_short_for_its_frames_is_refused() -> None:
    tables = PitchTables.of(PitchOptions())
    with pytest.raises(ValueError, match="too short"):
        compiled.correlate(tables, np.zeros(tables.span, np.float32), 1, np.zeros(2, np.float32))


@settings(max_examples=40, deadline=None)
@given(
    options=OPTIONS,
    seed=st.integers(0, 999),
    lengths=st.lists(st.integers(0, 6000) | st.just(30000), min_size=1, max_size=12),
    changes=st.fixed_dictionaries(
        {
            "snip_edges": st.booleans(),
            "frames_per_chunk": st.sampled_from([0, 0, 0, 3, 10]),
            "recompute_frame": st.sampled_from([0, 1, 4, 500]),
            "nccf_ballast_online": st.sampled_from([False, False, True]),
        }
    ),
    integers=st.booleans(),
)
def test_pitch_of_many_utterances(
    options: PitchOptions, seed: int, lengths: list[int], changes: dict[str, Any], integers: bool
) -> None:
    options = dataclasses.replace(options, **changes)
    audio_in = [signal_of(seed + i, n, quiet=i % 3 == 1) for i, n in enumerate(lengths)]
    audio_in = [each.astype(np.int16) for each in audio_in] if integers else audio_in
    sizes = np.array(lengths, np.int64)
    samples = np.concatenate([each[:1] for each in audio_in[:1]] + audio_in)  # the first one starts late
    starts = np.cumsum(sizes) - sizes + len(samples) - sizes.sum()
    features, rows = ragged.track_ragged(samples, starts, sizes, options)
    expected = [tracker.track_alone(each, options) for each in audio_in]
    assert np.diff(rows).tolist() == [len(each) for each in expected]
    np.testing.assert_array_equal(features, np.concatenate(expected))


@pytest.mark.parametrize("level", library().levels)
def test_pitch_of_many_utterances_is_the_same_on_all_levels(level: str) -> None:
    options = PitchOptions()
    frames = ragged._joined([ragged._frames_of(signal_of(i, 900 * i, quiet=True), options) for i in range(8)])
    tables = PitchTables.of(options)
    expected = np.concatenate([tracker.track_alone(signal_of(i, 900 * i, quiet=True), options) for i in range(8)])
    np.testing.assert_array_equal(compiled.track(tables, frames, 0, level), expected)


def test_paths_that_never_agree_in_digital_silence_are_kept() -> None:
    samples = np.concatenate([signal_of(1, 16000, quiet=False), np.zeros(16000 * 30, np.float32)]).astype(np.int16)
    options = PitchOptions()
    np.testing.assert_array_equal(
        ragged.track_ragged(samples, np.zeros(1, np.int64), np.array([len(samples)]), options)[0],
        tracker.track_alone(samples, options),
    )


def test_correlations_that_overflow_are_refused() -> None:
    loud = np.float32(1e18) * signal_of(2, 16000, quiet=False)
    for samples in (loud, np.full(16000, np.nan, np.float32)):
        with pytest.raises(AudioError, match=r"overflows|not a number"):
            ragged.track_ragged(samples, np.zeros(1, np.int64), np.array([16000]), PitchOptions())


def test_arguments_that_do_not_belong_together_are_refused() -> None:
    options = PitchOptions()
    frames = ragged._frames_of(signal_of(1, 4000, quiet=False), options)
    tables = PitchTables.of(options)
    for changes in (
        {"rows": np.array([0, 3])},
        {"rows": np.array([1, len(frames.ballast)])},
        {"starts": np.array([5])},
        {"lengths": np.array([-1])},
    ):
        with pytest.raises(ValueError, match=r"expected|belong|outside"):
            compiled.track(tables, dataclasses.replace(frames, **changes), 0)
    filters = exact.lowpass_filters(options)
    samples = np.zeros(10, np.int16)
    for chunk in ([0, 11, 0, 0, 2], [-1, 4, 0, 0, 1], [0, 4, 0, 2, 1]):
        with pytest.raises(ValueError, match="do not lie within"):
            resample.resample_chunks(samples, filters, np.array([chunk]))
    for start, length in ((0, 11), (-1, 2), (9, 2)):
        with pytest.raises(ValueError, match="do not lie within"):
            sums.signal_sums(np.zeros(10, np.float32), np.array([start]), np.array([length]))


@settings(max_examples=40, deadline=None)
@given(rate=st.sampled_from([8000, 16000, 44100]), data=st.data())
def test_resampling_of_chunks(rate: int, data: st.DataObject) -> None:
    filters = resample.resampling_filters(rate, 4000, 1000.0, 1)
    x = signal_of(rate, 3000, quiet=False).astype(np.int16)
    chunks, expected = [], []
    for _ in range(data.draw(st.integers(1, 4))):
        start, count = sorted(data.draw(st.tuples(st.integers(0, 3000), st.integers(0, 3000))))
        count -= start
        begin = data.draw(st.integers(0, count))
        outputs = sorted(data.draw(st.tuples(st.integers(0, 400), st.integers(0, 400))))
        chunks.append([start, count, begin, *outputs])
        expected.append(resample.resample_chunk(x[start : start + count], filters, (outputs[0], outputs[1]), begin))
    for level in LEVELS:
        with computing(level):
            found = resample.resample_chunks(x, filters, np.array(chunks, np.int64))
        np.testing.assert_array_equal(found, np.concatenate(expected))
