"""Error rates of detection, such as speaker verification.

Sources: Kaldi's ``src/ivectorbin/compute-eer.cc`` and ``egs/sre08/v1/sid/compute_min_dcf.py``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from io_ark.text import quote_value
from kaldi_compat.errors import OptionError
from kaldi_compat.options.base import convert_number

Scores = npt.NDArray[Any]
Labels = Sequence[Any] | npt.NDArray[Any]


def eer(scores: npt.ArrayLike, labels: Labels) -> float:
    """Return the equal error rate, like Kaldi's ``compute-eer``, but as a proportion between 0 and 1.

    The rate is the share of target trials that score below the threshold at which this share equals the share of
    nontarget trials above the threshold. Kaldi does not interpolate between scores.

    Args:
        scores: (trials,): larger scores mean "target".
        labels: (trials,): True, 1 or "target" for target trials, and False, 0 or "nontarget" for nontarget trials.

    Raises:
        OptionError: the shapes differ, a label is invalid, a score is NaN, or all trials are of one kind.

    >>> from kaldi_compat import eer
    >>> eer([3.1, 2.0, 0.2, 0.5, -1.0, -2.0], ["target"] * 3 + ["nontarget"] * 3)
    0.3333333333333333
    """
    values, is_target = _parse_trials_without_nan(scores, labels)
    return compute_equal_error_rate(np.sort(values[is_target]), np.sort(values[~is_target]))[0]


def min_dcf(
    scores: npt.ArrayLike, labels: Labels, *, p_target: float = 0.01, c_miss: float = 1.0, c_fa: float = 1.0
) -> float:
    """Return the minimum of the normalized detection cost, like Kaldi's ``sid/compute_min_dcf.py``.

    The cost at a threshold is ``c_miss * P_miss * p_target + c_fa * P_fa * (1 - p_target)``, divided by the cost of the
    better of the two systems that accept all trials or none. The trials are sorted by score, and the threshold is tried
    after each trial: this trial and all trials before it are rejected. As in Kaldi, trials with equal scores stay in
    their order, so the result can depend on the order of such trials.

    Args:
        scores, labels: see :func:`eer`.
        p_target: prior probability of a target trial, between 0 and 1.
        c_miss: cost of a rejected target trial, above 0.
        c_fa: cost of an accepted nontarget trial, above 0.

    Raises:
        OptionError: the shapes differ, a score or a label is invalid, all trials are of one kind, or a cost or the
            probability is out of range.

    >>> from kaldi_compat import min_dcf
    >>> min_dcf([3.1, 2.0, 0.2, 0.5, -1.0, -2.0], [1, 1, 1, 0, 0, 0], p_target=0.5)
    0.3333333333333333
    """
    p_target, c_miss, c_fa = (
        convert_number(name, value) for name, value in (("p_target", p_target), ("c_miss", c_miss), ("c_fa", c_fa))
    )
    if not 0 < p_target < 1:
        raise OptionError(f"p_target must be between 0 and 1, not {p_target:g}")
    if not (0 < c_miss < np.inf and 0 < c_fa < np.inf):
        raise OptionError(f"c_miss and c_fa must be above 0 and finite, not {c_miss:g} and {c_fa:g}")
    miss_cost, false_alarm_cost = c_miss * p_target, c_fa * (1 - p_target)
    if min(miss_cost, false_alarm_cost) < sys.float_info.min:
        raise OptionError(
            "c_miss * p_target or c_fa * (1 - p_target) is too small: multiply both costs by the same number"
        )
    values, is_target = _parse_trials_without_nan(scores, labels)
    is_target = is_target[np.argsort(values, kind="stable")]  # Kaldi keeps the order of equal scores.
    miss_rates = np.cumsum(is_target) / is_target.sum()
    false_alarm_rates = 1 - np.cumsum(~is_target) / (~is_target).sum()
    costs = c_miss * miss_rates * p_target + c_fa * false_alarm_rates * (1 - p_target)
    return float(costs.min()) / min(miss_cost, false_alarm_cost)


def _parse_trials_without_nan(scores: npt.ArrayLike, labels: Labels) -> tuple[Scores, npt.NDArray[np.bool_]]:
    """Parse trials with :func:`parse_trials`. Raise OptionError for scores of NaN, which would count as the largest."""
    values, is_target = parse_trials(scores, labels)
    if invalid := np.flatnonzero(np.isnan(values)).tolist():
        raise OptionError(f"scores[{invalid[0]}] is NaN: remove the trial, or compute its score again")
    return values, is_target


def parse_trials(scores: npt.ArrayLike, labels: Labels) -> tuple[Scores, npt.NDArray[np.bool_]]:
    """Convert the scores and the labels of :func:`eer` to arrays.

    Returns:
        The scores as floats (trials,), and a mask (trials,) that is True for target trials.

    Raises:
        OptionError: the shapes differ, a score is not a number, a label is invalid, or all trials are of one kind.
    """
    try:
        values, kinds = np.asarray(scores), np.asarray(labels)
    except (TypeError, ValueError, RuntimeError) as error:  # Torch raises a RuntimeError for a tensor with gradients.
        raise OptionError(f"scores and labels must be lists or arrays of shape (trials,): {error}") from None
    if values.ndim != 1 or values.shape != kinds.shape:
        raise OptionError(
            f"scores and labels must have the same shape (trials,), not {values.shape} and {kinds.shape}: "
            "flatten them, or pass one label for each score"
        )
    try:
        if values.dtype.kind == "c":  # NumPy would discard the imaginary parts.
            raise TypeError
        values = values if values.dtype.kind == "f" else values.astype(np.float64)
    except (TypeError, ValueError):
        raise OptionError("a score is not a number: pass the scores first, and the labels second") from None
    except OverflowError:
        raise OptionError("a score is an integer that is too large for a float: pass scores below 1e308") from None
    is_target, is_nontarget = _match_labels(kinds, "target", 1), _match_labels(kinds, "nontarget", 0)
    if invalid := np.flatnonzero(~(is_target | is_nontarget)).tolist():
        raise OptionError(
            f"invalid label {quote_value(kinds.tolist()[invalid[0]])}: use True and False, or 'target' and 'nontarget'"
        )
    for kind, is_of_kind in (("target", is_target), ("non-target", is_nontarget)):
        if not is_of_kind.any():
            raise OptionError(f"No {kind} scores seen.")
    return values, is_target


def _match_labels(labels: npt.NDArray[Any], word: str, number: int) -> npt.NDArray[np.bool_]:
    """Return a mask of the labels that equal ``word`` or ``number``. An array of objects may hold both."""
    matches = np.zeros(labels.shape, np.bool_)
    if labels.dtype.kind in "UO":
        matches |= labels == word
    if labels.dtype.kind != "U":
        matches |= labels == number
    return matches


def compute_equal_error_rate(targets: Scores, nontargets: Scores) -> tuple[float, float]:
    """Return the equal error rate, from 0 to 1, and its threshold, without interpolation (Kaldi: ComputeEer).

    The threshold is the lowest target score at which the share of rejected targets reaches the share of accepted
    nontargets, or the highest target score if no target score does.

    Args:
        targets, nontargets: scores of the target and the nontarget trials, both (trials,), in ascending order.
    """
    rejected = np.arange(len(targets) - 1)
    # Numbers of accepted nontargets for which both error rates are equal.
    accepted = (len(nontargets) * rejected * 1.0 / len(targets)).astype(np.int64)
    is_reached = nontargets[np.maximum(len(nontargets) - 1 - accepted, 0)] < targets[:-1]
    index = int(np.argmax(is_reached)) if is_reached.any() else len(targets) - 1
    return index / len(targets), float(targets[index])
