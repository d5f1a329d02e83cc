"""The search of the pitch tracker: C, on each instruction set, and NumPy give the same bits."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kaldi_compat.errors import AudioError
from kaldi_compat.options.pitch import PitchOptions
from kaldi_compat.pitch import frames, search
from kaldi_compat.pitch.constants import PitchConstants
from kaldi_compat.pitch.frames import PitchFrames
from kaldi_compat.pitch.search import Lattice
from kaldi_compat.pitch.tracker import track_block
from kaldi_compat.torch.tensors import pitch as tensors
from tests.support.native import LEVELS, assert_same_bits, computing, needs_c

OPTIONS = st.builds(
    PitchOptions,
    min_f0=st.sampled_from([60.0, 100.0]),
    delta_pitch=st.sampled_from([0.005, 0.02, 0.1]),
    penalty_factor=st.sampled_from([0.0, 1e-6, 0.1, 10.0]),
    upsample_filter_width=st.sampled_from([1, 4, 5, 6]),
    frame_length=st.sampled_from([10.0, 16.0, 25.0, 40.0]),
    soft_min_f0=st.sampled_from([0.0, 10.0]),
)


def in_both_engines(**strategies: Any) -> Callable[[Any], Any]:
    """Decorate a test that compares C and NumPy for some options and seeds."""
    given_all = given(options=OPTIONS, seed=st.integers(0, 999), **strategies)
    return lambda test: needs_c(settings(max_examples=25, deadline=None)(given_all(test)))


def signal_of(seed: int, samples: int, quiet: bool) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    tone = np.sin(np.arange(samples) * rng.uniform(0.1, 0.6)) * rng.uniform(0, 5000)
    signal: np.ndarray[Any, Any] = (tone + rng.normal(0, 300, samples)).astype(np.float32)
    if quiet:
        signal[samples // 3 :] = 0  # digital silence: many predecessors have the same cost
    return signal


def track(utterances: list[np.ndarray[Any, Any]], options: PitchOptions, how: str | None) -> np.ndarray[Any, Any]:
    """Track a block of utterances, the first of which starts late."""
    sizes = np.array([len(each) for each in utterances], np.int64)
    samples = np.concatenate([np.ones(1, utterances[0].dtype), *utterances])
    with computing(how):
        features, rows = track_block(samples, 1 + np.cumsum(sizes) - sizes, sizes, options)
    assert len(rows) == len(utterances) + 1 and rows[-1] == len(features)
    return features


@in_both_engines(
    counts=st.lists(st.integers(0, 25), min_size=1, max_size=3),
    first=st.sampled_from([0, -70, 13]),
    quiet=st.booleans(),
    coarse=st.booleans(),
)
def test_c_and_numpy_search_with_the_same_bits(
    options: PitchOptions, seed: int, counts: list[int], first: int, quiet: bool, coarse: bool
) -> None:
    rng, constants = np.random.default_rng(seed), PitchConstants.from_options(options)
    rows = np.concatenate(([0], np.cumsum(counts)))
    total = int(rows[-1])
    lengths = np.array([max(0, n * 30 + constants.span - 50) for n in counts])
    signal = signal_of(seed, int(lengths.sum()), quiet)
    if coarse:  # many costs are the same
        signal = np.sign(signal)
    ballast = rng.choice([0.0, 1.0, 1e9], total).astype(np.float32)
    frames = PitchFrames(
        signal=signal,
        starts=np.cumsum(lengths) - lengths,
        lengths=lengths,
        rows=rows,
        first=first,
        shift=30,
        ballast=ballast,
        revised=(ballast, ballast[::-1].copy()) if seed % 2 else None,
        groups=rng.integers(0, 3, total).astype(np.uint8),
        frame_counts=np.array(counts),
    )
    begin = seed % (total + 1)
    start = rng.choice([0.0, 0.5, 1.0], constants.states).astype(np.float32)
    traced = np.append(rng.integers(0, constants.states, 4), [-1, -1, -1]).astype(np.int16)

    def computed() -> list[np.ndarray[Any, Any]]:
        costs, found = start.copy(), Lattice.allocate(constants, total - begin)
        search.search_paths(constants, frames, begin, total, costs, found, [(total - begin) // 2])
        found.path[:] = np.resize(traced, total - begin)
        found.nccf[:] = 0
        search.search_paths(constants, frames, 0, 0, costs, found, [(total - begin) // 2, total - begin])
        return [costs, *found]

    assert_same_bits(computed)


@pytest.mark.parametrize("how", [*LEVELS, None])
def test_correlations_are_scaled_by_the_power_of_one_half(how: str | None) -> None:
    """Kaldi's ``pow(float, float)`` is powf(), which gives 0x1.00376ep-1 for this ratio; the root is 0x1.00376cp-1."""
    constants = PitchConstants.from_options(PitchOptions())
    # The ballasts are so large that the energy of the frames does not change their ratio.
    old, new = (np.array([float.fromhex(ballast)], np.float32) for ballast in ("0x1.006ee6p98", "0x1p100"))
    batch = PitchFrames(
        signal=signal_of(1, constants.span, quiet=False),
        starts=np.zeros(1, np.int64),
        lengths=np.array([constants.span]),
        rows=np.array([0, 1]),
        first=0,
        shift=40,
        ballast=np.zeros(1, np.float32),
        revised=(old, new),
        groups=np.zeros(1, np.uint8),
        frame_counts=np.array([1]),
    )
    costs, lattice = np.zeros(constants.states, np.float32), Lattice.allocate(constants, 1)
    with computing(how):
        search.search_paths(constants, batch, 0, 1, costs, lattice, [])
    correlation = search.correlate_frames(constants, batch, slice(0, 1))[0]
    scale = np.array([float.fromhex("0x1.00376ep-1")], np.float32)
    local_costs = search.compute_local_costs(constants, correlation, scale, batch.groups[:1])[0]
    np.testing.assert_array_equal(costs, local_costs - local_costs.min())


@in_both_engines(
    lengths=st.lists(st.integers(0, 5000), min_size=1, max_size=5),
    changes=st.fixed_dictionaries(
        {
            "snip_edges": st.booleans(),
            "frames_per_chunk": st.sampled_from([0, 0, 3, 10]),
            "recompute_frame": st.sampled_from([0, 1, 4, 500]),
            "nccf_ballast_online": st.sampled_from([False, False, True]),
            "preemphasis_coefficient": st.sampled_from([0.0, 0.9]),
        }
    ),
    integers=st.booleans(),
)
def test_c_and_numpy_track_utterances_with_the_same_bits(
    options: PitchOptions, seed: int, lengths: list[int], changes: dict[str, Any], integers: bool
) -> None:
    options = dataclasses.replace(options, **changes)
    kind = np.int16 if integers else np.float32
    utterances = [signal_of(seed + i, n, quiet=i % 3 == 1).astype(kind) for i, n in enumerate(lengths)]
    expected = track(utterances, options, None)
    alone = [track([each], options, LEVELS[-1]) for each in utterances]
    np.testing.assert_array_equal(np.concatenate(alone), expected)
    for level in LEVELS:
        np.testing.assert_array_equal(track(utterances, options, level), expected)


@needs_c
@pytest.mark.parametrize("rows", [16, 100])
def test_long_audio_is_searched_in_parts_with_the_same_bits(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Paths never agree in digital silence.
    silence = np.concatenate([signal_of(1, 16000, quiet=False), np.zeros(16000 * 5, np.float32)])
    utterances = [
        signal_of(2, 24000, quiet=False),
        signal_of(3, 300, quiet=False),
        silence,
        signal_of(4, 9000, quiet=True),
    ]
    monkeypatch.setattr("kaldi_compat.pitch.tracker._MAX_FRAMES", 1 << 20)
    expected = track(utterances, PitchOptions(), LEVELS[-1])
    monkeypatch.setattr("kaldi_compat.pitch.tracker._MAX_FRAMES", rows)
    np.testing.assert_array_equal(track(utterances, PitchOptions(), LEVELS[-1]), expected)


@pytest.mark.parametrize("how", [*LEVELS[-1:], None])
def test_correlations_that_overflow_are_refused(how: str | None) -> None:
    for samples in (np.float32(1e18) * signal_of(2, 16000, quiet=False), np.full(16000, np.nan, np.float32)):
        with pytest.raises(AudioError, match=r"overflows|NaN or infinity"):
            track([samples], PitchOptions(), how)


@needs_c
@pytest.mark.parametrize(
    "options",
    [{"penalty_factor": float("nan")}, {"penalty_factor": float("inf")}, {"penalty_factor": -3e38},
     {"soft_min_f0": float("inf")}, {"soft_min_f0": float("nan")}],
)  # fmt: skip
def test_costs_that_are_no_numbers_give_the_states_of_numpy(options: dict[str, float]) -> None:
    """The lowest of NaNs was beyond the last state, and the search crashed."""
    utterances = [signal_of(5, 8000, quiet=False), signal_of(6, 4000, quiet=True)]
    expected = track(utterances, PitchOptions(**options), None)
    for how in LEVELS:
        np.testing.assert_array_equal(track(utterances, PitchOptions(**options), how), expected)


@pytest.mark.parametrize(("energy", "is_another"), [(1.0200, False), (1.0204, True), (0.9803, False), (0.9800, True)])
def test_energy_changes_by_more_than_a_hundredth_of_the_sum(energy: float, is_another: bool) -> None:
    """The tolerance of Kaldi's ``ApproxEqual``, in both engines."""
    constants = PitchConstants.from_options(PitchOptions())
    chunks = frames._Chunks(bounds=np.array([0, 2]), sample_counts=np.zeros(2, int), frame_counts=np.array([5, 10]))
    assert (frames._find_changes_of_ballast(np.array([1.0, energy]), chunks, constants) is not None) == is_another
    ones = torch.ones(1, 3)
    plain, scaled = (
        tensors.compute_search_nccf(ones, ones, ones[0, :1], torch.tensor([[each]]), ones[0, :1] > 0, constants)
        for each in (1.0, energy)
    )
    assert (not torch.equal(plain, scaled)) == is_another
