"""Settle what the search leaves open: paddings, floors, scales, the form of the logarithm, normalization, masks."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from kaldi_compat.errors import KaldiCompatError
from kaldi_compat.exact.arrays import Doubles
from kaldi_explain import fits
from kaldi_explain.arrangements import Arrangement, Mask, spans
from kaldi_explain.deviations import Comparison, Deviations, find_deviations
from kaldi_explain.fits import Cells, Fit
from kaldi_explain.models import DCTS
from kaldi_explain.search import DB_80, FLOORS, Candidate, Search, Sheet, floored_cells
from kaldi_explain.sources import ZEROS, with_zeros

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
STILL = 1e-9  # share of the largest variance of a column below which one does not move
MOST_ROUNDS = 2  # of choosing edges and levels
LEVELS = ("scale", "floor", "added", "span")  # Attributes that change the level of energies only.
LEVEL_WORDS = 3  # Words that a level counts for beyond its own where rounding makes it doubtful.


@dataclass(frozen=True)
class Settled:
    """Candidate with all steps after its features, and the rows of the array that they give."""

    candidate: Candidate  # the candidate
    arrangement: Arrangement  # how its features stand in the array
    fit: Fit  # the map from its features to the array's rows
    row: int  # the array's first row that it gives
    frame: int  # row of its features, arranged, that this is
    target: Doubles  # the rows of the array
    cells: Cells  # the cells that are compared
    features: Doubles  # all rows of its features, arranged
    step: float = 0.0  # largest error of the array's stored numbers
    rounding: str = ""  # which rounding explains differences above the tolerance, in words

    @property
    def words(self) -> int:
        """Number of properties to name.

        Rounded numbers hardly tell levels of the energies from numbers of the map.
        """
        around = bool(self.candidate.source.said) + bool(self.arrangement.said) + bool(self.row)
        levels = sum(self.candidate.value(name) != self.candidate.default(name) for name in LEVELS)
        doubtful = LEVEL_WORDS * levels if self.step and self.fit.words >= fits.WORDS_OF_NUMBERS else 0
        return len(self.candidate.settings()) + around + self.fit.words + len(self.shift_words()) + doubtful

    def is_explained_by(self, tolerance: float) -> bool:
        """Return True if all differences are below a tolerance, or of rounding."""
        return self.fit.residual <= tolerance or bool(self.rounding)

    def cost(self) -> float:
        """Return the residual, as if it were larger for each word."""
        return self.fit.residual * (1 + WORDS_COST * self.words)

    def left(self, counted: Mask | None = None) -> float:
        """Return the share of the array's variance that is left, its root; of the cells that are counted, if given."""
        first, second = self.fit.mapped[self.cells], self.target[self.cells]
        first = first if counted is None else np.where(counted[self.cells], first, second)
        variance = second.var(0)
        moving = variance > STILL * variance.max()
        error = ((first - second) ** 2).mean(0)[moving] / variance[moving]
        return float(np.sqrt(np.minimum(error, 1).mean())) if moving.any() else 1.0

    def order_words(self) -> str:
        """Return in words which of the features' columns these are."""
        order = self.candidate.order
        return "" if order is None else fits.order_name(order, max(order) + 1)

    def shift_words(self, before: int = 0, after: int = 0) -> list[str]:
        """Return in words which frames are missing, or too many, at both ends.

        ``before`` and ``after`` are the numbers of frames by which the first and the last frame are later.
        """
        missing = len(self.features) - self.frame - len(self.target) - after
        missing = 0 if self.candidate.source.said.endswith(ZEROS) else missing
        return fits.frames_in_words({"start": self.row - self.frame - before, "end": -missing})


class Settling:
    """Choice among candidates that the search cannot distinguish."""

    def __init__(self, search: Search, tolerance: float) -> None:
        self.search, self.sheet, self.tolerance = search, search.sheet, tolerance

    def settle(self, candidate: Candidate) -> Settled | None:
        """Return the simplest candidate of those that resemble the array as much, with all that is done to it."""
        clock = self.search.clock
        best = self._best(map(self._map, clock.limit(candidate.same_framings() or [candidate])))
        if best is None or clock.is_settled():
            return best
        self.sheet = self._with_silence(best.candidate)
        best = self._map(best.candidate) or best
        # A floor may hide which edges fit, and edges which floor.
        steps: list[Callable[[Candidate], Iterator[Candidate]]] = [self._levels, _edges] * MOST_ROUNDS
        for step in steps:
            if not best.fit.words and (rounded := self._within_rounding(best)).is_explained_by(self.tolerance):
                return rounded
            found = itertools.takewhile(lambda _: not clock.is_settled(), step(best.candidate))
            best = self._best([best, *map(self._map, found)]) or best
            if best.fit.residual <= self.tolerance and step == _edges:
                break
        if len(self.sheet.values) > MAX_ROWS:
            best = map_to(best.candidate, self.sheet, self.tolerance) or best
        return best if clock.is_settled() else self._within_rounding(best)

    def _within_rounding(self, settled: Settled) -> Settled:
        """Return what is settled with a more accurate FFT or with words, if rounding explains the differences."""
        if not self.tolerance < settled.fit.residual < OWN_ROUNDING * 1e3 * self.tolerance:
            return settled
        accurate = settled.candidate.change({"precise": True, "source": settled.candidate.source.with_other_rounding()})
        other = map_to(accurate, self.sheet, self.tolerance)
        if other is None or other.fit.residual <= self.tolerance:
            return other or settled
        own = spread_of(np.abs(other.fit.mapped - settled.fit.mapped))
        nearest = np.minimum(np.abs(other.fit.mapped - settled.target), np.abs(settled.fit.mapped - settled.target))
        missing = np.maximum(nearest - OWN_ROUNDING * own, 0)[settled.cells]
        is_rounding = fits.residual_of(missing, np.zeros_like(missing), self.sheet.step) <= self.tolerance
        return dataclasses.replace(settled, rounding="single precision in quiet bins" * is_rounding)

    def _map(self, candidate: Candidate) -> Settled | None:
        return map_to(candidate, self.sheet, self.tolerance, rows=MAX_ROWS)

    def _best(self, found: Iterable[Settled | None]) -> Settled | None:
        """Return the simplest one that explains the array, or else the nearest."""
        some = [each for each in found if each]
        some = [each for each in some if each.fit.residual <= self.tolerance] or some
        most = max((each.cells[0].size for each in some), default=0)  # of frames that the features give
        some = [each for each in some if each.cells[0].size == most]
        is_exact = any(each.fit.residual <= self.tolerance for each in some)
        return min(some, key=lambda each: each.words if is_exact else each.cost(), default=None)

    def _common_rows(self, candidate: Candidate) -> tuple[Doubles, Doubles, Mask]:
        """Return a candidate's features and the array's values in the rows that both have, and which rows these are."""
        stride, rows = self.sheet.arrangement.stride, min(len(self.sheet.values), MAX_ROWS)
        features = features_of(candidate, rows * stride if rows < len(self.sheet.values) else None)
        at = candidate.start + np.arange(rows) * stride
        inside = (at >= 0) & (at < len(features))
        return features[at[inside]], self.sheet.own[:rows][inside], inside

    def _with_silence(self, candidate: Candidate) -> Sheet:
        """Return the array with the rows and columns of silence, where features are at a floor, as ones that count.

        Resamplers differ in silence: what is quieter than the last bit of their audio does not count.
        """
        is_log = candidate.kind in ("fbank", "spectrogram") and candidate.bins not in ("power", "magnitude")
        if not is_log or (self.sheet.rows.all() and self.sheet.columns.all() and not candidate.source.is_resampled):
            return self.sheet
        plain = candidate.without_levels()
        features, _, inside = self._common_rows(plain)
        marked, columns = np.zeros(len(self.sheet.rows), bool), self.sheet.columns.copy()
        if candidate.source.is_resampled:
            quiet = features < plain.of_noise()
            columns[self.sheet.arrangement.columns] &= (loud := quiet.mean(0) < 0.5)
            marked[: len(inside)][inside] = quiet[:, loud].any(1)
            if marked.mean() > 0.5 or loud.mean() < 0.5:  # too little would be left to compare
                return self.sheet
            return dataclasses.replace(self.sheet, rows=self.sheet.rows & ~marked, columns=columns)
        silent = features < math.log(1e-30)
        # Filters without a bin of the FFT: nothing is less than the floor.
        columns[self.sheet.arrangement.columns] |= silent.all(0) & (self.sheet.own.min(0) == self.sheet.own.min())
        marked[: len(inside)][inside] = silent[:, 1:].all(1)
        if marked.any():  # but for those that are masked
            marked[marked] = (self.sheet.values[marked] == np.median(self.sheet.values[marked], axis=0)).all(1)
        return dataclasses.replace(self.sheet, rows=self.sheet.rows | marked, columns=columns)

    def _levels(self, candidate: Candidate) -> Iterator[Candidate]:
        """Yield variations that change the scale or offset of columns only: floors, scales, DCTs, lifters."""
        has_energy = (candidate.kind, candidate.bins) == ("spectrogram", "kaldi")
        shapes = [candidate.change({"mel": mel}) for mel in SAME_SHAPE.get(candidate.mel, (candidate.mel,))]
        if has_energy:  # which the first column does not show if it is at a floor
            shapes.append(candidate.change({"bins": "log"}))
        for each in shapes:
            yield from self._cepstra(each) if candidate.kind in ("mfcc", "plp") else self._floors(each)
        if candidate.value("use_energy") or has_energy:
            least = self.sheet.own[:, -1 if candidate.value("htk_compat") else 0][self.sheet.rows].min()
            if abs(least) < 60:
                yield candidate.change({"energy_floor": float(f"{math.exp(least):.5g}")})
                yield candidate.change({"energy_floor": 1.0})

    def _floors(self, candidate: Candidate) -> Iterator[Candidate]:
        """Yield the candidate with scales and floors of its energies."""
        levels = self.search.levels
        scales = (*dict.fromkeys((1.0, *levels, *candidate.source.loudness)),)
        yield from (candidate.change({"scale": each}) for each in scales)
        if candidate.value("use_log_fbank") is False or candidate.bins in ("power", "magnitude") or candidate.span:
            return
        if candidate.added:
            yield from (candidate.change({"floor": each}) for each in FLOORS[:4])
            return
        yield from (candidate.change({"scale": each, "floor": 1e-10}) for each in levels)
        floor, largest = self._floor_of(candidate.change({"scale": 1.0, "floor": 0.0}))
        power = 1.0 if candidate.value("use_power") is False else 2.0
        known = [(scale, each) for scale in scales for each in FLOORS
                 if abs(math.log(each) - power * math.log(scale) - floor) < FLOOR_ERROR]  # fmt: skip
        yield from (candidate.change({"scale": scale, "floor": each}) for scale, each in known)
        if abs(largest - DB_80["span"] * math.log(10) / 10 - floor) < FLOOR_ERROR:
            yield from (candidate.change({"scale": each} | DB_80) for each in levels)
        if math.isnan(floor):  # too few cells are at a floor to show it
            roots = (candidate.root, 1e-9) if power == 1 else (candidate.root,)
            yield from (candidate.change({"scale": scale, "floor": each, "root": root})
                        for scale, each, root in itertools.product(levels, FLOORS[:4], roots))  # fmt: skip
        elif not known and abs(floor) < LARGEST_LOG:
            yield candidate.change({"scale": 1.0, "floor": float(f"{math.exp(floor):.5g}")})

    def _floor_of(self, candidate: Candidate) -> tuple[float, float]:
        """Return the log energy of the array's floor, or NaN, and the largest one."""
        energies, values, inside = self._common_rows(candidate)
        energies, values = (each[self.sheet.rows[: len(inside)][inside]] for each in (energies, values))
        is_least = floored_cells(values)
        columns = self.sheet.own_columns & is_least.any(0)
        columns[: int(bool(candidate.value("use_energy")) and not candidate.value("htk_compat"))] = False
        if not columns.any():  # but perhaps the least number of all
            least = np.unravel_index(int(values.argmin()), values.shape)
            is_least[least] = columns[least[1]] = True
        # Where the slope of a column is known, its least value is exactly the floor; a filter without a bin has none.
        found = []
        for column in np.flatnonzero(columns):
            own = ~is_least[:, column]
            above, given = (each[own, column] if own.any() else each[~is_least] for each in (energies, values))
            if len(above) > 3:
                slope, offset = fits.line(above, given)
                known = next((each for each in SLOPES if abs(slope - each) < SLOPE_ERROR * each), 0.0)
                slope, offset = (known, float(np.median(given - known * above))) if known else (slope, offset)
                found += [(values[:, column].min() - offset) / slope] if slope else []
        below = energies[:, columns][is_least[:, columns]]
        floor = float(np.median(found)) if found else float(below.max())
        return (floor if floor > below.min() + FLOOR_ERROR else math.nan), float(energies.max())

    def _cepstra(self, candidate: Candidate) -> Iterator[Candidate]:
        """Yield the candidate with the DCTs, lifters and scales of cepstra."""
        is_mfcc = candidate.kind == "mfcc"
        scales = dict.fromkeys((candidate.scale, 1.0, *self.search.levels))
        lifters = dict.fromkeys((candidate.value("cepstral_lifter"), 22, 0, *self._lifters(candidate)))
        bases = [candidate]
        if is_mfcc and candidate.value("htk_compat") and not candidate.value("use_energy"):
            order = (*range(1, candidate.value("num_ceps")), 0)  # C0 last, and not times the root of 2
            bases.append(candidate.change({"htk_compat": False, "order": order}))
        for base, scale, lifter in itertools.product(bases, scales, lifters):
            for dct in ("kaldi", *DCTS) if is_mfcc and base.order is None else ("kaldi",):
                yield base.change({"scale": scale, "cepstral_lifter": lifter, "dct": dct})

    def _lifters(self, candidate: Candidate) -> list[int]:
        """Return the lifter that gives the columns of cepstra the sizes that the array's have, if there is one."""
        if candidate.order is not None or self.sheet.own.shape[1] < 4:
            return []
        features, values, inside = self._common_rows(candidate.change({"cepstral_lifter": 0}))
        rows = self.sheet.rows[: len(inside)][inside]
        with np.errstate(divide="ignore", invalid="ignore"):
            sizes = (values[rows].std(0) / features[rows].std(0))[1:]
        for lifter in LIFTERS:
            weights = 1 + 0.5 * lifter * np.sin(np.pi * np.arange(1, len(sizes) + 1) / lifter)
            if np.ptp(sizes - weights * sizes[0] / weights[0]) < 1e-3 * sizes.max():
                return [lifter]
        return []


def features_of(candidate: Candidate, frames: int | None = None) -> Doubles:
    """Return the features of a candidate: all, or about as many as so many frames from its start need."""
    samples = np.pad(candidate.source.samples[max(candidate.offset, 0) :], (max(-candidate.offset, 0), 0))
    if frames is not None:
        length = (candidate.start + frames + 8) * candidate.shift + candidate.size + candidate.fft_points
        samples = samples[:length]
    return candidate.reorder(np.clip(candidate.compute(samples).astype(np.float64), -1e30, 1e30))


def map_to(
    candidate: Candidate, sheet: Sheet, tolerance: float, *, arrangement: Arrangement | None = None,
    rows: int | None = None,
) -> Settled | None:  # fmt: skip
    """Return a candidate with the simplest map from its features to an array, or its first rows; None without one."""
    arrangement = arrangement or sheet.arrangement
    values, columns, stride = sheet.values[:rows], sheet.columns, arrangement.stride
    frames = len(values) * stride if len(values) < len(sheet.values) else None
    try:
        plain = features_of(candidate, frames)
    except KaldiCompatError:
        return None
    features = arrangement.apply(plain)
    if not arrangement.said:  # some of the columns are another feature's
        values, columns = values[:, arrangement.columns], columns[arrangement.columns]
    if features.shape[1] != values.shape[1]:
        return None
    start = round(candidate.start / stride)
    if stride > 1:
        start = fits.best_shift(features[:, columns], values[:, columns], start, 2)
    part, target = fits.overlap(features, values, start)
    row, count = max(-start, 0), len(target)
    counted = sheet.rows[row : row + count]
    if count < 2 or counted.sum() < 2:
        return None
    last = int(np.flatnonzero(counted)[-1]) + 1
    others = [features] * (len(features) != count) + [part[:last]] * (last < count)
    cells = np.ix_(counted, columns)
    before: list[fits.Map] = []
    if features.shape[1] > plain.shape[1]:  # a mean of frames is not the one of stacked frames
        for name, normalized, words in fits.normalizations(plain, plain):
            mapped, _ = fits.overlap(arrangement.apply(normalized), values, start)
            before.append((f"before that: {name}", mapped, words))
    fit = fits.simplest(part, target, tolerance, cells, others, before, sheet.step)
    return Settled(candidate, arrangement, fit, row, max(start, 0), target, cells, features, sheet.step)


def _edges(candidate: Candidate) -> Iterator[Candidate]:
    """Yield a candidate with what changes the frames at the edges of the audio only, or hardly any other."""
    for framed in candidate.same_framings():
        yield framed
        if framed.padding:
            yield framed.change({"source": with_zeros(framed.source)})
        if candidate.value("preemphasis_coefficient") and not candidate.whole:
            yield framed.change({"whole": ("preemphasis",)})


def spread_of(rounding: Doubles) -> Doubles:
    """Return the largest value in the frame and its neighbours, and in the column and its neighbours."""
    for axis in (0, 1):
        rounding = np.maximum(rounding, np.maximum(np.roll(rounding, 1, axis), np.roll(rounding, -1, axis)))
    return rounding


@dataclass(frozen=True)
class Places:
    """Places of an array that features do not give: padding, what is too quiet to compare, and deviations."""

    padding: list[str]  # in words
    quiet: list[str]  # in words
    deviations: Deviations


def places_of(settled: Settled, sheet: Sheet, tolerance: float) -> Places:
    """Return the places of an array that features do not give."""
    made, is_resampled = settled.fit.mapped, settled.candidate.source.is_resampled
    wrong = np.abs(made - settled.target) > sheet.step + max(tolerance, 1e-3 * float(np.abs(settled.target).max()))
    counted, columns = np.zeros(len(made), bool), np.ones(made.shape[1], bool)
    counted[settled.cells[0]], columns[settled.cells[1]] = True, False
    part = slice(settled.row, settled.row + len(made))
    rows, quiet = ~sheet.rows, np.zeros(len(sheet.rows), bool)
    rows[part] = wrong[:, ~columns].any(1) & ~counted
    if is_resampled:
        quiet[part] = rows[part] & (sheet.rows[part] | _quiet_rows(settled))
        rows &= ~quiet
    kept = np.flatnonzero(~rows)
    ends = {"start": int(kept[0]), "end": len(rows) - int(kept[-1]) - 1}
    padding = [f"{n} row{'s' * (n > 1)} of padding at the {where}" for where, n in ends.items() if n]
    is_padding = np.ones(len(rows), bool)
    is_padding[kept[0] : kept[-1] + 1] = False
    first = first_column(sheet)
    of_sheet = sheet.columns if sheet.arrangement.said else sheet.own_columns
    quiet_columns = np.logical_and(columns & of_sheet, is_resampled)
    ignored = quiet[part][:, None] | quiet_columns | (columns & (np.ptp(made[counted], axis=0) == 0))
    inside = (made > made.min()) & (made < made.max())
    slope, offset = fits.line(settled.features[settled.frame :][: len(made)], made, inside | ~inside.any(0))
    features = slope * settled.features + offset
    features[settled.frame :][: len(made)] = made
    if settled.rounding:  # which explains all differences of these cells
        features[settled.frame :][: len(made)][settled.cells] = settled.target[settled.cells]
    comparison = Comparison(
        settled.target, features, settled.frame, slope, offset, tolerance, sheet.step, ignored, is_padding[part],
        settled.row, first,
    )  # fmt: skip
    quiet_columns &= wrong[counted].any(0)
    parts = (np.flatnonzero(quiet), "frame"), (np.flatnonzero(quiet_columns) + first, "column")
    said = [f"{spans(places, name)} too quiet to compare" for places, name in parts if len(places)]
    return Places(padding, said, find_deviations(comparison))


def first_column(sheet: Sheet) -> int:
    """Return the number of the first column that features give."""
    return 0 if sheet.arrangement.said else int(np.arange(sheet.values.shape[1])[sheet.arrangement.columns][0])


def _quiet_rows(settled: Settled) -> Mask:
    """Return the mask of rows that are quieter than noise of one bit, where resamplers differ."""
    if settled.arrangement.said:
        return np.ones(len(settled.target), bool)
    plain = settled.candidate.without_levels()
    quiet: Mask = np.any(features_of(plain) < plain.of_noise(), axis=1)
    return quiet[settled.frame :][: len(settled.target)]
