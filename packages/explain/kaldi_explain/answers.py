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

MIN_EXPLAINED_COLUMNS = 0.25  # Smallest share of the columns that must be explained to leave out all other columns.
MAX_NOISE_STD = 20  # Standard deviation of noise in steps of 16-bit samples. Louder noise would be audible.
CERTAIN_COST_RATIO = 1.5  # An option is certain if every other value increases the cost by at least this factor.


@dataclass(frozen=True)
class Answer:
    """The features that are closest to an array, and descriptions of the explained and the unexplained parts.

    Attributes:
        settled: the features, with all steps from the audio to the array.
        places: places where the array differs from the features.
        is_certain: True if the features explain nearly all values of the array, and this cannot be chance.
        words: descriptions of additional steps: rounding, noise, pitch. "" stands for no step.
        unexplained: descriptions of the unexplained parts of the array. [] if there are none, or too many to name.
        certain, guessed: descriptions of the certain and the uncertain options. Both are empty if ``is_certain``.
    """

    settled: Settled
    places: Places
    is_certain: bool
    words: list[str] = field(default_factory=list)
    unexplained: list[str] = field(default_factory=list)
    certain: list[str] = field(default_factory=list)
    guessed: list[str] = field(default_factory=list)


def complete_answer(finder: Finder, attempt: Attempt, settled: Settled, tolerance: float) -> Answer:
    """Return the answer of a search, and explain differences that remain between the array and the best features.

    ``attempt`` is the best attempt of ``finder``, and ``settled`` is its candidate after its open options were chosen.
    If the features are certain and explain all values in their columns, other columns are compared with pitch. If the
    features are uncertain but resemble the array, noise may explain the differences, or the features may explain only
    some columns. In an answer that remains uncertain, certain options are separated from guesses. ``tolerance`` is the
    largest residual of an explanation (:func:`fits.measure_residual`).
    """
    finder.budget.begin_completion()
    sheet = attempt.search.sheet
    places = settling.find_places(settled, sheet, tolerance)
    answer = Answer(settled, places, _is_certain(settled, places.deviations, tolerance), words=[settled.rounding])
    if answer.is_certain:
        unexplained = [*places.deviations.unexplained, *_describe_unexplained_rows(settled, sheet)]
        answer = replace(answer, unexplained=unexplained)
    elif attempt.cost < THRESHOLDS.unlike:
        answer = _explain_by_noise(finder, attempt, answer, tolerance) or _explain_part(attempt, answer, tolerance)
    if not answer.is_certain:
        certain, guessed = _split_settings(attempt, answer.settled.candidate, finder.budget)
        return replace(answer, certain=certain, guessed=guessed)
    other_columns = np.flatnonzero(~_find_covered_columns(sheet))
    if len(other_columns) and not answer.unexplained:
        pitch = _describe_pitch(settled, sheet, other_columns)
        unexplained = [] if pitch else [arrangements.describe_spans(other_columns, "column")]
        answer = replace(answer, words=[*answer.words, pitch], unexplained=unexplained)
    return answer


def _explain_by_noise(finder: Finder, attempt: Attempt, answer: Answer, tolerance: float) -> Answer | None:
    """Return ``answer`` with the first features that differ from the array by noise, or None if no features do.

    Try ``answer.settled``, and then the candidates of :func:`_list_plain_candidates`, until the budget ends. The answer
    stays uncertain, because the random numbers of the noise are unknown. See :func:`complete_answer` for ``tolerance``.
    """
    # A wrong option may stand for noise, because a floor raises quiet bins as noise does. So also try plain candidates.
    alternatives = itertools.chain([answer.settled], _list_plain_candidates(finder, attempt))
    for alternative in itertools.takewhile(lambda _: not finder.budget.is_settling_over(), alternatives):
        if noise := _describe_dithering(alternative, finder.budget):
            places = settling.find_places(alternative, attempt.search.sheet, tolerance)
            unexplained = ["noise with an unknown seed"]
            return replace(answer, settled=alternative, places=places, words=[noise], unexplained=unexplained)
    return None


def _explain_part(attempt: Attempt, answer: Answer, tolerance: float) -> Answer:
    """Return the answer after fitting uncertain features only to the columns of the array that they explain.

    The new answer may be certain. Return ``answer`` unchanged if the features, before or after settling, leave at least
    ``THRESHOLDS.partial`` of the array's spread unexplained, or if a column is neither computed from the features nor
    constant. See :func:`complete_answer` for ``tolerance``.
    """
    sheet, settled = attempt.search.sheet, answer.settled
    is_near = max(settled.measure_unexplained(), attempt.cost) < THRESHOLDS.partial
    if not is_near or not _find_covered_columns(sheet).all():
        return answer
    settled = _focus_on_columns(settled, sheet, tolerance)
    places = settling.find_places(settled, sheet, tolerance)
    is_certain, unexplained = _is_certain(settled, places.deviations, tolerance), places.deviations.unexplained
    unexplained = unexplained if is_certain else [f"{settled.measure_unexplained():.2g} of the spread"]
    return replace(answer, settled=settled, places=places, is_certain=is_certain, unexplained=unexplained)


def _is_certain(settled: Settled, deviations: Deviations, tolerance: float) -> bool:
    """Return True if features explain at least 90% of the values in ``deviations.compared``, and not by chance.

    A value is explained if it differs from the features by at most 30 times the tolerance, plus the rounding error of
    stored numbers. The residual of the explained values (:func:`fits.measure_residual`) must be within the tolerance.
    If a rounding explains the differences (``settled.rounding``), neither limit applies.
    """
    difference = np.abs(settled.fit.mapped - settled.target)
    max_difference = np.inf if settled.rounding else settled.step + THRESHOLDS.outlier * tolerance
    is_explained = deviations.compared & (difference <= max_difference)
    if not is_explained.any() or is_explained.sum() < (1 - THRESHOLDS.few_cells) * deviations.compared.sum():
        return False
    residual = fits.measure_residual(difference[is_explained], np.zeros(int(is_explained.sum())), settled.step)
    return (residual <= tolerance or bool(settled.rounding)) and _exceeds_chance(settled, is_explained)


def _exceeds_chance(settled: Settled, is_explained: Mask) -> bool:
    """Return True if chance does not explain the values in the mask ``is_explained`` (frames, columns).

    The number of these values must exceed the number of parameters of the fitted map by at least 20. Within the mask,
    the features must also leave less than ``THRESHOLDS.partial`` of the array's spread unexplained.
    """
    # A map fits a slope and an offset for each column, or a slope, an offset and two clipping limits for all columns.
    is_fitted_by_column = settled.fit.word_count >= fits.COLUMN_WORDS
    parameter_count = 2 * int(is_explained.any(0).sum()) if is_fitted_by_column else 4
    has_enough_values = int(is_explained.sum()) - parameter_count >= THRESHOLDS.free_cells
    return has_enough_values and settled.measure_unexplained(is_explained) < THRESHOLDS.partial


def _find_covered_columns(sheet: Sheet) -> Mask:
    """Return the mask (columns,) of columns made from features, or constant in all rows that depend on the audio."""
    is_covered: Mask = np.ptp(sheet.values[sheet.rows], axis=0) == 0
    # An arrangement with a name, such as stacked frames, computes all columns from the features.
    feature_columns = slice(None) if sheet.arrangement.words else sheet.arrangement.columns
    is_covered[feature_columns] = True
    return is_covered


def _describe_unexplained_rows(settled: Settled, sheet: Sheet) -> list[str]:
    """Describe how many rows precede and follow the rows with features, without padding at the ends of the array."""
    rows_before = np.flatnonzero(sheet.rows[: settled.row])
    rows_after = np.flatnonzero(sheet.rows[settled.row + len(settled.target) :])
    count_before = settled.row - int(rows_before[0]) if len(rows_before) else 0
    count_after = int(rows_after[-1]) + 1 if len(rows_after) else 0
    return fits.describe_frame_counts({"end": count_after, "start": count_before})


def _list_plain_candidates(finder: Finder, attempt: Attempt) -> Iterator[Settled]:
    """Yield settled candidates without the noise that the search added, and without a map such as an offset.

    The candidate of ``attempt`` comes first, and then the first two starts of the search if they have the same sheet.
    Every candidate is followed by its variations with different frame positions, ``snip_edges=True`` and no padding.
    Candidates that cannot be compared with the array are skipped.
    """
    sheet = attempt.search.sheet
    for plain_attempt in (attempt, *finder.starts[:2]):
        if plain_attempt.search.sheet is sheet:
            candidate = plain_attempt.candidate.remove_noise()
            framed = map(candidate.change, candidate.list_framing_changes())
            snipped = (other for other in framed if other.get("snip_edges") and not other.padding)
            # An infinite tolerance accepts the first map, which changes nothing.
            settled = (settling.fit_map(other, sheet, np.inf) for other in (candidate, *snipped))
            yield from filter(None, settled)


def _describe_pitch(settled: Settled, sheet: Sheet, columns: npt.NDArray[Any]) -> str:
    """Describe the columns with the indices ``columns`` if they are the output of one of Kaldi's programs for pitch.

    Pitch is computed with the frame length, frame shift and ``snip_edges`` of the other features. Each value may differ
    from pitch by less than 1% of its column's standard deviation. Return "" if no program has this output, or if these
    options are invalid for pitch.
    """
    candidate, source = settled.candidate, settled.candidate.source
    names = ("frame_length", "frame_shift", "snip_edges")
    try:
        options = PitchOptions(sample_frequency=source.rate, **{name: candidate.get(name) for name in names})
        samples = source.samples * np.float32(32768 / source.full_scale)  # Kaldi expects the scale of 16-bit samples.
        track = np.asarray(track_pitch(samples, options), np.float32)
        bounds = np.array([0, len(track)])  # A single utterance.
        processed, _ = process_utterances(track, bounds, ProcessPitchOptions(), KaldiRandom())
    except KaldiCompatError:
        return ""
    values = sheet.values[settled.row : settled.row + len(settled.target)][:, columns]
    max_errors = THRESHOLDS.recognized * values.std(0)
    programs = (processed, "compute-and-process-kaldi-pitch-feats"), (track, "compute-kaldi-pitch-feats")
    for pitch, program in programs:
        common_pitch = pitch[settled.frame : settled.frame + len(values)].astype(np.float64)
        if common_pitch.shape == values.shape and (np.abs(common_pitch - values).max(0) < max_errors).all():
            return f"{arrangements.describe_spans(columns, 'column')}: pitch of {program}"
    return ""


def _focus_on_columns(settled: Settled, sheet: Sheet, tolerance: float) -> Settled:
    """Fit the features again, without columns of the array that differ from them by more than an offset and a scale.

    Return ``settled`` unchanged if no column or more than three quarters of the columns would be left out, or if the
    new fit does not have a residual of at most ``tolerance``.
    """
    mapped, target = settled.fit.mapped[settled.cells], settled.target[settled.cells]
    costs = [fits.measure_distance(*columns) for columns in zip(mapped.T[..., None], target.T[..., None], strict=True)]
    is_explained = np.array(costs) < THRESHOLDS.same
    if MIN_EXPLAINED_COLUMNS * len(is_explained) <= is_explained.sum() < len(is_explained):
        wrong_columns = settled.cells[1].ravel()[~is_explained]
        narrow_sheet = replace(sheet, columns=sheet.columns & ~np.isin(np.arange(len(sheet.columns)), wrong_columns))
        refitted = settling.fit_map(settled.candidate, narrow_sheet, tolerance, arrangement=settled.arrangement)
        if refitted is not None and refitted.fit.residual <= tolerance:
            return refitted
    return settled


def _describe_dithering(settled: Settled, budget: Budget) -> str:
    """Describe the noise in the samples that explains the difference between features and array, or return "".

    In up to five iterations, the standard deviation of the noise is adapted until the noise changes the features as
    much as the features differ from the array, within 10%. The standard deviation applies to scaled samples, like
    Kaldi's ``dither``. Return "" if it does not converge below ``MAX_NOISE_STD``, if the differences are large in cells
    in which the effects of the noise are small, or if the shapes of features and array differ.
    """
    candidate, samples = settled.candidate, settled.candidate.source.samples
    noise = np.random.default_rng(0).normal(0, 1, len(samples)).astype(np.float32) / np.float32(candidate.scale)

    def compute_noisy_features(noise_std: float) -> Doubles:
        """Return features (frames, columns) of samples with noise of standard deviation ``noise_std`` after scaling."""
        source = replace(candidate.source, make=lambda: samples + np.float32(noise_std) * noise)
        features = settled.arrangement.apply(settling.compute_features(candidate.change({"source": source})))
        return features[settled.frame : settled.frame + len(settled.target)]

    plain = compute_noisy_features(0.0)
    if plain.shape != settled.target.shape:
        return ""
    differences = _measure_from_median(settled.fit.mapped - settled.target)
    tiny = 1e-30  # Replaces smaller divisors, to avoid infinity.
    # The map from the features to the array also scales the effect of the noise.
    slope = max(float(np.median(settled.fit.mapped.std(0) / np.maximum(plain.std(0), tiny))), tiny)
    noise_std, ratio, effects = 1.0, 1.0, differences
    for _ in budget.limit(range(5)):
        noise_std *= ratio
        effects = slope * _measure_from_median(compute_noisy_features(noise_std) - plain)
        ratio = float(np.median(differences) / max(np.median(effects), tiny))
    has_converged = 0.9 < ratio < 1.1
    is_noise = noise_std < MAX_NOISE_STD and has_converged and _have_equal_means(differences, effects)
    return f"noise like dithering of about {noise_std * ratio:.2g}" if is_noise else ""


def _measure_from_median(differences: Doubles) -> Doubles:
    """Return the absolute difference of each value (frames, columns) from the median of its column."""
    return np.abs(differences - np.median(differences, axis=0))


def _have_equal_means(differences: Doubles, effects: Doubles) -> bool:
    """Return True if ``differences`` from an array are as large as the ``effects`` of noise, on average.

    Both arguments (frames, columns) are magnitudes. A cell is noisy if the largest effect in the 3 by 3 cells around it
    is above the median of all cells. The means of the two arrays must agree within a factor of 1.5 in the noisy cells,
    and also in all other cells. Return False if no cell is noisy.
    """
    max_ratio, largest_nearby = 1.5, settling.spread_maximum(effects)
    is_noisy = largest_nearby > np.median(largest_nearby)
    if not is_noisy.any():
        return False
    ratios = [differences[cells].mean() / max(effects[cells].mean(), 1e-30) for cells in (is_noisy, ~is_noisy)]
    return all(1 / max_ratio < ratio < max_ratio for ratio in ratios)


def _split_settings(attempt: Attempt, final: Candidate, budget: Budget) -> tuple[list[str], list[str]]:
    """Describe the certain and the guessed options of ``final`` that differ from Kaldi's defaults, in two lists.

    ``final`` is the candidate of ``attempt`` after its open options were chosen. An option that this choice changed is
    a guess. Any other option is certain if its default, and every other value that the search tries, increase the cost
    of the attempt by half or more. Above a cost of ``THRESHOLDS.near``, wrong options may compensate for each other, so
    an option is certain only if no other value gives features that can be compared with the array. Options that are not
    checked before the end of the budget are guesses.
    """
    candidate, settings, guessed = attempt.candidate, final.describe_settings_by_name(), list[str]()
    min_cost = CERTAIN_COST_RATIO * attempt.cost if attempt.cost <= THRESHOLDS.near else THRESHOLDS.incomparable
    for name in [*settings]:
        values = [*(BY_NAME[name].values if name in BY_NAME else ()), candidate.get_default(name)]
        variations = (candidate.change({name: value}) for value in values if value != candidate.get(name))
        costs = map(attempt.search.measure_cost, budget.limit(variations))
        is_changed = final.get(name) != candidate.get(name)
        is_guess = is_changed or budget.is_settling_over() or any(cost < min_cost for cost in costs)
        # The budget is checked again, because it may have ended before all values were tried.
        if is_guess or budget.is_settling_over():
            guessed.append(settings.pop(name))
    return [*settings.values()], guessed
