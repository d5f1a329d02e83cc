"""Whisper's log-mel features, which kaldifeat computes in addition to Kaldi's (openai/whisper: whisper/audio.py)."""

from __future__ import annotations

import torch
from torch import Tensor

from kaldi_compat.exact.librosa_mel import compute_librosa_filters
from kaldi_compat.options.declaration import option
from kaldi_compat.options.spectral import FrameOptions
from kaldi_compat.torch.features.spectral import SpectralFeature
from kaldi_compat.torch.tensors.energies import compute_power_spectrum


class WhisperMelOptions(FrameOptions):
    """Options of Whisper's features. The defaults are the values of Whisper's frames."""

    dither: float = option(0.0, "standard deviation of the noise added to each sample of a frame; 0 adds none")
    preemphasis_coefficient: float = option(0.0, "fraction of the previous sample that is subtracted from each sample")
    remove_dc_offset: bool = option(False, "subtract the mean of each frame first")
    round_to_power_of_two: bool = option(False, "pad each frame with zeros to a power of two for the FFT")
    num_mels: int = option(80, "number of mel bins; 128 for large-v3", ge=1)


class WhisperMel(SpectralFeature):
    """Logs to base 10 of mel energies, before :func:`normalize`."""

    Options = WhisperMelOptions
    options: WhisperMelOptions
    bank: Tensor

    def setup(self) -> None:
        """Compute the window and the mel filter bank."""
        super().setup()
        self._register_constant("window", torch.hann_window(self.size))
        banks = compute_librosa_filters(self.options.num_mels, self.points, self.options.sample_frequency)
        self._register_constant("bank", torch.from_numpy(banks))

    @property
    def dim(self) -> int:
        """Number of mel bins."""
        return self.options.num_mels

    def energies(self, spectrum: Tensor, filter_bank: Tensor | None) -> Tensor:
        """Compute energies (..., num_mels) from real and imaginary parts (..., fft_bins, 2). Ignore ``filter_bank``."""
        return compute_power_spectrum(spectrum) @ self.bank.to(spectrum.real.dtype)

    def features_of_energies(self, energies: Tensor, log_energy: Tensor | None) -> Tensor:
        """Floor ``energies`` (..., num_mels) at 1e-10, and return their base-10 logarithms. Ignore ``log_energy``."""
        return energies.clamp(min=1e-10).log10()


def normalize(features: Tensor) -> Tensor:
    """Floor logarithms (frames, num_mels) at their maximum minus 8, and return them on Whisper's scale, (x + 4) / 4."""
    if features.numel() == 0:
        return features
    return (torch.maximum(features, features.max() - 8.0) + 4.0) / 4.0
