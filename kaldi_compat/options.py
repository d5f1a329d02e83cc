"""Every option once: name, type, default and one-line meaning.

A feature's options are one frozen dataclass. Flags of the programs, lines of configuration files, keyword arguments of
the modules, help texts and documentation all derive from it: the field ``num_mel_bins`` is the flag ``--num-mel-bins``.
Names, defaults and ranges are Kaldi's (src/feat/feature-window.h, mel-computations.h, feature-*.h).

>>> FbankOptions(num_mel_bins=80).num_mel_bins
80
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from kaldi_compat.errors import OptionError

MAX_PITCHES = 32000  # candidates the pitch tracker tells apart
MOST = 1e9  # of a rate in Hz, or a time in ms
INT32 = range(-(2**31), 2**31)
WINDOW_TYPES = ("hamming", "hanning", "povey", "rectangular", "sine", "blackman")


def option(default: bool | int | float | str, meaning: str, *, flag: str = "") -> Any:
    """A dataclass field that is an option: its default and, in one line, what it means.

    The flag is the field's name with hyphens; ``flag`` is for the rare one that Kaldi spells otherwise.
    """
    return dataclasses.field(default=default, metadata={"meaning": meaning, "flag": flag})


def meaning(field: dataclasses.Field[Any]) -> str:
    """The one-line meaning that an option was declared with."""
    return str(field.metadata.get("meaning", ""))


def require(holds: bool, message: str) -> None:
    """Raise :class:`OptionError` with this message unless the condition holds."""
    if not holds:
        raise OptionError(message)


def as_float32(value: float) -> float:
    """The value of a Kaldi option of type float: single precision, which decides the last digits of what follows."""
    return float(np.float32(value)) if math.isfinite(value) else value


class Options:
    """Base of the dataclasses of options. What a field's default is, its value is: a number, a text, true or false."""

    def __post_init__(self) -> None:
        fields: Any = dataclasses.fields(self)  # type: ignore[arg-type]
        for field in fields:
            value = _as_kind(type(field.default), getattr(self, field.name))
            require(
                value is not None,
                f"{field.name} must be {_KINDS[type(field.default)]}, not {getattr(self, field.name)!r}",
            )
            object.__setattr__(self, field.name, value)


_KINDS = {bool: "True or False", int: "an integer of 32 bits", float: "a number", str: "a text"}


def _as_kind(kind: type[Any], value: Any) -> Any:
    """The value as one of this kind of option, or None if it is of another kind."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value) if kind is bool else None
    if isinstance(value, (int, np.integer)):
        return kind(value) if kind is float or (kind is int and int(value) in INT32) else None
    if isinstance(value, (float, np.floating)):
        return float(value) if kind is float else None
    return value if kind is str and isinstance(value, str) else None


def _require_sizes(options: Options, *names: str) -> None:
    """Raise :class:`OptionError` unless these rates and times are such that samples can be counted by them."""
    for name in names:
        value = getattr(options, name)
        require(0 < value < MOST, f"{name} must be positive and less than {MOST:g}, not {value:g}")


@dataclass(frozen=True, kw_only=True)
class FrameOptions(Options):
    """How audio is cut into frames (Kaldi: FrameExtractionOptions)."""

    sample_frequency: float = option(16000.0, "sampling rate the features are computed at, in Hz")
    frame_length: float = option(25.0, "length of a frame in milliseconds")
    frame_shift: float = option(10.0, "distance from one frame's start to the next one's in milliseconds")
    preemphasis_coefficient: float = option(0.97, "how much of the previous sample is subtracted from each one")
    remove_dc_offset: bool = option(True, "subtract each frame's mean first")
    dither: float = option(1.0, "standard deviation of the noise added to each sample of a frame; 0 adds none")
    window_type: str = option("povey", "window: " + ", ".join(WINDOW_TYPES))
    blackman_coeff: float = option(0.42, "constant term of the Blackman window")
    round_to_power_of_two: bool = option(True, "pad each frame with zeros to a power of two for the FFT")
    snip_edges: bool = option(
        True, "keep only frames that lie wholly in the audio; false reflects the audio at its ends"
    )
    allow_downsample: bool = option(False, "resample audio of a higher sampling rate instead of refusing it")
    allow_upsample: bool = option(False, "resample audio of a lower sampling rate instead of refusing it")
    max_feature_vectors: int = option(-1, "accepted for Kaldi's sake; bounds memory in Kaldi's online decoding only")
    waveform_scale: float = option(
        1.0, "factor on the samples before anything else; 32768 brings audio in -1 to 1 to Kaldi's scale"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_sizes(self, "sample_frequency", "frame_shift", "frame_length")
        require(self.window_shift >= 1, f"frame_shift={self.frame_shift:g} ms is less than one sample")
        require(self.window_size >= 2, f"frame_length={self.frame_length:g} ms is less than two samples")
        require(
            0.0 <= self.preemphasis_coefficient <= 1.0,
            f"preemphasis_coefficient must lie in 0 to 1, not {self.preemphasis_coefficient:g}",
        )
        require(
            self.waveform_scale > 0 and math.isfinite(self.waveform_scale),
            f"waveform_scale must be positive, not {self.waveform_scale:g}",
        )
        require(math.isfinite(self.dither), f"dither must be a finite number, not {self.dither:g}")
        require(
            self.window_type in WINDOW_TYPES,
            f"window_type is one of {', '.join(WINDOW_TYPES)}; not {self.window_type!r}",
        )

    @property
    def window_size(self) -> int:
        """Samples in a frame."""
        return int(as_float32(self.sample_frequency) * 0.001 * as_float32(self.frame_length))

    @property
    def window_shift(self) -> int:
        """Samples from one frame's start to the next one's."""
        return int(as_float32(self.sample_frequency) * 0.001 * as_float32(self.frame_shift))

    @property
    def padded_window_size(self) -> int:
        """Points of the FFT."""
        return 1 << (self.window_size - 1).bit_length() if self.round_to_power_of_two else self.window_size


@dataclass(frozen=True, kw_only=True)
class MelOptions(Options):
    """The mel filter bank (Kaldi: MelBanksOptions)."""

    num_mel_bins: int = option(23, "number of triangular mel bins")
    low_freq: float = option(20.0, "lower edge of the lowest mel bin in Hz")
    high_freq: float = option(
        0.0, "upper edge of the highest mel bin in Hz; zero or less is an offset from the Nyquist"
    )
    vtln_low: float = option(100.0, "lower inflection point of the piecewise linear VTLN warp in Hz")
    vtln_high: float = option(-500.0, "upper inflection point of the warp in Hz; negative is an offset from high_freq")
    debug_mel: bool = option(False, "log each mel bin's first FFT bin and weights")
    htk_compat: bool = option(False, "order, scale and mel bins as HTK has them (energy last, C0 times sqrt(2))")


@dataclass(frozen=True, kw_only=True)
class EnergyOptions(Options):
    """The log energy of a frame, as a first column or in place of C0."""

    use_energy: bool = option(False, "use the frame's log energy")
    energy_floor: float = option(0.0, "floor on the energy (its log is taken), absolute; 0 is none")
    raw_energy: bool = option(True, "energy before preemphasis and windowing")


@dataclass(frozen=True, kw_only=True)
class MelFeatureOptions(EnergyOptions, MelOptions, FrameOptions):
    """What all features on a mel filter bank have in common."""


@dataclass(frozen=True, kw_only=True)
class FbankOptions(MelFeatureOptions):
    """Log-mel filter bank features (Kaldi: FbankOptions)."""

    use_log_fbank: bool = option(True, "log of the mel energies, not the energies themselves")
    use_power: bool = option(True, "power spectrum, not magnitude")


@dataclass(frozen=True, kw_only=True)
class MfccOptions(MelFeatureOptions):
    """Mel-frequency cepstral coefficients (Kaldi: MfccOptions)."""

    use_energy: bool = option(True, "log energy in place of C0")
    num_ceps: int = option(13, "number of cepstral coefficients, C0 counted")
    cepstral_lifter: float = option(22.0, "scale of the coefficients' liftering; 0 is none")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            1 <= self.num_ceps <= self.num_mel_bins,
            f"num_ceps={self.num_ceps} must lie in 1 to num_mel_bins={self.num_mel_bins}",
        )


@dataclass(frozen=True, kw_only=True)
class PlpOptions(MelFeatureOptions):
    """Perceptual linear prediction cepstra (Kaldi: PlpOptions)."""

    use_energy: bool = option(True, "log energy in place of C0")
    lpc_order: int = option(12, "order of the linear prediction")
    num_ceps: int = option(13, "number of cepstral coefficients, C0 counted")
    compress_factor: float = option(0.33333, "exponent of the intensity-to-loudness compression")
    cepstral_lifter: int = option(22, "scale of the coefficients' liftering; 0 is none")
    cepstral_scale: float = option(1.0, "factor on all coefficients")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            1 <= self.num_ceps <= self.lpc_order + 1,
            f"num_ceps={self.num_ceps} must lie in 1 to lpc_order + 1 = {self.lpc_order + 1}",
        )


@dataclass(frozen=True, kw_only=True)
class SpectrogramOptions(FrameOptions):
    """Log power spectrum (Kaldi: SpectrogramOptions)."""

    energy_floor: float = option(0.0, "floor on the energy (its log is taken), absolute; 0 is none")
    raw_energy: bool = option(True, "energy before preemphasis and windowing")
    return_raw_fft: bool = option(False, "real and imaginary parts of the FFT instead of the log power")


@dataclass(frozen=True, kw_only=True)
class DeltaOptions(Options):
    """Time derivatives appended to features (Kaldi: DeltaFeaturesOptions)."""

    delta_order: int = option(2, "order of the highest derivative")
    delta_window: int = option(2, "frames on each side that a derivative looks at, for each order")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 <= self.delta_order < 1000, f"delta_order must lie in 0 to 999, but is {self.delta_order}")
        require(0 < self.delta_window < 1000, f"delta_window must lie in 1 to 999, but is {self.delta_window}")


@dataclass(frozen=True, kw_only=True)
class ShiftedDeltaOptions(Options):
    """Shifted delta cepstra (Kaldi: ShiftedDeltaFeaturesOptions)."""

    delta_window: int = option(1, "frames on each side that a delta looks at")
    num_blocks: int = option(7, "number of delta blocks, from this frame on forward")
    block_shift: int = option(3, "frames from one block to the next")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 < self.delta_window < 1000, f"delta_window must lie in 1 to 999, but is {self.delta_window}")
        require(self.num_blocks >= 0, f"num_blocks must not be negative, but is {self.num_blocks}")


@dataclass(frozen=True, kw_only=True)
class CmvnOptions(Options):
    """How mean and variance statistics are applied (Kaldi: apply-cmvn)."""

    norm_means: bool = option(True, "subtract the mean; false copies the features as they are")
    norm_vars: bool = option(False, "also divide by the standard deviation")
    reverse: bool = option(False, "go back from zero mean and unit variance to the statistics' mean and variance")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.norm_means or not self.norm_vars,
            "norm_vars=true needs norm_means=true: variances are not normalized alone",
        )


@dataclass(frozen=True, kw_only=True)
class SlidingCmvnOptions(Options):
    """Mean and variance normalization over a window that moves (Kaldi: SlidingWindowCmnOptions)."""

    cmn_window: int = option(600, "length of the window in frames")
    min_cmn_window: int = option(
        100, "frames the window has at least at the start of an utterance; only where center is false"
    )
    max_warnings: int = option(5, "warnings about floored variances for each utterance at most; -1 is no limit")
    norm_vars: bool = option(False, "normalize the variance to one too")
    center: bool = option(False, "centre the window on the frame; false has it end there")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.cmn_window > 0, f"cmn_window must be positive, but is {self.cmn_window}")


@dataclass(frozen=True, kw_only=True)
class SpliceOptions(Options):
    """Neighbouring frames put side by side (Kaldi: splice-feats)."""

    left_context: int = option(4, "frames before each frame")
    right_context: int = option(4, "frames after each frame")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.left_context >= 0, f"left_context must not be negative, but is {self.left_context}")
        require(self.right_context >= 0, f"right_context must not be negative, but is {self.right_context}")


@dataclass(frozen=True, kw_only=True)
class VadOptions(Options):
    """Voice activity from the log energy in a feature's first column (Kaldi: VadEnergyOptions)."""

    vad_energy_threshold: float = option(5.0, "constant term of the threshold on the log energy")
    vad_energy_mean_scale: float = option(0.5, "this times the utterance's mean log energy is added to the threshold")
    vad_frames_context: int = option(0, "frames on each side that vote on a frame")
    vad_proportion_threshold: float = option(0.6, "share of those frames that must lie above the threshold")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.vad_energy_mean_scale >= 0,
            f"vad_energy_mean_scale must not be negative, but is {self.vad_energy_mean_scale:g}",
        )
        require(self.vad_frames_context >= 0, f"vad_frames_context must not be negative: {self.vad_frames_context}")
        require(
            0.0 < self.vad_proportion_threshold < 1.0,
            f"vad_proportion_threshold must lie between 0 and 1, but is {self.vad_proportion_threshold:g}",
        )


@dataclass(frozen=True, kw_only=True)
class ReverberationOptions(Options):
    """What is done to a signal in a room with noise (Kaldi: wav-reverberate)."""

    shift_output: bool = option(
        True, "shift the output back by the delay of the impulse response's peak and keep the input's length"
    )
    normalize_output: bool = option(True, "scale the output to the power of the input; not if volume is given")
    volume: float = option(0.0, "scale the output by this in place of normalizing it; 0 does not")
    duration: float = option(
        0.0, "seconds of output: cut, or filled by repeating the signal; 0 or less is as shift_output has it"
    )


@dataclass(frozen=True, kw_only=True)
class PitchOptions(Options):
    """The pitch tracker (Kaldi: PitchExtractionOptions)."""

    sample_frequency: float = option(16000.0, "sampling rate of the audio in Hz")
    frame_length: float = option(25.0, "length of the window that is correlated, in milliseconds")
    frame_shift: float = option(10.0, "distance from one frame's start to the next one's in milliseconds")
    preemphasis_coefficient: float = option(0.0, "how much of the previous sample is subtracted (deprecated)")
    min_f0: float = option(50.0, "lowest pitch that is looked for, in Hz")
    max_f0: float = option(400.0, "highest pitch that is looked for, in Hz")
    soft_min_f0: float = option(10.0, "makes long lags cost more: their correlation counts 1 - soft_min_f0 * lag")
    penalty_factor: float = option(0.1, "cost of a change of pitch: this times the squared change of its log")
    lowpass_cutoff: float = option(1000.0, "cutoff of the low-pass filter before resampling, in Hz")
    resample_frequency: float = option(
        4000.0, "sampling rate that the pitch is tracked at, in Hz; at least twice lowpass_cutoff"
    )
    delta_pitch: float = option(0.005, "relative distance between neighbouring pitch candidates")
    nccf_ballast: float = option(7000.0, "higher makes quiet frames' correlations count less")
    nccf_ballast_online: bool = option(False, "take the ballast's energy from the samples up to each frame's end")
    lowpass_filter_width: int = option(1, "zeros of the low-pass filter on each side; more is sharper")
    upsample_filter_width: int = option(5, "zeros on each side of the filter that interpolates correlations")
    max_frames_latency: int = option(
        0, "frames that the first pass may wait for the path to settle; see simulate_first_pass_online"
    )
    frames_per_chunk: int = option(
        0, "take the audio in chunks of so many frames as online decoding does, which changes its energy; 0 does not"
    )
    simulate_first_pass_online: bool = option(
        False, "give what online decoding sees as soon as a chunk is there, not what it has at the end"
    )
    recompute_frame: int = option(
        500, "frame at which the path so far is found anew with a better estimate of the energy; with frames_per_chunk"
    )
    snip_edges: bool = option(
        True, "keep only frames that lie wholly in the audio; false gives length / frame_shift frames"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_sizes(self, "sample_frequency", "resample_frequency", "frame_shift", "frame_length")
        require(self.sample_frequency >= 1, f"sample_frequency must be positive, not {self.sample_frequency:g}")
        require(
            0 < self.lowpass_cutoff <= 0.5 * min(int(self.resample_frequency), int(self.sample_frequency)),
            f"lowpass_cutoff={self.lowpass_cutoff:g} must be positive and at most half of sample_frequency and of "
            f"resample_frequency={self.resample_frequency:g}",
        )
        require(0 < self.min_f0 < self.max_f0, f"min_f0={self.min_f0:g} must lie between 0 and max_f0={self.max_f0:g}")
        require(
            self.delta_pitch > 0 and math.log(self.max_f0 / self.min_f0) < MAX_PITCHES * math.log1p(self.delta_pitch),
            f"delta_pitch={self.delta_pitch:g} must be positive, and give less than {MAX_PITCHES} candidates",
        )
        require(self.lowpass_filter_width > 0, f"lowpass_filter_width must be positive: {self.lowpass_filter_width}")
        require(self.upsample_filter_width > 0, f"upsample_filter_width must be positive: {self.upsample_filter_width}")
        require(
            self.resample_frequency / self.max_f0 - 0.5 * self.upsample_filter_width > -1,
            f"max_f0={self.max_f0:g} is too high for resample_frequency={self.resample_frequency:g} and "
            f"upsample_filter_width={self.upsample_filter_width}: its filter would reach lags before 0",
        )
        require(self.window_shift >= 1, f"frame_shift={self.frame_shift:g} ms is less than one resampled sample")
        require(self.window_size >= 1, f"frame_length={self.frame_length:g} ms is less than one resampled sample")
        require(self.frames_per_chunk >= 0, f"frames_per_chunk must not be negative, but is {self.frames_per_chunk}")
        require(
            self.frames_per_chunk > 0 or not self.simulate_first_pass_online,
            "simulate_first_pass_online=true needs frames_per_chunk: there is one pass only without chunks",
        )

    @property
    def window_size(self) -> int:
        """Resampled samples in the window that is correlated."""
        # Kaldi multiplies in float here, and divides in double.
        return int(float(np.float32(self.resample_frequency) * np.float32(self.frame_length)) / 1000.0)

    @property
    def window_shift(self) -> int:
        """Resampled samples from one frame's start to the next one's."""
        return int(float(np.float32(self.resample_frequency) * np.float32(self.frame_shift)) / 1000.0)


@dataclass(frozen=True, kw_only=True)
class ProcessPitchOptions(Options):
    """From correlation and pitch to features for speech recognition (Kaldi: ProcessPitchOptions)."""

    pitch_scale: float = option(2.0, "factor on the normalized log pitch")
    pov_scale: float = option(2.0, "factor on the probability-of-voicing feature")
    pov_offset: float = option(0.0, "added to the probability-of-voicing feature, in place of mean normalization")
    delta_pitch_scale: float = option(10.0, "factor on the delta of the log pitch")
    delta_pitch_noise_stddev: float = option(
        0.005, "standard deviation of the noise added to the delta of the log pitch, which blurs the pitch's grid"
    )
    normalization_left_context: int = option(75, "frames before each frame that its pitch is normalized over")
    normalization_right_context: int = option(75, "frames after each frame that its pitch is normalized over")
    delta_window: int = option(2, "frames on each side that the delta looks at")
    delay: int = option(0, "frames by which the features are delayed")
    add_pov_feature: bool = option(True, "give the probability-of-voicing feature, a warped correlation")
    add_normalized_log_pitch: bool = option(True, "give the log pitch less its mean over voiced neighbours")
    add_delta_pitch: bool = option(True, "give the delta of the log pitch")
    add_raw_log_pitch: bool = option(False, "give the log pitch itself")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.dim > 0, "at least one of the pitch features must be chosen (the options add_...)")
        require(0 < self.delta_window < 1000, f"delta_window must lie in 1 to 999, but is {self.delta_window}")
        require(self.delay >= 0, f"delay must not be negative, but is {self.delay}")
        require(
            self.normalization_left_context >= 0 and self.normalization_right_context >= 0,
            "normalization_left_context and normalization_right_context must not be negative",
        )

    @property
    def dim(self) -> int:
        """Features a frame."""
        return self.add_pov_feature + self.add_normalized_log_pitch + self.add_delta_pitch + self.add_raw_log_pitch


@dataclass(frozen=True, kw_only=True)
class InterpolatePitchOptions(Options):
    """How gaps in a pitch track are bridged (Kaldi: interpolate-pitch)."""

    linear_interpolation: bool = option(False, "a straight line over each gap; false follows a model of smooth pitch")
    pitch_interval: float = option(4.0, "distance between the pitches that the model knows, in Hz")
    interpolator_factor: float = option(1.0e-05, "nearer to zero follows the measured pitch more, and less smoothly")
    max_voicing_prob: float = option(0.9, "probability that stands for a measured one of 1; below 1 allows smoothing")
    max_pitch_change_per_frame: float = option(10.0, "largest change from frame to frame in Hz; bounds the work")

    def __post_init__(self) -> None:
        super().__post_init__()
        interval = self.pitch_interval
        require(0.0 < interval < 20.0, f"pitch_interval must lie between 0 and 20 Hz, but is {interval:g}")
        require(
            0.0 < self.interpolator_factor < 1.0,
            f"interpolator_factor must lie between 0 and 1: {self.interpolator_factor:g}",
        )
        require(
            0.5 <= self.max_voicing_prob <= 1.0, f"max_voicing_prob must lie in 0.5 to 1: {self.max_voicing_prob:g}"
        )
        require(
            self.max_pitch_change_per_frame > 2.0 * interval,
            f"max_pitch_change_per_frame={self.max_pitch_change_per_frame:g} must exceed "
            f"twice pitch_interval={interval:g}",
        )


@dataclass(frozen=True, kw_only=True)
class SmoothPitchOptions(Options):
    """Log pitch less its moving mean, smoothed (Kaldi: process-pitch-feats)."""

    normalization_window_size: int = option(151, "frames of the window whose mean is subtracted; odd")
    average_window_size: int = option(5, "frames of the window that is averaged over; odd")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("normalization_window_size", "average_window_size"):
            size = getattr(self, name)
            require(size > 0 and size % 2 == 1, f"{name} must be odd and positive, but is {size}")
