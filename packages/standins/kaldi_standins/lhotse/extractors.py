"""The extractors of :mod:`kaldi_standins.lhotse`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from lhotse.features.base import FeatureExtractor, register_extractor
from lhotse.utils import EPSILON
from torch import Tensor

from kaldi_compat.errors import AudioError
from kaldi_compat.torch.features import fbank, mfcc, plp, spectrogram
from kaldi_compat.torch.features.spectral import SpectralFeature
from kaldi_standins.kaldifeat.whisper import WhisperMel, normalize
from kaldi_standins.lhotse_config.base import Config, LhotseOptions
from kaldi_standins.lhotse_config.options import (
    FbankConfig,
    KaldiFbankConfig,
    KaldiMfccConfig,
    KaldiPlpConfig,
    KaldiSpectrogramConfig,
    LogSpectrogramConfig,
    MfccConfig,
    SpectrogramConfig,
    WhisperFbankConfig,
)

__all__ = [
    "Config", "Extractor", "Fbank", "FbankConfig", "KaldiFbank", "KaldiFbankConfig", "KaldiMfcc", "KaldiMfccConfig",
    "KaldiPlp", "KaldiPlpConfig", "KaldiSpectrogram", "KaldiSpectrogramConfig", "LogSpectrogram",
    "LogSpectrogramConfig", "Mfcc", "MfccConfig", "Spectrogram", "SpectrogramConfig", "WhisperFbank",
    "WhisperFbankConfig",
]  # fmt: skip

Samples = np.ndarray[Any, Any] | Tensor


class Extractor(FeatureExtractor):  # type: ignore[misc]
    """Base class of the extractors, with lhotse's methods. kaldi-compat computes the features.

    Args:
        config: a configuration of this module or of lhotse. None for the defaults.

    Raises:
        OptionError: Kaldi refuses a value, or lacks an option.
    """

    feature_type: ClassVar[type[SpectralFeature]]
    takes_first_channel: ClassVar[bool] = True

    def __init__(self, config: Any = None) -> None:
        if config is not None and not isinstance(config, LhotseOptions):
            config = self.config_type.from_dict(config.to_dict())
        super().__init__(config=config)
        self.feature = self._make_feature(self.config.to_our_options())

    def _make_feature(self, options: Any) -> SpectralFeature:
        """Return the module of kaldi-compat that computes the features, on the device of the configuration."""
        feature = self.feature_type(options).to(self.config.device)
        feature._trust_scale()  # As in lhotse, audio may be on any scale.
        return feature

    @property
    def device(self) -> str:
        """Device that computes the features."""
        device: str = self.config.device
        return device

    def to(self, device: str) -> None:
        """Move the extractor to a device, such as "cuda", and store the device in the configuration."""
        self.config.device = str(device)
        self.feature.to(device)

    @property
    def frame_shift(self) -> float:
        """Seconds from the start of one frame to the start of the next frame."""
        shift: float = self.config.frame_shift
        return shift

    def feature_dim(self, sampling_rate: int) -> int:
        """Return the number of columns of the features, which does not depend on ``sampling_rate``."""
        return self.feature.dim

    def compute(self, samples: Tensor, lengths: Tensor | None = None) -> Any:
        """Compute the features of tensors on the extractor's device. :meth:`extract` also takes arrays.

        Args:
            samples: audio ``(T,)``, or padded audio ``(B, T)`` with ``lengths``, at ``config.sampling_rate``.
            lengths: number of valid samples in each row of ``(B, T)``, shape ``(B,)``. None for audio ``(T,)``.

        Returns:
            Features ``(frames, dim)``. With ``lengths``, a tuple of features ``(B, frames, dim)`` and numbers of frames
            ``(B,)``. Frames beyond these numbers are padding.

        Raises:
            AudioError: the samples have a wrong shape or type, or ``lengths`` does not match the samples.
        """
        return self.feature(samples, lengths)

    def extract(self, samples: Samples, sampling_rate: int) -> Samples:
        """Compute the features of one utterance.

        Args:
            samples: audio ``(T,)`` or ``(channels, T)``, an array or a tensor. As in lhotse, only the first channel is
                used, except that Whisper's features need audio with one channel.
            sampling_rate: sampling rate of the audio in Hz.

        Returns:
            Features ``(frames, dim)``: an array if ``samples`` is an array, else a tensor on the extractor's device.

        Raises:
            AudioError: the extractor has a different sampling rate, or the audio has a different shape.
        """
        self._check_rate(sampling_rate)
        channel = samples[:1] if self.takes_first_channel and samples.ndim == 2 else samples
        features: Tensor = self.compute(_to_mono(channel).to(self.device))
        return features.cpu().numpy() if isinstance(samples, np.ndarray) else features

    def extract_batch(
        self, samples: Samples | Sequence[Samples], sampling_rate: int, lengths: Samples | None = None
    ) -> Any:
        """Compute the features of several utterances together.

        Args:
            samples: audio ``(B, T)``, or a list of utterances ``(T,)`` or ``(1, T)``. ``(T,)`` is a single utterance.
            sampling_rate: sampling rate of the audio in Hz.
            lengths: numbers ``(B,)`` of valid samples in the rows of ``(B, T)``. None if all samples are valid.

        Returns:
            Features ``(B, frames, dim)`` if all utterances have equally many frames, else a list of ``(frames, dim)``.
            For a single utterance, one array ``(frames, dim)``, in a list if ``samples`` is a list. The result has
            NumPy arrays if all samples are NumPy arrays or ``lengths`` is passed, else tensors.

        Raises:
            AudioError: the extractor has a different sampling rate, or the audio has several channels.
        """
        self._check_rate(sampling_rate)
        is_single = isinstance(samples, (np.ndarray, Tensor)) and samples.ndim == 1
        items: list[Any] = [samples] if is_single else list(samples)
        if lengths is None:
            channels = [_to_mono(item) for item in items]
            batch = torch.nn.utils.rnn.pad_sequence(channels, batch_first=True)
            sample_counts = torch.tensor([len(channel) for channel in channels])
        else:
            batch, sample_counts = torch.as_tensor(samples), torch.as_tensor(lengths)
        features, frame_counts = self.compute(batch.to(self.device), sample_counts.to(self.device))
        rows: list[Any] = [row[:count] for row, count in zip(features, frame_counts.tolist(), strict=True)]
        # Like lhotse, return tensors only for audio in tensors without lengths.
        if lengths is not None or not any(isinstance(item, Tensor) for item in items):
            rows = [row.cpu().numpy() for row in rows]
        if len(rows) == 1:
            return rows if isinstance(samples, list) else rows[0]
        if len({len(row) for row in rows}) > 1:
            return rows
        return np.stack(rows) if isinstance(rows[0], np.ndarray) else torch.stack(rows)

    def _check_rate(self, sampling_rate: int) -> None:
        """Raise AudioError unless ``sampling_rate`` is the sampling rate of the configuration."""
        if sampling_rate != self.config.sampling_rate:
            raise AudioError(
                f"the audio has a sampling rate of {sampling_rate} Hz, but the extractor has sampling_rate="
                f"{self.config.sampling_rate:g}: resample the cuts, or create another extractor"
            )


def _to_mono(samples: Samples) -> Tensor:
    """Return audio (T,) or (1, T) as a tensor (T,). Raise AudioError for any other shape."""
    tensor = torch.as_tensor(samples)
    if tensor.ndim == 2 and len(tensor) == 1:
        tensor = tensor[0]
    if tensor.ndim != 1:
        raise AudioError(f"audio must have one channel, with shape (T,) or (1, T), not {tuple(tensor.shape)}")
    return tensor


class LogEnergies:
    """Mixin for features that are logarithms of energies. Mixing adds the energies."""

    floor: ClassVar[float] = EPSILON  # Smallest energy of a mixture. lhotse's padding has less energy.

    @classmethod
    def mix(
        cls, features_a: np.ndarray[Any, Any], features_b: np.ndarray[Any, Any], energy_scaling_factor_b: float
    ) -> np.ndarray[Any, Any]:
        """Return the features (frames, dim) of a mixture of two utterances, with energies of at least ``floor``.

        ``features_a`` and ``features_b`` (frames, dim) are the features of the utterances. The energy of the second
        utterance is multiplied by ``energy_scaling_factor_b``.
        """
        energy = np.exp(features_a) + energy_scaling_factor_b * np.exp(features_b)
        mixed: np.ndarray[Any, Any] = np.log(np.maximum(cls.floor, energy))
        return mixed

    @staticmethod
    def compute_energy(features: np.ndarray[Any, Any]) -> float:
        """Return the sum of the energies whose natural logarithms are ``features`` (frames, dim)."""
        return float(np.sum(np.exp(features)))

    @staticmethod
    def scale(features: np.ndarray[Any, Any], energy_scaling_factor: float) -> np.ndarray[Any, Any]:
        """Scale the energies whose natural logarithms are ``features`` (frames, dim). Return the new logarithms."""
        scaled: np.ndarray[Any, Any] = features + np.log(energy_scaling_factor)
        return scaled


class Fbank(LogEnergies, Extractor):
    """Log-mel filter bank features, like lhotse's.

    >>> import numpy as np
    >>> from kaldi_standins.lhotse import Fbank, FbankConfig
    >>> Fbank(FbankConfig(num_mel_bins=80)).extract(np.zeros(16000, np.float32), 16000).shape
    (100, 80)
    """

    name = "kaldi-fbank"
    config_type = FbankConfig
    feature_type = fbank.Fbank


class Mfcc(Extractor):
    """Mel-frequency cepstral coefficients, like lhotse's.

    >>> import numpy as np
    >>> from kaldi_standins.lhotse import Mfcc
    >>> Mfcc().extract(np.zeros(16000, np.float32), 16000).shape
    (100, 13)
    """

    name = "kaldi-mfcc"
    config_type = MfccConfig
    feature_type = mfcc.Mfcc


class Spectrogram(Extractor):
    """Power spectrum, or magnitudes with ``use_fft_mag``, like lhotse's.

    >>> import numpy as np
    >>> from kaldi_standins.lhotse import Spectrogram
    >>> Spectrogram().extract(np.zeros(16000, np.float32), 16000).shape
    (100, 257)
    """

    name = "kaldi-spectrogram"
    config_type: type[Config] = SpectrogramConfig
    feature_type = spectrogram.Spectrogram

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        options = self.config.to_our_options()
        self.feature = self._make_feature(dataclasses.replace(options, return_raw_fft=True))
        self._energy = self._make_feature(options) if self.config.use_energy else None

    def to(self, device: str) -> None:
        """Move the extractor to a device: see :meth:`Extractor.to`."""
        super().to(device)
        if self._energy is not None:
            self._energy.to(device)

    def feature_dim(self, sampling_rate: int) -> int:
        """Return the number of columns of the features, which does not depend on ``sampling_rate``."""
        return self.feature.dim // 2 + 1  # The raw FFT has two values for all inner frequencies.

    def compute(self, samples: Tensor, lengths: Tensor | None = None) -> Any:
        """Compute the spectrum like :meth:`Extractor.compute`. With ``use_energy``, column 0 is the log energy."""
        result: Any = self.feature(samples, lengths)
        fft, *frame_counts = (result,) if lengths is None else result
        # The raw FFT has the real values at 0 Hz and at half the sampling rate, then the real and imaginary parts.
        edge_powers, inner_powers = fft[..., :2].square(), fft[..., 2:].unflatten(-1, (-1, 2)).square().sum(-1)
        power = torch.cat((edge_powers[..., :1], inner_powers, edge_powers[..., 1:]), -1)
        features = self.convert_spectrum(power.sqrt() if self.config.use_fft_mag else power)
        if self._energy is not None:
            energies: Any = self._energy(samples, lengths)
            features[..., 0] = (energies if lengths is None else energies[0])[..., 0]
        return (features, *frame_counts) if frame_counts else features

    def convert_spectrum(self, spectrum: Tensor) -> Tensor:
        """Convert a spectrum (..., frames, dim) to features. This class returns the spectrum itself."""
        return spectrum

    @staticmethod
    def mix(
        features_a: np.ndarray[Any, Any], features_b: np.ndarray[Any, Any], energy_scaling_factor_b: float
    ) -> np.ndarray[Any, Any]:
        """Return ``features_a`` plus ``features_b`` times ``energy_scaling_factor_b``, all (frames, dim)."""
        return features_a + energy_scaling_factor_b * features_b

    @staticmethod
    def compute_energy(features: np.ndarray[Any, Any]) -> float:
        """Return the sum of all features (frames, dim)."""
        return float(np.sum(features))

    @staticmethod
    def scale(features: np.ndarray[Any, Any], energy_scaling_factor: float) -> np.ndarray[Any, Any]:
        """Return features (frames, dim) multiplied by ``energy_scaling_factor``."""
        return energy_scaling_factor * features


class LogSpectrogram(Spectrogram):
    """Log power spectrum, like lhotse's. As in lhotse, mixing adds the logarithms.

    >>> import numpy as np
    >>> from kaldi_standins.lhotse import LogSpectrogram
    >>> LogSpectrogram().extract(np.zeros(16000, np.float32), 16000).shape
    (100, 257)
    """

    name = "kaldi-log-spectrogram"
    config_type = LogSpectrogramConfig

    def convert_spectrum(self, spectrum: Tensor) -> Tensor:
        """Return the natural logarithms of a spectrum (..., frames, dim), to which 1e-15 is added."""
        return (spectrum + 1e-15).log()  # As in lhotse, the small number prevents infinite logarithms.


class WhisperFbank(LogEnergies, Extractor):
    """Whisper's log-mel features of audio at 16 kHz, like lhotse's.

    >>> import numpy as np
    >>> from kaldi_standins.lhotse import WhisperFbank
    >>> WhisperFbank().extract(np.zeros(16000, np.float32), 16000).shape
    (100, 80)
    """

    name = "whisper-fbank"
    config_type = WhisperFbankConfig
    feature_type = WhisperMel
    takes_first_channel = False

    def compute(self, samples: Tensor, lengths: Tensor | None = None) -> Any:
        """Compute features like :meth:`Extractor.compute`, but normalize each utterance as Whisper does.

        If an utterance has fewer frames than lhotse expects for its duration, frames of zeros follow its frames.
        """
        if lengths is not None:
            rows = [self.compute(row[:count]) for row, count in zip(samples, lengths.tolist(), strict=True)]
            return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True), torch.tensor([len(row) for row in rows])
        size, shift = self.feature.options.window_size, self.feature.options.window_shift
        # As in Whisper, windows are centered, and the last frame is dropped.
        padded = torch.nn.functional.pad(samples[None], (size // 2, size // 2), mode="reflect")[0]
        features = normalize(self.feature(padded)[:-1])
        num_frames = (len(samples) + shift // 2) // shift
        return torch.nn.functional.pad(features, (0, 0, 0, max(0, num_frames - len(features))))


@register_extractor
class KaldiFbank(LogEnergies, Extractor):
    """Log-mel filter bank features of 80 bins on Kaldi's scale, without dithering and with ``snip_edges=False``.

    >>> import numpy as np
    >>> from kaldi_standins.lhotse import KaldiFbank
    >>> KaldiFbank().extract(np.zeros(16000, np.float32), 16000).shape
    (100, 80)
    """

    name = "kaldi-compat-fbank"
    config_type = KaldiFbankConfig
    feature_type = fbank.Fbank


@register_extractor
class KaldiMfcc(Extractor):
    """Mel-frequency cepstral coefficients on Kaldi's scale, without dithering and with ``snip_edges=False``.

    >>> import numpy as np
    >>> from kaldi_standins.lhotse import KaldiMfcc
    >>> KaldiMfcc().extract(np.zeros(16000, np.float32), 16000).shape
    (100, 13)
    """

    name = "kaldi-compat-mfcc"
    config_type = KaldiMfccConfig
    feature_type = mfcc.Mfcc


@register_extractor
class KaldiPlp(Extractor):
    """Perceptual linear prediction cepstra on Kaldi's scale, without dithering and with ``snip_edges=False``.

    >>> import numpy as np
    >>> from kaldi_standins.lhotse import KaldiPlp
    >>> KaldiPlp().extract(np.zeros(16000, np.float32), 16000).shape
    (100, 13)
    """

    name = "kaldi-compat-plp"
    config_type = KaldiPlpConfig
    feature_type = plp.Plp


@register_extractor
class KaldiSpectrogram(LogEnergies, Extractor):
    """Log power spectrum on Kaldi's scale, without dithering and with ``snip_edges=False``, mixed as energies.

    >>> import numpy as np
    >>> from kaldi_standins.lhotse import KaldiSpectrogram
    >>> KaldiSpectrogram().extract(np.zeros(16000, np.float32), 16000).shape
    (100, 257)
    """

    name = "kaldi-compat-spectrogram"
    config_type = KaldiSpectrogramConfig
    feature_type = spectrogram.Spectrogram
