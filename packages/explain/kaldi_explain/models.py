"""Models of features: Kaldi's options, and what other libraries and ports of Kaldi compute otherwise.

The exact engine computes what Kaldi has, NumPy the rest in double precision.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from kaldi_compat.errors import OptionError
from kaldi_compat.exact import tables
from kaldi_compat.exact.arrays import Doubles, Floats
from kaldi_compat.exact.engine import features_of_list
from kaldi_compat.exact.fft import prime_factors
from kaldi_compat.exact.librosa_mel import slaney_hertz, slaney_mel
from kaldi_compat.exact.mel import mel_banks
from kaldi_compat.exact.plan import Plan, plan_of
from kaldi_compat.exact.rand import KaldiRandom
from kaldi_compat.options.base import make_options
from kaldi_compat.options.registry import SPECTRAL_FEATURES
from kaldi_compat.options.spectral import FbankOptions, SpectrogramOptions

F32 = np.float32
KINDS = {name: feature.options for name, feature in SPECTRAL_FEATURES.items()}
MELS = {
    "kaldi": "triangles on the mel scale",
    "hertz": "triangles in Hz between mel edges",
    "snapped": "edges of mel bins rounded down to bins of the FFT",
    "snapped-more": "edges of mel bins rounded down to bins of an FFT of one point more, as in python_speech_features",
    "symmetric": "triangles in Hz as wide as their left half, as in SpeechBrain",
    "slaney": "librosa's filters on Slaney's scale, of equal area",
    "slaney-height": "librosa's filters on Slaney's scale, of equal height",
    "htk-area": "librosa's filters on HTK's scale, of equal area",
}
SLANEYS = ("slaney", "slaney-height")
PADDINGS = {
    "reflect": "frames centered by padding (reflect)",
    "constant": "frames centered by padding (constant)",
    "reflect-window": "frames centered by padding (reflect) of half a window",
    "constant-window": "frames centered by padding (constant) of half a window",
    "reflect-shift": "padding (reflect) of half of the FFT less the shift, as in HiFi-GAN",
    "inside": "frames as long as the FFT, the window in their middle",
    "zeros": "zeros fill the last frame, as in python_speech_features",
}
DCTS = {"htk": "C0 times the root of 2, as in HTK", "sum": "a DCT that is not normalized"}
COUNTS = ("num_ceps", "num_mel_bins")  # options that are named first
OFFSET, PREEMPHASIS = "DC removal of the whole recording", "preemphasis of the whole recording"
EPSILON = float(np.finfo(F32).eps)
# Words for the attributes of a model; a format, or the words for each value.
WORDS: dict[str, str | dict[Any, str]] = {
    "scale": "samples times {:g}",
    "window": {"periodic": "a periodic window"},
    "points": "an FFT of {} points",
    "mel": MELS,
    "corner": "mel scale ln(1 + f / {:g})",
    "floor": "a floor of {:g}",
    "added": "{:g} added before the logarithm",
    "root": "{:g} added to the power",
    "span": "at least the largest less {:g} dB",
    "padding": PADDINGS,
    "whole": {
        ("preemphasis",): PREEMPHASIS,
        ("offset",): OFFSET,
        ("offset", "preemphasis"): f"{OFFSET}, {PREEMPHASIS}",
    },
    "warp": "VTLN factor {:g}",
    "bins": {
        "log": "log power of all bins",
        "power": "power, no logarithm",
        "magnitude": "magnitudes, no logarithm",
    },
    "magnitudes": {True: "of magnitudes"},
    "dct": DCTS,
    "energy": {"spectrum": "the energy is the sum of the power of all bins"},
    "in_place": {True: "preemphasis in place, from the first sample to the last"},
    "precise": {True: "an FFT in double precision"},
    "dithered": {True: "dithered as the first utterance of a run of Kaldi's"},
}
# Attributes that the exact engine has, or that precede it.
OF_KALDI = {"scale", "padding", "whole", "warp", "precise", "dithered"}
NO_FLOOR = "no floor"
LARGEST_FACTOR = 29  # of the points of an FFT: others take long, and are rare
LEAST = 1e-300  # under the logarithm where there is no floor
BLOCK = 4096  # frames that are computed at once
Model = TypeVar("Model", bound="FeatureModel")


@dataclass(frozen=True)
class FeatureModel:
    """One way to compute features of audio."""

    kind: str  # "fbank", "mfcc", "plp" or "spectrogram"
    rate: float = 16000.0  # sampling rate in Hz
    # Kaldi's options by name, as far as they are not its defaults; without dithering
    options: dict[str, Any] = field(default_factory=dict)
    scale: float = 1.0  # the samples are multiplied by it
    window: str = "kaldi"  # "kaldi", or "periodic" for the period of a cosine window, as torch and SciPy have it
    points: int = 0  # points of the FFT; 0 for Kaldi's choice
    mel: str = "kaldi"  # one of ``MELS``
    corner: float = 700.0  # of the mel scale, ``ln(1 + f / corner)``, in Hz: 700 in Kaldi
    floor: float = EPSILON  # floor under energies before the logarithm; 0 for none
    added: float = 0.0  # number added to energies before the logarithm
    root: float = 0.0  # number added to the power before the root that gives magnitudes
    span: float = 0.0  # log energies are at least the largest one less so many dB; 0 leaves them
    padding: str = ""  # "" for Kaldi's edges, or one of ``PADDINGS``
    # what is done to the whole recording in place of each frame: "offset" (DC removal), "preemphasis"
    whole: tuple[str, ...] = ()
    warp: float = 1.0  # VTLN factor
    bins: str = "kaldi"  # of a spectrogram: "kaldi" with the energy in the first column; "log", "power" or "magnitude"
    magnitudes: bool = False  # True for mel energies of cepstra that are sums of magnitudes
    dct: str = "kaldi"  # of cepstra: "kaldi", or one of ``DCTS``
    energy: str = "kaldi"  # "kaldi", or "spectrum" for the sum of the power of all bins
    in_place: bool = False  # preemphasis overwrites the samples that it still needs
    precise: bool = False  # True for an FFT in double precision
    dithered: bool = False  # True for Kaldi's noise, as for the first utterance of a run

    def change(self: Model, changes: Mapping[str, Any]) -> Model:
        """Return this model with other options or attributes; a padding and snip_edges take each other's place."""
        edges = {"padding": ""} if "snip_edges" in changes else {"snip_edges": True} if changes.get("padding") else {}
        names = self.__dataclass_fields__
        own, options = dict[str, Any](), dict(self.options)
        for name, value in (edges | {**changes}).items():
            (own if name in names else options)[name] = value
        options = {name: value for name, value in options.items() if value != self.default(name)}
        return dataclasses.replace(self, options=options, **own)

    def value(self, name: str) -> Any:
        """Return the value of an option or an attribute."""
        if name in self.options:
            return self.options[name]
        return getattr(self, name) if name in self.__dataclass_fields__ else self.default(name)

    def default(self, name: str) -> Any:
        """Return Kaldi's value of an option or an attribute; None for an option that the feature does not have."""
        return _default(self.kind, name)

    def settings(self) -> list[str]:
        """Return in words what distinguishes the model from Kaldi's defaults, options last."""
        said = []
        for name, words in WORDS.items():
            value = getattr(self, name)
            if value != self.default(name):
                said.append(words.get(value, "") if isinstance(words, dict) else words.format(value))
        names = dict.fromkeys([*COUNTS, *(each.name for each in dataclasses.fields(KINDS[self.kind]))])
        options = [f"{name}={self.value(name)!r}" for name in names if self.value(name) != self.default(name)]
        return options + [NO_FLOOR if each == "a floor of 0" else each for each in said]

    def __str__(self) -> str:
        """Return the model in words: its options that are not Kaldi's defaults, and what is not Kaldi's."""
        options = [each for each in self.settings() if "=" in each]
        other = [each for each in self.settings() if "=" not in each]
        return ", ".join([f"{self.kind}({', '.join(options)})", *other])

    # Framing, in samples.

    @functools.cached_property
    def size(self) -> int:
        """Number of samples in a frame."""
        return int(F32(self.rate) * 0.001 * F32(self.value("frame_length")))

    @functools.cached_property
    def shift(self) -> int:
        """Number of samples from one frame to the next."""
        return int(F32(self.rate) * 0.001 * F32(self.value("frame_shift")))

    @functools.cached_property
    def fft_points(self) -> int:
        """Number of points of the FFT."""
        return self.points or (1 << (self.size - 1).bit_length() if self.value("round_to_power_of_two") else self.size)

    @property
    def first(self) -> int:
        """First sample of the first frame, from the beginning of the audio."""
        if self.padding or self.value("snip_edges"):
            return -self._around[0]
        return self.shift // 2 - self.size // 2

    @property
    def _around(self) -> tuple[int, int]:
        """Number of samples that padding adds before and after the audio; negative ones are left out."""
        if not self.padding or self.padding == "zeros":
            return 0, 0
        size, points = self.size, self.fft_points
        if self.padding in ("reflect", "constant"):
            return points // 2, points // 2
        # Frames are as long as the FFT, with the window in their middle.
        around = {"inside": 0, "reflect-shift": (points - self.shift) // 2}.get(self.padding, points // 2)
        before = around - (points - size) // 2
        return before, 2 * around - points + size - before

    def _padded(self, audio: Floats) -> Floats:
        """Return audio with this model's padding."""
        if self.padding == "zeros":
            return np.pad(audio, (0, -(max(len(audio), self.size) - self.size) % self.shift))
        before, after = self._around
        if not before and not after:
            return audio
        if self.padding == "inside":
            return audio[-before : len(audio) + after]
        mode = self.padding.partition("-")[0]
        if min(before, after) < 0 or (mode == "reflect" and len(audio) <= max(before, after)):
            raise OptionError("the audio is shorter than the padding, or the shift longer than the FFT")
        return np.pad(audio, (before, after), mode=mode)  # type: ignore[call-overload, no-any-return]

    def _cut(self, audio: Floats) -> Floats:
        """Return the frames (frames, size) of padded audio."""
        if not self.padding and not self.value("snip_edges"):
            count, before = (len(audio) + self.shift // 2) // self.shift, max(-self.first, 0)
            audio = np.pad(audio, (before, self.size), mode="symmetric")[max(self.first, 0) :]
            return np.lib.stride_tricks.sliding_window_view(audio, self.size)[:: self.shift][:count]
        if len(audio) < self.size:
            return np.zeros((0, self.size), F32)
        return np.lib.stride_tricks.sliding_window_view(audio, self.size)[:: self.shift]

    # Computation.

    @property
    def is_kaldis(self) -> bool:
        """Return True if the exact engine computes all of the model."""
        return self.kind == "plp" or all(getattr(self, name) == self.default(name) for name in WORDS.keys() - OF_KALDI)

    def prepare(self, samples: Floats) -> Floats:
        """Return samples after what is done to the whole recording."""
        audio = samples - samples.mean() if "offset" in self.whole else samples
        if "preemphasis" in self.whole:
            factor = F32(self.value("preemphasis_coefficient"))
            audio = np.append(audio[:1], audio[1:] - factor * audio[:-1])
        return audio

    def compute(self, samples: Floats) -> Floats | Doubles:
        """Compute the features of audio (T,): float32 or float64 (frames, dim).

        Raises:
            OptionError: Kaldi would refuse the options, or nobody has such an FFT.
        """
        audio = self._padded(self.prepare(samples))
        if self.is_kaldis:
            return self._by_engine(audio, {"snip_edges": bool(self.padding or self.value("snip_edges"))})
        frames = self._cut(audio)
        blocks = [self.spectra(frames[first : first + BLOCK]) for first in range(0, max(len(frames), 1), BLOCK)]
        power, energies = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
        return self.finish(power, energies)

    def plp_of_frames(self, frames: Floats) -> Floats:
        """Return the PLP features of prepared frames (frames, size)."""
        shift = {"frame_shift": milliseconds(frames.shape[1], self.rate), "snip_edges": True}
        return self._by_engine(frames.ravel(), shift)

    def _by_engine(self, audio: Floats, changes: dict[str, Any]) -> Floats:
        audio = audio * F32(self.scale) if self.scale != 1 else audio
        options = self.options | changes | {"dither": float(self.dithered), "sample_frequency": self.rate}
        if "preemphasis" in self.whole:
            options["preemphasis_coefficient"] = 0.0
        if "offset" in self.whole:
            options["remove_dc_offset"] = False
        if self.kind != "spectrogram":
            options["allow_empty_bins"] = True
        plan = plan_of(make_options(self.kind, KINDS[self.kind], None, options))
        plan = dataclasses.replace(plan, accurate_fft=True) if self.precise else plan
        seeds = KaldiRandom().frame_seeds if self.dithered else _no_seeds
        [features] = features_of_list(plan, [audio], [self.warp], seeds)
        return features

    def spectra(self, frames: Floats) -> tuple[Doubles, Doubles]:
        """Return the power spectrum (frames, points / 2 + 1) and the energies (frames,) of prepared frames."""
        points, factor = self.fft_points, self.value("preemphasis_coefficient")
        if points < frames.shape[1] or points % 2 or max(prime_factors(points)) > LARGEST_FACTOR:
            raise OptionError(f"nobody has an FFT of {points} points for a frame of {frames.shape[1]} samples")
        samples = frames.astype(np.float64)
        if self.value("remove_dc_offset") and "offset" not in self.whole:
            samples -= samples.mean(1, keepdims=True)
        energies = np.einsum("ij,ij->i", samples, samples)
        if self.in_place:
            for n in range(1, samples.shape[1]):
                samples[:, n] -= factor * samples[:, n - 1]
        elif factor and "preemphasis" not in self.whole:
            samples = samples - factor * np.hstack((samples[:, :1], samples[:, :-1]))
        windowed = samples * _window(
            self.value("window_type"), samples.shape[1], self.value("blackman_coeff"), self.window == "periodic"
        )
        power = _power(windowed, points) if self.precise else _rounded_power(windowed.astype(F32), points, self.rate)
        if self.energy == "spectrum":
            energies = power.sum(1) / points
        elif not self.value("raw_energy"):
            energies = (2 * power.sum(1) - power[:, 0] - power[:, -1]) / points
        return power, energies

    def finish(self, power: Doubles, energies: Doubles) -> Doubles:
        """Return the features of power spectra (frames, points / 2 + 1) and energies (frames,) of unscaled samples."""
        power, energies = power * self.scale**2, energies * self.scale**2
        magnitude = self.value("use_power") is False or self.bins == "magnitude" or self.magnitudes
        spectrum = np.sqrt(power + self.root) if magnitude else power
        floor = max(self.value("energy_floor") or 0.0, EPSILON)
        if self.energy == "spectrum" and self.floor != EPSILON:
            floor = self.floor / self.fft_points or LEAST
        log_energy = np.log(np.maximum(energies, floor))
        if self.kind == "spectrogram":
            if self.bins in ("power", "magnitude"):
                return spectrum
            features = self._logarithm(spectrum)
            if self.bins == "kaldi":
                features[:, 0] = log_energy
            return features
        bins, weights, starts = mel_filters(
            self.mel, self.rate, self.fft_points, self.value("num_mel_bins"), self.value("low_freq"),
            self.value("high_freq"), self.warp, self.corner,
        )  # fmt: skip
        bands = np.add.reduceat(spectrum[:, bins] * weights, starts, axis=1)
        if self.kind == "fbank":
            features = self._logarithm(bands) if self.value("use_log_fbank") else bands
            parts = (features, log_energy[:, None])
            has_energy, at_end = self.value("use_energy"), self.value("htk_compat")
            return np.hstack(parts if at_end else parts[::-1]) if has_energy else features
        return self._cepstra(self._logarithm(bands), log_energy)

    def _logarithm(self, energies: Doubles) -> Doubles:
        features: Doubles = np.log(np.maximum(np.maximum(energies, self.floor) + self.added, LEAST))
        least = features.max(initial=-np.inf) - self.span * math.log(10) / 10
        return np.maximum(features, least) if self.span else features

    def _cepstra(self, bands: Doubles, log_energy: Doubles) -> Doubles:
        count, bins = self.value("num_ceps"), self.value("num_mel_bins")
        features = bands @ _cosines(count, bins)
        features *= tables.lifter(count, self.value("cepstral_lifter"))
        if self.value("htk_compat") and not self.value("use_energy"):
            features[:, 0] *= math.sqrt(2)
        if self.dct != "kaldi":
            features[:, :1] *= math.sqrt(2)
            features *= math.sqrt(2 * bins) if self.dct == "sum" else 1
        if self.value("use_energy"):
            features[:, 0] = log_energy
        return np.roll(features, -1, 1) if self.value("htk_compat") else features


@functools.cache
def _default(kind: str, name: str) -> Any:
    return getattr(KINDS[kind], name, getattr(FeatureModel, name, None))


def milliseconds(samples: int, rate: float) -> float:
    """Return a time of few digits that Kaldi takes for so many samples."""
    for digits in range(1, 8):
        for time in (round(1000 * samples / rate, digits), round(1000 * samples / rate + 0.6 * 10**-digits, digits)):
            if int(F32(rate) * 0.001 * F32(time)) == samples:
                return float(time)
    return 1000 * (samples + 0.5) / rate


def _power(windowed: Doubles, points: int) -> Doubles:
    """Return the power spectrum (frames, points / 2 + 1) of windowed frames."""
    spectrum = np.fft.rfft(windowed, points)
    return np.asarray(spectrum.real**2 + spectrum.imag**2)


def _rounded_power(windowed: Floats, points: int, rate: float) -> Doubles:
    """Return the power spectrum by Kaldi's FFT in single precision."""
    plan = _fft_plan(windowed.shape[1], points, rate)
    [raw] = features_of_list(plan, [windowed.ravel()], [1.0], _no_seeds)
    first, last, pairs = raw[:, :1], raw[:, 1:2], raw[:, 2:] ** 2
    return np.hstack((first**2, pairs[:, ::2] + pairs[:, 1::2], last**2)).astype(np.float64)


@functools.lru_cache(maxsize=64)
def _fft_plan(size: int, points: int, rate: float) -> Plan:
    length = milliseconds(size, rate)
    options = SpectrogramOptions(
        sample_frequency=rate, frame_length=length, frame_shift=length, window_type="rectangular", dither=0.0,
        preemphasis_coefficient=0.0, remove_dc_offset=False, return_raw_fft=True,
    )  # fmt: skip
    return dataclasses.replace(plan_of(options), points=points, dim=points)


def _no_seeds(count: int) -> npt.NDArray[np.int32]:
    return np.zeros(count, np.int32)


@functools.lru_cache(maxsize=64)
def _cosines(count: int, bins: int) -> Doubles:
    return np.ascontiguousarray(tables.dct(count, bins).T.astype(np.float64))


@functools.lru_cache(maxsize=64)
def _window(window_type: str, size: int, blackman_coeff: float, periodic: bool) -> Doubles:
    """Return a window (size,); a period is one of a sample more, without its last one."""
    return tables.window(window_type, size + periodic, blackman_coeff)[:size].astype(np.float64)


@functools.lru_cache(maxsize=256)
def mel_filters(
    mel: str, rate: float, points: int, bins: int, low: float, high: float, warp: float = 1.0, corner: float = 700.0
) -> tuple[npt.NDArray[np.intp], Doubles, npt.NDArray[np.intp]]:
    """Return filters on a spectrum: bins of the FFT and weights, one filter after the other, and where each begins.

    Raises:
        OptionError: Kaldi refuses the options, or the edges are out of order.
    """
    if warp != 1 or (mel == "kaldi" and corner == 700):
        options = FbankOptions(
            sample_frequency=rate, frame_length=milliseconds(points, rate), round_to_power_of_two=False,
            num_mel_bins=bins, low_freq=low, high_freq=high, allow_empty_bins=True,
        )  # fmt: skip
        weights = mel_banks(options, warp).weights.astype(np.float64)
    else:
        high = high if high > 0 else 0.5 * rate + high
        if not 0 <= low < high <= 0.5 * rate + 1:
            raise OptionError(f"low_freq={low:g} and high_freq={high:g} Hz are out of order")
        weights = _triangles(mel, rate, points, bins, low, high, corner)
    used = weights.T != 0
    used[~used.any(1), 0] = True  # a filter without a bin is zero
    filters, places = np.nonzero(used)
    return places, weights.T[used], np.searchsorted(filters, np.arange(bins))


def _triangles(mel: str, rate: float, points: int, bins: int, low: float, high: float, corner: float) -> Doubles:
    """Return the weights (points / 2 + 1, bins) of filters that are not Kaldi's."""
    is_slaney = mel in SLANEYS
    edges = hertz_of(np.linspace(*mel_of(np.array([low, high]), is_slaney, corner), bins + 2), is_slaney, corner)  # type: ignore[call-overload]
    if mel.startswith("snapped"):
        # An edge on a bin stays, whatever its rounding.
        edges = np.floor(edges * (points + (mel == "snapped-more")) / rate + 1e-3) * rate / points
    at = (np.arange(points // 2 + 1) * rate / points)[:, None]
    if mel == "kaldi":
        edges, at = mel_of(edges, False, corner), mel_of(at, False, corner)
    left, center, right = edges[:-2], edges[1:-1], edges[2:]
    right = 2 * center - left if mel == "symmetric" else right
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = np.where(at < center, (at - left) / (center - left), (right - at) / (right - center))
    if mel == "snapped":
        weights = np.where((at == center) & (left < right), 1, weights)
    weights = np.where((at >= left) & (at <= right) & np.isfinite(weights), weights, 0).clip(0)
    return weights * (2 / (right - left) if mel in ("slaney", "htk-area") else 1)


def mel_of(hertz: Doubles, is_slaney: bool = False, corner: float = 700.0) -> Doubles:
    """Convert Hz to the mel scale, up to a factor, or to Slaney's."""
    return np.asarray(slaney_mel(hertz), np.float64) if is_slaney else np.log1p(hertz / corner)


def hertz_of(mel: Doubles, is_slaney: bool = False, corner: float = 700.0) -> Doubles:
    """Convert the scale of :func:`mel_of` to Hz."""
    return np.asarray(slaney_hertz(mel), np.float64) if is_slaney else corner * np.expm1(mel)
