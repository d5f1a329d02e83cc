"""Find out which front end made an array of features."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat.errors import AudioError, FeatureError, KaldiCompatError
from kaldi_compat.frontends import fits
from kaldi_compat.frontends.fits import Fit
from kaldi_compat.frontends.numpy import Frontend
from kaldi_compat.frontends.preset import preset_names
from kaldi_compat.frontends.variants import EPSILON, MELS, Variant
from kaldi_compat.options.base import require

__all__ = ["Explanation", "explain"]

Doubles = npt.NDArray[np.float64]
TOLERANCE = 1e-3
MAX_CHANNELS, MAX_BINS = 32, 256
LONGEST = 30.0  # seconds of audio that the search looks at
FRAME_SHIFTS = (10.0, 12.5, 8.0, 5.0, 16.0, 20.0, 4.0, 11.61)
WINDOWS = ("povey", "hamming", "hanning", "rectangular", "blackman", "sine")
# What is tried, in the order of how much it usually changes.
CHOICES: dict[str, Sequence[Any]] = {
    "snip_edges": (True, False),
    "padding": ("", "reflect", "constant"),
    "use_power": (True, False),
    "use_log_fbank": (True, False),
    "htk_compat": (False, True),
    "use_energy": (False, True),
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
    "floor": (EPSILON, 1e-10, 1e-5, 1e-6, 1e-8, 1e-3, 1.0, 1e-30),
    "added": (0.0, 1e-6, 1e-10, 1e-8, 1e-5, 1.0),
    "scale": (1.0, 32768.0, 1 / 32768.0),
    "warp": (1.0, 0.9, 0.95, 1.05, 1.1, 0.8, 1.2),
}
OF_KIND = {
    "fbank": {
        "use_power",
        "use_log_fbank",
        "htk_compat",
        "use_energy",
        "mel",
        "low_freq",
        "high_freq",
        "warp",
        "floor",
        "added",
    },
    "mfcc": {"htk_compat", "use_energy", "num_mel_bins", "cepstral_lifter", "mel", "low_freq", "high_freq", "warp"},
    "plp": {"htk_compat", "use_energy", "num_mel_bins", "cepstral_lifter", "low_freq", "high_freq", "warp"},
    "spectrogram": set(),
}
# What the similarity of columns does not see, but where a floor cuts them: offsets and scales.
WITHOUT_SHAPE = ("scale", "cepstral_lifter", "floor")
WHOLE = {"preemphasis": "preemphasis", "offset": "DC removal"}
EXPLAINED = 3e-6  # of the similarity, from rounding
FOR_ALL = {
    "frame_length", "round_to_power_of_two", "window_type", "window", "preemphasis_coefficient", "remove_dc_offset",
    "whole", "padding", "snip_edges", "raw_energy", "scale",
}  # fmt: skip


@dataclass(frozen=True)
class Explanation:
    """The front end that made an array, as far as it could be found.

    Attributes:
        preset: name of a preset that gives the array; None if there is none.
        variant: the feature and its options; None for a preset, and where two arrays were compared.
        steps: what is done to the feature, in words and in order.
        residual: largest absolute difference from the array.
        is_exact: True if 99.9% of the differences are below the tolerance, and all below 30 times that.
        worst_frame, worst_column: where the residual is.
    """

    preset: str | None
    variant: Variant | None
    steps: tuple[str, ...]
    residual: float
    is_exact: bool
    worst_frame: int
    worst_column: int

    def __str__(self) -> str:
        made = f"preset {self.preset}" if self.preset else "" if self.variant is None else description(self.variant)
        steps = [*([made] if made else []), *self.steps]
        said = "; ".join(steps) or "equal"
        where = "" if self.is_exact else f" in frame {self.worst_frame}, column {self.worst_column}"
        sure = "" if self.is_exact else "not explained; the nearest is: "
        return f"{sure}{said}: largest difference {self.residual:.2g}{where}"


def explain(
    features: npt.ArrayLike,
    audio: npt.ArrayLike,
    sample_frequency: float | None = None,
    *,
    tolerance: float = TOLERANCE,
) -> Explanation:
    """Find the front end that made an array of features from audio, or what maps one array of features to another.

    Presets are tried first. Then options of Kaldi's features, and what ports of them often compute otherwise (Hz
    triangles, librosa's filters, periodic windows, another floor, centred frames, preemphasis of the whole recording)
    are chosen one after the other so that each explains most of what is left. Normalization, another logarithm,
    offsets, stacked frames, padding, shifts in time and transposed arrays are recognized.

    Args:
        features: array (frames, dim), or transposed.
        audio: the samples (T,) or (channels, T), as integers or floating point; or, without ``sample_frequency``,
            another array of features (frames, dim).
        sample_frequency: sampling rate of the audio in Hz.
        tolerance: absolute difference that counts as explained, for 99.9% of the values; a few may differ by 30 times
            as much. For features above 100 it is as much larger.

    Returns:
        The explanation; ``str()`` of it is a sentence.

    Raises:
        FeatureError: features that are not an array of two dimensions, are empty, hold NaN, or have a number of columns
            that no feature has.
        AudioError: audio of another shape, with NaN, or shorter than a frame.
        OptionError: a tolerance or a sampling rate that is not a number in its range, or features that are all equal.

    >>> import numpy as np
    >>> from kaldi_compat.features.numpy import Fbank
    >>> samples = np.random.default_rng(0).integers(-3000, 3000, 32000).astype(np.int16)
    >>> found = explain(Fbank(num_mel_bins=40, window_type="hamming", dither=0.0)(samples), samples, 16000)
    >>> print(found)
    fbank(num_mel_bins=40, window_type='hamming'): largest difference 0
    """
    target = _checked(features)
    require(0 <= tolerance < np.inf, f"tolerance={tolerance} must be a number of at least 0")
    tolerance *= max(1.0, float(np.abs(target).max()) / 100)
    if sample_frequency is None:
        return _between(target, _checked(audio), tolerance)
    require(0 < sample_frequency < np.inf, f"sample_frequency={sample_frequency} must be a positive number of Hz")
    require(float(np.ptp(target)) > 0, "all features are equal: there is nothing to explain")
    recording = _checked_audio(audio, sample_frequency)
    channels = [recording] if recording.ndim == 1 else [*recording, recording.mean(0)]
    names = [""] if recording.ndim == 1 else [*(f"channel {n}" for n in range(len(recording))), "mean of the channels"]
    found = []
    for name, channel in zip(names, channels, strict=True):
        answer = _of_channel(
            target, channel, sample_frequency, tolerance, (name,) if name and len(channels) > 2 else ()
        )
        found.append(answer)
        if answer.is_exact:
            break
    return min(found, key=lambda answer: answer.residual)


def description(variant: Variant) -> str:
    """Return a variant in words: its options that are not Kaldi's defaults, and what is not Kaldi's."""
    options = [each for each in settings(variant) if "=" in each]
    other = [each for each in settings(variant) if "=" not in each]
    return ", ".join([f"{variant.kind}({', '.join(options)})", *other])


def settings(variant: Variant) -> list[str]:
    """Return what distinguishes a variant from Kaldi's defaults."""
    plain = Variant(variant.kind)
    return [
        *(f"{name}={value!r}" for name, value in variant.options.items() if value != plain.value(name)),
        *([] if variant.scale == 1 else [f"samples times {variant.scale:g}"]),
        *([] if variant.window == "kaldi" else ["a periodic window"]),
        *([] if variant.mel == "kaldi" else [MELS[variant.mel]]),
        *([] if variant.floor == EPSILON else [f"a floor of {variant.floor:g}"]),
        *([] if not variant.added else [f"{variant.added:g} added before the logarithm"]),
        *([] if not variant.padding else [f"frames centred by padding ({variant.padding})"]),
        *(f"{WHOLE[step]} of the whole recording" for step in variant.whole),
        *([] if variant.warp == 1 else [f"VTLN factor {variant.warp:g}"]),
    ]


def _checked_audio(audio: npt.ArrayLike, sample_frequency: float) -> npt.NDArray[Any]:
    recording = np.asarray(audio)
    if recording.ndim not in (1, 2) or recording.size == 0 or recording.dtype.kind not in "iuf":
        raise AudioError(f"audio must be numbers (T,) or (channels, T), not {recording.dtype} {recording.shape}")
    if recording.ndim == 2 and len(recording) > MAX_CHANNELS:
        raise AudioError(
            f"audio of shape {recording.shape} has too many channels: pass (channels, T), not (T, channels)"
        )
    if recording.shape[-1] < 0.025 * sample_frequency:
        raise AudioError(f"the audio has {recording.shape[-1]} samples, less than a frame of 25 ms")
    if not np.isfinite(recording).all():
        raise AudioError("the audio holds NaN or infinity")
    return recording


def _checked(features: npt.ArrayLike) -> Doubles:
    array = np.asarray(features)
    if array.ndim == 3 and len(array) == 1:
        array = array[0]
    if array.ndim != 2 or array.size == 0 or array.dtype.kind not in "iuf":
        raise FeatureError(f"features must be an array (frames, dim), not {array.dtype} {array.shape}")
    if not np.isfinite(array).all():
        raise FeatureError("the features hold NaN or infinity: explain needs numbers")
    return array.astype(np.float64)


def _between(target: Doubles, features: Doubles, tolerance: float) -> Explanation:
    """Explain one array by another."""
    steps: list[str] = []
    if target.shape != features.shape and target.shape[::-1] == features.shape:
        target, steps = target.T, ["transposed"]
    if target.shape[1] != features.shape[1]:
        raise FeatureError(
            f"features of {target.shape[1]} and {features.shape[1]} columns cannot be mapped to each other"
        )
    if len(target) == len(features):
        best = fits.simplest(features, target, tolerance)
        if best.residual <= tolerance:
            return _answer(None, None, [*steps, best.name], best, target, tolerance)
        columns, best = _shifted_columns(features, target, best, tolerance)
        steps += columns
    shift, first, second = fits.shifted(features, target)
    moved = fits.simplest(first, second, tolerance)
    if shift and (len(target) != len(features) or moved.residual < best.residual):
        return _answer(None, None, [*steps, _shift_name(shift), moved.name], moved, second, tolerance)
    if len(target) != len(features):
        return _answer(
            None,
            None,
            [*steps, f"number of frames: {len(target)}, not {len(features)}", moved.name],
            moved,
            second,
            tolerance,
        )
    return _answer(None, None, [*steps, best.name], best, target, tolerance)


def _shifted_columns(features: Doubles, target: Doubles, best: Fit, tolerance: float) -> tuple[list[str], Fit]:
    """Return what a rotation of the columns explains, such as an energy in the last column, not the first."""
    for shift in (1, -1):
        rolled = fits.simplest(np.roll(features, shift, 1), target, tolerance)
        if rolled.residual <= tolerance < best.residual:
            return [f"columns rotated by {shift}"], rolled
    return [], best


def _shift_name(shift: int) -> str:
    what = "left out" if shift > 0 else "too many"
    return f"{abs(shift)} frame{'s' * (abs(shift) > 1)} {what} at the start"


def _of_channel(
    target: Doubles, channel: npt.NDArray[Any], rate: float, tolerance: float, steps: tuple[str, ...]
) -> Explanation:
    integers = channel.dtype.kind in "iu"
    samples = channel.astype(np.float32)
    found = _preset(target, samples / np.float32(32768) if integers else samples, rate, tolerance)
    if found is not None:
        return found
    said = list(steps)
    expected = round(len(samples) / rate * 100)
    if fits.transposed(target, expected):
        target, said = target.T, [*said, "transposed"]
    padded, target = fits.without_padding(target)
    stack, stride, single = fits.unstacked(target)
    after = [f"{stack} frames stacked, every {stride}"] if stack > 1 else []
    after += [f"{padded} rows of padding at the end"] if padded else []
    shift = _frame_shift(len(single), len(samples), rate)
    if len(samples) > LONGEST * rate:
        samples = samples[: int(LONGEST * rate)]
        single = single[: int(LONGEST * 1000 / shift) - 10]
    search = Search(single, samples, rate, tolerance)
    variant, start, fit, part = search.best(_starts(single.shape[1], shift))
    said += [_shift_name(start)] if start else []
    noise = [] if fit.residual <= tolerance else _dithering(variant, samples, rate, part, fit)
    return _answer(None, variant, [*said, fit.name, *noise, *after], fit, part, tolerance)


def _preset(target: Doubles, samples: npt.NDArray[np.float32], rate: float, tolerance: float) -> Explanation | None:
    """Return the preset that gives these features, if there is one. It takes audio in -1 to 1."""
    for name in preset_names():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                frontend = Frontend.from_preset(name, resample=False)
                features = np.asarray(frontend(samples, sampling_rate=int(rate)), np.float64)
            except KaldiCompatError:
                continue
        if features.shape == target.shape:
            fit = Fit("", fits.residual_of(features, target), features)
            if fit.residual <= tolerance:
                return _answer(name, None, [], fit, target, tolerance)
    return None


def _frame_shift(frames: int, samples: int, rate: float) -> float:
    """Return the usual frame shift in ms that gives about this number of frames."""
    return min(FRAME_SHIFTS, key=lambda shift: abs(samples / (rate * shift / 1000) - frames - 1))


def _starts(dim: int, shift: float) -> list[Variant]:
    """Return where the search begins: each kind of feature that can have this number of columns."""
    frames = {} if shift == 10.0 else {"frame_shift": shift}
    found = []
    if 10 <= dim <= MAX_BINS:
        # Of samples on another scale, a floor cuts another part.
        found += [Variant("fbank", frames | {"num_mel_bins": dim}, scale=scale) for scale in CHOICES["scale"]]
        found.append(Variant("fbank", frames | {"num_mel_bins": dim - 1, "use_energy": True}))
    if 4 <= dim <= 80:
        for bins in {23, 40, 80, dim} if dim > 23 else {23, 40}:
            found += [
                Variant("mfcc", frames | {"num_ceps": dim, "num_mel_bins": bins, "use_energy": energy})
                for energy in (True, False)
                if bins >= dim
            ]
    if 4 <= dim <= 24:
        found += [
            Variant("plp", frames | {"num_ceps": dim, "lpc_order": max(dim - 1, 1), "use_energy": e})
            for e in (True, False)
        ]
    if dim in (129, 201, 257, 513):
        length = {129: 12.5, 201: 25.0, 257: 25.0, 513: 64.0}[dim]
        extra = {} if length == 25.0 else {"frame_length": length}
        found.append(Variant("spectrogram", frames | extra | ({"round_to_power_of_two": False} if dim == 201 else {})))
    if not found:
        raise FeatureError(f"no feature of Kaldi's kind has {dim} columns")
    return found


class Search:
    """Chooses options one after the other, each so that the features resemble the target most.

    Args:
        target: the features (frames, dim).
        samples: the audio (T,).
        rate: its sampling rate in Hz.
        tolerance: largest absolute difference that ends the search.
    """

    def __init__(self, target: Doubles, samples: npt.NDArray[np.float32], rate: float, tolerance: float) -> None:
        self._target, self._samples, self._rate, self._tolerance = target, samples, rate, tolerance
        self._costs: dict[str, float] = {}

    def best(self, starts: list[Variant]) -> tuple[Variant, int, Fit, Doubles]:
        """Return the best variant, its shift in frames, how it maps to the target, and the part of that it explains."""
        starts = sorted(starts, key=self.cost)[:6]
        ends = [self._descend(start) for start in starts]
        variant = min(ends, key=self.cost)
        return self._settled(variant)

    def cost(self, variant: Variant) -> float:
        """Return how much of the target a variant leaves unexplained, whatever offset and scale each column has."""
        name = repr(variant)
        if name not in self._costs:
            try:
                features = self._features(variant)
                self._costs[name] = min(
                    (fits.similarity(first, second) for first, second in self._aligned(features)), default=2.0
                )
            except KaldiCompatError:
                self._costs[name] = 2.0
        return self._costs[name]

    def _features(self, variant: Variant) -> Doubles:
        features = variant.compute(self._samples, self._rate).astype(np.float64)
        if features.shape[1:] != self._target.shape[1:]:
            raise FeatureError(f"{features.shape[1]} columns")
        return np.clip(features, -1e30, 1e30)

    def _aligned(self, features: Doubles) -> Iterator[tuple[Doubles, Doubles]]:
        """Yield the frames that both may have, if there are a few more on one side."""
        more = len(features) - len(self._target)
        count = min(len(features), len(self._target))
        if count > 1 and abs(more) <= 8:
            for start in range(abs(more) + 1):
                first, second = (start, 0) if more > 0 else (0, start)
                yield features[first : first + count], self._target[second : second + count]

    def _descend(self, variant: Variant) -> Variant:
        """Change one option after the other, each time the one that explains most of what is left."""
        fixed = {"use_energy", "num_mel_bins"} if variant.kind == "fbank" else {"use_energy"}
        names = [name for name in CHOICES if name in (OF_KIND[variant.kind] | FOR_ALL) - fixed - set(WITHOUT_SHAPE)]
        while self.cost(variant) > EXPLAINED:
            changes = [variant.changed(name, value) for name in names for value in CHOICES[name]]
            best = min(changes, key=self.cost)
            if self.cost(best) > 0.99 * self.cost(variant):
                break
            variant = best
        return variant

    def _settled(self, variant: Variant) -> tuple[Variant, int, Fit, Doubles]:
        """Choose what changes offsets and scales of columns only, so that the simplest map is left."""
        found = []
        for number, candidate in enumerate(self._alike(variant)):
            shift, first, second = fits.shifted(self._features(candidate), self._target)
            fit = fits.simplest(first, second, self._tolerance)
            is_exact = fit.residual <= self._tolerance
            words = len(settings(candidate)) + 3 * bool(fit.name)
            cost = words if is_exact else fit.residual * (1 + 0.05 * words)
            found.append((not is_exact, cost, number, candidate, shift, fit, second))
        return min(found, key=lambda each: each[:3])[3:]

    def _alike(self, variant: Variant) -> Iterator[Variant]:
        """Yield variants that resemble the target as much."""
        names = [name for name in WITHOUT_SHAPE if name in OF_KIND[variant.kind] | FOR_ALL]
        for values in itertools.product(*(CHOICES[name] for name in names)):
            candidate = variant
            for name, value in zip(names, values, strict=True):
                candidate = candidate.changed(name, value)
            yield candidate
        for name in OF_KIND[variant.kind] - {"num_mel_bins", "use_energy"}:
            for value in CHOICES[name]:
                changed = variant.changed(name, value)
                if self.cost(changed) <= max(1.1 * self.cost(variant), EXPLAINED):
                    yield changed


def _dithering(variant: Variant, samples: npt.NDArray[np.float32], rate: float, part: Doubles, fit: Fit) -> list[str]:
    """Return words if noise on the samples explains the size of what is left."""
    left = float(np.sqrt(np.mean((fit.mapped - part) ** 2)))
    rng = np.random.default_rng(0)
    for size in (1.0, 0.1, 3e-5, 1 / 32768.0):
        noisy = variant.compute(samples + rng.normal(0, size, len(samples)).astype(np.float32) / variant.scale, rate)
        plain = variant.compute(samples, rate)
        made = float(np.sqrt(np.mean((noisy.astype(np.float64) - plain) ** 2)))
        if made / 2 < left < made * 2:
            return [f"noise as of dithering with about {size:g}"]
    return []


def _answer(
    preset: str | None, variant: Variant | None, steps: list[str], fit: Fit, target: Doubles, tolerance: float
) -> Explanation:
    difference = np.abs(fit.mapped - target)
    frame, column = np.unravel_index(int(difference.argmax()), difference.shape)
    said = tuple(step for step in steps if step)
    largest = float(difference[frame, column])
    return Explanation(preset, variant, said, largest, fit.residual <= tolerance, int(frame), int(column))
