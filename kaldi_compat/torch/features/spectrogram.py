"""Log power spectrum: Kaldi's src/feat/feature-spectrogram.cc."""

from __future__ import annotations

import torch
from torch import Tensor

from kaldi_compat.functional.array_api import is_traced_or_differentiated
from kaldi_compat.options.constructors import SpectrogramConstructor
from kaldi_compat.options.spectral import SpectrogramOptions
from kaldi_compat.torch.features.engines import declare_accelerated
from kaldi_compat.torch.features.spectral import SpectralFeature
from kaldi_compat.torch.tensors.energies import compute_power_spectrum, floor_energy
from kaldi_compat.torch.tensors.frames import EPSILON


@declare_accelerated
class Spectrogram(SpectrogramConstructor, SpectralFeature):
    """Log power spectrum with the log energy in the first column (Kaldi: compute-spectrogram-feats).

    With ``return_raw_fft``, the features are the FFT itself in Kaldi's order: the real values at 0 Hz and at the
    Nyquist frequency, then the real and imaginary parts at the other frequencies. For the options, see
    :class:`~kaldi_compat.options.spectral.SpectrogramOptions`; for the arguments of a call, see
    :meth:`~kaldi_compat.torch.features.spectral.SpectralFeature.forward`.

    >>> import torch
    >>> from kaldi_compat import Spectrogram
    >>> spectrogram = Spectrogram(dither=0.0)
    >>> spectrogram(torch.randint(-1000, 1000, (16000,), dtype=torch.int16)).shape
    torch.Size([98, 257])
    """

    Options = SpectrogramOptions
    options: SpectrogramOptions

    def _needs_energy(self, raw: bool) -> bool:
        """Return True if the first column is the energy before preemphasis (``raw``) or after windowing."""
        return not self.options.return_raw_fft and self.options.raw_energy == raw

    def energies(self, spectrum: Tensor, filter_bank: Tensor | None) -> Tensor:
        """Compute the power spectrum. With ``return_raw_fft``, return the numbers of the FFT in Kaldi's order.

        The order is: the real parts of the first and the last bin, then the real and imaginary parts of each inner bin.

        Args:
            spectrum: real and imaginary parts of the spectra, shape (..., fft_bins, 2). May be overwritten.
            filter_bank: not used.

        Returns:
            Powers, or the numbers of the FFT, of shape (..., columns).
        """
        if not self.options.return_raw_fft:
            return compute_power_spectrum(spectrum, overwrite=not is_traced_or_differentiated(spectrum))
        outer_bins = torch.stack((spectrum[..., 0, 0], spectrum[..., -1, 0]), -1)
        inner_bins = spectrum[..., 1:-1, :].flatten(-2)
        return torch.cat((outer_bins, inner_bins), -1)

    def features_of_energies(self, energies: Tensor, log_energy: Tensor | None) -> Tensor:
        """Compute log powers, with the log energy in the first column. The numbers of a raw FFT are not changed.

        Args:
            energies: powers, or the numbers of a raw FFT, shape (..., columns).
            log_energy: log energies of the frames, shape (...); None for a raw FFT.

        Returns:
            Features of shape (..., columns).
        """
        if log_energy is None:
            return energies
        log_power = energies.clamp(min=EPSILON).log()
        energy = floor_energy(log_energy, self.options.energy_floor).unsqueeze(-1)
        return torch.cat((energy, log_power[..., 1:]), -1)
