"""Settle what the search leaves open: paddings, floors, scales, the form of the logarithm, normalization, masks."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kaldi_compat.errors import KaldiCompatError
from kaldi_compat.exact.arrays import Doubles
from kaldi_compat.explain import fits
from kaldi_compat.explain.arrangements import Arrangement, Mask, spans
from kaldi_compat.explain.fits import Cells, Fit
from kaldi_compat.explain.models import DCTS
from kaldi_compat.explain.search import DB_80, FLOORS, NOTHING, Candidate, Search, Sheet, alike_framings, floored_cells
from kaldi_compat.explain.sources import ZEROS, with_zeros

LARGEST_LOG = 300.0  # of a floor
MAX_ROWS = 3000  # by which variations are compared; the best one is fitted to all rows
SLOPES = (1.0, *(slope for slope, *_ in fits.LINES if slope > 0))
SLOPE_ERROR = 0.01  # in which one of them is recognized
FLOOR_ERROR = 0.02  # of its logarithm, in which a floor is recognized
LIFTERS = range(2, 100)
# Filters that differ in the height of each only.
SAME_SHAPE = {each: pair for pair in (("hertz", "htk-area"), ("slaney", "slaney-height")) for each in pair}
OWN_ROUNDING = 8.0  # times the rounding of our own features may be that of others
WORDS_COST = 0.05  # by which each word makes a residual count for more


@dataclass(frozen=True)
class Settled:
    """A candidate with all that is done to its features, and the rows of the array that they give.

    Attributes:
        candidate: the candidate.
        arrangement: how its features stand in the array.
        fit: the map from its features to the array's rows.
        row: the array's first row that it gives.
        frame: row of its features, arranged, that this is.
        frames: rows of its features, arranged.
        target: the rows of the array.
        cells: the cells that are compared.
        rounding: which rounding explains differences above the tolerance, in words.
    """

    candidate: Candidate
    arrangement: Arrangement
    fit: Fit
    row: int
    frame: int
    frames: int
    target: Doubles
    cells: Cells
    rounding: str = ""

    @property
    def words(self) -> int:
        """Number of things that have to be said."""
        around = bool(self.candidate.source.said) + bool(self.arrangement.said) + bool(self.candidate.offset)
        return len(self.candidate.model.settings()) + around + self.fit.words

    def cost(self) -> float:
        """Return the residual, as if it were larger for each word."""
        return self.fit.residual * (1 + WORDS_COST * self.words)

    def left(self) -> float:
        """Return the share of the array's variance that is left, its root."""
        first, second = self.cells.of(self.fit.mapped), self.cells.of(self.target)
        variance = second.var(0)
        moving = variance > 0
        error = ((first - second) ** 2).mean(0)[moving] / variance[moving]
        return float(np.sqrt(np.minimum(error, 1).mean())) if moving.any() else 1.0

    def order_words(self) -> str:
        """Return in words which of the features' columns these are."""
        order = self.candidate.order
        return "" if order is None else fits.order_name(list(order), max(order) + 1)

    def shift_words(self) -> list[str]:
        """Return in words which frames are missing, or too many, at both ends."""
        missing = self.frames - self.frame - len(self.target)
        padded = self.candidate.source.said.endswith(ZEROS)
        return [*fits.frames_said({"start": -self.frame}), *fits.frames_said({"start": self.row}),
                *fits.frames_said({"end": 0 if padded else -missing})]  # fmt: skip


class Settling:
    """Chooses among candidates that the search cannot tell from each other.

    Args:
        search: the search.
        tolerance: largest absolute difference that counts as explained.
    """

    def __init__(self, search: Search, tolerance: float) -> None:
        self.search, self.sheet, self.tolerance = search, search.sheet, tolerance
        self._values = search.sheet.values[:MAX_ROWS]

    def settled(self, candidate: Candidate) -> Settled | None:
        """Return the simplest candidate of those that resemble the array as much, with all that is done to it."""
        try:
            candidate = self._with_padding(candidate)
            self.sheet = self._with_silence(candidate)
            best = self._varied(candidate)
            for _ in range(2):  # a floor may have hidden which edges fit
                if best is None or best.fit.residual <= self.tolerance or self.search.clock.is_settled():
                    break
                edged = self._mapped(_edges(best.candidate.changed({"source": candidate.source})))
                other = self._best([best, *edged]).candidate
                if other.key == best.candidate.key:
                    break
                edges = {name: other.model.value(name) for name in ("padding", "whole")}
                framed = candidate.changed({"snip_edges": other.model.value("snip_edges")} | edges)
                again = self._varied(framed.changed({"start": other.start, "source": other.source}))
                best = self._best([best, *edged, *([again] if again else [])])
        except KaldiCompatError:
            return None
        if best is None:
            return None
        if len(self.sheet.values) > MAX_ROWS:
            best = mapped(best.candidate, self.sheet, self.tolerance) or best
        is_near = self.tolerance < best.fit.residual < OWN_ROUNDING * 1e3 * self.tolerance
        return within_rounding(best, self.sheet, self.tolerance) if is_near else best

    def _varied(self, candidate: Candidate) -> Settled | None:
        """Return the best of the variations of a candidate that change no column's shape."""
        shapes = SAME_SHAPE.get(candidate.model.mel, (candidate.model.mel,))
        bases = [each for mel in shapes for each in self._leveled(candidate.changed({"mel": mel}))]
        found = self._mapped({each.key: each for base in bases for each in self._alike(base)}.values())
        return self._best(found) if found else None

    def _mapped(self, candidates: Iterable[Candidate]) -> list[Settled]:
        """Return the candidates with their maps: all, or those before the time is over, but at least one."""
        found: list[Settled] = []
        for each in candidates:
            if found and self.search.clock.is_settled():
                break
            settled = mapped(each, self.sheet, self.tolerance, rows=MAX_ROWS)
            found += [settled] if settled else []
        return found

    def _seen(self, candidate: Candidate) -> tuple[Doubles, Doubles, Mask]:
        """Return a candidate's features, those at rows of the array, and the mask of the rows that they have."""
        stride, rows = self.sheet.arrangement.stride, len(self._values)
        features = features_of(candidate, rows * stride if rows < len(self.sheet.values) else None)
        at = candidate.start + np.arange(rows) * stride
        inside = (at >= 0) & (at < len(features))
        return features, features[at[inside]], inside

    def _told(self, candidate: Candidate) -> tuple[Doubles, Doubles, Doubles]:
        """Return a candidate's features, and those and the array's values in the rows that count."""
        features, seen, inside = self._seen(candidate)
        told = self.sheet.rows[: len(inside)] & inside
        return features, seen[told[inside]], self.sheet.own[: len(inside)][told]

    def _best(self, found: Sequence[Settled]) -> Settled:
        """Return the simplest one that explains the array, or else the nearest."""
        found = [each for each in found if each.fit.residual <= self.tolerance] or found
        most = max(each.cells.rows.sum() for each in found)  # of frames that the features give
        found = [each for each in found if each.cells.rows.sum() == most]
        exact = [each for each in found if each.fit.residual <= self.tolerance]
        return min(exact, key=lambda each: each.words) if exact else min(found, key=Settled.cost)

    def _with_padding(self, candidate: Candidate) -> Candidate:
        """Return the candidate with the edges that the array's first and last rows have."""
        alike, costs = alike_framings(candidate), dict[int, tuple[int, int, int, int]]()
        if len(alike) == 1:
            return alike[0]
        own, rows, columns = self.sheet.own, self.sheet.rows[: len(self._values)], self.sheet.own_columns
        for number, each in enumerate(alike):
            if costs and self.search.clock.is_settled():
                break
            try:
                _, features, inside = self._seen(each)
            except KaldiCompatError:
                continue
            told = inside & rows
            if told.sum() < 2:
                continue
            second = own[: len(rows)][told][:, columns]
            left = _left_by_lines(features[rows[inside]][:, columns], second) / np.maximum(second.std(0), 1e-30)
            outside = max(0, -each.start) + max(0, each.start - self.sheet.arrangement.stride)
            error = float(np.sqrt((left**2).mean(1)).max())  # of the worst row
            missing = int((rows & ~inside).sum())
            costs[number] = (missing, round(math.log10(max(error, 1e-4)) * 2), outside, len(each.model.settings()))
        return alike[min(costs, key=lambda number: costs[number])] if costs else candidate

    def _with_silence(self, candidate: Candidate) -> Sheet:
        """Return the array with the rows of digital silence, where features are at a floor, as rows that count."""
        model, rows = candidate.model, len(self._values)
        if model.kind not in ("fbank", "spectrogram") or model.bins in ("power", "magnitude") or self.sheet.rows.all():
            return self.sheet
        _, features, inside = self._seen(candidate.changed({"scale": 1.0, "floor": 0.0, "added": 0.0, "span": 0.0}))
        silent = np.zeros(len(self.sheet.rows), bool)
        silent[:rows][inside] = (features[:, 1:] < math.log(1e-30)).all(1)
        if silent.any():  # but for those that are masked
            silent[silent] = (self.sheet.values[silent] == np.median(self.sheet.values[silent], axis=0)).all(1)
        return dataclasses.replace(self.sheet, rows=self.sheet.rows | silent)

    def _leveled(self, candidate: Candidate) -> Iterator[Candidate]:
        """Yield the candidate with floors, scales and offsets that leave the shape of its columns."""
        model, levels = candidate.model, self.search.levels
        yield candidate
        scales = (*dict.fromkeys((1.0, *levels, *candidate.source.loudness)),)
        is_log = model.value("use_log_fbank") if model.kind == "fbank" else model.bins in ("kaldi", "log")
        if model.kind == "plp" or not is_log:
            yield from (candidate.changed({"scale": each}) for each in scales if each != 1)
            return
        if model.added:
            yield from (candidate.changed({"floor": each}) for each in FLOORS[:4])
        elif not model.span:
            yield from (candidate.changed({"scale": each}) for each in scales if each != model.scale)
            yield from (candidate.changed({"scale": each, "floor": 1e-10}) for each in levels)
            floor, largest = self._floor_of(candidate.changed({"scale": 1.0, "floor": 0.0}))
            power = 1.0 if model.value("use_power") is False else 2.0
            known = [(scale, each) for scale in scales for each in FLOORS
                     if abs(math.log(each) - power * math.log(scale) - floor) < FLOOR_ERROR]  # fmt: skip
            yield from (candidate.changed({"scale": scale, "floor": each}) for scale, each in known)
            if abs(largest - DB_80 - floor) < FLOOR_ERROR:
                yield from (candidate.changed({"scale": each, "floor": 1e-10, "span": DB_80}) for each in levels)
            if not known and abs(floor) < LARGEST_LOG:
                yield candidate.changed({"scale": 1.0, "floor": float(f"{math.exp(floor):.5g}")})
        if model.has_energy:
            least = self.sheet.own[:, -1 if model.value("htk_compat") else 0][self.sheet.rows].min()
            if abs(least) < 60:
                yield candidate.changed({"energy_floor": float(f"{math.exp(least):.5g}")})
                yield candidate.changed({"energy_floor": 1.0})

    def _floor_of(self, candidate: Candidate) -> tuple[float, float]:
        """Return the log energy of the array's floor, or NaN, and the largest one."""
        features, energies, values = self._told(candidate)
        is_least = floored_cells(values)
        columns = self.sheet.own_columns & is_least.any(0)
        columns[: int(bool(candidate.model.value("use_energy")) and not candidate.model.value("htk_compat"))] = False
        if candidate.model.kind == "mfcc" or not columns.any():
            return math.nan, math.nan
        # Where the slope of a column is known, its least value is exactly the floor.
        found = []
        for column in np.flatnonzero(columns):
            above, given = (each[~is_least[:, column], column] for each in (energies, values))
            if len(above) > 3:
                slope, offset = fits.line(above, given)
                known = next((each for each in SLOPES if abs(slope - each) < SLOPE_ERROR * each), 0.0)
                slope, offset = (known, float(np.median(given - known * above))) if known else (slope, offset)
                found += [(values[:, column].min() - offset) / slope] if slope else []
        floor = float(np.median(found)) if found else float(np.where(is_least, energies, -np.inf)[:, columns].max())
        return floor, float(features.max())

    def _alike(self, candidate: Candidate) -> Iterator[Candidate]:
        """Yield candidates whose columns differ in scale or offset only."""
        model = candidate.model
        choices: dict[str, Sequence[object]] = {}
        if model.kind == "mfcc":
            choices["dct"] = ("kaldi", *DCTS) if candidate.order is None else ("kaldi",)
            choices["scale"] = (*dict.fromkeys((model.scale, 1.0, *self.search.levels)),)
        if model.kind in ("mfcc", "plp"):
            lifter = model.value("cepstral_lifter")
            choices["cepstral_lifter"] = (*dict.fromkeys((lifter, 22, 0, *self._lifters(candidate))),)
        bases = [candidate]
        if model.kind == "mfcc" and model.value("htk_compat") and not model.value("use_energy"):
            count = model.value("num_ceps")  # C0 last, and not times the root of 2
            bases.append(candidate.changed({"htk_compat": False, "order": (*range(1, count), 0)}))
        for base in bases:
            for values in itertools.product(*choices.values()):
                yield base.changed(dict(zip(choices, values, strict=True)))

    def _lifters(self, candidate: Candidate) -> list[int]:
        """Return the lifter that gives the columns of cepstra the sizes that the array's have, if there is one."""
        if candidate.order is not None or self.sheet.own.shape[1] < 4:
            return []
        _, features, values = self._told(candidate.changed({"cepstral_lifter": 0}))
        with np.errstate(divide="ignore", invalid="ignore"):
            sizes = (values.std(0) / features.std(0))[1:]
        for lifter in LIFTERS:
            weights = 1 + 0.5 * lifter * np.sin(np.pi * np.arange(1, len(sizes) + 1) / lifter)
            if np.ptp(sizes - weights * sizes[0] / weights[0]) < 1e-3 * sizes.max():
                return [lifter]
        return []


def features_of(candidate: Candidate, frames: int | None = None) -> Doubles:
    """Return the features of a candidate: all, or about as many as so many frames from its start need."""
    model, rate, offset = candidate.model, candidate.source.rate, candidate.offset
    samples = np.pad(candidate.source.samples[max(offset, 0) :], (max(-offset, 0), 0))
    if frames is not None:
        length = (candidate.start + frames + 8) * model.shift(rate) + model.size(rate) + model.fft_points(rate)
        samples = samples[:length]
    features = np.clip(model.compute(samples, rate).astype(np.float64), -1e30, 1e30)
    return features if candidate.order is None else features[:, list(candidate.order)]


def mapped(
    candidate: Candidate, sheet: Sheet, tolerance: float, *, arrangement: Arrangement | None = None,
    rows: int | None = None,
) -> Settled | None:  # fmt: skip
    """Return a candidate with the simplest map from its features to an array; None if there is none.

    Args:
        candidate: the candidate.
        sheet: the array.
        tolerance: largest absolute difference that counts as explained.
        arrangement: another one than the sheet's.
        rows: number of the first rows that are compared; None for all.
    """
    arrangement = arrangement or sheet.arrangement
    values, columns, stride = sheet.values[:rows], sheet.columns, max(arrangement.stride, 1)
    frames = len(values) * stride if len(values) < len(sheet.values) else None
    try:
        features = arrangement.apply(features_of(candidate, frames))
    except KaldiCompatError:
        return None
    if not arrangement.said:  # some of the columns are another feature's
        values, columns = values[:, arrangement.columns], columns[arrangement.columns]
    if features.shape[1] != values.shape[1]:
        return None
    start = about = round(candidate.start / stride)
    best = NOTHING
    for near in range(about - 2, about + 2) if stride > 1 else ():
        first, second = fits.overlap(features, values, near)
        if len(first) > 1 and (cost := fits.similarity(first[:, columns], second[:, columns])) < best:
            start, best = near, cost
    part, target = fits.overlap(features, values, start)
    row, count = max(-start, 0), len(target)
    cells = Cells(sheet.rows[row : row + count], columns)
    if count < 2 or cells.rows.sum() < 2:
        return None
    last = int(np.flatnonzero(cells.rows)[-1]) + 1
    others = [features] * (len(features) != count) + [part[:last]] * (last < count)
    fit = fits.simplest(part, target, tolerance, cells, others)
    return Settled(candidate, arrangement, fit, row, max(start, 0), len(features), target, cells)


def _edges(candidate: Candidate) -> Iterator[Candidate]:
    """Yield a candidate with what changes the frames at the edges of the audio only, or hardly any other."""
    model = candidate.model
    whole = ("preemphasis",) if model.value("preemphasis_coefficient") and not model.whole else model.whole
    for framed in alike_framings(candidate):
        yield framed
        if framed.model.padding:
            yield framed.changed({"source": with_zeros(framed.source)})
        if whole != model.whole:
            yield framed.changed({"whole": whole})


def spread_of(rounding: Doubles) -> Doubles:
    """Return the largest value in the frame and its neighbours, and in the column and its neighbours."""
    for axis in (0, 1):
        rounding = np.maximum(rounding, np.maximum(np.roll(rounding, 1, axis), np.roll(rounding, -1, axis)))
    return rounding


def within_rounding(settled: Settled, sheet: Sheet, tolerance: float) -> Settled:
    """Return what is settled with a more accurate FFT or with words, if rounding explains the differences."""
    candidate = settled.candidate
    accurate = candidate.changed({"precise": True, "source": candidate.source.rounded()})
    other = mapped(accurate, sheet, tolerance, arrangement=settled.arrangement)
    if other is None:
        return settled
    if other.fit.residual <= tolerance:
        return other
    own = spread_of(np.abs(other.fit.mapped - settled.fit.mapped))
    nearest = np.minimum(np.abs(other.fit.mapped - settled.target), np.abs(settled.fit.mapped - settled.target))
    missing = settled.cells.of(np.maximum(nearest - OWN_ROUNDING * own, 0))
    is_rounding = fits.residual_of(missing, np.zeros_like(missing)) <= tolerance
    return dataclasses.replace(settled, rounding="single precision in quiet bins" * is_rounding)


def covered(sheet: Sheet) -> Mask:
    """Return the columns of which the sheet's arrangement speaks, or which say nothing."""
    if sheet.arrangement.said:
        return np.ones(sheet.values.shape[1], bool)
    found = np.zeros(sheet.values.shape[1], bool)
    found[sheet.arrangement.columns] = True
    return found | (np.ptp(sheet.values[sheet.rows], axis=0) == 0)  # type: ignore[no-any-return]


def masked_in_words(settled: Settled, sheet: Sheet, tolerance: float) -> list[str]:
    """Return in words the rows and columns that say nothing of the audio, where features would say something."""
    given, made, said = sheet.values, settled.fit.mapped, []
    wrong = np.abs(made - settled.target) > max(tolerance, 1e-3 * float(np.abs(settled.target).max()))
    rows = np.ones(len(given), bool)
    rows[settled.row : settled.row + len(made)] = wrong[:, settled.cells.columns].any(1)
    rows &= ~sheet.rows
    first = np.arange(given.shape[1])[sheet.arrangement.columns][0] if not sheet.arrangement.said else 0
    columns = ~settled.cells.columns & wrong[settled.cells.rows].any(0)
    places = np.flatnonzero(rows)
    at_end = np.flatnonzero(~rows)[-1] + 1 if (~rows).any() else 0
    at_start = int(np.flatnonzero(~rows)[0]) if (~rows).any() else 0
    for count, where in ((at_start, "start"), (len(rows) - int(at_end), "end")):
        if count:
            said.append(f"{count} row{'s' * (count > 1)} of padding at the {where}")
    inner = places[(places >= at_start) & (places < at_end)]
    if len(inner):
        said.append(f"{spans(inner, 'frame')} masked")
    if columns.any():
        said.append(f"{spans(np.flatnonzero(columns) + first, 'column')} masked")
    return said


def _left_by_lines(first: Doubles, second: Doubles) -> Doubles:
    """Return what a line for each column leaves of one array by another."""
    a, b = first - np.median(first, axis=0), second - np.median(second, axis=0)
    power = np.maximum((a * a).sum(0), 1e-30)
    return np.asarray(b - a * ((a * b).sum(0) / power))
