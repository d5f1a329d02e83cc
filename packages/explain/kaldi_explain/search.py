"""Search for the features closest to an array: one optimizer over the table of options, bounded by a budget of work."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat.errors import KaldiCompatError
from kaldi_compat.exact.arrays import Doubles, Floats
from kaldi_explain.arrangements import Mask
from kaldi_explain.candidates import Candidate, Sheet, find_floored_cells
from kaldi_explain.fits import compute_correlations, measure_distance
from kaldi_explain.models import FeatureModel
from kaldi_explain.options import (
    BY_NAME,
    DB_80,
    EDGES,
    EPSILON,
    EPSILON_64,
    EQUAL_SHAPES,
    LIBRARY_MEL,
    SHAPES,
    SPEECH_FEATURES,
    STFT,
    TABLE,
    WINDOW_SAMPLES,
    Changes,
    Option,
    can_change_alone,
    list_values,
)
from kaldi_explain.other_libraries import SLANEY_SCALES, convert_to_hertz, convert_to_mel, find_milliseconds
from kaldi_explain.sources import AudioSource
from kaldi_explain.thresholds import THRESHOLDS
from kaldi_explain.timing import Pattern, Timing
from kaldi_explain.work import Budget, charge_microseconds

# Options that determine a spectrum, in addition to the positions of the frames. Candidates that agree in these options
# share one spectrum.
SPECTRUM_OPTIONS = ("window_type", "preemphasis_coefficient", "remove_dc_offset", "raw_energy", "window", "whole",
                    "in_place", "energy")  # fmt: skip
REFINED = tuple(option.name for option in TABLE if option.step)
# Limits of the numbers of columns of usual filter banks, cepstra and spectrograms. Kaldi refuses fewer than 3 filters.
MIN_BINS, MAX_BINS, MIN_CEPSTRA, MAX_CEPSTRA, MIN_FFT_BINS, MAX_FFT_BINS = 3, 256, 4, 80, 65, 4095
MAX_PLP_CEPSTRA = 24
LOW_CEPSTRA = 13  # Number of cepstra with the full weight in a cost: Kaldi's default of num_ceps.
EDGE_ROWS = 4  # Number of rows at each edge that are not compared, because their frames depend on the unknown padding.
LOUD_ROWS = 4  # Number of the loudest rows of a long array that are compared. They show clipping and a limited range.


class Search:
    """Search for the candidate whose features are closest to an array, by changing options of candidates.

    Args:
        sheet: the array, and the assumed arrangement of features in it.
        budget: work that the answer may do.
        unit: factor that scales the samples to the range from -1 to 1.
        by_differences: True to compare the changes from row to row instead of the rows. The normalization of an array
            in a sliding window barely affects the changes.
    """

    def __init__(self, sheet: Sheet, budget: Budget, unit: float, *, by_differences: bool = False) -> None:
        self.sheet, self.budget, self.by_differences = sheet, budget, by_differences
        self.levels = (unit, unit * 32768)  # Factors that scale the samples to -1 to 1 and to the range of 16 bits.
        self._rows = self._choose_rows()
        values, floored = sheet.feature_values[self._rows], find_floored_cells(sheet.feature_values)[self._rows]
        clipped = values == values.max(initial=-np.inf)
        clipped &= clipped.sum() >= THRESHOLDS.limit_cells  # Fewer cells do not show a limit.
        is_compared = sheet.feature_columns & ((floored | clipped).mean(axis=0) <= THRESHOLDS.floored_column)
        self._columns = np.flatnonzero(is_compared if is_compared.any() else sheet.feature_columns)
        # The compared cells (rows, columns), and masks of cells at a floor and at the largest value.
        self._values, self._floored, self._clipped = (cells[:, self._columns] for cells in (values, floored, clipped))
        # Caches of costs, spectra with energies, and padded audio.
        self._costs: dict[tuple[Any, ...], float] = {}
        self._spectra: dict[tuple[Any, ...], tuple[Doubles, Doubles]] = {}
        self._padded_audio: dict[tuple[Any, ...], Floats] = {}

    def _choose_rows(self) -> Any:
        """Return the indices of the rows to compare, which exclude up to ``EDGE_ROWS`` rows at each edge.

        If more than ``THRESHOLDS.rows`` rows remain, return evenly spaced blocks of neighboring rows, the ``LOUD_ROWS``
        rows with the largest values, and as many with the largest values in the first column, a possible energy.
        """
        rows = np.flatnonzero(self.sheet.rows)
        edge_rows = min(EDGE_ROWS, len(rows) // THRESHOLDS.block)
        rows = rows[edge_rows : len(rows) - edge_rows]
        if len(rows) <= THRESHOLDS.rows:
            return rows
        starts = np.linspace(0, len(rows) - THRESHOLDS.block, THRESHOLDS.rows // THRESHOLDS.block).astype(int)
        row_levels = (self.sheet.feature_values.max(1), self.sheet.feature_values[:, 0])
        loudest = [np.argsort(levels[rows])[-LOUD_ROWS:] for levels in row_levels]
        return rows[np.unique(np.concatenate([(starts[:, None] + np.arange(THRESHOLDS.block)).ravel(), *loudest]))]

    @functools.cached_property
    def pattern(self) -> Pattern | None:
        """Principal components of the array, which show the rows' times. None if no column depends on the audio."""
        values = self.sheet.feature_values[:, self.sheet.feature_columns]
        for _ in range(self.sheet.arrangement.order):  # A sum of deltas is a smoothed feature.
            changes = values - values.mean(0)
            values = np.cumsum(changes, axis=0) - changes / 2  # Half of the change is subtracted to center the sum.
        return Pattern(values, self.sheet.rows) if values.shape[1] else None

    def get_cost(self, candidate: Candidate) -> float:
        """Return a candidate's cost: the root of the share of the array's variance that its features do not explain.

        Offsets and scales of columns have no influence. After the end of the search, return ``THRESHOLDS.incomparable``
        for a candidate whose cost has not been measured, unless no cost at all has been measured.
        """
        charge_microseconds(15)
        key = candidate.key
        if key not in self._costs and self._costs and self.budget.is_search_over():
            return THRESHOLDS.incomparable
        return self.measure_cost(candidate)

    def measure_cost(self, candidate: Candidate) -> float:
        """Return a candidate's cost, even after the search, or ``THRESHOLDS.incomparable`` for invalid options."""
        key = candidate.key
        if key not in self._costs:
            charge_microseconds(350)
            try:
                self._costs[key] = self._measure_unexplained(candidate)
            except KaldiCompatError:
                self._costs[key] = THRESHOLDS.incomparable
        return self._costs[key]

    def _measure_unexplained(self, candidate: Candidate) -> float:
        """Return the distance (:func:`measure_distance`) between the array and a candidate's features.

        The features are clipped like the array and, unless their range is limited, floored like the array. In filter
        banks and spectrograms of resampled audio, quiet cells are not compared. The first ``LOW_CEPSTRA`` cepstra have
        a larger weight than higher cepstra. With ``by_differences``, changes between adjacent rows are compared. Return
        ``THRESHOLDS.incomparable`` for a wrong number of columns, and if fewer than two rows are compared.
        """
        features, values = self._compute_features(candidate), self._values
        if features.shape[1] != len(self.sheet.feature_columns) or len(values) < 2:
            return THRESHOLDS.incomparable
        features = features[:, self._columns]
        is_inside = ~(self._floored | self._clipped)
        if self._floored.any() and not candidate.span:
            features = _apply_floor(features, values, self._floored, is_inside)
        if self._clipped.any():
            features = -_apply_floor(-features, -values, self._clipped, is_inside)
        if candidate.source.is_resampled and candidate.kind in ("fbank", "spectrogram"):
            features, values = self._remove_quiet_cells(candidate, features)
        if self.by_differences:
            is_adjacent = np.diff(self._rows) == 1
            features, values = np.diff(features, axis=0)[is_adjacent], np.diff(values, axis=0)[is_adjacent]
        distance = measure_distance(features, values)
        # Higher cepstra count less, because they depend more on the filter edges, which are still unknown.
        if candidate.kind in ("mfcc", "plp") and features.shape[1] > LOW_CEPSTRA:
            return 0.5 * (measure_distance(features[:, :LOW_CEPSTRA], values[:, :LOW_CEPSTRA]) + distance)
        return distance

    def _remove_quiet_cells(self, candidate: Candidate, features: Doubles) -> tuple[Doubles, Doubles]:
        """Return ``features`` and the array's values (rows, columns) without quiet cells, in which resamplers differ.

        A cell is quiet if the candidate has no more energy in it than one-bit noise. Columns in which most cells are
        quiet are left out. In other columns, the mean of the column's loud cells replaces quiet cells. If most columns
        are quiet, both arrays are returned unchanged.
        """
        plain, values = candidate.remove_levels(), self._values
        is_loud = (self._compute_features(plain) > plain.compute_noise_features())[:, self._columns]
        is_loud_column = is_loud.mean(0) >= 0.5
        if is_loud_column.mean() < 0.5:
            return features, values
        is_loud = is_loud[:, is_loud_column]
        arrays = (array[:, is_loud_column] for array in (features, values))
        features, values = (np.where(is_loud, array, (is_loud * array).sum(0) / is_loud.sum(0)) for array in arrays)
        return features, values

    def _compute_features(self, candidate: Candidate) -> Doubles:
        """Return a candidate's features (rows, columns) in the compared rows, or deltas if the array has deltas."""
        taps = self.sheet.arrangement.taps
        if not taps:
            return self._compute_features_at(candidate, self._rows)
        neighbors = self._rows[:, None] + np.arange(len(taps)) - len(taps) // 2
        features = self._compute_features_at(candidate, neighbors.ravel())
        return np.asarray(np.einsum("ijk,j->ik", features.reshape(*neighbors.shape, -1), taps))

    def _compute_features_at(self, candidate: Candidate, rows: npt.NDArray[np.intp]) -> Doubles:
        """Return a candidate's features (n, columns) in ``rows`` (n,) of the array. Cache spectra, except for PLP."""
        starts = candidate.first_sample + rows * (candidate.shift * self.sheet.arrangement.stride)
        options = (candidate.get(name) for name in SPECTRUM_OPTIONS)
        # All calls of one search have the same rows, so the first start and the shift identify the frames.
        key = (candidate.source, starts[0], candidate.shift, candidate.size, candidate.fft_points, *options)
        if candidate.kind != "plp" and key in self._spectra:
            return candidate.reorder(candidate.finish_features(*self._spectra[key]))
        audio = self._pad_audio(candidate)
        # Frames beyond the padded audio are moved to its ends.
        starts = np.clip(starts + THRESHOLDS.around, 0, len(audio) - candidate.size)
        frames = audio[starts[:, None] + np.arange(candidate.size)]
        if candidate.kind == "plp":
            return candidate.reorder(candidate.compute_plp(frames).astype(np.float64))
        if len(self._spectra) > THRESHOLDS.spectra:
            self._spectra.clear()
        self._spectra[key] = candidate.compute_spectra(frames)
        return candidate.reorder(candidate.finish_features(*self._spectra[key]))

    def _pad_audio(self, candidate: Candidate) -> Floats:
        """Return a candidate's prepared audio (T,) with ``THRESHOLDS.around`` reflected samples added at each end."""
        key = (candidate.source, candidate.whole, candidate.get("preemphasis_coefficient"))
        if key not in self._padded_audio:
            audio = candidate.prepare_samples(candidate.source.samples)
            # NumPy's mode "symmetric" repeats audio that is shorter than the padding.
            mode: Any = "reflect" if len(audio) > THRESHOLDS.around else "symmetric"
            self._padded_audio[key] = np.pad(audio, THRESHOLDS.around, mode=mode)
        return self._padded_audio[key]

    def release_source(self, source: AudioSource) -> None:
        """Free the memory of the samples and spectra of ``source``, which no further candidate should need."""
        source.__dict__.pop("samples", None)  # `samples` is a cached property, which is computed again when it is read.
        self._padded_audio = {key: audio for key, audio in self._padded_audio.items() if key[0] is not source}
        self._spectra = {key: spectra for key, spectra in self._spectra.items() if key[0] is not source}

    def find_best_candidate(self, candidates: Iterable[Candidate]) -> Candidate:
        """Return the candidate with the smallest cost."""
        return min(candidates, key=self.get_cost)

    def list_starts(self, source: AudioSource, timings: Sequence[Timing]) -> list[Candidate]:
        """Return at most ``THRESHOLDS.starts`` usual candidates with as many columns as the array, the best first.

        All usual features are tried with each timing until a feature explains the array. Return only the best candidate
        for each combination of kind, energy, window, FFT points, filters, added number, bins and order of columns.
        """
        candidates: list[Candidate] = []
        for timing in timings:
            shift = timing.row_shift // self.sheet.arrangement.stride
            for kind, changes in self._list_templates(source.rate, shift):
                framing = {"frame_shift": find_milliseconds(shift, source.rate)}
                plain = Candidate(kind, source.rate, framing, source=source)
                candidates.append(plain.change(changes).move_to(timing.center))
            if min(map(self.get_cost, candidates), default=THRESHOLDS.incomparable) < THRESHOLDS.explained:
                break
        candidates.sort(key=self.get_cost)
        best_by_type: dict[tuple[Any, ...], Candidate] = {}
        for start in candidates:
            key = (start.kind, start.get("use_energy"), start.window, start.fft_points, start.mel, start.added,
                   start.bins, start.order)  # fmt: skip
            best_by_type.setdefault(key, start)
        return [*best_by_type.values()][: THRESHOLDS.starts]

    def improve_starts(self, starts: Sequence[Candidate]) -> list[Candidate]:
        """Improve the candidates ``starts``, and return them without duplicates, the best first.

        Dithering is tried for all candidates together, and then moved frames and other filter edges for each candidate.
        If the best candidate costs more than ``THRESHOLDS.near``, its frame options are improved. Then the frame
        options of the best candidate are tried for all candidates, with and without its type of window.
        """
        noisy = [start.change({"source": start.source.noisy_source}) for start in starts]
        # Dithering must explain a fifth of the cost, because a floor of the energies also has an effect like dithering.
        if min(map(self.get_cost, noisy)) < THRESHOLDS.better * min(map(self.get_cost, starts)):
            starts = noisy
        for list_changes in (Candidate.list_framing_changes, self._list_edge_changes):
            starts = [self.find_best_candidate((start, *map(start.change, list_changes(start)))) for start in starts]
        best = self.find_best_candidate(starts)
        if self.get_cost(best) > THRESHOLDS.near:
            best = self._apply_changes(best, self._list_frame_changes(best))
        framing = {name: best.get(name) for name in ("frame_length", "snip_edges", "padding", "offset", "start")}
        framings = (framing, framing | {"window_type": best.get("window_type")})
        starts = [best, *(self.find_best_candidate((start, *map(start.change, framings))) for start in starts)]
        return sorted({start.key: start for start in starts}.values(), key=self.get_cost)

    def _list_templates(self, rate: float, shift: int) -> Iterator[tuple[str, Changes]]:
        """Yield kinds and options of usual features with as many columns as the array.

        ``rate`` is the sampling rate in Hz, and ``shift`` is the frame shift in samples.
        """
        shift_ms, double_ms, fourfold_ms = (find_milliseconds(n * shift, rate) for n in (1, 2, 4))
        dim, is_10_ms = len(self.sheet.feature_columns), abs(shift_ms - 10) < 0.1
        # Speech recognition uses frames of 25 ms. Speech synthesis uses two or four frame shifts, or 50 ms.
        for length in sorted({25.0} if is_10_ms else {double_ms, fourfold_ms, 50.0}):
            yield from _list_library_templates(length, dim, self.levels[0], is_10_ms)
        for length in sorted({min(25.0, fourfold_ms)} if is_10_ms else {min(25.0, fourfold_ms), 50.0}):
            yield from _list_kaldi_templates(rate, length, dim)
        yield from _list_spectrogram_templates(rate, dim)

    def improve_candidate(self, candidate: Candidate) -> Candidate:
        """Change options of a candidate in rounds, and return the new candidate with as many defaults as possible.

        The rounds end when the array is explained, when a round reduces the cost by less than 1%, or when the stage is
        over. A round changes single options. If this reduces the cost by less than 1%, and the cost is below
        ``THRESHOLDS.close``, the round also changes options together that can compensate for each other: frame options,
        and then filter options together with preemphasis and DC removal.
        """
        proposals: tuple[tuple[Callable[[Candidate], Iterable[Changes]], float], ...] = (
            (self._list_single_changes, THRESHOLDS.incomparable),
            (self._list_frame_changes, THRESHOLDS.close),
            (self._list_filter_changes, THRESHOLDS.close),
        )
        while not self.budget.is_stage_over() and self.get_cost(candidate) > THRESHOLDS.explained:
            candidate = self._simplify_candidate(candidate)
            max_new_cost = 0.99 * self.get_cost(candidate)
            for list_changes, max_cost in proposals:
                if max_new_cost < self.get_cost(candidate) < max_cost:
                    candidate = self._apply_changes(candidate, list_changes(candidate))
            if self.get_cost(candidate) > max_new_cost:
                break
        return self._simplify_candidate(candidate)

    def _apply_changes(self, candidate: Candidate, proposals: Iterable[Changes]) -> Candidate:
        """Apply the proposed changes that reduce the cost, one after another, and return the changed candidate.

        A change is applied if the ratio of the new cost to the old cost is below the smallest :attr:`Option.max_ratio`
        of the changed options. Changes are first applied alone, and ranked by the new cost divided by this ratio.
        """
        ranked = [(self.get_cost(candidate.change(changes)) / _get_max_ratio(candidate, changes), number, changes)
                  for number, changes in enumerate(proposals)]  # fmt: skip
        for _, _, changes in sorted(ranked, key=lambda proposal: proposal[:2]):
            other = candidate.change(changes)
            if self.get_cost(other) < _get_max_ratio(candidate, changes) * self.get_cost(candidate):
                candidate = other
        return candidate

    def _simplify_candidate(self, candidate: Candidate) -> Candidate:
        """Return a candidate after replacing options with defaults, or with simpler options with nearly equal features.

        A replacement is kept if it raises the cost by at most 2%, or if the new candidate explains the array.
        """
        names = sorted(name for name in BY_NAME if can_change_alone(candidate.kind, name))
        defaults: list[Changes] = [{name: candidate.get_default(name)} for name in names]
        levels = {name: candidate.get_default(name) for name in ("scale", "added", "floor", "span")}
        same_shape: list[Changes] = [{"mel": EQUAL_SHAPES[candidate.mel]}] if candidate.mel in EQUAL_SHAPES else []
        same_frames: list[Changes] = []
        # A periodic window equals a Kaldi window that is one sample longer, whose last value is usually 0.
        if candidate.window == "periodic":
            lengths: list[Changes] = [{"frame_length": x, "window": "kaldi"} for x in list_values("frame_length")]
            same_frames = [changes for changes in lengths if candidate.change(changes).size == candidate.size + 1]
        # Removing the DC offset of the whole recording changes only edge frames if each frame's offset is also removed.
        single_steps: list[Changes] = [{"whole": (part,)} for part in candidate.whole if len(candidate.whole) > 1]
        # Defaults are tried twice, because an option may only return to its default after another option has.
        for changes in [*same_shape, *same_frames, *defaults, *defaults, *single_steps, levels]:
            other = candidate.change(changes)
            max_cost = max(1.02 * self.get_cost(candidate), THRESHOLDS.explained)
            if other.key != candidate.key and self.get_cost(other) <= max_cost:
                candidate = other
        return candidate

    def _list_single_changes(self, candidate: Candidate) -> Iterator[Changes]:
        """Yield the changes of :func:`_list_changes` until the stage is over, and then changes of filter edges.

        Estimated edges are yielded unless the candidate nearly explains the array. For a candidate with filters that
        resembles the array, fitted edges are yielded if they cost less than half as much as the best earlier change.
        """
        cost, lowest_cost = self.get_cost(candidate), THRESHOLDS.incomparable
        is_stage_over = self.budget.is_stage_over
        proposals = itertools.takewhile(lambda _: not is_stage_over(), _list_changes(candidate, self.levels))
        estimated = self._list_estimated_edges(candidate) if cost > 10 * THRESHOLDS.explained else ()
        for changes in itertools.chain(proposals, estimated):
            lowest_cost = min(lowest_cost, self.get_cost(candidate.change(changes)))
            yield changes
        if can_change_alone(candidate.kind, "low_freq") and cost < THRESHOLDS.unlike:
            fitted = self.refine_options(candidate, EDGES)
            if self.get_cost(fitted) < 0.5 * lowest_cost:  # Fitting always gains a little, so it must halve the cost.
                yield {name: fitted.get(name) for name in ("mel", *EDGES)}

    def _list_frame_changes(self, candidate: Candidate) -> Iterator[Changes]:
        """Yield changes that move the frames, and then pairs of a frame length and a window type that keep the centers.

        Pairs are tried because a wrong window can compensate for a wrong frame length. The three pairs with the lowest
        costs are then combined with each value of the attribute ``window``, and with changes that move the frames.
        """
        yield from candidate.list_framing_changes()
        center, ranked = candidate.first_sample + candidate.size / 2, list[tuple[float, int, Changes]]()
        lengths = [candidate.get("frame_length"), *list_values("frame_length")]
        # Usual lengths in samples are tried only for very long frames, because each length costs work.
        if lengths[0] > max(lengths[1:]):
            lengths += [find_milliseconds(size, candidate.rate) for size in WINDOW_SAMPLES]
        for length, window_type in itertools.product(dict.fromkeys(lengths), list_values("window_type")):
            changes = {"frame_length": length, "window_type": window_type, "offset": 0}
            other = candidate.change(changes).move_to(center)
            offset = round(center - other.first_sample - other.size / 2)
            changes |= {"start": other.start, "offset": offset}
            ranked.append((self.get_cost(candidate.change(changes)), len(ranked), changes))
            yield changes
        best_pairs = [changes for _, _, changes in sorted(ranked, key=lambda proposal: proposal[:2])[:3]]
        for pair, window in itertools.product(best_pairs, list_values("window")):
            changes = pair | {"window": window}
            yield from (changes | framing for framing in candidate.change(changes).list_framing_changes())

    def _list_filter_changes(self, candidate: Candidate) -> Iterator[Changes]:
        """Yield filter shapes with fitted edges, and then combinations of filters and a preparation of the samples.

        A preparation is preemphasis, in each frame or in the whole recording, with or without the removal of DC
        offsets. The filters have Kaldi's shape or the candidate's shape, and usual edges or the candidate's edges. For
        PLP and spectrograms, the filters stay unchanged.
        """
        filters: list[Changes] = [{name: candidate.get(name) for name in ("mel", *EDGES)}]
        if can_change_alone(candidate.kind, "mel"):
            for mel in SHAPES:
                refined = self.refine_options(candidate.change({"mel": mel}), EDGES)
                yield {name: refined.get(name) for name in ("mel", *EDGES)}
            low, high = (_get_number(candidate, name) for name in EDGES)
            near_lows = sorted(list_values("low_freq"), key=lambda edge: abs(edge - low))[:2]
            lows, highs = {20.0, 0.0, low, *near_lows}, {0.0, _convert_edge(high, candidate.rate)}
            filters = [{"mel": mel, "low_freq": low_edge, "high_freq": high_edge} for mel, low_edge, high_edge
                       in itertools.product(sorted({"kaldi", candidate.mel}), lows, highs)]  # fmt: skip
        factors = list_values("preemphasis_coefficient")[:5]  # The most common factors, because every pair is tried.
        for factor, removes_dc, whole in itertools.product(factors, (True, False), ((), ("preemphasis",))):
            preparation = {"preemphasis_coefficient": factor, "remove_dc_offset": removes_dc, "whole": whole}
            yield from (preparation | changes for changes in filters)

    def _list_edge_changes(self, candidate: Candidate) -> Iterator[Changes]:
        """Yield changes of the filters' edges: to estimated edges for a filter bank, and to usual edges for cepstra."""
        yield from self._list_estimated_edges(candidate)
        if candidate.kind in ("mfcc", "plp"):
            # Only common lower edges, because each lower edge is tried with every upper edge.
            common_lows = (20.0, 0.0, 40.0, 64.0, 80.0, 133.3333)
            for low, high in itertools.product(common_lows, list_values("high_freq")):
                yield {"low_freq": low, "high_freq": high}

    def _list_estimated_edges(self, candidate: Candidate) -> Iterator[Changes]:
        """Yield changes of the shape and the edges of filters, estimated from the center frequencies of the columns.

        For the logarithmic and for Slaney's mel scale, yield the estimated edges, and then the nearest usual edges with
        each shape of filters on this scale. Yield nothing if :meth:`_estimate_centers` finds fewer than three centers.
        """
        filters, centers = self._estimate_centers(candidate)
        if len(filters) < 3:
            return
        rate = candidate.rate
        usual_lows = list_values("low_freq")
        usual_highs = [edge if edge > 0 else edge + rate / 2 for edge in list_values("high_freq")]
        for is_slaney in (False, True):
            edges = _extrapolate_edges(filters, centers, candidate.get("num_mel_bins"), is_slaney)
            low, high = np.clip(edges, 0, rate / 2).tolist()
            shapes = [shape for shape in SHAPES if (shape in SLANEY_SCALES) == is_slaney]
            has_scale = (candidate.mel in SLANEY_SCALES) == is_slaney
            usual_shape = "slaney" if is_slaney else "hertz"
            likely_shape = candidate.mel if has_scale else usual_shape
            yield {"mel": likely_shape, "low_freq": low, "high_freq": _convert_edge(high, rate)}
            for mel in shapes:
                # Rounding the edges of snapped filters down to FFT bins lowers them by half a bin on average.
                bias = 0.5 * rate / candidate.fft_points if mel.startswith("snapped") else 0.0
                edge_count = 3 if mel == likely_shape else 2  # Unlikely shapes get fewer edges, to save time.
                lows, highs = (sorted(usual, key=lambda edge: abs(edge - estimated - bias))[:edge_count]
                               for usual, estimated in ((usual_lows, low), (usual_highs, high)))  # fmt: skip
                for usual_low, usual_high in itertools.product(lows, highs):
                    if usual_low < usual_high <= rate / 2:
                        yield {"mel": mel, "low_freq": usual_low, "high_freq": _convert_edge(usual_high, rate)}

    def _estimate_centers(self, candidate: Candidate) -> tuple[npt.NDArray[np.intp], Doubles]:
        """Return the numbers (n,), from 1 on, of the filters whose center can be estimated, and the centers (n,) in Hz.

        The energies of narrow filters are correlated with each column of the array. The center of a column's filter is
        the frequency with the highest correlation, if this exceeds ``THRESHOLDS.local``. Return empty arrays for kinds
        other than fbank, for deltas, in a search by differences, and if the narrow filters cannot be computed.
        """
        no_filters = np.zeros(0, np.intp), np.zeros(0)
        if self.by_differences or self.sheet.arrangement.taps or candidate.kind != "fbank":
            return no_filters
        count, rate = THRESHOLDS.narrow_filters, candidate.rate
        narrow = {"num_mel_bins": count, "use_energy": False, "low_freq": 0.0, "high_freq": 0.0, "mel": "hertz"}
        try:
            correlations = compute_correlations(self._compute_features(candidate.change(narrow)), self._values)
        except KaldiCompatError:
            return no_filters
        has_energy_first = candidate.get("use_energy") and not candidate.get("htk_compat")
        filters = self._columns - 1 if has_energy_first else self._columns
        is_local = (correlations.max(1) > THRESHOLDS.local) & (filters >= 0)
        is_local &= filters < candidate.get("num_mel_bins")
        filters, correlations = filters[is_local], correlations[is_local]
        # The peak of a parabola through three correlations gives the center more precisely than the best filter.
        best = np.clip(correlations.argmax(1), 1, count - 2)
        left, middle, right = (correlations[np.arange(len(best)), best + k] for k in (-1, 0, 1))
        curvature = np.minimum(left - 2 * middle + right, -1e-9)
        peaks = 1 + best + np.clip(0.5 * (left - right) / curvature, -0.5, 0.5)
        mel_step = float(convert_to_mel(np.array(0.5 * rate))) / (count + 1)
        return filters + 1, convert_to_hertz(mel_step * peaks)

    def refine_options(self, candidate: Candidate, names: Sequence[str] = REFINED) -> Candidate:
        """Return the candidate with fitted and rounded values of the numeric options ``names`` that its kind has.

        The fit begins with estimated filter edges if they cost less. It repeats the steps of :meth:`_fit_steps`, or a
        half or a quarter of them, as long as they reduce the cost. Rounding may raise the cost by 5%. A candidate that
        the fit does not improve is returned unchanged.
        """
        names = [name for name in names if can_change_alone(candidate.kind, name)]
        best = self.find_best_candidate((candidate, *map(candidate.change, self._list_estimated_edges(candidate))))
        last_cost = THRESHOLDS.incomparable
        while names and THRESHOLDS.explained < self.get_cost(best) < last_cost and not self.budget.is_stage_over():
            last_cost, values = self.get_cost(best), {name: _get_number(best, name) for name in names}
            try:
                steps = self._fit_steps(best, values)
            except KaldiCompatError:
                break
            fitted = [{name: float(np.clip(values[name] + share * steps[name], 0, best.rate / 2)) for name in names}
                      for share in (1, 0.5, 0.25)]  # fmt: skip
            best = self.find_best_candidate((best, *map(best.change, fitted)))
        max_cost = max(1.05 * self.get_cost(best), THRESHOLDS.explained)
        # Options are usually set to round numbers, so take the fewest digits that explain the array about equally well.
        for name in names:
            rounded = (best.change({name: round(best.get(name), digits)}) for digits in range(-2, 5))
            best = next((other for other in rounded if self.get_cost(other) <= max_cost), best)
        if "high_freq" in names:
            best = best.change({"high_freq": _convert_edge(_get_number(best, "high_freq"), best.rate)})
        return best if self.get_cost(best) < self.get_cost(candidate) else candidate

    def _fit_steps(self, candidate: Candidate, values: dict[str, float]) -> dict[str, float]:
        """Return, by name, the changes of numeric options with which the features fit the array best.

        The features are assumed to depend linearly on the options, whose current values are ``values``. Derivatives are
        measured with :attr:`Option.step`. The least squares fit has one scale, and an offset for each column. Raise
        KaldiCompatError if an option is out of range.
        """
        charge_microseconds(1000)
        plain = self._compute_features(candidate)[:, self._columns]
        changed = (candidate.change({name: value + BY_NAME[name].step}) for name, value in values.items())
        effects = [self._compute_features(other)[:, self._columns] - plain for other in changed]
        design = np.stack([(part - part.mean(0)).ravel() for part in (plain, *effects)], axis=1)
        goal = self._values - self._values.mean(0)
        # The fit is goal = scale * plain + sum(share * effect), and an effect belongs to a step of `Option.step`.
        scale, *shares = np.linalg.lstsq(design, goal.ravel(), rcond=None)[0]
        return {name: BY_NAME[name].step * share / (scale or 1) for name, share in zip(values, shares, strict=True)}


def _list_library_templates(length: float, dim: int, unit: float, is_10_ms: bool) -> Iterator[tuple[str, Changes]]:
    """Yield kinds and options of librosa's and torchaudio's mel features and cepstra that have ``dim`` columns.

    ``length`` is the frame length in milliseconds, and ``unit`` is the factor that scales the samples to -1 to 1.
    ``is_10_ms`` is True if the frame shift is 10 ms.
    """
    library = {"frame_length": length} | LIBRARY_MEL
    if MIN_BINS <= dim <= MAX_BINS:
        filters = library | {"num_mel_bins": dim}
        yield "fbank", filters | {"mel": "hertz"}
        yield "fbank", filters | {"mel": "hertz", "use_log_fbank": False}
        yield "fbank", filters | {"mel": "slaney", "use_power": False}
        yield "fbank", filters | {"mel": "slaney", "use_log_fbank": False}
        for mel in ("hertz", "slaney"):
            for added in (1.0, 1e-6):  # log1p adds 1, and users of torchaudio most often add 1e-6.
                yield "fbank", filters | {"mel": mel, "scale": unit, "added": added, "floor": 0.0}
            if is_10_ms:  # An FFT of 512 points for 400 samples is as usual as an FFT of 400 points.
                yield "fbank", filters | {"mel": mel, "round_to_power_of_two": True}
    for bins, mel in itertools.product((40, 80, 128), ("hertz", "slaney")):
        if MIN_CEPSTRA <= dim <= min(bins, MAX_CEPSTRA):
            cepstra = library | {"num_ceps": dim, "num_mel_bins": bins, "use_energy": False, "mel": mel}
            yield "mfcc", cepstra
            yield "mfcc", cepstra | {"scale": unit} | DB_80


def _list_spectrogram_templates(rate: float, dim: int) -> Iterator[tuple[str, Changes]]:
    """Yield kinds and options of spectrograms with ``dim`` FFT bins, at the sampling rate ``rate`` in Hz.

    These are Kaldi's spectrogram, and an STFT as in librosa and torch. Yield nothing if ``dim`` is unusual.
    """
    if not MIN_FFT_BINS <= dim <= MAX_FFT_BINS:
        return
    points = 2 * (dim - 1)
    is_power_of_two = points & (points - 1) == 0  # A power of two has a single bit.
    for length in sorted({*list_values("frame_length"), find_milliseconds(points, rate)}):
        framing = {"frame_length": length, "round_to_power_of_two": is_power_of_two}
        if FeatureModel("spectrogram", rate, framing).fft_points == points:
            yield "spectrogram", framing
            yield from (("spectrogram", framing | STFT | {"bins": bins}) for bins in ("magnitude", "log", "power"))


def _list_kaldi_templates(rate: float, length: float, dim: int) -> Iterator[tuple[str, Changes]]:
    """Yield kinds and options of Kaldi's and python_speech_features' features that have ``dim`` columns.

    ``length`` is the frame length in milliseconds, and ``rate`` is the sampling rate in Hz.
    """
    framing: Changes = {"frame_length": length}
    points = FeatureModel("fbank", rate, framing).fft_points
    # python_speech_features divides the power by the number of points before it applies its floor.
    speech_features = framing | SPEECH_FEATURES | {"floor": EPSILON_64 * points}
    if MIN_BINS <= dim <= MAX_BINS:
        yield "fbank", framing | {"num_mel_bins": dim}
        yield "fbank", framing | {"num_mel_bins": dim, "use_log_fbank": False}
        yield "fbank", speech_features | {"num_mel_bins": dim}
    if MIN_BINS <= dim - 1 <= MAX_BINS:
        for energy_is_last in (False, True):
            yield "fbank", framing | {"use_energy": True, "htk_compat": energy_is_last, "num_mel_bins": dim - 1}
    if MIN_CEPSTRA <= dim <= MAX_CEPSTRA:
        # The usual numbers of filters are Kaldi's default of 23, python_speech_features' default of 26, 40 and 80.
        for bins in sorted({bins for bins in (23, 26, 40, 80, dim) if bins >= dim}):
            cepstra = framing | {"num_ceps": dim, "num_mel_bins": bins}
            plain = cepstra | {"use_energy": False}
            for options, energy_is_last in itertools.product((cepstra, plain), (False, True)):
                yield "mfcc", options | {"htk_compat": energy_is_last}
            yield "mfcc", plain | {"order": (*range(1, dim), 0)}
            if bins > dim:
                yield "mfcc", plain | {"num_ceps": dim + 1, "order": tuple(range(1, dim + 1))}
        cepstra = speech_features | {"num_ceps": dim, "num_mel_bins": max(dim, 26), "energy": "spectrum"}
        yield from (("mfcc", cepstra | {"use_energy": has_energy}) for has_energy in (True, False))
    # The smallest order for this many cepstra is dim - 1, and Kaldi's default is 12.
    for has_energy, order in itertools.product((True, False), sorted({max(dim - 1, 1), max(dim - 1, 12)})):
        if MIN_CEPSTRA <= dim <= MAX_PLP_CEPSTRA:
            yield "plp", framing | {"num_ceps": dim, "lpc_order": order, "use_energy": has_energy}


def _get_max_ratio(candidate: Candidate, changes: Changes) -> float:
    """Return the smallest :attr:`Option.max_ratio` of the options and attributes in ``changes``.

    An unchanged ``offset`` is ignored. Attributes that are not in the table have the default ratio.
    """
    names = changes.keys() - ({"offset"} if changes.get("offset") == candidate.offset else set())
    return min(BY_NAME[name].max_ratio if name in BY_NAME else Option.max_ratio for name in names)


def _list_changes(candidate: Candidate, levels: Sequence[float]) -> Iterator[Changes]:
    """Yield changes of single options and of options that interact. ``levels`` are usual values of ``scale``."""
    rate, kind = candidate.rate, candidate.kind
    for option in TABLE:
        has_effect = option.name != "in_place" or candidate.get("preemphasis_coefficient")
        if has_effect and can_change_alone(kind, option.name):
            yield from ({option.name: value} for value in option.values if value != candidate.get(option.name))
    for length in dict.fromkeys([*list_values("frame_length"), *(find_milliseconds(n, rate) for n in WINDOW_SAMPLES)]):
        yield {"frame_length": length}
        if candidate.padding in ("", "inside", "zeros"):  # With other paddings, the length does not move the centers.
            moved_samples = (candidate.size - candidate.change({"frame_length": length}).size) / 2
            yield {"frame_length": length, "start": candidate.start + round(moved_samples / candidate.shift)}
    for samples, sign in itertools.product(list_values("offset"), (-1, 1)):
        yield {"offset": candidate.offset + sign * samples}
    whole_changes = {"preemphasis_coefficient": 0.97, "whole": ("preemphasis",)}
    yield from (whole_changes, whole_changes | {"remove_dc_offset": False}, {"whole": (), "remove_dc_offset": False})
    if can_change_alone(kind, "low_freq"):  # Wrong edges can compensate for a wrong mel scale or warp factor.
        mel_changes: list[Changes] = [{"mel": mel} for mel in list_values("mel")]
        mel_changes += [{"warp": warp} for warp in list_values("warp")[1:]]
        for low, changes in itertools.product((20.0, 0.0), mel_changes):
            yield changes | {"low_freq": low, "high_freq": 0.0}
    yield from candidate.list_framing_changes()
    if kind in ("fbank", "mfcc") or candidate.bins == "log":
        for scale in levels:
            yield from ({"scale": scale} | changes for changes in _list_level_changes(candidate))
        yield {"scale": 1.0, "added": 0.0, "floor": EPSILON, "span": 0.0}  # Kaldi's scale and floor.


def _list_level_changes(candidate: Candidate) -> Iterator[Changes]:
    """Yield changes of floors, of numbers added to energies or power, and of ranges in dB, for one sample scale."""
    if candidate.get("use_power") is False:  # Code that computes magnitudes may add 1e-9 to the power.
        yield from ({"root": 1e-9, "floor": floor} for floor in (1e-5, 0.0))
    yield from ({"floor": floor} for floor in list_values("floor"))
    yield from ({"added": added, "floor": 0.0} for added in list_values("added"))
    if candidate.source.plain is not None:  # Noise may stand for an added constant, so try constants alone.
        noiseless = {"source": candidate.source.plain, "floor": 0.0}
        yield from (noiseless | {"added": added} for added in list_values("added"))
    if candidate.kind == "mfcc":
        yield from (DB_80 | edge_changes for edge_changes in ({}, {"low_freq": 0.0}))


def _extrapolate_edges(filters: npt.NDArray[np.intp], centers: Doubles, filter_count: int, is_slaney: bool) -> Doubles:
    """Return the lower and the upper edge (2,) in Hz of ``filter_count`` filters that are equally spaced in mel.

    ``centers`` (n,) are estimated center frequencies in Hz of the filters with the numbers ``filters`` (n,), counted
    from 1. The edges are the centers that filters 0 and ``filter_count + 1`` would have.
    """
    mel = convert_to_mel(centers, is_slaney)
    # Fit the line by the Theil-Sen estimator, because it tolerates columns with a wrong center.
    lower, upper = np.triu_indices(len(filters), 1)
    slope = np.median((mel[upper] - mel[lower]) / (filters[upper] - filters[lower]))
    offset = np.median(mel - slope * filters)
    return convert_to_hertz(np.array([offset, offset + slope * (filter_count + 1)]), is_slaney)


def _apply_floor(features: Doubles, values: Doubles, is_floored: Mask, is_inside: Mask) -> Doubles:
    """Raise features (rows, columns) to the floor of the array ``values``, in columns that have cells at the floor.

    The mask ``is_floored`` (rows, columns) selects these cells. The floor is the smallest value of a column. A straight
    line for each column converts the floor to the scale of the features. It is fitted to the cells that the mask
    ``is_inside`` selects, and a column whose line does not rise stays unchanged.
    """
    count = np.maximum(is_inside.sum(0), 1)
    features_mean, values_mean = ((is_inside * array).sum(0) / count for array in (features, values))
    power = (is_inside * (features - features_mean) ** 2).sum(0)
    slope = (is_inside * (features - features_mean) * (values - values_mean)).sum(0) / np.where(power > 0, power, 1)
    floor = features_mean + (values.min(0) - values_mean) / np.where(slope > 0, slope, np.inf)
    return np.where(is_floored.any(0) & (slope > 0), np.maximum(features, floor), features)


def _convert_edge(high: float, rate: float) -> float:
    """Return an upper edge ``high`` in Hz as Kaldi's users write it: -200 for 200 Hz below the Nyquist frequency.

    The Nyquist frequency becomes 0. Unusual distances from it are not converted.
    """
    offset = high - rate / 2
    return offset if offset in (0.0, -100.0, -200.0, -400.0) else high


def _get_number(candidate: Candidate, name: str) -> float:
    """Return the value of a numeric option. A ``high_freq`` relative to the Nyquist frequency is converted to Hz."""
    value = float(candidate.get(name))
    return value + candidate.rate / 2 if name == "high_freq" and value <= 0 else value
