"""Equal error rate and detection cost, compared with Kaldi's compute-eer and compute_min_dcf.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from kaldi_compat import eer, min_dcf
from kaldi_compat.errors import OptionError

REFERENCE = Path(__file__).parents[3] / "reference_data"


def scored_trials(case: str) -> tuple[list[float], list[str]]:
    """Return the scores that Kaldi's program wrote, and the labels of their trials."""
    trials = [line.split() for line in (REFERENCE / "inputs" / "speakers" / "trials").read_text().splitlines()]
    labels = {(speaker, utterance): label for speaker, utterance, label in trials}
    scores = [line.split() for line in (REFERENCE / "expected" / "speakers" / case / "scores").read_text().splitlines()]
    return [float(score) for *_, score in scores], [labels[speaker, utterance] for speaker, utterance, _ in scores]


# The numbers are the output of Kaldi's compute-eer, and of compute_min_dcf.py with --c-miss 2, for these scores.
@pytest.mark.parametrize(
    ("case", "percent", "costs"),
    [("024", 7.143, (0.3571, 0.2071, 0.0643)), ("025", 0, (0, 0, 0)), ("034", 28.57, (0.7143, 0.7143, 0.4091))],
)
def test_rates_are_those_of_kaldi(case: str, percent: float, costs: tuple[float, ...]) -> None:
    scores, labels = scored_trials(case)
    assert float(f"{100 * eer(scores, labels):.4g}") == percent
    actual = [min_dcf(scores, labels, p_target=p_target, c_miss=2) for p_target in (0.01, 0.05, 0.5)]
    assert tuple(round(cost, 4) for cost in actual) == costs


@pytest.mark.parametrize(
    "labels",
    [
        [1, 1, 0, 0],
        [True, True, False, False],
        np.array([1.0, 1, 0, 0]),
        np.array(["target"] * 2 + ["nontarget"] * 2),
        *(np.array(labels, object) for labels in ([1, 1, 0, 0], [True, True, False, False])),
        np.array(["target"] * 2 + ["nontarget"] * 2, object),
    ],
)
def test_labels_are_truth_values_or_strings(labels: Any) -> None:
    scores = [2.0, 0.5, 1.0, -1.0]
    assert eer(scores, labels) == 0.5
    assert min_dcf(scores, labels, p_target=0.5) == 0.5


def test_cost_counts_a_trial_at_the_threshold_as_rejected() -> None:
    rng = np.random.default_rng(0)
    labels = rng.random(50) < 0.4
    scores = rng.standard_normal(50) + 1.5 * labels

    def cost(threshold: float) -> float:
        miss, alarm = (scores[labels] <= threshold).mean(), (scores[~labels] > threshold).mean()
        return float(3 * miss * 0.1 + 2 * alarm * 0.9) / min(3 * 0.1, 2 * 0.9)

    expected = min(map(cost, scores))
    assert min_dcf(scores, labels, p_target=0.1, c_miss=3, c_fa=2) == pytest.approx(expected, rel=1e-12)


def test_costs_of_numpy_are_multiplied_in_double_precision() -> None:
    scores, labels = [1.0, 2.0, 3.0, 4.0], [0, 1, 0, 1]
    tiny: Any = np.float32(1e-30)
    assert min_dcf(scores, labels, c_miss=tiny, p_target=tiny) == 0.5  # The product is zero in float32.


def test_rate_of_many_scores_is_the_crossing_of_the_error_rates() -> None:
    rng = np.random.default_rng(1)
    targets, nontargets = rng.normal(2, 1, 20000), rng.normal(0, 1, 30000)
    rate = eer(np.append(targets, nontargets), np.arange(50000) < 20000)
    assert rate == pytest.approx(0.1587, abs=0.005)  # Two normal distributions at a distance of 2 cross at 1.


@pytest.mark.parametrize(
    ("scores", "labels", "options", "message"),
    [
        ([1, 2], [1, 1], {}, "No non-target scores seen"),
        ([1, 2], ["nontarget", "nontarget"], {}, "No target scores seen"),
        ([], [], {}, "No target scores seen"),
        (["target", "nontarget"], [0.5, 0.1], {}, "a score is not a number: pass the scores first"),
        ([1, 2], [1, 0, 1], {}, r"must have the same shape \(trials,\), not \(2,\) and \(3,\): flatten them"),
        ([1, 2], [1, 2], {}, "invalid label .*2.*: use True and False, or 'target' and 'nontarget'"),
        ([1, 2], ["target", "nontrget"], {}, "invalid label .*'nontrget'"),
        ([1, 2], np.array([1, None]), {}, "invalid label None"),
        ([1, 2], np.array(["target", None]), {}, "invalid label None"),
        ([1.0, [2.0, 3.0]], [1, 0], {}, "scores and labels must be lists or arrays"),
        (torch.ones(2, requires_grad=True), [1, 0], {}, r"arrays of shape \(trials,\): .*Use tensor\.detach\(\)"),
        ([1, np.nan], [1, 0], {}, r"scores\[1\] is NaN: remove the trial"),
        ([None, 2], [1, 0], {}, r"scores\[0\] is NaN: remove the trial"),
        ([1, 2], [1, 0], {"c_miss": np.inf}, "c_miss and c_fa must be above 0 and finite, not inf and 1"),
        ([1, 2], [1, 0], {"c_miss": 10**400}, "c_miss must be a number below 1.8e308, not an integer of 1329 bits"),
        ([1, 2], [1, 0], {"c_fa": -(10**400)}, "c_fa must be a number below 1.8e308, not an integer of 1329 bits"),
        (
            [1, 2],
            [1, 0],
            {"p_target": 10**5000},
            "p_target must be a number below 1.8e308, not an integer of 16610 bits",
        ),
        ([1, 2], [1, 0], {"p_target": "0.1"}, "p_target must be a number, not '0.1'"),
        ([1, 2], [1, 0], {"c_miss": None}, "c_miss must be a number, not None"),
        ([1, 10**400], [1, 0], {}, "a score is an integer that is too large for a float"),
        ([1, 2], [1, 10**5000], {}, "invalid label an integer of 16610 bits"),
        ([1, 2j], [1, 0], {}, "a score is not a number"),
        ([1, 2], [1, 0], {"p_target": 1}, "p_target must be between 0 and 1, not 1"),
        ([1, 2], [1, 0], {"c_fa": 0}, "c_miss and c_fa must be above 0 and finite, not 1 and 0"),
        (
            [1, 2],
            [1, 0],
            {"c_miss": 1e-200, "p_target": 1e-200},
            "is too small: multiply both costs by the same number",
        ),
        ([1, 2], [1, 0], {"c_fa": 5e-324, "p_target": 0.9}, "is too small: multiply both costs by the same number"),
        (
            [1, 2],
            [1, 0],
            {"c_miss": 1e-160, "p_target": 1e-160},
            "is too small: multiply both costs by the same number",
        ),
    ],
)
def test_trials_without_a_rate_are_refused(scores: Any, labels: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        min_dcf(scores, labels, **options)
    if not options:
        with pytest.raises(OptionError, match=message):
            eer(scores, labels)


def test_equal_scores_of_both_kinds_do_not_separate_them() -> None:
    assert eer([1, 2, 1, 1], [1, 1, 0, 0]) == 0.5  # Kaldi's compute-eer prints 50.
