"""Find the front end that computed an array of features."""

from __future__ import annotations

import contextlib
import functools
import itertools
import operator
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from kaldi_compat import plot
from kaldi_compat.errors import FeatureError, KaldiCompatError
from kaldi_compat.exact.arrays import Doubles
from kaldi_compat.exact.rand import KaldiRandom
from kaldi_compat.frontends.numpy import Frontend
from kaldi_compat.frontends.preset import list_presets
from kaldi_compat.options.base import require
from kaldi_compat.options.pitch import PitchOptions, ProcessPitchOptions
from kaldi_compat.pitch.process import process_ragged
from kaldi_compat.pitch.tracker import track_pitch
from kaldi_explain import arrangements, files, fits, settling
from kaldi_explain.arrangements import MAX_NAMED, Arrangement, Mask, Storage, name_values
from kaldi_explain.deviations import LARGEST_OUTLIER, Deviations
from kaldi_explain.finding import Attempt, Finder
from kaldi_explain.models import FeatureModel
from kaldi_explain.search import UNLIKE, Sheet, TimeLimit
from kaldi_explain.settling import Settled
from kaldi_explain.sources import AudioSource, channels_of, check_audio
from kaldi_explain.timing import energies_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


Verdict = Literal["explained", "partly", "not explained"]
TOLERANCE = 1e-3
SECONDS = 5.0  # Processor time, in seconds, that an answer may take.
FEW = 0.25  # of the frames or columns: said if all differences are in so few
MOST_NOISE = 20.0  # of samples at Kaldi's scale
NOISES = 5  # sizes of noise that are tried, each nearer to what is left
ALIKE = 1.5  # times more or less noise than there should be
SURPRISING = 0.1  # share of the spread that an explanation leaves at most
FEWEST_CELLS = 20  # of an array that is explained: as many as there are, less the numbers of the map
PARTLY = 0.1  # share of the spread that is left where the kind of feature is certain
OF_SPREAD = "of the spread"
GUESSES = "; the options and steps are guesses"
PITCH_ERROR = 0.01  # share of a pitch feature's spread, in which it is recognized
RESAMPLED = 5.0  # times the tolerance for resampled audio: some filters are known from their output only
GOOD_COLUMN = 2e-3  # share of a column's spread that is left where it is explained


@dataclass(frozen=True)
class Explanation:
    """Front end that computed an array of features, as far as it was found.

    Attributes:
        preset: name of a preset that gives the array; None if there is none.
        variant: the feature and its options; None for a preset, and where two arrays were compared.
        steps: what is done to the audio and the feature, in words.
        residual: largest absolute difference from the array.
        is_exact: True if it explains the array: 99.9% of the differences are below the tolerance, all below 30 times
            that, and chance does not explain as much.
        worst_frame, worst_column: where the residual is.
        where: the frames or columns that differ, in words, if they are few; "" otherwise.
        left: what is not explained, in words, where a part is; "" otherwise.
        is_certain: True if the feature, its options and the steps were verified for all but a few places of the array;
            False if they are guesses.
        in_time: False if the search ended for want of time.
        computed, given: the features as explained and the part of the array that they explain, both (frames, dim).
    """

    preset: str | None
    variant: FeatureModel | None
    steps: tuple[str, ...]
    residual: float
    is_exact: bool
    worst_frame: int
    worst_column: int
    where: str = ""
    left: str = ""
    is_certain: bool = False
    in_time: bool = True
    computed: Doubles = field(default_factory=lambda: np.empty((0, 0)), repr=False, compare=False)
    given: Doubles = field(default_factory=lambda: np.empty((0, 0)), repr=False, compare=False)

    @property
    def verdict(self) -> Verdict:
        """Return "explained", "partly" or "not explained"."""
        return "explained" if self.is_exact else "partly" if self.left else "not explained"

    @property
    def cause(self) -> str:
        """The explanation in words, without numbers that depend on the recording."""
        made = f"preset {self.preset}" if self.preset else "" if self.variant is None else str(self.variant)
        return "; ".join([*([made] if made else []), *self.steps]) or "equal"

    def __str__(self) -> str:
        ended = "" if self.in_time or self.is_certain else f" (the search ended: an answer takes {SECONDS:g} s)"
        if self.is_exact:
            return f"{self.cause}: largest difference {self.residual:.2g}{self.where and ', ' + self.where}"
        if not len(self.computed):
            return f"not explained: {self.cause}{ended}"
        said = f"not explained; the nearest is: {self.cause}"
        if self.left:
            kind = f"{self.variant.kind} of this audio, most like " if self.variant and not self.is_certain else ""
            said = f"partly explained: {kind}{self.cause}; left: {self.left}"
        said += "" if self.is_certain or self.variant is None else GUESSES
        where = f" in frame {self.worst_frame}, column {self.worst_column}{self.where and '; ' + self.where}"
        return f"{said}: largest difference {self.residual:.2g}{where}{ended}"

    def plot(self, axes: Sequence[Axes] | None = None) -> Sequence[Axes]:
        """Draw the array, the features as explained, and their difference, which shows the frames and columns.

        Args:
            axes: three matplotlib axes; those of a new figure if None.

        Returns:
            The three axes.

        Raises:
            ModuleNotFoundError: matplotlib is not installed.

        >>> import matplotlib
        >>> matplotlib.use("Agg")
        >>> import numpy as np
        >>> from kaldi_explain import explain
        >>> axes = explain(np.eye(40, 4), np.eye(40, 4)[::-1]).plot()
        >>> axes[0].get_title()
        'given'
        """
        return plot.compare(self.given, self.computed, names=("given", "explained"), axes=axes)


def explain(
    features: npt.ArrayLike | PathLike[str],
    audio: npt.ArrayLike | PathLike[str],
    sample_frequency: float | None = None,
    *,
    tolerance: float = TOLERANCE,
) -> Explanation:
    """Find the front end that computed an array of features from audio, or the relation of two arrays of features.

    Presets are tried first. Then the array itself is asked, one question after the other: which of its sides is time,
    which rows and columns are masked, padded, copies or deltas of others; by its correlation with the audio's energies,
    the shift of its frames and the first one; and where the centers of its filters are. From there, options of Kaldi's
    features, differences of other libraries and of ports, and changes of the audio are added, each time the one that
    explains most of what is left. The form of the logarithm, floors and normalization follow from the rest.

    An array is explained if all differences are small in comparison with its own spread. Noise, masks, labels and
    posteriors are not. The search ends after a few seconds of processor time.

    Args:
        features: array (frames, dim), or transposed; or the name of a file of it, such as ``"feats.npy"`` or
            ``"feats.ark:utt1"``.
        audio: the samples (T,) or (channels, T), as integers or floating point; or, without ``sample_frequency``,
            another array of features (frames, dim); or the name of an audio file or of a file of features.
        sample_frequency: sampling rate of the audio in Hz. By default, the rate of an audio file.
        tolerance: absolute difference that counts as explained, for 99.9% of the values; a few may differ by 30 times
            as much. For features above 100 it is proportionally larger, for those of a spread below 1 smaller.

    Returns:
        The explanation; ``str()`` of it is a sentence.

    Raises:
        FeatureError: features that are not an array of two dimensions, are empty, or hold NaN.
        ArkError: a file cannot be read.
        AudioError: audio of another shape, with NaN, or shorter than a frame.
        OptionError: a tolerance or a sampling rate that is not a number in its range.

    >>> import numpy as np
    >>> from kaldi_compat.numpy import Fbank
    >>> samples = np.random.default_rng(0).integers(-3000, 3000, 32000).astype(np.int16)
    >>> found = explain(Fbank(num_mel_bins=40, window_type="hamming", dither=0.0)(samples), samples, 16000)
    >>> print(found)
    fbank(num_mel_bins=40, window_type='hamming'): largest difference 0
    """
    said, target = arrangements.check(files.load_features(features))
    audio, sample_frequency = files.load_audio(audio, sample_frequency)
    require(0 <= tolerance < np.inf, f"tolerance={tolerance} must be a number of at least 0")
    if sample_frequency is None:
        limit = tolerance * max(1.0, float(np.abs(target).max()) / 100)
        return _explain_by(target, arrangements.check(audio)[1], said, limit)
    require(0 < sample_frequency < np.inf, f"sample_frequency={sample_frequency} must be a positive number of Hz")
    recording = check_audio(audio, sample_frequency)
    if why := arrangements.why_no_features(target):
        return _nothing(why, target)
    with np.errstate(all="ignore"):
        return _explain_of(target, said, recording, sample_frequency, tolerance, list_presets())


def explain_without_presets(
    features: npt.ArrayLike, audio: npt.NDArray[Any], sample_frequency: float, tolerance: float
) -> Explanation:
    """Find the options of the front end that computed features, as :func:`explain` does, but not a preset's name."""
    said, target = arrangements.check(features)
    if why := arrangements.why_no_features(target):
        return _nothing(why, target)
    with np.errstate(all="ignore"):
        return _explain_of(target, said, check_audio(audio, sample_frequency), sample_frequency, tolerance, [])


def _nothing(why: str, target: Doubles) -> Explanation:
    return Explanation(None, None, (why,), float(np.ptp(target)), False, 0, 0, given=target)


def _explain_of(
    target: Doubles, said: list[str], recording: npt.NDArray[Any], rate: float, tolerance: float,
    presets: Sequence[str],
) -> Explanation:  # fmt: skip
    """Return what explains an array: one of the presets, or else what the search finds."""
    clock, channels = TimeLimit(SECONDS, recording.shape[-1] / rate), channels_of(recording, rate)
    for (turned, values), source in itertools.product(arrangements.orientations(target), channels):
        if preset := _preset(presets, values, source, [*said, *turned], _tolerance_of(values, tolerance)):
            return preset
    storage = arrangements.storage(target)

    def tolerance_for(attempt: Attempt) -> float:
        sheet, factor = attempt.search.sheet, RESAMPLED if attempt.candidate.source.is_resampled else 1.0
        return factor * _tolerance_of(sheet.values[sheet.rows], tolerance)

    finder = Finder(storage.values, said, channels, recording, tolerance_for, clock, storage.step)
    found = finder.find()
    energies_of.cache_clear()  # which holds the recording
    in_time = not clock.is_at_end()
    if found is None:
        return replace(_nothing("no feature of this audio was found that resembles it", target), in_time=in_time)
    return replace(_of_finding(finder, *found, storage, tolerance_for(found[0])), in_time=in_time)


def _tolerance_of(values: Doubles, tolerance: float) -> float:
    """Return the tolerance for an array's own size and spread."""
    spread = float(values.std(axis=0).max()) if len(values) > 1 else 1.0
    return tolerance * max(min(1.0, spread), float(np.abs(values).max()) / 100 if spread > 1 else 0.0)


def _preset(
    names: Sequence[str], target: Doubles, source: AudioSource, said: list[str], tolerance: float
) -> Explanation | None:
    """Return the preset that gives these features, if there is one. It takes audio in -1 to 1."""
    samples = source.samples / np.float32(source.full_scale)
    for name in names:
        with warnings.catch_warnings(), contextlib.suppress(KaldiCompatError):
            warnings.simplefilter("ignore")
            frontend = Frontend.from_preset(name)
            if frontend.dim != target.shape[1]:
                continue
            features = np.asarray(frontend(samples, sampling_rate=int(source.rate)), np.float64)
            if features.shape == target.shape and fits.residual_of(features, target) <= tolerance:
                rate = frontend.sampling_rate
                resampled = "" if rate == source.rate else f"resampled to {rate} Hz as Kaldi and torchaudio do"
                return _answer(name, None, [source.said, resampled, *said], features, target, tolerance)
    return None


def _of_finding(finder: Finder, found: Attempt, settled: Settled, storage: Storage, tolerance: float) -> Explanation:
    """Return the explanation by what was found, and by rounding, noise or a part of the array if these are left."""
    sheet, left = found.search.sheet, list[str]()
    words = [settled.rounding]
    places = settling.places_of(settled, sheet, tolerance)
    others = np.flatnonzero(~_covered_columns(sheet))
    is_certain = _is_certain(settled, places.deviations, tolerance)
    if is_certain:
        left = [*places.deviations.left, *_unexplained_rows(settled, sheet)]
    elif found.cost < UNLIKE:
        # Options may imitate noise: a floor is as high as what it leaves of quiet bins.
        plain = itertools.chain([settled], _plain_ones(finder, found))
        tried = itertools.takewhile(lambda _: not finder.clock.is_settled(), plain)
        noisy = next(((each, noise) for each in tried if (noise := _dithering(each, finder.clock))), None)
        if noisy:
            settled, words, left = noisy[0], [noisy[1]], ["noise, which has no seed that is known"]
        elif not len(others) and settled.left() < PARTLY and found.cost < PARTLY:
            settled = _focus(settled, sheet, tolerance)
            left = [f"{settled.left():.2g} {OF_SPREAD}"]
        places = settling.places_of(settled, sheet, tolerance)
        if not noisy and _is_certain(settled, places.deviations, tolerance):
            is_certain, left = True, places.deviations.left
    if is_certain and len(others) and not left:
        pitch = _pitch(settled, sheet, others)
        words, left = [*words, pitch], [] if pitch else [arrangements.spans(others, "column")]
    candidate, deviations = settled.candidate, places.deviations
    loudness = candidate.source.loudness.get(candidate.scale, "")
    steps = [
        candidate.source.said, loudness and f"the samples' factor is {loudness}", *sheet.said, *places.padding,
        *storage.words, *settled.shift_words(*deviations.missing), settled.order_words(), settled.arrangement.said,
        settled.fit.name, *(deviations.reasons if is_certain else []), *places.quiet, *words,
    ]  # fmt: skip
    counted = np.zeros(settled.target.shape, bool)
    counted[settled.cells] = True
    counted = deviations.counted if is_certain else counted
    first = settled.row, settling.first_column(sheet)
    answer = _answer(None, candidate, steps, settled.fit.mapped, settled.target, tolerance, sheet.step, counted, first)
    is_exact = is_certain and not left
    where = answer.where if is_exact == answer.is_exact and not (is_certain and left) else ""
    return replace(answer, is_exact=is_exact, left=", ".join(left), is_certain=is_certain, where=where)


def _is_certain(settled: Settled, deviations: Deviations, tolerance: float) -> bool:
    """Return True if features give an array but for places that are named, and chance would not give it as well.

    Few single values may differ. The others are within the tolerance, or the rounding that explains them is named.
    """
    difference = np.abs(settled.fit.mapped - settled.target)
    limit = np.inf if settled.rounding else settled.step + LARGEST_OUTLIER * tolerance
    right = deviations.counted & (difference <= limit)
    if not right.any() or right.sum() < (1 - fits.FEW_CELLS) * deviations.counted.sum():
        return False
    residual = fits.residual_of(difference[right], np.zeros(int(right.sum())), settled.step)
    return (residual <= tolerance or bool(settled.rounding)) and _is_surprising(settled, right)


def _covered_columns(sheet: Sheet) -> Mask:
    """Return the mask of columns of which the sheet's arrangement speaks, or which say nothing."""
    covered: Mask = np.ptp(sheet.values[sheet.rows], axis=0) == 0
    covered[slice(None) if sheet.arrangement.said else sheet.arrangement.columns] = True
    return covered


def _plain_ones(finder: Finder, found: Attempt) -> Iterator[Settled]:
    """Yield the features that were found and those with which the search began, as they are."""
    sheet = found.search.sheet
    for attempt in (found, *finder.begun[:2]):
        if attempt.search.sheet is sheet:
            candidate = attempt.candidate.without_noise()
            framed = map(candidate.change, attempt.search.framings(candidate))
            snipped = (each for each in framed if each.value("snip_edges") and not each.padding)
            made = (settling.map_to(each, sheet, np.inf) for each in (candidate, *snipped))
            yield from filter(None, made)


def _pitch(settled: Settled, sheet: Sheet, places: npt.NDArray[Any]) -> str:
    """Return words if columns are Kaldi's pitch features of the audio, after which paste-feats cuts the longer ones."""
    candidate, source = settled.candidate, settled.candidate.source
    names = ("frame_length", "frame_shift", "snip_edges")
    try:
        options = PitchOptions(sample_frequency=source.rate, **{name: candidate.value(name) for name in names})
        track = np.asarray(track_pitch(source.samples * np.float32(32768 / source.full_scale), options), np.float32)
        processed, _ = process_ragged(track, np.array([0, len(track)]), ProcessPitchOptions(), KaldiRandom())
    except KaldiCompatError:
        return ""
    given = sheet.values[settled.row : settled.row + len(settled.target)][:, places]
    for made, program in ((processed, "compute-and-process-kaldi-pitch-feats"), (track, "compute-kaldi-pitch-feats")):
        part = made[settled.frame : settled.frame + len(given)].astype(np.float64)
        if part.shape == given.shape and (np.abs(part - given).max(0) < PITCH_ERROR * given.std(0)).all():
            return f"{arrangements.spans(places, 'column')}: pitch of {program}"
    return ""


def _unexplained_rows(settled: Settled, sheet: Sheet) -> list[str]:
    """Return in words the rows beyond the features that say something."""
    after = np.flatnonzero(sheet.rows[settled.row + len(settled.target) :])
    counts = {"end": int(after[-1]) + 1 if len(after) else 0, "start": int(sheet.rows[: settled.row].sum())}
    return fits.frames_in_words(counts)


def _is_surprising(settled: Settled, right: Mask) -> bool:
    """Return True if a random array would not be explained as well, by the values that are right."""
    columns = int(right.any(0).sum())
    free = int(right.sum()) - (2 * columns if settled.fit.words >= fits.WORDS_PER_COLUMN else 4)
    return free >= FEWEST_CELLS and settled.left(right) < SURPRISING


def _focus(settled: Settled, sheet: Sheet, tolerance: float) -> Settled:
    """Return what explains some of the columns exactly, or else what is given."""
    first, second = settled.fit.mapped[settled.cells], settled.target[settled.cells]
    alike = np.array([fits.similarity(a[:, None], b[:, None]) for a, b in zip(first.T, second.T, strict=True)])
    good = alike < GOOD_COLUMN
    if 0.25 * len(good) <= good.sum() < len(good):
        places = settled.cells[1].ravel()[~good]
        some = replace(sheet, columns=sheet.columns & ~np.isin(np.arange(len(sheet.columns)), places))
        other = settling.map_to(settled.candidate, some, tolerance, arrangement=settled.arrangement)
        if other is not None and other.fit.residual <= tolerance:
            return other
    return settled


def _dithering(settled: Settled, clock: TimeLimit) -> str:
    """Return words if noise on the samples explains what is left: its size, both where it changes much and little."""
    candidate, samples = settled.candidate, settled.candidate.source.samples
    noise = np.random.default_rng(0).normal(0, 1, len(samples)).astype(np.float32) / np.float32(candidate.scale)

    def compute(size: float) -> Doubles:
        source = replace(candidate.source, make=lambda: samples + np.float32(size) * noise)
        features = settled.arrangement.apply(settling.features_of(candidate.change({"source": source})))
        return features[settled.frame : settled.frame + len(settled.target)]

    plain = compute(0.0)
    if plain.shape != settled.target.shape:
        return ""
    left = _deviation(settled.fit.mapped - settled.target)
    slope = max(float(np.median(settled.fit.mapped.std(0) / np.maximum(plain.std(0), 1e-30))), 1e-30)
    size, ratio, made = 1.0, 1.0, left
    for _ in clock.limit(range(NOISES)):
        size *= ratio
        made = slope * _deviation(compute(size) - plain)
        ratio = float(np.median(left) / max(np.median(made), 1e-30))
    much = settling.spread_of(made) > np.median(settling.spread_of(made))
    if not much.any() or much.all():
        return ""
    shares = [left[where].mean() / max(made[where].mean(), 1e-30) for where in (much, ~much)]
    is_noise = size < MOST_NOISE and 0.9 < ratio < 1.1 and all(1 / ALIKE < share < ALIKE for share in shares)
    return f"noise as of dithering with about {size * ratio:.2g}" if is_noise else ""


def _deviation(difference: Doubles) -> Doubles:
    """Return how far each value is from the median of its column: a normalization moves the column."""
    return np.abs(difference - np.median(difference, axis=0))


def _explain_by(target: Doubles, features: Doubles, said: list[str], tolerance: float) -> Explanation:
    """Return what maps one array of features to another."""
    ways = (target, features, said), (features, target, ["the other way round"])
    answers = [answer for way in ways for answer in _maps(*way, tolerance)]
    if not answers:
        columns = f"{target.shape[1]} and {features.shape[1]} columns"
        raise FeatureError(f"features of {columns} cannot be mapped to each other")
    return next((answer for answer in answers if answer.is_exact), answers[0])


def _maps(target: Doubles, features: Doubles, said: list[str], tolerance: float) -> list[Explanation]:
    """Return what maps features to an array, the best first; nothing if their columns have nothing in common."""
    answers: list[Explanation] = []
    for turned, straight in arrangements.orientations(target):
        if turned == ["transposed"] and (target.shape[1] == features.shape[1] or target.shape[0] != features.shape[1]):
            continue
        changes = list(turned)
        for where, way in (("end", 1), ("start", -1)):  # rows of the same values are padding if there are too many
            if padded := _padding(straight[::way], len(features)):
                changes.append(f"{padded} rows of padding at the {where}")
                straight = straight[:-padded] if way == 1 else straight[padded:]
        storage = arrangements.storage(straight)
        straight = storage.values
        for arrangement in _arrangements_between(straight, features):
            applied = arrangement.apply(features)
            if not len(applied) or applied.shape[1] != straight.shape[1]:
                continue
            shift = fits.best_shift(applied, straight)
            first, second = fits.overlap(applied, straight, shift)
            fit = fits.simplest(first, second, tolerance, step=storage.step)
            counts = {"start": -shift, "end": 0 if changes else len(straight) + shift - len(applied)}
            steps = [*said, *changes, *storage.words, arrangement.said, *fits.frames_in_words(counts), fit.name]
            answers.append(_answer(None, None, steps, fit.mapped, second, tolerance, storage.step))
            if answers[-1].is_exact:
                break
    return sorted(answers, key=lambda each: (not each.is_exact, not each.where, each.residual))


def _padding(target: Doubles, frames: int) -> int:
    """Return the number of rows of one value, or of the same values, at the end of an array of too many frames."""
    same = [(target == target[-1]).all(1), (target == target[-1, 0]).all(1)]
    found = max(len(target) if each.all() else int(np.argmin(each[::-1])) for each in same)
    return found if len(target) - frames > 4 and 1 < found < len(target) else 0


def _arrangements_between(target: Doubles, features: Doubles) -> Iterator[Arrangement]:
    """Yield what may have been done to features to give an array."""
    columns, whole = features.shape[1], slice(None)
    yield arrangements.PLAIN
    yield from (each for each in arrangements.arrangements_of(target) if each.said)
    for ratio in range(2, 11):
        if abs(len(features) / ratio - len(target)) <= 1:
            every = operator.itemgetter(slice(None, None, ratio))
            yield Arrangement(f"one frame in {ratio}", whole, every, ratio)
            if target.shape[1] == ratio * columns:
                yield arrangements.joined_frames(ratio, columns)
    for shift in (0, 1, -1, 2, -2):
        order = fits.columns_of(*fits.overlap(features, target, shift))
        if order is not None and order != list(range(columns)):
            yield Arrangement(fits.order_name(order, columns), whole, functools.partial(np.take, indices=order, axis=1))
            break
    yield from arrangements.sliding_arrangements()


def _answer(
    preset: str | None, variant: FeatureModel | None, steps: list[str], computed: Doubles, target: Doubles,
    tolerance: float, step: float = 0.0, counted: Mask | None = None, first: tuple[int, int] = (0, 0),
) -> Explanation:  # fmt: skip
    """Return the answer with features and the part of an array that they should give.

    ``counted`` masks the values that they should give, ``first`` are the part's first frame and column in the array.
    """
    counted = np.ones(target.shape, bool) if counted is None else counted
    difference = np.where(counted, np.abs(computed - target), 0)
    frame, column = np.unravel_index(int(difference.argmax()), difference.shape)
    is_exact = bool(counted.any()) and fits.residual_of(computed[counted], target[counted], step) <= tolerance
    wrong = difference > tolerance + step
    above = f"more than {tolerance + step:.2g} in {name_values(wrong, *first)}" if wrong.any() else ""
    return Explanation(
        preset, variant, tuple(filter(None, steps)), float(difference.max()), is_exact, int(frame) + first[0],
        int(column) + first[1], above if is_exact else _where(wrong, *first), computed=computed, given=target,
    )  # fmt: skip


def _where(wrong: Mask, first_frame: int, first_column: int) -> str:
    """Return in words the values, frames or columns that hold all differences, if they are few."""
    if 0 < wrong.sum() <= MAX_NAMED:
        return f"only in {name_values(wrong, first_frame, first_column)}"
    for axis, name, first in ((1, "frame", first_frame), (0, "column", first_column)):
        places = np.flatnonzero(wrong.any(axis))
        if 0 < len(places) <= max(1, FEW * wrong.shape[1 - axis]):
            return f"only in {arrangements.spans(places + first, name)}"
    return ""
