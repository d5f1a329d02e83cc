"""Options of the spectral features (Kaldi: src/feat/feature-window.h, mel-computations.h, feature-*.h)."""

from __future__ import annotations

import math
from typing import Literal

from kaldi_compat.options.base import BaseOptions, as_float32, require
from kaldi_compat.options.declaration import LENGTH_NAMES, LIMIT, RATE_NAMES, SHIFT_NAMES, option

Engine = Literal["auto", "exact", "torch", "triton"]
Dft = Literal["fft", "matmul"]
WINDOW_TYPES = ("hamming", "hanning", "povey", "rectangular", "sine", "blackman")
MAX_WEIGHTS = 1 << 26  # Largest number of weights of a filter bank or transform, so that they fit into memory.
MAX_WINDOW = 1 << 24  # Largest length of a frame in samples, so that its window and FFT fit into memory.


class FrameOptions(BaseOptions):
    """Options of the division of audio into frames (Kaldi: FrameExtractionOptions)."""

    sample_frequency: float = option(
        16000.0, "sampling rate that the features are computed at", unit="Hz", gt=0, lt=LIMIT, known_as=RATE_NAMES
    )
    frame_length: float = option(25.0, "length of a frame", unit="milliseconds", gt=0, lt=LIMIT, known_as=LENGTH_NAMES)
    frame_shift: float = option(
        10.0,
        "distance from the start of one frame to the start of the next",
        unit="milliseconds",
        gt=0,
        lt=LIMIT,
        known_as=SHIFT_NAMES,
    )
    preemphasis_coefficient: float = option(
        0.97,
        "fraction of the previous sample that is subtracted from each sample",
        ge=0,
        le=1,
        known_as=("preemph", "preemph_coeff", "preemphasis", "pre_emphasis"),
    )
    remove_dc_offset: bool = option(True, "subtract the mean of each frame first")
    dither: float = option(
        1.0, "standard deviation of the noise added to each sample of a frame; 0 adds none", gt=-math.inf, lt=math.inf
    )
    window_type: str = option(
        "povey", "window function", choices=WINDOW_TYPES, known_as=("window", "window_fn", "winfunc")
    )
    blackman_coeff: float = option(0.42, "constant term of the Blackman window")
    round_to_power_of_two: bool = option(True, "pad each frame with zeros to a power of two for the FFT")
    snip_edges: bool = option(
        True,
        "keep only frames that lie wholly in the audio; false reflects the audio at its ends",
        known_as=("center", "padding", "pad_mode"),
    )
    allow_downsample: bool = option(False, "resample audio of a higher sampling rate instead of refusing it")
    allow_upsample: bool = option(False, "resample audio of a lower sampling rate instead of refusing it")
    max_feature_vectors: int = option(-1, "accepted for compatibility; limits memory in Kaldi's online decoding only")
    waveform_scale: float = option(
        1.0,
        "factor on the samples before all other steps; 32768 converts audio in -1 to 1 to Kaldi's scale",
        gt=0,
        lt=math.inf,
        known_as=("scale", "normalize"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.window_shift >= 1, f"frame_shift={self.frame_shift:g} ms is less than one sample: increase it")
        require(self.window_size >= 2, f"frame_length={self.frame_length:g} ms is less than two samples: increase it")
        too_long = f"frame_length={self.frame_length:g} ms is more than {MAX_WINDOW} samples: reduce it"
        require(self.window_size <= MAX_WINDOW, too_long)

    @property
    def window_size(self) -> int:
        """Number of samples in a frame."""
        return int(as_float32(self.sample_frequency) * 0.001 * as_float32(self.frame_length))

    @property
    def window_shift(self) -> int:
        """Number of samples from the start of one frame to the start of the next frame."""
        return int(as_float32(self.sample_frequency) * 0.001 * as_float32(self.frame_shift))

    @property
    def padded_window_size(self) -> int:
        """Number of points of the FFT: ``window_size``, rounded up to a power of two if ``round_to_power_of_two``."""
        return 1 << (self.window_size - 1).bit_length() if self.round_to_power_of_two else self.window_size

    @property
    def dim(self) -> int:
        """Number of columns of the features."""
        raise NotImplementedError


class MelFeatureOptions(FrameOptions):
    """Options of all features on a mel filter bank (Kaldi: MelBanksOptions, and the energy options of each feature)."""

    num_mel_bins: int = option(
        23,
        "number of triangular mel bins",
        ge=3,
        known_as=("n_mels", "num_bins", "num_filters", "n_filters", "nfilt", "n_mel", "num_mels", "feature_size"),
    )
    low_freq: float = option(
        20.0, "lower edge of the lowest mel bin", unit="Hz", known_as=("f_min", "fmin", "lowfreq", "low_frequency")
    )
    high_freq: float = option(
        0.0,
        "upper edge of the highest mel bin; zero or less is an offset from the Nyquist frequency",
        unit="Hz",
        known_as=("f_max", "fmax", "highfreq", "high_frequency"),
    )
    vtln_low: float = option(100.0, "lower inflection point of the piecewise linear VTLN warp", unit="Hz")
    vtln_high: float = option(
        -500.0, "upper inflection point of the VTLN warp; negative is an offset from the Nyquist frequency", unit="Hz"
    )
    debug_mel: bool = option(
        False, "log each mel bin's first FFT bin and weights, and print the energies of each frame"
    )
    htk_compat: bool = option(False, "order, scale and mel bins as in HTK (energy last, C0 times sqrt(2))")
    allow_empty_bins: bool = option(
        False, "accept mel bins too narrow to contain an FFT bin, as torchaudio does; their energy is 0"
    )
    use_energy: bool = option(False, "use the frame's log energy", known_as=("append_energy", "energy"))
    energy_floor: float = option(0.0, "floor on the energy (before the log), absolute; 0 for none")
    raw_energy: bool = option(True, "energy before preemphasis and windowing")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.num_mel_bins * (self.padded_window_size // 2) <= MAX_WEIGHTS,
            f"num_mel_bins={self.num_mel_bins} over an FFT of {self.padded_window_size} points (frame_length) needs a "
            f"filter bank of more than {MAX_WEIGHTS} weights: reduce num_mel_bins or frame_length",
        )


class FbankOptions(MelFeatureOptions):
    """Options of log-mel filter bank features (Kaldi: FbankOptions)."""

    use_log_fbank: bool = option(
        True, "log of the mel energies, not the energies themselves", known_as=("log", "log_mel")
    )
    use_power: bool = option(True, "power spectrum, not magnitude", known_as=("power",))

    @property
    def dim(self) -> int:
        """Number of columns: the mel bins, and the energy with ``use_energy``."""
        return self.num_mel_bins + self.use_energy


class MfccOptions(MelFeatureOptions):
    """Options of mel-frequency cepstral coefficients (Kaldi: MfccOptions)."""

    use_energy: bool = option(True, "log energy in place of C0", known_as=("append_energy", "energy"))
    num_ceps: int = option(
        13, "number of cepstral coefficients, C0 included", ge=1, known_as=("n_mfcc", "numcep", "num_cepstra", "n_ceps")
    )
    cepstral_lifter: float = option(22.0, "liftering of the coefficients; 0 for none", known_as=("lifter", "ceplifter"))

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.num_ceps <= self.num_mel_bins,
            f"num_ceps={self.num_ceps} must be at most num_mel_bins={self.num_mel_bins}: reduce it",
        )

    @property
    def dim(self) -> int:
        """Number of columns: the cepstral coefficients, including C0 or the energy."""
        return self.num_ceps


class PlpOptions(MelFeatureOptions):
    """Options of perceptual linear prediction cepstra (Kaldi: PlpOptions)."""

    use_energy: bool = option(True, "log energy in place of C0", known_as=("append_energy", "energy"))
    lpc_order: int = option(12, "order of the linear prediction", known_as=("order",))
    num_ceps: int = option(
        13, "number of cepstral coefficients, C0 included", ge=1, known_as=("n_plp", "numcep", "num_cepstra", "n_ceps")
    )
    compress_factor: float = option(0.33333, "exponent of the intensity-to-loudness compression")
    cepstral_lifter: int = option(22, "liftering of the coefficients; 0 for none", known_as=("lifter", "ceplifter"))
    cepstral_scale: float = option(1.0, "factor on all coefficients")

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.num_ceps <= self.lpc_order + 1,
            f"num_ceps={self.num_ceps} must be at most lpc_order + 1 = {self.lpc_order + 1}: reduce it",
        )
        require(
            (self.lpc_order + 1) * (self.num_mel_bins + 2) <= MAX_WEIGHTS,
            f"lpc_order={self.lpc_order} with num_mel_bins={self.num_mel_bins} needs a transform of more than "
            f"{MAX_WEIGHTS} weights: reduce lpc_order or num_mel_bins",
        )

    @property
    def dim(self) -> int:
        """Number of columns: the cepstral coefficients, including C0 or the energy."""
        return self.num_ceps


class SpectrogramOptions(FrameOptions):
    """Options of the log power spectrum (Kaldi: SpectrogramOptions)."""

    energy_floor: float = option(0.0, "floor on the energy (before the log), absolute; 0 for none")
    raw_energy: bool = option(True, "energy before preemphasis and windowing")
    return_raw_fft: bool = option(False, "real and imaginary parts of the FFT instead of the log power")

    @property
    def dim(self) -> int:
        """Number of columns: FFT bins from 0 Hz to the Nyquist frequency, or FFT points with ``return_raw_fft``."""
        points = self.padded_window_size
        return points if self.return_raw_fft else points // 2 + 1
