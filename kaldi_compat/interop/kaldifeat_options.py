"""kaldifeat's options: what :mod:`kaldi_compat.interop.kaldifeat_groups` writes from our declarations. Do not edit."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from kaldi_compat.interop.kaldifeat_groups import FeatureOptions, OptionGroup
from kaldi_compat.options import spectral as options

__all__ = [
    "FbankOptions",
    "FrameExtractionOptions",
    "MelBanksOptions",
    "MfccOptions",
    "PlpOptions",
    "SpectrogramOptions",
]


@dataclass
class FrameExtractionOptions(OptionGroup):
    """Options of kaldifeat for which ours are :class:`~kaldi_compat.options.spectral.FrameOptions`.

    Attributes:
        samp_freq: sampling rate that the features are computed at, in Hz; positive and less than 1e+09
        frame_length_ms: length of a frame, in milliseconds; positive and less than 1e+09
        frame_shift_ms: distance from the start of one frame to the start of the next, in milliseconds; positive and
            less than 1e+09
        preemph_coeff: share of the previous sample that is subtracted from each sample; from 0 to 1
        remove_dc_offset: subtract the mean of each frame first
        dither: standard deviation of the noise added to each sample of a frame; 0 adds none; finite
        window_type: window function; one of hamming, hanning, povey, rectangular, sine, blackman
        blackman_coeff: constant term of the Blackman window
        round_to_power_of_two: pad each frame with zeros to a power of two for the FFT
        snip_edges: keep only frames that lie wholly in the audio; false reflects the audio at its ends
        max_feature_vectors: accepted for Kaldi's sake; bounds memory in Kaldi's online decoding only
    """

    _kind = options.FrameOptions

    samp_freq: float = 16000.0
    frame_length_ms: float = 25.0
    frame_shift_ms: float = 10.0
    preemph_coeff: float = 0.97
    remove_dc_offset: bool = True
    dither: float = 1.0
    window_type: str = "povey"
    blackman_coeff: float = 0.42
    round_to_power_of_two: bool = True
    snip_edges: bool = True
    max_feature_vectors: int = -1


@dataclass
class MelBanksOptions(OptionGroup):
    """Options of kaldifeat for which ours are :class:`~kaldi_compat.options.spectral.MelOptions`.

    Attributes:
        num_bins: number of triangular mel bins; at least 3
        low_freq: lower edge of the lowest mel bin, in Hz
        high_freq: upper edge of the highest mel bin, in Hz; zero or less is an offset from the Nyquist frequency
        vtln_low: lower inflection point of the piecewise linear VTLN warp, in Hz
        vtln_high: upper inflection point of the VTLN warp, in Hz; negative is an offset from high_freq
        debug_mel: log each mel bin's first FFT bin and weights
    """

    _kind = options.MelOptions

    num_bins: int = 23
    low_freq: float = 20.0
    high_freq: float = 0.0
    vtln_low: float = 100.0
    vtln_high: float = -500.0
    debug_mel: bool = False


@dataclass
class FbankOptions(FeatureOptions):
    """Options of kaldifeat for which ours are :class:`~kaldi_compat.options.spectral.FbankOptions`.

    Attributes:
        frame_opts: how audio is cut into frames.
        mel_opts: the mel filter bank.
        device: device of the features.
        htk_compat: order, scale and mel bins as in HTK (energy last, C0 times sqrt(2))
        use_energy: use the frame's log energy
        energy_floor: floor on the energy (before the log), absolute; 0 is none
        raw_energy: energy before preemphasis and windowing
        use_log_fbank: log of the mel energies, not the energies themselves
        use_power: power spectrum, not magnitude
    """

    _kind = options.FbankOptions

    frame_opts: FrameExtractionOptions = field(default_factory=FrameExtractionOptions)
    mel_opts: MelBanksOptions = field(default_factory=MelBanksOptions)
    device: torch.device | str = field(default_factory=lambda: torch.device("cpu"))
    htk_compat: bool = False
    use_energy: bool = False
    energy_floor: float = 0.0
    raw_energy: bool = True
    use_log_fbank: bool = True
    use_power: bool = True


@dataclass
class MfccOptions(FeatureOptions):
    """Options of kaldifeat for which ours are :class:`~kaldi_compat.options.spectral.MfccOptions`.

    Attributes:
        frame_opts: how audio is cut into frames.
        mel_opts: the mel filter bank.
        device: device of the features.
        htk_compat: order, scale and mel bins as in HTK (energy last, C0 times sqrt(2))
        use_energy: log energy in place of C0
        energy_floor: floor on the energy (before the log), absolute; 0 is none
        raw_energy: energy before preemphasis and windowing
        num_ceps: number of cepstral coefficients, C0 included; at least 1
        cepstral_lifter: liftering of the coefficients; 0 is none
    """

    _kind = options.MfccOptions

    frame_opts: FrameExtractionOptions = field(default_factory=FrameExtractionOptions)
    mel_opts: MelBanksOptions = field(default_factory=MelBanksOptions)
    device: torch.device | str = field(default_factory=lambda: torch.device("cpu"))
    htk_compat: bool = False
    use_energy: bool = True
    energy_floor: float = 0.0
    raw_energy: bool = True
    num_ceps: int = 13
    cepstral_lifter: float = 22.0


@dataclass
class PlpOptions(FeatureOptions):
    """Options of kaldifeat for which ours are :class:`~kaldi_compat.options.spectral.PlpOptions`.

    Attributes:
        frame_opts: how audio is cut into frames.
        mel_opts: the mel filter bank.
        device: device of the features.
        htk_compat: order, scale and mel bins as in HTK (energy last, C0 times sqrt(2))
        use_energy: log energy in place of C0
        energy_floor: floor on the energy (before the log), absolute; 0 is none
        raw_energy: energy before preemphasis and windowing
        lpc_order: order of the linear prediction
        num_ceps: number of cepstral coefficients, C0 included; at least 1
        compress_factor: exponent of the intensity-to-loudness compression
        cepstral_lifter: liftering of the coefficients; 0 is none
        cepstral_scale: factor on all coefficients
    """

    _kind = options.PlpOptions

    frame_opts: FrameExtractionOptions = field(default_factory=FrameExtractionOptions)
    mel_opts: MelBanksOptions = field(default_factory=MelBanksOptions)
    device: torch.device | str = field(default_factory=lambda: torch.device("cpu"))
    htk_compat: bool = False
    use_energy: bool = True
    energy_floor: float = 0.0
    raw_energy: bool = True
    lpc_order: int = 12
    num_ceps: int = 13
    compress_factor: float = 0.33333
    cepstral_lifter: int = 22
    cepstral_scale: float = 1.0


@dataclass
class SpectrogramOptions(FeatureOptions):
    """Options of kaldifeat for which ours are :class:`~kaldi_compat.options.spectral.SpectrogramOptions`.

    Attributes:
        frame_opts: how audio is cut into frames.
        mel_opts: the mel filter bank.
        device: device of the features.
        energy_floor: floor on the energy (before the log), absolute; 0 is none
        raw_energy: energy before preemphasis and windowing
        return_raw_fft: real and imaginary parts of the FFT instead of the log power
    """

    _kind = options.SpectrogramOptions

    frame_opts: FrameExtractionOptions = field(default_factory=FrameExtractionOptions)
    mel_opts: MelBanksOptions = field(default_factory=MelBanksOptions)
    device: torch.device | str = field(default_factory=lambda: torch.device("cpu"))
    energy_floor: float = 0.0
    raw_energy: bool = True
    return_raw_fft: bool = False
