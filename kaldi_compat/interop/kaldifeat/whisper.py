"""Whisper's log-mel features, which kaldifeat computes in addition to Kaldi's (openai/whisper: whisper/audio.py)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from kaldi_compat.features.spectral import SpectralFeature
from kaldi_compat.options.base import option
from kaldi_compat.options.spectral import FrameOptions
from kaldi_compat.tensors.energies import power_spectrum


@dataclass(frozen=True, kw_only=True)
class WhisperMelOptions(FrameOptions):
    """Whisper's frames, which are the defaults, and its number of mel bins."""

    dither: float = option(0.0, "standard deviation of the noise added to each sample of a frame; 0 adds none")
    preemphasis_coefficient: float = option(0.0, "share of the previous sample that is subtracted from each sample")
    remove_dc_offset: bool = option(False, "subtract the mean of each frame first")
    round_to_power_of_two: bool = option(False, "pad each frame with zeros to a power of two for the FFT")
    num_mels: int = option(80, "number of mel bins; 128 for large-v3", ge=1)


class WhisperMel(SpectralFeature):
    """Logs to base 10 of mel energies, before :func:`normalized`."""

    Options = WhisperMelOptions
    options: WhisperMelOptions
    bank: Tensor

    def setup(self) -> None:
        """Compute the constants."""
        super().setup()
        self.constant("window", torch.hann_window(self.size))
        banks = slaney_mel_banks(self.options.num_mels, self.points, self.options.sample_frequency)
        self.constant("bank", torch.from_numpy(banks))

    @property
    def dim(self) -> int:
        """Number of mel bins."""
        return self.options.num_mels

    def needs_energy(self, raw: bool) -> bool:
        """Return False: there is no column for the energy."""
        return False

    def energies(self, spectrum: Tensor, filter_bank: Tensor | None) -> Tensor:
        """Compute mel energies of the power spectrum."""
        return power_spectrum(spectrum) @ self.bank.to(spectrum.real.dtype)

    def features_of_energies(self, energies: Tensor, log_energy: Tensor | None) -> Tensor:
        """Compute the logs."""
        return energies.clamp(min=1e-10).log10()


def normalized(features: Tensor) -> Tensor:
    """Clip an utterance's logs (frames, num_mels) to 8 below the largest, and map them to about -1 to 1."""
    if features.numel() == 0:
        return features
    return (torch.maximum(features, features.max() - 8.0) + 4.0) / 4.0


def slaney_mel_banks(num_mels: int, points: int, sample_frequency: float) -> npt.NDArray[np.float32]:
    """Return Slaney's triangular filters of equal area: float32 (points // 2 + 1, num_mels).

    >>> slaney_mel_banks(80, 400, 16000.0).shape
    (201, 80)
    """
    # Linear to 1 kHz, 15 mel there, and 27 steps of a factor of 6.4 ** (1 / 27) above.
    top = 15.0 + 27.0 * np.log(sample_frequency / 2000.0) / np.log(6.4)
    mel = np.linspace(0.0, top, num_mels + 2)
    edges = np.where(mel < 15.0, mel * 200.0 / 3.0, 1000.0 * 6.4 ** ((mel - 15.0) / 27.0))
    left, center, right = edges[:-2], edges[1:-1], edges[2:]
    hertz = np.arange(points // 2 + 1)[:, None] * sample_frequency / points
    triangles = np.minimum((hertz - left) / (center - left), (right - hertz) / (right - center))
    return np.asarray(np.maximum(triangles, 0.0) * 2.0 / (right - left), np.float32)
