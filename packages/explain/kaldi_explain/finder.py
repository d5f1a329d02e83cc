"""Find the features of an array in audio, in stages from the most common computations to rare ones.

A *sheet* is the array in one orientation, with an *arrangement*: an assumption about how its rows were made from frames
of features. In a plain arrangement, the rows are frames. A *search* compares *candidates*, which are features with all
their options, with a sheet. It begins with *starts*, which have common options, and changes options as long as the cost
falls. A good candidate is *settled*: the options that the search leaves open are chosen, such as paddings and
normalization. A *source* is audio, such as a channel of the recording. A *timing* is an assumption about the times of
the array's rows in a source.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat.errors import KaldiCompatError
from kaldi_compat.exact.arrays import Doubles
from kaldi_explain import arrangements
from kaldi_explain.candidates import Candidate, Sheet
from kaldi_explain.search import Search
from kaldi_explain.settling import Settled, Settling, compute_features, fit_map
from kaldi_explain.sources import (
    RATES,
    AudioSource,
    cut_part,
    limit_source,
    list_clippings,
    list_mistakes,
    list_resamplings,
)
from kaldi_explain.thresholds import THRESHOLDS
from kaldi_explain.timing import Timing
from kaldi_explain.work import Budget

PITCH_COLUMNS = 3  # Number of columns of Kaldi's pitch features after process-kaldi-pitch-feats, by default.
PASTED_COUNTS = (PITCH_COLUMNS, 1, 2, 4)  # Numbers of columns, likeliest first, that another feature may add.
MIN_COLUMNS_WITH_PASTED = 8  # Smallest number of columns of an array in which columns of another feature are sought.
# Usual numbers of columns of a feature. Parts of an array with such a width are tried first.
USUAL_COLUMNS = (80, 40, 13, 23, 64, 20, 24, 26, 30, 60, 128)
CLIPPED_SHARES = (0.003, 0.01, 0.03, 0.07, 0.15, 0.3)  # Shares of samples that a tried level clips.
# Largest change of the logarithm of a clipping level in a refinement, and number of iterations. The first refinement is
# accurate to 0.5%. The second follows the choice of options, and is accurate to 0.001%.
FIRST_REFINEMENT, SECOND_REFINEMENT = (math.log(1.7), 11), (0.05, 20)
MIN_SECONDS = 0.025  # Kaldi's default frame length in seconds. Shorter audio has no whole frame.
# Bonus for the score of audio that was read by mistake, if the mistake gives the most usual frame shift, 10 ms.
USUAL_SHIFT_BONUS = 0.2


@dataclass
class Attempt:
    """A candidate for the features of an array, and the search that compares the candidate with the array."""

    search: Search
    candidate: Candidate

    @property
    def cost(self) -> float:
        """Cost of the candidate: the root of the unexplained share of the array's variance."""
        return self.search.get_cost(self.candidate)

    def improve(self) -> Attempt:
        """Return an attempt with an improved candidate, whose options the search has changed to reduce the cost."""
        return Attempt(self.search, self.search.improve_candidate(self.candidate))


@dataclass(frozen=True)
class Stage:
    """A stage of the search: its name, a function that yields attempts, and its limit in seconds of the budget."""

    name: str
    run: Callable[[], Iterator[Attempt]]
    seconds: float


@dataclass(frozen=True)
class Pair:
    """A search, a source in which it may begin, likely timings of the array's rows, and the best of their scores."""

    search: Search
    source: AudioSource
    timings: list[Timing]
    score: float


def _may_include_pitch(column_count: int) -> bool:
    """Return True if a number of columns is unusual for one feature, but usual after removing three pitch columns."""
    return column_count not in USUAL_COLUMNS and column_count - PITCH_COLUMNS in USUAL_COLUMNS


def _list_sheets(target: Doubles, words: list[str], step: float) -> Iterator[Sheet]:
    """Yield a sheet for each orientation of an array (frames, columns) and each arrangement that its rows may have.

    Skip orientations with more than ``THRESHOLDS.columns`` columns, and orientations in which fewer than two rows or no
    column depend on the audio. ``words`` describe repairs of the array. ``step`` is the largest error of its stored
    numbers.
    """
    for orientation_words, values in arrangements.list_orientations(target):
        if values.shape[1] > THRESHOLDS.columns or len(values) < 2:
            continue
        rows, columns = arrangements.find_informative_rows_and_columns(values)
        if rows.sum() < 2 or not columns.any():
            continue
        first, last = np.flatnonzero(rows)[[0, -1]]
        sample = values[first : min(last + 1, first + THRESHOLDS.arrangement_rows)]
        for arrangement in arrangements.list_arrangements(sample):
            yield Sheet([*words, *orientation_words], values, arrangement, rows, columns, step)


def _list_column_parts(column_count: int) -> list[slice]:
    """Return slices of an array's columns that may be one feature, if the remaining columns are a second feature.

    The second feature has 1 to 4 columns at the end, or 1 or 3 columns at the start. Slices with a usual number of
    columns come first. Return [] for fewer than ``MIN_COLUMNS_WITH_PASTED`` columns.
    """
    parts = [slice(0, column_count - count) for count in PASTED_COUNTS]
    parts += [slice(count, column_count) for count in PASTED_COUNTS[:2]]
    parts.sort(key=lambda part: part.stop - part.start not in USUAL_COLUMNS)
    return parts if column_count >= MIN_COLUMNS_WITH_PASTED else []


class Finder:
    """Search for the features of an array, in stages. The search ends when the array is explained.

    Args:
        target: the array (frames, columns).
        words: descriptions of earlier repairs of the array.
        sources: channels of the recording, and their mean if there are several.
        recording: the recording (channels, T).
        get_tolerance: function that returns the largest residual at which an attempt explains the array.
        budget: limits of the work.
        step: largest rounding error of the array's stored numbers.

    Attributes:
        starts: the attempts with which the search began, by ascending cost.
    """

    def __init__(
        self, target: Doubles, words: list[str], sources: Sequence[AudioSource], recording: npt.NDArray[Any],
        get_tolerance: Callable[[Attempt], float], budget: Budget, step: float = 0.0,
    ) -> None:  # fmt: skip
        self._sources, self._recording, self._get_tolerance, self.budget = sources, recording, get_tolerance, budget
        self._unit = 1 / max(source.full_scale for source in sources)  # Factor that scales the samples to -1 to 1.
        self._searches = [Search(sheet, budget, self._unit) for sheet in _list_sheets(target, words, step)]
        self._plain_sheets = [search.sheet for search in self._searches if not search.sheet.arrangement.words]
        # Settled candidates by key. None stands for a candidate that cannot be compared with the array.
        self._settled: dict[tuple[Any, ...], Settled | None] = {}
        self._attempts: list[Attempt] = []
        self.starts: list[Attempt] = []
        self._best_timing_score = -1.0  # Score, from 0 to 1, of the likeliest timing so far. -1 if there is none.

    def find_best_attempt(self) -> tuple[Attempt, Settled] | None:
        """Run the stages, and return the first attempt that explains the array, with its :class:`Settled` candidate.

        If no attempt explains the array in time, return the best of the three attempts with the lowest costs
        (:meth:`_settle_best_attempts`), or None if no attempt resembles the array.
        """
        stages = [
            Stage("starts", self._search_starts, 2.0),
            Stage("anywhere", self._search_anywhere, 1.5),
            Stage("clipping", self._search_clipped, 1.5),
            Stage("another rate, certainly", lambda: self._search_resampled(THRESHOLDS.much_better), 2.5),
            Stage("options", self._improve_starts, 2.5),
            Stage("windows", self._search_windows, 1.0),
            Stage("another rate", lambda: self._search_resampled(THRESHOLDS.better), 2.5),
            Stage("parts", self._search_parts, 1.5),
            Stage("numbers", self._refine_numbers, 2.0),
            Stage("deltas", self._search_as_deltas, 3.0),
            Stage("mistakes", self._search_mistaken, 2.0),
        ]
        while self._searches and stages and not self.budget.is_search_over():
            stage = stages.pop(0)
            self.budget.begin_stage(stage.seconds)
            for attempt in stage.run():
                self._attempts.append(attempt)
                if settled := self._explain_array(attempt, is_start=stage.name in ("starts", "anywhere")):
                    return attempt, settled
            self._attempts.sort(key=lambda attempt: attempt.cost)
            stages = self._reorder_stages(stage, stages)
        return self._settle_best_attempts()

    def _settle_best_attempts(self) -> tuple[Attempt, Settled] | None:
        """Settle the three attempts of lowest cost, and return the best result, or None if none resembles the array."""
        results: dict[tuple[float, float], tuple[Attempt, Settled]] = {}  # Keys: unexplained share, and cost.
        for attempt in self._attempts[:3]:
            if results and self.budget.is_settling_over():
                break
            if attempt.cost < THRESHOLDS.hopeless and (settled := self._settle_attempt(attempt)):
                results.setdefault((settled.measure_unexplained(), attempt.cost), (attempt, settled))
        return results[min(results)] if results else None

    def _reorder_stages(self, finished_stage: Stage, stages: list[Stage]) -> list[Stage]:
        """Return the ``stages`` that remain after ``finished_stage``, in the order in which they should run.

        After "starts", "parts" moves to the front if the array may include pitch. Otherwise, if all costs are large,
        "mistakes" moves to the front if another usual sampling rate would give a frame shift of 10 ms, or else
        "deltas", "anywhere", "clipping" and "mistakes" do. After "anywhere", "mistakes" becomes the last stage if a
        feature resembles the array. If neither features nor energies resemble it, only "mistakes" and "deltas" remain.
        """
        urgent: tuple[str, ...] = ()
        if finished_stage.name == "starts" and self.starts:
            if _may_include_pitch(self.starts[0].search.sheet.values.shape[1]):
                urgent = ("parts",)
            elif self._get_lowest_cost() > THRESHOLDS.other_audio:
                candidate, stride = self.starts[0].candidate, self.starts[0].search.sheet.arrangement.stride
                rate_of_10_ms = 100 * candidate.shift * stride  # At this rate, the rows are 10 ms apart, as is usual.
                is_other_rate = rate_of_10_ms in RATES and rate_of_10_ms != candidate.rate
                urgent = ("mistakes",) if is_other_rate else ("deltas", "anywhere", "clipping", "mistakes")
        elif finished_stage.name == "anywhere" and self._get_lowest_cost() < THRESHOLDS.unlike:
            stages = sorted(stages, key=lambda stage: stage.name == "mistakes")
        if self._best_timing_score < THRESHOLDS.likely and self._get_lowest_cost() >= THRESHOLDS.hopeless:
            stages = [stage for stage in stages if stage.name in ("mistakes", "deltas")]
        return sorted(stages, key=lambda stage: urgent.index(stage.name) if stage.name in urgent else len(urgent))

    def _get_lowest_cost(self) -> float:
        """Return the lowest cost of all attempts so far, or ``THRESHOLDS.incomparable`` if there is none."""
        return min((attempt.cost for attempt in self._attempts), default=THRESHOLDS.incomparable)

    def _explain_array(self, attempt: Attempt, *, is_start: bool) -> Settled | None:
        """Return the :class:`Settled` candidate of an attempt, or None if it does not explain the array.

        The attempt explains the array if its residual is within the tolerance, if rounding explains the differences, or
        if its cost is below ``THRESHOLDS.explained`` and the arrangement is plain. An attempt that leaves out columns
        explains the array only if they may be pitch. Above a limit of the cost, which is lower for starts
        (``is_start``) because later stages improve them, settling is not worth the time, so only dithering is tried.
        """
        sheet, tolerance = attempt.search.sheet, self._get_tolerance(attempt)
        spread = max(float(np.median(sheet.feature_values[sheet.rows].std(0))), 1e-30)  # 1e-30 avoids a division by 0.
        # The second term is the cost of differences within the tolerance.
        max_cost = THRESHOLDS.explained if is_start else THRESHOLDS.near + (tolerance + sheet.step) / spread
        if attempt.cost > max_cost and (sheet, attempt.candidate.key) not in self._settled:
            is_alike = attempt.cost < THRESHOLDS.unlike and not self.budget.is_settling_over()
            return self._explain_by_dithering(attempt) if is_alike else None
        settled = self._settle_attempt(attempt)
        uses_all_columns = sheet.arrangement.words or sheet.feature_values.shape == sheet.values.shape
        # A later stage may explain the columns that this attempt leaves out.
        if not settled or not (uses_all_columns or _may_include_pitch(sheet.values.shape[1])):
            return None
        is_equal = attempt.cost < THRESHOLDS.explained and not sheet.arrangement.words
        return settled if is_equal or settled.is_explained_by(tolerance) else None

    def _explain_by_dithering(self, attempt: Attempt) -> Settled | None:
        """Return the :class:`Settled` candidate with Kaldi's dithering, or None if it does not explain the array."""
        dithered, sheet = attempt.candidate.remove_noise().change({"dithered": True}), attempt.search.sheet
        tolerance = self._get_tolerance(attempt)
        settled = fit_map(dithered, sheet, tolerance) if dithered.is_computed_by_engine else None
        return settled if settled and settled.fit.residual <= tolerance else None

    def _settle_attempt(self, attempt: Attempt) -> Settled | None:
        """Settle the candidate of an attempt without the noise that the search added.

        Choose the framing from :func:`_list_usual_framings` that has the smallest residual. Return None if no framing
        can be compared with the array. The result is cached for the candidate and the sheet.
        """
        attempt = Attempt(attempt.search, attempt.candidate.remove_noise())
        key = (attempt.search.sheet, attempt.candidate.key)
        if key not in self._settled:
            settling = Settling(attempt.search, self._get_tolerance(attempt))
            candidates = self.budget.limit(_list_usual_framings(attempt))
            settled = [result for result in map(settling.settle_candidate, candidates) if result]
            self._settled[key] = min(settled, key=lambda result: result.fit.residual, default=None)
        return self._settled[key]

    def _begin_searches(
        self, searches: list[Search], sources: Sequence[AudioSource], *, certain: float = THRESHOLDS.certain
    ) -> list[Attempt]:
        """Return the attempts, by ascending cost, with which ``searches`` begin in ``sources``.

        Timings in whole sources are tried first. Timings in parts of a source are tried only if no timing in the whole
        source has a score above ``certain``. Also update the best score for :meth:`_reorder_stages`.
        """
        pairs = self._list_pairs(searches, sources, certain)
        self._best_timing_score = max([self._best_timing_score, *(pair.score for pair in pairs)])
        pairs.sort(key=lambda pair: (not any(timing.is_whole for timing in pair.timings), -pair.score))
        return self._list_starts(pairs)

    def _list_pairs(self, searches: list[Search], sources: Sequence[AudioSource], certain: float | None) -> list[Pair]:
        """Return all pairs of a search and a source that have a timing, until the budget of the stage ends.

        Timings in parts of a source are added if no timing in the whole source has a score above ``certain``. None
        stands for misread audio, for which parts are not tried, and a frame shift of 10 ms raises the score. Sources
        that are shorter than 25 ms are skipped.
        """
        pairs = []
        for search, source in itertools.product(searches, sources):
            if not search.pattern or source.length < source.rate * MIN_SECONDS or self.budget.is_stage_over():
                continue
            stride, is_mistake = search.sheet.arrangement.stride, certain is None
            timings = search.pattern.list_timings(source, stride, tries_parts=not is_mistake, certain=certain or 1.0)
            if timings:
                best = max(timings, key=lambda timing: timing.score)
                frame_shift_ms = 1000 * best.row_shift / source.rate / stride
                score = best.score + USUAL_SHIFT_BONUS * (is_mistake and abs(frame_shift_ms - 10) < 0.1)
                pairs.append(Pair(search, source, timings, score))
        return pairs

    def _list_starts(self, pairs: Iterable[Pair]) -> list[Attempt]:
        """Return the starts of ``pairs`` as attempts, by ascending cost. If none explains the array, improve the best.

        Skip later pairs if the budget of the stage ends, or if a start explains a sheet with a plain arrangement.
        """
        attempts: list[Attempt] = []
        for pair in pairs:
            attempts += [Attempt(pair.search, start) for start in pair.search.list_starts(pair.source, pair.timings)]
            is_explained = any(attempt.cost < THRESHOLDS.explained for attempt in attempts)
            if self.budget.is_stage_over() or (is_explained and not pair.search.sheet.arrangement.words):
                break
        attempts.sort(key=lambda attempt: attempt.cost)
        if attempts and attempts[0].cost > THRESHOLDS.explained:
            chosen, attempts = attempts[: THRESHOLDS.starts], attempts[THRESHOLDS.starts :]
            for search in dict.fromkeys(attempt.search for attempt in chosen):
                starts = [attempt.candidate for attempt in chosen if attempt.search is search]
                attempts += [Attempt(search, start) for start in search.improve_starts(starts)]
        return sorted(attempts, key=lambda attempt: attempt.cost)

    def _search_starts(self) -> Iterator[Attempt]:
        """Begin all searches in all sources. Set :attr:`starts`, and yield the two starts with the lowest costs."""
        self.starts = self._begin_searches(self._searches, self._sources)
        yield from self.starts[:2]

    def _search_anywhere(self) -> Iterator[Attempt]:
        """Try reversed columns, and then parts of the audio, if the audio's energies fit the array but no feature does.

        After each trial, add its starts to :attr:`starts`, and yield the two starts with the lowest costs so far.
        """
        reversed_searches = [Search(sheet.reverse_columns(), self.budget, self._unit) for sheet in self._plain_sheets]
        # A score is never above 1, so the second trial considers parts of the audio in any case.
        trials = ((THRESHOLDS.likely, reversed_searches, THRESHOLDS.certain), (THRESHOLDS.certain, self._searches, 1.0))
        for min_score, searches, certain in trials:
            if self._best_timing_score > min_score and self._get_lowest_cost() >= THRESHOLDS.unlike:
                starts = self._begin_searches(searches, self._sources, certain=certain)
                self.starts = sorted([*starts, *self.starts], key=lambda attempt: attempt.cost)
                yield from self.starts[:2]

    def _improve_starts(self) -> Iterator[Attempt]:
        """Yield the best start, and up to two further starts that resemble the array, with improved options.

        If an improved start nearly explains the array, and its arrangement is not plain, also try its candidate in all
        other arrangements that are not plain.
        """
        for start in self.starts[: THRESHOLDS.descents]:
            if start.cost < THRESHOLDS.unlike or start is self.starts[0]:
                attempt = start.improve()
                yield attempt
                if attempt.cost < THRESHOLDS.near and start.search.sheet.arrangement.words:
                    yield from self._list_rearranged_attempts(attempt)

    def _list_rearranged_attempts(self, attempt: Attempt) -> Iterator[Attempt]:
        """Yield an attempt with the candidate for each other search whose arrangement is not plain.

        The candidate begins at the best of the ``THRESHOLDS.stack`` frames around its present first frame, because a
        row of another arrangement may begin at any of the frames that it stacks.
        """
        first_frame, half_stack = attempt.candidate.start, THRESHOLDS.stack // 2
        for search in self._searches:
            if search is not attempt.search and search.sheet.arrangement.words:
                first_frames = range(first_frame - half_stack, first_frame + half_stack)
                moved = (attempt.candidate.change({"start": frame}) for frame in first_frames)
                yield Attempt(search, search.find_best_candidate(moved))

    def _refine_numbers(self) -> Iterator[Attempt]:
        """Yield the two best starts and the best attempt with fitted numbers, before and after improving options."""
        for attempt in [*self.starts[:2], *self._attempts[:1]]:
            if attempt.cost <= THRESHOLDS.unlike and not self.budget.is_stage_over():
                refined = Attempt(attempt.search, attempt.search.refine_options(attempt.candidate))
                yield refined
                yield refined.improve()

    def _search_parts(self) -> Iterator[Attempt]:
        """Yield up to two improved attempts that leave out some of the first or last columns, such as pitch.

        An attempt must cost less than 80% of the lowest earlier cost or of ``THRESHOLDS.unlike``, because wrong options
        imitate noise a little better with fewer columns. Nothing is tried if the lowest cost is already small.
        """
        lowest_cost, attempts = min(self._get_lowest_cost(), THRESHOLDS.unlike), list[Attempt]()
        for sheet in self._plain_sheets if lowest_cost > THRESHOLDS.close else ():
            column_indices = np.arange(sheet.values.shape[1])
            for part in _list_column_parts(len(column_indices)):
                columns = np.isin(column_indices, column_indices[part]) & sheet.columns
                if self.budget.is_stage_over() or not columns.any():
                    break
                narrow = dataclasses.replace(sheet, arrangement=arrangements.Arrangement("", part), columns=columns)
                attempts += self._begin_searches([Search(narrow, self.budget, self._unit)], self._sources)[:1]
                if attempts and min(attempt.cost for attempt in attempts) < THRESHOLDS.much_better * lowest_cost:
                    break
        attempts.sort(key=lambda attempt: attempt.cost)
        improved = (attempt.improve() for attempt in attempts[:2] if attempt.cost < lowest_cost)
        yield from (attempt for attempt in improved if attempt.cost < THRESHOLDS.better * lowest_cost)

    def _search_windows(self) -> Iterator[Attempt]:
        """Yield the best attempt with a normalization in a sliding window, if the normalization explains the array.

        Such a normalization hardly affects the changes from row to row, so options are improved by comparing changes.
        Yield nothing if the changes do not agree after that. Also yield nothing if the rows resemble the features,
        unless comparing changes instead of rows reduces the cost by 30%.
        """
        for attempt in self._attempts[:1]:
            sheet, tolerance = attempt.search.sheet, self._get_tolerance(attempt)
            search = Search(sheet, self.budget, self._unit, by_differences=True)
            is_better = search.get_cost(attempt.candidate) <= THRESHOLDS.unlike * attempt.cost
            if not is_better and attempt.cost < THRESHOLDS.unlike:
                return
            candidate = search.improve_candidate(attempt.candidate)
            if search.get_cost(candidate) > THRESHOLDS.sliding:
                return
            try:
                features = sheet.arrangement.apply(compute_features(candidate))
            except KaldiCompatError:
                return
            first_row = round(candidate.start / sheet.arrangement.stride)
            sliding = arrangements.list_sliding_arrangements(features, sheet.values, first_row)
            for arrangement in self.budget.limit(sliding):
                settled = fit_map(candidate, sheet, tolerance, arrangement=arrangement)
                if settled is not None and settled.fit.residual <= tolerance:
                    self._settled[sheet, candidate.key] = settled
                    yield Attempt(search, candidate)
                    return

    def _search_as_deltas(self) -> Iterator[Attempt]:
        """Yield attempts for an array that contains only the first or only the second deltas of features."""
        # Second deltas of a feature resemble the feature, so they prove nothing if plain features resemble the array.
        if self._get_lowest_cost() < THRESHOLDS.other_audio:
            return
        sheets = [sheet for sheet in self._plain_sheets if arrangements.may_be_deltas(sheet.values[sheet.rows])]
        starts = list[Attempt]()

        def make_search(sheet: Sheet, order: int, window: int) -> Search:
            """Return a search for deltas of an order, with ``window`` frames on each side."""
            arrangement = arrangements.make_deltas_alone(order, window)
            return Search(dataclasses.replace(sheet, arrangement=arrangement), self.budget, self._unit)

        for order in (1, 2):
            searches = [make_search(sheet, order, 2) for sheet in sheets]
            starts = sorted([*starts, *self._begin_searches(searches, self._sources)], key=lambda attempt: attempt.cost)
            yield from starts[:1]
        for start in (start for start in starts[: THRESHOLDS.descents] if start.cost < THRESHOLDS.hopeless):
            variations = itertools.product((1, 2), (2, 1, 3, 4))
            searches = [make_search(start.search.sheet, order, window) for order, window in variations]
            search = min(searches, key=lambda search: search.get_cost(start.candidate))
            yield Attempt(search, start.candidate).improve()

    def _search_clipped(self) -> Iterator[Attempt]:
        """Yield attempts with audio that is amplified and clipped to 16 bits, or clipped to a level below its peak.

        Clipping must reduce the cost of the best start by more than a fifth. Nothing is tried if an earlier attempt
        nearly explains the array, or if no attempt resembles the array.
        """
        for start in self.starts[:1] if THRESHOLDS.near < self._get_lowest_cost() < THRESHOLDS.hopeless else []:
            candidate = start.candidate.remove_noise()
            clipped = [candidate.change({"source": source}) for source in list_clippings(candidate.source)]
            best = start.search.find_best_candidate((candidate, *clipped))
            if is_better := start.search.get_cost(best) < THRESHOLDS.better * start.cost:
                yield Attempt(start.search, best)
            yield from self._search_limited_audio(start.cost)
            if is_better:
                yield Attempt(start.search, best).improve()

    def _search_limited_audio(self, plain_cost: float) -> Iterator[Attempt]:
        """Yield an attempt with audio that is clipped below its peak, if a trial costs less than 80% of ``plain_cost``.

        Each trial combines one of the best starts with one of several clipping levels. The level of the best trial is
        refined before and after the options are improved. Audio of ``THRESHOLDS.clipped_seconds`` or longer is skipped.
        """
        # Cost, level, search, and candidate without clipping. A level of 0 would leave only zeros.
        trials = list[tuple[float, float, Search, Candidate]]()
        for start in self.starts[: THRESHOLDS.descents]:
            candidate = start.candidate.remove_noise()
            if candidate.source.length >= THRESHOLDS.clipped_seconds * candidate.source.rate:
                continue
            for level in np.quantile(np.abs(candidate.source.samples), 1 - np.array(CLIPPED_SHARES)).tolist():
                cost = _measure_clipped_cost(start.search, candidate, level) if level else THRESHOLDS.incomparable
                trials.append((cost, level, start.search, candidate))
        cost, level, search, plain = min(trials, key=lambda trial: trial[0], default=(plain_cost, 0.0, None, None))
        if search is None or plain is None or cost >= THRESHOLDS.better * plain_cost:
            return
        level = _refine_level(search, plain, level, *FIRST_REFINEMENT)
        clipped = limit_source(plain.source, level)
        # The options of ``plain`` were chosen without clipping and may be wrong, so also begin a search with clipping.
        restarts = [start.candidate.remove_noise() for start in self._begin_searches([search], [clipped])[:1]]
        best = search.find_best_candidate((plain.change({"source": clipped}), *restarts))
        best = search.improve_candidate(best).remove_noise()
        level = _refine_level(search, best.change({"source": plain.source}), level, *SECOND_REFINEMENT)
        yield Attempt(search, best.change({"source": limit_source(plain.source, level)}))

    def _search_resampled(self, max_ratio: float) -> Iterator[Attempt]:
        """Yield attempts with resampled audio that cost at most ``max_ratio`` times as much as a search's best start.

        The two likeliest rates of each search are tried, unless an earlier attempt nearly explains the array. A ratio
        of ``THRESHOLDS.much_better`` selects an early stage, in which most options are still unknown, and in which
        attempts with a small cost need to gain only a fifth.
        """
        best_starts, is_early = dict[Search, Attempt](), max_ratio <= THRESHOLDS.much_better
        for start in self.starts if self._get_lowest_cost() > THRESHOLDS.near else []:
            best_starts.setdefault(start.search, start)
        for search, start in best_starts.items():
            candidate = start.candidate.remove_noise()
            for resampled_starts in _list_starts_at_likely_rates(search, candidate, is_early):
                best = search.improve_starts(resampled_starts)[0]
                # A candidate with few wrong options probably has the right rate, so it needs to gain only a fifth.
                is_likely = is_early and search.get_cost(best) < THRESHOLDS.close
                max_cost = start.cost * (THRESHOLDS.better if is_likely else max_ratio)
                if search.get_cost(best) > max_cost or self.budget.is_stage_over():
                    break
                yield from _try_resamplers(search, candidate.source, resampled_starts, best)

    def _search_mistaken(self) -> Iterator[Attempt]:
        """Yield attempts with misread audio (:func:`list_mistakes`), such as audio with swapped bytes.

        At most ``THRESHOLDS.mistakes`` likely pairs of a search and a source are tried, each with its first timing. The
        two best starts are improved, and then improved again after their numeric options have been fitted.
        """
        sources = [mistaken for source in self._sources for mistaken in list_mistakes(source, self._recording)]
        pairs = sorted(self._list_pairs(self._searches, sources, certain=None), key=lambda pair: -pair.score)
        likely_pairs = [pair for pair in pairs[: THRESHOLDS.mistakes] if pair.score > THRESHOLDS.likely]
        pairs = [dataclasses.replace(pair, timings=pair.timings[:1]) for pair in likely_pairs]
        for start in self._list_starts(pairs)[:2]:
            if start.cost < THRESHOLDS.unlike:
                attempt = start.improve()
                yield attempt
                yield Attempt(start.search, start.search.refine_options(attempt.candidate)).improve()


def _list_starts_at_likely_rates(search: Search, candidate: Candidate, is_early: bool) -> list[list[Candidate]]:
    """Return starts at up to two other sampling rates of a candidate's audio: for each rate, a list by ascending cost.

    These rates have the lowest costs, which must be below ``THRESHOLDS.other_rate``. With ``is_early``, they must also
    be below the costs of all starts at the candidate's own rate.
    """
    max_cost = THRESHOLDS.other_rate
    if is_early:
        max_cost = min([max_cost, *map(search.get_cost, _list_starts_at_rate(search, candidate, candidate.source))])
    by_rate = [_list_starts_at_rate(search, candidate, source) for source in candidate.source.sources_at_other_rates]
    by_rate = [starts for starts in by_rate if starts and search.get_cost(starts[0]) < max_cost]
    return sorted(by_rate, key=lambda starts: search.get_cost(starts[0]))[:2]


def _list_starts_at_rate(search: Search, candidate: Candidate, source: AudioSource) -> list[Candidate]:
    """Return starts in ``source``, the candidate's audio at any rate, whose rows have the candidate's times."""
    ratio = source.rate / candidate.rate
    row_shift = round(candidate.shift * ratio) * search.sheet.arrangement.stride
    center = (candidate.first_sample + candidate.size / 2) * ratio
    return search.list_starts(source, [Timing(row_shift, center, score=1.0, is_whole=True)])


def _try_resamplers(search: Search, source: AudioSource, starts: list[Candidate], best: Candidate) -> Iterator[Attempt]:
    """Yield attempts with the two resamplers of the lowest costs, each before and after improving all options.

    The resamplers convert ``source`` to the sampling rate of ``starts``. ``best`` is the best of the improved starts.
    """
    sources = list_resamplings(source, int(best.rate))
    # Resamplers differ above half of the lower rate, so begin again with the nearest resampler.
    if search.get_cost(best) > THRESHOLDS.near:
        nearest = search.find_best_candidate(best.change({"source": resampled}) for resampled in sources).source
        restarts = search.improve_starts([start.change({"source": nearest}) for start in starts])
        best = search.find_best_candidate((best, restarts[0]))
    improved = search.improve_candidate(best)
    candidates = sorted((improved.change({"source": resampled}) for resampled in sources), key=search.get_cost)
    for candidate in candidates[:2]:
        yield Attempt(search, candidate)
        yield Attempt(search, candidate).improve()


def _list_usual_framings(attempt: Attempt) -> Iterator[Candidate]:
    """Yield an attempt's candidate with its frames at usual positions, which have no ``offset``.

    The array's first row begins at the same sample as before. If frames at usual positions do not begin there, yield up
    to three candidates for parts of the audio in which a frame at a usual position does.
    """
    candidate, sheet = attempt.candidate, attempt.search.sheet
    usual = candidate.list_same_framings()[:1] if candidate.offset else [candidate]
    yield from usual
    if usual:
        return
    frame_count = len(sheet.values) * sheet.arrangement.stride
    for changes in ({"snip_edges": True}, {"snip_edges": False}, {"padding": "reflect-window"}):
        framed = candidate.change(changes | {"offset": 0, "start": 0})
        # The first frame of a padded part begins before it, and its last frame ends as many samples after it.
        first_sample = candidate.first_sample - framed.origin
        length = (frame_count - 1) * framed.shift + framed.size + 2 * framed.origin
        if first_sample >= 0 and length > 0:
            yield framed.change({"source": cut_part(candidate.source, first_sample, length)})


def _measure_clipped_cost(search: Search, candidate: Candidate, level: float) -> float:
    """Return the cost of a candidate with audio clipped to ``level``. The clipped audio is not kept in memory."""
    source = limit_source(candidate.source, level)
    cost = search.get_cost(candidate.change({"source": source}))
    search.release_source(source)
    return cost


def _refine_level(search: Search, candidate: Candidate, level: float, reach: float, iterations: int) -> float:
    """Return the clipping level with the smallest cost, by a golden-section search over the logarithm of the level.

    The search starts from ``level``, changes the natural logarithm by at most ``reach``, and shrinks the searched
    interval to 62% in each of the ``iterations``. The audio of ``candidate`` is not clipped. A whole number of 16-bit
    steps is preferred if it does not increase the cost, because audio is usually clipped after conversion to integers.
    """

    def measure_log_level(log_level: float) -> tuple[float, float]:
        """Return the cost for the level ``exp(log_level)``, and ``log_level``."""
        return _measure_clipped_cost(search, candidate, math.exp(log_level)), log_level

    low, high, ratio = math.log(level) - reach, math.log(level) + reach, (5**0.5 - 1) / 2
    left, right = measure_log_level(high - ratio * (high - low)), measure_log_level(low + ratio * (high - low))
    for _ in range(iterations):
        if left < right:  # The first numbers of the pairs are the costs.
            (_, high), right = right, left
            left = measure_log_level(high - ratio * (high - low))
        else:
            (_, low), left = left, right
            right = measure_log_level(low + ratio * (high - low))
    cost, best_log_level = min(left, right)
    step, best = candidate.source.full_scale / 32768, math.exp(best_log_level)
    rounded = max(round(best / step), 1) * step
    return rounded if _measure_clipped_cost(search, candidate, rounded) <= max(cost, THRESHOLDS.explained) else best
