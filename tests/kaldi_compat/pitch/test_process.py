"""Features of a pitch track, against what Kaldi wrote and against plain loops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kaldiio
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kaldi_compat import FeatureError, KaldiRandom, OptionError, ProcessPitch, ProcessPitchOptions, process_pitch
from kaldi_compat.options.pitch import InterpolatePitchOptions, PitchOptions, SmoothPitchOptions
from kaldi_compat.pitch.interpolate import (
    InterpolationCounts,
    interpolate_linearly,
    interpolate_smoothly,
)
from kaldi_compat.pitch.online import Analysis, compute_first_pass_features
from kaldi_compat.pitch.process import compute_log_pitch, compute_pov_feature, estimate_probability_of_voicing
from kaldi_compat.pitch.smooth import smooth_pitch
from kaldi_compat.pitch.tracker import track_pitch
from kaldi_compat.programs.interpolate_pitch import main as interpolate_pitch
from kaldi_compat.programs.process_kaldi_pitch_feats import main as process_kaldi_pitch_feats
from kaldi_compat.programs.process_pitch_feats import main as process_pitch_feats
from tests.support.reference import ROOT, cases_of, flags_of, name_of, options_of

PROCESSING = [case for case in cases_of("pitch") if case["cmd"].startswith("process-kaldi-pitch-feats")]
TRACKS: dict[str, np.ndarray[Any, Any]] = dict(kaldiio.load_ark(str(ROOT / "inputs" / "pitch.ark")))


def random_track(frames: int, seed: int = 0) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    return np.stack((rng.uniform(-0.3, 1.02, frames), rng.uniform(60, 400, frames)), -1).astype(np.float32)


@pytest.mark.parametrize("case", PROCESSING, ids=name_of)
def test_tensors_have_kaldis_pitch_features(case: dict[str, Any]) -> None:
    flags, _ = flags_of(case)
    options = options_of(ProcessPitchOptions, flags)
    random = KaldiRandom()
    expected = dict(kaldiio.load_ark(str(ROOT / "expected" / "pitch" / case["id"] / "o.ark")))
    for key, track in TRACKS.items():
        ours = ProcessPitch(options)(torch.from_numpy(track.copy()), generator=random).numpy()
        np.testing.assert_allclose(ours, expected[key], atol=2e-6)


def test_logarithms_of_pitches_are_those_of_glibc() -> None:
    # Kaldi calls logf, which is not always the float32 number nearest to the logarithm.
    pitches = np.random.default_rng(0).uniform(50, 400, 20000).astype(np.float32)
    nearest = np.log(pitches.astype(np.float64)).astype(np.float32)
    ours = compute_log_pitch(pitches)
    assert 0 < np.count_nonzero(ours != nearest) < 200
    np.testing.assert_allclose(ours, nearest, rtol=1.2e-7)


def test_powers_of_correlations_are_those_of_the_c_library() -> None:
    """C++ computed the expected numbers. With AVX-512, the operator ** of NumPy gives other digits."""
    correlations = np.array([0.000100021738, 0.000133436508, 0.00010068711], np.float32)
    expected = np.array([-3.26070526e-09, -5.01554723e-06, -1.03066498e-07], np.float32)
    assert compute_pov_feature(correlations).tolist() == expected.tolist()


def test_kaldis_features_of_the_first_pass() -> None:
    # Every 17th frame of speech16k_b, written by Kaldi 5.5.
    expected = [
        [-0.82488, 0.03488, -0.08808, 5.52264],
        [-0.34607, -0.02367, -0.08932, 5.46278],
        [-0.8262, -0.01397, -0.03644, 5.46278],
        [-0.05226, -0.05535, 0.06675, 5.43286],
        [-0.27498, -0.15067, 0.06356, 5.36802],
        [-0.04776, -0.17428, 0.00005, 5.34308],
        [-1.3455, -0.16801, -0.02222, 5.31316],
        [-0.13312, -0.0456, 0.04251, 5.34308],
    ]
    tracking = PitchOptions(
        frames_per_chunk=4, simulate_first_pass_online=True, max_frames_latency=20, recompute_frame=50
    )
    processing = ProcessPitchOptions(delay=3, normalization_right_context=5, add_raw_log_pitch=True)
    samples = kaldiio.load_mat(str(ROOT / "inputs" / "wav" / "speech16k_b.wav"))[1].astype(np.float32)
    features = compute_first_pass_features(Analysis.from_audio(samples, tracking), tracking, processing, KaldiRandom())
    assert features.shape == (121, 4)
    np.testing.assert_allclose(features[::17], expected, atol=2e-5)


def test_the_first_pass_over_one_chunk_is_the_last() -> None:
    samples = kaldiio.load_mat(str(ROOT / "inputs" / "wav" / "speech16k_b.wav"))[1].astype(np.float32)
    tracking = PitchOptions(frames_per_chunk=10000, simulate_first_pass_online=True)
    expected = process_pitch(track_pitch(samples), generator=KaldiRandom())
    ours = compute_first_pass_features(
        Analysis.from_audio(samples, tracking), tracking, ProcessPitchOptions(), KaldiRandom()
    )
    np.testing.assert_allclose(ours, expected, atol=1e-6)


@settings(max_examples=30, deadline=None)
@given(
    frames=st.integers(1, 60),
    options=st.builds(
        ProcessPitchOptions,
        normalization_left_context=st.integers(0, 30),
        normalization_right_context=st.integers(0, 30),
        delay=st.integers(0, 70),
        delta_window=st.integers(1, 6),
        add_raw_log_pitch=st.just(True),
        delta_pitch_noise_stddev=st.just(0.0),
    ),
)
def test_processed_pitch_equals_the_formulas_frame_by_frame(frames: int, options: ProcessPitchOptions) -> None:
    left, right = options.normalization_left_context, options.normalization_right_context
    delay, window = options.delay, options.delta_window
    track = random_track(frames, seed=frames).astype(np.float64)
    logs = np.log(track[:, 1])
    weights = estimate_probability_of_voicing(track[:, 0])
    rows = []
    for t in [max(0, t - delay) for t in range(frames + delay)]:
        around = slice(max(0, t - left), t + right + 1)
        mean = np.sum(weights[around] * logs[around]) / np.sum(weights[around])
        ahead = [k * (logs[min(t + k, frames - 1)] - logs[max(t - k, 0)]) for k in range(1, window + 1)]
        slope = sum(ahead) / (2 * sum(k * k for k in range(1, window + 1)))
        nccf = np.clip(track[t, 0], -1, 1)
        rows.append([2 * ((1.0001 - nccf) ** 0.15 - 1), 2 * (logs[t] - mean), 10 * slope, logs[t]])
    np.testing.assert_allclose(process_pitch(track, options), rows, atol=1e-6)


def test_batches_with_lengths() -> None:
    tracks = [torch.from_numpy(random_track(frames)) for frames in (50, 7, 1, 0)]
    batch = torch.nn.utils.rnn.pad_sequence(tracks, batch_first=True, padding_value=float("nan"))
    lengths = torch.tensor([50, 7, 1, 0])
    module = ProcessPitch(delta_pitch_noise_stddev=0.0, delay=2)
    features, counts = module(batch, lengths)
    assert counts.tolist() == [52, 9, 3, 0]
    for row, count, track in zip(features, counts.tolist(), tracks, strict=True):
        torch.testing.assert_close(row[:count], module(track), rtol=0, atol=1e-6)
        assert not row[count:].any()


def test_noise_comes_from_the_generator_given() -> None:
    track = torch.from_numpy(random_track(20000))
    module = ProcessPitch(delta_pitch_noise_stddev=0.5)
    first, again = (module(track, generator=torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(first, again)
    quiet = ProcessPitch(delta_pitch_noise_stddev=0.0)(track)
    noise = (first - quiet)[:, 2] / 10
    assert abs(float(noise.std()) - 0.5) < 0.01
    assert torch.equal(first[:, :2], quiet[:, :2])
    numpy_noise = process_pitch(track.numpy(), module.options, generator=np.random.default_rng(1))[:, 2] / 10
    assert abs(float(np.std(numpy_noise - quiet.numpy()[:, 2] / 10)) - 0.5) < 0.01


@pytest.mark.parametrize("features", [np.ones((3, 3), np.float32), np.zeros((3, 2), np.float32), np.ones(3)])
def test_features_that_are_not_a_track_are_refused(features: np.ndarray[Any, Any]) -> None:
    with pytest.raises(FeatureError):
        process_pitch(features)


def test_invalid_options_are_refused() -> None:
    with pytest.raises(OptionError, match="no pitch feature is chosen"):
        ProcessPitchOptions(add_pov_feature=False, add_normalized_log_pitch=False, add_delta_pitch=False)
    with pytest.raises(OptionError, match="delta_window"):
        ProcessPitchOptions(delta_window=0)
    with pytest.raises(OptionError, match="odd"):
        SmoothPitchOptions(average_window_size=4)
    with pytest.raises(OptionError, match="max_pitch_change"):
        InterpolatePitchOptions(pitch_interval=6.0)
    assert InterpolatePitchOptions(pitch_interval=6.0, linear_interpolation=True).pitch_interval == 6


GAPS = np.array(
    [[0.9, 0], [0.8, 110], [0.95, 112], [0.1, 0], [0.05, 0], [0.7, 150], [0.9, 148.5], [0.2, 0]], np.float32
)
# What Kaldi 5.5 wrote for GAPS and then, its random numbers running on, for GAPS backwards.
INTERPOLATED = {
    "": (
        [150.63925, 152.42247, 150.8676, 150.80624, 150.35341, 149.20979, 148.65912, 146.92708],
        [147.45715, 147.13081, 149.43359, 147.57213, 145.9348, 145.02844, 145.45108, 146.7833],
    ),
    "--pitch-interval=2.5 --interpolator-factor=0.001": (
        [150.39954, 151.51404, 150.54225, 150.50391, 150.22089, 149.50612, 149.16194, 148.07944],
        [148.41072, 148.20676, 149.646, 148.48257, 147.45926, 146.89279, 147.15692, 147.98956],
    ),
    "--linear-interpolation=true": (
        [104.5, 110.0, 112.0, 124.66667, 137.33333, 150.0, 148.5, 141.075],
        [141.075, 148.5, 150.0, 137.33333, 124.66667, 112.0, 110.0, 104.5],
    ),
}


@pytest.mark.parametrize("flags", INTERPOLATED)
def test_kaldis_interpolation(flags: str, tmp_path: Path) -> None:
    kaldiio.save_ark(
        str(tmp_path / "in.ark"), {"a": GAPS, "b": GAPS[::-1].copy(), "none": np.zeros((0, 0), np.float32)}
    )
    assert interpolate_pitch([*flags.split(), f"ark:{tmp_path}/in.ark", f"ark:{tmp_path}/out.ark"]) == 0
    ours = dict(kaldiio.load_ark(str(tmp_path / "out.ark")))
    assert list(ours) == ["a", "b"]
    for key, expected, given_track in zip("ab", INTERPOLATED[flags], (GAPS, GAPS[::-1]), strict=True):
        np.testing.assert_allclose(ours[key][:, 1], expected, atol=2e-5)
        np.testing.assert_array_equal(ours[key][:, 0], given_track[:, 0])


def wandering(start: int, frames: int = 1500) -> np.ndarray[Any, Any]:
    """A pitch with gaps of a hundred frames."""
    t = np.arange(start, start + frames)
    pitch = np.rint(170 + 50 * np.sin(t / 90.0) + 30 * np.sin(t / 17.0))
    pitch[np.sin(t / 131.0) + np.sin(t / 37.3) <= 0.9] = 0
    return np.stack((np.abs(np.sin(t / 5.0)).round(2), pitch), -1).astype(np.float32)


# Every 147th frame, from the 30th on, of what Kaldi 5.5 wrote: in these gaps the last bit of a float decides.
IN_LONG_GAPS: dict[int, list[float]] = {
    72000: [235.948, 216.433, 220.006, 216.397, 203.414, 150.715, 146.886, 132.154, 118.805, 93.824],
    159000: [180.948, 205.433, 129.006, 145.397, 132.414, 139.715, 139.886, 149.154, 143.805, 150.824],
}


@pytest.mark.parametrize("start", IN_LONG_GAPS)
def test_kaldis_interpolation_in_long_gaps(start: int) -> None:
    np.testing.assert_allclose(interpolate_smoothly(wandering(start))[30::147, 1], IN_LONG_GAPS[start], atol=6e-4)


def test_interpolation_counts_what_it_did() -> None:
    counts = InterpolationCounts()
    smooth = interpolate_smoothly(GAPS, counts=counts)
    assert counts.frames == 8
    assert counts.gaps >= 4
    assert counts.gaps + counts.changed <= 8
    assert (smooth[:, 1] > 100).all()


def test_a_track_without_any_pitch() -> None:
    silent = np.zeros((9, 2), np.float32)
    np.testing.assert_array_equal(interpolate_linearly(silent)[:, 1], np.ones(9))
    assert (np.abs(interpolate_smoothly(silent)[:, 1] - 104) < 8).all()


def test_linear_interpolation_copies_other_columns() -> None:
    with_third = np.column_stack((GAPS, np.arange(len(GAPS)))).astype(np.float32)
    expected = np.column_stack((interpolate_linearly(GAPS), np.arange(len(GAPS))))
    np.testing.assert_array_equal(interpolate_linearly(with_third), expected)


def test_pitch_that_is_surely_voiced_is_followed() -> None:
    pitch = np.linspace(100, 160, 40)
    track = np.stack((np.ones(40), pitch), -1).astype(np.float32)
    smooth = interpolate_smoothly(track, InterpolatePitchOptions(max_voicing_prob=1.0, interpolator_factor=1e-20))
    assert np.abs(smooth[:, 1] - pitch).max() <= 2.1  # half of the grid's interval


SMOOTHED_INPUT = np.array(
    [[0.5, 100], [0.25, 104], [0.75, 98], [1.0, 110], [0.0, 130], [0.6, 128], [0.9, 90]], np.float32
)
# What Kaldi 5.5 wrote: the log odds are the same, the log pitch depends on the windows.
LOG_ODDS = [0.0, -1.0983456, 1.0983456, 9.2104406, -9.2104406, 0.4053819, 2.196336]
SMOOTHED = {
    "": [-0.0740275, -0.0348067, 0.001311, 0.050683, 0.0217668, 0.1728325, -0.1793881],
    "--normalization-window-size=3 --average-window-size=3": [
        *[-0.0063396, -0.0291518, -0.0496043, -0.0179836, 0.0574284, 0.0000002, -0.2399817]
    ],
}


@pytest.mark.parametrize("flags", SMOOTHED)
def test_kaldis_smoothing(flags: str, tmp_path: Path) -> None:
    kaldiio.save_ark(str(tmp_path / "in.ark"), {"a": SMOOTHED_INPUT, "none": np.zeros((0, 0), np.float32)})
    assert process_pitch_feats([*flags.split(), f"ark:{tmp_path}/in.ark", f"ark:{tmp_path}/out.ark"]) == 0
    ((_, ours),) = kaldiio.load_ark(str(tmp_path / "out.ark"))
    np.testing.assert_allclose(ours[:, 0], LOG_ODDS, atol=2e-6)
    np.testing.assert_allclose(ours[:, 1], SMOOTHED[flags], atol=2e-7)


@settings(max_examples=40, deadline=None)
@given(frames=st.integers(1, 80), window=st.integers(0, 20), average=st.integers(0, 6))
def test_moving_means_frame_by_frame(frames: int, window: int, average: int) -> None:
    size, half, around = 2 * window + 1, window, average
    track = np.stack((np.full(frames, 0.5), random_track(frames)[:, 1]), -1).astype(np.float64)
    logs = np.log(track[:, 1])
    total, count = logs[:size].sum(), min(size, frames)
    level = []
    for t in range(frames):
        # Kaldi lets the value after next in, in place of the oldest one.
        if frames > size and t > half and t + half + 1 < frames:
            total += logs[t + half + 1] - logs[t - half - 1]
        level.append(logs[t] - total / count)
    expected = [
        np.mean(level[t - around : t + around + 1]) if around <= t < frames - around else level[t]
        for t in range(frames)
    ]
    options = SmoothPitchOptions(normalization_window_size=size, average_window_size=2 * average + 1)
    np.testing.assert_allclose(smooth_pitch(track, options)[:, 1], expected, atol=1e-5)


def test_a_track_without_frames_or_columns() -> None:
    assert smooth_pitch(np.zeros((0, 2), np.float32)).shape == (0, 2)
    for process in (smooth_pitch, interpolate_linearly, interpolate_smoothly):
        with pytest.raises(FeatureError, match="probability of voicing and pitch, not the shape"):
            process(np.ones(3, np.float32))


@pytest.mark.parametrize(
    ("program", "track", "says"),
    [
        (process_kaldi_pitch_feats, np.ones((2, 13), np.float32), "two columns"),
        (process_kaldi_pitch_feats, np.zeros((2, 2), np.float32), "no logarithm"),
        (process_pitch_feats, np.full((2, 2), 7, np.float32), "probability of voicing"),
        (process_pitch_feats, np.zeros((2, 2), np.float32), "interpolate-pitch"),
        (interpolate_pitch, np.ones((2, 3), np.float32), "and pitch, not"),
        (interpolate_pitch, np.full((2, 2), -1, np.float32), "negative"),
    ],
)
def test_a_wrong_input_is_one_line_with_its_key(
    program: Any, track: np.ndarray[Any, Any], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kaldiio.save_ark(str(tmp_path / "in.ark"), {"utt7": track})
    assert program([f"ark:{tmp_path}/in.ark", f"ark:{tmp_path}/out.ark"]) == 255
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("ERROR")]
    assert len(errors) == 1
    assert "utt7" in errors[0]
    assert says in errors[0]


@pytest.mark.parametrize(
    ("left", "right", "kaldis"),
    [
        (-1, 5, [0.002526283, 0.00405407, 0.007666588, 0.06898308, 0.06342506, 0.05601025]),
        (5, -1, [np.nan, 0, 0, 0, 0, -0.009975433]),
        (-1, -1, [np.nan, np.nan, np.nan, 0, 0, 0.00220871]),
    ],
)
def test_windows_that_leave_the_frame_out_are_kaldis(left: int, right: int, kaldis: list[float]) -> None:
    options = ProcessPitchOptions(
        add_pov_feature=False,
        add_delta_pitch=False,
        normalization_left_context=left,
        normalization_right_context=right,
    )
    track = dict(kaldiio.load_ark(str(ROOT / "inputs" / "pitch.ark")))["speech16k"]
    np.testing.assert_allclose(process_pitch(track, options)[:6, 0], kaldis, rtol=1e-6)


@pytest.mark.parametrize("name", ["normalization_left_context", "normalization_right_context"])
def test_windows_that_kaldi_aborts_on_are_refused(name: str) -> None:
    with pytest.raises(OptionError, match=name):
        ProcessPitchOptions(**{name: -2})  # type: ignore[arg-type]
