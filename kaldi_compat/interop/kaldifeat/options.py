"""kaldifeat's options, with its names, order and defaults. See :mod:`kaldi_compat.interop.kaldifeat`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from kaldi_compat.errors import OptionError
from kaldi_compat.interop.kaldifeat.whisper import WhisperMelOptions
from kaldi_compat.interop.named_options import NamedOptions
from kaldi_compat.options import spectral as ours

Made = TypeVar("Made", bound="_Options")
# kaldifeat's names of options that we call otherwise.
THEIR_NAMES = {
    "sample_frequency": "samp_freq",
    "frame_length": "frame_length_ms",
    "frame_shift": "frame_shift_ms",
    "preemphasis_coefficient": "preemph_coeff",
    "num_mel_bins": "num_bins",
}


class _Options(NamedOptions):
    """Base of kaldifeat's options, which convert to and from dictionaries."""

    their_names = THEIR_NAMES

    if not TYPE_CHECKING:  # a type checker would take it that every name may be set

        def __setattr__(self, name, value) -> None:
            super().__setattr__(name, torch.device(str(value)) if name == "device" else value)

    def as_dict(self) -> dict[str, Any]:
        """Return the options by name; groups of options as dictionaries."""
        return {name: value.as_dict() if isinstance(value, _Options) else value for name, value in vars(self).items()}

    @classmethod
    def from_dict(cls: type[Made], data: Mapping[str, Any]) -> Made:
        """Make options from a dictionary. Absent ones are defaults, and unknown names are ignored, as in kaldifeat."""
        made = cls()
        for name in vars(made).keys() & data.keys():
            group = getattr(made, name)
            setattr(made, name, type(group).from_dict(data[name]) if isinstance(group, _Options) else data[name])
        return made


@dataclass
class FrameExtractionOptions(_Options):
    """How audio is cut into frames: :class:`~kaldi_compat.options.spectral.FrameOptions` with kaldifeat's names.

    Attributes:
        samp_freq: sampling rate in Hz.
        frame_shift_ms: distance from the start of one frame to the start of the next, in milliseconds.
        frame_length_ms: length of a frame, in milliseconds.
        dither: standard deviation of the noise added to each sample of a frame; 0 adds none.
        preemph_coeff: share of the previous sample that is subtracted from each sample.
        remove_dc_offset: subtract the mean of each frame first.
        window_type: hamming, hanning, povey, rectangular, sine or blackman.
        round_to_power_of_two: pad each frame with zeros to a power of two for the FFT.
        blackman_coeff: constant term of the Blackman window.
        snip_edges: keep only frames that lie wholly in the audio; False reflects the audio at its ends.
        max_feature_vectors: number of frames that an online feature keeps; all if -1 or 0.
    """

    our_type = ours.FrameOptions

    samp_freq: float = 16000.0
    frame_shift_ms: float = 10.0
    frame_length_ms: float = 25.0
    dither: float = 1.0
    preemph_coeff: float = 0.97
    remove_dc_offset: bool = True
    window_type: str = "povey"
    round_to_power_of_two: bool = True
    blackman_coeff: float = 0.42
    snip_edges: bool = True
    max_feature_vectors: int = -1


@dataclass
class MelBanksOptions(_Options):
    """The mel filter bank: :class:`~kaldi_compat.options.spectral.MelOptions` with kaldifeat's names.

    Attributes:
        num_bins: number of triangular mel bins. 25 here, but 23 in the defaults of the features.
        low_freq: lower edge of the lowest mel bin, in Hz.
        high_freq: upper edge of the highest mel bin, in Hz; zero or less is an offset from the Nyquist frequency.
        vtln_low: lower inflection point of the VTLN warp, in Hz.
        vtln_high: upper inflection point of the VTLN warp, in Hz; negative is an offset from the Nyquist frequency.
        debug_mel: log each mel bin's weights.
        htk_mode: drop the first FFT bin of the lowest mel bin, as HTK does if ``low_freq`` is not 0.
    """

    our_type = ours.MelOptions

    num_bins: int = 25
    low_freq: float = 20.0
    high_freq: float = 0.0
    vtln_low: float = 100.0
    vtln_high: float = -500.0
    debug_mel: bool = False
    htk_mode: bool = False


class FeatureOptions(_Options):
    """Base class of the options of a feature: those of frames and mel bins, its own, and the device."""

    frame_opts: FrameExtractionOptions
    device: torch.device

    def ours(self) -> Any:
        """Return the same as this package's options.

        Raises:
            OptionError: a value that Kaldi refuses.
        """
        values: dict[str, Any] = {}
        for name, value in vars(self).items():
            values |= vars(value) if isinstance(value, _Options) else {name: value}
        values["max_feature_vectors"] = values["max_feature_vectors"] or -1
        values["allow_empty_bins"] = True
        return self.converted(values)


def _mel() -> MelBanksOptions:
    return MelBanksOptions(num_bins=23)


def _cpu() -> torch.device:
    return torch.device("cpu")


@dataclass
class FbankOptions(FeatureOptions):
    """Options of :class:`~kaldi_compat.interop.kaldifeat.Fbank`.

    Attributes:
        mel_opts: the mel filter bank.
        frame_opts: how audio is cut into frames.
        use_energy: add the frame's log energy as a column.
        energy_floor: floor on the energy (before the log), absolute; 0 is none.
        raw_energy: energy before preemphasis and windowing.
        htk_compat: put the energy last.
        use_log_fbank: log of the mel energies, not the energies themselves.
        use_power: power spectrum, not magnitude.
        device: device that computes the features.
    """

    our_type = ours.FbankOptions

    mel_opts: MelBanksOptions = field(default_factory=_mel)
    frame_opts: FrameExtractionOptions = field(default_factory=FrameExtractionOptions)
    use_energy: bool = False
    energy_floor: float = 0.0
    raw_energy: bool = True
    htk_compat: bool = False
    use_log_fbank: bool = True
    use_power: bool = True
    device: torch.device = field(default_factory=_cpu)


@dataclass
class MfccOptions(FeatureOptions):
    """Options of :class:`~kaldi_compat.interop.kaldifeat.Mfcc`.

    Attributes:
        mel_opts: the mel filter bank.
        frame_opts: how audio is cut into frames.
        num_ceps: number of cepstral coefficients, C0 included.
        use_energy: log energy in place of C0.
        energy_floor: floor on the energy (before the log), absolute; 0 is none.
        raw_energy: energy before preemphasis and windowing.
        cepstral_lifter: liftering of the coefficients; 0 is none.
        htk_compat: put the energy or C0 last, and scale C0 by sqrt(2).
        device: device that computes the features.
    """

    our_type = ours.MfccOptions

    mel_opts: MelBanksOptions = field(default_factory=_mel)
    frame_opts: FrameExtractionOptions = field(default_factory=FrameExtractionOptions)
    num_ceps: int = 13
    use_energy: bool = True
    energy_floor: float = 0.0
    raw_energy: bool = True
    cepstral_lifter: float = 22.0
    htk_compat: bool = False
    device: torch.device = field(default_factory=_cpu)


@dataclass
class PlpOptions(FeatureOptions):
    """Options of :class:`~kaldi_compat.interop.kaldifeat.Plp`.

    Attributes:
        mel_opts: the mel filter bank.
        frame_opts: how audio is cut into frames.
        lpc_order: order of the linear prediction.
        num_ceps: number of cepstral coefficients, C0 included.
        use_energy: log energy in place of C0.
        energy_floor: floor on the energy (before the log), absolute; 0 is none.
        raw_energy: energy before preemphasis and windowing.
        compress_factor: exponent of the intensity-to-loudness compression.
        cepstral_lifter: liftering of the coefficients; 0 is none.
        cepstral_scale: factor on all coefficients.
        htk_compat: put the energy or C0 last.
        device: device that computes the features.
    """

    our_type = ours.PlpOptions

    mel_opts: MelBanksOptions = field(default_factory=_mel)
    frame_opts: FrameExtractionOptions = field(default_factory=FrameExtractionOptions)
    lpc_order: int = 12
    num_ceps: int = 13
    use_energy: bool = True
    energy_floor: float = 0.0
    raw_energy: bool = True
    compress_factor: float = 0.33333
    cepstral_lifter: int = 22
    cepstral_scale: float = 1.0
    htk_compat: bool = False
    device: torch.device = field(default_factory=_cpu)


@dataclass
class SpectrogramOptions(FeatureOptions):
    """Options of :class:`~kaldi_compat.interop.kaldifeat.Spectrogram`.

    Attributes:
        frame_opts: how audio is cut into frames.
        energy_floor: floor on the energy (before the log), absolute; 0 is none.
        raw_energy: energy before preemphasis and windowing.
        return_raw_fft: real and imaginary parts of the FFT instead of the log power.
        device: device that computes the features.
    """

    our_type = ours.SpectrogramOptions

    frame_opts: FrameExtractionOptions = field(default_factory=FrameExtractionOptions)
    energy_floor: float = 0.0
    raw_energy: bool = True
    return_raw_fft: bool = False
    device: torch.device = field(default_factory=_cpu)


@dataclass
class WhisperFbankOptions(FeatureOptions):
    """Options of :class:`~kaldi_compat.interop.kaldifeat.WhisperFbank`.

    Attributes:
        frame_opts: all but ``snip_edges`` is ignored: Whisper's frames are fixed.
        num_mels: 80, or 128 for large-v3.
        device: device that computes the features.
    """

    our_type = WhisperMelOptions

    frame_opts: FrameExtractionOptions = field(default_factory=FrameExtractionOptions)
    num_mels: int = 80
    device: torch.device = field(default_factory=_cpu)

    def ours(self) -> WhisperMelOptions:
        """Return the same as this package's options.

        Raises:
            OptionError: ``num_mels`` is neither 80 nor 128.
        """
        if self.num_mels not in (80, 128):
            raise OptionError(f"num_mels must be 80 or 128, as in Whisper's models, not {self.num_mels!r}")
        return WhisperMelOptions(num_mels=self.num_mels, snip_edges=self.frame_opts.snip_edges)
