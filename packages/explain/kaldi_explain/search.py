"""Search for the features closest to an array: one optimizer over the table of options, bounded by a budget of work."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

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
    has_option,
    list_values,
)
from kaldi_explain.other_libraries import SLANEY_SCALES, convert_to_hertz, convert_to_mel, find_milliseconds
from kaldi_explain.sources import AudioSource
from kaldi_explain.thresholds import THRESHOLDS
from kaldi_explain.timing import Pattern, Timing
from kaldi_explain.work import Budget, charge

# Options that determine a spectrum, in addition to the positions of the frames. Candidates that agree in these options
# share one spectrum.
SPECTRUM_OPTIONS = ("window_type", "preemphasis_coefficient", "remove_dc_offset", "raw_energy", "window", "whole",
                    "in_place", "energy")  # fmt: skip
REFINED = tuple(option.name for option in TABLE if option.step)


class Search:
    """Search for the options whose features are closest to an array.

    Args:
        sheet: the array and its arrangement.
        budget: work that the answer may do.
        unit: factor that scales the samples to -1 to 1.
        by_differences: True to compare changes from row to row, which a subtracted mean of a window barely affects.
    """

    def __init__(self, sheet: Sheet, budget: Budget, unit: float, *, by_differences: bool = False) -> None:
        self.sheet, self.budget, self.by_differences = sheet, budget, by_differences
        self.levels = (unit, unit * 32768)  # Factors that scale the samples to -1 to 1 and to 16 bits.
        self._rows = self._choose_rows()
        values, floored = sheet.feature_values[self._rows], find_floored_cells(sheet.feature_values)[self._rows]
        clipped = values == values.max(initial=-np.inf)
        clipped &= clipped.sum() >= THRESHOLDS.limit_cells
        is_compared = sheet.feature_columns & ((floored | clipped).mean(axis=0) <= THRESHOLDS.floored_column)
        self._columns = np.flatnonzero(is_compared if is_compared.any() else sheet.feature_columns)
        # The compared cells (rows, columns), and masks of cells at a floor and at the largest value.
        self._values, self._floored, self._clipped = (cells[:, self._columns] for cells in (values, floored, clipped))
        # Caches of costs, spectra with energies, and padded audio.
        self._costs: dict[tuple[Any, ...], float] = {}
        self._spectra: dict[tuple[Any, ...], tuple[Doubles, Doubles]] = {}
        self._padded_audio: dict[tuple[Any, ...], Floats] = {}

    def _choose_rows(self) -> Any:
        """Return the indices of the rows to compare, without up to four rows at each edge.

        For a long array, return evenly spaced blocks of neighboring rows, and the four rows with the largest value in
        any column and in the first column.
        """
        rows = np.flatnonzero(self.sheet.rows)
        edge_rows = min(4, len(rows) // THRESHOLDS.block)  # Edge frames depend on the padding, which is unknown.
        rows = rows[edge_rows : len(rows) - edge_rows]
        if len(rows) <= THRESHOLDS.rows:
            return rows
        starts = np.linspace(0, len(rows) - THRESHOLDS.block, THRESHOLDS.rows // THRESHOLDS.block).astype(int)
        loudest = [
            np.argsort(level[rows])[-4:]
            for level in (self.sheet.feature_values.max(1), self.sheet.feature_values[:, 0])
        ]
        return rows[np.unique(np.concatenate([(starts[:, None] + np.arange(THRESHOLDS.block)).ravel(), *loudest]))]

    @functools.cached_property
    def pattern(self) -> Pattern | None:
        """Principal components from which the times of the rows are estimated. None if no column depends on audio."""
        values = self.sheet.feature_values[:, self.sheet.feature_columns]
        for _ in range(self.sheet.arrangement.order):  # Summing deltas gives smoothed features.
            changes = values - values.mean(0)
            values = np.cumsum(changes, axis=0) - changes / 2  # Half of the change is subtracted to center the sum.
        return Pattern(values, self.sheet.rows) if values.shape[1] else None

    # The following methods compute costs.

    def get_cost(self, candidate: Candidate) -> float:
        """Return the root of the share of the array's variance that a candidate leaves unexplained.

        Columns may have any offset and scale. After the end of the search, a candidate without a stored cost gets
        ``THRESHOLDS.incomparable``, unless it is the first candidate of all.
        """
        charge(15)
        key = candidate.key
        if key not in self._costs and self._costs and self.budget.is_search_over():
            return THRESHOLDS.incomparable
        return self.measure_cost(candidate)

    def measure_cost(self, candidate: Candidate) -> float:
        """Return the cost even after the end of the search. An invalid candidate costs ``THRESHOLDS.incomparable``."""
        key = candidate.key
        if key not in self._costs:
            charge(350)
            try:
                self._costs[key] = self._measure_unexplained(candidate)
            except KaldiCompatError:
                self._costs[key] = THRESHOLDS.incomparable
        return self._costs[key]

    def _measure_unexplained(self, candidate: Candidate) -> float:
        """Return the distance of the array from a candidate's features, which are floored and clipped like the array.

        Quiet cells of resampled audio are not compared. The first 13 cepstra have a larger weight than higher cepstra.
        With ``by_differences``, the changes between adjacent rows are compared. Features with a different number of
        columns, and arrays with fewer than two compared rows, cost ``THRESHOLDS.incomparable``.
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
        # Higher cepstra count less, because they depend more on the filter edges, which are still unknown.
        count = 13  # Number of low cepstra: Kaldi's default of num_ceps.
        if candidate.kind in ("mfcc", "plp") and features.shape[1] > count:
            return 0.5 * (measure_distance(features[:, :count], values[:, :count]) + measure_distance(features, values))
        return measure_distance(features, values)

    def _remove_quiet_cells(self, candidate: Candidate, features: Doubles) -> tuple[Doubles, Doubles]:
        """Return features and the array without cells below the level of one-bit noise, where resamplers differ.

        Columns in which most cells are quiet are left out. In other columns, the mean of the loud cells replaces the
        quiet cells. If most columns are quiet, both arrays are returned unchanged.
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
        """Return a candidate's features for the compared rows. For deltas, return weighted sums of neighboring rows."""
        taps = self.sheet.arrangement.taps
        if not taps:
            return self._compute_features_at(candidate, self._rows)
        neighbors = self._rows[:, None] + np.arange(len(taps)) - len(taps) // 2
        features = self._compute_features_at(candidate, neighbors.ravel())
        return np.asarray(np.einsum("ijk,j->ik", features.reshape(*neighbors.shape, -1), taps))

    def _compute_features_at(self, candidate: Candidate, rows: Any) -> Doubles:
        """Return a candidate's features (rows, columns) at the indices ``rows``. Spectra are cached, except for PLP."""
        starts = candidate.first_sample + rows * (candidate.shift * self.sheet.arrangement.stride)
        options = (candidate.get(name) for name in SPECTRUM_OPTIONS)
        # All calls have the same rows, so the first start and the shift identify the frames.
        key = (candidate.source, starts[0], candidate.shift, candidate.size, candidate.fft_points, *options)
        if candidate.kind != "plp" and key in self._spectra:
            return candidate.reorder(candidate.finish_features(*self._spectra[key]))
        audio = self._pad_audio(candidate)
        frames = audio[
            np.clip(starts + THRESHOLDS.around, 0, len(audio) - candidate.size)[:, None] + np.arange(candidate.size)
        ]
        if candidate.kind == "plp":
            return candidate.reorder(candidate.compute_plp(frames).astype(np.float64))
        if len(self._spectra) > THRESHOLDS.spectra:
            self._spectra.clear()
        self._spectra[key] = candidate.compute_spectra(frames)
        return candidate.reorder(candidate.finish_features(*self._spectra[key]))

    def _pad_audio(self, candidate: Candidate) -> Floats:
        """Return the prepared audio, extended at both ends with ``THRESHOLDS.around`` samples of reflected audio."""
        key = (candidate.source, candidate.whole, candidate.get("preemphasis_coefficient"))
        if key not in self._padded_audio:
            audio = candidate.prepare_samples(candidate.source.samples)
            mode: Any = "reflect" if len(audio) > THRESHOLDS.around else "symmetric"
            self._padded_audio[key] = np.pad(audio, THRESHOLDS.around, mode=mode)
        return self._padded_audio[key]

    def release_source(self, source: AudioSource) -> None:
        """Free the memory of the samples and spectra of ``source``. Call this after its last candidate."""
        source.__dict__.pop("samples", None)  # `samples` is a cached property, which is computed again when it is read.
        self._padded_audio = {key: audio for key, audio in self._padded_audio.items() if key[0] is not source}
        self._spectra = {key: spectra for key, spectra in self._spectra.items() if key[0] is not source}

    def find_best_candidate(self, candidates: Iterable[Candidate]) -> Candidate:
        """Return the candidate with the smallest cost."""
        return min(candidates, key=self.get_cost)

    # The following methods choose the candidates with which the search begins.

    def list_starts(self, source: AudioSource, timings: Sequence[Timing]) -> list[Candidate]:
        """Return at most ``THRESHOLDS.starts`` candidates with as many columns as the array, the best first.

        Only the best candidate of each kind, energy, window, filter bank and order of columns is returned. The features
        are computed from ``source`` at each of ``timings``, until a candidate explains the array.
        """
        candidates: list[Candidate] = []
        for timing in timings:
            shift = timing.shift // self.sheet.arrangement.stride
            for kind, changes in self._list_templates(source.rate, shift):
                plain = Candidate(
                    kind, source.rate, {"frame_shift": find_milliseconds(shift, source.rate)}, source=source
                )
                candidates.append(plain.change(changes).move_to(timing.center))
            if min(map(self.get_cost, candidates), default=THRESHOLDS.incomparable) < THRESHOLDS.explained:
                break
        candidates.sort(key=self.get_cost)
        kinds: dict[tuple[Any, ...], Candidate] = {}
        for start in candidates:
            filters = start.mel, start.fft_points, start.added
            key = start.kind, start.get("use_energy"), start.window, *filters, start.order, start.bins
            kinds.setdefault(key, start)
        return [*kinds.values()][: THRESHOLDS.starts]

    def improve_starts(self, starts: Sequence[Candidate]) -> list[Candidate]:
        """Improve the candidates ``starts``, and return them without duplicates, the best first.

        Dithering is tried for all candidates together, then other framings and other filter edges for each candidate.
        Frame options are searched for the best candidate, unless its cost is at most ``THRESHOLDS.near``. They are
        then tried for the other candidates.
        """
        noisy = [start.change({"source": start.source.noisy_source}) for start in starts]
        # Dithering must explain a fifth of the cost, because a floor of the energies also has an effect like dithering.
        if min(map(self.get_cost, noisy)) < THRESHOLDS.better * min(map(self.get_cost, starts)):
            starts = noisy
        starts = [
            self.find_best_candidate((start, *map(start.change, start.list_framing_changes()))) for start in starts
        ]
        starts = [
            self.find_best_candidate((start, *map(start.change, self._list_edge_changes(start)))) for start in starts
        ]
        best = self.find_best_candidate(starts)
        if self.get_cost(best) > THRESHOLDS.near:
            best = self._apply_proposals(best, self._list_frame_changes(best))
        framing = {name: best.get(name) for name in ("frame_length", "snip_edges", "padding", "offset", "start")}
        framings = (framing, framing | {"window_type": best.get("window_type")})
        starts = [best, *(self.find_best_candidate((start, *map(start.change, framings))) for start in starts)]
        return sorted({start.key: start for start in starts}.values(), key=self.get_cost)

    def _list_templates(self, rate: float, shift: int) -> Iterator[tuple[str, Changes]]:
        """Yield kinds and options of features as wide as the array, for a shift of ``shift`` samples at ``rate`` Hz."""
        shift_ms, double_ms, fourfold_ms = (find_milliseconds(n * shift, rate) for n in (1, 2, 4))
        # Filter banks have at least three filters, because Kaldi refuses fewer mel bins.
        dim, is_speech_shift = len(self.sheet.feature_columns), abs(shift_ms - 10) < 0.1
        synthesis_lengths = (double_ms, fourfold_ms, 50.0)  # Usual frame lengths in milliseconds of speech synthesis.
        for length in sorted({25.0} if is_speech_shift else {*synthesis_lengths}):
            library = {"frame_length": length} | LIBRARY_MEL
            for mel, name in itertools.product(("hertz", "slaney"), ("use_power", "use_log_fbank")):
                if 3 <= dim <= 256:
                    is_usual = (mel, name) == ("hertz", "use_power")
                    yield "fbank", library | {"num_mel_bins": dim, "mel": mel, name: is_usual}
            for mel in ("hertz", "slaney") if 3 <= dim <= 256 else ():
                mel_filters = library | {"num_mel_bins": dim, "mel": mel}
                for added in (1.0, 1e-6):  # log1p adds 1, and users of torchaudio most often add 1e-6.
                    yield "fbank", mel_filters | {"scale": self.levels[0], "added": added, "floor": 0.0}
                if is_speech_shift:  # An FFT of 512 points for 400 samples is as usual as an FFT of 400 points.
                    yield "fbank", mel_filters | {"round_to_power_of_two": True}
            for bins, mel in itertools.product((40, 80, 128), ("hertz", "slaney")):
                if 4 <= dim <= min(bins, 80):
                    cepstra = library | {"num_ceps": dim, "num_mel_bins": bins, "use_energy": False, "mel": mel}
                    yield "mfcc", cepstra
                    yield "mfcc", cepstra | {"scale": self.levels[0]} | DB_80
        for length in sorted({min(25.0, fourfold_ms)} if is_speech_shift else {min(25.0, fourfold_ms), 50.0}):
            yield from _list_kaldi_templates(rate, length, dim)
        points = 2 * (dim - 1)
        for length in (
            sorted({*list_values("frame_length"), find_milliseconds(points, rate)}) if 64 < dim < 4096 else ()
        ):
            framing = {"frame_length": length, "round_to_power_of_two": points & (points - 1) == 0}
            if FeatureModel("spectrogram", rate, framing).fft_points == points:
                yield "spectrogram", framing
                yield from (("spectrogram", framing | STFT | {"bins": bins}) for bins in ("magnitude", "log", "power"))

    # The following methods improve a candidate.

    def improve_candidate(self, candidate: Candidate) -> Candidate:
        """Change options of a candidate in rounds, and return the result with as many default options as possible.

        The last round explains the array, reduces the cost by less than 1%, or ends the stage's budget. Changes of one
        option are tried first. Below the cost ``THRESHOLDS.close``, options that can compensate for each other are
        changed together: the frames, and the filters with the preparation of the samples.
        """
        proposals: tuple[tuple[Callable[[Candidate], Iterable[Changes]], float], ...] = (
            (self._list_single_changes, THRESHOLDS.incomparable),
            (self._list_frame_changes, THRESHOLDS.close),
            (self._list_filter_changes, THRESHOLDS.close),
        )
        while not self.budget.is_stage_over() and self.get_cost(candidate) > THRESHOLDS.explained:
            candidate = self._simplify_candidate(candidate)
            target_cost = 0.99 * self.get_cost(candidate)  # Stop after a round that reduces the cost by less than 1%.
            for propose, max_cost in proposals:
                if target_cost < self.get_cost(candidate) < max_cost:
                    candidate = self._apply_proposals(candidate, propose(candidate))
            if self.get_cost(candidate) > target_cost:
                break
        return self._simplify_candidate(candidate)

    def _apply_proposals(self, candidate: Candidate, proposals: Iterable[Changes]) -> Candidate:
        """Apply the proposals that reduce the cost enough, the best first, and return the changed candidate.

        Costs are divided by the ``gain`` of the changed options, so that rare options have to explain more.
        """
        ranked = [(self.get_cost(candidate.change(changes)) / _get_gain(candidate, changes), number, changes)
                  for number, changes in enumerate(proposals)]  # fmt: skip
        for _, _, changes in sorted(ranked, key=lambda proposal: proposal[:2]):
            other = candidate.change(changes)
            if self.get_cost(other) < _get_gain(candidate, changes) * self.get_cost(candidate):
                candidate = other
        return candidate

    def _simplify_candidate(self, candidate: Candidate) -> Candidate:
        """Return the candidate with defaults or equal simpler options, each of which raises the cost by at most 2%."""
        names = sorted(name for name in BY_NAME if has_option(candidate.kind, name))
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
        # Options are tried twice, because an option may only return to its default after another option has.
        for changes in [*same_shape, *same_frames, *defaults, *defaults, *single_steps, levels]:
            other = candidate.change(changes)
            limit = max(1.02 * self.get_cost(candidate), THRESHOLDS.explained)
            if other.key != candidate.key and self.get_cost(other) <= limit:
                candidate = other
        return candidate

    def _list_single_changes(self, candidate: Candidate) -> Iterator[Changes]:
        """Yield the changes of :func:`_list_changes` until the stage's budget ends, and then changes of filter edges.

        Edges are estimated from the columns of an array that is not nearly explained. Fitted edges follow if their cost
        is less than half of the lowest cost so far.
        """
        cost, lowest = self.get_cost(candidate), THRESHOLDS.incomparable
        proposals = itertools.takewhile(
            lambda _: not self.budget.is_stage_over(), _list_changes(candidate, self.levels)
        )
        estimated = self._list_estimated_edges(candidate) if cost > 10 * THRESHOLDS.explained else ()
        for changes in itertools.chain(proposals, estimated):
            lowest = min(lowest, self.get_cost(candidate.change(changes)))
            yield changes
        if has_option(candidate.kind, "low_freq") and cost < THRESHOLDS.unlike:
            fitted = self.refine_options(candidate, EDGES)
            if self.get_cost(fitted) < 0.5 * lowest:  # Fitted edges always gain a little, so they must halve the cost.
                yield {name: fitted.get(name) for name in ("mel", *EDGES)}

    def _list_frame_changes(self, candidate: Candidate) -> Iterator[Changes]:
        """Yield changes that move the frames, and then pairs of a frame length and a window with unmoved centers.

        The pairs are tried because a wrong window can imitate a wrong frame length. The three pairs with the lowest
        costs are also tried in frames that move, with each value of the attribute ``window``.
        """
        yield from candidate.list_framing_changes()
        center, ranked = candidate.first_sample + candidate.size / 2, list[tuple[float, int, Changes]]()
        lengths = [candidate.get("frame_length"), *list_values("frame_length")]
        # Usual lengths in samples are tried only for frames above all usual milliseconds, because each costs work.
        if lengths[0] > max(lengths[1:]):
            lengths += [find_milliseconds(size, candidate.rate) for size in WINDOW_SAMPLES]
        for length, window in itertools.product(dict.fromkeys(lengths), list_values("window_type")):
            changes = {"frame_length": length, "window_type": window, "offset": 0}
            other = candidate.change(changes).move_to(center)
            offset = round(center - other.first_sample - other.size / 2)
            changes |= {"start": other.start, "offset": offset}
            ranked.append((self.get_cost(candidate.change(changes)), len(ranked), changes))
            yield changes
        for (_, _, changes), window in itertools.product(
            sorted(ranked, key=lambda x: x[:2])[:3], list_values("window")
        ):
            other = candidate.change(changes | {"window": window})
            yield from (changes | {"window": window} | framing for framing in other.list_framing_changes())

    def _list_filter_changes(self, candidate: Candidate) -> Iterator[Changes]:
        """Yield filter shapes with fitted edges, and then all kinds of preemphasis and DC removal with usual edges."""
        joint: list[Changes] = [{name: candidate.get(name) for name in ("mel", *EDGES)}]
        if has_option(candidate.kind, "mel"):
            for mel in SHAPES:
                refined = self.refine_options(candidate.change({"mel": mel}), EDGES)
                yield {name: refined.get(name) for name in ("mel", *EDGES)}
            low, high = (_get_number(candidate, name) for name in EDGES)
            near = sorted(list_values("low_freq"), key=lambda edge: abs(edge - low))[:2]
            pairs = itertools.product(
                sorted({"kaldi", candidate.mel}), {20.0, 0.0, low, *near}, {0.0, _convert_edge(high, candidate.rate)}
            )
            joint = [{"mel": mel, "low_freq": first, "high_freq": last} for mel, first, last in pairs]
        factors = list_values("preemphasis_coefficient")[:5]  # The most common factors, because every pair is tried.
        for factor, removes_dc, whole in itertools.product(factors, (True, False), ((), ("preemphasis",))):
            preparation = {"preemphasis_coefficient": factor, "remove_dc_offset": removes_dc, "whole": whole}
            yield from (preparation | changes for changes in joint)

    def _list_edge_changes(self, candidate: Candidate) -> Iterator[Changes]:
        """Yield changes of the filters' edges: estimated edges for a filter bank, and usual edges for cepstra."""
        yield from self._list_estimated_edges(candidate)
        if candidate.kind in ("mfcc", "plp"):
            for low, high in itertools.product((20.0, 0.0, 40.0, 64.0, 80.0, 133.3333), list_values("high_freq")):
                yield {"low_freq": low, "high_freq": high}

    def _list_estimated_edges(self, candidate: Candidate) -> Iterator[Changes]:
        """Estimate the filters' centers from the array, and yield edges and mel scales with about these centers.

        The narrow filter whose energies correlate best with a column has the center of this column. On the right mel
        scale, the centers lie on a straight line over the numbers of the columns. Yield nothing for kinds other than
        fbank, for deltas, in a search by differences, and if fewer than three columns have a center.
        """
        if self.by_differences or self.sheet.arrangement.taps or candidate.kind != "fbank":
            return
        count, bins = THRESHOLDS.narrow_filters, candidate.get("num_mel_bins")
        narrow = {"num_mel_bins": count, "use_energy": False, "low_freq": 0.0, "high_freq": 0.0, "mel": "hertz"}
        try:
            correlations = compute_correlations(self._compute_features(candidate.change(narrow)), self._values)
        except KaldiCompatError:
            return
        numbers = self._columns - int(bool(candidate.get("use_energy")) and not candidate.get("htk_compat"))
        is_local = (correlations.max(1) > THRESHOLDS.local) & (numbers >= 0) & (numbers < bins)
        numbers, correlations = numbers[is_local] + 1, correlations[is_local]
        if len(numbers) < 3:
            return
        rate, best = candidate.rate, np.clip(correlations.argmax(1), 1, count - 2)
        left, middle, right = (correlations[np.arange(len(best)), best + k] for k in (-1, 0, 1))
        bend = np.minimum(left - 2 * middle + right, -1e-9)  # Curvature of a parabola through three correlations.
        step = float(convert_to_mel(np.array(0.5 * rate))) / (count + 1)
        centers = convert_to_hertz(step * (1 + best + np.clip(0.5 * (left - right) / bend, -0.5, 0.5)))
        highs = [edge if edge > 0 else edge + rate / 2 for edge in list_values("high_freq")]
        for is_slaney in (False, True):
            values = convert_to_mel(centers, is_slaney)
            # Fit the line by the Theil-Sen estimator, because it tolerates columns with a wrong center.
            lower, upper = np.triu_indices(len(numbers), 1)
            slope = np.median((values[upper] - values[lower]) / (numbers[upper] - numbers[lower]))
            first = np.median(values - slope * numbers)
            ends = convert_to_hertz(np.array([first, first + slope * (bins + 1)]), is_slaney)
            low, high = np.clip(ends, 0, rate / 2).tolist()
            mel_scale = (
                candidate.mel if (candidate.mel in SLANEY_SCALES) == is_slaney else ("hertz", "slaney")[is_slaney]
            )
            yield {"mel": mel_scale, "low_freq": low, "high_freq": _convert_edge(high, rate)}
            # Rounding the edges of snapped filters down to FFT bins lowers them by half a bin on average.
            for mel in (shape for shape in SHAPES if (shape in SLANEY_SCALES) == is_slaney):
                shift_hz, count_near = (
                    0.5 * rate / candidate.fft_points * mel.startswith("snapped"),
                    3 if mel == mel_scale else 2,
                )
                nearest = [sorted(choices, key=lambda edge: abs(edge - end - shift_hz))[:count_near]
                           for end, choices in ((low, list_values("low_freq")), (high, highs))]  # fmt: skip
                for pair in itertools.product(*nearest):
                    if pair[0] < pair[1] <= rate / 2:
                        yield {"mel": mel, "low_freq": pair[0], "high_freq": _convert_edge(pair[1], rate)}

    def refine_options(self, candidate: Candidate, names: Sequence[str] = REFINED) -> Candidate:
        """Return the candidate with fitted values of the numeric options ``names``, rounded if the cost allows it.

        The fit begins with estimated filter edges if they are better. Each iteration computes a step for each option by
        least squares, and tries the full steps, half and a quarter of them. Rounding may raise the cost by 5%. A
        candidate that the fit does not improve is returned unchanged.
        """
        names = [name for name in names if has_option(candidate.kind, name)]
        best = self.find_best_candidate((candidate, *map(candidate.change, self._list_estimated_edges(candidate))))
        last_cost, goal = THRESHOLDS.incomparable, self._values - self._values.mean(0)
        while names and THRESHOLDS.explained < self.get_cost(best) < last_cost and not self.budget.is_stage_over():
            last_cost, values = self.get_cost(best), {name: _get_number(best, name) for name in names}
            charge(1000)
            try:
                plain = self._compute_features(best)[:, self._columns]
                changed = (best.change({name: values[name] + BY_NAME[name].step}) for name in names)
                effects = [self._compute_features(other)[:, self._columns] - plain for other in changed]
            except KaldiCompatError:
                break
            design = np.stack([(part - part.mean(0)).ravel() for part in (plain, *effects)], axis=1)
            scale, *shares = np.linalg.lstsq(design, goal.ravel(), rcond=None)[0]
            steps = {name: BY_NAME[name].step * share / (scale or 1) for name, share in zip(names, shares, strict=True)}
            fitted = [{name: float(np.clip(values[name] + factor * steps[name], 0, best.rate / 2)) for name in names}
                      for factor in (1, 0.5, 0.25)]  # fmt: skip
            best = self.find_best_candidate((best, *map(best.change, fitted)))
        limit = max(1.05 * self.get_cost(best), THRESHOLDS.explained)
        # Options are usually set to round numbers, so take the fewest digits that explain the array about equally well.
        for name in names:
            rounded = (best.change({name: round(best.get(name), digits)}) for digits in range(-2, 5))
            best = next((other for other in rounded if self.get_cost(other) <= limit), best)
        if "high_freq" in names:
            best = best.change({"high_freq": _convert_edge(_get_number(best, "high_freq"), best.rate)})
        return best if self.get_cost(best) < self.get_cost(candidate) else candidate


def _list_kaldi_templates(rate: float, length: float, dim: int) -> Iterator[tuple[str, Changes]]:
    """Yield kinds and options of Kaldi's and python_speech_features' features that have ``dim`` columns.

    ``length`` is the frame length in milliseconds, and ``rate`` the sampling rate in Hz.
    """
    framing: Changes = {"frame_length": length}
    points = FeatureModel("fbank", rate, framing).fft_points
    speech_features = framing | SPEECH_FEATURES | {"floor": EPSILON_64 * points}
    if 3 <= dim <= 256:
        yield "fbank", framing | {"num_mel_bins": dim}
        yield "fbank", framing | {"num_mel_bins": dim, "use_log_fbank": False}
        yield "fbank", speech_features | {"num_mel_bins": dim}
    for is_last in (False, True):
        if 4 <= dim <= 257:
            yield "fbank", framing | {"use_energy": True, "htk_compat": is_last, "num_mel_bins": dim - 1}
    if 4 <= dim <= 80:
        for bins in sorted({bins for bins in (23, 26, 40, 80, dim) if bins >= dim}):
            cepstra = framing | {"num_ceps": dim, "num_mel_bins": bins}
            plain = cepstra | {"use_energy": False}
            for options, is_last in itertools.product((cepstra, plain), (False, True)):
                yield "mfcc", options | {"htk_compat": is_last}
            yield "mfcc", plain | {"order": (*range(1, dim), 0)}
            if bins > dim:
                yield "mfcc", plain | {"num_ceps": dim + 1, "order": tuple(range(1, dim + 1))}
        cepstra = speech_features | {"num_ceps": dim, "num_mel_bins": max(dim, 26), "energy": "spectrum"}
        yield from (("mfcc", cepstra | {"use_energy": has_energy}) for has_energy in (True, False))
    for has_energy, order in itertools.product((True, False), sorted({max(dim - 1, 1), max(dim - 1, 12)})):
        if 4 <= dim <= 24:
            yield "plp", framing | {"num_ceps": dim, "lpc_order": order, "use_energy": has_energy}


def _get_gain(candidate: Candidate, changes: Changes) -> float:
    """Return the smallest gain of the changed options and attributes, except for an unchanged offset."""
    names = changes.keys() - ({"offset"} if changes.get("offset") == candidate.offset else set())
    return min(BY_NAME[name].gain if name in BY_NAME else BY_NAME["mel"].gain for name in names)


def _list_changes(candidate: Candidate, levels: Sequence[float]) -> Iterator[Changes]:
    """Yield changes of each option alone, and of options that interact. ``levels`` are factors that scale samples."""
    rate, kind = candidate.rate, candidate.kind
    for option in TABLE:
        if has_option(kind, option.name) and (option.name != "in_place" or candidate.get("preemphasis_coefficient")):
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
    if has_option(kind, "low_freq"):  # Wrong edges can compensate for a wrong mel scale or warp factor.
        mel_changes: list[Changes] = [{"mel": mel} for mel in list_values("mel")]
        mel_changes += [{"warp": warp} for warp in list_values("warp")[1:]]
        for low, changes in itertools.product((20.0, 0.0), mel_changes):
            yield changes | {"low_freq": low, "high_freq": 0.0}
    yield from candidate.list_framing_changes()
    if kind in ("fbank", "mfcc") or candidate.bins == "log":
        for scale in levels:
            if candidate.get("use_power") is False:
                yield from ({"scale": scale, "root": 1e-9, "floor": floor} for floor in (1e-5, 0.0))
            yield from ({"scale": scale, "floor": floor} for floor in list_values("floor"))
            yield from ({"scale": scale, "added": added, "floor": 0.0} for added in list_values("added"))
            if candidate.source.plain is not None:  # Noise may stand for an added constant, so try constants alone.
                noiseless = {"source": candidate.source.plain, "scale": scale, "floor": 0.0}
                yield from (noiseless | {"added": added} for added in list_values("added"))
            if kind == "mfcc":
                yield from ({"scale": scale} | DB_80 | edge_changes for edge_changes in ({}, {"low_freq": 0.0}))
        yield {"scale": 1.0, "added": 0.0, "floor": EPSILON, "span": 0.0}


def _apply_floor(features: Doubles, values: Doubles, floored: Mask, inside: Mask) -> Doubles:
    """Raise features (rows, columns) to an array's floor in the columns in which the mask ``floored`` selects cells.

    The floor is the smallest of the array's ``values`` in a column. A straight line for each column, fitted to the
    cells that the mask ``inside`` selects, converts the floor to the scale of the features. A column whose line does
    not rise stays unchanged.
    """
    count = np.maximum(inside.sum(0), 1)
    features_mean, values_mean = ((inside * array).sum(0) / count for array in (features, values))
    power = (inside * (features - features_mean) ** 2).sum(0)
    slope = (inside * (features - features_mean) * (values - values_mean)).sum(0) / np.where(power > 0, power, 1)
    floor = features_mean + (values.min(0) - values_mean) / np.where(slope > 0, slope, np.inf)
    return np.where(floored.any(0) & (slope > 0), np.maximum(features, floor), features)


def _convert_edge(high: float, rate: float) -> float:
    """Return an upper edge in Hz as Kaldi's users write it: 0 for the Nyquist frequency, -200 for 200 Hz below it.

    Unusual distances from the Nyquist frequency are not converted.
    """
    offset = high - rate / 2
    return offset if offset in (0.0, -100.0, -200.0, -400.0) else high


def _get_number(candidate: Candidate, name: str) -> float:
    """Return the value of a numeric option. ``high_freq`` relative to the Nyquist frequency is converted to Hz."""
    value = float(candidate.get(name))
    return value + candidate.rate / 2 if name == "high_freq" and value <= 0 else value
