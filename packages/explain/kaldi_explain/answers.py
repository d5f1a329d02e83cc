"""Complete the result of a search with noise, pitch, parts of the array, and the certainty of options."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat.errors import KaldiCompatError
from kaldi_compat.exact.arrays import Doubles
from kaldi_compat.exact.rand import KaldiRandom
from kaldi_compat.options.pitch import PitchOptions, ProcessPitchOptions
from kaldi_compat.pitch.process import process_utterances
from kaldi_compat.pitch.tracker import track_pitch
from kaldi_explain import arrangements, fits, settling
from kaldi_explain.arrangements import Mask
from kaldi_explain.candidates import Candidate, Sheet
from kaldi_explain.deviations import Deviations
from kaldi_explain.finder import Attempt, Finder
from kaldi_explain.options import BY_NAME
from kaldi_explain.settling import Places, Settled
from kaldi_explain.thresholds import THRESHOLDS
from kaldi_explain.work import Budget


@dataclass(frozen=True)
class Answer:
    """A settled candidate, and the further steps and remarks of an answer.

    Attributes:
        settled: the candidate, with all steps from its features to the array.
        places: places that the features do not give.
        is_certain: True if the features give all but a few named places of the array.
        words: descriptions of further steps: rounding, noise, pitch.
        unexplained: descriptions of the part that is not explained.
        certain, guessed: descriptions of the options, if they were not verified.
    """

    settled: Settled
    places: Places
    is_certain: bool
    words: list[str] = field(default_factory=list)
    unexplained: list[str] = field(default_factory=list)
    certain: list[str] = field(default_factory=list)
    guessed: list[str] = field(default_factory=list)


def complete_answer(finder: Finder, attempt: Attempt, settled: Settled, tolerance: float) -> Answer:
    """Return the answer of a search: its certainty and unexplained places, and pitch in columns without features.

    If the answer is not certain, it describes noise that explains the difference, and certain and guessed options.
    ``attempt`` is the best attempt of the search, and ``settled`` its candidate with all options and later steps.
    ``tolerance`` is the largest difference that counts as explained, in the units of the array.
    """
    finder.budget.begin_completion()
    sheet = attempt.search.sheet
    places = settling.find_places(settled, sheet, tolerance)
    other_columns = np.flatnonzero(~_find_covered_columns(sheet))
    answer = Answer(settled, places, _is_certain(settled, places.deviations, tolerance), [settled.rounding])
    if answer.is_certain:
        answer = replace(
            answer, unexplained=[*places.deviations.unexplained, *_describe_unexplained_rows(settled, sheet)]
        )
    elif attempt.cost < THRESHOLDS.unlike:
        answer = _complete_uncertain_answer(finder, attempt, answer, tolerance, is_whole=not len(other_columns))
    if answer.is_certain and len(other_columns) and not answer.unexplained:
        pitch = _describe_pitch(settled, sheet, other_columns)
        unexplained = [] if pitch else [arrangements.describe_spans(other_columns, "column")]
        answer = replace(answer, words=[*answer.words, pitch], unexplained=unexplained)
    if not answer.is_certain:
        certain, guessed = _split_settings(attempt, answer.settled.candidate, finder.budget)
        answer = replace(answer, certain=certain, guessed=guessed)
    return answer


def _complete_uncertain_answer(
    finder: Finder, attempt: Attempt, answer: Answer, tolerance: float, *, is_whole: bool
) -> Answer:
    """Return the answer for features that explain only a part of the array.

    If dithering explains the difference, the answer describes the noise, and stays uncertain. Otherwise, the answer is
    certain if :func:`_is_certain` accepts the features. If little of the array's variance is unexplained and the
    arrangement describes all columns (``is_whole`` is True), :func:`_focus_on_columns` first fits the features again.
    """
    sheet, settled, unexplained = attempt.search.sheet, answer.settled, list[str]()
    # A wrong option may stand for noise, because a floor raises quiet bins as noise does. So also try plain candidates.
    alternatives = itertools.chain([settled], _list_plain_candidates(finder, attempt))
    for alternative in itertools.takewhile(lambda _: not finder.budget.is_settling_over(), alternatives):
        if noise := _describe_dithering(alternative, finder.budget):
            places = settling.find_places(alternative, sheet, tolerance)
            unexplained = ["noise, which has no seed that is known"]
            return replace(answer, settled=alternative, places=places, words=[noise], unexplained=unexplained)
    max_share = THRESHOLDS.partial
    if is_whole and settled.measure_unexplained() < max_share and attempt.cost < max_share:
        settled = _focus_on_columns(settled, sheet, tolerance)
        unexplained = [f"{settled.measure_unexplained():.2g} of the spread"]
    places = settling.find_places(settled, sheet, tolerance)
    if _is_certain(settled, places.deviations, tolerance):
        return replace(
            answer, settled=settled, places=places, is_certain=True, unexplained=places.deviations.unexplained
        )
    return replace(answer, settled=settled, places=places, unexplained=unexplained)


def _is_certain(settled: Settled, deviations: Deviations, tolerance: float) -> bool:
    """Return True if features give all of an array except for named places, and chance cannot explain the result.

    At most a tenth of the values that ``deviations.compared`` selects may differ by more than the rounding error of
    stored numbers plus 30 times the tolerance. The residual of the other values must be within the tolerance. If a
    named rounding explains the differences, they may have any size.
    """
    difference = np.abs(settled.fit.mapped - settled.target)
    limit = np.inf if settled.rounding else settled.step + THRESHOLDS.outlier * tolerance
    is_right = deviations.compared & (difference <= limit)
    if not is_right.any() or is_right.sum() < (1 - THRESHOLDS.few_cells) * deviations.compared.sum():
        return False
    residual = fits.measure_residual(difference[is_right], np.zeros(int(is_right.sum())), settled.step)
    return (residual <= tolerance or bool(settled.rounding)) and _is_surprising(settled, is_right)


def _is_surprising(settled: Settled, is_right: Mask) -> bool:
    """Return True if chance cannot explain the values that the mask ``is_right`` (frames, columns) selects.

    There must be at least 20 more right values than fitted numbers, and the root of the share of their variance that
    the features leave unexplained must be below 0.1.
    """
    # A map with numbers for each column has a slope and an offset for each. Every other map counts as four numbers: a
    # slope, an offset, and two limits to which the features are clipped.
    column_count = int(is_right.any(0).sum())
    free_count = int(is_right.sum()) - (2 * column_count if settled.fit.word_count >= fits.COLUMN_WORDS else 4)
    return free_count >= THRESHOLDS.free_cells and settled.measure_unexplained(is_right) < THRESHOLDS.partial


def _find_covered_columns(sheet: Sheet) -> Mask:
    """Return the mask (columns,) of columns that the arrangement describes or that are constant in informative rows."""
    covered: Mask = np.ptp(sheet.values[sheet.rows], axis=0) == 0
    # An arrangement with a name, such as stacked frames, gives all columns.
    covered[slice(None) if sheet.arrangement.words else sheet.arrangement.columns] = True
    return covered


def _describe_unexplained_rows(settled: Settled, sheet: Sheet) -> list[str]:
    """Describe how many rows precede and follow the rows that the features give. Padding beyond them is not counted."""
    rows_after = np.flatnonzero(sheet.rows[settled.row + len(settled.target) :])
    counts = {"end": int(rows_after[-1]) + 1 if len(rows_after) else 0, "start": int(sheet.rows[: settled.row].sum())}
    return fits.describe_frame_counts(counts)


def _list_plain_candidates(finder: Finder, attempt: Attempt) -> Iterator[Settled]:
    """Yield the candidates of the attempt and of the first two starts of the search, without noise and without a map.

    Each candidate is followed by its variations with other frame positions that have ``snip_edges=True`` and no
    padding. Candidates of other sheets, and candidates that cannot be compared with the array, are skipped.
    """
    sheet = attempt.search.sheet
    for start in (attempt, *finder.begun[:2]):
        if start.search.sheet is sheet:
            candidate = start.candidate.remove_noise()
            framed = map(candidate.change, candidate.list_framing_changes())
            snipped = (other for other in framed if other.get("snip_edges") and not other.padding)
            settled = (settling.fit_map(other, sheet, np.inf) for other in (candidate, *snipped))
            yield from filter(None, settled)


def _describe_pitch(settled: Settled, sheet: Sheet, columns: npt.NDArray[Any]) -> str:
    """Describe the array's columns ``columns`` (indices) by the Kaldi program that computes them as pitch features.

    The pitch features are computed with the frame length, frame shift and ``snip_edges`` of the other features, and are
    cut to the same frames. Return "" if Kaldi refuses these options, or if the features of neither program agree with
    the columns within 1% of the standard deviation of each column.
    """
    candidate, source = settled.candidate, settled.candidate.source
    names = ("frame_length", "frame_shift", "snip_edges")
    try:
        options = PitchOptions(sample_frequency=source.rate, **{name: candidate.get(name) for name in names})
        track = np.asarray(track_pitch(source.samples * np.float32(32768 / source.full_scale), options), np.float32)
        processed, _ = process_utterances(track, np.array([0, len(track)]), ProcessPitchOptions(), KaldiRandom())
    except KaldiCompatError:
        return ""
    values = sheet.values[settled.row : settled.row + len(settled.target)][:, columns]
    programs = (processed, "compute-and-process-kaldi-pitch-feats"), (track, "compute-kaldi-pitch-feats")
    for pitch, program in programs:
        common_pitch = pitch[settled.frame : settled.frame + len(values)].astype(np.float64)
        max_errors = THRESHOLDS.recognized * values.std(0)
        if common_pitch.shape == values.shape and (np.abs(common_pitch - values).max(0) < max_errors).all():
            return f"{arrangements.describe_spans(columns, 'column')}: pitch of {program}"
    return ""


def _focus_on_columns(settled: Settled, sheet: Sheet, tolerance: float) -> Settled:
    """Fit the candidate again, to only the columns that equal its features up to an offset and a scale of each column.

    Return ``settled`` unchanged if these are all compared columns or fewer than a quarter of them, or if the residual
    of the new fit is above ``tolerance``.
    """
    mapped, target = settled.fit.mapped[settled.cells], settled.target[settled.cells]
    costs = [fits.measure_distance(a[:, None], b[:, None]) for a, b in zip(mapped.T, target.T, strict=True)]
    is_exact = np.array(costs) < THRESHOLDS.same
    if 0.25 * len(is_exact) <= is_exact.sum() < len(is_exact):
        wrong_columns = settled.cells[1].ravel()[~is_exact]
        narrow_sheet = replace(sheet, columns=sheet.columns & ~np.isin(np.arange(len(sheet.columns)), wrong_columns))
        refitted = settling.fit_map(settled.candidate, narrow_sheet, tolerance, arrangement=settled.arrangement)
        if refitted is not None and refitted.fit.residual <= tolerance:
            return refitted
    return settled


def _describe_dithering(settled: Settled, budget: Budget) -> str:
    """Describe noise on the samples that explains the difference between features and array, or return "".

    The difference must have the size that the noise causes, both in the half of the cells that depends most on the
    noise and in the other half. The description gives the standard deviation of the noise after the samples are scaled.
    """
    candidate, samples = settled.candidate, settled.candidate.source.samples
    noise = np.random.default_rng(0).normal(0, 1, len(samples)).astype(np.float32) / np.float32(candidate.scale)

    def compute_noisy_features(noise_std: float) -> Doubles:
        """Return features (frames, columns) of scaled samples with noise of the standard deviation ``noise_std``."""
        source = replace(candidate.source, make=lambda: samples + np.float32(noise_std) * noise)
        features = settled.arrangement.apply(settling.compute_features(candidate.change({"source": source})))
        return features[settled.frame : settled.frame + len(settled.target)]

    plain = compute_noisy_features(0.0)
    if plain.shape != settled.target.shape:
        return ""
    measured_deviation = _measure_deviation(settled.fit.mapped - settled.target)
    slope = max(float(np.median(settled.fit.mapped.std(0) / np.maximum(plain.std(0), 1e-30))), 1e-30)
    noise_std, ratio, deviation = 1.0, 1.0, measured_deviation
    for _ in budget.limit(range(5)):  # Each iteration adapts the noise to the difference.
        noise_std *= ratio
        deviation = slope * _measure_deviation(compute_noisy_features(noise_std) - plain)
        ratio = float(np.median(measured_deviation) / max(np.median(deviation), 1e-30))
    is_noisy = settling.spread_maximum(deviation) > np.median(settling.spread_maximum(deviation))
    if not is_noisy.any() or is_noisy.all():
        return ""
    ratios = [measured_deviation[cells].mean() / max(deviation[cells].mean(), 1e-30) for cells in (is_noisy, ~is_noisy)]
    # Dithering of more than 20 steps of int16 would be audible. A ratio near 1 shows that the iteration has converged.
    # The ratios of both groups of cells are estimates, which may be wrong by a factor of 1.5.
    is_noise = noise_std < 20 and 0.9 < ratio < 1.1 and all(1 / 1.5 < cell_ratio < 1.5 for cell_ratio in ratios)
    return f"noise like dithering of about {noise_std * ratio:.2g}" if is_noise else ""


def _measure_deviation(difference: Doubles) -> Doubles:
    """Return the distance of each value (frames, columns) from its column's median. Normalization shifts the median."""
    return np.abs(difference - np.median(difference, axis=0))


def _split_settings(attempt: Attempt, final: Candidate, budget: Budget) -> tuple[list[str], list[str]]:
    """Return descriptions of the options of ``final`` that are certain, and of the options that are guesses.

    An option is certain if every other value that the search tries increases the cost by at least half. At a higher
    cost than ``THRESHOLDS.near``, several wrong options may imitate the right ones. An option, such as the number of
    mel bins, is then certain only if features with its other values cannot be compared with the array. Options that
    settling has changed are guesses, and so are options for which no time is left.
    """
    candidate, settings, guessed = attempt.candidate, final.describe_settings_by_name(), list[str]()
    limit = 1.5 * attempt.cost if attempt.cost <= THRESHOLDS.near else THRESHOLDS.incomparable
    for name in [*settings]:
        values = [*(BY_NAME[name].values if name in BY_NAME else ()), candidate.get_default(name)]
        variations = (candidate.change({name: value}) for value in values if value != candidate.get(name))
        costs = map(attempt.search.measure_cost, budget.limit(variations))
        is_changed = final.get(name) != candidate.get(name)
        if is_changed or budget.is_settling_over() or any(cost < limit for cost in costs):
            guessed.append(settings.pop(name))
    return [*settings.values()], guessed
