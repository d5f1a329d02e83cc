"""Log power spectrum: Kaldi's src/feat/feature-spectrogram.cc."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from kaldi_compat import mel as steps
from kaldi_compat.feature import SpectralFeature
from kaldi_compat.frames import EPSILON
from kaldi_compat.options import SpectrogramOptions

# The span of a frame's log power from which on float32's rounding shows in single FFT bins: 100 dB.
WIDE = 10 * math.log(10)


class Spectrogram(SpectralFeature):
    """Log power spectrum with the log energy in the zeroth column (Kaldi: compute-spectrogram-feats).

    With ``return_raw_fft``, the FFT itself in Kaldi's order: the real values at frequency zero and at the Nyquist, then
    real and imaginary part of each frequency between. Options: :class:`~kaldi_compat.options.SpectrogramOptions`; call:
    :meth:`~kaldi_compat.feature.SpectralFeature.forward`.

    Examples
    --------
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

    def features_of_spectrum(self, spectrum: Tensor, log_energy: Tensor | None, mel: Tensor | None) -> Tensor:
        """Log power with the energy in its first column, or the numbers of the FFT."""
        if self.options.return_raw_fft:
            ends = torch.stack((spectrum.real[..., 0], spectrum.real[..., -1]), -1)
            between = torch.view_as_real(spectrum[..., 1:-1]).flatten(-2)
            return torch.cat((ends, between), -1)
        log_power = steps.power_spectrum(spectrum).clamp(min=EPSILON).log()
        assert log_energy is not None
        energy = steps.floored(log_energy, self.options.energy_floor).unsqueeze(-1)
        return torch.cat((energy, log_power[..., 1:]), -1)

    def _features_and_delicate(
        self, spectrum: Tensor, log_energy: Tensor | None, mel: Tensor | None
    ) -> tuple[Tensor, Tensor | bool]:
        features = self.features_of_spectrum(spectrum, log_energy, mel)
        if self.options.return_raw_fft:
            return features, True
        level = features[..., 1:]
        return features, level.amax(-1) - level.amin(-1) > WIDE
