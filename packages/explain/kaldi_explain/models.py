"""Models of features with Kaldi's options, and with the variations of other libraries and ports of Kaldi.

The engine of kaldi-compat computes Kaldi's features. NumPy computes all other models in double precision.
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
from kaldi_compat.exact.engine import compute_list_features
from kaldi_compat.exact.fft import factor_into_primes
from kaldi_compat.exact.plan import Plan, make_plan
from kaldi_compat.exact.rand import KaldiRandom
from kaldi_compat.options.base import make_options
from kaldi_compat.options.registry import SPECTRAL_FEATURES
from kaldi_compat.options.spectral import SpectrogramOptions
from kaldi_explain.options import EPSILON, TABLE
from kaldi_explain.other_libraries import F32, count_padding, find_milliseconds, make_mel_filters, make_window, pad
from kaldi_explain.thresholds import THRESHOLDS
from kaldi_explain.work import charge_microseconds

KINDS = {name: feature.options for name, feature in SPECTRAL_FEATURES.items()}
COUNTS = ("num_ceps", "num_mel_bins")  # Options that a description names first, because they determine the columns.
# Attributes that may differ from Kaldi's in a model that kaldi-compat's engine computes. The engine supports them, or
# they are applied to the audio first.
ENGINE_ATTRIBUTES = {"scale", "padding", "whole", "warp", "precise", "dithered"}
SMALLEST_ENERGY = 1e-300  # Replaces zero energies before a logarithm without a floor, to avoid infinity.
Model = TypeVar("Model", bound="FeatureModel")


@dataclass(frozen=True)
class FeatureModel:
    """A computation of features from audio, with Kaldi's options and with attributes that differ from Kaldi.

    The table of options (:data:`kaldi_explain.options.TABLE`) describes the values of attributes without a comment.
    """

    kind: str  # Kind of feature: "fbank", "mfcc", "plp" or "spectrogram".
    rate: float = 16000.0  # Sampling rate in Hz.
    options: dict[str, Any] = field(default_factory=dict)  # Kaldi's options by name, except defaults and dithering.
    scale: float = 1.0  # Factor by which the samples are multiplied.
    window: str = "kaldi"  # Form of the window. "periodic" for the form of torch and SciPy.
    points: int = 0  # Number of points of the FFT. 0 for Kaldi's choice, see `fft_points`.
    mel: str = "kaldi"
    corner: float = 700.0  # Corner frequency in Hz of the mel scale ln(1 + f / corner).
    floor: float = EPSILON  # Smallest energy, to which smaller energies are raised before the logarithm. 0 for none.
    added: float = 0.0  # Number added to energies before the logarithm.
    root: float = 0.0  # Number added to the power before the square root that gives magnitudes.
    span: float = 0.0  # Range in dB below the largest log energy, to which log energies are limited. 0 for none.
    padding: str = ""  # Padding of the audio at its edges. "" for Kaldi's treatment of the edges.
    whole: tuple[str, ...] = ()  # Steps that are applied to the whole recording instead of to each frame.
    warp: float = 1.0  # VTLN warp factor.
    bins: str = "kaldi"  # Values of a spectrogram. "kaldi" for logarithms with the energy in the first column.
    magnitudes: bool = False  # True for cepstra of sums of magnitudes instead of energies.
    dct: str = "kaldi"
    energy: str = "kaldi"  # Energy of a frame. "spectrum" for the sum of the power of all bins.
    in_place: bool = False  # True if preemphasis uses samples that it has already changed.
    precise: bool = False  # True for an FFT in double precision.
    dithered: bool = False  # True for the noise of the first utterance of a run of Kaldi's programs.

    def change(self: Model, changes: Mapping[str, Any]) -> Model:
        """Return a copy of this model with ``changes``, which maps names of options and attributes to new values.

        Paddings and ``snip_edges=False`` exclude each other. A new padding other than "" therefore sets ``snip_edges``
        to True, and a new ``snip_edges`` sets the padding to "", unless ``changes`` contains both.
        """
        implied: dict[str, Any] = {"snip_edges": True} if changes.get("padding") else {}
        implied = {"padding": ""} if "snip_edges" in changes else implied
        changes, names = {**implied, **changes}, self.__dataclass_fields__  # Attributes are fields.
        attributes = {name: value for name, value in changes.items() if name in names}
        options = self.options | {name: value for name, value in changes.items() if name not in names}
        options = {name: value for name, value in options.items() if value != self.get_default(name)}
        return dataclasses.replace(self, options=options, **attributes)

    def get(self, name: str) -> Any:
        """Return the model's value of an option or attribute, or None for an option that the feature does not have."""
        if name in self.options:
            return self.options[name]
        return getattr(self, name) if name in self.__dataclass_fields__ else self.get_default(name)

    def get_default(self, name: str) -> Any:
        """Return Kaldi's default of an option or attribute, or None for an option that the feature does not have."""
        return _get_default(self.kind, name)

    def describe_settings_by_name(self) -> dict[str, str]:
        """Return descriptions, by name, of the options and then the attributes that differ from Kaldi's defaults."""
        options = dict.fromkeys([*COUNTS, *(option.name for option in dataclasses.fields(KINDS[self.kind]))])
        settings = {name: f"{name}={self.get(name)!r}" for name in options if self.get(name) != self.get_default(name)}
        for option in TABLE:
            if option.words and (value := getattr(self, option.name)) != self.get_default(option.name):
                words = option.words.format(value) if isinstance(option.words, str) else option.words.get(value, "")
                settings[option.name] = "no floor" if option.name == "floor" and value == 0 else words
        return settings

    def list_settings(self) -> list[str]:
        """Return descriptions of the options and attributes that differ from Kaldi's defaults."""
        return [*self.describe_settings_by_name().values()]

    def __str__(self) -> str:
        """Describe the model by its kind, and by the options and attributes that differ from Kaldi's defaults."""
        settings, names = self.describe_settings_by_name(), self.__dataclass_fields__  # Attributes are fields.
        options = [setting for name, setting in settings.items() if name not in names]
        attributes = [setting for name, setting in settings.items() if name in names]
        return ", ".join([f"{self.kind}({', '.join(options)})", *attributes])

    @functools.cached_property
    def size(self) -> int:
        """Number of samples in a frame, rounded down. Kaldi stores the rate and the length in single precision."""
        return int(F32(self.rate) * 0.001 * F32(self.get("frame_length")))

    @functools.cached_property
    def shift(self) -> int:
        """Number of samples from one frame to the next, rounded down."""
        return int(F32(self.rate) * 0.001 * F32(self.get("frame_shift")))

    @functools.cached_property
    def fft_points(self) -> int:
        """Number of FFT points: :attr:`points` or, if 0, :attr:`size`, by default rounded up to a power of two."""
        power_of_two = 1 << (self.size - 1).bit_length()  # Smallest power of two that is at least `size`.
        return self.points or (power_of_two if self.get("round_to_power_of_two") else self.size)

    @property
    def origin(self) -> int:
        """Index of the first sample of the first frame. It is negative if the frame begins before the audio."""
        if self.padding or self.get("snip_edges"):
            return -count_padding(self.padding, self.size, self.fft_points, self.shift)[0]
        return self.shift // 2 - self.size // 2

    def _cut_frames(self, audio: Floats) -> Floats:
        """Cut audio (T,) into frames (frames, size). The result is empty if no frame fits into the audio.

        If the model has a padding, the audio must already be padded. Without a padding and without ``snip_edges``, the
        audio is first reflected at both ends, as Kaldi does.
        """
        if not self.padding and not self.get("snip_edges"):
            # Kaldi rounds the number of frames to the nearest integer, and reflects the edge samples as well.
            frame_count, start_padding = (len(audio) + self.shift // 2) // self.shift, max(-self.origin, 0)
            audio = np.pad(audio, (start_padding, self.size), mode="symmetric")[max(self.origin, 0) :]
            return np.lib.stride_tricks.sliding_window_view(audio, self.size)[:: self.shift][:frame_count]
        if len(audio) < self.size:
            return np.zeros((0, self.size), F32)
        return np.lib.stride_tricks.sliding_window_view(audio, self.size)[:: self.shift]

    @property
    def is_computed_by_engine(self) -> bool:
        """True if kaldi-compat's engine computes the model. If False, NumPy computes it.

        The engine computes PLP, and other models whose attributes differ from Kaldi at most in ``ENGINE_ATTRIBUTES``.
        """
        unsupported = (option.name for option in TABLE if option.words and option.name not in ENGINE_ATTRIBUTES)
        return self.kind == "plp" or all(getattr(self, name) == self.get_default(name) for name in unsupported)

    def prepare_samples(self, samples: Floats) -> Floats:
        """Apply the steps in :attr:`whole` to samples (T,): first subtract the mean, and then apply preemphasis."""
        audio = samples - samples.mean() if "offset" in self.whole else samples
        if "preemphasis" in self.whole:
            factor = F32(self.get("preemphasis_coefficient"))
            audio = np.append(audio[:1], audio[1:] - factor * audio[:-1])
        return audio

    def compute(self, samples: Floats) -> Floats | Doubles:
        """Compute the features (frames, dim) of audio (T,) at the sampling rate :attr:`rate`.

        They are float32 if :attr:`is_computed_by_engine`, and otherwise float64. :attr:`scale` multiplies the samples.

        Raises:
            OptionError: the audio is too short or the shift too long for the padding; the FFT is shorter than a frame,
                or has an unsupported number of points; filter edges are out of range; or Kaldi refuses the options.
        """
        audio = pad(self.prepare_samples(samples), self.padding, self.size, self.fft_points, self.shift)
        if self.is_computed_by_engine:
            return self._compute_by_engine(audio, {"snip_edges": bool(self.padding or self.get("snip_edges"))})
        frames = self._cut_frames(audio)
        starts = range(0, max(len(frames), 1), THRESHOLDS.frames)
        blocks = [self.compute_spectra(frames[start : start + THRESHOLDS.frames]) for start in starts]
        power, energies = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
        return self.finish_features(power, energies)

    def compute_plp(self, frames: Floats) -> Floats:
        """Return PLP features (frames, dim) of frames (frames, size) of audio after :meth:`prepare_samples`."""
        # The frames are concatenated, so a shift of one frame length makes the engine cut out the same frames.
        changes = {"frame_shift": find_milliseconds(frames.shape[1], self.rate), "snip_edges": True}
        return self._compute_by_engine(frames.ravel(), changes)

    def _compute_by_engine(self, audio: Floats, changes: dict[str, Any]) -> Floats:
        """Compute features (frames, dim) of prepared and padded audio (T,). ``changes`` maps options to new values."""
        audio = audio * F32(self.scale) if self.scale != 1 else audio
        options = self.options | changes | {"dither": float(self.dithered), "sample_frequency": self.rate}
        if "preemphasis" in self.whole:  # The preparation includes the steps in `whole`, so the engine skips them.
            options["preemphasis_coefficient"] = 0.0
        if "offset" in self.whole:
            options["remove_dc_offset"] = False
        if self.kind != "spectrogram":
            options["allow_empty_bins"] = True
        plan = make_plan(make_options(self.kind, KINDS[self.kind], None, options))
        plan = dataclasses.replace(plan, accurate_fft=True) if self.precise else plan
        seeds = KaldiRandom().frame_seeds if self.dithered else _make_zero_seeds
        [features] = compute_list_features(plan, [audio], [self.warp], seeds)
        charge_microseconds(400 + 0.02 * len(features) * self.fft_points)
        return features

    def compute_spectra(self, frames: Floats) -> tuple[Doubles, Doubles]:
        """Return the power spectrum (frames, points / 2 + 1) and energies (frames,) of frames (frames, size).

        The frames are cut from audio after :meth:`prepare_samples`. The energies are computed from the spectrum if
        :attr:`energy` is "spectrum", from the samples before preemphasis if ``raw_energy`` is True, and otherwise from
        the windowed samples. :attr:`scale` is not applied. Raise OptionError if the FFT is shorter than the frames, or
        if its number of points is odd or has a prime factor above 29.
        """
        points, coefficient = self.fft_points, self.get("preemphasis_coefficient")
        largest_factor = 29  # Largest prime factor. FFTs with larger prime factors are slow, and no library uses them.
        if points < frames.shape[1] or points % 2 or max(factor_into_primes(points)) > largest_factor:
            raise OptionError(
                f"an FFT of {points} points cannot be computed for frames of {frames.shape[1]} samples: use an even "
                f"number of points of at least {frames.shape[1]} without a prime factor above {largest_factor}"
            )
        charge_microseconds(200 + 0.008 * len(frames) * points)
        samples = frames.astype(np.float64)
        if self.get("remove_dc_offset") and "offset" not in self.whole:
            samples -= samples.mean(1, keepdims=True)
        energies = np.einsum("ij,ij->i", samples, samples)
        if self.in_place:
            for n in range(1, samples.shape[1]):
                samples[:, n] -= coefficient * samples[:, n - 1]
        elif coefficient and "preemphasis" not in self.whole:
            samples = samples - coefficient * np.hstack((samples[:, :1], samples[:, :-1]))
        window_type, is_periodic = self.get("window_type"), self.window == "periodic"
        windowed = samples * make_window(window_type, samples.shape[1], self.get("blackman_coeff"), is_periodic)
        power = _compute_power(windowed, points, self.rate, self.precise)
        if self.energy == "spectrum":
            energies = power.sum(1) / points
        elif not self.get("raw_energy"):
            # By Parseval's theorem, the power gives the sum of the squares of the windowed samples.
            energies = (2 * power.sum(1) - power[:, 0] - power[:, -1]) / points
        return power, energies

    def finish_features(self, power: Doubles, energies: Doubles) -> Doubles:
        """Return the features (frames, dim) of a power spectrum (frames, points / 2 + 1) and energies (frames,).

        Both are computed from samples to which :attr:`scale` has not been applied. Raise OptionError if the edges of
        the filters are out of range, or Kaldi refuses another option of the filters.
        """
        charge_microseconds(150 + 0.01 * power.size)
        power = power * self.scale**2
        is_magnitude = self.get("use_power") is False or self.bins == "magnitude" or self.magnitudes
        spectrum = np.sqrt(power + self.root) if is_magnitude else power
        log_energy = self._compute_log_energy(energies * self.scale**2)
        if self.kind == "spectrogram":
            if self.bins in ("power", "magnitude"):
                return spectrum
            features = self._apply_logarithm(spectrum)
            if self.bins == "kaldi":
                features[:, 0] = log_energy
            return features
        bins, weights, starts = make_mel_filters(
            self.mel, self.rate, self.fft_points, self.get("num_mel_bins"), low=self.get("low_freq"),
            high=self.get("high_freq"), warp=self.warp, corner=self.corner,
        )  # fmt: skip
        bands = np.add.reduceat(spectrum[:, bins] * weights, starts, axis=1)
        if self.kind != "fbank":
            return self._compute_cepstra(self._apply_logarithm(bands), log_energy)
        features = self._apply_logarithm(bands) if self.get("use_log_fbank") else bands
        if not self.get("use_energy"):
            return features
        energy_is_last = self.get("htk_compat")
        return np.hstack((features, log_energy[:, None]) if energy_is_last else (log_energy[:, None], features))

    def _compute_log_energy(self, energies: Doubles) -> Doubles:
        """Raise energies (frames,) to a floor, and return their natural logarithms.

        The floor is the larger of ``energy_floor`` and ``EPSILON``. If :attr:`energy` is "spectrum" and :attr:`floor`
        is not ``EPSILON``, :attr:`floor` divided by the number of FFT points is used instead.
        """
        floor = max(self.get("energy_floor") or 0.0, EPSILON)
        if self.energy == "spectrum" and self.floor != EPSILON:
            # The energy is a sum of powers divided by the number of points, so the floor is divided as well.
            floor = self.floor / self.fft_points or SMALLEST_ENERGY
        return np.asarray(np.log(np.maximum(energies, floor)))

    def _apply_logarithm(self, energies: Doubles) -> Doubles:
        """Return natural logarithms of energies (frames, bins) with :attr:`floor`, :attr:`added` and :attr:`span`."""
        features: Doubles = np.log(np.maximum(np.maximum(energies, self.floor) + self.added, SMALLEST_ENERGY))
        lowest = features.max(initial=-np.inf) - self.span * math.log(10) / 10
        return np.maximum(features, lowest) if self.span else features

    def _compute_cepstra(self, bands: Doubles, log_energy: Doubles) -> Doubles:
        """Return cepstra (frames, num_ceps) of log mel energies ``bands`` (frames, num_mel_bins), with the lifter.

        The attribute :attr:`dct` selects the scale of the cepstra. With ``use_energy``, ``log_energy`` (frames,)
        replaces C0. With ``htk_compat``, C0 or the energy is last.
        """
        count, bins = self.get("num_ceps"), self.get("num_mel_bins")
        cepstra = bands @ _make_cosines(count, bins)
        cepstra *= tables.compute_lifter(count, self.get("cepstral_lifter"))
        if self.get("htk_compat") and not self.get("use_energy"):
            cepstra[:, 0] *= math.sqrt(2)  # HTK's C0 is larger than Kaldi's by this factor.
        if self.dct != "kaldi":
            cepstra[:, :1] *= math.sqrt(2)  # Now all cepstra have the factor sqrt(2 / bins), which "sum" replaces by 2.
            cepstra *= math.sqrt(2 * bins) if self.dct == "sum" else 1
        if self.get("use_energy"):
            cepstra[:, 0] = log_energy
        return np.roll(cepstra, -1, 1) if self.get("htk_compat") else cepstra


@functools.cache
def _get_default(kind: str, name: str) -> Any:
    """Return the default of the option or attribute ``name`` for features of ``kind``, or None if there is none."""
    return getattr(KINDS[kind], name, getattr(FeatureModel, name, None))


def _compute_power(windowed: Doubles, points: int, rate: float, is_precise: bool) -> Doubles:
    """Return the power spectrum (frames, points / 2 + 1) of windowed frames (frames, size) at ``rate`` Hz.

    The FFT has double precision if ``is_precise`` is True, or else Kaldi's single precision.
    """
    if is_precise:
        spectrum = np.fft.rfft(windowed, points)
        return np.asarray(spectrum.real**2 + spectrum.imag**2)
    plan = _make_fft_plan(windowed.shape[1], points, rate)
    # Kaldi's FFT has the real bins 0 and points / 2 first, and then pairs of real and imaginary parts.
    [raw] = compute_list_features(plan, [windowed.astype(F32).ravel()], [1.0], _make_zero_seeds)
    first_bin, last_bin, squares = raw[:, :1] ** 2, raw[:, 1:2] ** 2, raw[:, 2:] ** 2
    return np.hstack((first_bin, squares[:, ::2] + squares[:, 1::2], last_bin)).astype(np.float64)


@functools.lru_cache(maxsize=64)
def _make_fft_plan(size: int, points: int, rate: float) -> Plan:
    """Return the plan that computes only FFTs of ``points`` points for frames of ``size`` samples at ``rate`` Hz."""
    length = find_milliseconds(size, rate)
    options = SpectrogramOptions(
        sample_frequency=rate, frame_length=length, frame_shift=length, window_type="rectangular", dither=0.0,
        preemphasis_coefficient=0.0, remove_dc_offset=False, return_raw_fft=True,
    )  # fmt: skip
    return dataclasses.replace(make_plan(options), points=points, dim=points)


def _make_zero_seeds(count: int) -> npt.NDArray[np.int32]:
    return np.zeros(count, np.int32)


@functools.lru_cache(maxsize=64)
def _make_cosines(count: int, bins: int) -> Doubles:
    return np.ascontiguousarray(tables.compute_dct(count, bins).T.astype(np.float64))
