"""Log power spectrum: Kaldi's src/feat/feature-spectrogram.cc."""

from __future__ import annotations

import torch
from torch import Tensor

from kaldi_compat.array_api import is_followed
from kaldi_compat.features.spectral import SpectralFeature
from kaldi_compat.functional import mel as steps
from kaldi_compat.functional.frames import EPSILON
from kaldi_compat.kernels import supports_kernels
from kaldi_compat.options.spectral import SpectrogramOptions

# How far one FFT bin may lie below another before float32's rounding shows in it.
DELICATE_BIN = 1e-10


@supports_kernels
class Spectrogram(SpectralFeature):
    """Log power spectrum with the log energy in the zeroth column (Kaldi: compute-spectrogram-feats).

    With ``return_raw_fft``, the FFT itself in Kaldi's order: the real values at frequency zero and at the Nyquist, then
    real and imaginary part of each frequency between. Options: :class:`~kaldi_compat.options.spectral.SpectrogramOptions`; call:
    :meth:`~kaldi_compat.features.spectral.SpectralFeature.forward`.

    >>> spectrogram = Spectrogram(dither=0.0)
    >>> spectrogram(torch.randint(-1000, 1000, (16000,), dtype=torch.int16)).shape
    torch.Size([98, 257])
    """

    Options = SpectrogramOptions
    options: SpectrogramOptions

    @property
    def dim(self) -> int:
        """Number of columns: FFT bins from zero to the Nyquist, or all numbers of the FFT."""
        points = self.options.padded_window_size
        return points if self.options.return_raw_fft else points // 2 + 1

    def energies_of_spectrum(self, spectrum: Tensor, mel: Tensor | None) -> Tensor:
        """The power spectrum, or the numbers of the FFT."""
        if not self.options.return_raw_fft:
            return steps.power_spectrum(spectrum, overwrite=not is_followed(spectrum))
        ends = torch.stack((spectrum.real[..., 0], spectrum.real[..., -1]), -1)
        between = torch.view_as_real(spectrum[..., 1:-1]).flatten(-2)
        return torch.cat((ends, between), -1)

    def features_of_energies(self, energies: Tensor, log_energy: Tensor | None) -> Tensor:
        """Log power with the energy in its first column; the numbers of the FFT as they are."""
        if self.options.return_raw_fft:
            return energies
        assert log_energy is not None
        log_power = energies.clamp(min=EPSILON).log()
        energy = steps.floored(log_energy, self.options.energy_floor).unsqueeze(-1)
        return torch.cat((energy, log_power[..., 1:]), -1)

    def is_delicate(self, energies: Tensor) -> Tensor:
        """Whether one bin's power is too far below another's; the FFT's own numbers always are delicate."""
        if self.options.return_raw_fft:
            return torch.ones(energies.shape[:-1], dtype=torch.bool)
        power = energies[..., 1:].clamp(min=EPSILON)
        return power.amin(-1) < DELICATE_BIN * power.amax(-1)
