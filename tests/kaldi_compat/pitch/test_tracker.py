"""The pitch tracker against Kaldi's outputs and plain loops; batches, padding and chunks change nothing."""

from __future__ import annotations

import hashlib
import warnings
from typing import Any

import kaldiio
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from kaldi_compat import AudioError, FeatureError, OptionError, Pitch, PitchOptions, track_pitch
from kaldi_compat.pitch.constants import PitchConstants
from kaldi_compat.pitch.frames import PitchFrames, preemphasize_frames, split_into_frames
from kaldi_compat.pitch.online import Analysis, compute_first_pass_pitch
from kaldi_compat.pitch.search import Lattice, find_predecessors, trace_paths
from kaldi_compat.pitch.tracker import track_pitches
from kaldi_compat.torch.tensors.pitch_paths import find_cheapest_paths
from tests.support.processes import memory_below
from tests.support.reference import ROOT, audio, cases_of, flags_of, name_of, options_of

TRACKING = [case for case in cases_of("pitch") if case["cmd"].startswith("compute-kaldi-pitch-feats")]


def kaldis(case: dict[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    return dict(kaldiio.load_ark(str(ROOT / "expected" / "pitch" / case["id"] / "o.ark")))


def speech(name: str = "speech16k_b") -> np.ndarray[Any, Any]:
    return np.asarray(kaldiio.load_mat(str(ROOT / "inputs" / "wav" / f"{name}.wav"))[1]).astype(np.float32)


def voice(pitch: float, samples: int, rate: int = 16000) -> np.ndarray[Any, Any]:
    """Harmonics of one pitch, each weaker than the one below it."""
    time = np.arange(samples) / rate
    harmonics = [np.sin(2 * np.pi * k * pitch * time + k) / k for k in range(1, 5)]
    return (3000 * np.sum(harmonics, 0)).astype(np.float32)


@pytest.mark.parametrize("case", [case for case in TRACKING if "first-pass" not in case["cmd"]], ids=name_of)
def test_kaldis_pitch_in_torch_alone(case: dict[str, Any]) -> None:
    flags, arguments = flags_of(case)
    expected = kaldis(case)
    keys, _, samples = zip(*audio(arguments[0]), strict=True)
    batch = torch.nn.utils.rnn.pad_sequence(
        [torch.from_numpy(each[0].copy()) for each in samples], batch_first=True
    ).float()
    lengths = torch.tensor([each.shape[1] for each in samples])
    features, frames = Pitch(options_of(PitchOptions, flags))(batch.requires_grad_(), lengths)
    for key, track, count in zip(keys, features.detach().numpy(), frames.tolist(), strict=True):
        assert count == len(expected[key])
        assert not track[count:].any()
        if count:
            np.testing.assert_array_equal(track[:count, 1], expected[key][:, 1])
            np.testing.assert_allclose(track[:count, 0], expected[key][:, 0], atol=3e-6)


# Every ninth frame of speech16k_b with options that the stored set lacks, written by Kaldi 5.5 (the pitch, the NCCF).
ONLINE = {
    "--frames-per-chunk=3 --recompute-frame=40": (
        [250.294, 240.504, 226.532, 242.915, 229.947, 227.664, 227.664, 213.371, 215.51, 208.116, 213.371, 202.99],
        [0.97124, 0.46569, 0.8692, 0.9671, 0.96401, 0.23928, 0.9589, 0.96072, 0.53441, 0.51772, 0.96683, 0.99952],
    ),
    "--frames-per-chunk=10 --simulate-first-pass-online=true --max-frames-latency=30": (
        [250.294, 240.504, 226.532, 242.915, 229.947, 227.664, 227.664, 213.371, 216.588, 208.116, 213.371, 202.99],
        [0.97124, 0.46569, 0.8692, 0.9671, 0.96401, 0.23928, 0.9589, 0.96072, 0.54445, 0.51772, 0.96683, 0.99952],
    ),
    "--frames-per-chunk=5 --simulate-first-pass-online=true --max-frames-latency=300 --recompute-frame=60": (
        [250.294, 240.504, 226.532, 242.915, 229.947, 227.664, 227.664, 213.371, 215.51, 208.116, 213.371, 202.99],
        [0.97124, 0.46569, 0.8692, 0.9671, 0.96401, 0.23928, 0.9589, 0.96072, 0.53441, 0.51772, 0.96683, 0.99952],
    ),
    "--frames-per-chunk=4 --nccf-ballast-online=true --simulate-first-pass-online=true --max-frames-latency=10": (
        [250.294, 240.504, 226.532, 242.915, 229.947, 227.664, 227.664, 213.371, 217.671, 208.116, 213.371, 202.99],
        [0.97124, 0.46569, 0.8692, 0.9671, 0.96401, 0.23928, 0.9589, 0.96072, 0.54734, 0.51772, 0.96683, 0.99952],
    ),
    "--preemphasis-coefficient=0.97 --snip-edges=false": (
        [254.067, 240.504, 229.947, 244.129, 233.413, 227.664, 231.096, 214.438, 218.759, 213.371, 215.51, 206.051],
        [0.77312, 0.89628, 0.64365, 0.96136, 0.92035, 0.81564, 0.92739, 0.9654, 0.634, -0.05666, 0.93374, 0.89033],
    ),
    "--frames-per-chunk=1 --preemphasis-coefficient=0.5": (
        [250.294, 240.504, 226.532, 242.915, 229.947, 228.803, 227.664, 213.371, 216.588, 212.31, 213.371, 202.99],
        [0.97072, 0.38861, 0.85082, 0.95747, 0.95786, 0.35421, 0.95387, 0.95578, 0.669, 0.3587, 0.95684, 0.99867],
    ),
    # The filter is so long that no resampled audio is there when the first chunks have arrived.
    "--lowpass-cutoff=20 --frames-per-chunk=1": (
        [386.276, 386.276, 386.276, 386.276, 386.276, 388.207, 386.276, 386.276, 386.276, 386.276, 386.276, 386.276],
        [0.95676, 0.9673, 0.96595, 0.93235, 0.96023, 0.94428, 0.90249, 0.96694, 0.73388, 0.96518, 0.93794, 0.76405],
    ),
}


@pytest.mark.parametrize("flags", ONLINE)
def test_kaldis_pitch_with_other_options(flags: str) -> None:
    options = options_of(PitchOptions, flags_of({"cmd": f"compute-kaldi-pitch-feats {flags}"})[0])
    track = Pitch(options)(torch.from_numpy(speech())).numpy()
    pitch, correlation = ONLINE[flags]
    np.testing.assert_allclose(track[: 9 * len(pitch) : 9, 1], pitch, atol=6e-4)
    np.testing.assert_allclose(track[: 9 * len(pitch) : 9, 0], correlation, atol=2e-5)


@pytest.mark.parametrize("pitch", [60.0, 97.0, 150.0, 233.0, 390.0])
def test_pitch_of_a_voice_is_found(pitch: float) -> None:
    track = track_pitch(voice(pitch, 16000))
    inside = track[10:-10]
    np.testing.assert_allclose(inside[:, 1], pitch, rtol=0.0075)
    assert (inside[:, 0] > 0.9).all()


@settings(max_examples=100, deadline=None)
@given(
    costs=arrays(np.float32, st.integers(1, 120), elements=st.integers(0, 40).map(float)),
    factor=st.sampled_from([0.0, 2.0**-12, 0.0625, 0.25, 1.0, 16.0]),
)
def test_predecessors_cost_least(costs: np.ndarray[Any, Any], factor: float) -> None:
    # Whole numbers and powers of two: all sums are exact, and many are equal.
    costs = (costs * np.float32(factor / 4 or 1)).astype(np.float32)
    place = np.arange(len(costs))
    every = (costs + factor * (place[:, None] - place) ** 2.0).astype(np.float32)
    np.testing.assert_array_equal(every[place, find_predecessors(every)], every.min(1))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([1e-6, 0.01, 0.3, 2.0]), smooth=st.integers(1, 30))
def test_narrowing_bounds_finds_the_cheapest_predecessors(seed: int, scale: float, smooth: int) -> None:
    noise = np.random.default_rng(seed).normal(size=417 + smooth - 1)
    costs = np.convolve(noise, np.ones(smooth) / smooth, "valid").astype(np.float32)
    costs = np.float32(scale) * (costs - costs.min())
    place = np.arange(417)
    table = ((place[:, None] - place) ** 2).astype(np.float32) * np.float32(2.487557e-06) + costs
    is_lowest = table == table.min(1)[:, None]
    found = find_predecessors(table)
    assert is_lowest[place, found].all()


@pytest.mark.parametrize("factor", [2.487557e-06, 1e-3])
def test_paths_are_those_of_a_search_over_all_pairs(factor: float) -> None:
    rng, constants = np.random.default_rng(5), PitchConstants.from_options(PitchOptions(delta_pitch=0.02))
    states = constants.states
    expected_of = find_cheapest_paths(
        torch.from_numpy(local := rng.uniform(0, 0.05, size=(4, 30, states)).astype(np.float32)), factor
    )
    place = np.arange(states)
    steps = (place[:, None] - place).astype(np.float32) ** 2 * np.float32(factor)
    for row, expected in zip(local, expected_of.numpy(), strict=True):
        costs, found = np.zeros(states, np.float32), Lattice.allocate(constants, 30)
        for frame in range(30):
            by_way = steps + costs
            found.predecessors[frame] = find_predecessors(by_way)
            costs = by_way[place, found.predecessors[frame]] + row[frame]
            found.best[frame] = costs.argmin()
        found.groups[:], found.path[:], found.correlation[:] = 0, -1, 0
        trace_paths(constants, found, [30])
        np.testing.assert_array_equal(found.path, expected)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, 24000), min_size=1, max_size=8), st.integers(0, 2**16))
def test_an_utterance_is_the_same_in_any_company(lengths: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    long = np.concatenate([speech(), speech("speech16k"), speech("silence16k")])
    starts = [int(rng.integers(0, len(long) - length)) for length in lengths]
    utterances = [long[start : start + length] for start, length in zip(starts, lengths, strict=True)]
    together = dict(track_pitches(enumerate(utterances), PitchOptions()))
    assert list(together) == list(range(len(lengths)))
    for index, samples in enumerate(utterances):
        alone = track_pitch(samples)
        assert together[index].shape == alone.shape
        np.testing.assert_array_equal(together[index][:, 1:], alone[:, 1:])
        np.testing.assert_allclose(together[index][:, :1], alone[:, :1], atol=1e-6)


def test_utterances_come_in_order() -> None:
    rng = np.random.default_rng(0)
    lengths = [40000, *rng.integers(0, 3000, 150).tolist(), 20000]
    utterances = [rng.normal(0, 1000, length).astype(np.float32) for length in lengths]
    tracks = track_pitches(enumerate(utterances), PitchOptions())
    assert [key for key, _ in tracks] == list(range(len(lengths)))
    constants = PitchConstants.from_options(PitchOptions())
    assert [len(track) for _, track in tracks] == [constants.count_frames(length) for length in lengths]


@pytest.mark.parametrize("coefficient", [0.1, 0.7, 0.97])
def test_the_first_sample_is_scaled_in_double_precision(coefficient: float) -> None:
    """Kaldi's ``(*window)(0) *= (1.0 - preemph_coeff)`` rounds the product, but not the factor, to float32."""
    constants = PitchConstants.from_options(PitchOptions(preemphasis_coefficient=coefficient))
    signal = voice(100.0, constants.shift * 200 + constants.span)
    frames = preemphasize_frames(signal, 0, 200, constants).reshape(200, constants.span)
    factor = 1.0 - float(np.float32(coefficient))
    assert frames[:, 0].tolist() == [float(np.float32(float(x) * factor)) for x in signal[:: constants.shift][:200]]


@pytest.mark.parametrize("preemphasis", [0.0, 0.5])
def test_no_utterances_give_no_tracks(preemphasis: float) -> None:
    assert track_pitches([], preemphasis_coefficient=preemphasis) == []


def test_a_factor_on_the_audio_does_not_matter() -> None:
    np.testing.assert_array_equal(track_pitch(speech()), track_pitch(speech() / 32768))


def test_pitch_of_one_large_chunk_equals_the_whole() -> None:
    whole = track_pitch(speech())
    np.testing.assert_array_equal(track_pitch(speech(), PitchOptions(frames_per_chunk=1000)), whole)
    first_pass = PitchOptions(frames_per_chunk=1000, simulate_first_pass_online=True)
    np.testing.assert_array_equal(
        compute_first_pass_pitch(Analysis.from_audio(speech(), first_pass), first_pass), whole
    )


@settings(max_examples=20, deadline=None)
@given(
    samples=st.integers(0, 20000),
    options=st.builds(
        PitchOptions,
        frames_per_chunk=st.integers(0, 30),
        snip_edges=st.booleans(),
        nccf_ballast_online=st.booleans(),
        recompute_frame=st.integers(0, 60),
    ),
)
def test_each_frame_is_computed_once(samples: int, options: PitchOptions) -> None:
    constants = PitchConstants.from_options(options)
    frames = split_into_frames(np.ones(samples, np.int16), np.zeros(1, np.int64), np.array([samples]), constants)
    resampled = -(-samples // 4)
    assert len(frames.signal) == resampled
    assert (np.diff(frames.frame_counts) >= 0).all()
    assert frames.frame_counts[-1] == frames.rows[-1] == constants.count_frames(samples)
    assert len(frames.ballast) == len(frames.groups) == frames.rows[-1]
    if options.snip_edges:
        assert frames.rows[-1] == (0 if resampled < 100 else (resampled - 100) // 40 + 1)


@pytest.mark.parametrize("samples", [0, 1, 79, 160])
def test_audio_too_short_for_a_frame_has_none(samples: int) -> None:
    assert track_pitch(np.ones(samples, np.float32)).shape == (0, 2)
    assert Pitch()(torch.ones(3, samples)).shape == (3, 0, 2)
    assert Pitch()(torch.ones(samples)).shape == (0, 2)


def test_weights_near_a_zero_crossing_are_kaldis() -> None:
    """A C++ program computed ``sin(M_2PI * cutoff * t) / (M_PI * t)`` times the window with Kaldi's types."""
    options = PitchOptions(resample_frequency=2600.0, min_f0=40.625, max_f0=325.0, upsample_filter_width=6)
    assert PitchConstants.from_options(options).weights[8, 0] == float.fromhex("-0x1.126144p-34")


def test_rates_and_the_cutoff_are_rounded_to_float() -> None:
    """In C++, ``int(15999.9999f)`` is 16000, and ``2000.00001f * 2 <= 4000`` is true."""
    options = PitchOptions(sample_frequency=15999.9999, resample_frequency=3999.99999, lowpass_cutoff=2000.00001)
    constants = PitchConstants.from_options(options)
    assert (constants.rate_in, constants.rate_out, constants.lowpass) == (16000, 4000, (2000.0, 1))


@pytest.mark.parametrize(
    "changes",
    [
        {"lowpass_cutoff": 3000.0},
        {"min_f0": 400.0},
        {"frame_shift": 0.1},
        {"delta_pitch": 0.0},
        {"simulate_first_pass_online": True},
        {"frames_per_chunk": -1},
        {"upsample_filter_width": 0},
        {"max_f0": 2700.0},
        {"delta_pitch": 1e-5},
    ],
)
def test_invalid_options_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=next(iter(changes))):
        PitchOptions(**changes)


@pytest.mark.parametrize("samples", [torch.zeros(2, 2, 2), torch.zeros(9, dtype=torch.bool), [torch.zeros(2, 9)]])
def test_samples_of_a_wrong_shape_or_type(samples: Any) -> None:
    with pytest.raises(AudioError):
        Pitch()(samples)


def test_samples_must_be_numbers() -> None:
    with pytest.raises(AudioError, match="infinity"):
        track_pitch(np.full(4000, np.nan, np.float32))


def test_a_single_candidate_needs_no_search() -> None:
    track = track_pitch(speech(), PitchOptions(min_f0=200, max_f0=200.5))
    assert len(track) == 118
    np.testing.assert_allclose(track[:, 1], 200.5)


def test_a_tensor_gives_a_tensor() -> None:
    for dtype in (torch.float32, torch.float64, torch.int16):
        audio = torch.from_numpy(speech().copy()).to(dtype)
        track = track_pitch(audio.requires_grad_(dtype.is_floating_point))
        assert isinstance(track, torch.Tensor)
        np.testing.assert_array_equal(track.numpy(), track_pitch(audio.detach().numpy()))
    with pytest.raises(FeatureError, match="tensor"):
        track_pitch([1.0, 2.0])  # type: ignore[type-var]


def test_lengths_must_fit() -> None:
    with pytest.raises(AudioError, match="lengths"):
        Pitch()(torch.zeros(2, 9), torch.zeros(2))
    with pytest.raises(AudioError, match="one axis"):
        track_pitch(np.zeros((2, 9)))


def test_lags_are_spaced_by_delta_pitch_and_interpolated_without_bias() -> None:
    lags = PitchConstants.from_options(PitchOptions())
    np.testing.assert_allclose(lags.seconds[1:] / lags.seconds[:-1], 1.005, rtol=1e-6)
    assert lags.seconds[0] == np.float32(1 / 400)
    assert lags.seconds[-1] <= np.float32(1 / 50) < lags.seconds[-1] * 1.005
    tone = np.cos(2 * np.pi * 500 * np.arange(lags.first_lag, lags.first_lag + lags.lags) / 4000)
    np.testing.assert_allclose(tone @ lags.weights, np.cos(2 * np.pi * 500 * lags.seconds), atol=0.02)


@pytest.mark.parametrize("zeros", [2, 5])
def test_filter_of_a_state_has_the_lags_within_its_width(zeros: int) -> None:
    """Others have the weight 0, but decide the order of its sum."""
    constants = PitchConstants.from_options(PitchOptions(upsample_filter_width=zeros))
    for state, place in enumerate(constants.seconds * 4000 - constants.first_lag):
        inside = np.flatnonzero(np.abs(np.arange(constants.lags) - place) < zeros)
        found = constants.first[state] + np.arange(len(constants.get_state_weights(state)))
        near_edge = abs(place - round(place)) < 1e-3  # where rounding decides
        assert abs(found[0] - inside[0]) <= near_edge and abs(found[-1] - inside[-1]) <= near_edge


def test_ties_without_a_penalty_are_broken_as_in_kaldi() -> None:
    pitches = [track_pitch(samples[0], PitchOptions(penalty_factor=0.0))[:, 1] for _, _, samples in audio("main.scp")]
    # Of the pitches that Kaldi's compute-kaldi-pitch-feats --penalty-factor=0 writes for these recordings.
    digest = "f1269ca64f9085d7eece5eb59493c5feb40ab6cf5710a2ee0636651a676fe9bc"
    assert hashlib.sha256(np.concatenate(pitches).astype("<f4").tobytes()).hexdigest() == digest


def test_absurdly_loud_audio_has_a_pitch() -> None:
    options = PitchOptions(sample_frequency=8000.0, preemphasis_coefficient=99999.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ((_, _, samples),) = audio("tele.scp")
        track = track_pitch(samples[0], options)
    assert np.isfinite(track).all()
    assert len(track) == 148


@pytest.mark.parametrize(
    "changes",
    [{"min_f0": 0.0}, {"min_f0": 1e-5}, {"min_f0": 1e-3}, {"delta_pitch": 0.0}, {"delta_pitch": 1e-30}],
)
def test_options_with_a_table_of_lags_beyond_memory_are_refused_at_once(changes: dict[str, Any]) -> None:
    with memory_below(10e6), pytest.raises(OptionError, match=next(iter(changes))):
        track_pitch(speech(), PitchOptions(**changes))


def test_ballast_is_revised_with_the_chunk_that_reaches_recompute_frame() -> None:
    samples = (np.linspace(0, 9000, 24000) * np.sin(np.arange(24000) / 13)).astype(np.float32)
    counts = _split(samples, PitchOptions(frames_per_chunk=20)).frame_counts
    first_ballasts = []
    for chunk in (1, 2):
        at_end = PitchOptions(frames_per_chunk=20, recompute_frame=int(counts[chunk]))
        at_start = PitchOptions(frames_per_chunk=20, recompute_frame=int(counts[chunk - 1]) + 1)
        later, earlier = (_split(samples, options).revised for options in (at_end, at_start))
        assert later is not None and earlier is not None
        assert np.array_equal(later[1][: at_start.recompute_frame], earlier[1][: at_start.recompute_frame])
        first_ballasts.append(later[1][0])
    assert first_ballasts[0] < first_ballasts[1]  # The audio becomes louder.


def _split(samples: np.ndarray[Any, Any], options: PitchOptions) -> PitchFrames:
    constants = PitchConstants.from_options(options)
    return split_into_frames(samples, np.zeros(1, np.int64), np.array([len(samples)]), constants)
