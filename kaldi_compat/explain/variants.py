"""Variants of Kaldi's features: its options, and what ports of it compute otherwise.

A variant is computed by the exact engine, of which it replaces the window, the mel filters or the logarithm.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from kaldi_compat.errors import OptionError
from kaldi_compat.exact import tables
from kaldi_compat.exact.arrays import Floats
from kaldi_compat.exact.engine import features_of_list
from kaldi_compat.exact.librosa_mel import librosa_filters
from kaldi_compat.exact.mel import inverse_mel_scale, mel_banks, mel_scale
from kaldi_compat.exact.plan import MelTable, Plan, plan_of, table_of
from kaldi_compat.options.base import configured
from kaldi_compat.options.spectral import FbankOptions, FrameOptions, MfccOptions, PlpOptions, SpectrogramOptions

F32 = np.float32
KINDS: dict[str, type[FrameOptions]] = {
    "fbank": FbankOptions,
    "mfcc": MfccOptions,
    "plp": PlpOptions,
    "spectrogram": SpectrogramOptions,
}
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
PADDINGS = {
    "reflect": "frames centred by padding (reflect)",
    "constant": "frames centred by padding (constant)",
    "reflect-window": "frames centred by padding (reflect) of half a window",
    "constant-window": "frames centred by padding (constant) of half a window",
    "inside": "frames as long as the FFT, the window in their middle",
}
DCTS = {"htk": "C0 times the root of 2, as in HTK", "sum": "a DCT that is not normalized"}
WHOLE = {"preemphasis": "preemphasis", "offset": "DC removal"}
BINS = {"log": "log power of all bins", "power": "power, no logarithm", "magnitude": "magnitudes, no logarithm"}
EPSILON = float(np.finfo(F32).eps)
LOG_EPSILON = np.log(F32(EPSILON)) + F32(1e-5)


@dataclass(frozen=True)
class Variant:
    """One way to compute features of audio.

    Attributes:
        kind: "fbank", "mfcc", "plp" or "spectrogram".
        options: Kaldi's options by name, as far as they are not its defaults; without dithering.
        scale: the samples are multiplied by it.
        window: "kaldi", or "periodic" for the period of a cosine window, as torch and SciPy have it.
        mel: one of ``MELS``.
        floor: floor under energies before the logarithm.
        added: number added to energies before the logarithm.
        span: log energies are at least the largest one less this; 0 leaves them.
        padding: "" for Kaldi's edges; "reflect" or "constant" for frames centred by padding of half an FFT, and
            "reflect-window" or "constant-window" by half a window; "inside" for frames of an FFT's length.
        whole: what is done to the whole recording in place of each frame: "preemphasis", "offset" (DC removal).
        warp: VTLN factor.
        bins: of a spectrogram: "kaldi" with the energy in the first column; "log", "power" or "magnitude".
        dct: of cepstra: "kaldi", or one of ``DCTS``.
        precise: True for an FFT in double precision.
    """

    kind: str
    options: dict[str, Any] = field(default_factory=dict)
    scale: float = 1.0
    window: str = "kaldi"
    mel: str = "kaldi"
    floor: float = EPSILON
    added: float = 0.0
    span: float = 0.0
    padding: str = ""
    whole: tuple[str, ...] = ()
    warp: float = 1.0
    bins: str = "kaldi"
    dct: str = "kaldi"
    precise: bool = False

    def changed(self, name: str, value: Any) -> Variant:
        """Return this variant with another option or attribute; snip_edges takes the place of a padding."""
        if name in {each.name for each in dataclasses.fields(Variant)}:
            return dataclasses.replace(self, **{name: value})
        padding = "" if name == "snip_edges" else self.padding
        return dataclasses.replace(self, options=self.options | {name: value}, padding=padding)

    def value(self, name: str) -> Any:
        """Return the value of an option or an attribute."""
        if name in {each.name for each in dataclasses.fields(Variant)}:
            return getattr(self, name)
        return self.options.get(name, getattr(KINDS[self.kind], name, None))

    def settings(self) -> list[str]:
        """Return in words what distinguishes the variant from Kaldi's defaults."""
        plain = Variant(self.kind)
        return [
            *(f"{name}={value!r}" for name, value in self.options.items() if value != plain.value(name)),
            *([] if self.scale == 1 else [f"samples times {self.scale:g}"]),
            *([] if self.window == "kaldi" else ["a periodic window"]),
            *([] if self.mel == "kaldi" else [MELS[self.mel]]),
            *([] if self.floor == EPSILON else [f"a floor of {self.floor:g}"]),
            *([] if not self.added else [f"{self.added:g} added before the logarithm"]),
            *([] if not self.span else [f"at least the largest less {10 * self.span / math.log(10):g} dB"]),
            *([] if not self.padding else [PADDINGS[self.padding]]),
            *(f"{WHOLE[step]} of the whole recording" for step in self.whole),
            *([] if self.warp == 1 else [f"VTLN factor {self.warp:g}"]),
            *([] if self.bins == "kaldi" else [BINS[self.bins]]),
            *([] if self.dct == "kaldi" else [DCTS[self.dct]]),
            *([] if not self.precise else ["an FFT in double precision"]),
        ]

    def __str__(self) -> str:
        """Return the variant in words: its options that are not Kaldi's defaults, and what is not Kaldi's."""
        options = [each for each in self.settings() if "=" in each]
        other = [each for each in self.settings() if "=" not in each]
        return ", ".join([f"{self.kind}({', '.join(options)})", *other])

    def compute(self, samples: Floats, sample_frequency: float) -> Floats:
        """Compute the features of audio (T,): float32 (frames, dim).

        Raises:
            OptionError: Kaldi would refuse the options, or the bins of an FFT of odd length are asked for.
        """
        changes = self.options | {"dither": 0.0, "sample_frequency": sample_frequency}
        audio = samples * F32(self.scale)
        if "offset" in self.whole:
            audio, changes = audio - audio.mean(), changes | {"remove_dc_offset": False}
        if "preemphasis" in self.whole:
            factor = F32(self.value("preemphasis_coefficient"))
            audio = np.append(audio[:1], audio[1:] - factor * audio[:-1])
            changes = changes | {"preemphasis_coefficient": 0.0}
        if self.padding:
            changes = changes | {"snip_edges": True}
        log = self.bins == "log" if self.kind == "spectrogram" else changes.get("use_log_fbank", True)
        takes_log = self.kind == "fbank" and bool(self.floor != EPSILON or self.added)
        if takes_log:
            changes = changes | {"use_log_fbank": False}
        if self.bins != "kaldi":
            changes, takes_log = changes | {"return_raw_fft": True}, log
        plan = _plan(self.kind, tuple(sorted(changes.items())), self.window, self.mel, self.precise)
        if self.padding == "inside":
            audio = audio[(plan.points - plan.size) // 2 :][: max(len(audio) - plan.points + plan.size, 0)]
        elif self.padding:
            mode, _, of = self.padding.partition("-")
            audio = np.pad(audio, (plan.size if of else plan.points) // 2, mode=mode)  # type: ignore[call-overload]
        [features] = features_of_list(plan, [audio], [self.warp], _no_seeds)
        if self.bins != "kaldi":
            if plan.points % 2:
                raise OptionError(f"an FFT of {plan.points} points has no bin at half the rate")
            features = _power(features)
            features = np.sqrt(features) if self.bins == "magnitude" else features
        return self._finished(features, takes_log and log)

    def _finished(self, features: Floats, takes_log: bool) -> Floats:
        """Return features with the floor, the logarithm and the DCT of this variant."""
        first = int(bool(self.value("use_energy")) and not self.value("htk_compat"))
        last = int(bool(self.value("use_energy")) and bool(self.value("htk_compat")))
        before, bands, after = np.split(features, [first, features.shape[1] - last], axis=1)
        if takes_log:
            bands = np.log(np.maximum(bands, F32(self.floor)) + F32(self.added))
        if self.floor != EPSILON:
            before, after = (np.where(each <= LOG_EPSILON, np.log(F32(self.floor)), each) for each in (before, after))
        features = np.hstack((before, bands, after))
        if self.dct != "kaldi":
            features[:, :1] *= 1 if first else F32(math.sqrt(2))
            features *= F32(math.sqrt(2 * self.value("num_mel_bins"))) if self.dct == "sum" else 1
        return np.maximum(features, features.max(initial=-np.inf) - F32(self.span)) if self.span else features


def _power(spectrum: Floats) -> Floats:
    """Return the power of the bins of a real FFT, which holds the first and the last one, and then pairs."""
    first, last, pairs = spectrum[:, :1], spectrum[:, 1:2], spectrum[:, 2:] ** 2
    return np.concatenate((first**2, pairs[:, ::2] + pairs[:, 1::2], last**2), axis=1)


def _no_seeds(count: int) -> npt.NDArray[np.int32]:
    return np.zeros(count, np.int32)


@functools.lru_cache(maxsize=512)
def _plan(kind: str, items: tuple[tuple[str, Any], ...], window: str, mel: str, precise: bool) -> Plan:
    options = configured(
        kind, KINDS[kind], None, dict(items) | ({} if kind == "spectrogram" else {"allow_empty_bins": True})
    )
    plan = plan_of(options)
    changes: dict[str, Any] = {"accurate_fft": True} if precise else {}
    if window == "periodic":
        # A period is a window of one sample more, without its last one.
        changes["window"] = tables.window(options.window_type, plan.size + 1, options.blackman_coeff)[:-1].copy()
    if mel != "kaldi" and kind != "spectrogram":
        changes["mel"] = mel_filters(mel, options)
    return dataclasses.replace(plan, **changes) if changes else plan


def mel_filters(mel: str, options: Any) -> MelTable:
    """Return filters that are not Kaldi's.

    Raises:
        OptionError: the options have no such filters.
    """
    points, bins = options.padded_window_size, options.num_mel_bins
    makers: dict[str, Callable[[], Floats]] = {
        "hertz": lambda: _triangles(options, lambda edges, hertz: (edges, hertz)),
        "snapped": lambda: _triangles(options, lambda edges, hertz: (_snapped(edges, points, options), hertz)),
        "snapped-more": lambda: _triangles(options, lambda edges, hertz: (_snapped(edges, points, options, 1), hertz)),
        "symmetric": lambda: _triangles(options, lambda edges, hertz: (edges, hertz), symmetric=True),
        "slaney": lambda: librosa_filters(bins, points, options.sample_frequency, options.low_freq, options.high_freq),
        "slaney-height": lambda: librosa_filters(
            bins, points, options.sample_frequency, options.low_freq, options.high_freq, norm=""
        ),
        "htk-area": lambda: librosa_filters(
            bins, points, options.sample_frequency, options.low_freq, options.high_freq, slaney_scale=False
        ),
    }
    return table_of(makers[mel](), tables.equal_loudness(mel_banks(options).centers))


def _snapped(edges: Floats, points: int, options: Any, more: int = 0) -> Floats:
    rate = options.sample_frequency
    bins = np.floor(edges / F32(rate / (points + more)) + F32(1e-3))  # an edge on a bin stays, whatever its rounding
    snapped: Floats = bins * F32(rate / points)
    return snapped


def _triangles(
    options: Any, change: Callable[[Floats, Floats], tuple[Floats, Floats]], *, symmetric: bool = False
) -> Floats:
    """Return triangles in Hz between edges that are equally far apart in mel."""
    points, rate = options.padded_window_size, options.sample_frequency
    high = options.high_freq if options.high_freq > 0 else 0.5 * rate + options.high_freq
    if not 0 <= options.low_freq < high <= 0.5 * rate:
        raise OptionError(f"low_freq={options.low_freq:g} and high_freq={high:g} Hz are out of order")
    first, last = mel_scale(F32(options.low_freq)), mel_scale(F32(high))
    edges = inverse_mel_scale(np.linspace(first, last, options.num_mel_bins + 2, dtype=F32))
    hertz = (np.arange(points // 2 + 1) * (rate / points)).astype(F32)[:, None]
    edges, hertz = change(edges, hertz)
    left, center, right = edges[:-2], edges[1:-1], edges[2:]
    right = 2 * center - left if symmetric else right
    with np.errstate(divide="ignore", invalid="ignore"):
        rise, fall = (hertz - left) / (center - left), (right - hertz) / (right - center)
    weights = np.where(hertz <= center, rise, fall)
    inside = (hertz >= left) & (hertz <= right) & np.isfinite(weights)
    triangles: Floats = np.where(inside, weights, 0).clip(0).astype(F32)
    return triangles
