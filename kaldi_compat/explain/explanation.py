"""Find the front end that computed an array of features."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kaldi_compat import plot
from kaldi_compat.errors import FeatureError, KaldiCompatError
from kaldi_compat.exact.arrays import Doubles
from kaldi_compat.explain import fits
from kaldi_compat.explain.fits import Fit
from kaldi_compat.explain.layouts import Layout, checked, layouts_of, sliding_layouts, storage, upright
from kaldi_compat.explain.search import Candidate, Found, Search, starts
from kaldi_compat.explain.sources import Source, channels_of, checked_audio, relatives
from kaldi_compat.explain.variants import Variant
from kaldi_compat.frontends.numpy import Frontend
from kaldi_compat.frontends.preset import list_presets
from kaldi_compat.options.base import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes


TOLERANCE = 1e-3
FEW = 0.25  # of the frames or columns: said if all differences are in so few
NOISE = "noise as of dithering"
NOISES = 5  # sizes of noise that are tried, each nearer to what is left
ALIKE = 1.5  # times more or less noise than there should be
OWN_ROUNDING = 8.0  # times the rounding of our own features may be that of others


@dataclass(frozen=True)
class Explanation:
    """Front end that computed an array of features, as far as it was found.

    Attributes:
        preset: name of a preset that gives the array; None if there is none.
        variant: the feature and its options; None for a preset, and where two arrays were compared.
        steps: what is done to the audio and the feature, in words.
        residual: largest absolute difference from the array.
        is_exact: True if 99.9% of the differences are below the tolerance, and all below 30 times that.
        worst_frame, worst_column: where the residual is.
        where: the frames or columns that differ, in words, if they are few; "" otherwise.
        computed, given: the features as explained and the part of the array that they explain, both (frames, dim).
    """

    preset: str | None
    variant: Variant | None
    steps: tuple[str, ...]
    residual: float
    is_exact: bool
    worst_frame: int
    worst_column: int
    where: str = ""
    computed: Doubles = field(default_factory=lambda: np.empty((0, 0)), repr=False, compare=False)
    given: Doubles = field(default_factory=lambda: np.empty((0, 0)), repr=False, compare=False)

    @property
    def cause(self) -> str:
        """The explanation in words, without numbers that depend on the recording."""
        made = f"preset {self.preset}" if self.preset else "" if self.variant is None else str(self.variant)
        return "; ".join([*([made] if made else []), *self.steps]) or "equal"

    def __str__(self) -> str:
        if self.is_exact:
            return f"{self.cause}: largest difference {self.residual:.2g}"
        where = f" in frame {self.worst_frame}, column {self.worst_column}{self.where and '; ' + self.where}"
        return f"not explained; the nearest is: {self.cause}: largest difference {self.residual:.2g}{where}"

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
        >>> from kaldi_compat import explain
        >>> axes = explain(np.eye(40, 4), np.eye(40, 4)[::-1]).plot()
        >>> axes[0].get_title()
        'given'
        """
        return plot.compare(self.given, self.computed, names=("given", "explained"), axes=axes)


def explain(
    features: npt.ArrayLike,
    audio: npt.ArrayLike,
    sample_frequency: float | None = None,
    *,
    tolerance: float = TOLERANCE,
) -> Explanation:
    """Find the front end that computed an array of features from audio, or the relation of two arrays of features.

    Presets are tried first. Then options of Kaldi's features, typical differences of ports (Hz triangles, librosa's
    filters, periodic windows, another floor, centred frames, preemphasis of the whole recording), and changes of the
    audio (resampled, at another speed, of a wrong rate, with swapped bytes) are added step by step, each time the one
    that explains most of the remaining difference. Normalization, another logarithm, offsets, deltas, stacked frames,
    padding, shifts in time, compression and transposed arrays are recognized.

    Args:
        features: array (frames, dim), or transposed.
        audio: the samples (T,) or (channels, T), as integers or floating point; or, without ``sample_frequency``,
            another array of features (frames, dim).
        sample_frequency: sampling rate of the audio in Hz.
        tolerance: absolute difference that counts as explained, for 99.9% of the values; a few may differ by 30 times
            as much. For features above 100, it is proportionally larger.

    Returns:
        The explanation; ``str()`` of it is a sentence.

    Raises:
        FeatureError: features that are not an array of two dimensions, are empty, hold NaN, or have a number of columns
            that no feature has, or of frames that no feature of the audio has.
        AudioError: audio of another shape, with NaN, or shorter than a frame.
        OptionError: a tolerance or a sampling rate that is not a number in its range, or features that are all equal
            in time.

    >>> import numpy as np
    >>> from kaldi_compat.numpy import Fbank
    >>> samples = np.random.default_rng(0).integers(-3000, 3000, 32000).astype(np.int16)
    >>> found = explain(Fbank(num_mel_bins=40, window_type="hamming", dither=0.0)(samples), samples, 16000)
    >>> print(found)
    fbank(num_mel_bins=40, window_type='hamming'): largest difference 0
    """
    said, target = checked(features)
    require(0 <= tolerance < np.inf, f"tolerance={tolerance} must be a number of at least 0")
    tolerance *= max(1.0, float(np.abs(target).max()) / 100)
    if sample_frequency is None:
        return _between(target, checked(audio)[1], said, tolerance)
    require(0 < sample_frequency < np.inf, f"sample_frequency={sample_frequency} must be a positive number of Hz")
    require(float(np.ptp(target, axis=0).max()) > 0, "all features are equal in time: there is nothing to explain")
    recording = checked_audio(audio, sample_frequency)
    channels = channels_of(recording, sample_frequency)
    changes, straight = upright(target, channels[0].frames)
    for lying, words in ((target, said), *([(straight, [*said, *changes])] if changes else [])):
        for source in channels:
            preset = _preset(lying, source, words, tolerance)
            if preset is not None:
                return preset
    answer = _answered(straight, channels, recording, [*said, *changes], tolerance)
    if answer.is_exact or "transposed" not in changes:
        return answer
    other = _answered(target, channels, recording, said, tolerance)  # of another rate, an array may look transposed
    return other if other.is_exact else answer


def _answered(
    target: Doubles, channels: Sequence[Source], recording: npt.NDArray[Any], said: list[str], tolerance: float
) -> Explanation:
    """Return what the search says of an array, if need be within the rounding of how it was stored."""
    stored, step = storage(target)
    search, found = _searched(target, channels, recording, max(tolerance, step))
    answer = _of_found(found, [*said, *stored], max(tolerance, step))
    if answer.is_exact or NOISE in answer.cause:
        return answer
    # Options may imitate noise: a floor is as high as what it leaves of quiet bins.
    plain = (_of_found(each, [*said, *stored], max(tolerance, step)) for each in search.begun())
    return next((each for each in plain if NOISE in each.cause), answer)


def _preset(target: Doubles, source: Source, said: list[str], tolerance: float) -> Explanation | None:
    """Return the preset that gives these features, if there is one. It takes audio in -1 to 1."""
    samples = source.samples
    if np.abs(samples).max() > 2:
        samples = samples / np.float32(32768)
    for name in list_presets():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                frontend = Frontend.from_preset(name)
                if frontend.dim != target.shape[1]:
                    continue
                features = np.asarray(frontend(samples, sampling_rate=int(source.rate)), np.float64)
            except KaldiCompatError:
                continue
        if features.shape == target.shape:
            fit = Fit("", fits.residual_of(features, target), features)
            if fit.residual <= tolerance:
                rate = frontend.sampling_rate
                resampled = "" if rate == source.rate else f"resampled to {rate} Hz as Kaldi and torchaudio do"
                return _answer(name, None, [source.said, resampled, *said], fit, target, tolerance)
    return None


def _searched(
    target: Doubles, channels: Sequence[Source], recording: npt.NDArray[Any], tolerance: float
) -> tuple[Search, Found]:
    """Return the search and what explains most of an array, of all channels and layouts."""
    rows = len(target)
    begin = [
        start
        for source in channels
        for layout in layouts_of(target, source.frames)
        for start in starts(source, layout, rows)
    ]
    if not begin:
        raise FeatureError(f"no feature of Kaldi's kind has {target.shape[1]} columns")
    search = Search(target, tolerance)
    others = [other for source in channels for other in relatives(source, recording, rows)]
    # Where the number of frames is another one, the audio must be: it has starts of its own.
    begin += [
        start
        for other in others
        if abs(other.frames - rows) <= 4 < abs(channels[0].frames - rows)
        for layout in layouts_of(target, other.frames)
        for start in starts(other, layout, rows)
    ]
    return search, search.best(begin, others)


def _of_found(found: Found, said: list[str], tolerance: float) -> Explanation:
    """Return the explanation by what the search has found, and by rounding or noise if these are left."""
    candidate, fit, part = found.candidate, found.fit, found.part
    left: list[str] = []
    is_exact = fit.residual <= tolerance
    if not is_exact and fit.residual < OWN_ROUNDING * 1e3 * tolerance:
        accurate = candidate.changed("precise", True).changed("source", candidate.source.rounded())
        first, second = fits.overlap(accurate.compute(), part, max(found.start, 0))
        precise = fits.simplest(first, second, tolerance)
        if precise.residual <= tolerance:
            candidate, fit, is_exact = accurate, precise, True
        else:
            own = _spread(np.abs(precise.mapped - fit.mapped))
            missing = np.minimum(np.abs(precise.mapped - part), np.abs(fit.mapped - part)) - OWN_ROUNDING * own
            is_exact = fits.residual_of(np.maximum(missing, 0), np.zeros_like(missing)) <= tolerance
            left = ["single precision in quiet bins"] * is_exact
    if not is_exact:
        left = _dithering(candidate, fit, part, max(found.start, 0))
    shift = [_shift_name(found.start)] if found.start else []
    loudness = candidate.source.loudness.get(candidate.variant.scale, "")
    scaled = f"the samples' factor is {loudness}" if loudness else ""
    steps = [candidate.source.said, scaled, *said, *shift, candidate.layout.said, fit.name, *left]
    answer = _answer(None, candidate.variant, steps, fit, part, tolerance)
    return replace(answer, is_exact=is_exact)


def _spread(rounding: Doubles) -> Doubles:
    """Return the largest value in the frame and its neighbours, and in the column and its neighbours."""
    for axis in (0, 1):
        rounding = np.maximum(rounding, np.maximum(np.roll(rounding, 1, axis), np.roll(rounding, -1, axis)))
    return rounding


def _dithering(candidate: Candidate, fit: Fit, part: Doubles, start: int) -> list[str]:
    """Return words if noise on the samples explains what is left: its size, both where it changes much and little."""
    samples, rng = candidate.source.samples, np.random.default_rng(0)
    noise = rng.normal(0, 1, len(samples)).astype(np.float32) / np.float32(candidate.variant.scale)
    plain = fits.overlap(candidate.compute(), part, start)[0]
    left = _deviation(fit.mapped - part)
    size, made = 1.0, left
    for _ in range(NOISES):
        noisy = replace(candidate.source, make=functools.partial(np.add, samples, np.float32(size) * noise))
        made = _deviation(fits.overlap(candidate.changed("source", noisy).compute(), part, start)[0] - plain)
        ratio = float(np.median(left) / max(np.median(made), 1e-30))
        size *= ratio
    much = _spread(made) > np.median(_spread(made))
    shares = [left[where].mean() / max(made[where].mean(), 1e-30) for where in (much, ~much)]
    is_noise = 0.9 < ratio < 1.1 and all(1 / ALIKE < share < ALIKE for share in shares)
    return [f"{NOISE} with about {size:.2g}"] * is_noise


def _deviation(difference: Doubles) -> Doubles:
    """Return how far each value is from the median of its column: a normalization moves the column."""
    return np.abs(difference - np.median(difference, axis=0))


def _between(target: Doubles, features: Doubles, said: list[str], tolerance: float) -> Explanation:
    """Explain one array by another."""
    ways = (target, features, said), (features, target, ["the other way round"])
    answers = [answer for way in ways for answer in _mapped(*way, tolerance)]
    if not answers:
        raise FeatureError(
            f"features of {target.shape[1]} and {features.shape[1]} columns cannot be mapped to each other"
        )
    return next((answer for answer in answers if answer.is_exact), answers[0])


def _mapped(target: Doubles, features: Doubles, said: list[str], tolerance: float) -> list[Explanation]:
    """Return what maps features to an array, the best first; nothing if their columns have nothing in common."""
    changes, straight = upright(target, len(features))
    stored, step = storage(straight)
    limit = max(tolerance, step)
    answers: list[Explanation] = []
    for layout in _arrangements(straight, features):
        applied = layout.apply(features)
        if len(applied) and applied.shape[1] == straight.shape[1]:
            shift, first, second = fits.shifted(applied, straight)
            fit = fits.simplest(first, second, limit)
            moved = [_shift_name(shift)] if shift else []
            if len(applied) - shift != len(straight) and not changes:
                moved.append(f"number of frames: {len(straight)}, not {len(applied)}")
            steps = [*said, *changes, *stored, layout.said, *moved, fit.name]
            answers.append(_answer(None, None, steps, fit, second, limit))
            if answers[-1].is_exact:
                break
    return sorted(answers, key=lambda each: (not each.is_exact, not each.where, each.residual))


def _arrangements(target: Doubles, features: Doubles) -> Iterator[Layout]:
    """Yield what may have been done to features to give an array."""
    columns = features.shape[1]
    yield Layout("", columns)
    yield from (each for each in layouts_of(target, len(features)) if each.said and each.columns == columns)
    for shift in (0, 1, -1, 2, -2):
        order = fits.columns_of(*fits.overlap(features, target, shift))
        if order is not None and order != list(range(columns)):
            yield Layout(fits.order_name(order, columns), columns, functools.partial(np.take, indices=order, axis=1))
            break
    yield from sliding_layouts(columns)


def _shift_name(shift: int) -> str:
    what = "left out" if shift > 0 else "too many"
    return f"{abs(shift)} frame{'s' * (abs(shift) > 1)} {what} at the start"


def _answer(
    preset: str | None, variant: Variant | None, steps: list[str], fit: Fit, target: Doubles, tolerance: float
) -> Explanation:
    difference = np.abs(fit.mapped - target)
    frame, column = np.unravel_index(int(difference.argmax()), difference.shape)
    said = tuple(step for step in steps if step)
    return Explanation(
        preset, variant, said, float(difference.max()), fit.residual <= tolerance, int(frame), int(column),
        _where(difference > tolerance), fit.mapped, target,
    )  # fmt: skip


def _where(wrong: npt.NDArray[np.bool_]) -> str:
    """Return in words the frames or columns that hold all differences, if they are few."""
    for axis, name in ((1, "frame"), (0, "column")):
        places = np.flatnonzero(wrong.any(axis))
        if 0 < len(places) <= max(1, FEW * wrong.shape[1 - axis]):
            shown = ", ".join(map(str, places[:6])) + ", ..." * (len(places) > 6)
            return f"only in {name}{'s' * (len(places) > 1)} {shown}"
    return ""
