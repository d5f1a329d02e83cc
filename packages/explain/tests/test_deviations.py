"""Places where an array differs from features: what explain says of them is verified, or left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import io_ark
from kaldi_compat import FeatureError
from kaldi_compat.numpy import Fbank
from kaldi_explain.arrangements import find_storage
from kaldi_explain.deviations import Comparison, Deviations, find_deviations
from kaldi_explain.explanation import explain
from kaldi_explain.fits import NUMBER_WORDS, describe_limits, find_simplest_map, measure_residual

ROOT = Path(__file__).parents[3]
SAMPLES = io_ark.load(ROOT / "reference_data" / "inputs" / "wav" / "speech16k_b.wav").samples[0]
FBANK = Fbank(num_mel_bins=40, dither=0.0)(SAMPLES).astype(np.float64)
NOISE = np.random.default_rng(0).normal(8, 3, (100, 20))


def compared(values: Any, features: Any = NOISE, **changes: Any) -> Deviations:
    """Return the deviations of an array from features that begin with its first frame."""
    count, dim = values.shape
    features = np.asarray(features)
    given: dict[str, Any] = {
        "values": values, "features": features, "shift": 0, "slope": np.ones(dim), "offset": np.zeros(dim),
        "tolerance": 1e-3, "step": 0.0, "ignored": np.zeros((count, dim), bool), "padding": np.zeros(count, bool),
        "first_frame": 0, "first_column": 0,
    }  # fmt: skip
    return find_deviations(Comparison(**{**given, **changes}))


def changed(place: Any, value: Any) -> Any:
    """Return the features with a value at a place."""
    array = NOISE.copy()
    array[place] = value
    return array


ORDER = [*range(30), 31, 30, *range(32, 100)]
VERIFIED: dict[str, tuple[Any, str]] = {
    "repeated frame": (changed(30, NOISE[29]), "frame 30 repeats frame 29"),
    "frame from elsewhere": (changed(30, NOISE[80]), "frame 30 repeats frame 80"),
    "block of one frame": (changed(slice(30, 34), NOISE[29]), "frames 30 to 33 repeat frame 29"),
    "copied block": (changed(slice(30, 34), NOISE[70:74]), "frames 30 to 33 repeat frames 70 to 73"),
    "swapped frames": (NOISE[ORDER], "frames 30 and 31 swapped"),
    "zeros": (changed(30, 0.0), "frame 30 masked with 0"),
    "scalar mean": (changed(slice(30, 33), NOISE.mean()), f"frames 30 to 32 masked with {NOISE.mean():g}"),
    "mean of columns": (changed(30, NOISE.mean(0)), "frame 30 masked with the mean of each column"),
    "frame plus a number": (changed(30, NOISE[30] + 1), "frame 30 plus 1"),
    "repeated column": (changed(np.s_[:, 4], NOISE[:, 3]), "column 4 repeats column 3"),
    "masked column": (changed(np.s_[:, 4], 0.0), "column 4 masked with 0"),
    "column minus a number": (changed(np.s_[:, 4], NOISE[:, 4] - 2), "column 4 minus 2"),
}


@pytest.mark.parametrize(("count", "remark"), [(5, "1 more copy of frames"), (6, "2 more copies of frames")])
def test_copies_above_the_limit_are_counted(count: int, remark: str) -> None:
    frames = 10 * np.arange(1, count + 1)
    assert compared(changed(frames, NOISE[frames - 1])).reasons[4:] == [remark]


@pytest.mark.parametrize("name", VERIFIED)
def test_frame_or_column_that_a_rule_gives_is_named_by_the_rule(name: str) -> None:
    array, words = VERIFIED[name]
    found = compared(array)
    assert found.reasons == [words]
    assert not found.unexplained


LEFT: dict[str, tuple[Any, str]] = {
    "one value": (changed((30, 4), NOISE[30, 4] + 1), "1 value (frame 30, column 4)"),
    "two values": (changed(([30, 60], [4, 5]), 99.0), "2 values (frame 30, column 4; frame 60, column 5)"),
    "other frame": (changed(30, NOISE[30, ::-1]), "frame 30"),
    "block of an other frame": (changed(slice(30, 33), NOISE[30, ::-1]), "frames 30 to 32"),
    "other column": (changed(np.s_[:, 4], NOISE[::-1, 4]), "column 4"),
}


@pytest.mark.parametrize("name", LEFT)
def test_difference_without_a_rule_is_left(name: str) -> None:
    array, words = LEFT[name]
    found = compared(array)
    assert found.unexplained == [words]
    assert not found.reasons


def test_frames_left_out_and_inserted_are_named_with_their_place() -> None:
    dropped = compared(np.delete(NOISE, 70, 0))
    assert dropped.reasons == ["1 frame left out before frame 70"] and not dropped.unexplained
    assert dropped.edge_shifts == (0, 1)
    early = compared(np.delete(NOISE, 20, 0), shift=1)
    assert early.reasons == ["1 frame left out before frame 20"] and early.edge_shifts == (-1, 0)
    inserted = compared(np.insert(NOISE, 70, NOISE[70], 0)[:100])
    assert inserted.reasons == ["1 frame inserted before frame 71"] and not inserted.unexplained


def test_mask_before_a_normalization_is_named() -> None:
    slope, offset = np.linspace(0.5, 2, 20), np.sin(np.arange(20))
    found = compared(changed(30, 0.0) * slope + offset, NOISE * slope + offset, slope=slope, offset=offset)
    assert found.reasons == ["frame 30 masked with 0 before that"] and not found.unexplained


def test_array_of_other_frames_is_left_as_a_whole() -> None:
    assert compared(NOISE[::-1]).unexplained == ["most frames"]


@pytest.mark.parametrize("change, words", [
    (lambda array: np.where(np.arange(len(array))[:, None] == 60, array[59], array), "; frame 60 repeats frame 59:"),
    (lambda array: np.where(np.arange(len(array))[:, None] == 60, 0, array), "; frame 60 masked with 0:"),
    (lambda array: array + 0.02 * (np.arange(array.size) == 2404).reshape(array.shape),
     "largest difference 0.02, more than 0.001 in 1 value (frame 60, column 4)"),
    (lambda array: np.minimum(array, 20), "; clipped to at most 20:"),
])  # fmt: skip
def test_explanation_names_what_was_changed(change: Callable[[Any], Any], words: str) -> None:
    found = explain(change(FBANK), SAMPLES, 16000)
    assert found.is_exact and words in str(found), str(found)
    assert "masked" not in str(found) or "masked" in words


@pytest.mark.costly
def test_changed_value_is_named_and_the_options_are_facts() -> None:
    array = FBANK.copy()
    array[60, 4] += 1
    found = explain(array, SAMPLES, 16000)
    assert found.verdict == "partly" and found.is_certain
    assert str(found) == ("partly explained: fbank(num_mel_bins=40); left: 1 value (frame 60, column 4): "
                          "largest difference 1 in frame 60, column 4")  # fmt: skip


@pytest.mark.parametrize("quantize", [
    lambda array: np.clip(array * 10, 0, 255).astype(np.uint8),
    pytest.param(lambda array: np.clip(array * 12 - 100, -128, 127).astype(np.int8), marks=pytest.mark.slow),
])  # fmt: skip
def test_explanation_of_clipped_integers_gives_them_within_their_rounding(quantize: Callable[[Any], Any]) -> None:
    array = quantize(FBANK)
    found = explain(array, SAMPLES, 16000)
    assert found.is_exact and "clipped to" in str(found), str(found)
    assert "samples times" not in str(found) and "a floor" not in str(found), str(found)
    assert np.abs(found.computed - array).max() <= 1.5


def test_outliers_of_rounded_numbers_are_not_thirty_steps() -> None:
    first, second = np.zeros((100, 20)), np.full((100, 20), 0.5)
    second[3, 4] = 10.0
    assert measure_residual(first, np.full((100, 20), 0.5), step=0.5) == 0
    assert measure_residual(first, second, step=0.5) > 0.3


@pytest.mark.parametrize("low, high", [(-np.inf, 12.0), (5.0, np.inf), (5.0, 12.0)])
def test_limits_of_an_array_are_named_beside_its_map(low: float, high: float) -> None:
    fit = find_simplest_map(NOISE, np.clip(NOISE / np.log(10), low / 2.5, high / 2.5), 1e-3)
    assert fit.name.startswith("logarithms to base 10; clipped to ")
    assert (f"at least {low / 2.5:g}" in fit.name) == np.isfinite(low)
    assert (f"at most {high / 2.5:g}" in fit.name) == np.isfinite(high)
    assert fit.residual < 1e-9


@pytest.mark.parametrize("span, is_named", [(80.0, True), (79.0, False)])
def test_lower_limit_of_80_db_below_the_maximum_is_named(span: float, is_named: bool) -> None:
    powers = 10 * NOISE / np.log(10)
    fit = find_simplest_map(NOISE, np.maximum(powers, powers.max() - span), 1e-3)
    assert fit.name.startswith("decibels (10 log10); clipped to at least "), fit.name
    assert fit.name.endswith(", 80 dB below the maximum") == is_named


@pytest.mark.filterwarnings("error")
def test_limit_of_equal_values_is_named_without_a_warning() -> None:
    limits = describe_limits((-1.0, np.inf), np.arange(5.0), np.full(5, -2.0), 1e-3)
    assert limits == "clipped to at least -1"


def test_whispers_map_is_named_for_samples_on_either_scale() -> None:
    for shift, samples, words in (0.0, "", 1), (2 * np.log(32768), ", of samples in -1 to 1", NUMBER_WORDS):
        fit = find_simplest_map(NOISE, (NOISE - shift) / np.log(10) / 4 + 1, 1e-6)
        assert fit.name == f"(x + 4) / 4 of logarithms to base 10, as in Whisper{samples}"
        assert fit.word_count == words


def test_few_changed_columns_are_not_called_a_number_for_each_column() -> None:
    fit = find_simplest_map(NOISE, changed(np.s_[:, 4], NOISE[:, 4] + 1), 1e-3)
    assert fit.name == ""


def test_integers_rounded_toward_zero_are_told_from_others() -> None:
    rounded = find_storage(np.trunc(4 * (NOISE - 8)))
    assert rounded.words == ["rounded toward zero to integers (by up to 1)"]
    assert np.abs(rounded.values - 4 * (NOISE - 8)).max() <= 1
    assert find_storage(np.rint(4 * (NOISE - 8))).words == ["rounded to integers (by up to 0.5)"]


def test_integers_that_are_not_negative_count_as_rounded_to_nearest() -> None:
    """Integers of one sign do not show whether they were rounded toward zero."""
    integers = np.rint(4 * (NOISE - NOISE.min()))
    rounded = find_storage(integers)
    assert rounded.words == ["rounded to integers (by up to 0.5)"]
    np.testing.assert_array_equal(rounded.values, integers)


def test_place_of_nan_is_named() -> None:
    with pytest.raises(FeatureError, match=r"NaN or infinity in 1 value \(frame 60, column 4\)"):
        explain(np.where(np.arange(FBANK.size).reshape(FBANK.shape) == 2404, np.nan, FBANK), SAMPLES, 16000)


@pytest.mark.slow
def test_options_that_were_not_verified_are_called_guesses() -> None:
    noise = np.random.default_rng(0).normal(size=FBANK.shape)
    found = explain(FBANK + 0.1 * FBANK.std() * noise, SAMPLES, 16000)
    assert not found.is_certain and "the options and steps are guesses" in str(found), str(found)
