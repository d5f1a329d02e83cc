"""Search for the features closest to an array: estimates from the array first, then one option at a time."""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from kaldi_compat.errors import KaldiCompatError
from kaldi_compat.exact.arrays import Doubles, Floats
from kaldi_explain.arrangements import Arrangement, Mask
from kaldi_explain.fits import CLIPPED_CELLS, correlations, similarity
from kaldi_explain.models import (
    DCTS,
    EPSILON,
    MELS,
    PADDINGS,
    SLANEYS,
    FeatureModel,
    hertz_of,
    mel_of,
    milliseconds,
)  # fmt: skip
from kaldi_explain.sources import AudioSource
from kaldi_explain.timing import Pattern, Timing

Changes = dict[str, Any]
Item = TypeVar("Item")

MOST_ROWS, BLOCK, LOUDEST = 96, 8, 4  # rows that are compared, in blocks of neighbours, and some of the loudest
AROUND = 4096  # samples around the audio, for frames that reach beyond it
# Parts of the time of an answer that are reserved for settling what was found, and for the last computation: seconds
# per second of audio, and the least and the largest number of seconds.
SETTLING_SECONDS = 0.1, 0.2, 1.3
ANSWERING_SECONDS = 0.05, 0.1, 0.5
CALLS_PER_READING = 8  # of the clock
MOST_SPECTRA = 300  # that are kept
# Costs of candidates, as shares of the array's variance (its root): as good as nothing; all but rounding.
UNLIKE, NEAR, EXPLAINED = 0.7, 1e-2, 5e-5
NOTHING = 2.0  # of a candidate that cannot be compared
BETTER = 0.97  # share of the cost that a change may leave; less for those that explain a little of anything
MUCH_BETTER = {"warp": 0.9, "corner": 0.9, "in_place": 0.8, "frame_length": 0.95, "offset": 0.7, "added": 0.7,
               "floor": 0.7}  # fmt: skip
OFFSETS = (1, 2, 4, 8, 16, 32, 64)  # samples by which frames are tried to be later or earlier
LOW_CEPSTRA = 13  # which depend less on the edges of the filters than those above
EDGES = ("low_freq", "high_freq")
# In Hz, and of a factor: how features change with numbers.
STEPS = {"low_freq": 0.5, "high_freq": -5.0, "preemphasis_coefficient": -1e-3, "warp": 1e-3}
NARROW = 60  # filters by which the centers of columns are found
LOCAL = 0.6  # correlation of a column with one narrow filter, if it is a filter itself
FEWEST_AT_FLOOR = 2, 3  # cells of a column, and of all, at their least value, if there is a floor
MOST_AT_FLOOR = 0.8  # of a column that is compared
MOST_STARTS, MOST_FRAMED = 5, 3
NOISY = 0.8  # share of the cost that noise leaves where the search begins, if the features have been dithered
IMITATED = 0.05  # cost below which several options may be in place of others
FRAMING = ("frame_length", "snip_edges", "padding", "offset", "start")
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
    "window_type": ("povey", "hamming", "hanning", "rectangular", "blackman", "sine"),
    "window": ("kaldi", "periodic"),
    "preemphasis_coefficient": (0.97, 0.0, 0.95, 0.98, 0.9, 0.96, 0.99, 0.94, 0.92, 0.85),
    "remove_dc_offset": (True, False),
    "whole": ((), ("preemphasis",), ("offset",), ("offset", "preemphasis")),
    "raw_energy": (True, False),
    "energy": ("kaldi", "spectrum"),
    "magnitudes": (False, True),
    "dct": ("kaldi", *DCTS),
    "warp": (1.0, *(round(0.8 + 0.01 * n, 2) for n in range(46) if n != 20)),
    "corner": (700.0, 1000.0, 625.0),
    "in_place": (False, True),
    "root": (0.0, 1e-9, 1e-6),
}  # fmt: skip
EQUAL_SHAPES = {"htk-area": "hertz", "slaney-height": "slaney"}  # that differ in the height of each filter only
SHAPES = [each for each in MELS if each not in EQUAL_SHAPES]
MEL = {"mel", "low_freq", "high_freq", "warp", "corner"}
FRAMES = {"round_to_power_of_two", "points", "window_type", "window", "preemphasis_coefficient", "remove_dc_offset",
          "whole", "in_place"}  # fmt: skip
OPTIONS = {  # that may be changed, of each kind
    "fbank": {"use_power", "use_log_fbank", "raw_energy", "root"} | MEL | FRAMES,
    "mfcc": {"num_mel_bins", "magnitudes", "cepstral_lifter", "raw_energy", "energy"} | MEL | FRAMES,
    "plp": {"num_mel_bins", "cepstral_lifter", "raw_energy", "low_freq", "high_freq", "warp"}
    | FRAMES - {"points", "in_place", "window"},
    "spectrogram": {"bins", "raw_energy", "root"} | FRAMES,
}
# Options of a spectrum, on which it is cached.
OF_SPECTRUM = ("window_type", "preemphasis_coefficient", "remove_dc_offset", "raw_energy", "window", "whole",
               "in_place", "energy")  # fmt: skip
TINY, EPSILON_64 = float(np.finfo(np.float32).tiny), float(np.finfo(np.float64).eps)
FLOORS = (EPSILON, 1e-10, 1e-5, 1e-6, 1e-7, 1e-8, 1e-3, 1e-9, 1e-2, 1e-12, 1.0, TINY, EPSILON_64)
ADDED = (1e-6, 1e-10, 1e-8, 1e-5, 1e-9, 2.0**-24, 1e-3, 1.0, 1e-7, EPSILON)
DB_80: Changes = {"floor": 1e-10, "span": 80.0}  # of librosa's and Whisper's logarithms
# Defaults of STFTs, and of python_speech_features.
STFT: Changes = {"window_type": "hanning", "window": "periodic", "preemphasis_coefficient": 0.0,
                 "remove_dc_offset": False, "padding": "reflect-window"}  # fmt: skip
LIBRARY_MEL: Changes = STFT | {"low_freq": 0.0, "round_to_power_of_two": False}
SPEECH_FEATURES: Changes = {"window_type": "rectangular", "low_freq": 0.0, "mel": "snapped-more",
                            "whole": ("preemphasis",), "padding": "zeros", "remove_dc_offset": False}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Sheet:
    """Array with frames in rows, and its arrangement and masks."""

    said: list[str]  # what was done to it, in words
    values: Doubles  # the array (frames, columns)
    arrangement: Arrangement  # how features stand in it
    rows: Mask  # mask (frames,) of those that depend on the audio
    columns: Mask  # mask (columns,) of those that depend on the audio
    step: float = 0.0  # largest error by which the stored numbers are rounded

    def reverse(self) -> Sheet:
        """Return the array with its columns in reverse order."""
        said = [*self.said, "the columns in reverse order"]
        return replace(self, said=said, values=self.values[:, ::-1], columns=self.columns[::-1])

    @property
    def own(self) -> Doubles:
        """Columns that are features themselves."""
        return self.values[:, self.arrangement.columns]

    @property
    def own_columns(self) -> Mask:
        """Mask of these columns: True where they depend on the audio."""
        return self.columns[self.arrangement.columns]


def floored_cells(values: Doubles) -> Mask:
    """Return the cells at a floor: at the least value of a column, or of all, that there is again and again."""
    least, lowest = values == values.min(axis=0), values == values.min()
    floored: Mask = least & (least.sum(axis=0) >= FEWEST_AT_FLOOR[0])
    return floored | lowest if lowest.sum() >= FEWEST_AT_FLOOR[1] else floored


@dataclass(frozen=True)
class Candidate(FeatureModel):
    """Features that may be those of an array."""

    source: AudioSource = field(kw_only=True)  # the audio
    start: int = 0  # frame of the features that is the array's first row
    offset: int = 0  # samples by which all frames are later
    order: tuple[int, ...] | None = None  # columns of the features that are those of the array; None for all

    def change(self, changes: Mapping[str, Any]) -> Candidate:
        """Return this candidate with other options or attributes."""
        rate = {"rate": changes["source"].rate} if "source" in changes else {}
        return super().change({**changes, **rate})

    def without_noise(self) -> Candidate:
        """Return this candidate for the audio without the noise that was added for the search."""
        return self if self.source.plain is None else self.change({"source": self.source.plain})

    def without_levels(self) -> Candidate:
        """Return this candidate without a scale, floor, and number added."""
        return self.change({"scale": 1.0, "floor": 0.0, "added": 0.0, "span": 0.0})

    @functools.cached_property
    def key(self) -> tuple[Any, ...]:
        """Options and attributes that identify the candidate."""
        own = (getattr(self, name) for name in self.__dataclass_fields__ if name != "options")
        return (*sorted(self.options.items()), *own)

    @property
    def first_sample(self) -> int:
        """First sample of the first row's frame."""
        return self.first + self.offset + self.start * self.shift

    def place(self, center: float) -> Candidate:
        """Return this candidate with the frame that is in the middle of samples as the first."""
        return self.change({"start": round((center - self.first - self.offset - self.size / 2) / self.shift)})

    def reorder(self, features: Doubles) -> Doubles:
        """Return the columns of features in the candidate's order."""
        return features if self.order is None else features[:, list(self.order)]

    def of_noise(self) -> Doubles:
        """Return the features (1, columns) of white noise as large as the last bit of samples of 16 bits."""
        power = np.full((1, self.fft_points // 2 + 1), self.size * (self.source.full_scale / 32768) ** 2)
        return self.reorder(self.finish(power, power[:, 0]))

    def framings(self) -> list[Candidate]:
        """Return the candidate with each convention of edges, and the frames that are not later than its own."""
        conventions: list[Changes] = [{"snip_edges": True}, {"snip_edges": False}]
        found = []
        for change in [*conventions, *({"padding": each} for each in PADDINGS)]:
            other = self.change(change | {"offset": 0})
            later = (self.first_sample - other.first_sample) // self.shift
            found.append(other.change({"start": other.start + later}))
        return found

    def same_framings(self) -> list[Candidate]:
        """Return the framings that give the same frames, except at the edges."""
        return [each for each in self.framings() if each.first_sample == self.first_sample]


class TimeLimit:
    """Processor time of this thread that an answer may take: the threads of a BLAS library wait busily.

    The search ends first, then what it found is settled, and what remains is for the computation that is under way.
    """

    def __init__(self, seconds: float, seconds_of_audio: float) -> None:
        self._calls, self._now = 0, time.thread_time()
        settling, answering = (
            float(np.clip(share * seconds_of_audio, least, largest))
            for share, least, largest in (SETTLING_SECONDS, ANSWERING_SECONDS)
        )
        self._end_of_settling = self._now + seconds - answering
        self._end = self._end_of_stage = self._end_of_settling - settling

    def begin_stage(self, seconds: float) -> None:
        """Begin a stage that may take some of the time."""
        self._end_of_stage = min(self._end, time.thread_time() + seconds)

    def is_over(self) -> bool:
        """Return True if the time of the stage is over."""
        return self._read() > self._end_of_stage

    def is_at_end(self) -> bool:
        """Return True if all time of the search is over."""
        return self._read() > self._end

    def is_settled(self) -> bool:
        """Return True if the time to settle what was found is over, too."""
        return time.thread_time() > self._end_of_settling

    def limit(self, computations: Iterable[Item]) -> Iterator[Item]:
        """Yield the first computation, and the others as long as there is time to settle."""
        for number, each in enumerate(computations):
            if number and self.is_settled():
                return
            yield each

    def _read(self) -> float:
        """Return the time, read now and then: it takes a millisecond on some machines."""
        self._calls += 1
        if self._calls % CALLS_PER_READING == 0:
            self._now = time.thread_time()
        return self._now


class Search:
    """Search for the options whose features are closest to an array, one option after the other.

    ``unit`` brings the samples to -1 to 1. With ``by_differences``, changes from row to row are compared: what a window
    subtracts hardly changes.
    """

    def __init__(self, sheet: Sheet, clock: TimeLimit, unit: float, *, by_differences: bool = False) -> None:
        self.sheet, self.clock, self.by_differences = sheet, clock, by_differences
        self.levels = (unit, unit * 32768)
        self._rows = self._choose_rows()
        own, floored = sheet.own[self._rows], floored_cells(sheet.own)[self._rows]
        clipped = own == own.max(initial=-np.inf)
        clipped &= clipped.sum() >= CLIPPED_CELLS
        is_compared = sheet.own_columns & ((floored | clipped).mean(axis=0) <= MOST_AT_FLOOR)
        self._columns = np.flatnonzero(is_compared if is_compared.any() else sheet.own_columns)
        self._values, self._floored, self._clipped = (each[:, self._columns] for each in (own, floored, clipped))
        self._costs: dict[tuple[Any, ...], float] = {}
        self._spectra: dict[tuple[Any, ...], tuple[Doubles, Doubles]] = {}
        self._wide: dict[tuple[Any, ...], Floats] = {}

    def _choose_rows(self) -> Any:
        rows = np.flatnonzero(self.sheet.rows)
        edge = min(4, len(rows) // BLOCK)  # frames at the edges depend on padding
        rows = rows[edge : len(rows) - edge]
        if len(rows) <= MOST_ROWS:
            return rows
        first = np.linspace(0, len(rows) - BLOCK, MOST_ROWS // BLOCK).astype(int)
        loudest = [np.argsort(each[rows])[-LOUDEST:] for each in (self.sheet.own.max(1), self.sheet.own[:, 0])]
        return rows[np.unique(np.concatenate([(first[:, None] + np.arange(BLOCK)).ravel(), *loudest]))]

    @functools.cached_property
    def pattern(self) -> Pattern | None:
        """Components that show when the frames were; None if no column depends on the audio."""
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
        if features.shape[1] != len(self.sheet.own_columns) or len(values) < 2:
            return NOTHING
        features = features[:, self._columns]
        inside = ~(self._floored | self._clipped)
        if self._floored.any() and not candidate.span:
            features = _with_floor(features, values, self._floored, inside)
        if self._clipped.any():
            features = -_with_floor(-features, -values, self._clipped, inside)
        if candidate.source.is_resampled and candidate.kind in ("fbank", "spectrogram"):
            features, values = self._without_quiet(candidate, features)
        if self.by_differences:
            next_to = np.diff(self._rows) == 1
            features, values = np.diff(features, axis=0)[next_to], np.diff(values, axis=0)[next_to]
        if candidate.kind in ("mfcc", "plp") and features.shape[1] > LOW_CEPSTRA:
            low = similarity(features[:, :LOW_CEPSTRA], values[:, :LOW_CEPSTRA])
            return 0.5 * (low + similarity(features, values))
        return similarity(features, values)

    def _without_quiet(self, candidate: Candidate, features: Doubles) -> tuple[Doubles, Doubles]:
        """Return features and the array without what is quieter than noise of one bit, where resamplers differ.

        If most columns are loud, the others are left out. In those that remain, means take the place of quiet cells.
        """
        plain, values = candidate.without_levels(), self._values
        loud = (self._features(plain) > plain.of_noise())[:, self._columns]
        chosen = loud.mean(0) >= 0.5
        if chosen.mean() < 0.5:
            return features, values
        loud = loud[:, chosen]
        arrays = (each[:, chosen] for each in (features, values))
        first, second = (np.where(loud, each, (loud * each).sum(0) / loud.sum(0)) for each in arrays)
        return first, second

    def _features(self, candidate: Candidate) -> Doubles:
        """Return the features of the rows that are compared."""
        at = candidate.first_sample + self._rows * (candidate.shift * self.sheet.arrangement.stride)
        options = (candidate.value(each) for each in OF_SPECTRUM)
        key = (candidate.source, at[0], candidate.shift, candidate.size, candidate.fft_points, *options)
        if candidate.kind != "plp" and key in self._spectra:
            return candidate.reorder(candidate.finish(*self._spectra[key]))
        audio = self._audio_around(candidate)
        frames = audio[np.clip(at + AROUND, 0, len(audio) - candidate.size)[:, None] + np.arange(candidate.size)]
        if candidate.kind == "plp":
            return candidate.reorder(candidate.plp_of_frames(frames).astype(np.float64))
        if len(self._spectra) > MOST_SPECTRA:
            self._spectra.clear()
        self._spectra[key] = candidate.spectra(frames)
        return candidate.reorder(candidate.finish(*self._spectra[key]))

    def _audio_around(self, candidate: Candidate) -> Floats:
        """Return the audio, prepared as the model does, with its reflection around it."""
        key = (candidate.source, candidate.whole, candidate.value("preemphasis_coefficient"))
        if key not in self._wide:
            audio = candidate.prepare(candidate.source.samples)
            self._wide[key] = np.pad(audio, AROUND, mode="reflect" if len(audio) > AROUND else "symmetric")
        return self._wide[key]

    # Where the search begins.

    def starts(self, source: AudioSource, timings: Sequence[Timing]) -> list[Candidate]:
        """Return where the search begins, the best first: the kinds of features that can have so many columns."""
        found: list[Candidate] = []
        for timing in timings:
            shift = timing.shift // self.sheet.arrangement.stride
            for kind, changes in self._begin_with(source.rate, shift):
                plain = Candidate(kind, source.rate, {"frame_shift": milliseconds(shift, source.rate)}, source=source)
                found.append(plain.change(changes).place(timing.center))
            if min(map(self.cost, found), default=NOTHING) < EXPLAINED:
                break
        found.sort(key=self.cost)
        kinds: dict[tuple[Any, ...], Candidate] = {}
        for each in found:
            kinds.setdefault((each.kind, each.value("use_energy"), each.window, each.mel, each.order, each.bins), each)
        return [*kinds.values()][:MOST_STARTS]

    def improve_starts(self, starts: Sequence[Candidate]) -> list[Candidate]:
        """Return where the search begins, the best first, with noise, frames and edges that explain most."""
        noisy = [each.change({"source": each.source.noisy}) for each in starts]
        if min(map(self.cost, noisy)) < NOISY * min(map(self.cost, starts)):  # or else floors imitate dithering
            starts = noisy
        starts = [min((each, *map(each.change, self.framings(each))), key=self.cost) for each in starts]
        starts = [min((each, *self.center(each), *self._edged(each)), key=self.cost) for each in starts]
        best = min(starts, key=self.cost)
        best = self._framed(best) if self.cost(best) > NEAR else best
        frames = {name: best.value(name) for name in FRAMING}
        ways = (frames, frames | {"window_type": best.value("window_type")})
        starts = [best, *(min((each, *map(each.change, ways)), key=self.cost) for each in starts)]
        return sorted({each.key: each for each in starts}.values(), key=self.cost)

    def _framed(self, candidate: Candidate) -> Candidate:
        """Return a candidate with the frame length, edges and window that explain most: one imitates another."""
        candidate = min((candidate, *map(candidate.change, self.framings(candidate))), key=self.cost)
        center, centered = candidate.first_sample + candidate.size / 2, list[Candidate]()
        lengths = dict.fromkeys([candidate.value("frame_length"), *LENGTHS_MS])
        for length, window in itertools.product(lengths, CHOICES["window_type"]):
            other = candidate.change({"frame_length": length, "window_type": window, "offset": 0}).place(center)
            centered.append(other.change({"offset": round(center - other.first_sample - other.size / 2)}))
        centered.sort(key=self.cost)
        framed = (each.change({"window": window, **change}) for window in CHOICES["window"]
                  for each in centered[:MOST_FRAMED] for change in self.framings(each))  # fmt: skip
        best = min((candidate, *framed), key=self.cost)
        return centered[0] if self.cost(centered[0]) < MUCH_BETTER["offset"] * self.cost(best) else best

    def _begin_with(self, rate: float, samples: int) -> Iterator[tuple[str, Changes]]:
        """Yield kinds of features, and options, that have the number of columns, for frames so many samples apart."""
        shift, double, fourfold = (milliseconds(n * samples, rate) for n in (1, 2, 4))
        dim, of_speech = len(self.sheet.own_columns), abs(shift - 10) < 0.1
        around = (double, fourfold, 50.0)  # of speech synthesis
        for length in sorted({25.0} if of_speech else {*around}):
            library = {"frame_length": length} | LIBRARY_MEL
            for mel, change in itertools.product(("hertz", "slaney"), ("use_power", "use_log_fbank")):
                if 3 <= dim <= 256:
                    is_usual = (mel, change) == ("hertz", "use_power")
                    yield "fbank", library | {"num_mel_bins": dim, "mel": mel, change: is_usual}
            for bins, mel in itertools.product((40, 80, 128), ("hertz", "slaney")):
                if 4 <= dim <= min(bins, 80):
                    cepstra = library | {"num_ceps": dim, "num_mel_bins": bins, "use_energy": False, "mel": mel}
                    yield "mfcc", cepstra
                    yield "mfcc", cepstra | {"scale": self.levels[0]} | DB_80
        for length in sorted({min(25.0, fourfold)} if of_speech else {min(25.0, fourfold), 50.0}):
            size: Changes = {"frame_length": length}
            points = FeatureModel("fbank", rate, size).fft_points
            other = size | SPEECH_FEATURES | {"floor": EPSILON_64 * points}
            if 3 <= dim <= 256:
                yield "fbank", size | {"num_mel_bins": dim}
                yield "fbank", size | {"num_mel_bins": dim, "use_log_fbank": False}
                yield "fbank", other | {"num_mel_bins": dim}
            for at_end in (False, True):
                if 4 <= dim <= 257:
                    yield "fbank", size | {"use_energy": True, "htk_compat": at_end, "num_mel_bins": dim - 1}
            if 4 <= dim <= 80:
                for bins in sorted({each for each in (23, 26, 40, 80, dim) if each >= dim}):
                    cepstra = size | {"num_ceps": dim, "num_mel_bins": bins}
                    plain = cepstra | {"use_energy": False}
                    yield from (("mfcc", each | {"htk_compat": at_end})
                                for each in (cepstra, plain) for at_end in (False, True))  # fmt: skip
                    yield "mfcc", plain | {"order": (*range(1, dim), 0)}
                    if bins > dim:
                        yield "mfcc", plain | {"num_ceps": dim + 1, "order": tuple(range(1, dim + 1))}
                other = other | {"num_ceps": dim, "num_mel_bins": max(dim, 26), "energy": "spectrum"}
                yield from (("mfcc", other | {"use_energy": has_energy}) for has_energy in (True, False))
            for has_energy, order in itertools.product((True, False), sorted({max(dim - 1, 1), max(dim - 1, 12)})):
                if 4 <= dim <= 24:
                    yield "plp", size | {"num_ceps": dim, "lpc_order": order, "use_energy": has_energy}
        points = 2 * (dim - 1)
        for length in sorted({*LENGTHS_MS, milliseconds(points, rate)}) if 64 < dim < 4096 else ():
            size = {"frame_length": length, "round_to_power_of_two": points & (points - 1) == 0}
            if FeatureModel("spectrogram", rate, size).fft_points == points:
                yield "spectrogram", size
                yield from (("spectrogram", size | STFT | {"bins": bins}) for bins in ("magnitude", "log", "power"))

    @staticmethod
    def _edged(candidate: Candidate) -> Iterator[Candidate]:
        """Yield cepstra of filters with usual edges, on which those of many columns depend."""
        if candidate.kind in ("mfcc", "plp"):
            for low, high in itertools.product((20.0, 0.0, 40.0, 64.0, 80.0, 133.3333), CHOICES["high_freq"]):
                yield candidate.change({"low_freq": low, "high_freq": high})

    def center(self, candidate: Candidate) -> Iterator[Candidate]:
        """Yield fbank with the edges of its filters where the centers of the array's columns show them.

        A column's center is that of the narrow filter whose energies vary most alike. The centers lie on a line on one
        scale of frequencies.
        """
        if self.by_differences or candidate.kind != "fbank":
            return
        narrow = {"num_mel_bins": NARROW, "use_energy": False, "low_freq": 0.0, "high_freq": 0.0, "mel": "hertz"}
        try:
            alike = correlations(self._features(candidate.change(narrow)), self._values)
        except KaldiCompatError:
            return
        places = self._columns - int(bool(candidate.value("use_energy")) and not candidate.value("htk_compat"))
        local = (alike.max(1) > LOCAL) & (places >= 0) & (places < candidate.value("num_mel_bins"))
        places, alike = places[local] + 1, alike[local]
        if len(places) < 3:
            return
        rate, best = candidate.rate, np.clip(alike.argmax(1), 1, NARROW - 2)
        left, middle, right = (alike[np.arange(len(best)), best + k] for k in (-1, 0, 1))
        bend = np.minimum(left - 2 * middle + right, -1e-9)  # of a parabola through the best and its neighbours
        step = float(mel_of(np.array(0.5 * rate))) / (NARROW + 1)
        centers = hertz_of(step * (1 + best + np.clip(0.5 * (left - right) / bend, -0.5, 0.5)))
        highs = [each if each > 0 else each + rate / 2 for each in CHOICES["high_freq"]]
        for is_slaney in (False, True):
            values = mel_of(centers, is_slaney)
            # Theil and Sen's line, since a column may resemble another part of the spectrum more.
            before, after = np.triu_indices(len(places), 1)
            slope = np.median((values[after] - values[before]) / (places[after] - places[before]))
            first = np.median(values - slope * places)
            edges = hertz_of(np.array([first, first + slope * (candidate.value("num_mel_bins") + 1)]), is_slaney)
            low, high = np.clip(edges, 0, rate / 2).tolist()
            own = candidate.mel if (candidate.mel in SLANEYS) == is_slaney else ("hertz", "slaney")[is_slaney]
            yield candidate.change({"mel": own, "low_freq": low, "high_freq": _named_edge(high, rate)})
            for mel in (each for each in SHAPES if (each in SLANEYS) == is_slaney):
                moved = 0.5 * rate / candidate.fft_points if mel.startswith("snapped") else 0.0
                usual = [sorted(choices, key=lambda each: abs(each - edge - moved))[: 3 if mel == own else 2]
                         for edge, choices in ((low, CHOICES["low_freq"]), (high, highs))]  # fmt: skip
                for pair in itertools.product(*usual):
                    if pair[0] < pair[1] <= rate / 2:
                        yield candidate.change(
                            {"mel": mel, "low_freq": pair[0], "high_freq": _named_edge(pair[1], rate)}
                        )

    # Improvement.

    def descend(self, candidate: Candidate) -> Candidate:
        """Change options until no change explains more."""
        while not self.clock.is_over() and self.cost(candidate) > EXPLAINED:
            candidate, before = self._simplify(candidate), 0.99 * self.cost(candidate)
            ways = ((self._improve, NOTHING), (self._framed, IMITATED), (self._jointly, IMITATED))
            for improve, most in ways:
                if before < self.cost(candidate) < most:
                    candidate = min(candidate, improve(candidate), key=self.cost)
            if self.cost(candidate) > before:
                break
        return self._simplify(candidate)

    def _jointly(self, candidate: Candidate) -> Candidate:
        """Return the best candidate with several options changed at once: each may have been in place of another."""
        found = [candidate]
        joint: list[dict[str, Any]] = [{name: candidate.value(name) for name in ("mel", *EDGES)}]
        if "mel" in OPTIONS[candidate.kind]:
            found += [self.refine(candidate.change({"mel": mel}), EDGES) for mel in SHAPES]
            low, high = (_number(candidate, name) for name in EDGES)
            lows = {20.0, 0.0, low, *sorted(CHOICES["low_freq"], key=lambda each: abs(each - low))[:2]}
            highs = {0.0, _named_edge(high, candidate.rate)}
            pairs = itertools.product(sorted({"kaldi", candidate.mel}), lows, highs)
            joint = [{"mel": mel, "low_freq": each, "high_freq": other} for mel, each, other in pairs]
        spectra = itertools.product(CHOICES["preemphasis_coefficient"][:5], (True, False), ((), ("preemphasis",)))
        for factor, has_offset, whole in spectra:
            prepared = {"preemphasis_coefficient": factor, "remove_dc_offset": has_offset, "whole": whole}
            found += [candidate.change(prepared | each) for each in joint]
        return min(found, key=self.cost)

    def _simplify(self, candidate: Candidate) -> Candidate:
        """Return the candidate without options that make no difference."""
        plain: list[Changes] = [{name: candidate.default(name)} for name in sorted(OPTIONS[candidate.kind])]
        levels = {name: candidate.default(name) for name in ("scale", "added", "floor", "span")}
        same_shape: list[Changes] = [{"mel": EQUAL_SHAPES[candidate.mel]}] if candidate.mel in EQUAL_SHAPES else []
        for changes in [*same_shape, *plain, *plain, levels]:  # one may depend on another
            other = candidate.change(changes)
            if other.key != candidate.key and self.cost(other) <= max(1.02 * self.cost(candidate), EXPLAINED):
                candidate = other
        return candidate

    def _changes(self, candidate: Candidate) -> Iterator[Changes]:
        """Yield all changes of one option."""
        rate, is_magnitude = candidate.rate, candidate.value("use_power") is False
        for name in CHOICES:
            if name in OPTIONS[candidate.kind] and (name != "in_place" or candidate.value("preemphasis_coefficient")):
                yield from ({name: value} for value in CHOICES[name] if value != candidate.value(name))
        for length in dict.fromkeys([*LENGTHS_MS, *(milliseconds(each, rate) for each in LENGTHS)]):
            yield {"frame_length": length}
            if candidate.padding in ("", "inside", "zeros"):  # the middle of the frames stays
                moved = (candidate.size - candidate.change({"frame_length": length}).size) / 2
                yield {"frame_length": length, "start": candidate.start + round(moved / candidate.shift)}
        yield from ({"offset": candidate.offset + sign * each} for each in OFFSETS for sign in (-1, 1))
        whole = {"preemphasis_coefficient": 0.97, "whole": ("preemphasis",)}
        yield from (whole, whole | {"remove_dc_offset": False}, {"whole": (), "remove_dc_offset": False})
        if "low_freq" in OPTIONS[candidate.kind]:  # usual edges may have been left for what others explain
            others: list[Changes] = [{"mel": mel} for mel in MELS] + [{"warp": warp} for warp in CHOICES["warp"][1:]]
            for low, change in itertools.product((20.0, 0.0), others):
                yield change | {"low_freq": low, "high_freq": 0.0}
        yield from self.framings(candidate)
        if candidate.kind in ("fbank", "mfcc") or candidate.bins == "log":
            for scale in self.levels:
                yield from ({"scale": scale, "root": 1e-9, "floor": floor} for floor in (1e-5, 0.0) if is_magnitude)
                yield from ({"scale": scale, "floor": each} for each in FLOORS)
                yield from ({"scale": scale, "added": each, "floor": 0.0} for each in ADDED)
                if candidate.kind == "mfcc":
                    yield from ({"scale": scale} | DB_80 | each for each in ({}, {"low_freq": 0.0}))
            yield {"scale": 1.0, "added": 0.0, "floor": EPSILON, "span": 0.0}

    def framings(self, candidate: Candidate) -> Iterator[Changes]:
        """Yield other conventions of the first frame, with the frames nearest to those of the candidate."""
        yield from ({"start": candidate.start + more} for more in (-1, 1))
        seen = {candidate.first_sample % candidate.shift}
        for each in candidate.framings():
            if each.first_sample % each.shift not in seen:
                seen.add(each.first_sample % each.shift)
                edges = {"padding": each.padding} if each.padding else {"snip_edges": each.value("snip_edges")}
                yield from (edges | {"offset": 0, "start": each.start + more} for more in (0, 1))

    def _improve(self, candidate: Candidate) -> Candidate:
        """Change options, first those that explain most of what is left."""
        before = self.cost(candidate)

        def enough(changes: Changes) -> float:
            """Return the share of the cost that changes may leave."""
            return min(MUCH_BETTER.get(name, BETTER) for name in changes)

        changes = itertools.takewhile(lambda _: not self.clock.is_over(), self._changes(candidate))
        tried = [(self.cost(candidate.change(each)), number, each) for number, each in enumerate(changes)]
        if candidate.kind == "fbank" and before > 10 * EXPLAINED:
            tried += [(self.cost(each), -1, {name: each.value(name) for name in ("mel", *EDGES)})
                      for each in self.center(candidate)]  # fmt: skip
        tried.sort(key=lambda each: each[:2])
        if "low_freq" in OPTIONS[candidate.kind] and before < UNLIKE and tried:
            moved = self.refine(candidate, EDGES)
            if self.cost(moved) < 0.5 * tried[0][0]:
                return moved
        for cost, _, change in tried:
            if cost < enough(change) * before:
                other = candidate.change(change)
                candidate = other if self.cost(other) < enough(change) * self.cost(candidate) else candidate
        return candidate

    def refine(self, candidate: Candidate, names: Sequence[str] = tuple(STEPS)) -> Candidate:
        """Change options that are numbers at once, in steps that least squares give: each alone only comes near."""
        names = [name for name in names if name in OPTIONS[candidate.kind]]
        best, before = min((candidate, *self.center(candidate)), key=self.cost), NOTHING
        wanted = self._values - self._values.mean(0)
        while names and EXPLAINED < self.cost(best) < before and not self.clock.is_over():
            before, values = self.cost(best), {name: _number(best, name) for name in names}
            try:
                plain = self._features(best)[:, self._columns]
                moved = [self._features(best.change({name: values[name] + STEPS[name]}))[:, self._columns] - plain
                         for name in names]  # fmt: skip
            except KaldiCompatError:
                break
            design = np.stack([(each - each.mean(0)).ravel() for each in (plain, *moved)], axis=1)
            scale, *shares = np.linalg.lstsq(design, wanted.ravel(), rcond=None)[0]
            steps = {name: STEPS[name] * share / (scale or 1) for name, share in zip(names, shares, strict=True)}
            parts = [{name: float(np.clip(values[name] + part * steps[name], 0, best.rate / 2)) for name in names}
                     for part in (1, 0.5, 0.25)]  # fmt: skip
            best = min((best, *map(best.change, parts)), key=self.cost)
        limit = max(1.05 * self.cost(best), EXPLAINED)
        for name in names:  # as few digits as explain about as much
            rounded = (best.change({name: round(best.value(name), digits)}) for digits in range(-2, 5))
            best = next((each for each in rounded if self.cost(each) <= limit), best)
        if "high_freq" in names:
            best = best.change({"high_freq": _named_edge(_number(best, "high_freq"), best.rate)})
        return best if self.cost(best) < self.cost(candidate) else candidate


def _with_floor(features: Doubles, values: Doubles, floored: Mask, inside: Mask) -> Doubles:
    """Return features with the floor that an array has in some cells, where the cells inside its limits show it."""
    count = np.maximum(inside.sum(0), 1)
    first, second = ((inside * each).sum(0) / count for each in (features, values))
    power = (inside * (features - first) ** 2).sum(0)
    slope = (inside * (features - first) * (values - second)).sum(0) / np.where(power > 0, power, 1)
    floor = first + (values.min(0) - second) / np.where(slope > 0, slope, np.inf)
    return np.where(floored.any(0) & (slope > 0), np.maximum(features, floor), features)


def _named_edge(high: float, rate: float) -> float:
    """Return an upper edge as Kaldi names it: the Nyquist frequency is 0, and icefall's edge is -400."""
    below = high - rate / 2
    return below if below in (0.0, -100.0, -200.0, -400.0) else high


def _number(candidate: Candidate, name: str) -> float:
    """Return the value of an option that is a number; that of high_freq in Hz."""
    value = float(candidate.value(name))
    return value + candidate.rate / 2 if name == "high_freq" and value <= 0 else value
