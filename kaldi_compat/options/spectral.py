"""Options of the spectral features (Kaldi: src/feat/feature-window.h, mel-computations.h, feature-*.h)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kaldi_compat.options.base import Options, _require_sizes, as_float32, option, require

WINDOW_TYPES = ("hamming", "hanning", "povey", "rectangular", "sine", "blackman")


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
