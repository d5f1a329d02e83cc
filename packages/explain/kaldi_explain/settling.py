"""Choose the options that the search leaves open: paddings, floors, scales, logarithms, normalization, masks."""

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
from kaldi_explain.arrangements import Arrangement, Mask, describe_spans
from kaldi_explain.candidates import Candidate, Sheet, find_floored_cells
from kaldi_explain.deviations import Comparison, Deviations, find_deviations
from kaldi_explain.fits import Cells, Fit
from kaldi_explain.options import DB_80, EQUAL_SHAPES, list_values
from kaldi_explain.search import Search
from kaldi_explain.sources import ZEROS, append_zeros
from kaldi_explain.thresholds import THRESHOLDS

SLOPES = (1.0, *(slope for slope, *_ in fits.LINES if slope > 0))
# Attributes that change only the level of energies. In a rounded array, the effect of such an attribute can hardly be
# told from the slope or offset of a map, so the attribute counts as three words of an answer.
LEVELS, DOUBTFUL_WORDS = ("scale", "floor", "added", "span"), 3
# Maps a shape of filters to the shapes that differ from it at most in the height of the triangles.
SAME_SHAPE = {mel: pair[::-1] for pair in EQUAL_SHAPES.items() for mel in pair}


@dataclass(frozen=True)
class Settled:
    """Candidate with all steps after its features, and the rows of the array that it gives.

    Attributes:
        candidate: features that may have given the array.
        arrangement: transformation of the features that gives the array.
        fit: map from the arranged features to the array's rows.
        row: first row of the array that the features give.
        frame: row of the arranged features for the array's row ``row``.
        target: the rows of the array.
        cells: the cells that are compared.
        features: the arranged features of the whole recording.
        step: largest error of the array's stored numbers.
        rounding: description of the rounding that explains differences above the tolerance.
    """

    candidate: Candidate
    arrangement: Arrangement
    fit: Fit
    row: int
    frame: int
    target: Doubles
    cells: Cells
    features: Doubles
    step: float = 0.0
    rounding: str = ""

    @property
    def word_count(self) -> int:
        """Number of properties that the explanation has to name, plus ``DOUBTFUL_WORDS`` for each doubtful level."""
        steps = bool(self.candidate.source.words) + bool(self.arrangement.words) + bool(self.row)
        levels = sum(self.candidate.get(name) != self.candidate.get_default(name) for name in LEVELS)
        extra = DOUBTFUL_WORDS * levels if self.step and self.fit.word_count >= fits.NUMBER_WORDS else 0
        return len(self.candidate.list_settings()) + steps + self.fit.word_count + len(self.describe_shift()) + extra

    def is_explained_by(self, tolerance: float) -> bool:
        """Return True if the residual is within a tolerance, or explained by rounding."""
        return self.fit.residual <= tolerance or bool(self.rounding)

    def compute_cost(self) -> float:
        """Return the residual, increased by 5% for each of the :attr:`word_count` words."""
        return self.fit.residual * (1 + 0.05 * self.word_count)

    def measure_unexplained(self, compared: Mask | None = None) -> float:
        """Return the root of the share of the array's variance that is not explained.

        Values outside of the mask ``compared`` count as explained. Return 1 if no column of the array varies.
        """
        mapped, target = self.fit.mapped[self.cells], self.target[self.cells]
        mapped = mapped if compared is None else np.where(compared[self.cells], mapped, target)
        variance = target.var(0)
        is_varying = variance > 1e-9 * variance.max()  # Other columns vary only by rounding errors.
        error = ((mapped - target) ** 2).mean(0)[is_varying] / variance[is_varying]
        return float(np.sqrt(np.minimum(error, 1).mean())) if is_varying.any() else 1.0

    def describe_order_of_columns(self) -> str:
        """Describe which columns of the features the array has, and their order. Return "" without a changed order."""
        order = self.candidate.order
        return "" if order is None else fits.describe_order(order, max(order) + 1)

    def describe_shift(self, named_at_start: int = 0, named_at_end: int = 0) -> list[str]:
        """Describe missing and additional frames at both ends of the array, except at the end if zeros were appended.

        The arguments count frames at the start and at the end that the answer names already.
        """
        missing_at_end = len(self.features) - self.frame - len(self.target) - named_at_end
        missing_at_end = 0 if self.candidate.source.words.endswith(ZEROS) else missing_at_end
        return fits.describe_frame_counts({"start": self.row - self.frame - named_at_start, "end": -missing_at_end})


class Settling:
    """Choice among candidates that the search ``search`` cannot distinguish.

    ``tolerance`` is the largest difference that counts as explained.
    """

    def __init__(self, search: Search, tolerance: float) -> None:
        self.search, self.sheet, self.tolerance = search, search.sheet, tolerance

    def settle_candidate(self, candidate: Candidate) -> Settled | None:
        """Vary the levels and edges of a candidate, and return the simplest variation within the tolerance.

        If there is none, return the variation with the smallest cost, or the best so far when the budget is spent.
        Return None if the candidate cannot be compared with the array. Store the sheet with silence in :attr:`sheet`.
        """
        budget = self.search.budget
        best = self._choose_best(map(self._fit_candidate, budget.limit(candidate.list_same_framings() or [candidate])))
        if best is None or budget.is_settling_over():
            return best
        self.sheet = self._include_silence(best.candidate)
        best = self._fit_candidate(best.candidate) or best
        # A wrong floor may hide the right edges, and wrong edges may hide the right floor, so both are chosen twice.
        steps: list[Callable[[Candidate], Iterator[Candidate]]] = [
            self._vary_levels,
            _vary_edges,
            self._vary_levels,
            _vary_edges,
        ]
        for step in steps:
            # Try rounding only if no row is missing. Otherwise, zeros after the audio may still give the missing rows.
            is_whole = best.cells[0].size == self.sheet.rows[: THRESHOLDS.settled_rows].sum()
            if is_whole and best.fit.word_count < fits.NUMBER_WORDS:
                rounded = self._explain_by_rounding(best)
                if rounded.is_explained_by(self.tolerance):
                    return rounded
            candidates = itertools.takewhile(lambda _: not budget.is_settling_over(), step(best.candidate))
            best = self._choose_best([best, *map(self._fit_candidate, candidates)]) or best
            if best.fit.residual <= self.tolerance and step == _vary_edges:
                break
        if len(self.sheet.values) > THRESHOLDS.settled_rows:
            best = fit_map(best.candidate, self.sheet, self.tolerance) or best
        return best if budget.is_settling_over() else self._explain_by_rounding(best)

    def _explain_by_rounding(self, settled: Settled) -> Settled:
        """If rounding explains the differences, return the candidate with a more accurate FFT or a note on rounding.

        Otherwise, return ``settled``.
        """
        ratio = THRESHOLDS.own_rounding
        if not self.tolerance < settled.fit.residual < ratio * 1e3 * self.tolerance:
            return settled
        accurate = settled.candidate.change({"precise": True, "source": settled.candidate.source.add_rounding_noise()})
        other = fit_map(accurate, self.sheet, self.tolerance)
        if other is None or other.fit.residual <= self.tolerance:
            return other or settled
        rounding = spread_maximum(np.abs(other.fit.mapped - settled.fit.mapped))
        error = np.minimum(np.abs(other.fit.mapped - settled.target), np.abs(settled.fit.mapped - settled.target))
        excess = np.maximum(error - ratio * rounding, 0)[settled.cells]
        is_rounding = fits.measure_residual(excess, np.zeros_like(excess), self.sheet.step) <= self.tolerance
        return dataclasses.replace(settled, rounding="single precision in quiet bins" * is_rounding)

    def _fit_candidate(self, candidate: Candidate) -> Settled | None:
        return fit_map(candidate, self.sheet, self.tolerance, row_count=THRESHOLDS.settled_rows)

    def _choose_best(self, candidates: Iterable[Settled | None]) -> Settled | None:
        """Return the best of the candidates that explain the array, or of all candidates if none explains it.

        The candidate with the most compared rows is best. Among candidates with equally many rows, the fewest words
        decide, or the smallest cost if no candidate explains the array. Return None without candidates.
        """
        settled = [candidate for candidate in candidates if candidate]
        exact = [candidate for candidate in settled if candidate.fit.residual <= self.tolerance]
        settled = exact or settled
        row_count = max((candidate.cells[0].size for candidate in settled), default=0)
        settled = [candidate for candidate in settled if candidate.cells[0].size == row_count]
        return min(settled, key=lambda result: result.word_count if exact else result.compute_cost(), default=None)

    def _select_common_rows(self, candidate: Candidate) -> tuple[Doubles, Doubles, Mask]:
        """Return features and the array's values in the rows that both have, and a mask of these rows.

        Only the first ``THRESHOLDS.settled_rows`` rows of a long array are compared. The mask covers these first rows.
        """
        stride, row_count = self.sheet.arrangement.stride, min(len(self.sheet.values), THRESHOLDS.settled_rows)
        features = compute_features(candidate, row_count * stride if row_count < len(self.sheet.values) else None)
        frames = candidate.start + np.arange(row_count) * stride
        inside = (frames >= 0) & (frames < len(features))
        return features[frames[inside]], self.sheet.feature_values[:row_count][inside], inside

    def _include_silence(self, candidate: Candidate) -> Sheet:
        """Return the sheet with silent rows and columns of empty filters, which show a floor, added to the comparison.

        For resampled audio, leave out rows and columns below one-bit noise instead, where resamplers differ. Return the
        sheet unchanged if the features are not logarithmic spectra, or if too few cells would be left.
        """
        is_log = candidate.kind in ("fbank", "spectrogram") and candidate.bins not in ("power", "magnitude")
        if not is_log or (self.sheet.rows.all() and self.sheet.columns.all() and not candidate.source.is_resampled):
            return self.sheet
        plain = candidate.remove_levels()
        features, _, inside = self._select_common_rows(plain)
        marked, columns = np.zeros(len(self.sheet.rows), bool), self.sheet.columns.copy()
        if candidate.source.is_resampled:
            quiet = features < plain.compute_noise_features()
            columns[self.sheet.arrangement.columns] &= (loud := quiet.mean(0) < 0.5)
            marked[: len(inside)][inside] = quiet[:, loud].any(1)
            if marked.mean() > 0.5 or loud.mean() < 0.5:  # Too few cells would be left for a comparison.
                return self.sheet
            return dataclasses.replace(self.sheet, rows=self.sheet.rows & ~marked, columns=columns)
        silent = features < math.log(1e-30)
        # A filter without an FFT bin is always at the floor, so its column shows the floor and is compared.
        columns[self.sheet.arrangement.columns] |= silent.all(0) & (
            self.sheet.feature_values.min(0) == self.sheet.feature_values.min()
        )
        marked[: len(inside)][inside] = silent[:, 1:].all(1)
        # All rows of silence have the same values. A silent row with different values was masked, and is not compared.
        if marked.any():
            marked[marked] = (self.sheet.values[marked] == np.median(self.sheet.values[marked], axis=0)).all(1)
        return dataclasses.replace(self.sheet, rows=self.sheet.rows | marked, columns=columns)

    def _vary_levels(self, candidate: Candidate) -> Iterator[Candidate]:
        """Yield the candidate with other filter heights, scales, floors, DCTs, lifters and floors of the energy."""
        if self.sheet.arrangement.taps:  # Deltas do not depend on the level of energies.
            yield candidate.change({"scale": 1.0})
            return
        has_energy = (candidate.kind, candidate.bins) == ("spectrogram", "kaldi")
        shapes = [candidate.change({"mel": mel}) for mel in SAME_SHAPE.get(candidate.mel, (candidate.mel,))]
        if has_energy:  # A first column at a floor may or may not be the energy.
            shapes.append(candidate.change({"bins": "log"}))
        for shape in shapes:
            yield from self._vary_cepstra(shape) if candidate.kind in ("mfcc", "plp") else self._vary_floors(shape)
        if candidate.get("use_energy") or has_energy:
            lowest = self.sheet.feature_values[:, -1 if candidate.get("htk_compat") else 0][self.sheet.rows].min()
            if abs(lowest) < 60:
                yield candidate.change({"energy_floor": float(f"{math.exp(lowest):.5g}")})
                yield candidate.change({"energy_floor": 1.0})

    def _vary_floors(self, candidate: Candidate) -> Iterator[Candidate]:
        """Yield the candidate with usual scales and, for logarithms, with usual floors and the floor of the array."""
        levels, floors = self.search.levels, list_values("floor")
        scales = (*dict.fromkeys((1.0, *levels, *candidate.source.loudness_factors)),)
        yield from (candidate.change({"scale": scale}) for scale in scales)
        if candidate.get("use_log_fbank") is False or candidate.bins in ("power", "magnitude") or candidate.span:
            return
        if candidate.added:
            yield from (candidate.change({"floor": floor}) for floor in floors[:4])
            return
        yield from (candidate.change({"scale": scale, "floor": 1e-10}) for scale in levels)
        log_floor, largest = self._find_floor(candidate.change({"scale": 1.0, "floor": 0.0}))
        power, error = 1.0 if candidate.get("use_power") is False else 2.0, THRESHOLDS.floor_error
        pairs = [(scale, floor) for scale, floor in itertools.product(scales, floors)
                 if abs(math.log(floor) - power * math.log(scale) - log_floor) < error]  # fmt: skip
        # Code that computes magnitudes may add 1e-9 to the powers, which changes magnitudes near a floor.
        roots = dict.fromkeys((candidate.root, 1e-9)) if power == 1 else (candidate.root,)
        yield from (candidate.change({"scale": scale, "floor": floor, "root": root})
                    for (scale, floor), root in itertools.product(pairs, roots))  # fmt: skip
        is_db_80 = abs(largest - DB_80["span"] * math.log(10) / 10 - log_floor) < error
        if is_db_80:
            yield from (candidate.change({"scale": scale} | DB_80) for scale in levels)
        if math.isnan(log_floor):  # Too few cells show the floor, so usual floors are tried.
            yield from (candidate.change({"scale": scale, "floor": floor, "root": root})
                        for scale, floor, root in itertools.product(levels, floors[:4], roots))  # fmt: skip
        elif not pairs and not is_db_80 and abs(log_floor) < 300:  # The limit keeps exp() and its reciprocal finite.
            yield candidate.change({"scale": 1.0, "floor": float(f"{math.exp(log_floor):.5g}")})

    def _find_floor(self, candidate: Candidate) -> tuple[float, float]:
        """Return the log energy at the array's floor (NaN if no cell shows the floor), and the largest log energy."""
        energies, values, inside = self._select_common_rows(candidate)
        energies, values = (array[self.sheet.rows[: len(inside)][inside]] for array in (energies, values))
        is_lowest = find_floored_cells(values)
        columns = self.sheet.feature_columns & is_lowest.any(0)
        columns[: int(bool(candidate.get("use_energy")) and not candidate.get("htk_compat"))] = False
        if not columns.any():  # A single cell, the smallest one, may be at the floor.
            lowest = np.unravel_index(int(values.argmin()), values.shape)
            is_lowest[lowest] = columns[lowest[1]] = True
        # A column's line converts the floor to the scale of the log energies. A known slope makes the result exact. A
        # filter without an FFT bin is constant, so it has no slope and is left out.
        log_floors = []
        for column in np.flatnonzero(columns):
            is_higher = ~is_lowest[:, column]
            x, y = (array[is_higher, column] if is_higher.any() else array[~is_lowest] for array in (energies, values))
            if len(x) > 3:
                slope, offset = fits.fit_line(x, y)
                error = THRESHOLDS.recognized
                exact = next((known for known in SLOPES if abs(slope - known) < error * known), 0.0)
                slope, offset = (exact, float(np.median(y - exact * x))) if exact else (slope, offset)
                log_floors += [(values[:, column].min() - offset) / slope] if slope else []
        floored_energies = energies[:, columns][is_lowest[:, columns]]
        floor = float(np.median(log_floors)) if log_floors else float(floored_energies.max())
        is_shown = floor > floored_energies.min() + THRESHOLDS.floor_error
        return (floor if is_shown else math.nan), float(energies.max())

    def _vary_cepstra(self, candidate: Candidate) -> Iterator[Candidate]:
        """Yield the candidate with each combination of a DCT, a lifter and a scale of the samples."""
        is_mfcc = candidate.kind == "mfcc"
        scales = dict.fromkeys((candidate.scale, 1.0, *self.search.levels))
        lifters = dict.fromkeys((candidate.get("cepstral_lifter"), 22, 0, *self._list_lifters(candidate)))
        bases = [candidate]
        if is_mfcc and candidate.get("htk_compat") and not candidate.get("use_energy"):
            order = (*range(1, candidate.get("num_ceps")), 0)  # C0 is last, but without HTK's factor of sqrt(2).
            bases.append(candidate.change({"htk_compat": False, "order": order}))
        for base, scale, lifter in itertools.product(bases, scales, lifters):
            for dct in list_values("dct") if is_mfcc and base.order is None else ("kaldi",):
                yield base.change({"scale": scale, "cepstral_lifter": lifter, "dct": dct})

    def _list_lifters(self, candidate: Candidate) -> list[int]:
        """Return [lifter] for the smallest lifter from 2 to 99 that explains the standard deviations of the columns.

        Return [] if no lifter explains them. The first column is not compared, and the factor of all columns is free.
        """
        if candidate.order is not None or self.sheet.feature_values.shape[1] < 4:
            return []
        features, values, inside = self._select_common_rows(candidate.change({"cepstral_lifter": 0}))
        rows = self.sheet.rows[: len(inside)][inside]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = (values[rows].std(0) / features[rows].std(0))[1:]
        for lifter in range(2, 100):
            weights = 1 + 0.5 * lifter * np.sin(np.pi * np.arange(1, len(ratios) + 1) / lifter)
            if np.ptp(ratios - weights * ratios[0] / weights[0]) < 1e-3 * ratios.max():
                return [lifter]
        return []


def compute_features(candidate: Candidate, frame_count: int | None = None) -> Doubles:
    """Return the features (frames, dim) of a candidate, limited to +-1e30, for the whole audio or only for its start.

    The start has at least ``frame_count`` frames from the candidate's first row on. None selects the whole audio.
    """
    samples = np.pad(candidate.source.samples[max(candidate.offset, 0) :], (max(-candidate.offset, 0), 0))
    if frame_count is not None:
        length = (candidate.start + frame_count + 8) * candidate.shift + candidate.size + candidate.fft_points
        samples = samples[:length]
    return candidate.reorder(np.clip(candidate.compute(samples).astype(np.float64), -1e30, 1e30))


def fit_map(
    candidate: Candidate, sheet: Sheet, tolerance: float, *, arrangement: Arrangement | None = None,
    row_count: int | None = None,
) -> Settled | None:  # fmt: skip
    """Return a candidate with the simplest map from its features to the array of ``sheet``.

    Return None if the candidate cannot be compared with the array. ``tolerance`` is the largest residual of an
    explanation. ``arrangement`` replaces the sheet's transformation of the features. Only the first ``row_count`` rows
    of the array are compared, or all for None.
    """
    arrangement = arrangement or sheet.arrangement
    values, columns, stride = sheet.values[:row_count], sheet.columns, arrangement.stride
    frame_count = len(values) * stride if len(values) < len(sheet.values) else None
    try:
        plain = compute_features(candidate, frame_count)
    except KaldiCompatError:
        return None
    features = arrangement.apply(plain)
    if not arrangement.words:  # The remaining columns may belong to another feature.
        values, columns = values[:, arrangement.columns], columns[arrangement.columns]
    if features.shape[1] != values.shape[1]:
        return None
    start = round(candidate.start / stride)
    if stride > 1:
        start = fits.find_best_shift(features[:, columns], values[:, columns], start, 2)
    common_features, target = fits.select_common_frames(features, values, start)
    row, count = max(-start, 0), len(target)
    compared = sheet.rows[row : row + count]
    if count < 2 or compared.sum() < 2:
        return None
    last = int(np.flatnonzero(compared)[-1]) + 1
    references = [features] * (len(features) != count) + [common_features[:last]] * (last < count)
    cells = np.ix_(compared, columns)
    earlier_maps: list[fits.Map] = []
    # The mean over single frames differs from the mean over stacked rows, so also try a normalization before stacking.
    if features.shape[1] > plain.shape[1]:
        for name, normalized, word_count in fits.list_normalizations(plain, plain):
            mapped, _ = fits.select_common_frames(arrangement.apply(normalized), values, start)
            earlier_maps.append((f"before that: {name}", mapped, word_count))
    fit = fits.find_simplest_map(common_features, target, tolerance, cells, references, earlier_maps, sheet.step)
    return Settled(candidate, arrangement, fit, row, max(start, 0), target, cells, features, sheet.step)


def _vary_edges(candidate: Candidate) -> Iterator[Candidate]:
    """Yield the candidate with each padding that keeps its first sample, with zeros, and with ``whole`` preemphasis."""
    for framed in candidate.list_same_framings():
        yield framed
        if framed.padding:
            yield framed.change({"source": append_zeros(framed.source)})
        if candidate.get("preemphasis_coefficient") and not candidate.whole:
            yield framed.change({"whole": ("preemphasis",)})


def spread_maximum(values: Doubles) -> Doubles:
    """Return for each cell (frames, columns) the largest value of a block of 3 frames and 3 columns around the cell.

    Beyond an edge of the array, the block continues at the opposite edge.
    """
    for axis in (0, 1):
        values = np.maximum(values, np.maximum(np.roll(values, 1, axis), np.roll(values, -1, axis)))
    return values


@dataclass(frozen=True)
class Places:
    """Places of an array that features do not give.

    Attributes:
        padding: descriptions of rows of padding.
        quiet: descriptions of frames and columns that are too quiet to compare.
        deviations: all other places.
    """

    padding: list[str]
    quiet: list[str]
    deviations: Deviations


def find_places(settled: Settled, sheet: Sheet, tolerance: float) -> Places:
    """Return the places of an array that the features of ``settled`` do not explain within ``tolerance``."""
    mapped, is_resampled = settled.fit.mapped, settled.candidate.source.is_resampled
    # `wrong` is used for rows and columns that were not fitted, so a thousandth of the largest value is also allowed.
    wrong = np.abs(mapped - settled.target) > sheet.step + max(tolerance, 1e-3 * float(np.abs(settled.target).max()))
    compared, columns = np.zeros(len(mapped), bool), np.ones(mapped.shape[1], bool)
    compared[settled.cells[0]], columns[settled.cells[1]] = True, False
    row_slice = slice(settled.row, settled.row + len(mapped))
    rows, quiet = ~sheet.rows, np.zeros(len(sheet.rows), bool)
    rows[row_slice] = wrong[:, ~columns].any(1) & ~compared
    if is_resampled:
        quiet[row_slice] = rows[row_slice] & (sheet.rows[row_slice] | _find_quiet_rows(settled))
        rows &= ~quiet
    inner_rows = np.flatnonzero(~rows)
    padding_counts = {"start": int(inner_rows[0]), "end": len(rows) - int(inner_rows[-1]) - 1}
    padding = [f"{n} row{'s' * (n > 1)} of padding at the {where}" for where, n in padding_counts.items() if n]
    is_padding = np.ones(len(rows), bool)
    is_padding[inner_rows[0] : inner_rows[-1] + 1] = False
    first = find_first_column(sheet)
    informative = sheet.columns if sheet.arrangement.words else sheet.feature_columns
    quiet_columns = np.logical_and(columns & informative, is_resampled)
    ignored = quiet[row_slice][:, None] | quiet_columns | (columns & (np.ptp(mapped[compared], axis=0) == 0))
    inside = (mapped > mapped.min()) & (mapped < mapped.max())
    slope, offset = fits.fit_line(settled.features[settled.frame :][: len(mapped)], mapped, inside | ~inside.any(0))
    features = slope * settled.features + offset
    features[settled.frame :][: len(mapped)] = mapped
    if settled.rounding:  # Rounding explains all differences of the compared cells.
        features[settled.frame :][: len(mapped)][settled.cells] = settled.target[settled.cells]
    comparison = Comparison(
        settled.target, features, settled.frame, slope, offset, tolerance, sheet.step, ignored, is_padding[row_slice],
        settled.row, first,
    )  # fmt: skip
    quiet_columns &= wrong[compared].any(0)
    quiet_places = (np.flatnonzero(quiet), "frame"), (np.flatnonzero(quiet_columns) + first, "column")
    silence = [f"{describe_spans(places, name)} too quiet to compare" for places, name in quiet_places if len(places)]
    return Places(padding, silence, find_deviations(comparison))


def find_first_column(sheet: Sheet) -> int:
    """Return the index of the array's first column that is computed from the features.

    An arrangement such as deltas computes all columns from the features, so the index is 0.
    """
    return 0 if sheet.arrangement.words else int(np.arange(sheet.values.shape[1])[sheet.arrangement.columns][0])


def _find_quiet_rows(settled: Settled) -> Mask:
    """Return the mask of rows with a value below the level of one-bit noise, where resamplers differ.

    If features were rearranged, the mask selects all rows, because such rows do not belong to single frames.
    """
    if settled.arrangement.words:
        return np.ones(len(settled.target), bool)
    plain = settled.candidate.remove_levels()
    quiet: Mask = np.any(compute_features(plain) < plain.compute_noise_features(), axis=1)
    return quiet[settled.frame :][: len(settled.target)]
