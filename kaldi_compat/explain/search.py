"""The search for the features that resemble an array most: what the array shows first, then one option at a time."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kaldi_compat.errors import KaldiCompatError
from kaldi_compat.exact.arrays import Doubles, Floats
from kaldi_compat.explain.arrangements import Arrangement, Mask
from kaldi_compat.explain.fits import correlations, similarity
from kaldi_compat.explain.models import DCTS, EPSILON, MELS, PADDINGS, SLANEYS, FeatureModel, Scale, milliseconds
from kaldi_compat.explain.sources import AudioSource
from kaldi_compat.explain.timing import Pattern, Timing

Changes = dict[str, Any]

MOST_ROWS, BLOCK = 96, 8  # rows that are compared, in blocks of neighbours
AROUND = 4096  # samples around the audio, for frames that reach beyond it
SETTLING_SECONDS = 1.5  # after a search that took all its time
# Costs of candidates, as shares of the array's variance (its root): as good as nothing; all but rounding.
UNLIKE, NEAR, EXPLAINED = 0.7, 1e-2, 5e-5
NOTHING = 2.0  # of a candidate that cannot be compared
BETTER = 0.97  # share of the cost that a change may leave
MUCH_BETTER = {
    "warp": 0.9,
    "corner": 0.9,
    "in_place": 0.8,
    "frame_length": 0.95,
    "offset": 0.7,
    "added": 0.7,
    "floor": 0.7,
}
OFFSETS = (1, 2, 4, 8, 16, 32, 64)  # samples by which frames are tried to be later or earlier
LOW_CEPSTRA = 13  # which depend less on the edges of the filters than those above
EDGES = ("low_freq", "high_freq")
# In Hz, and of a factor: how features change with numbers.
STEPS = {"low_freq": 0.5, "high_freq": -5.0, "preemphasis_coefficient": -1e-3, "warp": 1e-3}
NARROW = 60  # filters by which the centres of columns are found
LOCAL = 0.6  # correlation of a column with one narrow filter, if it is a filter itself
FEWEST_AT_FLOOR = 2, 3  # cells of a column, and of all, at their least value, if there is a floor
MOST_AT_FLOOR = 0.8  # of a column that is compared
MOST_STARTS, MOST_FRAMED = 4, 8
DB_80 = 8 * math.log(10)
WINDOW_TYPES = ("povey", "hamming", "hanning", "rectangular", "blackman", "sine")
LENGTHS_MS = (25.0, 20.0, 30.0, 32.0, 16.0, 40.0, 50.0, 64.0)
LENGTHS = (400, 512, 1024, 2048, 1200, 800, 256)
CHOICES: dict[str, Sequence[Any]] = {
    "use_power": (True, False),
    "use_log_fbank": (True, False),
    "bins": ("kaldi", "log", "power", "magnitude"),
    "num_mel_bins": (23, 40, 80, 26, 30, 64, 20, 24, 32, 60, 128),
    "cepstral_lifter": (22, 0),
    "mel": tuple(MELS),
    "low_freq": (20.0, 0.0, 40.0, 64.0, 80.0, 50.0, 60.0, 90.0, 100.0, 125.0, 133.3333),
    "high_freq": (0.0, -400.0, -200.0, -100.0, 7600.0, 7800.0, 7000.0, 6800.0, 6500.0, 4000.0, 3800.0, 3700.0, 8000.0,
                  11025.0, 10000.0, 11000.0),
    "round_to_power_of_two": (True, False),
    "points": (0, 256, 400, 512, 1024, 2048),
    "window_type": WINDOW_TYPES,
    "window": ("kaldi", "periodic"),
    "preemphasis_coefficient": (0.97, 0.0, 0.95, 0.98, 0.9, 0.96, 0.99, 0.94, 0.92, 0.85),
    "remove_dc_offset": (True, False),
    "whole": ((), ("preemphasis",), ("offset",), ("offset", "preemphasis")),
    "raw_energy": (True, False),
    "energy": ("kaldi", "spectrum"),
    "dct": ("kaldi", *DCTS),
    "warp": (1.0, *(round(0.8 + 0.01 * n, 2) for n in range(46) if n != 20)),
    "corner": (700.0, 1000.0, 625.0),
    "in_place": (False, True),
    "root": (0.0, 1e-9, 1e-6),
}  # fmt: skip
MEL = {"mel", "low_freq", "high_freq", "warp", "corner"}
OF_CEPSTRA = ("num_ceps", "cepstral_lifter", "use_energy")
CEPSTRA = {"num_mel_bins", "cepstral_lifter", "raw_energy"}
OF_KIND = {
    "fbank": {"use_power", "use_log_fbank", "raw_energy", "root"} | MEL,
    "mfcc": CEPSTRA | MEL | {"energy"},
    "plp": CEPSTRA | MEL - {"mel", "corner"},
    "spectrogram": {"bins", "raw_energy", "root"},
}
FOR_ALL = {"round_to_power_of_two", "points", "window_type", "window", "preemphasis_coefficient", "remove_dc_offset",
           "whole", "in_place"}  # fmt: skip
NOT_OF_PLP = {"points", "in_place", "window"}
STFT: Changes = {"window_type": "hanning", "window": "periodic", "preemphasis_coefficient": 0.0,
                 "remove_dc_offset": False, "low_freq": 0.0}  # fmt: skip
TINY, EPSILON_64 = float(np.finfo(np.float32).tiny), float(np.finfo(np.float64).eps)
FLOORS = (EPSILON, 1e-10, 1e-5, 1e-6, 1e-7, 1e-8, 1e-3, 1e-9, 1e-2, 1e-12, 1.0, TINY, EPSILON_64)
ADDED = (1e-6, 1e-10, 1e-8, 1e-5, 1e-9, 2.0**-24, 1e-3, 1.0, 1e-7, EPSILON)


@dataclass(frozen=True, eq=False)
class Sheet:
    """An array upright: frames in rows.

    Attributes:
        said: what was done to it, in words.
        values: the array (frames, columns).
        arrangement: how features stand in it.
        rows, columns: those that say something of the audio.
    """

    said: list[str]
    values: Doubles
    arrangement: Arrangement
    rows: Mask
    columns: Mask

    @property
    def own(self) -> Doubles:
        """The columns that are features themselves."""
        return self.values[:, self.arrangement.columns]

    @property
    def own_columns(self) -> Mask:
        """Those of them that say something."""
        return self.columns[self.arrangement.columns]


def floored_cells(values: Doubles) -> Mask:
    """Return the cells at a floor: at the least value of a column, or of all, that there is again and again."""
    least, lowest = values == values.min(axis=0), values == values.min()
    floored: Mask = least & (least.sum(axis=0) >= FEWEST_AT_FLOOR[0])
    return floored | lowest if lowest.sum() >= FEWEST_AT_FLOOR[1] else floored


@dataclass(frozen=True)
class Candidate:
    """Features that may be those of an array.

    Attributes:
        model: how they are computed.
        source: the audio.
        start: frame of the features that is the array's first row.
        offset: samples by which all frames are later.
        order: columns of the features that are those of the array; None for all.
    """

    model: FeatureModel
    source: AudioSource
    start: int = 0
    offset: int = 0
    order: tuple[int, ...] | None = None

    def changed(self, changes: Changes) -> Candidate:
        """Return this candidate with other attributes, or other options or attributes of the model."""
        own = {name: changes[name] for name in ("source", "start", "offset", "order") if name in changes}
        model = self.model
        for name, value in changes.items():
            model = model if name in own else model.changed(name, value)
        return dataclasses.replace(self, model=model, **own)

    @property
    def key(self) -> tuple[Any, ...]:
        """What distinguishes it from others."""
        return repr(self.model), self.source.said, self.start, self.offset, self.order

    @property
    def options(self) -> set[str]:
        """Names of the options that may be changed."""
        own = OF_KIND[self.model.kind] | FOR_ALL - (NOT_OF_PLP if self.model.kind == "plp" else set())
        return own - {"num_mel_bins"} if self.model.kind == "fbank" else own

    def first(self) -> int:
        """Return the first sample of the first row's frame."""
        rate = self.source.rate
        return self.model.first(rate) + self.offset + self.start * self.model.shift(rate)

    def placed(self, centre: float) -> Candidate:
        """Return this candidate with the frame that is in the middle of samples as the first."""
        rate = self.source.rate
        middle = self.model.first(rate) + self.offset + self.model.size(rate) / 2
        return dataclasses.replace(self, start=round((centre - middle) / self.model.shift(rate)))


def alike_framings(candidate: Candidate) -> list[Candidate]:
    """Return the candidate with each convention of edges that gives the same frames, but for those at the edges."""
    shift, alike = candidate.model.shift(candidate.source.rate), []
    changes: list[Changes] = [{"snip_edges": True}, {"snip_edges": False}, *({"padding": each} for each in PADDINGS)]
    for change in changes:
        other = candidate.changed(change | {"offset": 0})
        frames, rest = divmod(candidate.first() - other.first(), shift)
        if not rest:
            alike.append(other.changed({"start": other.start + frames}))
    return alike


class TimeLimit:
    """Processor time of this thread that a search may take: the threads of a BLAS library wait busily."""

    def __init__(self, seconds: float) -> None:
        self._end = self._end_of_stage = time.thread_time() + seconds

    def stage(self, seconds: float) -> None:
        """Begin a stage that may take some of the time."""
        self._end_of_stage = min(self._end, time.thread_time() + seconds)

    def is_over(self) -> bool:
        """Return True if the time of the stage is over."""
        return time.thread_time() > self._end_of_stage

    def is_at_end(self) -> bool:
        """Return True if all time of the search is over."""
        return time.thread_time() > self._end

    def is_settled(self) -> bool:
        """Return True if the time to settle what was found is over, too."""
        return time.thread_time() > self._end + SETTLING_SECONDS


class Search:
    """Chooses options one after the other, each so that features resemble an array most.

    Args:
        sheet: the array.
        clock: when to end.
        unit: factor that brings the samples to -1 to 1.
        by_differences: compare changes from row to row: what a window subtracts hardly changes.
    """

    def __init__(self, sheet: Sheet, clock: TimeLimit, unit: float, *, by_differences: bool = False) -> None:
        self.sheet, self.clock, self.by_differences = sheet, clock, by_differences
        self.levels = (unit, unit * 32768)
        self._rows = self._chosen_rows()
        values = sheet.own[self._rows][:, sheet.own_columns]
        self._floored = floored_cells(sheet.own)[self._rows][:, sheet.own_columns]
        self._told = self._floored.mean(axis=0) <= MOST_AT_FLOOR
        self._told = self._told if self._told.any() else np.ones_like(self._told)
        self._values = values[:, self._told]
        self._floored = self._floored[:, self._told]
        self._costs: dict[tuple[Any, ...], float] = {}
        self._spectra: dict[tuple[Any, ...], tuple[Floats, Doubles]] = {}
        self._peaks: dict[tuple[Any, ...], float] = {}
        self._wide: dict[tuple[Any, ...], Floats] = {}

    def _chosen_rows(self) -> Any:
        rows = np.flatnonzero(self.sheet.rows)
        if len(rows) > 2 * BLOCK:  # frames at the edges depend on padding
            rows = rows[2:-2]
        if len(rows) <= MOST_ROWS:
            return rows
        first = np.linspace(0, len(rows) - BLOCK, MOST_ROWS // BLOCK).astype(int)
        return rows[(first[:, None] + np.arange(BLOCK)).ravel()]

    @functools.cached_property
    def pattern(self) -> Pattern | None:
        """What the array shows of time; None if no column says something."""
        values = self.sheet.own[:, self.sheet.own_columns]
        return Pattern(values, self.sheet.rows) if values.shape[1] else None

    # Costs.

    def cost(self, candidate: Candidate) -> float:
        """Return how much of the array a candidate leaves unexplained, whatever offset and scale each column has.

        When all time is over, a candidate that is not known yet costs as much as one that cannot be compared.
        """
        key = candidate.key
        if key not in self._costs:
            if self._costs and self.clock.is_at_end():
                return NOTHING
            try:
                self._costs[key] = self._unexplained(candidate)
            except KaldiCompatError:
                self._costs[key] = NOTHING
        return self._costs[key]

    def _unexplained(self, candidate: Candidate) -> float:
        features, values = self._features(candidate), self._values
        columns = len(self.sheet.own_columns)
        if features.shape[1] != columns or len(values) < 2:
            return NOTHING
        features = features[:, self.sheet.own_columns][:, self._told]
        if self._floored.any() and not candidate.model.span:
            features = self._with_floor(features)
        if self.by_differences:
            next_to = np.diff(self._rows) == 1
            features, values = np.diff(features, axis=0)[next_to], np.diff(values, axis=0)[next_to]
        if candidate.model.kind in ("mfcc", "plp") and features.shape[1] > LOW_CEPSTRA:
            low = similarity(features[:, :LOW_CEPSTRA], values[:, :LOW_CEPSTRA])
            return 0.5 * (low + similarity(features, values))
        return similarity(features, values)

    def _with_floor(self, features: Doubles) -> Doubles:
        """Return features with the floor that the array has, where the cells above it show it."""
        above, values = ~self._floored, self._values
        count = above.sum(0)
        first, second = ((above * each).sum(0) / count for each in (features, values))
        power = (above * (features - first) ** 2).sum(0)
        slope = (above * (features - first) * (values - second)).sum(0) / np.where(power > 0, power, 1)
        floor = first + (values.min(0) - second) / np.where(slope > 0, slope, np.inf)
        return np.where(self._floored.any(0) & (slope > 0), np.maximum(features, floor), features)

    def _features(self, candidate: Candidate) -> Doubles:
        """Return the features of the rows that are compared."""
        model, rate = candidate.model, candidate.source.rate
        shift, size = model.shift(rate), model.size(rate)
        at = candidate.first() + self._rows * (shift * self.sheet.arrangement.stride)
        key = (
            candidate.source.said, rate, model.scale, at[0], shift, size, model.fft_points(rate), model.window,
            model.whole,
            model.in_place, model.energy, *(model.value(each) for each in (
                "window_type", "preemphasis_coefficient", "remove_dc_offset", "raw_energy")),
        )  # fmt: skip
        if model.kind == "plp" or key not in self._spectra:
            audio = self._around(candidate)
            index = np.clip(at + AROUND, 0, len(audio) - size)[:, None] + np.arange(size)
            if model.kind == "plp":
                features = model.plp_of_frames(audio[index], rate).astype(np.float64)
                return features if candidate.order is None else features[:, list(candidate.order)]
            if len(self._spectra) > 300:
                self._spectra.clear()
            self._spectra[key] = model.of_frames(audio[index], rate)
        largest = self._largest(candidate) if model.span else -np.inf
        features = model.finished(*self._spectra[key], rate, largest)
        return features if candidate.order is None else features[:, list(candidate.order)]

    def _largest(self, candidate: Candidate) -> float:
        """Return the largest log energy of all rows that count, before the floor below it."""
        model, rate = candidate.model, candidate.source.rate
        options = {name: each for name, each in model.options.items() if name not in OF_CEPSTRA}
        bands = dataclasses.replace(
            model, kind="fbank" if model.kind == "mfcc" else model.kind, options=options, span=0.0, dct="kaldi"
        )
        other = dataclasses.replace(candidate, model=bands)
        if other.key not in self._peaks:
            shift, size = model.shift(rate), model.size(rate)
            at = candidate.first() + np.flatnonzero(self.sheet.rows) * (shift * self.sheet.arrangement.stride)
            audio = self._around(candidate)
            index = np.clip(at + AROUND, 0, len(audio) - size)[:, None] + np.arange(size)
            self._peaks[other.key] = float(bands.finished(*bands.of_frames(audio[index], rate), rate).max())
        return self._peaks[other.key]

    def _around(self, candidate: Candidate) -> Floats:
        """Return the audio, prepared as the model does, with its reflection around it."""
        model = candidate.model
        key = (candidate.source.said, model.scale, model.whole, model.value("preemphasis_coefficient"))
        if key not in self._wide:
            audio = model.prepared(candidate.source.samples)
            self._wide[key] = np.pad(audio, AROUND, mode="reflect" if len(audio) > AROUND else "symmetric")
        return self._wide[key]

    # Where the search begins.

    def starts(self, source: AudioSource, timings: Sequence[Timing]) -> list[Candidate]:
        """Return where the search begins, the best first: the kinds of features that can have so many columns."""
        found: list[Candidate] = []
        for timing in timings:
            models = self._models(source, timing)
            found += [Candidate(model, source, order=order).placed(timing.centre) for model, order in models]
            if min(map(self.cost, found), default=NOTHING) < EXPLAINED:
                break
        found.sort(key=self.cost)
        for number, each in enumerate(found[:MOST_FRAMED]):
            if self.cost(found[0]) > EXPLAINED:
                found[number] = min((each, *map(each.changed, self.framings(each))), key=self.cost)
        kinds: dict[tuple[Any, ...], Candidate] = {}
        for each in sorted(found, key=self.cost):
            kind = (each.model.kind, each.model.value("use_energy"), each.model.window, each.order, each.model.bins)
            kinds.setdefault(kind, each)
        chosen = [*kinds.values()][:MOST_STARTS]
        if chosen and self.cost(chosen[0]) > EXPLAINED:
            chosen = [min((each, *self.centred(each), *self._edged(each)), key=self.cost) for each in chosen]
        return sorted(chosen, key=self.cost)

    def _models(self, source: AudioSource, timing: Timing) -> Iterator[tuple[FeatureModel, tuple[int, ...] | None]]:
        """Yield models of features that have the number of columns, and the order of their columns."""
        dim, rate = len(self.sheet.own_columns), source.rate
        shift = timing.shift // self.sheet.arrangement.stride
        frames: Changes = {"frame_shift": milliseconds(shift, rate)}
        usual, wide = {min(25.0, milliseconds(4 * shift, rate))}, {25.0}
        if abs(frames["frame_shift"] - 10) > 0.1:
            usual |= {50.0}
            wide = {milliseconds(each * shift, rate) for each in (2, 4)} | {50.0}

        def model(kind: str, changes: Changes) -> FeatureModel:
            made = FeatureModel(kind)
            for name, value in (frames | changes).items():
                made = made.changed(name, value)
            return dataclasses.replace(
                made,
                options={name: each for name, each in made.options.items() if each != FeatureModel(kind).value(name)},
            )

        for length in sorted(wide):
            stft = {"frame_length": length} | STFT | {"round_to_power_of_two": False, "padding": "reflect-window"}
            if 3 <= dim <= 256:
                for mel, change in itertools.product(("hertz", "slaney"), ("use_power", "use_log_fbank")):
                    is_usual = (mel, change) == ("hertz", "use_power")
                    yield model("fbank", stft | {"num_mel_bins": dim, "mel": mel, change: is_usual}), None
            for bins, mel in itertools.product((40, 80, 128) if 4 <= dim <= 80 else (), ("hertz", "slaney")):
                if bins >= dim:
                    other = stft | {"num_ceps": dim, "num_mel_bins": bins, "use_energy": False, "mel": mel}
                    yield model("mfcc", other), None
                    yield model("mfcc", other | {"scale": self.levels[0], "floor": 1e-10, "span": DB_80}), None
        for length in sorted(usual):
            size: Changes = {"frame_length": length}
            psf = size | {"window_type": "rectangular", "low_freq": 0.0, "mel": "snapped-more",
                          "whole": ("preemphasis",), "padding": "zeros", "remove_dc_offset": False,
                          "floor": EPSILON_64 * model("fbank", size).fft_points(rate)}  # fmt: skip
            if 3 <= dim <= 256:
                yield model("fbank", size | {"num_mel_bins": dim}), None
                yield model("fbank", psf | {"num_mel_bins": dim}), None
            if 4 <= dim <= 257:
                for last in (False, True):
                    energy = {"use_energy": True, "htk_compat": last, "num_mel_bins": dim - 1}
                    yield model("fbank", size | energy), None
            if 4 <= dim <= 80:
                whole, turned = tuple(range(dim + 1)), (*range(1, dim), 0)
                for bins in sorted({each for each in (23, 26, 40, 80, dim) if each >= dim}):
                    ceps = size | {"num_ceps": dim, "num_mel_bins": bins}
                    for last, energy_first in itertools.product((False, True), (True, False)):
                        yield model("mfcc", ceps | {"htk_compat": last, "use_energy": energy_first}), None
                    yield model("mfcc", ceps | {"use_energy": False}), turned
                    if bins > dim:
                        yield model("mfcc", ceps | {"num_ceps": dim + 1, "use_energy": False}), whole[1:]
                other = {"num_ceps": dim, "num_mel_bins": max(dim, 26), "energy": "spectrum"}
                for energy_first in (True, False):
                    yield model("mfcc", psf | other | {"use_energy": energy_first}), None
            if 4 <= dim <= 24:
                for has_energy, lpc in itertools.product((True, False), sorted({max(dim - 1, 1), max(dim - 1, 12)})):
                    yield model("plp", size | {"num_ceps": dim, "lpc_order": lpc, "use_energy": has_energy}), None
        points = 2 * (dim - 1)
        if dim > 64 and points < 8192:
            for length in sorted({*LENGTHS_MS, milliseconds(points, rate)}):
                size = {"frame_length": length, "round_to_power_of_two": points & (points - 1) == 0}
                if model("spectrogram", size).fft_points(rate) == points:
                    yield model("spectrogram", size), None
                    others = {name: each for name, each in (size | STFT).items() if name != "low_freq"}
                    for bins in ("magnitude", "log", "power"):  # type: ignore[assignment]
                        yield model("spectrogram", others | {"bins": bins, "padding": "reflect-window"}), None

    @staticmethod
    def _edged(candidate: Candidate) -> Iterator[Candidate]:
        """Yield cepstra of filters with usual edges, on which those of many columns depend."""
        if candidate.model.kind in ("mfcc", "plp"):
            for low, high in itertools.product((20.0, 0.0, 40.0, 64.0, 80.0, 133.3333), CHOICES["high_freq"]):
                yield candidate.changed({"low_freq": low, "high_freq": high})

    def centred(self, candidate: Candidate) -> Iterator[Candidate]:
        """Yield fbank with the edges of its filters where the centres of the array's columns show them.

        A column's centre is that of the narrow filter whose energies vary most alike. The centres lie on a line on one
        scale of frequencies.
        """
        model, rate = candidate.model, candidate.source.rate
        if self.by_differences or model.kind != "fbank":
            return
        narrow = candidate.changed({"num_mel_bins": NARROW, "use_energy": False, "low_freq": 0.0, "high_freq": 0.0,
                                    "mel": "hertz"})  # fmt: skip
        try:
            alike = correlations(self._features(narrow), self._values)
        except KaldiCompatError:
            return
        places = np.flatnonzero(self.sheet.own_columns)[self._told]
        if model.value("use_energy"):
            places, alike = (places, alike) if model.value("htk_compat") else (places - 1, alike)
            inside = (places >= 0) & (places < model.value("num_mel_bins"))
            places, alike = places[inside], alike[inside]
        local = alike.max(1) > LOCAL
        places, alike = places[local] + 1, alike[local]
        if len(places) < 3:
            return
        step = math.log1p(0.5 * rate / 700) / (NARROW + 1)
        best = alike.argmax(1)
        inner = np.clip(best, 1, NARROW - 2)  # a parabola through the best and its neighbours
        left, middle, right = (alike[np.arange(len(best)), inner + k] for k in (-1, 0, 1))
        bend = left - 2 * middle + right
        shares = np.where((bend < 0) & (best == inner), 0.5 * (left - right) / np.where(bend < 0, bend, -1), 0)
        centres = 700 * np.expm1(step * (1 + best + np.clip(shares, -0.5, 0.5)))
        for scale, mel in ((Scale("mel"), model.mel), (Scale("slaney"), "slaney")):
            values = scale.of(centres)
            # Theil and Sen's line, since a column may resemble another part of the spectrum more.
            before, after = np.triu_indices(len(places), 1)
            slope = np.median((values[after] - values[before]) / (places[after] - places[before]))
            first = np.median(values - slope * places)
            edges = scale.hertz(np.array([first, first + slope * (model.value("num_mel_bins") + 1)]))
            low, high = np.clip(edges, 0, rate / 2).tolist()
            if low < high:
                if (mel not in SLANEYS and scale.name == "slaney") or (mel in SLANEYS and scale.name == "mel"):
                    mel = "slaney" if scale.name == "slaney" else "hertz"
                exact = candidate.changed({"mel": mel, "low_freq": low, "high_freq": high})
                yield exact
                lows = sorted(CHOICES["low_freq"], key=lambda each: abs(each - low))[:3]
                highs = sorted((each if each > 0 else each + rate / 2 for each in CHOICES["high_freq"]),
                               key=lambda each: abs(each - high))[:3]  # fmt: skip
                for pair in itertools.product(lows, highs):
                    if pair[0] < pair[1] <= rate / 2:
                        yield exact.changed({"low_freq": pair[0], "high_freq": self._named_edge(pair[1], rate)})

    @staticmethod
    def _named_edge(high: float, rate: float) -> float:
        """Return an upper edge as Kaldi names it: the Nyquist frequency is 0, and icefall's edge is -400."""
        below = high - rate / 2
        return below if below in (0.0, -100.0, -200.0, -400.0) else high

    # Improvement.

    def descend(self, candidate: Candidate) -> Candidate:
        """Change options as long as that explains more."""
        while not self.clock.is_over() and self.cost(candidate) > EXPLAINED:
            better = self._improved(candidate)
            enough = self.cost(better) >= 0.99 * self.cost(candidate)
            candidate = min(candidate, better, key=self.cost)
            if enough:
                break
        return self._simplified(candidate)

    def _simplified(self, candidate: Candidate) -> Candidate:
        """Return the candidate without options that make no difference."""
        plain = FeatureModel(candidate.model.kind)
        for name in [*sorted(candidate.options), *sorted(candidate.options)]:  # one may depend on another
            limit = max(1.02 * self.cost(candidate), EXPLAINED)
            other = candidate.changed({name: plain.value(name)})
            if candidate.model.value(name) != plain.value(name) and self.cost(other) <= limit:
                candidate = other
        plainly = candidate.changed({"scale": 1.0, "added": 0.0, "floor": EPSILON, "span": 0.0})
        return plainly if self.cost(plainly) <= max(1.02 * self.cost(candidate), EXPLAINED) else candidate

    def _changes(self, candidate: Candidate) -> Iterator[Changes]:
        """Yield all changes of one option."""
        rate, model = candidate.source.rate, candidate.model
        for name in CHOICES:
            if name in candidate.options and (name != "in_place" or model.value("preemphasis_coefficient")):
                yield from ({name: value} for value in CHOICES[name] if value != model.value(name))
        lengths = dict.fromkeys([*LENGTHS_MS, *(milliseconds(each, rate) for each in LENGTHS)])
        for length in lengths:
            if model.kind != "spectrogram" or length != model.value("frame_length"):
                yield {"frame_length": length}
                if model.padding in ("", "inside", "zeros"):  # the middle of the frames stays
                    moved = (model.size(rate) - candidate.changed({"frame_length": length}).model.size(rate)) / 2
                    yield {"frame_length": length, "start": candidate.start + round(moved / model.shift(rate))}
        yield from ({"offset": candidate.offset + sign * each} for each in OFFSETS for sign in (-1, 1))
        whole = {"preemphasis_coefficient": 0.97, "whole": ("preemphasis",)}
        yield from (whole, whole | {"remove_dc_offset": False}, {"whole": (), "remove_dc_offset": False})
        if "low_freq" in candidate.options:  # usual edges may have been left for what others explain
            changes = [{"mel": mel} for mel in MELS] + [{"warp": warp} for warp in CHOICES["warp"][1:]]
            usual = [{"low_freq": low, "high_freq": 0.0} for low in (20.0, 0.0)]
            for edges, change in itertools.product(usual, changes):
                if any(model.value(name) != edge for name, edge in edges.items()):
                    yield change | edges
        yield from self.framings(candidate)
        if model.kind in ("fbank", "mfcc") or model.bins == "log":
            for scale in self.levels:
                if model.value("use_power") is False:
                    yield from ({"scale": scale, "root": 1e-9, "floor": floor} for floor in (1e-5, 0.0))
                yield from ({"scale": scale, "floor": each} for each in FLOORS)
                yield from ({"scale": scale, "added": each, "floor": 0.0} for each in ADDED)
                if model.kind == "mfcc":
                    yield {"scale": scale, "floor": 1e-10}
                    yield {"scale": scale, "floor": 1e-10, "span": DB_80}
                    yield {"scale": scale, "floor": 1e-10, "span": DB_80, "low_freq": 0.0}
            yield {"scale": 1.0, "added": 0.0, "floor": EPSILON, "span": 0.0}

    def framings(self, candidate: Candidate) -> Iterator[Changes]:
        """Yield other conventions of the first frame, with the frames nearest to those of the candidate."""
        rate, shift = candidate.source.rate, candidate.model.shift(candidate.source.rate)
        yield from ({"start": candidate.start + more} for more in (-1, 1))
        seen = {candidate.model.first(rate) % shift}
        for change in [{"snip_edges": True}, {"snip_edges": False}, *({"padding": each} for each in PADDINGS)]:
            first = candidate.changed(change).model.first(rate)  # type: ignore[arg-type]
            if first % shift not in seen:
                seen.add(first % shift)
                start = math.floor((candidate.model.first(rate) - first) / shift) + candidate.start
                yield from (change | {"start": start + more} for more in (0, 1))  # type: ignore[operator]

    def _improved(self, candidate: Candidate) -> Candidate:
        """Change options, first those that explain most of what is left."""
        before = self.cost(candidate)

        def enough(changes: Changes) -> float:
            """Return the share of the cost that changes may leave: some explain a little of anything."""
            return min(MUCH_BETTER.get(name, BETTER) for name in changes)

        tried = [(self.cost(candidate.changed(each)), number, each)
                 for number, each in enumerate(self._changes(candidate))
                 if not self.clock.is_over()]  # fmt: skip
        if candidate.model.kind == "fbank" and before > 10 * EXPLAINED:
            tried += [(self.cost(each), -1, {"low_freq": each.model.value("low_freq"), "mel": each.model.mel,
                                             "high_freq": each.model.value("high_freq")})
                      for each in self.centred(candidate)]  # fmt: skip
        tried.sort(key=lambda each: each[:2])
        if "low_freq" in candidate.options and before < UNLIKE:
            moved = self.refined(candidate, EDGES)
            if self.cost(moved) < 0.5 * tried[0][0]:
                return moved
        for cost, _, changes in tried:
            if cost >= enough(changes) * before:
                continue
            changed = candidate.changed(changes)
            if self.cost(changed) < enough(changes) * self.cost(candidate):
                candidate = changed
        return candidate

    def refined(self, candidate: Candidate, names: Sequence[str] = tuple(STEPS)) -> Candidate:
        """Change options that are numbers at once, in steps that least squares give: each alone only comes near."""
        names = [name for name in names if name in candidate.options]
        best, before, nyquist = (
            min((candidate, *self.centred(candidate)), key=self.cost),
            NOTHING,
            candidate.source.rate / 2,
        )
        chosen, wanted = np.flatnonzero(self.sheet.own_columns)[self._told], self._values - self._values.mean(0)
        while names and EXPLAINED < self.cost(best) < before and not self.clock.is_over():
            before, values = self.cost(best), {name: self._number(best, name) for name in names}
            try:
                plain = self._features(best)[:, chosen]
                stepped = [best.changed({name: values[name] + STEPS[name]}) for name in names]
                moved = [self._features(each)[:, chosen] - plain for each in stepped]
            except KaldiCompatError:
                break
            design = np.stack([(each - each.mean(0)).ravel() for each in (plain, *moved)], axis=1)
            scale, *shares = np.linalg.lstsq(design, wanted.ravel(), rcond=None)[0]
            nearer = [best]
            for part in (1, 0.5, 0.25):
                shift = {
                    name: part * STEPS[name] * share / (scale or 1) for name, share in zip(names, shares, strict=True)
                }
                nearer.append(
                    best.changed({name: float(np.clip(values[name] + shift[name], 0, nyquist)) for name in names})
                )
            best = min(nearer, key=self.cost)
        best = self._rounded(best, names)
        if "high_freq" in names:
            best = best.changed({"high_freq": self._named_edge(self._number(best, "high_freq"), best.source.rate)})
        return best if self.cost(best) < self.cost(candidate) else candidate

    def _rounded(self, candidate: Candidate, names: Sequence[str]) -> Candidate:
        """Return a candidate whose numbers have as few digits as explain about as much."""
        limit = max(1.05 * self.cost(candidate), EXPLAINED)
        for name in names:
            value = candidate.model.value(name)
            changed = (candidate.changed({name: round(value, digits)}) for digits in range(-2, 5))
            candidate = next((each for each in changed if self.cost(each) <= limit), candidate)
        return candidate

    def _number(self, candidate: Candidate, name: str) -> float:
        """Return the value of an option that is a number; that of high_freq in Hz."""
        value = float(candidate.model.value(name))
        return value + candidate.source.rate / 2 if name == "high_freq" and value <= 0 else value
