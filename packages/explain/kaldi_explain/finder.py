"""Find the features of an array in audio, in stages from the most common computations to rare ones."""

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

PASTED = (3, 1, 2, 4)  # Numbers of columns, likeliest first, that another feature, such as pitch, may add.
CLIPPED_SHARES = (0.003, 0.01, 0.03, 0.07, 0.15, 0.3)  # Shares of samples that a tried level clips.
# Usual numbers of columns of a feature. Parts of an array with such a width are tried first.
USUAL_COLUMNS = (80, 40, 13, 23, 64, 20, 24, 26, 30, 60, 128)


@dataclass
class Attempt:
    """A candidate of a search."""

    search: Search
    candidate: Candidate

    @property
    def cost(self) -> float:
        """Root of the share of the array's variance that the candidate leaves unexplained."""
        return self.search.get_cost(self.candidate)

    def improve(self) -> Attempt:
        """Return a new attempt whose options the search has improved."""
        return Attempt(self.search, self.search.improve_candidate(self.candidate))


@dataclass(frozen=True)
class Stage:
    """A stage of the search with its name, a function that yields attempts, and a limit in seconds of the budget."""

    name: str
    run: Callable[[], Iterator[Attempt]]
    seconds: float


def _may_include_pitch(column_count: int) -> bool:
    """Return True if ``column_count`` is not in USUAL_COLUMNS, but would be without three columns of pitch."""
    return column_count not in USUAL_COLUMNS and column_count - PASTED[0] in USUAL_COLUMNS


def _list_sheets(target: Doubles, words: list[str], step: float) -> Iterator[Sheet]:
    """Yield a sheet for each plausible orientation of an array and each arrangement that its columns may have.

    An orientation has at most ``THRESHOLDS.columns`` columns, and two or more rows that depend on the audio. ``words``
    describe earlier repairs of the array, and ``step`` is the largest error of its stored numbers.
    """
    for orientation_words, values in arrangements.list_orientations(target):
        if values.shape[1] <= THRESHOLDS.columns and len(values) > 1:
            rows, columns = arrangements.find_informative_rows_and_columns(values)
            if rows.sum() >= 2 and columns.any():
                informative = np.flatnonzero(rows)
                sample = values[informative[0] : min(informative[-1] + 1, informative[0] + THRESHOLDS.arrangement_rows)]
                for arrangement in arrangements.list_arrangements(sample):
                    yield Sheet([*words, *orientation_words], values, arrangement, rows, columns, step)


class Finder:
    """Search for the features of an array, in stages. The search ends when the array is explained.

    Args:
        target: the array (frames, columns).
        words: descriptions of the changes to the array.
        sources: channels of the recording.
        recording: the recording (channels, T).
        tolerance: function that returns the largest difference that an attempt may leave, beyond ``step``.
        budget: work that the answer may do.
        step: largest error of the stored numbers.

    Attributes:
        begun: the attempts with which the search began, the best first.
    """

    def __init__(
        self, target: Doubles, words: list[str], sources: Sequence[AudioSource], recording: npt.NDArray[Any],
        tolerance: Callable[[Attempt], float], budget: Budget, step: float = 0.0,
    ) -> None:  # fmt: skip
        self._sources, self._recording, self._tolerance, self.budget = sources, recording, tolerance, budget
        self._unit = 1 / max(source.full_scale for source in sources)  # Scales the samples to -1 to 1.
        self._searches = [Search(sheet, budget, self._unit) for sheet in _list_sheets(target, words, step)]
        # Settled candidates by key. None stands for a candidate that cannot be compared with the array.
        self._settled: dict[tuple[Any, ...], Settled | None] = {}
        self._attempts: list[Attempt] = []
        self.begun: list[Attempt] = []
        self._best_timing_score = -1.0  # Score, from 0 to 1, of the likeliest timing so far. -1 if there is none.

    def find_best_attempt(self) -> tuple[Attempt, Settled] | None:
        """Return the first attempt that explains the array, and its :class:`Settled` candidate.

        If no attempt explains the array, return the one of the three best attempts that leaves the least unexplained,
        or None if no attempt resembles the array.
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
                if settled := self._explain_array(attempt, stage.name in ("starts", "anywhere")):
                    return attempt, settled
            self._attempts.sort(key=lambda attempt: attempt.cost)
            stages = self._reorder_stages(stage, stages)
        nearest: list[tuple[Attempt, Settled]] = []
        for attempt in self._attempts[:3]:
            if nearest and self.budget.is_settling_over():
                break
            if attempt.cost < THRESHOLDS.hopeless and (settled := self._settle_attempt(attempt)):
                nearest.append((attempt, settled))
        return min(nearest, key=lambda pair: (pair[1].measure_unexplained(), pair[0].cost), default=None)

    def _reorder_stages(self, finished_stage: Stage, stages: list[Stage]) -> list[Stage]:
        """Return the ``stages`` that remain after ``finished_stage``, the likeliest first.

        If neither features nor energies of the audio resemble the array, only "mistakes" and "deltas" are returned.
        """
        urgent: tuple[str, ...] = ()
        if finished_stage.name == "starts" and self.begun:
            if _may_include_pitch(self.begun[0].search.sheet.values.shape[1]):
                urgent = ("parts",)
            elif self._get_lowest_cost() > THRESHOLDS.other_audio and self._has_shift_of_other_rate():
                urgent = ("mistakes",)
            elif self._get_lowest_cost() > THRESHOLDS.other_audio:
                urgent = ("deltas", "anywhere", "clipping", "mistakes")
        elif finished_stage.name == "anywhere" and self._get_lowest_cost() < THRESHOLDS.unlike:
            stages = sorted(stages, key=lambda stage: stage.name == "mistakes")
        if self._best_timing_score < THRESHOLDS.likely and self._get_lowest_cost() >= THRESHOLDS.hopeless:
            stages = [stage for stage in stages if stage.name in ("mistakes", "deltas")]
        return sorted(stages, key=lambda stage: urgent.index(stage.name) if stage.name in urgent else len(urgent))

    def _get_lowest_cost(self) -> float:
        return min((attempt.cost for attempt in self._attempts), default=THRESHOLDS.incomparable)

    def _has_shift_of_other_rate(self) -> bool:
        """Return True if the best start's frame shift is 10 ms at another usual rate, but not at the audio's rate."""
        start = self.begun[0]
        shift = start.candidate.shift * start.search.sheet.arrangement.stride
        return 100 * shift in RATES and 100 * shift != start.candidate.rate

    def _explain_array(self, attempt: Attempt, is_start: bool) -> Settled | None:
        """Return the :class:`Settled` candidate of an attempt, or None if it does not explain all columns but pitch.

        Only dithering is tried if the attempt is not near the array, or is a start (``is_start``) and not equal to it.
        """
        sheet = attempt.search.sheet
        tolerance, columns = self._tolerance(attempt), sheet.values.shape[1]
        spread = max(float(np.median(sheet.feature_values[sheet.rows].std(0))), 1e-30)
        max_cost = THRESHOLDS.explained if is_start else THRESHOLDS.near + (tolerance + sheet.step) / spread
        if attempt.cost > max_cost and (sheet, attempt.candidate.key) not in self._settled:
            is_alike = attempt.cost < THRESHOLDS.unlike and not self.budget.is_settling_over()
            return self._explain_by_dithering(attempt) if is_alike else None
        settled = self._settle_attempt(attempt)
        is_whole = sheet.arrangement.words or sheet.arrangement.is_whole(columns) or _may_include_pitch(columns)
        if not settled or not is_whole:  # A later stage may explain the columns that this attempt leaves out.
            return None
        is_certain = attempt.cost < THRESHOLDS.explained and not sheet.arrangement.words
        return settled if is_certain or settled.is_explained_by(tolerance) else None

    def _explain_by_dithering(self, attempt: Attempt) -> Settled | None:
        """Return the :class:`Settled` candidate with Kaldi's dithering, or None if this does not explain the array."""
        dithered, sheet = attempt.candidate.remove_noise().change({"dithered": True}), attempt.search.sheet
        tolerance = self._tolerance(attempt)
        settled = fit_map(dithered, sheet, tolerance) if dithered.is_computed_by_engine else None
        return settled if settled and settled.fit.residual <= tolerance else None

    def _settle_attempt(self, attempt: Attempt) -> Settled | None:
        """Settle an attempt without noise in usual framings. Return the nearest result, or None if there is none."""
        attempt = Attempt(attempt.search, attempt.candidate.remove_noise())
        key = (attempt.search.sheet, attempt.candidate.key)
        if key not in self._settled:
            settling = Settling(attempt.search, self._tolerance(attempt))
            candidates = self.budget.limit(_list_usual_framings(attempt))
            settled = [result for result in map(settling.settle_candidate, candidates) if result]
            self._settled[key] = min(settled, key=lambda result: result.fit.residual, default=None)
        return self._settled[key]

    # The following methods begin a search, and run the stages, which yield attempts.

    def _begin_searches(
        self, searches: Iterable[Search], sources: Sequence[AudioSource], *, max_pairs: int = 0,
        certain: float = THRESHOLDS.certain,
    ) -> list[Attempt]:  # fmt: skip
        """Return the attempts, the best first, with which ``searches`` for the array's features begin in ``sources``.

        ``max_pairs`` is the number of pairs of a search and a whole source that are tried, the likeliest first. 0
        selects all pairs, and also parts of a source unless the score of the whole source is above ``certain``. With 0,
        the method also updates the best score of a timing, which :meth:`_reorder_stages` uses.
        """
        # The first two values sort the assumptions: timings of whole sources (False) first, then the highest scores.
        assumptions: list[tuple[bool, float, Search, AudioSource, list[Timing]]] = []
        for search, source in itertools.product(searches, sources):
            # Sources shorter than 25 ms have no whole frame.
            if not search.pattern or source.length < source.rate / 40 or self.budget.is_stage_over():
                continue
            stride = search.sheet.arrangement.stride
            timings = search.pattern.list_timings(source, stride, parts=not max_pairs, certain=certain)
            if timings:
                best = max(timings, key=lambda timing: timing.score)
                is_usual = abs(1000 * best.shift / source.rate / stride - 10) < 0.1
                # Most features have a frame shift of 10 ms, so mistakes in reading the audio that give it are likelier.
                score = best.score + (0.2 if max_pairs and is_usual else 0)
                self._best_timing_score = max(self._best_timing_score, best.score if not max_pairs else -1.0)
                assumptions.append((not any(timing.is_whole for timing in timings), -score, search, source, timings))
        assumptions.sort(key=lambda assumption: assumption[:2])
        attempts: list[Attempt] = []
        for _, score, search, source, timings in assumptions[: max_pairs or None]:
            if not max_pairs or -score > THRESHOLDS.likely:
                starts = search.list_starts(source, timings[:1] if max_pairs else timings)
                attempts += [Attempt(search, start) for start in starts]
            is_explained = any(attempt.cost < THRESHOLDS.explained for attempt in attempts)
            if self.budget.is_stage_over() or (is_explained and not search.sheet.arrangement.words):
                break
        attempts.sort(key=lambda attempt: attempt.cost)
        if attempts and attempts[0].cost > THRESHOLDS.explained:
            chosen, attempts = attempts[: THRESHOLDS.starts], attempts[THRESHOLDS.starts :]
            for search in dict.fromkeys(attempt.search for attempt in chosen):
                starts = [attempt.candidate for attempt in chosen if attempt.search is search]
                attempts += [Attempt(search, start) for start in search.improve_starts(starts)]
        return sorted(attempts, key=lambda attempt: attempt.cost)

    def _search_starts(self) -> Iterator[Attempt]:
        """Set :attr:`begun`, and yield its two best attempts."""
        self.begun = self._begin_searches(self._searches, self._sources)
        yield from self.begun[:2]

    def _search_anywhere(self) -> Iterator[Attempt]:
        """Try reversed columns and parts of the audio, if the audio's energies fit but no feature does.

        The new starts are added to :attr:`begun`, and the best two of all starts are yielded.
        """
        plain_sheets = (search.sheet for search in self._searches if not search.sheet.arrangement.words)
        reversed_searches = [Search(sheet.reverse_columns(), self.budget, self._unit) for sheet in plain_sheets]
        trials = (
            (THRESHOLDS.likely, reversed_searches, THRESHOLDS.certain), (THRESHOLDS.certain, self._searches, 1.0)
        )  # fmt: skip
        for min_score, searches, certain in trials:
            if self._best_timing_score > min_score and self._get_lowest_cost() >= THRESHOLDS.unlike:
                begun = self._begin_searches(searches, self._sources, certain=certain)
                self.begun = sorted([*begun, *self.begun], key=lambda attempt: attempt.cost)
                yield from self.begun[:2]

    def _improve_starts(self) -> Iterator[Attempt]:
        """Yield the best starts with improved options. If one is near the array, also yield its other arrangements."""
        for start in self.begun[: THRESHOLDS.descents]:
            if start.cost < THRESHOLDS.unlike or start is self.begun[0]:
                attempt = start.improve()
                yield attempt
                if attempt.cost < THRESHOLDS.near and start.search.sheet.arrangement.words:
                    yield from self._list_rearranged_attempts(attempt)

    def _list_rearranged_attempts(self, attempt: Attempt) -> Iterator[Attempt]:
        """Yield the candidate for each other search with a named arrangement, moved by up to 8 frames to fit best."""
        start = attempt.candidate.start
        for search in self._searches:
            if search is not attempt.search and search.sheet.arrangement.words:
                shifts = range(-THRESHOLDS.stack // 2, THRESHOLDS.stack // 2)
                yield Attempt(
                    search, search.find_best_candidate(attempt.candidate.change({"start": start + n}) for n in shifts)
                )

    def _refine_numbers(self) -> Iterator[Attempt]:
        """Yield the best attempts with fitted numeric options, and then with all options improved."""
        for attempt in [*self.begun[:2], *self._attempts[:1]]:
            if attempt.cost <= THRESHOLDS.unlike and not self.budget.is_stage_over():
                refined = Attempt(attempt.search, attempt.search.refine_options(attempt.candidate))
                yield refined
                yield refined.improve()

    def _search_parts(self) -> Iterator[Attempt]:
        """Yield the two best attempts for an array without some columns at an end, which may be pitch, for example.

        Each must explain a fifth of the cost, because with fewer columns wrong options imitate noise a little better.
        """
        lowest, attempts = min(self._get_lowest_cost(), THRESHOLDS.unlike), list[Attempt]()
        plain_sheets = (search.sheet for search in self._searches if not search.sheet.arrangement.words)
        for sheet in plain_sheets if lowest > THRESHOLDS.close else ():
            column_count = sheet.values.shape[1]
            parts = [slice(0, column_count - count) for count in PASTED]
            parts += [slice(count, column_count) for count in PASTED[:2]]
            parts.sort(key=lambda part: part.stop - part.start not in USUAL_COLUMNS)
            for part in parts if column_count >= 8 else ():
                is_inside = np.isin(np.arange(column_count), np.arange(column_count)[part]) & sheet.columns
                if self.budget.is_stage_over() or not is_inside.any():
                    break
                narrow = dataclasses.replace(sheet, arrangement=arrangements.Arrangement("", part), columns=is_inside)
                attempts += self._begin_searches([Search(narrow, self.budget, self._unit)], self._sources)[:1]
                if attempts and min(attempt.cost for attempt in attempts) < THRESHOLDS.much_better * lowest:
                    break
        attempts.sort(key=lambda attempt: attempt.cost)
        improved = (attempt.improve() for attempt in attempts[:2] if attempt.cost < lowest)
        yield from (attempt for attempt in improved if attempt.cost < THRESHOLDS.better * lowest)

    def _search_windows(self) -> Iterator[Attempt]:
        """Yield the best attempt with a normalization in a sliding window, if the normalization explains the array.

        A sliding window hardly affects the changes from row to row. The search continues only if these changes agree
        much better than the rows, or if the rows hardly agree at all.
        """
        for attempt in self._attempts[:1]:
            sheet = attempt.search.sheet
            search, tolerance = Search(sheet, self.budget, self._unit, by_differences=True), self._tolerance(attempt)
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
            start = round(candidate.start / sheet.arrangement.stride)
            sliding = arrangements.list_sliding_arrangements(features, sheet.values, start)
            for arrangement in self.budget.limit(sliding):
                settled = fit_map(candidate, sheet, tolerance, arrangement=arrangement)
                if settled is not None and settled.fit.residual <= tolerance:
                    self._settled[sheet, candidate.key] = settled
                    yield Attempt(search, candidate)
                    return

    def _search_as_deltas(self) -> Iterator[Attempt]:
        """Yield attempts in which the array contains only the deltas of features."""
        # Second deltas of a feature resemble the feature. If plain features already resemble the array, a match with
        # deltas would therefore prove nothing.
        if self._get_lowest_cost() < THRESHOLDS.other_audio:
            return
        plain_sheets = [search.sheet for search in self._searches if not search.sheet.arrangement.words]
        plain_sheets = [sheet for sheet in plain_sheets if arrangements.may_be_deltas(sheet.values[sheet.rows])]
        begun = list[Attempt]()
        for order in (1, 2):
            searches = [self._make_delta_search(sheet, order, 2) for sheet in plain_sheets]
            begun = sorted([*begun, *self._begin_searches(searches, self._sources)], key=lambda attempt: attempt.cost)
            yield from begun[:1]
        for attempt in (attempt for attempt in begun[: THRESHOLDS.descents] if attempt.cost < THRESHOLDS.hopeless):
            variations = itertools.product((1, 2), (2, 1, 3, 4))
            searches = [self._make_delta_search(attempt.search.sheet, order, window) for order, window in variations]
            search = min(searches, key=lambda search: search.get_cost(attempt.candidate))
            yield Attempt(search, attempt.candidate).improve()

    def _make_delta_search(self, sheet: Sheet, order: int, window: int) -> Search:
        """Return a search for features whose deltas (``order``, ``window`` frames on each side) are the array."""
        arrangement = arrangements.make_deltas_alone(order, window)
        return Search(dataclasses.replace(sheet, arrangement=arrangement), self.budget, self._unit)

    def _search_clipped(self) -> Iterator[Attempt]:
        """Yield attempts whose cost falls by over a fifth after amplifying and clipping, or clipping below the peak."""
        for attempt in self.begun[:1] if THRESHOLDS.near < self._get_lowest_cost() < THRESHOLDS.hopeless else []:
            candidate = attempt.candidate.remove_noise()
            clipped = [candidate.change({"source": source}) for source in list_clippings(candidate.source)]
            best = attempt.search.find_best_candidate((candidate, *clipped))
            if is_better := attempt.search.get_cost(best) < THRESHOLDS.better * attempt.cost:
                yield Attempt(attempt.search, best)
            yield from self._search_limited_audio(attempt.cost)
            if is_better:
                yield Attempt(attempt.search, best).improve()

    def _search_limited_audio(self, plain_cost: float) -> Iterator[Attempt]:
        """Yield an attempt with short audio clipped below its peak if this reduces ``plain_cost`` by over a fifth."""
        short_attempts = [
            attempt
            for attempt in self.begun[: THRESHOLDS.descents]
            if attempt.candidate.source.length < THRESHOLDS.clipped_seconds * attempt.candidate.source.rate
        ]
        trials = list[tuple[float, float, Search, Candidate]]()
        for attempt in short_attempts:
            candidate = attempt.candidate.remove_noise()
            for level in np.quantile(np.abs(candidate.source.samples), 1 - np.array(CLIPPED_SHARES)).tolist():
                cost = _measure_clipped_cost(attempt.search, candidate, level) if level else THRESHOLDS.incomparable
                trials.append((cost, level, attempt.search, candidate))
        cost, level, search, plain = min(trials, key=lambda trial: trial[0], default=(plain_cost, 0.0, None, None))
        if search is None or plain is None or cost >= THRESHOLDS.better * plain_cost:
            return
        # 11 iterations find the level to 0.5%. After the options have been improved, 20 iterations find it to 0.001%.
        level = _refine_level(search, plain, level, math.log(1.7), 11)
        clipped = limit_source(plain.source, level)
        # The options of the first start were chosen without clipping and may be wrong, so begin again with clipping.
        restarts = [attempt.candidate.remove_noise() for attempt in self._begin_searches([search], [clipped])[:1]]
        best = search.find_best_candidate((plain.change({"source": clipped}), *restarts))
        best = Attempt(search, best).improve().candidate.remove_noise()
        level = _refine_level(search, best.change({"source": plain.source}), level, 0.05, 20)
        yield Attempt(search, best.change({"source": limit_source(plain.source, level)}))

    def _search_resampled(self, share: float) -> Iterator[Attempt]:
        """Yield attempts with resampled audio, if resampling leaves at most the share ``share`` of the cost.

        An FFT resampler finds the two likeliest rates. For both, all resamplers are tried, and the best two are used.
        """
        best_attempts, is_certain = dict[Search, Attempt](), share <= THRESHOLDS.much_better
        for attempt in self.begun if self._get_lowest_cost() > THRESHOLDS.near else []:
            best_attempts.setdefault(attempt.search, attempt)
        for search, attempt in best_attempts.items():
            candidate, limit = attempt.candidate.remove_noise(), THRESHOLDS.other_rate
            if is_certain:  # With the same usual options at both rates, the right rate has the lower cost.
                starts_at_same_rate = _list_starts_at_rate(search, candidate, candidate.source)
                limit = min([limit, *map(search.get_cost, starts_at_same_rate)])
            by_rate = [
                _list_starts_at_rate(search, candidate, other) for other in candidate.source.sources_at_other_rates
            ]
            by_rate = [starts for starts in by_rate if starts and search.get_cost(starts[0]) < limit]
            for starts in sorted(by_rate, key=lambda starts: search.get_cost(starts[0]))[:2]:
                best = search.improve_starts(starts)[0]
                # An attempt with few wrong options probably has the right rate, so it needs to gain only a fifth.
                is_likely = is_certain and search.get_cost(best) < THRESHOLDS.close
                max_cost = attempt.cost * (THRESHOLDS.better if is_likely else share)
                if search.get_cost(best) > max_cost or self.budget.is_stage_over():
                    break
                sources = list_resamplings(candidate.source, int(best.rate))
                # Resamplers differ above half of the lower rate, so begin again with the nearest resampler.
                if search.get_cost(best) > THRESHOLDS.near:
                    nearest = search.find_best_candidate(best.change({"source": source}) for source in sources).source
                    restarts = search.improve_starts([start.change({"source": nearest}) for start in starts])
                    best = search.find_best_candidate((best, restarts[0]))
                improved = search.improve_candidate(best)
                resampled = sorted((improved.change({"source": source}) for source in sources), key=search.get_cost)
                for likeliest in resampled[:2]:
                    yield Attempt(search, likeliest)
                    yield Attempt(search, likeliest).improve()

    def _search_mistaken(self) -> Iterator[Attempt]:
        """Yield attempts with the audio of :func:`list_mistakes`, such as a wrong sampling rate or swapped bytes."""
        sources = [mistaken for source in self._sources for mistaken in list_mistakes(source, self._recording)]
        for start in self._begin_searches(self._searches, sources, max_pairs=THRESHOLDS.mistakes)[:2]:
            if start.cost < THRESHOLDS.unlike:
                attempt = start.improve()
                yield attempt
                yield Attempt(start.search, start.search.refine_options(attempt.candidate)).improve()


def _list_starts_at_rate(search: Search, candidate: Candidate, source: AudioSource) -> list[Candidate]:
    """Return a search's starts at the frame times of a candidate. ``source`` is its audio, at this or another rate."""
    ratio = source.rate / candidate.rate
    row_shift = round(candidate.shift * ratio) * search.sheet.arrangement.stride
    center = (candidate.first_sample + candidate.size / 2) * ratio
    return search.list_starts(source, [Timing(row_shift, center, 1.0, True)])


def _list_usual_framings(attempt: Attempt) -> Iterator[Candidate]:
    """Yield an attempt's candidate with a usual framing and the same first sample.

    If no usual framing begins with this sample, yield up to three candidates for parts of the audio, in which a usual
    framing begins with it.
    """
    candidate, sheet = attempt.candidate, attempt.search.sheet
    if not candidate.offset:
        yield candidate
        return
    if usual := candidate.list_same_framings():
        yield usual[0]
        return
    for changes in ({"snip_edges": True}, {"snip_edges": False}, {"padding": "reflect-window"}):
        framed = candidate.change(changes | {"offset": 0, "start": 0})
        first, frame_count = candidate.first_sample - framed.first, len(sheet.values) * sheet.arrangement.stride
        length = (frame_count - 1) * framed.shift + framed.size + 2 * framed.first
        if first >= 0 and length > 0:
            yield framed.change({"source": cut_part(candidate.source, first, length)})


def _measure_clipped_cost(search: Search, candidate: Candidate, level: float) -> float:
    """Return the cost of a candidate whose audio is clipped to a level. Remove the clipped audio from the caches."""
    source = limit_source(candidate.source, level)
    cost = search.get_cost(candidate.change({"source": source}))
    search.release_source(source)
    return cost


def _refine_level(search: Search, candidate: Candidate, level: float, reach: float, iterations: int) -> float:
    """Return the clipping level with the smallest cost, found by a golden-section search.

    A whole number of 16-bit steps is preferred, because audio is usually clipped after conversion to integers.
    ``candidate`` has unclipped audio, and the search begins at ``level``. ``reach`` is the largest difference between
    the logarithms of ``level`` and of the result. An iteration shrinks the interval to 62%.
    """

    def measure_log_level(log_level: float) -> tuple[float, float]:
        """Return the cost for the level ``exp(log_level)``, and ``log_level``."""
        return _measure_clipped_cost(search, candidate, math.exp(log_level)), log_level

    low, high, ratio = math.log(level) - reach, math.log(level) + reach, (5**0.5 - 1) / 2
    left, right = measure_log_level(high - ratio * (high - low)), measure_log_level(low + ratio * (high - low))
    for _ in range(iterations):
        if left < right:
            high, right = right[1], left
            left = measure_log_level(high - ratio * (high - low))
        else:
            low, left = left[1], right
            right = measure_log_level(low + ratio * (high - low))
    cost, log_best = min(left, right)
    step, best = candidate.source.full_scale / 32768, math.exp(log_best)
    rounded = max(round(best / step), 1) * step
    return rounded if _measure_clipped_cost(search, candidate, rounded) <= max(cost, THRESHOLDS.explained) else best
