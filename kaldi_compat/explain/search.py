"""The search for the features that resemble an array most: options, layouts and audio, changed one after the other."""

from __future__ import annotations

import dataclasses
import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kaldi_compat.errors import FeatureError, KaldiCompatError
from kaldi_compat.exact.arrays import Doubles
from kaldi_compat.exact.mel import inverse_mel_scale, mel_scale
from kaldi_compat.explain import fits
from kaldi_compat.explain.fits import OF_COLUMNS, Fit
from kaldi_compat.explain.layouts import Layout, sliding_layouts
from kaldi_compat.explain.sources import ZEROS, Source
from kaldi_compat.explain.variants import DCTS, EPSILON, MELS, Variant

ROWS = 300  # of the array, which the search looks at
MAX_ROWS = 2000  # to which it fits maps; what it has found is fitted to all
MAX_FRAMES = 200_000  # computed for similarities in each of two stages, of which the last turn may take more
MOST_SHIFT = 8  # frames that one of two arrays may have before the other's first one
MOST_STARTS = 3  # from which the search descends, if none explains all
# Of the similarity: so far away that the audio may be another; near enough to be fitted at once; all but rounding.
UNLIKE, NEAR, EXPLAINED = 0.7, 1e-3, 5e-5
ENOUGH = {"source": 0.8, "warp": 0.9}  # the share of the cost that a change of these may leave
EDGE_STEPS = {"low_freq": 0.5, "high_freq": -5.0}  # in Hz: how features change with the edges of the filters
LIFTERS = range(2, 100)
NARROW = 60  # filters by which the centres of columns are found: about as narrow as the points of the FFT allow
FEWER = 5  # one row in so many decides which shift in time is the nearest
NOTHING = 2.0  # of a candidate that cannot be compared
FRAME_SHIFTS = (10.0, 12.5, 8.0, 5.0, 16.0, 20.0, 4.0, 11.61, 30.0, 40.0)
WINDOWS = ("povey", "hamming", "hanning", "rectangular", "blackman", "sine")
# What is tried, in the order of how much it usually changes.
CHOICES: dict[str, Sequence[Any]] = {
    "snip_edges": (True, False),
    "padding": ("", "reflect", "constant", "reflect-window", "constant-window", "inside"),
    "use_power": (True, False),
    "use_log_fbank": (True, False),
    "htk_compat": (False, True),
    "use_energy": (False, True),
    "bins": ("kaldi", "log", "power", "magnitude"),
    "num_mel_bins": (23, 40, 80, 26, 30, 64, 20, 24, 32, 60, 128),
    "cepstral_lifter": (22, 0),
    "mel": tuple(MELS),
    "low_freq": (20.0, 0.0, 40.0, 64.0, 80.0, 50.0, 60.0, 100.0, 125.0, 133.3333),
    "high_freq": (0.0, -400.0, -200.0, -100.0, 7600.0, 7800.0, 7000.0, 6800.0, 6500.0, 4000.0, 3800.0, 3700.0),
    "frame_length": (25.0, 20.0, 30.0, 32.0, 16.0, 40.0, 50.0, 64.0),
    "round_to_power_of_two": (True, False),
    "window_type": WINDOWS,
    "window": ("kaldi", "periodic"),
    "preemphasis_coefficient": (0.97, 0.0, 0.95, 0.98, 0.9),
    "remove_dc_offset": (True, False),
    "whole": ((), ("preemphasis",), ("offset",), ("offset", "preemphasis")),
    "raw_energy": (True, False),
    "dct": ("kaldi", *DCTS),
    "floor": (EPSILON, 1e-10, 1e-5, 1e-6, 1e-7, 1e-8, 1e-3, 1.0, 1e-30),
    "added": (0.0, 1e-6, 1e-10, 1e-8, 1e-5, 1.0, 2.0**-24),
    "span": (0.0, 8 * np.log(10)),
    "scale": (1.0, 32768.0, 1 / 32768.0),
    "warp": (1.0, 0.9, 0.95, 1.05, 1.1, 0.8, 1.2),
}
# What looks alike: a longer frame of a narrower window, and filters of another form from another lowest frequency.
PAIRS = (("window_type", "frame_length"), ("mel", "low_freq"))
MEL = {"mel", "low_freq", "high_freq", "warp"}
LOG = {"floor", "added", "span"}
CEPSTRA = {"htk_compat", "use_energy", "num_mel_bins", "cepstral_lifter"}
OF_KIND = {
    "fbank": {"use_power", "use_log_fbank", "htk_compat"} | MEL | LOG,
    "mfcc": CEPSTRA | MEL | {"dct"},
    "plp": CEPSTRA | MEL - {"mel"},
    "spectrogram": {"bins"} | LOG,
}
FOR_ALL = {
    "frame_length", "round_to_power_of_two", "window_type", "window", "preemphasis_coefficient", "remove_dc_offset",
    "whole", "padding", "snip_edges", "raw_energy", "scale",
}  # fmt: skip
# What the similarity of columns does not see, but where a floor cuts them: offsets and scales.
WITHOUT_SHAPE = ("scale", "cepstral_lifter", "dct", "floor", "mel")
SAME_SHAPE = {each: pair for pair in (("hertz", "htk-area"), ("slaney", "slaney-height")) for each in pair}
# Options that are numbers, and how far around what has been found the fine search looks.
NUMBERS = {
    "warp": 0.1,
    "preemphasis_coefficient": 0.05,
    "low_freq": 60.0,
    "high_freq": 600.0,
    "frame_length": 4.0,
}
# Other people's usual features, from which the search begins as well as from Kaldi's.
STFT = {"window_type": "hanning", "preemphasis_coefficient": 0.0, "remove_dc_offset": False, "low_freq": 0.0}
UNIT = {"bins": "log", "scale": 1 / 32768}
FAMILIES: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
    (STFT | {"round_to_power_of_two": False},
     {"window": "periodic", "mel": "slaney", "padding": "reflect", "scale": 1 / 32768, "floor": 1e-10}),
    (STFT | {"round_to_power_of_two": False},
     {"window": "periodic", "mel": "hertz", "padding": "reflect", "scale": 1 / 32768, "floor": 1e-10}),
    (STFT | {"preemphasis_coefficient": 0.97},
     {"mel": "slaney", "padding": "constant-window", "scale": 1 / 32768, "whole": ("preemphasis",), "added": 2.0**-24}),
    (STFT | {"window_type": "rectangular", "preemphasis_coefficient": 0.97},
     {"mel": "snapped-more", "whole": ("preemphasis",)}),
    (STFT | {"window_type": "hamming", "round_to_power_of_two": False},
     {"window": "periodic", "mel": "symmetric", "padding": "constant-window", "floor": 1e-10, "span": 8 * np.log(10)}),
)  # fmt: skip


@dataclass(frozen=True)
class Candidate:
    """A feature, the audio that it is computed from, and what is done to it then."""

    variant: Variant
    source: Source
    layout: Layout

    def changed(self, name: str, value: Any) -> Candidate:
        """Return this candidate with another source, layout, option or attribute of the variant."""
        if name in ("source", "layout"):
            return dataclasses.replace(self, **{name: value})
        return dataclasses.replace(self, variant=self.variant.changed(name, value))

    @property
    def name(self) -> tuple[str, str, str]:
        """The feature and its options, the source and the layout, in words."""
        return repr(self.variant), self.source.said, self.layout.said

    @property
    def options(self) -> set[str]:
        """Names of the options that its kind of feature has."""
        return OF_KIND[self.variant.kind] | FOR_ALL

    def compute(self, end: int | None = None) -> Doubles:
        """Compute the features of the first samples.

        Raises:
            KaldiCompatError: there is no such feature.
        """
        computed = self.variant.compute(self.source.samples[:end], self.source.rate)
        features = np.clip(computed.astype(np.float64), -1e30, 1e30)
        if len(features) < 2 or features.shape[1] != self.layout.columns:
            raise FeatureError(f"{features.shape[1]} columns")
        return self.layout.apply(features)


@dataclass(frozen=True)
class Found:
    """A candidate, how it maps to the part of an array that it explains, and the array's first frame in it."""

    candidate: Candidate
    fit: Fit
    start: int
    part: Doubles

    @property
    def words(self) -> int:
        """Number of things that have to be said."""
        around = bool(self.candidate.source.said) + bool(self.candidate.layout.said)
        return len(self.candidate.variant.settings()) + around + self.fit.words

    def cost(self) -> float:
        """Return the residual, as if it were larger for each word."""
        return self.fit.residual * (1 + 0.05 * self.words)


def starts(source: Source, layout: Layout, rows: int) -> Iterator[Candidate]:
    """Yield where the search begins: each kind of feature that can have a layout's number of columns."""
    dim = layout.columns
    shift = min(FRAME_SHIFTS, key=lambda each: abs(10 * source.frames / each - layout.frames(rows) - 1))
    frames = {} if shift == 10.0 else {"frame_shift": shift}

    def start(kind: str, options: dict[str, Any], **others: Any) -> Candidate:
        return Candidate(Variant(kind, frames | options, **others), source, layout)

    if 10 <= dim <= 256 and "column" not in layout.said:
        yield start("fbank", {"num_mel_bins": dim})
        yield start("fbank", {"num_mel_bins": dim}, scale=1 / 32768.0)  # where a floor cuts another part
        for last in (False, True):
            yield start("fbank", {"num_mel_bins": dim - 1, "use_energy": True, "htk_compat": last})
        for options, others in FAMILIES:
            yield start("fbank", options | {"num_mel_bins": dim}, **others)
    if 4 <= dim <= 80:
        for bins in sorted({23, 40, 80, dim} if dim > 23 else {23, 40}):
            if bins >= dim:
                for energy, scale in ((True, 1.0), (False, 1.0), (False, 1 / 32768.0)):
                    options = {"num_ceps": dim, "num_mel_bins": bins, "use_energy": energy}
                    yield start("mfcc", options, scale=scale)
                    if scale == 1.0:
                        yield start("mfcc", options | {"htk_compat": True})
    if 4 <= dim <= 24:
        for energy, order in itertools.product((True, False), sorted({max(dim - 1, 1), max(dim - 1, 12)})):
            yield start("plp", {"num_ceps": dim, "lpc_order": order, "use_energy": energy})
    points = 2 * (dim - 1)
    if dim > 64:
        for length in (25.0, 20.0, 30.0, 32.0, 16.0, 64.0, 1000 * points / source.rate):
            size = int(source.rate * length / 1000)
            if points in (1 << (size - 1).bit_length(), size):
                options = {"frame_length": length, "round_to_power_of_two": points & (points - 1) == 0}
                yield start("spectrogram", options)
                plain = options | {name: value for name, value in STFT.items() if name != "low_freq"}
                for others in ({"bins": "magnitude"}, {"bins": "log"}, UNIT | {"floor": 1e-10},
                               UNIT | {"floor": 1e-30, "added": 1e-10}):  # fmt: skip
                    yield start("spectrogram", plain, window="periodic", padding="reflect-window", **others)


class Search:
    """Chooses options one after the other, each so that the features resemble an array most.

    Args:
        target: the array (frames, dim).
        tolerance: largest absolute difference that counts as explained.
    """

    def __init__(self, target: Doubles, tolerance: float) -> None:
        self._whole, self._tolerance = target, tolerance
        self._target = target[:MAX_ROWS]
        self._frames = MAX_FRAMES
        self._costs: dict[tuple[str, str, str], float] = {}
        self._found: dict[tuple[str, str, str], Found] = {}
        self._endings: list[Source] = []
        self._begun: list[Candidate] = []
        # Where a column has its least value again and again, there is a floor: energies of that, at Kaldi's scale.
        lowest = target.min(axis=0)
        self._floored = np.mean(target == lowest) * len(target) > 2
        self._floors = [float(f"{np.exp(each):.5g}") for each in {*lowest[[0, -1]], lowest.min()} if abs(each) < 60]

    def best(self, begin: Sequence[Candidate], sources: Sequence[Source]) -> Found:
        """Return what explains most of the array, as far as a bounded number of frames shows it.

        Args:
            begin: where the search begins: the best of these are improved.
            sources: audio that it may be of in place of theirs.

        Raises:
            FeatureError: no candidate has about as many frames.
        """
        if min(map(self.cost, begin)) > UNLIKE:
            plain = {start.variant.kind: start for start in reversed(begin)}.values()
            begin = [*begin, *(start.changed("source", source) for start in plain for source in sources)]
        if min(map(self.cost, begin)) >= NOTHING:
            raise FeatureError(
                f"no feature of this audio has about {len(self._whole)} frames: is the array of another recording?"
            )
        self._endings = [source for source in sources if source.said.endswith(ZEROS)]
        first = self._distinct(begin)
        self._begun = first
        ends: list[Candidate] = []
        for end in self._ends(first, sources):
            ends.append(end)
            found = self._settled(end)
            if found.fit.residual <= self._tolerance and found.fit.words < OF_COLUMNS:
                return self._fitted(found)
        found = min(map(self._settled, ends), key=lambda each: (each.fit.residual > self._tolerance, each.cost()))
        if found.fit.residual <= self._tolerance or min(map(self.cost, ends)) < EXPLAINED:
            return self._fitted(found)
        ends.sort(key=lambda end: self._settled(end).cost())
        self._frames = MAX_FRAMES
        for change, each in itertools.product((self._refined, self._paired), (ends[0], *first)):
            if self._frames > 0 and self.cost(each) < UNLIKE and not self._is_explained(ends[-1]):
                ends += self._ends([change(each)], sources)
        return self._fitted(min(map(self._settled, ends), key=Found.cost))

    def begun(self) -> Iterator[Found]:
        """Yield where the search for the best began, as far as it resembles the array, and without a map to it."""
        for each in self._begun:
            if self.cost(each) < UNLIKE:
                shift, first, second = fits.shifted(each.compute(), self._whole)
                yield Found(each, Fit("", fits.residual_of(first, second), first, 0), shift, second)

    def _fitted(self, found: Found) -> Found:
        """Return what has been found, fitted to the whole array."""
        if len(self._whole) == len(self._target):
            return found
        first, second = fits.overlap(found.candidate.compute(), self._whole, found.start)
        return dataclasses.replace(found, fit=fits.simplest(first, second, self._tolerance), part=second)

    def _distinct(self, begin: Sequence[Candidate]) -> list[Candidate]:
        """Return the few best of some candidates that do not only differ in scale, and Kaldi's own.

        Kaldi's own have filters where the array's are, if they do not resemble it otherwise.
        """
        chosen: dict[tuple[str, str, str], Candidate] = {}
        for each in sorted(begin, key=self.cost):
            chosen.setdefault(each.changed("scale", 1.0).name, each)
        best = list(chosen.values())[:MOST_STARTS]
        own = {(each.variant.kind, each.variant.value("num_mel_bins")): each for each in reversed(begin)}
        rest = [each for each in own.values() if each not in best and self.cost(each) < NOTHING]
        return [*best, *(each if self.cost(each) < UNLIKE else self._moved(each) for each in rest)]

    def _moved(self, candidate: Candidate) -> Candidate:
        """Return the candidate, or the one with other edges of its filters if it resembles the array more."""
        return min((candidate, self._centred(candidate)), key=self.cost)

    def cost(self, candidate: Candidate) -> float:
        """Return how much of the array a candidate leaves unexplained, whatever offset and scale each column has."""
        if candidate.name not in self._costs:
            try:
                self._costs[candidate.name] = self._unexplained(candidate)
            except KaldiCompatError:
                self._costs[candidate.name] = NOTHING
        return self._costs[candidate.name]

    def _computed(self, candidate: Candidate, rows: int) -> tuple[Doubles, Doubles]:
        """Compute the features of so many rows of the array and a few more; return them and these rows."""
        if len(self._whole) <= rows:
            return candidate.compute(), self._target
        return candidate.compute(int(candidate.source.length * (rows + 6) / len(self._whole))), self._target[:rows]

    def _unexplained(self, candidate: Candidate) -> float:
        features, target = self._computed(candidate, ROWS)
        self._frames -= len(features)
        more = len(features) - len(target)
        count = min(len(features), len(target))
        if count < 2 or abs(more) > 12:
            return NOTHING
        shifts = range(min(more, MOST_SHIFT) + 1) if more >= 0 else range(max(more, -MOST_SHIFT), 1)
        pairs = [(features[max(k, 0) :][:count], target[max(-k, 0) :][:count]) for k in shifts]
        nearest = min(pairs, key=lambda pair: fits.similarity(pair[0][::FEWER], pair[1][::FEWER]))
        return fits.similarity(*nearest)

    def _ends(self, begin: Sequence[Candidate], sources: Sequence[Source]) -> Iterator[Candidate]:
        """Yield where descents end that take turns: one that goes astray must not take all frames."""
        for near in (True, False):
            turns = deque(each for each in begin if (self.cost(each) < UNLIKE) == near)
            while turns:
                before = turns.popleft()
                goes_on = self._frames > 0 and not self._is_explained(before)
                after = self._improved(before, sources) if goes_on else before
                if self._is_explained(after) or self.cost(after) >= 0.99 * self.cost(before):
                    yield after
                else:
                    turns.append(after)

    def _improved(self, candidate: Candidate, sources: Sequence[Source]) -> Candidate:
        """Change options, first those that explain most of what is left."""
        fixed = {"num_mel_bins", "use_energy"} if candidate.variant.kind == "fbank" else {"use_energy"}
        names = [name for name in CHOICES if name in candidate.options - fixed - {*WITHOUT_SHAPE[:-1]}]
        changes = [(name, value) for name in names for value in CHOICES[name]]
        changes += [("source", source) for source in sources]
        if self._floored:
            floors = {"floor": (*CHOICES["floor"], *self._floors), "energy_floor": self._floors}
            own = candidate.options | ({"energy_floor"} if candidate.variant.value("use_energy") else set())
            changes += [(name, value) for name, values in floors.items() if name in own for value in values]
        if not candidate.layout.said:
            changes += [("layout", layout) for layout in sliding_layouts(candidate.layout.columns)]

        def enough(name: str) -> float:
            """Return the share of the cost that a change may leave: some explain a little of anything."""
            return ENOUGH.get(name, 0.99)

        before = self.cost(candidate)
        moved = self._both_edges(candidate) if "low_freq" in candidate.options else candidate
        if self.cost(moved) < 0.5 * min(self.cost(candidate.changed(*each)) for each in changes):
            return moved
        better = [each for each in changes if self.cost(candidate.changed(*each)) < enough(each[0]) * before]
        for name, value in sorted(better, key=lambda each: self.cost(candidate.changed(*each))):
            changed = candidate.changed(name, value)
            if self.cost(changed) < enough(name) * self.cost(candidate):
                candidate = changed
        return candidate

    def _paired(self, candidate: Candidate) -> Candidate:
        """Return the best of changes of two options at once, each of which alone explains less."""
        changed = (
            candidate.changed(first, value).changed(second, other)
            for first, second in PAIRS
            if candidate.options.issuperset((first, second))
            for value, other in itertools.product(CHOICES[first], CHOICES[second])
        )
        return min((candidate, *changed), key=self.cost)

    def _refined(self, candidate: Candidate) -> Candidate:
        """Choose options that are numbers ever more finely: near the best values, as if the features were linear."""
        names = [name for name in NUMBERS if name in candidate.options]
        before = 3.0
        while EXPLAINED < self.cost(candidate) < 0.9 * before:
            before = self.cost(candidate)
            near = {name: self._nearer(self._nearer(candidate, name, NUMBERS[name]), name, NUMBERS[name] / 3)
                    for name in names}  # fmt: skip
            name = min(near, key=lambda each: self.cost(near[each]))
            best, around = near[name], NUMBERS[name] / 3
            while around > NUMBERS[name] / 500:
                around /= 3
                best = self._nearer(best, name, around)
            candidate = self._rounded(best, [name]) if self.cost(best) < before else candidate
        moved = self._both_edges(candidate) if "low_freq" in names else candidate
        return moved if self.cost(moved) < 0.5 * self.cost(candidate) else candidate

    def _rounded(self, candidate: Candidate, names: Sequence[str]) -> Candidate:
        """Return a candidate whose numbers have as few digits as explain about as much."""
        limit = max(1.05 * self.cost(candidate), EXPLAINED)
        for name in names:
            changed = (candidate.changed(name, round(candidate.variant.value(name), digits)) for digits in range(-1, 5))
            candidate = next((each for each in changed if self.cost(each) <= limit), candidate)
        return candidate

    def _both_edges(self, candidate: Candidate) -> Candidate:
        """Change low_freq and high_freq at once, in steps that least squares give: each alone only comes near."""
        best, before = self._moved(candidate), 3.0
        while EXPLAINED < self.cost(best) < before:
            before = self.cost(best)
            values = {name: self._number(best, name) for name in EDGE_STEPS}
            try:
                plain = self._computed(best, ROWS)[0]
                stepped = [best.changed(name, values[name] + step) for name, step in EDGE_STEPS.items()]
                moved = [self._computed(each, ROWS)[0] - plain for each in stepped]
            except KaldiCompatError:
                break
            shift, features, target = fits.shifted(plain, self._target)
            columns = [features, *(fits.overlap(each, self._target, shift)[0] for each in moved)]
            design = np.stack([(each - each.mean(0)).ravel() for each in columns], axis=1)
            scale, *shares = np.linalg.lstsq(design, (target - target.mean(0)).ravel(), rcond=None)[0]
            nearer = [best]
            for part in (1, 0.5, 0.25):
                nearer.append(best)
                for (name, step), share in zip(EDGE_STEPS.items(), shares, strict=True):
                    edge = values[name] + part * step * share / (scale or 1)
                    nearer[-1] = nearer[-1].changed(name, float(np.clip(edge, 0, best.source.rate / 2)))
            best = min(nearer, key=self.cost)
        return self._rounded(best, list(EDGE_STEPS))

    def _centred(self, candidate: Candidate) -> Candidate:
        """Return the candidate with the edges of its filters where the centres of the array's columns show them.

        A column's centre is that of the narrow filter whose energies vary most alike; all centres lie on a line in mel.
        """
        if candidate.variant.kind != "fbank" or candidate.layout.said:
            return candidate
        narrow = candidate.changed("layout", Layout("", NARROW))
        for name, value in {"num_mel_bins": NARROW, "use_energy": False, "low_freq": 0.0, "high_freq": 0.0}.items():
            narrow = narrow.changed(name, value)
        try:
            shift, _, target = fits.shifted(self._computed(candidate, ROWS)[0], self._target)
            features, _ = fits.overlap(self._computed(narrow, ROWS)[0], self._target, shift)
        except KaldiCompatError:
            return candidate
        if candidate.variant.value("use_energy"):
            target = target[:, :-1] if candidate.variant.value("htk_compat") else target[:, 1:]
        step = mel_scale(np.float32(candidate.source.rate / 2)) / (NARROW + 1)
        centres = step * (1 + fits.correlations(features, target).argmax(1))
        # Theil and Sen's line, since a column may resemble another part of the spectrum more.
        places = np.arange(1, len(centres) + 1)
        before, after = np.triu_indices(len(places), 1)
        slope = np.median((centres[after] - centres[before]) / (after - before))
        first = np.median(centres - slope * places)
        edges = inverse_mel_scale(np.array([first, first + slope * (len(places) + 1)], np.float32))
        low, high = np.clip(edges, 0, candidate.source.rate / 2).tolist()
        return candidate.changed("low_freq", low).changed("high_freq", high)

    def _nearer(self, candidate: Candidate, name: str, around: float) -> Candidate:
        """Return the best of some values of an option around that of a candidate."""
        value = self._number(candidate, name)
        return min((candidate, *(candidate.changed(name, value + around * k / 4) for k in range(-4, 5))), key=self.cost)

    def _number(self, candidate: Candidate, name: str) -> float:
        """Return the value of an option that is a number; that of high_freq in Hz."""
        value = float(candidate.variant.value(name))
        return value + candidate.source.rate / 2 if name == "high_freq" and value <= 0 else value

    def _is_explained(self, candidate: Candidate) -> bool:
        cost = self.cost(candidate)
        return cost < EXPLAINED or (cost < NEAR and self._settled(candidate).fit.residual <= self._tolerance)

    def _settled(self, candidate: Candidate) -> Found:
        """Choose what changes offsets and scales of columns only, so that the simplest map is left."""
        if candidate.name in self._found:
            return self._found[candidate.name]
        alike = [candidate, *(self._alike(candidate) if self.cost(candidate) < UNLIKE else ())]
        limit = max(1.1 * min(map(self.cost, alike)), EXPLAINED)
        shift, *_ = fits.shifted(self._computed(candidate, MAX_ROWS)[0], self._target)
        found = []
        for each in (other for other in alike if self.cost(other) <= limit):
            first, second = fits.overlap(self._computed(each, MAX_ROWS)[0], self._target, shift)
            found.append(Found(each, fits.simplest(first, second, self._tolerance), shift, second))
        exact = [each for each in found if each.fit.residual <= self._tolerance]
        simplest = min(exact, key=lambda each: each.words) if exact else min(found, key=Found.cost)
        self._found[candidate.name] = simplest
        if exact and simplest.candidate.name != candidate.name:
            self._found[candidate.name] = self._settled(simplest.candidate)
        return self._found[candidate.name]

    def _lifters(self, candidate: Candidate) -> list[int]:
        """Return the lifter that gives the columns of cepstra the sizes that the array's have, if there is one."""
        if "cepstral_lifter" not in candidate.options or candidate.layout.said:
            return []
        plain = candidate.changed("cepstral_lifter", 0).compute()
        _, first, second = fits.shifted(plain, self._target)
        with np.errstate(divide="ignore", invalid="ignore"):
            sizes = (second.std(0) / first.std(0))[1:]
        for lifter in LIFTERS:
            weights = 1 + 0.5 * lifter * np.sin(np.pi * np.arange(1, len(sizes) + 1) / lifter)
            if np.ptp(sizes - weights * sizes[0] / weights[0]) < 1e-3 * sizes.max():
                return [lifter]
        return []

    def _alike(self, candidate: Candidate) -> Iterator[Candidate]:
        """Yield candidates that may resemble the array as much."""
        names = [name for name in WITHOUT_SHAPE if name in candidate.options]
        own = {"mel": SAME_SHAPE.get(candidate.variant.mel, (candidate.variant.mel,)),
               "cepstral_lifter": (*CHOICES["cepstral_lifter"], *self._lifters(candidate)),
               "scale": (*CHOICES["scale"], *candidate.source.loudness)}  # fmt: skip
        for values in itertools.product(*(own.get(name, CHOICES[name]) for name in names)):
            changed = candidate
            for name, value in zip(names, values, strict=True):
                changed = changed.changed(name, value)
            yield changed
        for name in CHOICES:
            if name in candidate.options - {"num_mel_bins", "use_energy"}:
                yield candidate.changed(name, CHOICES[name][0])
        yield from (candidate.changed("source", ending) for ending in self._endings)
