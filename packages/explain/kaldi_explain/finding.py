"""Find the features of an array in audio: its orientation and arrangement, the audio, and the search to use."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat.exact.arrays import Doubles
from kaldi_explain import arrangements
from kaldi_explain.search import (
    EXPLAINED,
    MOST_STARTS,
    NEAR,
    NOTHING,
    UNLIKE,
    Candidate,
    Search,
    Sheet,
    TimeLimit,
)
from kaldi_explain.settling import Settled, Settling, map_to
from kaldi_explain.sources import AudioSource, part_of, resamplings, with_mistakes
from kaldi_explain.timing import CERTAIN, Timing

SLIDING_LEFT = 0.25  # of them at most: the mean of a window changes, too
SOME_ROWS = 300  # that show how features are arranged
MAX_COLUMNS = 9000
HOPELESS = 0.85  # cost of features that do not resemble an array at all
LIKELY = 0.4  # share of the variance that energies explain, if an array is of this audio
MOST_DESCENTS = 3
PASTED = (3, 1, 2, 4)  # columns of another feature beside one
USUAL_COLUMNS = (80, 40, 13, 23, 64, 20, 24, 26, 30, 60, 128)
MOST_MISTAKES, USUAL = 6, 0.2  # that are tried; by how much frames of 10 ms are likelier
SLIDING = 0.7  # share of the cost that is left of changes in time, if a window's mean was subtracted
OTHER_AUDIO = 0.3, 0.35  # cost above which the audio is more likely another: of unusual frames, and of those of 10 ms
CUT, MUCH = 0.8, 0.4  # share of a cost that is left, if the audio is another; if that is certain
OF_ALL = 0.05  # cost below which all columns are those of one feature
MOST_STACK = 8  # frames before the one that is in the middle of a stack
OTHER_RATE = 0.55  # cost of features with usual options, if the audio has been resampled to their rate
PART = 0.5  # share of a cost, if a part of the columns is another feature


@dataclass
class Attempt:
    """A candidate that a search has found for a sheet."""

    search: Search
    candidate: Candidate

    @property
    def cost(self) -> float:
        """Share of the array's variance that is left."""
        return self.search.cost(self.candidate)

    def descend(self) -> Attempt:
        """Return the attempt with the options that explain most."""
        return Attempt(self.search, self.search.descend(self.candidate))


def _has_more(columns: int) -> bool:
    """Return True if a usual number of columns may have others at its side."""
    return columns not in USUAL_COLUMNS and columns - PASTED[0] in USUAL_COLUMNS


def _sheets_of(target: Doubles, said: list[str], step: float) -> Iterator[Sheet]:
    """Yield an array in both orientations, and as the arrangements that it may have."""
    for turned, values in arrangements.orientations(target):
        if values.shape[1] <= MAX_COLUMNS and len(values) > 1:
            rows, columns = arrangements.informative(values)
            if rows.sum() >= 2 and columns.any():
                places = np.flatnonzero(rows)
                some = values[places[0] : min(places[-1] + 1, places[0] + SOME_ROWS)]
                for arrangement in arrangements.arrangements_of(some):
                    yield Sheet([*said, *turned], values, arrangement, rows, columns, step)


class Finder:
    """Search in stages, from the most usual computations to rare ones, that ends when an array is explained.

    ``tolerance`` returns the largest absolute difference that counts as explained beyond ``step``, the largest error of
    the stored numbers. ``begun`` holds the attempts with which the search began, the best first.
    """

    def __init__(
        self, target: Doubles, said: list[str], sources: Sequence[AudioSource], recording: npt.NDArray[Any],
        tolerance: Callable[[Attempt], float], clock: TimeLimit, step: float = 0.0,
    ) -> None:  # fmt: skip
        self._sources, self._recording, self._tolerance, self.clock = sources, recording, tolerance, clock
        self._unit = 1 / max(each.full_scale for each in sources)
        self._searches = [Search(sheet, clock, self._unit) for sheet in _sheets_of(target, said, step)]
        self._settled: dict[tuple[Any, ...], Settled | None] = {}
        self._attempts: list[Attempt] = []
        self.begun: list[Attempt] = []
        self._likeliest = -1.0, False  # score of the likeliest frames, and True if they are 10 ms apart

    def find(self) -> tuple[Attempt, Settled] | None:
        """Return what explains most of the array, and how; None if it resembles no feature."""
        stages: list[tuple[Callable[[], Iterator[Attempt]], float]] = [
            (self._at_starts, 2.0), (self._anywhere, 1.5), (functools.partial(self._resampled, MUCH), 2.5),
            (self._plainly, 2.5), (self._in_windows, 1.0), (functools.partial(self._resampled, CUT), 2.5),
            (self._of_parts, 1.5), (self._in_more_detail, 2.0), (self._mistaken, 2.0),
        ]  # fmt: skip
        while self._searches and stages and not self.clock.is_at_end():
            stage, seconds = stages.pop(0)
            self.clock.begin_stage(seconds)
            for attempt in stage():
                self._attempts.append(attempt)
                if settled := self._explain(attempt, stage in (self._at_starts, self._anywhere)):
                    return attempt, settled
            self._attempts.sort(key=lambda each: each.cost)
            if stage == self._at_starts and self.begun:
                of_speech = self._likeliest[1]
                if _has_more(self.begun[0].search.sheet.values.shape[1]):
                    stages.sort(key=lambda each: each[0] != self._of_parts)
                elif self._least() > OTHER_AUDIO[of_speech]:
                    stages.sort(key=lambda each: (each[0] != self._anywhere, each[0] != self._mistaken))
            elif stage == self._anywhere and self._least() < UNLIKE:
                stages.sort(key=lambda each: each[0] == self._mistaken)
            if self._likeliest[0] < LIKELY and self._least() >= HOPELESS:  # neither features nor energies resemble it
                stages = [each for each in stages if each[0] == self._mistaken]
        nearest: list[tuple[Attempt, Settled]] = []
        for each in self._attempts[:3]:
            if not (nearest and self.clock.is_settled()) and each.cost < HOPELESS and (settled := self._settle(each)):
                nearest.append((each, settled))
        return min(nearest, key=lambda each: (each[1].left(), each[0].cost), default=None)

    def _least(self) -> float:
        return min((each.cost for each in self._attempts), default=NOTHING)

    def _explain(self, attempt: Attempt, is_start: bool) -> Settled | None:
        """Return how an attempt explains the array, if it does; a start, which may become better, only if equal."""
        sheet = attempt.search.sheet
        tolerance, columns = self._tolerance(attempt), sheet.values.shape[1]
        spread = max(float(np.median(sheet.own[sheet.rows].std(0))), 1e-30)
        near = EXPLAINED if is_start else NEAR + (tolerance + sheet.step) / spread
        if attempt.cost > near and (sheet, attempt.candidate.key) not in self._settled:
            return self._dithered(attempt) if attempt.cost < UNLIKE and not self.clock.is_settled() else None
        settled = self._settle(attempt)
        if not settled or not (sheet.arrangement.said or sheet.arrangement.is_whole(columns) or _has_more(columns)):
            return None  # as long as all columns may be explained at once
        is_certain = attempt.cost < EXPLAINED and not sheet.arrangement.said
        return settled if is_certain or settled.is_explained_by(tolerance) else None

    def _dithered(self, attempt: Attempt) -> Settled | None:
        """Return how an attempt with Kaldi's own noise explains the array, if it does."""
        dithered, sheet = attempt.candidate.without_noise().change({"dithered": True}), attempt.search.sheet
        tolerance = self._tolerance(attempt)
        settled = map_to(dithered, sheet, tolerance) if dithered.is_kaldis else None
        return settled if settled and settled.fit.residual <= tolerance else None

    def _settle(self, attempt: Attempt) -> Settled | None:
        """Return the attempt's candidate with all that is done to it."""
        attempt = Attempt(attempt.search, attempt.candidate.without_noise())
        key = (attempt.search.sheet, attempt.candidate.key)
        if key not in self._settled:
            settling = Settling(attempt.search, self._tolerance(attempt))
            made = [settling.settle(each) for each in self.clock.limit(_of_whole_or_part(attempt))]
            self._settled[key] = min((each for each in made if each), key=lambda each: each.fit.residual, default=None)
        return self._settled[key]

    # Stages.

    def _begin(
        self, searches: Iterable[Search], sources: Sequence[AudioSource], most: int = 1, *, parts: bool = True,
        certain: float = CERTAIN,
    ) -> list[Attempt]:  # fmt: skip
        """Return where searches begin in audio, the best first; in the likeliest audio only without ``parts``."""
        assumed: list[tuple[bool, float, Search, AudioSource, list[Timing]]] = []
        for search, source in itertools.product(searches, sources):
            if not search.pattern or source.length < source.rate / 40 or self.clock.is_over():
                continue
            stride = search.sheet.arrangement.stride
            timings = search.pattern.timings(source, stride, parts=parts, certain=certain)
            if timings:
                best = max(timings, key=lambda each: each.score)
                of_speech = abs(1000 * best.shift / source.rate / stride - 10) < 0.1
                score = best.score + (0 if parts else USUAL * of_speech)
                self._likeliest = max(self._likeliest, (best.score, of_speech)) if parts else self._likeliest
                assumed.append((not any(each.is_whole for each in timings), -score, search, source, timings))
        assumed.sort(key=lambda each: each[:2])
        found: list[Attempt] = []
        for _, score, search, source, timings in assumed if parts else assumed[:most]:
            if parts or -score > LIKELY:
                found += [Attempt(search, each) for each in search.starts(source, timings if parts else timings[:1])]
            is_found = any(each.cost < EXPLAINED for each in found) and not search.sheet.arrangement.said
            if self.clock.is_over() or is_found:
                break
        found.sort(key=lambda each: each.cost)
        if found and found[0].cost > EXPLAINED:
            chosen, found = found[:MOST_STARTS], found[MOST_STARTS:]
            for search in dict.fromkeys(each.search for each in chosen):
                starts = search.improve_starts([each.candidate for each in chosen if each.search is search])
                found += [Attempt(search, each) for each in starts]
        return sorted(found, key=lambda each: each.cost)

    def _at_starts(self) -> Iterator[Attempt]:
        """Yield the features with which the search begins."""
        self.begun = self._begin(self._searches, self._sources)
        yield from self.begun[:2]

    def _anywhere(self) -> Iterator[Attempt]:
        """Reverse the columns, and take parts of the audio, if its energies fit the array and no feature does."""
        searches, sources = self._searches, self._sources
        plain = (each.sheet for each in searches if not each.sheet.arrangement.said)
        flipped = [Search(each.reverse(), self.clock, self._unit) for each in plain]
        for wanted, others, certain in ((LIKELY, flipped, CERTAIN), (CERTAIN, searches, 1.0)):
            if self._likeliest[0] > wanted and self._least() >= UNLIKE:
                begun = self._begin(others, sources, certain=certain)
                self.begun = sorted([*begun, *self.begun], key=lambda each: each.cost)
                yield from self.begun[:2]

    def _plainly(self) -> Iterator[Attempt]:
        """Change one option at a time, from the best starts on."""
        for start in self.begun[:MOST_DESCENTS]:
            if start.cost < UNLIKE or start is self.begun[0]:
                attempt = start.descend()
                yield attempt
                if attempt.cost < NEAR and start.search.sheet.arrangement.said:
                    yield from self._otherwise_arranged(attempt)

    def _otherwise_arranged(self, attempt: Attempt) -> Iterator[Attempt]:
        """Yield an attempt with other arrangements, in which other columns are the features themselves."""
        about = attempt.candidate.start
        for search in self._searches:
            if search is not attempt.search and search.sheet.arrangement.said:
                starts = (attempt.candidate.change({"start": about + n}) for n in range(-MOST_STACK, MOST_STACK))
                yield Attempt(search, min(starts, key=search.cost))

    def _in_more_detail(self) -> Iterator[Attempt]:
        """Choose numbers finely, and the first sample, where the audio has been cut."""
        for attempt in [*self.begun[:2], *self._attempts[:1]]:
            if attempt.cost <= UNLIKE and not self.clock.is_over():
                refined = Attempt(attempt.search, attempt.search.refine(attempt.candidate))
                yield refined
                yield refined.descend()

    def _of_parts(self) -> Iterator[Attempt]:
        """Take some columns at an end for another feature, such as pitch."""
        least, found = min(self._least(), UNLIKE), list[Attempt]()
        for sheet in (each.sheet for each in self._searches if least > OF_ALL and not each.sheet.arrangement.said):
            columns = sheet.values.shape[1]
            parts = [slice(0, columns - count) for count in PASTED] + [slice(count, columns) for count in PASTED[:2]]
            parts.sort(key=lambda part: part.stop - part.start not in USUAL_COLUMNS)
            for part in parts if columns >= 8 else ():
                inside = np.isin(np.arange(columns), np.arange(columns)[part]) & sheet.columns
                if self.clock.is_over() or not inside.any():
                    break
                narrow = dataclasses.replace(sheet, arrangement=arrangements.Arrangement("", part), columns=inside)
                found += self._begin([Search(narrow, self.clock, self._unit)], self._sources)[:1]
                if found and min(each.cost for each in found) < PART * least:
                    break
        found.sort(key=lambda each: each.cost)
        yield from (start.descend() for start in found[:2] if start.cost < least)

    def _in_windows(self) -> Iterator[Attempt]:
        """Compare changes in time only, where they are more alike, and then subtract means of windows."""
        for attempt in self._attempts[:1]:
            sheet = attempt.search.sheet
            search, tolerance = Search(sheet, self.clock, self._unit, by_differences=True), self._tolerance(attempt)
            if search.cost(attempt.candidate) > SLIDING * attempt.cost and attempt.cost < UNLIKE:
                return
            candidate = search.descend(attempt.candidate)
            sliding = arrangements.sliding_arrangements() if search.cost(candidate) <= SLIDING_LEFT else ()
            for arrangement in self.clock.limit(sliding):
                settled = map_to(candidate, sheet, tolerance, arrangement=arrangement)
                if settled is not None and settled.fit.residual <= tolerance:
                    self._settled[sheet, candidate.key] = settled
                    yield Attempt(search, candidate)
                    return

    def _resampled(self, share: float) -> Iterator[Attempt]:
        """Take the audio at another rate, as each resampler gives it, where that leaves a share of the cost at most."""
        best_of = dict[Search, Attempt]()
        for attempt in self.begun if self._least() > NEAR else []:
            best_of.setdefault(attempt.search, attempt)
        for search, attempt in best_of.items():
            candidate, begun = attempt.candidate.without_noise(), list[list[Candidate]]()
            for other in candidate.source.at_other_rates:
                ratio = other.rate / candidate.rate
                rows = round(candidate.shift * ratio) * search.sheet.arrangement.stride
                center = (candidate.first_sample + candidate.size / 2) * ratio
                begun.append(search.starts(other, [Timing(rows, center, 1.0, True)]))
            begun = [each for each in begun if each and search.cost(each[0]) < OTHER_RATE]
            for starts in sorted(begun, key=lambda each: search.cost(each[0]))[:2]:
                best = search.improve_starts(starts)[0]
                if search.cost(best) > share * attempt.cost or self.clock.is_over():
                    break
                ways = resamplings(candidate.source, int(best.rate))
                if search.cost(best) > NEAR:  # what each resampler leaves above half of the lower rate decides
                    way = min(ways, key=lambda each: search.cost(best.change({"source": each})))
                    resampled = search.improve_starts([start.change({"source": way}) for start in starts])
                    best = min(best, resampled[0], key=search.cost)
                made = search.descend(best)
                for found in sorted((made.change({"source": way}) for way in ways), key=search.cost)[:2]:
                    yield Attempt(search, found)
                    yield Attempt(search, found).descend()

    def _mistaken(self) -> Iterator[Attempt]:
        """Take the audio at a wrong rate, at another speed, or of swapped bytes."""
        sources = [each for source in self._sources for each in with_mistakes(source, self._recording)]
        for start in self._begin(self._searches, sources, MOST_MISTAKES, parts=False)[:2]:
            if start.cost < UNLIKE:
                attempt = start.descend()
                yield attempt
                yield Attempt(start.search, start.search.refine(attempt.candidate)).descend()


def _of_whole_or_part(attempt: Attempt) -> Iterator[Candidate]:
    """Yield a candidate of frames between the usual ones as one of the whole audio, or else of a part of it."""
    candidate, sheet = attempt.candidate, attempt.search.sheet
    if not candidate.offset:
        yield candidate
        return
    if usual := candidate.same_framings():
        yield usual[0]
        return
    for change in ({"snip_edges": True}, {"snip_edges": False}, {"padding": "reflect-window"}):
        framed = candidate.change(change | {"offset": 0, "start": 0})
        first, frames = candidate.first_sample - framed.first, len(sheet.values) * sheet.arrangement.stride
        length = (frames - 1) * framed.shift + framed.size + 2 * framed.first
        if first >= 0 and length > 0:
            yield framed.change({"source": part_of(candidate.source, first, length)})
