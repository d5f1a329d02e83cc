"""Models of features: Kaldi's options, and what other libraries and ports of Kaldi compute otherwise.

The exact engine computes what Kaldi has. Of everything else it computes the FFT, and NumPy the rest.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from dataclasses import dataclass, field
from typing import Any

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
from kaldi_compat.options.base import make_options
from kaldi_compat.options.registry import SPECTRAL_FEATURES
from kaldi_compat.options.spectral import FbankOptions

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
    "reflect": "frames centred by padding (reflect)",
    "constant": "frames centred by padding (constant)",
    "reflect-window": "frames centred by padding (reflect) of half a window",
    "constant-window": "frames centred by padding (constant) of half a window",
    "reflect-shift": "padding (reflect) of half of the FFT less the shift, as in HiFi-GAN",
    "inside": "frames as long as the FFT, the window in their middle",
    "zeros": "zeros fill the last frame, as in python_speech_features",
}
DCTS = {"htk": "C0 times the root of 2, as in HTK", "sum": "a DCT that is not normalized"}
WHOLE = {"preemphasis": "preemphasis", "offset": "DC removal"}
BINS = {"log": "log power of all bins", "power": "power, no logarithm", "magnitude": "magnitudes, no logarithm"}
IN_PLACE = "preemphasis in place, from the first sample to the last"
EPSILON = float(np.finfo(F32).eps)
LARGEST_FACTOR = 29  # of the points of an FFT: others take long, and are rare
LEAST = 1e-300  # under the logarithm where there is no floor


@dataclass(frozen=True)
class FeatureModel:
    """One way to compute features of audio.

    Attributes:
        kind: "fbank", "mfcc", "plp" or "spectrogram".
        options: Kaldi's options by name, as far as they are not its defaults; without dithering.
        scale: the samples are multiplied by it.
        window: "kaldi", or "periodic" for the period of a cosine window, as torch and SciPy have it.
        points: points of the FFT; 0 for Kaldi's choice.
        mel: one of ``MELS``.
        corner: of the mel scale, ``ln(1 + f / corner)``, in Hz: 700 in Kaldi.
        floor: floor under energies before the logarithm; 0 for none.
        added: number added to energies before the logarithm.
        root: number added to the power before the root that gives magnitudes.
        span: log energies are at least the largest one less this; 0 leaves them.
        padding: "" for Kaldi's edges, or one of ``PADDINGS``.
        whole: what is done to the whole recording in place of each frame: "preemphasis", "offset" (DC removal).
        warp: VTLN factor.
        bins: of a spectrogram: "kaldi" with the energy in the first column; "log", "power" or "magnitude".
        dct: of cepstra: "kaldi", or one of ``DCTS``.
        energy: "kaldi", or "spectrum" for the sum of the power of all bins.
        in_place: preemphasis overwrites the samples that it still needs.
        precise: True for an FFT in double precision.
    """

    kind: str
    options: dict[str, Any] = field(default_factory=dict)
    scale: float = 1.0
    window: str = "kaldi"
    points: int = 0
    mel: str = "kaldi"
    corner: float = 700.0
    floor: float = EPSILON
    added: float = 0.0
    root: float = 0.0
    span: float = 0.0
    padding: str = ""
    whole: tuple[str, ...] = ()
    warp: float = 1.0
    bins: str = "kaldi"
    dct: str = "kaldi"
    energy: str = "kaldi"
    in_place: bool = False
    precise: bool = False

    def changed(self, name: str, value: Any) -> FeatureModel:
        """Return this model with another option or attribute; snip_edges takes the place of a padding."""
        if name in ATTRIBUTES:
            return dataclasses.replace(self, **{name: value})
        padding = "" if name == "snip_edges" else self.padding
        return dataclasses.replace(self, options=self.options | {name: value}, padding=padding)

    def value(self, name: str) -> Any:
        """Return the value of an option or an attribute."""
        if name in ATTRIBUTES:
            return getattr(self, name)
        return self.options.get(name, getattr(KINDS[self.kind], name, None))

    def settings(self) -> list[str]:
        """Return in words what distinguishes the model from Kaldi's defaults."""
        plain = FeatureModel(self.kind)
        return [
            *(f"{name}={value!r}" for name, value in self.options.items() if value != plain.value(name)),
            *([] if self.scale == 1 else [f"samples times {self.scale:g}"]),
            *([] if self.window == "kaldi" else ["a periodic window"]),
            *([] if not self.points else [f"an FFT of {self.points} points"]),
            *([] if self.mel == "kaldi" else [MELS[self.mel]]),
            *([] if self.corner == 700 else [f"mel scale ln(1 + f / {self.corner:g})"]),
            *([] if self.floor == EPSILON else [f"a floor of {self.floor:g}" if self.floor else "no floor"]),
            *([] if not self.added else [f"{self.added:g} added before the logarithm"]),
            *([] if not self.root else [f"{self.root:g} added to the power"]),
            *([] if not self.span else [f"at least the largest less {10 * self.span / math.log(10):g} dB"]),
            *([] if not self.padding else [PADDINGS[self.padding]]),
            *(f"{WHOLE[step]} of the whole recording" for step in self.whole),
            *([] if self.warp == 1 else [f"VTLN factor {self.warp:g}"]),
            *([] if self.bins == "kaldi" else [BINS[self.bins]]),
            *([] if self.dct == "kaldi" else [DCTS[self.dct]]),
            *([] if self.energy == "kaldi" else ["the energy is the sum of the power of all bins"]),
            *([] if not self.in_place else [IN_PLACE]),
            *([] if not self.precise else ["an FFT in double precision"]),
        ]

    def __str__(self) -> str:
        """Return the model in words: its options that are not Kaldi's defaults, and what is not Kaldi's."""
        options = [each for each in self.settings() if "=" in each]
        other = [each for each in self.settings() if "=" not in each]
        return ", ".join([f"{self.kind}({', '.join(options)})", *other])

    # Framing, in samples.

    def size(self, rate: float) -> int:
        """Return the number of samples in a frame."""
        return int(F32(rate) * 0.001 * F32(self.value("frame_length")))

    def shift(self, rate: float) -> int:
        """Return the number of samples from one frame to the next."""
        return int(F32(rate) * 0.001 * F32(self.value("frame_shift")))

    def fft_points(self, rate: float) -> int:
        """Return the number of points of the FFT."""
        size = self.size(rate)
        return self.points or (1 << (size - 1).bit_length() if self.value("round_to_power_of_two") else size)

    def first(self, rate: float) -> int:
        """Return the first sample of the first frame, from the beginning of the audio."""
        if self.padding or self.value("snip_edges"):
            return -self._around(rate)[0]
        return self.shift(rate) // 2 - self.size(rate) // 2

    def frames(self, length: float, rate: float) -> int:
        """Return the number of frames of so many samples."""
        size, shift = self.size(rate), self.shift(rate)
        if not self.padding and not self.value("snip_edges"):
            return int((length + shift // 2) // shift)
        if self.padding == "zeros":
            return 1 + max(0, math.ceil((length - size) / shift))
        return max(0, 1 + int(length + sum(self._around(rate)) - size) // shift)

    def _around(self, rate: float) -> tuple[int, int]:
        """Return the number of samples that padding adds before and after the audio; negative ones are left out."""
        if not self.padding or self.padding == "zeros":
            return 0, 0
        size, points = self.size(rate), self.fft_points(rate)
        if self.padding in ("reflect", "constant"):
            return points // 2, points // 2
        # Frames are as long as the FFT, with the window in their middle.
        around = {"inside": 0, "reflect-shift": (points - self.shift(rate)) // 2}.get(self.padding, points // 2)
        before = around - (points - size) // 2
        return before, 2 * around - points + size - before

    def padded(self, audio: Floats, rate: float) -> Floats:
        """Return audio with this model's padding."""
        if self.padding == "zeros":
            more = (self.frames(len(audio), rate) - 1) * self.shift(rate) + self.size(rate) - len(audio)
            return np.pad(audio, (0, max(more, 0)))
        before, after = self._around(rate)
        if self.padding == "inside":
            return audio[-before : len(audio) + after]
        mode = self.padding.partition("-")[0]
        if min(before, after) < 0 or (mode == "reflect" and len(audio) <= max(before, after)):
            raise OptionError("the audio is shorter than the padding, or the shift longer than the FFT")
        return np.pad(audio, (before, after), mode=mode)  # type: ignore[call-overload, no-any-return]

    # Computation.

    @property
    def is_kaldis(self) -> bool:
        """True if the exact engine has all of it."""
        return self == FeatureModel(self.kind, self.options, self.scale, warp=self.warp, precise=self.precise)

    def prepared(self, samples: Floats) -> Floats:
        """Return samples after what is done to the whole recording."""
        audio = samples * F32(self.scale) if self.scale != 1 else samples
        if "offset" in self.whole:
            audio = audio - audio.mean()
        if "preemphasis" in self.whole:
            factor = F32(self.value("preemphasis_coefficient"))
            audio = np.append(audio[:1], audio[1:] - factor * audio[:-1])
        return audio

    def compute(self, samples: Floats, sample_frequency: float) -> Floats:
        """Compute the features of audio (T,): float32 or float64 (frames, dim).

        Raises:
            OptionError: Kaldi would refuse the options, or the bins of an FFT of odd length are asked for.
        """
        audio, snips = self.prepared(samples), bool(self.padding or self.value("snip_edges"))
        audio = self.padded(audio, sample_frequency) if self.padding else audio
        if self.is_kaldis or self.kind == "plp":
            own = {"dither": 0.0, "sample_frequency": sample_frequency, "snip_edges": snips}
            return self._by_engine(audio, own)
        power = self._power(audio, sample_frequency, self.value("frame_shift"), snips)
        energies = np.zeros(len(power))
        if self.has_energy:
            frames = self._cut(audio, sample_frequency, self.shift(sample_frequency), snips)
            energies = self._frame_energies(frames, power, sample_frequency)
        return self.finished(power, energies, sample_frequency)  # type: ignore[return-value]

    def of_frames(self, audio: Floats, rate: float) -> tuple[Floats, Doubles]:
        """Return the power spectrum and the energies of frames (frames, size) that have been cut."""
        flat, size = audio.ravel(), milliseconds(audio.shape[1], rate)
        power = self._power(flat, rate, size, True)
        return power, self._frame_energies(audio, power, rate)

    def plp_of_frames(self, audio: Floats, rate: float) -> Floats:
        """Return the features of frames (frames, size) that have been cut, by the exact engine."""
        changes = {"dither": 0.0, "sample_frequency": rate, "frame_shift": milliseconds(audio.shape[1], rate)}
        return self._by_engine(audio.ravel(), changes | {"snip_edges": True})

    def _by_engine(self, audio: Floats, changes: dict[str, Any]) -> Floats:
        changes = self.options | changes
        if "preemphasis" in self.whole:
            changes = changes | {"preemphasis_coefficient": 0.0}
        if "offset" in self.whole:
            changes = changes | {"remove_dc_offset": False}
        plan = _plan(self.kind, tuple(sorted(changes.items())), self.window, 0, self.precise)
        [features] = features_of_list(plan, [audio], [self.warp], _no_seeds)
        return features

    def _power(self, audio: Floats, rate: float, shift: float, snips: bool) -> Floats:
        """Return the power spectrum (frames, points / 2 + 1) of audio as it has been prepared."""
        names = ("frame_length", "window_type", "blackman_coeff", "round_to_power_of_two")
        options = {name: self.value(name) for name in names if name in self.options}
        options |= {"frame_shift": shift, "snip_edges": snips, "dither": 0.0}
        options |= {"sample_frequency": rate, "return_raw_fft": True}
        options["preemphasis_coefficient"] = (
            0.0 if "preemphasis" in self.whole or self.in_place else self.value("preemphasis_coefficient")
        )
        options["remove_dc_offset"] = self.value("remove_dc_offset") and "offset" not in self.whole
        points = self.fft_points(rate)
        if points < self.size(rate):
            raise OptionError(f"an FFT of {points} points is shorter than the frame")
        plan = _plan("spectrogram", tuple(sorted(options.items())), self.window, self.points, self.precise)
        if plan.points % 2 or max(prime_factors(plan.points)) > LARGEST_FACTOR:
            raise OptionError(f"nobody has an FFT of {plan.points} points")
        if self.in_place:
            frames = self._cut(audio, rate, plan.shift, snips)
            frames = frames - frames.mean(1, keepdims=True) if options["remove_dc_offset"] else frames
            for n in range(1, frames.shape[1]):
                frames[:, n] -= F32(self.value("preemphasis_coefficient")) * frames[:, n - 1]
            spectrum = np.fft.rfft(frames * plan.window, points)
            return (spectrum.real**2 + spectrum.imag**2).astype(F32)
        [raw] = features_of_list(plan, [audio], [1.0], _no_seeds)
        first, last, pairs = raw[:, :1], raw[:, 1:2], raw[:, 2:] ** 2
        return np.concatenate((first**2, pairs[:, ::2] + pairs[:, 1::2], last**2), axis=1)

    def _cut(self, audio: Floats, rate: float, shift: int, snips: bool) -> Floats:
        """Return the frames (frames, size) of audio."""
        size = self.size(rate)
        count = 1 + (len(audio) - size) // shift if snips else int((len(audio) + shift // 2) // shift)
        index = np.arange(max(count, 0))[:, None] * shift + np.arange(size) + (0 if snips else shift // 2 - size // 2)
        index = np.where(index < 0, -index - 1, index) % (2 * len(audio))  # mirrored at the ends, as in Kaldi
        return np.asarray(audio[np.minimum(index, 2 * len(audio) - 1 - index)], F32)

    @property
    def has_energy(self) -> bool:
        """True if a column holds the frame's log energy."""
        return bool(self.value("use_energy")) or (self.kind == "spectrogram" and self.bins == "kaldi")

    def _frame_energies(self, frames: Floats, power: Floats, rate: float) -> Doubles:
        """Return the energies of frames: of the samples, or of their spectrum."""
        points = self.fft_points(rate)
        if self.energy == "spectrum":
            return power.sum(1, dtype=np.float64) / points  # type: ignore[no-any-return]
        if self.value("raw_energy"):
            offset = self.value("remove_dc_offset") and "offset" not in self.whole
            wide = frames.astype(np.float64)
            wide = wide - wide.mean(1, keepdims=True) if offset else wide
            return np.einsum("ij,ij->i", wide, wide)  # type: ignore[no-any-return]
        return (2 * power.sum(1, dtype=np.float64) - power[:, 0] - power[:, -1]) / points  # type: ignore[no-any-return]

    def finished(self, power: Floats, energies: Doubles, rate: float, largest: float = -np.inf) -> Doubles:
        """Return the features of power spectra (frames, points / 2 + 1) and energies (frames,).

        Args:
            power: the spectra.
            energies: the energies.
            rate: sampling rate in Hz.
            largest: largest log energy of other frames, for ``span``.
        """
        spectrum = power.astype(np.float64)
        magnitude = self.value("use_power") is False or self.bins == "magnitude"
        if magnitude:
            spectrum = np.sqrt(spectrum + self.root)
        log_energy = np.log(np.maximum(energies, max(self.value("energy_floor") or 0.0, EPSILON)))
        if self.energy == "spectrum" and self.floor != EPSILON:
            log_energy = np.log(np.maximum(energies, self.floor / self.fft_points(rate) or LEAST))
        if self.kind == "spectrogram":
            if self.bins in ("power", "magnitude"):
                return spectrum
            features = self._logarithm(spectrum, largest)
            if self.bins == "kaldi":
                features[:, 0] = log_energy
            return features
        filters = mel_filters(
            self.mel, rate, self.fft_points(rate), self.value("num_mel_bins"), self.value("low_freq"),
            self.value("high_freq"), self.warp, self.corner,
        )  # fmt: skip
        bands = filters(spectrum)
        if self.kind == "fbank":
            features = self._logarithm(bands, largest) if self.value("use_log_fbank") else bands
            if self.value("use_energy"):
                parts = (features, log_energy[:, None])
                features = np.hstack(parts if self.value("htk_compat") else parts[::-1])
            return features
        return self._cepstra(self._logarithm(bands, largest), log_energy)

    def _logarithm(self, energies: Doubles, largest: float) -> Doubles:
        features: Doubles = np.log(np.maximum(np.maximum(energies, self.floor) + self.added, LEAST))
        return np.maximum(features, features.max(initial=largest) - self.span) if self.span else features

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


ATTRIBUTES = [each.name for each in dataclasses.fields(FeatureModel) if each.name not in ("kind", "options")]


def milliseconds(samples: int, rate: float) -> float:
    """Return a time of few digits that Kaldi takes for so many samples."""
    for digits in range(1, 8):
        for time in (round(1000 * samples / rate, digits), round(1000 * samples / rate + 0.6 * 10**-digits, digits)):
            if int(F32(rate) * 0.001 * F32(time)) == samples:
                return float(time)
    return 1000 * (samples + 0.5) / rate


@functools.lru_cache(maxsize=64)
def _cosines(count: int, bins: int) -> Doubles:
    return np.ascontiguousarray(tables.dct(count, bins).T.astype(np.float64))


def _no_seeds(count: int) -> npt.NDArray[np.int32]:
    return np.zeros(count, np.int32)


@functools.lru_cache(maxsize=512)
def _plan(kind: str, items: tuple[tuple[str, Any], ...], window: str, points: int, precise: bool) -> Plan:
    empty = {} if kind == "spectrogram" else {"allow_empty_bins": True}
    options = make_options(kind, KINDS[kind], None, dict(items) | empty)
    plan = plan_of(options)
    changes: dict[str, Any] = {"accurate_fft": True} if precise else {}
    if window == "periodic":
        # A period is a window of one sample more, without its last one.
        changes["window"] = tables.window(options.window_type, plan.size + 1, options.blackman_coeff)[:-1].copy()
    if points:
        changes |= {"points": points, "dim": points}
    return dataclasses.replace(plan, **changes) if changes else plan


class MelFilters:
    """Filters on a spectrum, which hold few bins each.

    Args:
        weights: (points / 2 + 1, bins).
    """

    def __init__(self, weights: Doubles) -> None:
        used = weights != 0
        first = used.argmax(0)
        last = np.maximum(len(weights) - used[::-1].argmax(0), first + 1)
        last = np.where(used.any(0), last, first + 1)
        self._bins = np.concatenate([np.arange(*ends) for ends in zip(first, last, strict=True)])
        self._starts = np.cumsum(last - first) - (last - first)
        self._weights = weights[self._bins, np.repeat(np.arange(len(first)), last - first)]

    def __call__(self, spectrum: Doubles) -> Doubles:
        """Return the energies (frames, bins) of spectra (frames, points / 2 + 1)."""
        energies: Doubles = np.add.reduceat(spectrum[:, self._bins] * self._weights, self._starts, axis=1)
        return energies


@functools.lru_cache(maxsize=256)
def mel_filters(
    mel: str, rate: float, points: int, bins: int, low: float, high: float, warp: float = 1.0, corner: float = 700.0
) -> MelFilters:
    """Return filters on a spectrum.

    Raises:
        OptionError: Kaldi refuses the options, or the edges are out of order.
    """
    if warp != 1 or (mel == "kaldi" and corner == 700):
        options = FbankOptions(
            sample_frequency=rate, frame_length=milliseconds(points, rate), round_to_power_of_two=False,
            num_mel_bins=bins, low_freq=low, high_freq=high, allow_empty_bins=True,
        )  # fmt: skip
        return MelFilters(mel_banks(options, warp).weights.astype(np.float64))
    high = high if high > 0 else 0.5 * rate + high
    if not 0 <= low < high <= 0.5 * rate + 1:
        raise OptionError(f"low_freq={low:g} and high_freq={high:g} Hz are out of order")
    scale = Scale("slaney" if mel in SLANEYS else "mel", corner)
    edges = scale.hertz(np.linspace(*scale.of(np.array([low, high])), bins + 2))  # type: ignore[call-overload]
    if mel.startswith("snapped"):
        # An edge on a bin stays, whatever its rounding.
        edges = np.floor(edges * (points + (mel == "snapped-more")) / rate + 1e-3) * rate / points
    at = (np.arange(points // 2 + 1) * rate / points)[:, None]
    if mel == "kaldi":
        edges, at = scale.of(edges), scale.of(at)
    left, center, right = edges[:-2], edges[1:-1], edges[2:]
    right = 2 * center - left if mel == "symmetric" else right
    with np.errstate(divide="ignore", invalid="ignore"):
        weights = np.where(at <= center, (at - left) / (center - left), (right - at) / (right - center))
    weights = np.where((at >= left) & (at <= right) & np.isfinite(weights), weights, 0).clip(0)
    return MelFilters(weights * (2 / (right - left) if mel in ("slaney", "htk-area") else 1))


@dataclass(frozen=True)
class Scale:
    """Scale of frequencies on which the centres of filters are equally far apart: "mel", "slaney" or "linear"."""

    name: str
    corner: float = 700.0

    def of(self, hertz: Doubles) -> Doubles:
        """Convert Hz to this scale."""
        if self.name == "mel":
            return np.log1p(hertz / self.corner)
        return np.asarray(slaney_mel(hertz) if self.name == "slaney" else hertz, np.float64)

    def hertz(self, values: Doubles) -> Doubles:
        """Convert this scale to Hz."""
        if self.name == "mel":
            return self.corner * np.expm1(values)
        return np.asarray(slaney_hertz(values) if self.name == "slaney" else values, np.float64)
