"""Feature extractors for lhotse (extra ``lhotse``).

Importing this module registers them under the names ``kaldi-compat-fbank``, ``-mfcc``, ``-plp`` and ``-spectrogram``,
so that lhotse's ``extract`` commands and configurations find them::

    from kaldi_compat.interop.lhotse import FbankExtractor
    cuts = cuts.compute_and_store_features(FbankExtractor(), "data/fbank")

lhotse's audio lies in -1 to 1 and is scaled to 16-bit integers; lhotse expects the number of frames of
``snip_edges=False``. These, no dithering, and 80 mel bins for fbank are the defaults; all others are Kaldi's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from lhotse.features.base import FeatureExtractor, register_extractor
from torch import Tensor

from kaldi_compat.data.batching import pad, unpad
from kaldi_compat.errors import AudioError
from kaldi_compat.features.fbank import Fbank
from kaldi_compat.features.mfcc import Mfcc
from kaldi_compat.features.plp import Plp
from kaldi_compat.features.spectral import SpectralFeature
from kaldi_compat.features.spectrogram import Spectrogram
from kaldi_compat.options.base import option
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

SCALE_OF_INT16 = 32768.0
Samples = np.ndarray[Any, Any] | Tensor


@dataclass(frozen=True, kw_only=True)
class Config(FrameOptions):
    """Framing options with defaults that suit lhotse."""

    waveform_scale: float = option(SCALE_OF_INT16, "factor on the samples, which lie in -1 to 1 in lhotse")
    snip_edges: bool = option(False, "false gives the number of frames that lhotse expects for a duration")
    dither: float = option(0.0, "standard deviation of the noise added to each sample of a frame; 0 adds none")
    device: str = option("cpu", "device that computes the features")

    def to_dict(self) -> dict[str, Any]:
        """Return the options by name, for lhotse's configuration files."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Config:
        """Return the configuration from a dictionary of :meth:`to_dict`."""
        return cls(**data)


@dataclass(frozen=True, kw_only=True)
class FbankConfig(Config, FbankOptions):
    """Options of :class:`FbankExtractor`."""

    num_mel_bins: int = option(80, "number of triangular mel bins")


@dataclass(frozen=True, kw_only=True)
class MfccConfig(Config, MfccOptions):
    """Options of :class:`MfccExtractor`."""


@dataclass(frozen=True, kw_only=True)
class PlpConfig(Config, PlpOptions):
    """Options of :class:`PlpExtractor`."""


@dataclass(frozen=True, kw_only=True)
class SpectrogramConfig(Config, SpectrogramOptions):
    """Options of :class:`SpectrogramExtractor`."""


class Extractor(FeatureExtractor):  # type: ignore[misc]
    """Base class of the extractors: lhotse's methods over a feature of this package.

    Args:
        config: the options; the defaults of its class if None.
    """

    feature_type: ClassVar[type[SpectralFeature]]

    def __init__(self, config: Config | None = None) -> None:
        super().__init__(config=config)
        names = {field.name for field in dataclasses.fields(self.feature_type.Options)}
        options = {name: value for name, value in self.config.to_dict().items() if name in names}
        self.feature = self.feature_type(self.feature_type.Options(**options)).to(self.config.device)

    @property
    def device(self) -> str:
        """Device that computes the features."""
        device: str = self.config.device
        return device

    @property
    def frame_shift(self) -> float:
        """Seconds from one frame's start to the next one's."""
        shift: float = self.config.frame_shift
        return shift / 1000.0

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
        if sampling_rate != self.config.sample_frequency:
            raise AudioError(
                f"the audio has a sampling rate of {sampling_rate} Hz, but the extractor has sample_frequency="
                f"{self.config.sample_frequency:g}: resample the cuts, or create another extractor"
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

    floor: ClassVar[float] = float(np.finfo(np.float32).eps)

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
