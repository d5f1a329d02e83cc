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

SLOPES = (1.0, *(slope for slope, *_ in fits.LINES if slope > 0))  # Known slopes from log energies to array values.
# Attributes that change only the level of energies. In a rounded array, the effect of such an attribute can hardly be
# told from the slope or offset of a map, so the attribute counts as three words of an answer.
LEVELS, DOUBTFUL_WORDS = ("scale", "floor", "added", "span"), 3
MAX_ROUNDING = 1e3  # Largest rounding error, in tolerances, that is searched for.
SMALLEST_LOG_ENERGY = math.log(1e-30)  # Smaller log energies belong to digital silence.
MAX_LIFTER = 99  # Largest lifter that is searched for. The usual lifter is 22.
# Maps a shape of filters to the shapes that differ from it at most in the height of the triangles.
SAME_SHAPE = {mel: pair[::-1] for pair in EQUAL_SHAPES.items() for mel in pair}


@dataclass(frozen=True)
class Settled:
    """A candidate, and the steps that convert its features to the rows of an array."""

    candidate: Candidate  # Features from which the array may have been made.
    arrangement: Arrangement  # Transformation of the features, such as deltas or stacking.
    fit: Fit  # Map from the arranged features to the array's rows, such as a scale and an offset.
    row: int  # First row of the array for which there are features.
    frame: int  # Row of the arranged features that corresponds to `row`.
    target: Doubles  # Rows (frames, columns) of the array for which there are features.
    cells: Cells  # Indices of the compared rows and columns of `target`.
    features: Doubles  # Arranged features (frames, columns) of the whole recording.
    step: float = 0.0  # Largest error of the array's stored numbers.
    rounding: str = ""  # Description of the rounding, if it explains the differences above the tolerance.

    @property
    def word_count(self) -> int:
        """Number of properties that the explanation has to name, plus ``DOUBTFUL_WORDS`` for each doubtful level.

        Levels other than Kaldi's are doubtful if the array's numbers are rounded and the map has fitted numbers.
        """
        named_count = len(self.candidate.list_settings()) + self.fit.word_count + len(self.describe_shift())
        step_count = bool(self.candidate.source.words) + bool(self.arrangement.words) + bool(self.row)
        level_count = sum(self.candidate.get(name) != self.candidate.get_default(name) for name in LEVELS)
        doubtful_count = level_count if self.step and self.fit.word_count >= fits.NUMBER_WORDS else 0
        return named_count + step_count + DOUBTFUL_WORDS * doubtful_count

    def is_explained_by(self, tolerance: float) -> bool:
        """Return True if the residual is at most ``tolerance``, or if :attr:`rounding` explains the differences."""
        return self.fit.residual <= tolerance or bool(self.rounding)

    def compute_cost(self) -> float:
        """Return the residual, increased by the share ``THRESHOLDS.cost_of_step`` for each word of the answer."""
        return self.fit.residual * (1 + THRESHOLDS.cost_of_step * self.word_count)

    def measure_unexplained(self, compared: Mask | None = None) -> float:
        """Return the root of the mean unexplained share of the variance of the compared columns that vary.

        Values outside the mask ``compared`` (frames, columns) count as explained. Return 1 if no column varies.
        """
        mapped, target = self.fit.mapped[self.cells], self.target[self.cells]
        mapped = mapped if compared is None else np.where(compared[self.cells], mapped, target)
        variance = target.var(0)
        is_varying = variance > 1e-9 * variance.max()  # Other columns vary only by rounding errors.
        error = ((mapped - target) ** 2).mean(0)[is_varying] / variance[is_varying]
        return float(np.sqrt(np.minimum(error, 1).mean())) if is_varying.any() else 1.0

    def describe_order_of_columns(self) -> str:
        """Describe which columns of the features the array has, and in which order. Return "" for all in order."""
        order = self.candidate.order
        return "" if order is None else fits.describe_order(order, max(order) + 1)

    def describe_shift(self, start_shift: int = 0, end_shift: int = 0) -> list[str]:
        """Describe how many frames of the features the array lacks, or has in addition, at its start and at its end.

        Frames that are missing at the end are not described if zeros were appended to the audio. The arguments are
        shifts in frames (``Deviations.edge_shifts``) that the answer names elsewhere.
        """
        missing_at_end = len(self.features) - self.frame - len(self.target) - end_shift
        missing_at_end = 0 if self.candidate.source.words.endswith(ZEROS) else missing_at_end
        return fits.describe_frame_counts({"start": self.row - self.frame - start_shift, "end": -missing_at_end})


class Settling:
    """Choice among candidates that the search ``search`` cannot distinguish, because costs ignore levels and floors.

    ``tolerance`` is the largest residual of a candidate that explains the array.
    """

    def __init__(self, search: Search, tolerance: float) -> None:
        self.search, self.sheet, self.tolerance = search, search.sheet, tolerance

    def settle_candidate(self, candidate: Candidate) -> Settled | None:
        """Vary the levels of a candidate and the edges of its audio, and return the best variation.

        :meth:`_choose_best` defines the best variation. If rounding explains the remaining differences, the result has
        a description of the rounding. When the budget is used up, return the best variation so far. Return None if the
        candidate cannot be compared with the array. Also set :attr:`sheet` to the result of :meth:`_include_silence`.
        """
        budget = self.search.budget
        best = self._choose_best(map(self._fit_candidate, budget.limit(candidate.list_same_framings() or [candidate])))
        if best is None or budget.is_settling_over():
            return best
        self.sheet = self._include_silence(best.candidate)
        best = self._fit_candidate(best.candidate) or best
        # A wrong floor may hide the right edges, and wrong edges may hide the right floor, so both are chosen twice.
        variations: list[Callable[[Candidate], Iterator[Candidate]]] = [self._vary_levels, _vary_edges] * 2
        for vary in variations:
            # Try rounding only if no row is missing. Otherwise, zeros after the audio may still give the missing rows.
            has_all_rows = best.cells[0].size == self.sheet.rows[: THRESHOLDS.settled_rows].sum()
            if has_all_rows and best.fit.word_count < fits.NUMBER_WORDS:
                rounded = self._explain_by_rounding(best)
                if rounded.is_explained_by(self.tolerance):
                    return rounded
            candidates = itertools.takewhile(lambda _: not budget.is_settling_over(), vary(best.candidate))
            best = self._choose_best([best, *map(self._fit_candidate, candidates)]) or best
            if best.fit.residual <= self.tolerance and vary == _vary_edges:
                break
        if len(self.sheet.values) > THRESHOLDS.settled_rows:
            best = fit_map(best.candidate, self.sheet, self.tolerance) or best
        return best if budget.is_settling_over() else self._explain_by_rounding(best)

    def _explain_by_rounding(self, settled: Settled) -> Settled:
        """Return ``settled``, changed if rounding explains its differences from the array.

        If an FFT in double precision explains the array, the result has this FFT and, for resampled audio, rounding
        noise. Otherwise, if the differences are at most ``THRESHOLDS.own_rounding`` times the rounding errors of single
        precision, :attr:`Settled.rounding` says so. A residual within the tolerance, or too large, is ignored.
        """
        ratio = THRESHOLDS.own_rounding
        if not self.tolerance < settled.fit.residual < ratio * MAX_ROUNDING * self.tolerance:
            return settled
        candidate = settled.candidate
        candidate = candidate.change({"precise": True, "source": candidate.source.add_rounding_noise()})
        precise = fit_map(candidate, self.sheet, self.tolerance)
        if precise is None or precise.fit.residual <= self.tolerance:
            return precise or settled
        # The features in single and double precision show the rounding errors of a cell and of its neighbors.
        rounding = spread_maximum(np.abs(precise.fit.mapped - settled.fit.mapped))
        error = np.minimum(np.abs(precise.fit.mapped - settled.target), np.abs(settled.fit.mapped - settled.target))
        excess = np.maximum(error - ratio * rounding, 0)[settled.cells]
        is_rounding = fits.measure_residual(excess, np.zeros_like(excess), self.sheet.step) <= self.tolerance
        return dataclasses.replace(settled, rounding="single precision in quiet bins" * is_rounding)

    def _fit_candidate(self, candidate: Candidate) -> Settled | None:
        return fit_map(candidate, self.sheet, self.tolerance, row_count=THRESHOLDS.settled_rows)

    def _choose_best(self, candidates: Iterable[Settled | None]) -> Settled | None:
        """Return the best of the candidates that explain the array, or of all candidates if none explains it.

        The best candidate has the most compared rows and, among candidates with equally many rows, the fewest words or,
        if no candidate explains the array, the smallest cost. Skip None, and return None if no candidate remains.
        """
        results = [candidate for candidate in candidates if candidate]
        exact_results = [result for result in results if result.fit.residual <= self.tolerance]
        results = exact_results or results
        row_count = max((result.cells[0].size for result in results), default=0)
        results = [result for result in results if result.cells[0].size == row_count]
        if exact_results:
            return min(results, key=lambda result: result.word_count)
        return min(results, key=Settled.compute_cost, default=None)

    def _select_common_rows(self, candidate: Candidate) -> tuple[Doubles, Doubles, Mask]:
        """Return a candidate's features and the array's values, both (rows, columns), in the rows that both have.

        Also return the mask of these rows. Only the first ``THRESHOLDS.settled_rows`` rows of a long array are used.
        """
        stride, row_count = self.sheet.arrangement.stride, min(len(self.sheet.values), THRESHOLDS.settled_rows)
        features = compute_features(candidate, row_count * stride if row_count < len(self.sheet.values) else None)
        frames = candidate.start + np.arange(row_count) * stride
        is_common = (frames >= 0) & (frames < len(features))
        return features[frames[is_common]], self.sheet.feature_values[:row_count][is_common], is_common

    def _include_silence(self, candidate: Candidate) -> Sheet:
        """Return the sheet with masks that also select silent rows and columns of empty filters, which show a floor.

        For resampled audio, the masks exclude quiet cells instead (:meth:`_leave_out_quiet_cells`). Return the sheet
        unchanged for cepstra, and for spectrograms without a logarithm.
        """
        is_log = candidate.kind in ("fbank", "spectrogram") and candidate.bins not in ("power", "magnitude")
        if is_log and candidate.source.is_resampled:
            return self._leave_out_quiet_cells(candidate)
        if not is_log or (self.sheet.rows.all() and self.sheet.columns.all()):
            return self.sheet
        features, _, is_common = self._select_common_rows(candidate.remove_levels())
        is_silent = features < SMALLEST_LOG_ENERGY
        # A filter without an FFT bin is always at the floor, so its column shows the floor and is compared.
        columns, values = self.sheet.columns.copy(), self.sheet.feature_values
        columns[self.sheet.arrangement.columns] |= is_silent.all(0) & (values.min(0) == values.min())
        silent_rows = np.zeros(len(self.sheet.rows), bool)
        silent_rows[: len(is_common)][is_common] = is_silent[:, 1:].all(1)
        # All rows of silence have the same values. A silent row with different values was masked, and is not compared.
        if silent_rows.any():
            silent_values = self.sheet.values[silent_rows]
            silent_rows[silent_rows] = (silent_values == np.median(silent_values, axis=0)).all(1)
        return dataclasses.replace(self.sheet, rows=self.sheet.rows | silent_rows, columns=columns)

    def _leave_out_quiet_cells(self, candidate: Candidate) -> Sheet:
        """Return the sheet with masks that exclude the rows and columns of resampled audio in which resamplers differ.

        A feature is quiet if it has less energy than one-bit noise. Columns are excluded if at least half of their
        features are quiet, and then rows with a quiet feature in a remaining column. Return the sheet unchanged if less
        than half of the rows or columns would remain.
        """
        plain = candidate.remove_levels()
        features, _, is_common = self._select_common_rows(plain)
        is_quiet = features < plain.compute_noise_features()
        is_loud_column = is_quiet.mean(0) < 0.5
        columns, quiet_rows = self.sheet.columns.copy(), np.zeros(len(self.sheet.rows), bool)
        columns[self.sheet.arrangement.columns] &= is_loud_column
        quiet_rows[: len(is_common)][is_common] = is_quiet[:, is_loud_column].any(1)
        if quiet_rows.mean() > 0.5 or is_loud_column.mean() < 0.5:
            return self.sheet
        return dataclasses.replace(self.sheet, rows=self.sheet.rows & ~quiet_rows, columns=columns)

    def _vary_levels(self, candidate: Candidate) -> Iterator[Candidate]:
        """Yield variations of a candidate that have nearly the same cost in the search.

        They differ in the heights of filters, the scale of samples, floors, a spectrogram's first column, the DCT and
        the lifter. Deltas do not depend on these, so for deltas, yield only the candidate with unscaled samples.
        """
        if self.sheet.arrangement.taps:
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
            if abs(lowest) < 60:  # Larger magnitudes are not log energies of audio.
                yield candidate.change({"energy_floor": float(f"{math.exp(lowest):.5g}")})
                yield candidate.change({"energy_floor": 1.0})  # Default floor of torchaudio.compliance.kaldi.

    def _vary_floors(self, candidate: Candidate) -> Iterator[Candidate]:
        """Yield a filter bank or spectrogram with usual scales of the samples, and then with likely floors.

        Features without a logarithm, or with a limited range, keep their floor. Features with a number added before the
        logarithm get the four most common floors.
        """
        levels = self.search.levels
        scales = tuple(dict.fromkeys((1.0, *levels, *candidate.source.loudness_factors)))
        yield from (candidate.change({"scale": scale}) for scale in scales)
        if candidate.get("use_log_fbank") is False or candidate.bins in ("power", "magnitude") or candidate.span:
            return
        if candidate.added:
            yield from (candidate.change({"floor": floor}) for floor in list_values("floor")[:4])
            return
        yield from (candidate.change({"scale": scale, "floor": DB_80["floor"]}) for scale in levels)
        yield from self._vary_floors_of_array(candidate, scales)

    def _vary_floors_of_array(self, candidate: Candidate, scales: tuple[float, ...]) -> Iterator[Candidate]:
        """Yield a logarithmic candidate with each usual floor that, at one of ``scales``, equals the array's floor.

        Also yield it with a range of 80 dB if this range ends at the array's floor. If neither a usual floor nor this
        range fits, use the array's floor itself. If no cell of the array shows a floor, use the most common floors.
        """
        levels, floors = self.search.levels, list_values("floor")
        log_floor, largest = self._find_floor(candidate.change({"scale": 1.0, "floor": 0.0}))
        # Magnitudes are proportional to the scale of the samples, and powers to its square.
        exponent, error = 1.0 if candidate.get("use_power") is False else 2.0, THRESHOLDS.floor_error
        pairs = [(scale, floor) for scale, floor in itertools.product(scales, floors)
                 if abs(math.log(floor) - exponent * math.log(scale) - log_floor) < error]  # fmt: skip
        # Code that computes magnitudes may add 1e-9 to the powers, which changes magnitudes near a floor.
        roots = dict.fromkeys((candidate.root, 1e-9)) if exponent == 1 else (candidate.root,)
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
        """Return the log energy at the array's floor (NaN if no cell shows a floor), and the largest log energy.

        The candidate must have no floor, because its features are used as the log energies.
        """
        energies, values, is_common = self._select_common_rows(candidate)
        energies, values = (array[self.sheet.rows[: len(is_common)][is_common]] for array in (energies, values))
        is_lowest = find_floored_cells(values)
        columns = self.sheet.feature_columns & is_lowest.any(0)
        if candidate.get("use_energy") and not candidate.get("htk_compat"):
            columns[0] = False  # The first column is the energy of a frame, which has a floor of its own.
        if not columns.any():  # A single cell, the smallest one, may be at the floor.
            row, column = np.unravel_index(int(values.argmin()), values.shape)
            is_lowest[row, column] = columns[column] = True
        log_floors = []  # The line of each column converts the floor of the column to a log energy.
        for column in np.flatnonzero(columns):
            is_higher = ~is_lowest[:, column]
            x, y = (array[is_higher, column] if is_higher.any() else array[~is_lowest] for array in (energies, values))
            if len(x) > 3:  # Fewer points may lie on a line by chance.
                slope, offset = _fit_known_line(x, y)
                # A filter without an FFT bin is constant, so its line has no slope and is left out.
                log_floors += [(values[:, column].min() - offset) / slope] if slope else []
        floored_energies = energies[:, columns][is_lowest[:, columns]]
        floor = float(np.median(log_floors)) if log_floors else float(floored_energies.max())
        is_shown = floor > floored_energies.min() + THRESHOLDS.floor_error
        return (floor if is_shown else math.nan), float(energies.max())

    def _vary_cepstra(self, candidate: Candidate) -> Iterator[Candidate]:
        """Yield the candidate with each combination of a scale, a lifter and, for MFCC, a DCT and a factor of C0."""
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
        """Return [lifter] for the smallest lifter from 2 to ``MAX_LIFTER`` that explains the standard deviations.

        A lifter explains them if its weights are proportional to the ratios of the array's standard deviations to the
        standard deviations of features without a lifter. The first column, which may be an energy, is not compared.
        Return [] if no lifter explains them, if the columns are reordered, or if there are fewer than four columns.
        """
        if candidate.order is not None or self.sheet.feature_values.shape[1] < 4:
            return []
        features, values, is_common = self._select_common_rows(candidate.change({"cepstral_lifter": 0}))
        rows = self.sheet.rows[: len(is_common)][is_common]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = (values[rows].std(0) / features[rows].std(0))[1:]
        for lifter in range(2, MAX_LIFTER + 1):
            weights = 1 + 0.5 * lifter * np.sin(np.pi * np.arange(1, len(ratios) + 1) / lifter)
            if np.ptp(ratios - weights * ratios[0] / weights[0]) < 1e-3 * ratios.max():
                return [lifter]
        return []


def _fit_known_line(x: Doubles, y: Doubles) -> tuple[float, float]:
    """Return the slope and the offset of a line that is fitted to the points (``x``, ``y``), each (n,).

    If the slope is near one of ``SLOPES``, return this known slope, and the offset that fits it.
    """
    slope, offset = fits.fit_line(x, y)
    known_slope = next((known for known in SLOPES if abs(slope - known) < THRESHOLDS.recognized * known), None)
    return (known_slope, float(np.median(y - known_slope * x))) if known_slope else (slope, offset)


def compute_features(candidate: Candidate, frame_count: int | None = None) -> Doubles:
    """Return a candidate's features (frames, dim), limited to +-1e30. Raise KaldiCompatError for invalid options.

    With ``frame_count``, compute only this many frames or more from :attr:`Candidate.start` on, if the audio has them.
    """
    # A positive offset removes samples at the start of the audio, and a negative offset adds zeros.
    samples = np.pad(candidate.source.samples[max(candidate.offset, 0) :], (max(-candidate.offset, 0), 0))
    if frame_count is not None:  # Eight more frames keep the padding at the end out of the requested frames.
        length = (candidate.start + frame_count + 8) * candidate.shift + candidate.size + candidate.fft_points
        samples = samples[:length]
    return candidate.reorder(np.clip(candidate.compute(samples).astype(np.float64), -1e30, 1e30))


def fit_map(
    candidate: Candidate, sheet: Sheet, tolerance: float, *, arrangement: Arrangement | None = None,
    row_count: int | None = None,
) -> Settled | None:  # fmt: skip
    """Return a candidate with the simplest map (:func:`find_simplest_map`) from its features to the array of ``sheet``.

    ``tolerance`` is the largest residual of an explanation. An ``arrangement`` replaces the arrangement of the sheet.
    With ``row_count``, the comparison ends after this number of rows. Return None if the options are invalid, if the
    features and the array have different numbers of columns, or if fewer than two rows can be compared.
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
        start = fits.find_best_shift(features[:, columns], values[:, columns], start, max_deviation=2)
    common_features, target = fits.select_common_frames(features, values, start)
    row, count = max(-start, 0), len(target)
    is_compared = sheet.rows[row : row + count]
    if count < 2 or is_compared.sum() < 2:
        return None
    # The array may have been normalized with more frames than it has now, or without its padding at the end.
    end = int(np.flatnonzero(is_compared)[-1]) + 1
    references = [features] if len(features) != count else []
    references += [common_features[:end]] if end < count else []
    cells = np.ix_(is_compared, columns)
    earlier_maps: list[fits.Map] = []
    # The mean over single frames differs from the mean over stacked rows, so also try a normalization before stacking.
    if features.shape[1] > plain.shape[1]:
        for name, normalized, word_count in fits.list_normalizations(plain, plain):
            mapped, _ = fits.select_common_frames(arrangement.apply(normalized), values, start)
            earlier_maps.append((f"before that: {name}", mapped, word_count))
    fit = fits.find_simplest_map(
        common_features, target, tolerance, cells, references=references, earlier_maps=earlier_maps, step=sheet.step
    )  # fmt: skip
    return Settled(
        candidate, arrangement, fit, row=row, frame=max(start, 0), target=target, cells=cells,
        features=features, step=sheet.step,
    )  # fmt: skip


def _vary_edges(candidate: Candidate) -> Iterator[Candidate]:
    """Yield the candidate with each convention for the edges of the audio that keeps its first sample.

    Conventions with a padding are also yielded with zeros after the audio. If the candidate has preemphasis, but no
    step for the whole recording, all conventions are also yielded with preemphasis of the whole recording.
    """
    for framed in candidate.list_same_framings():
        yield framed
        if framed.padding:
            yield framed.change({"source": append_zeros(framed.source)})
        if candidate.get("preemphasis_coefficient") and not candidate.whole:
            yield framed.change({"whole": ("preemphasis",)})


def spread_maximum(values: Doubles) -> Doubles:
    """Return the maximum of the 3 by 3 cells around each cell of ``values`` (frames, columns). Edges wrap around."""
    for axis in (0, 1):
        values = np.maximum(values, np.maximum(np.roll(values, 1, axis), np.roll(values, -1, axis)))
    return values


@dataclass(frozen=True)
class Places:
    """Places where an array differs from the features that explain it."""

    padding: list[str]  # Descriptions of rows of padding at the ends of the array.
    quiet: list[str]  # Descriptions of frames and columns that are too quiet to compare.
    deviations: Deviations  # Remaining places that differ, and verified reasons for the differences.


def find_places(settled: Settled, sheet: Sheet, tolerance: float) -> Places:
    """Return the places of ``sheet.values`` that the features of ``settled`` do not explain within ``tolerance``.

    Rows and columns that were not fitted may differ more, up to a thousandth of the largest value.
    """
    mapped, is_resampled = settled.fit.mapped, settled.candidate.source.is_resampled
    is_wrong = np.abs(mapped - settled.target) > sheet.step + max(tolerance, 1e-3 * float(np.abs(settled.target).max()))
    compared_rows, compared_columns = (np.zeros(count, bool) for count in mapped.shape)
    compared_rows[settled.cells[0]] = compared_columns[settled.cells[1]] = True
    # Rows of the whole array that were not compared, and that the features do not explain.
    row_slice, unexplained_rows = slice(settled.row, settled.row + len(mapped)), ~sheet.rows
    unexplained_rows[row_slice] = is_wrong[:, compared_columns].any(1) & ~compared_rows
    quiet_rows = np.zeros_like(unexplained_rows)
    if is_resampled:
        quiet_rows[row_slice] = unexplained_rows[row_slice] & (sheet.rows[row_slice] | _find_quiet_rows(settled))
    padding, is_padding = _find_padding(unexplained_rows & ~quiet_rows)
    # Columns that depend on the audio are left out of a comparison only if resamplers differ in them.
    is_informative = sheet.columns if sheet.arrangement.words else sheet.feature_columns
    quiet_columns = ~compared_columns & is_informative & is_resampled
    is_constant = np.ptp(mapped[compared_rows], axis=0) == 0
    ignored = quiet_rows[row_slice][:, None] | quiet_columns | (~compared_columns & is_constant)
    features, slope, offset = _map_whole_recording(settled)
    first_column = find_first_column(sheet)
    comparison = Comparison(
        settled.target, features, shift=settled.frame, slope=slope, offset=offset, tolerance=tolerance,
        step=sheet.step, ignored=ignored, padding=is_padding[row_slice], first_frame=settled.row,
        first_column=first_column,
    )  # fmt: skip
    wrong_quiet_columns = np.flatnonzero(quiet_columns & is_wrong[compared_rows].any(0)) + first_column
    quiet = (np.flatnonzero(quiet_rows), "frame"), (wrong_quiet_columns, "column")
    descriptions = [f"{describe_spans(places, name)} too quiet to compare" for places, name in quiet if len(places)]
    return Places(padding, descriptions, find_deviations(comparison))


def _find_padding(is_unexplained: Mask) -> tuple[list[str], Mask]:
    """Return descriptions of the unexplained rows at the start and the end of an array, and a mask (rows,) of them."""
    inner_rows = np.flatnonzero(~is_unexplained)
    counts = {"start": int(inner_rows[0]), "end": len(is_unexplained) - int(inner_rows[-1]) - 1}
    is_padding = np.ones(len(is_unexplained), bool)
    is_padding[inner_rows[0] : inner_rows[-1] + 1] = False
    return [f"{n} row{'s' * (n > 1)} of padding at the {where}" for where, n in counts.items() if n], is_padding


def _map_whole_recording(settled: Settled) -> tuple[Doubles, Doubles, Doubles]:
    """Return the features (frames, columns) of the whole recording, mapped to the scale of the array.

    Also return the slope and the offset (columns,) of the map. In the rows of the array, the features are equal to the
    fitted features. If rounding explains the differences, they are equal to the array in all compared cells.
    """
    mapped, rows = settled.fit.mapped, slice(settled.frame, settled.frame + len(settled.fit.mapped))
    is_inside = (mapped > mapped.min()) & (mapped < mapped.max())  # Other cells may be clipped.
    slope, offset = fits.fit_line(settled.features[rows], mapped, is_inside | ~is_inside.any(0))
    features: Doubles = slope * settled.features + offset
    features[rows] = mapped
    if settled.rounding:
        features[rows][settled.cells] = settled.target[settled.cells]
    return features, slope, offset


def find_first_column(sheet: Sheet) -> int:
    """Return the index of the array's first feature column, or 0 if an arrangement such as deltas makes all columns."""
    return 0 if sheet.arrangement.words else int(np.arange(sheet.values.shape[1])[sheet.arrangement.columns][0])


def _find_quiet_rows(settled: Settled) -> Mask:
    """Return the mask (rows,) of rows of ``settled.target`` with a value below one-bit noise, where resamplers differ.

    With an arrangement such as deltas, rows do not belong to single frames, so the mask selects all rows.
    """
    if settled.arrangement.words:
        return np.ones(len(settled.target), bool)
    plain = settled.candidate.remove_levels()
    quiet: Mask = np.any(compute_features(plain) < plain.compute_noise_features(), axis=1)
    return quiet[settled.frame :][: len(settled.target)]
