"""Find the features of an array in audio: in which orientation and arrangement, of which audio, by which search."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat.exact.arrays import Doubles
from kaldi_compat.explain.arrangements import (
    Arrangement,
    arrangements_of,
    orientations,
    sliding_arrangements,
    telling,
)
from kaldi_compat.explain.search import (
    EXPLAINED,
    NEAR,
    NOTHING,
    UNLIKE,
    Candidate,
    Search,
    Sheet,
    TimeLimit,
    alike_framings,
)
from kaldi_compat.explain.settling import Settled, Settling
from kaldi_compat.explain.sources import AudioSource, mistaken, of_other_rates, part_of, resamplings
from kaldi_compat.explain.timing import Timing, timings

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
OTHER_AUDIO = 0.35  # cost above which the audio is more likely another than an option
CUT = 0.8  # share of a cost that is left by another first sample, if the audio has been cut
OF_ALL = 0.05  # cost below which all columns are those of one feature
MOST_STACK = 8  # frames before the one that is in the middle of a stack
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


@dataclass(frozen=True)
class Finding:
    """What was found.

    Attributes:
        sheet: the array, upright.
        search: the search that found it.
        settled: the candidate with all that is done to it; None if there is none.
        cost: share of the array's variance that is left, whatever offset and scale each column has.
        in_time: False if the search ended for want of time.
        begun: where the search began.
    """

    sheet: Sheet
    search: Search
    settled: Settled | None
    cost: float
    in_time: bool
    begun: list[Attempt]


def _has_more(columns: int) -> bool:
    """Return True if a usual number of columns may have others at its side."""
    return columns not in USUAL_COLUMNS and columns - PASTED[0] in USUAL_COLUMNS


def sheets_of(target: Doubles, said: list[str]) -> Iterator[Sheet]:
    """Yield an array in both orientations, and as the arrangements that it may have."""
    for turned, values in orientations(target):
        if values.shape[1] > MAX_COLUMNS or len(values) < 2:
            continue
        rows, columns = telling(values)
        if rows.sum() >= 2 and columns.any():
            told = np.flatnonzero(rows)
            for arrangement in arrangements_of(values[told[0] : min(told[-1] + 1, told[0] + SOME_ROWS)]):
                yield Sheet([*said, *turned], values, arrangement, rows, columns)


class Finder:
    """Goes on to more of what may have been done as long as an array is not explained.

    Args:
        sheets: the array as it may be meant.
        sources: the audio's channels.
        recording: the audio (channels, T).
        tolerance: largest absolute difference that counts as explained.
        clock: when to end.
    """

    def __init__(
        self, sheets: Sequence[Sheet], sources: Sequence[AudioSource], recording: npt.NDArray[Any],
        tolerance: Callable[[Sheet], float], clock: TimeLimit,
    ) -> None:  # fmt: skip
        self._sheets, self._sources, self._recording = sheets, sources, recording
        self._tolerance, self._clock = tolerance, clock
        self._unit = 1 / 32768 if max(float(np.abs(each.samples).max()) for each in sources) > 2 else 1.0
        self._searches = {id(sheet): Search(sheet, clock, self._unit) for sheet in sheets}
        self._settlings: dict[int, Settling] = {}
        self._settled: dict[tuple[Any, ...], Settled | None] = {}
        self._attempts: list[Attempt] = []
        self._begun: list[Attempt] = []
        self._score = 0.0  # of the likeliest frames

    def find(self) -> Finding | None:
        """Return what explains most of the array; None if it has the form of no feature."""
        stages: list[tuple[Callable[[], Iterator[Attempt]], float]] = [
            (self._at_starts, 2.0), (self._plainly, 2.5), (self._in_windows, 1.0), (self._of_parts, 1.5),
            (self._resampled, 2.0), (self._in_more_detail, 2.0), (self._mistaken, 2.0),
        ]  # fmt: skip
        while stages and not self._clock.is_at_end():
            stage, seconds = stages.pop(0)
            self._clock.stage(seconds)
            for attempt in stage():
                self._attempts.append(attempt)
                found = self._explained(attempt)
                if found:
                    return found
            least = min((each.cost for each in self._attempts), default=UNLIKE)
            if stage == self._at_starts and any(_has_more(each.values.shape[1]) for each in self._sheets):
                stages.sort(key=lambda each: each[0] != self._of_parts)
            elif stage == self._at_starts and least > OTHER_AUDIO:
                stages.sort(key=lambda each: (each[0] != self._mistaken, each[0] != self._of_parts))
            if stage == self._plainly and self._is_hopeless():
                break
        return self._best()

    def _is_hopeless(self) -> bool:
        """Return True if neither the features resemble the array, nor the audio's energies in time."""
        return self._score < LIKELY and min((each.cost for each in self._attempts), default=HOPELESS) >= HOPELESS

    def _best(self) -> Finding | None:
        """Return the best of what was found."""
        self._attempts.sort(key=lambda each: each.cost)
        found = [(each, self.settle(each)) for each in self._attempts[:3] if each.cost < NOTHING]
        settled = [(attempt, each) for attempt, each in found if each is not None]
        if not settled:
            return None
        return self._finding(*min(settled, key=lambda each: (each[1].left(), each[0].cost)))

    def _finding(self, attempt: Attempt, settled: Settled | None) -> Finding:
        return Finding(
            attempt.search.sheet, attempt.search, settled, attempt.cost, not self._clock.is_at_end(), self._begun
        )

    def _explained(self, attempt: Attempt) -> Finding | None:
        """Return what was found if it explains the array."""
        tolerance, sheet = self._tolerance(attempt.search.sheet), attempt.search.sheet
        spread = float(np.median(sheet.own[sheet.rows].std(0)))
        is_settled = (id(sheet), *attempt.candidate.key) in self._settled
        if attempt.cost > NEAR + tolerance / max(spread, 1e-30) and not is_settled:
            return None
        settled = self.settle(attempt)
        columns = sheet.values.shape[1]
        if not (sheet.arrangement.said or sheet.arrangement.is_whole(columns) or _has_more(columns)):
            return None  # as long as all columns may be explained at once
        is_explained = settled is not None and (settled.fit.residual <= tolerance or bool(settled.rounding))
        is_certain = attempt.cost < EXPLAINED and not sheet.arrangement.said
        return self._finding(attempt, settled) if is_explained or is_certain else None

    def settle(self, attempt: Attempt) -> Settled | None:
        """Return the attempt's candidate with all that is done to it."""
        if attempt.candidate.offset:
            parts = [self.settle(each) for each in self._of_part(attempt)]
            return min((each for each in parts if each), key=lambda each: each.fit.residual, default=None)
        sheet = attempt.search.sheet
        key = (id(sheet), *attempt.candidate.key)
        if key not in self._settled:
            settling = self._settlings.setdefault(id(sheet), Settling(attempt.search, self._tolerance(sheet)))
            self._settled[key] = settling.settled(attempt.candidate)
        return self._settled[key]

    def _timings(self, search: Search, source: AudioSource) -> list[Timing]:
        """Return when the array's frames may have been."""
        sheet = search.sheet
        values = sheet.own[:, sheet.own_columns]
        found = timings(values, sheet.rows, source, sheet.arrangement.stride) if values.shape[1] else []
        self._score = max([self._score, *(each.score for each in found)])
        return found

    # Stages.

    def _at_starts(self) -> Iterator[Attempt]:
        """Take the features with which the search begins."""
        assumed = [
            (search, source, self._timings(search, source))
            for search, source in itertools.product(self._searches.values(), self._sources)
        ]
        assumed.sort(key=lambda each: (not any(timing.is_whole for timing in each[2]),
                                       -max((timing.score for timing in each[2]), default=0.0)))  # fmt: skip
        for search, source, some in assumed:
            self._begun += [Attempt(search, each) for each in (search.starts(source, some) if some else [])]
            is_found = any(each.cost < EXPLAINED for each in self._begun) and not search.sheet.arrangement.said
            if self._clock.is_over() or is_found:
                break
        self._begun.sort(key=lambda each: each.cost)
        yield from self._begun[:2]

    def _plainly(self) -> Iterator[Attempt]:
        """Change one option at a time, from the best starts on."""
        for start in self._begun[:MOST_DESCENTS]:
            if start.cost < UNLIKE or start is self._begun[0]:
                attempt = Attempt(start.search, start.search.descend(start.candidate))
                yield attempt
                if attempt.cost < NEAR and start.search.sheet.arrangement.said:
                    yield from self._otherwise_arranged(attempt)

    def _otherwise_arranged(self, attempt: Attempt) -> Iterator[Attempt]:
        """Yield an attempt with other arrangements, in which other columns are the features themselves."""
        for search in self._searches.values():
            if search is not attempt.search and search.sheet.arrangement.said:
                starts = range(attempt.candidate.start - MOST_STACK, attempt.candidate.start + MOST_STACK)
                moved = min((attempt.candidate.changed({"start": each}) for each in starts), key=search.cost)
                yield Attempt(search, moved)

    def _in_more_detail(self) -> Iterator[Attempt]:
        """Choose numbers finely, and the first sample, where the audio has been cut."""
        self._attempts.sort(key=lambda each: each.cost)
        for attempt in [*self._begun[:2], *self._attempts[:1]]:
            search = attempt.search
            if attempt.cost > UNLIKE or self._clock.is_over():
                continue
            refined = search.refined(attempt.candidate)
            yield Attempt(search, refined)
            yield Attempt(search, search.descend(refined))

    def _of_part(self, attempt: Attempt) -> list[Attempt]:
        """Return an attempt of frames between the usual ones as one of the whole or a part of the audio."""
        candidate, rate = attempt.candidate, attempt.candidate.source.rate
        usual = [each for each in alike_framings(candidate) if each.offset == 0]
        if usual:
            return [Attempt(attempt.search, usual[0])]
        found = []
        for change in ({"snip_edges": True}, {"snip_edges": False}, {"padding": "reflect-window"}):
            framed = candidate.changed(change | {"offset": 0, "start": 0})
            first = candidate.first() - framed.first()
            rows = len(attempt.search.sheet.values) * attempt.search.sheet.arrangement.stride
            length = (rows - 1) * framed.model.shift(rate) + framed.model.size(rate) + 2 * framed.first()
            if first >= 0 and length > 0:
                source = part_of(candidate.source, first, length)
                found.append(Attempt(attempt.search, framed.changed({"source": source})))
        return found

    def _of_parts(self) -> Iterator[Attempt]:
        """Take some columns at an end for another feature, such as pitch."""
        least = min((each.cost for each in self._attempts), default=UNLIKE)
        found: list[Attempt] = []
        for sheet in self._sheets if least > OF_ALL else ():
            columns = sheet.values.shape[1]
            parts = [slice(0, columns - count) for count in PASTED] + [slice(count, columns) for count in PASTED[:2]]
            parts.sort(key=lambda part: part.stop - part.start not in USUAL_COLUMNS)
            for part in parts if columns >= 8 and not sheet.arrangement.said else ():
                inside = np.isin(np.arange(columns), np.arange(columns)[part])
                if self._clock.is_over() or not (sheet.columns & inside).any():
                    break
                other = dataclasses.replace(sheet, arrangement=Arrangement("", part), columns=sheet.columns & inside)
                search = Search(other, self._clock, self._unit)
                for source in self._sources:
                    assumed = self._timings(search, source)
                    found += [Attempt(search, each) for each in search.starts(source, assumed)[:1] if assumed]
                if found and min(each.cost for each in found) < PART * least:
                    break
        found.sort(key=lambda each: each.cost)
        for start in found[:2]:
            if start.cost < least:
                yield Attempt(start.search, start.search.descend(start.candidate))

    def _in_windows(self) -> Iterator[Attempt]:
        """Compare changes in time only, where they are more alike, and then subtract means of windows."""
        self._attempts.sort(key=lambda each: each.cost)
        for attempt in self._attempts[:1]:
            sheet = attempt.search.sheet
            search = Search(sheet, self._clock, self._unit)
            search.by_differences = True
            if search.cost(attempt.candidate) > SLIDING * attempt.cost and attempt.cost < UNLIKE:
                return
            candidate = search.descend(attempt.candidate)
            if search.cost(candidate) > SLIDING_LEFT:
                return
            settling = Settling(search, self._tolerance(sheet))
            for arrangement in sliding_arrangements():
                settled = settling.mapped_as(candidate, arrangement)
                if settled is not None and settled.fit.residual <= self._tolerance(sheet):
                    key = (id(sheet), *candidate.key)
                    self._settled[key] = settled
                    yield Attempt(search, candidate)
                    return

    def _resampled(self) -> Iterator[Attempt]:
        """Take the audio at another rate, as each resampler gives it."""
        self._attempts.sort(key=lambda each: each.cost)
        for attempt in [*self._attempts[:1], *self._begun[:2]]:
            search, candidate = attempt.search, attempt.candidate
            others = []
            for other in of_other_rates(candidate.source):
                share = other.rate / candidate.source.rate
                centre = (candidate.first() + candidate.model.size(candidate.source.rate) / 2) * share
                near = candidate.changed({"source": other})
                if (near.model.value("high_freq") or 0) > other.rate / 2:
                    near = near.changed({"high_freq": 0.0})
                framed = [near.placed(centre), *map(near.placed(centre).changed, search.framings(near.placed(centre)))]
                nearest = min(framed, key=search.cost)
                others += [nearest, *search.centred(nearest)]
            best = min(others, key=search.cost, default=candidate)
            if search.cost(best) > CUT * attempt.cost or self._clock.is_over():
                continue
            best = search.descend(best)
            rate = int(best.source.rate)
            ways = [best.changed({"source": each}) for each in resamplings(candidate.source, rate)]
            ways.sort(key=search.cost)
            for way in ways[:2]:
                yield Attempt(search, way)
                yield Attempt(search, search.descend(way))

    def _mistaken(self) -> Iterator[Attempt]:
        """Take the audio at a wrong rate, at another speed, or of swapped bytes."""
        found: list[Any] = []
        for source, search in itertools.product(self._sources, self._searches.values()):
            sheet = search.sheet
            values = sheet.own[:, sheet.own_columns]
            for other in mistaken(source, self._recording):
                if other.length >= other.rate / 40 and values.shape[1] and not self._clock.is_over():
                    assumed = timings(values, sheet.rows, other, sheet.arrangement.stride, parts=False)
                    for timing in assumed[:1]:
                        is_usual = abs(1000 * timing.shift / other.rate / sheet.arrangement.stride - 10) < 0.1
                        found.append((timing.score + USUAL * is_usual, len(found), search, other, timing))
        found.sort(key=lambda each: each[:2], reverse=True)
        starts = []
        for score, _, search, other, timing in found[:MOST_MISTAKES]:
            if score > LIKELY and not self._clock.is_over():
                starts += [Attempt(search, each) for each in search.starts(other, [timing])[:1]]
        starts.sort(key=lambda each: each.cost)
        for start in starts[:2]:
            if start.cost < UNLIKE:
                candidate = start.search.descend(start.candidate)
                yield Attempt(start.search, candidate)
                yield Attempt(start.search, start.search.descend(start.search.refined(candidate)))


def found_in(
    target: Doubles, said: list[str], sources: Sequence[AudioSource], recording: npt.NDArray[Any],
    tolerance: Callable[[Sheet], float], clock: TimeLimit,
) -> Finding | None:  # fmt: skip
    """Return what explains most of an array; None if it has the form of no feature."""
    sheets = list(sheets_of(target, said))
    return Finder(sheets, sources, recording, tolerance, clock).find() if sheets else None
