"""Feature extractors for lhotse (extra ``lhotse``).

Importing this module registers them under the names ``kaldi-compat-fbank``, ``-mfcc``, ``-plp`` and ``-spectrogram``,
so that lhotse's ``extract`` commands and configurations find them::

    from kaldi_compat.interop.lhotse import FbankConfig, FbankExtractor
    cuts = cuts.compute_and_store_features(FbankExtractor(FbankConfig(num_filters=80)), "data/fbank")

Configurations have lhotse's names and units, and Kaldi's features: audio in -1 to 1 is scaled to 16-bit integers.
``waveform_scale=1.0, high_freq=-400.0`` give the features of lhotse's own ``Fbank``.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from lhotse.features.base import FeatureExtractor, register_extractor
from lhotse.utils import EPSILON
from torch import Tensor

from kaldi_compat.data.batching import pad, unpad
from kaldi_compat.errors import AudioError, OptionError
from kaldi_compat.features.fbank import Fbank
from kaldi_compat.features.mfcc import Mfcc
from kaldi_compat.features.plp import Plp
from kaldi_compat.features.spectral import SpectralFeature
from kaldi_compat.features.spectrogram import Spectrogram
from kaldi_compat.interop.named_options import NamedOptions
from kaldi_compat.options.spectral import FbankOptions, FrameOptions, MfccOptions, PlpOptions, SpectrogramOptions

__all__ = [
    "Config",
    "Extractor",
    "FbankConfig",
    "FbankExtractor",
    "MfccConfig",
    "MfccExtractor",
    "PlpConfig",
    "PlpExtractor",
    "SpectrogramConfig",
    "SpectrogramExtractor",
]

Samples = np.ndarray[Any, Any] | Tensor
AnyConfig = TypeVar("AnyConfig", bound="Config")
# lhotse's options for which Kaldi has one value only.
FIXED = {"norm_filters": False, "torchaudio_compatible_mel_scale": True}


@dataclass
class Config(NamedOptions):
    """Options of all features, with lhotse's names and units.

    Attributes:
        sampling_rate: of the audio, in Hz.
        frame_length: length of a frame, in seconds.
        frame_shift: distance from the start of one frame to the start of the next, in seconds.
        round_to_power_of_two: pad each frame with zeros to a power of two for the FFT.
        remove_dc_offset: subtract the mean of each frame first.
        preemph_coeff: share of the previous sample that is subtracted from each sample.
        window_type: hamming, hanning, povey, rectangular, sine or blackman.
        dither: standard deviation of the noise added to each sample of a frame; 0 adds none.
        snip_edges: keep only frames that lie wholly in the audio; False gives the number of frames that lhotse expects.
        energy_floor: floor on the energy (before the log), absolute; 0 is none.
        raw_energy: energy before preemphasis and windowing.
        device: device that computes the features.
        blackman_coeff: constant term of the Blackman window.
        waveform_scale: factor on the samples, which lie in -1 to 1 in lhotse.
    """

    our_type = FrameOptions
    their_names = {  # noqa: RUF012  a dataclass's own attribute
        "sample_frequency": "sampling_rate",
        "preemphasis_coefficient": "preemph_coeff",
        "num_mel_bins": "num_filters",
    }

    only: ClassVar[Mapping[str, bool]] = FIXED | {"use_fft_mag": False}

    sampling_rate: int = 16000
    frame_length: float = 0.025
    frame_shift: float = 0.01
    round_to_power_of_two: bool = True
    remove_dc_offset: bool = True
    preemph_coeff: float = 0.97
    window_type: str = "povey"
    dither: float = 0.0
    snip_edges: bool = False
    energy_floor: float = 0.0
    raw_energy: bool = True
    device: str = "cpu"
    blackman_coeff: float = 0.42
    waveform_scale: float = 32768.0

    def __post_init__(self) -> None:
        self._check_times()

    def _check_times(self) -> None:
        for name in ("frame_length", "frame_shift"):
            if (value := getattr(self, name)) >= 1:
                raise OptionError(f"{name}={value:g} is in seconds, as in lhotse: pass {value / 1000:g}")
        if self.snip_edges:
            warnings.warn(
                "snip_edges=True gives fewer frames than lhotse computes from a duration: pass snip_edges=False unless "
                "you handle the difference",
                stacklevel=4,
            )

    def ours(self) -> Any:
        """Return the same as this package's options.

        Raises:
            OptionError: a value that Kaldi refuses or does not have.
        """
        values = dict(vars(self))
        for name, value in self.only.items():
            if values.get(name, value) != value:
                raise OptionError(f"{type(self).__name__} supports only {name}={value}, as Kaldi does")
        values["use_power"] = not values.get("use_fft_mag", False)
        values["frame_length"], values["frame_shift"] = 1000.0 * self.frame_length, 1000.0 * self.frame_shift
        return self.converted(values)

    def to_dict(self) -> dict[str, Any]:
        """Return the options by name, for lhotse's configuration files."""
        return dict(vars(self))

    @classmethod
    def from_dict(cls: type[AnyConfig], data: dict[str, Any]) -> AnyConfig:
        """Return the configuration from a dictionary of :meth:`to_dict`."""
        return cls(**data)


@dataclass
class MelConfig(Config):
    """Options of features on a mel filter bank.

    Attributes:
        use_energy: use the frame's log energy.
        low_freq: lower edge of the lowest mel bin, in Hz.
        high_freq: upper edge of the highest mel bin, in Hz; zero or less is an offset from the Nyquist frequency.
        num_filters: number of triangular mel bins.
        num_mel_bins: another name of ``num_filters``.
        norm_filters: only False.
        torchaudio_compatible_mel_scale: only True.
        htk_compat: order of columns and scale of C0 as in HTK.
        allow_empty_bins: accept mel bins that hold no bin of the FFT.
    """

    use_energy: bool = True
    use_fft_mag: bool = False
    low_freq: float = 20.0
    high_freq: float = 0.0
    num_filters: int = 23
    num_mel_bins: int | None = None
    norm_filters: bool = False
    torchaudio_compatible_mel_scale: bool = True
    htk_compat: bool = False
    allow_empty_bins: bool = True

    def __post_init__(self) -> None:
        if self.num_mel_bins is not None:
            self.num_filters, self.num_mel_bins = self.num_mel_bins, None
        self._check_times()


@dataclass
class FbankConfig(MelConfig):
    """Options of :class:`FbankExtractor`.

    Attributes:
        use_fft_mag: sums of magnitudes, not of the power spectrum.
        use_log_fbank: log of the mel energies, not the energies themselves.
    """

    our_type = FbankOptions
    only = FIXED

    use_energy: bool = False
    num_filters: int = 80
    use_log_fbank: bool = True


@dataclass
class MfccConfig(MelConfig):
    """Options of :class:`MfccExtractor`.

    Attributes:
        num_ceps: number of cepstral coefficients, C0 included.
        cepstral_lifter: liftering of the coefficients; 0 is none.
    """

    our_type = MfccOptions

    num_ceps: int = 13
    cepstral_lifter: float = 22.0


@dataclass
class PlpConfig(MelConfig):
    """Options of :class:`PlpExtractor`.

    Attributes:
        num_ceps: number of cepstral coefficients, C0 included.
        cepstral_lifter: liftering of the coefficients; 0 is none.
        lpc_order: order of the linear prediction.
        compress_factor: exponent of the intensity-to-loudness compression.
        cepstral_scale: factor on all coefficients.
    """

    our_type = PlpOptions

    num_ceps: int = 13
    cepstral_lifter: int = 22
    lpc_order: int = 12
    compress_factor: float = 0.33333
    cepstral_scale: float = 1.0


@dataclass
class SpectrogramConfig(Config):
    """Options of :class:`SpectrogramExtractor`. The first column holds the energy.

    Attributes:
        use_energy: only True.
        use_fft_mag: only False.
        return_raw_fft: real and imaginary parts of the FFT instead of the log power.
    """

    our_type = SpectrogramOptions
    only = FIXED | {"use_fft_mag": False, "use_energy": True}

    use_energy: bool = True
    use_fft_mag: bool = False
    return_raw_fft: bool = False


class Extractor(FeatureExtractor):  # type: ignore[misc]
    """Base class of the extractors: lhotse's methods over a feature of this package.

    Args:
        config: the options; the defaults of its class if None.
    """

    feature_type: ClassVar[type[SpectralFeature]]

    def __init__(self, config: Config | None = None) -> None:
        super().__init__(config=config)
        self.feature = self.feature_type(self.config.ours()).to(self.config.device)
        # As in lhotse, audio may be on any scale.
        self.feature._scale_is_known = True

    @property
    def device(self) -> str:
        """Device that computes the features."""
        device: str = self.config.device
        return device

    def to(self, device: str) -> None:
        """Move the extractor to a device."""
        self.config.device = str(device)
        self.feature.to(device)

    @property
    def frame_shift(self) -> float:
        """Seconds from one frame's start to the next one's."""
        shift: float = self.config.frame_shift
        return shift

    def feature_dim(self, sampling_rate: int) -> int:
        """Number of columns of the features."""
        return self.feature.dim

    def extract(self, samples: Samples, sampling_rate: int) -> Samples:
        """Compute features ``(frames, dim)`` of one channel of audio, ``(T,)`` or ``(1, T)``; NumPy for NumPy.

        Raises:
            AudioError: the audio has another sampling rate, or several channels.
        """
        self._check_rate(sampling_rate)
        features: Tensor = self.feature(_one_channel(samples).to(self.device))
        return features.cpu().numpy() if isinstance(samples, np.ndarray) else features

    def extract_batch(
        self, samples: Samples | Sequence[Samples], sampling_rate: int, lengths: Samples | None = None
    ) -> Any:
        """Compute features of a batch: padded audio ``(B, T)`` with lengths, or a list of audio of any lengths.

        Returns:
            An array ``(B, frames, dim)`` if all have the same length, else a list of ``(frames, dim)``; a single array
            for a single utterance that is not in a list.

        Raises:
            AudioError: as :meth:`extract`.
        """
        self._check_rate(sampling_rate)
        one = isinstance(samples, (np.ndarray, Tensor)) and samples.ndim == 1
        items: list[Any] = [samples] if one else list(samples)
        if lengths is None:
            batch, counts = pad([_one_channel(item) for item in items])
        else:
            batch, counts = torch.as_tensor(samples), torch.as_tensor(lengths)
        features, frames = self.feature(batch.to(self.device), counts.to(self.device))
        rows: list[Any] = unpad(features, frames)
        if not any(isinstance(item, Tensor) for item in items):
            rows = [row.cpu().numpy() for row in rows]
        if len(rows) == 1:
            return rows if isinstance(samples, list) else rows[0]
        if len({len(row) for row in rows}) > 1:
            return rows
        return np.stack(rows) if isinstance(rows[0], np.ndarray) else torch.stack(rows)

    def _check_rate(self, sampling_rate: int) -> None:
        if sampling_rate != self.config.sampling_rate:
            raise AudioError(
                f"the audio has a sampling rate of {sampling_rate} Hz, but the extractor has sampling_rate="
                f"{self.config.sampling_rate:g}: resample the cuts, or create another extractor"
            )


def _one_channel(samples: Samples) -> Tensor:
    tensor = torch.as_tensor(samples)
    if tensor.ndim == 2 and len(tensor) == 1:
        tensor = tensor[0]
    if tensor.ndim != 1:
        raise AudioError(f"audio must have one channel, with shape (T,) or (1, T), not {tuple(tensor.shape)}")
    return tensor


class _LogEnergies:
    """Mixing of features that are logs of energies, added as energies."""

    floor: ClassVar[float] = EPSILON  # below it lies only what lhotse pads cuts with

    @classmethod
    def mix(
        cls, features_a: np.ndarray[Any, Any], features_b: np.ndarray[Any, Any], energy_scaling_factor_b: float
    ) -> np.ndarray[Any, Any]:
        """Return the features of a mixture, with the energy of the second part scaled."""
        energy = np.exp(features_a) + energy_scaling_factor_b * np.exp(features_b)
        mixed: np.ndarray[Any, Any] = np.log(np.maximum(cls.floor, energy))
        return mixed

    @staticmethod
    def compute_energy(features: np.ndarray[Any, Any]) -> float:
        """Return the sum of all energies."""
        return float(np.sum(np.exp(features)))

    @staticmethod
    def scale(features: np.ndarray[Any, Any], energy_scaling_factor: float) -> np.ndarray[Any, Any]:
        """Return the features of the audio at another level."""
        scaled: np.ndarray[Any, Any] = features + np.log(energy_scaling_factor)
        return scaled


@register_extractor
class FbankExtractor(_LogEnergies, Extractor):
    """Log-mel filter bank features for lhotse.

    >>> FbankExtractor().extract(np.zeros(16000, np.float32), 16000).shape
    (100, 80)
    """

    name = "kaldi-compat-fbank"
    config_type = FbankConfig
    feature_type = Fbank


@register_extractor
class MfccExtractor(Extractor):
    """Mel-frequency cepstral coefficients for lhotse."""

    name = "kaldi-compat-mfcc"
    config_type = MfccConfig
    feature_type = Mfcc


@register_extractor
class PlpExtractor(Extractor):
    """Perceptual linear prediction cepstra for lhotse."""

    name = "kaldi-compat-plp"
    config_type = PlpConfig
    feature_type = Plp


@register_extractor
class SpectrogramExtractor(_LogEnergies, Extractor):
    """Log power spectrum for lhotse."""

    name = "kaldi-compat-spectrogram"
    config_type = SpectrogramConfig
    feature_type = Spectrogram
