"""Settle what the search leaves open: paddings, floors, scales, the form of the logarithm, normalization, masks."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kaldi_compat.errors import KaldiCompatError
from kaldi_compat.exact.arrays import Doubles
from kaldi_compat.explain import fits
from kaldi_compat.explain.arrangements import Arrangement, Mask, spans
from kaldi_compat.explain.fits import Cells, Fit
from kaldi_compat.explain.models import DCTS
from kaldi_compat.explain.search import DB_80, FLOORS, Candidate, Search, Sheet, alike_framings, floored_cells
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
        said = []
        if self.frame:
            said.append(f"{frames_in_words(self.frame)} left out at the start")
        if self.row:
            said.append(f"{frames_in_words(self.row)} too many at the start")
        missing = self.frames - self.frame - len(self.target)
        if missing and not self.candidate.source.said.endswith(ZEROS):
            said.append(f"{frames_in_words(missing)} left out at the end")
        return said


def frames_in_words(count: int) -> str:
    """Return a number of frames in words."""
    return f"{count} frame{'s' * (count > 1)}"


class Settling:
    """Chooses among candidates that the search cannot tell from each other.

    Args:
        search: the search.
        sheet: the array.
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
            if best is not None and best.fit.residual > self.tolerance:  # a floor may have hidden which edges fit
                edged = [made for each in _edges(best.candidate) for made in self._arranged(each)]
                other = self._best([best, *edged]).candidate
                if other.key != best.candidate.key:
                    edges = {name: other.model.value(name) for name in ("padding", "whole")}
                    framed = candidate.changed({"snip_edges": other.model.value("snip_edges")} | edges)
                    again = self._varied(framed.changed({"start": other.start, "source": other.source}))
                    best = self._best([best, *edged, *([again] if again else [])])
        except KaldiCompatError:
            return None
        if best is None:
            return None
        if len(self.sheet.values) > MAX_ROWS:
            best = self._mapped(best.candidate, best.arrangement, self.sheet.values) or best
        is_near = self.tolerance < best.fit.residual < OWN_ROUNDING * 1e3 * self.tolerance
        return within_rounding(best, self.sheet, self.tolerance) if is_near else best

    def _varied(self, candidate: Candidate) -> Settled | None:
        """Return the best of the variations of a candidate that change no column's shape."""
        shapes = SAME_SHAPE.get(candidate.model.mel, (candidate.model.mel,))
        bases = [each for mel in shapes for each in self._leveled(candidate.changed({"mel": mel}))]
        variations = {each.key: each for base in bases for each in self._alike(base)}
        found = [each for variation in variations.values() for each in self._arranged(variation)]
        return self._best(found) if found else None

    def features(self, candidate: Candidate, rows: int) -> Doubles:
        """Return the features of a candidate: all, or about as many as the first rows need."""
        model, rate = candidate.model, candidate.source.rate
        samples = candidate.source.samples[max(candidate.offset, 0) :]
        if candidate.offset < 0:
            samples = np.pad(samples, (-candidate.offset, 0))
        if rows < len(self.sheet.values):
            needed = candidate.start + (rows + 2) * self.sheet.arrangement.stride
            samples = samples[: needed * model.shift(rate) + model.size(rate) + model.fft_points(rate)]
        features = np.clip(model.compute(samples, rate).astype(np.float64), -1e30, 1e30)
        return features if candidate.order is None else features[:, list(candidate.order)]

    def _best(self, found: Sequence[Settled]) -> Settled:
        """Return the simplest one that explains the array, or else the nearest."""
        found = [each for each in found if each.fit.residual <= self.tolerance] or found
        most = max(each.cells.rows.sum() for each in found)  # of frames that the features give
        found = [each for each in found if each.cells.rows.sum() == most]
        exact = [each for each in found if each.fit.residual <= self.tolerance]
        return min(exact, key=lambda each: each.words) if exact else min(found, key=Settled.cost)

    def _with_padding(self, candidate: Candidate) -> Candidate:
        """Return the candidate with the edges that the array's first and last rows have."""
        alike = alike_framings(candidate)
        if len(alike) == 1:
            return alike[0]
        rows = len(self._values)
        stride, costs = self.sheet.arrangement.stride, {}
        own, columns = self.sheet.own[:rows], self.sheet.own_columns
        for number, each in enumerate(alike):
            at = each.start + np.arange(rows) * stride
            try:
                features = self.features(each, rows)
            except KaldiCompatError:
                continue
            inside = (at >= 0) & (at < len(features))
            told = inside & self.sheet.rows[:rows]
            if told.sum() < 2:
                continue
            first, second = features[at[told]][:, columns], own[told][:, columns]
            deviation = np.maximum(second.std(0), 1e-30)
            left = _left_by_lines(first, second) / deviation
            missing = int((self.sheet.rows[:rows] & ~inside).sum())
            outside = max(0, -each.start) + max(0, each.start - stride)
            error = float(np.sqrt((left**2).mean(1)).max())  # of the worst row
            costs[number] = (missing, round(math.log10(max(error, 1e-4)) * 2), outside, len(each.model.settings()))
        return alike[min(costs, key=lambda number: costs[number])] if costs else candidate

    def _with_silence(self, candidate: Candidate) -> Sheet:
        """Return the array with the rows of digital silence, where features are at a floor, as rows that count."""
        model, rows = candidate.model, len(self._values)
        if model.kind not in ("fbank", "spectrogram") or model.bins in ("power", "magnitude") or self.sheet.rows.all():
            return self.sheet
        features = self.features(candidate.changed({"scale": 1.0, "floor": 0.0, "added": 0.0, "span": 0.0}), rows)
        at = candidate.start + np.arange(rows) * self.sheet.arrangement.stride
        inside = (at >= 0) & (at < len(features))
        silent = np.zeros(len(self.sheet.rows), bool)
        silent[:rows][inside] = (features[at[inside]][:, 1:] < math.log(1e-30)).all(1)
        if silent.any():  # but for those that are masked
            silent[silent] = (self.sheet.values[silent] == np.median(self.sheet.values[silent], axis=0)).all(1)
        return dataclasses.replace(self.sheet, rows=self.sheet.rows | silent)

    def _leveled(self, candidate: Candidate) -> Iterator[Candidate]:
        """Yield the candidate with floors, scales and offsets that leave the shape of its columns."""
        model, search = candidate.model, self.search
        yield candidate
        peak, deviation = (float(each(candidate.source.samples)) for each in (_peak, np.std))  # type: ignore[arg-type]
        scales = {1.0: 0, **dict.fromkeys(search.levels), 1 / max(peak, 1e-30): 0, 1 / max(deviation, 1e-30): 0}
        is_log = model.value("use_log_fbank") if model.kind == "fbank" else model.bins in ("kaldi", "log")
        if model.kind == "plp" or not is_log:
            yield from (candidate.changed({"scale": each}) for each in scales if each != 1)
            return
        power = 1.0 if model.value("use_power") is False else 2.0
        if model.added:
            yield from (candidate.changed({"floor": each}) for each in FLOORS[:4])
        if not model.added and not model.span:
            yield from (candidate.changed({"scale": each}) for each in scales if each != model.scale)
            yield from (candidate.changed({"scale": each, "floor": 1e-10}) for each in search.levels)
            plain = candidate.changed({"scale": 1.0, "floor": 0.0})
            for low, high, largest in self._floor_of(plain):
                known = [(scale, floor) for scale in scales for floor in FLOORS
                         if low - FLOOR_ERROR < math.log(floor) - power * math.log(scale) < high + FLOOR_ERROR
                         ]  # fmt: skip
                yield from (candidate.changed({"scale": scale, "floor": floor}) for scale, floor in known)
                if low - FLOOR_ERROR < largest - DB_80 < high + FLOOR_ERROR:
                    floored = {"floor": 1e-10, "span": DB_80}
                    yield from (candidate.changed({"scale": scale} | floored) for scale in search.levels)
                if not known and abs(low) < LARGEST_LOG:
                    yield candidate.changed({"scale": 1.0, "floor": float(f"{math.exp((low + high) / 2):.5g}")})
        if model.has_energy:
            least = self.sheet.own[:, -1 if model.value("htk_compat") else 0][self.sheet.rows].min()
            if abs(least) < 60:
                yield candidate.changed({"energy_floor": float(f"{math.exp(least):.5g}")})
                yield candidate.changed({"energy_floor": 1.0})

    def _floor_of(self, candidate: Candidate) -> Iterator[tuple[float, float, float]]:
        """Yield between which log energies there is a floor, and the largest one, if there is a floor."""
        rows = len(self._values)
        at = candidate.start + np.arange(rows) * self.sheet.arrangement.stride
        features = self.features(candidate, rows)
        inside = (at >= 0) & (at < len(features)) & self.sheet.rows[:rows]
        energies = features[at[inside]]
        first = int(bool(candidate.model.value("use_energy")) and not candidate.model.value("htk_compat"))
        values = self.sheet.own[:rows][inside]
        least, is_least = values.min(0), floored_cells(values)
        columns = self.sheet.own_columns & is_least.any(0)
        columns[:first] = False
        if candidate.model.kind == "mfcc" or not columns.any():
            return
        below = np.where(is_least, energies, -np.inf)[:, columns].max(0)
        # Where the slope of a column is known, its least value is exactly the floor.
        found = []
        for column in np.flatnonzero(columns):
            other = ~is_least[:, column]
            if other.sum() > 3:
                slope, offset = fits.line(energies[other, column], values[other, column])
                known = next((each for each in SLOPES if abs(slope - each) < SLOPE_ERROR * each), 0.0)
                if known:
                    slope, offset = known, float(np.median(values[other, column] - known * energies[other, column]))
                found.append((least[column] - offset) / slope if slope else np.nan)
        floor = float(np.nanmedian(found)) if found else float(below.max())
        if np.isfinite(floor):
            yield floor, floor, float(features.max())

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
        rows = len(self._values)
        features = self.features(candidate.changed({"cepstral_lifter": 0}), rows)
        at = candidate.start + np.arange(rows) * self.sheet.arrangement.stride
        inside = (at >= 0) & (at < len(features)) & self.sheet.rows[:rows]
        with np.errstate(divide="ignore", invalid="ignore"):
            sizes = (self.sheet.own[:rows][inside].std(0) / features[at[inside]].std(0))[1:]
        for lifter in LIFTERS:
            weights = 1 + 0.5 * lifter * np.sin(np.pi * np.arange(1, len(sizes) + 1) / lifter)
            if np.ptp(sizes - weights * sizes[0] / weights[0]) < 1e-3 * sizes.max():
                return [lifter]
        return []

    def _arranged(self, candidate: Candidate) -> Iterator[Settled]:
        found = self._mapped(candidate, self.sheet.arrangement, self._values)
        if found:
            yield found

    def mapped_as(self, candidate: Candidate, arrangement: Arrangement) -> Settled | None:
        """Return a candidate with another arrangement, mapped to the array."""
        return self._mapped(candidate, arrangement, self.sheet.values)

    def _mapped(self, candidate: Candidate, arrangement: Arrangement, values: Doubles) -> Settled | None:
        """Return the candidate with the simplest map from its features to the array."""
        try:
            features = arrangement.apply(self.features(candidate, len(values)))
        except KaldiCompatError:
            return None
        return mapped(candidate, arrangement, features, values, self.sheet, self.tolerance)


def mapped(
    candidate: Candidate, arrangement: Arrangement, features: Doubles, values: Doubles, sheet: Sheet, tolerance: float
) -> Settled | None:
    """Return features that have been arranged with the simplest map to an array."""
    columns, stride = sheet.columns, max(arrangement.stride, 1)
    if not arrangement.said:  # some of the columns are another feature's
        values, columns = values[:, arrangement.columns], columns[arrangement.columns]
    if features.shape[1] != values.shape[1]:
        return None
    starts = {round(candidate.start / stride) + more for more in ((0,) if stride == 1 else (-2, -1, 0, 1))}
    best: tuple[float, int] | None = None
    for start in starts if len(starts) > 1 else ():
        frame, row, count = (
            max(start, 0),
            max(-start, 0),
            min(len(features) - max(start, 0), len(values) - max(-start, 0)),
        )
        if count > 1:
            cost = fits.similarity(features[frame : frame + count][:, columns], values[row : row + count][:, columns])
            best = min((cost, start), best or (9.0, 0))
    start = best[1] if best else next(iter(starts))
    frame, row = max(start, 0), max(-start, 0)
    count = min(len(features) - frame, len(values) - row)
    if count < 2:
        return None
    part, target = features[frame : frame + count], values[row : row + count]
    cells = Cells(sheet.rows[row : row + count], columns)
    if cells.rows.sum() < 2:
        return None
    told = np.flatnonzero(cells.rows)
    others = [] if len(features) == count else [features]
    if told[-1] + 1 < count:
        others.append(part[: told[-1] + 1])
    fit = fits.simplest(part, target, tolerance, cells, others)
    return Settled(candidate, arrangement, fit, row, frame, len(features), target, cells)


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


def again(settled: Settled | None, candidate: Candidate, sheet: Sheet, tolerance: float) -> Settled | None:
    """Return a candidate mapped to an array, in the arrangement of what is settled or the sheet's."""
    arrangement = sheet.arrangement if settled is None else settled.arrangement
    try:
        features = arrangement.apply(features_of(candidate))
    except KaldiCompatError:
        return None
    return mapped(candidate, arrangement, features, sheet.values, sheet, tolerance)


def features_of(candidate: Candidate) -> Doubles:
    """Return all features of a candidate."""
    source = candidate.source
    samples = source.samples[max(candidate.offset, 0) :]
    features = candidate.model.compute(samples, source.rate).astype(np.float64)
    return features if candidate.order is None else features[:, list(candidate.order)]


def spread_of(rounding: Doubles) -> Doubles:
    """Return the largest value in the frame and its neighbours, and in the column and its neighbours."""
    for axis in (0, 1):
        rounding = np.maximum(rounding, np.maximum(np.roll(rounding, 1, axis), np.roll(rounding, -1, axis)))
    return rounding


def within_rounding(settled: Settled, sheet: Sheet, tolerance: float) -> Settled:
    """Return what is settled with a more accurate FFT or with words, if rounding explains the differences."""
    candidate = settled.candidate
    accurate = candidate.changed({"precise": True, "source": candidate.source.rounded()})
    other = again(settled, accurate, sheet, tolerance)
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


def _peak(samples: Doubles) -> float:
    return float(np.abs(samples).max())
