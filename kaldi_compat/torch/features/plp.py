"""Perceptual linear prediction cepstra: Kaldi's src/feat/feature-plp.cc after Hermansky (1990)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from kaldi_compat.exact import tables
from kaldi_compat.exact.mel import compute_mel_banks
from kaldi_compat.functional.array_api import matmul
from kaldi_compat.options.constructors import PlpConstructor
from kaldi_compat.options.spectral import PlpOptions
from kaldi_compat.torch.features.engines import declare_accelerated
from kaldi_compat.torch.features.spectral import MelFeature
from kaldi_compat.torch.tensors import cepstrum
from kaldi_compat.torch.tensors.energies import raise_to_power

# Smallest normal float32 number: Kaldi's floor for C0 of PLP, and for the energy after windowing.
MIN_FLOAT = float(np.finfo(np.float32).tiny)


@declare_accelerated
class Plp(PlpConstructor, MelFeature):
    """Perceptual linear prediction cepstra (Kaldi: compute-plp-feats).

    For the options, see :class:`~kaldi_compat.options.spectral.PlpOptions`; for the arguments of a call, see
    :meth:`~kaldi_compat.torch.features.spectral.SpectralFeature.forward`.

    >>> import torch
    >>> from kaldi_compat import Plp
    >>> plp = Plp(dither=0.0)
    >>> plp(torch.randint(-1000, 1000, (16000,), dtype=torch.int16)).shape
    torch.Size([98, 13])
    """

    Options = PlpOptions
    _windowed_energy_floor = MIN_FLOAT
    options: PlpOptions
    cosines: Tensor
    lifter: Tensor

    def setup(self) -> None:
        """Compute the window, the filter bank, the cosines of the inverse DFT, and the factors of the lifter."""
        super().setup()
        # The spectrum is extended at both ends by repeating the first and the last mel bin.
        bins = self.options.num_mel_bins + 2
        self._register_table("cosines", tables.compute_inverse_dft(self.options.lpc_order + 1, bins).T)
        factors = tables.compute_lifter(self.options.num_ceps, self.options.cepstral_lifter)
        self._register_table("lifter", factors * np.float32(self.options.cepstral_scale))

    def _compute_mel_weights(self, vtln_warp: float) -> Tensor:
        """Compute the filter bank (fft_bins, num_mel_bins) for a VTLN factor, weighted by the equal-loudness curve."""
        banks = compute_mel_banks(self.options, vtln_warp)
        return torch.from_numpy(banks.weights * tables.compute_equal_loudness(banks.centers))

    def features_of_energies(self, energies: Tensor, log_energy: Tensor | None) -> Tensor:
        """Compute the loudness of the mel bins, fit an all-pole model to it, and compute the cepstra of the model.

        Args:
            energies: mel energies, shape (..., num_mel_bins).
            log_energy: log energies of the frames, shape (...), which replace C0; None to keep C0.

        Returns:
            Cepstra (..., num_ceps). With ``htk_compat``, C0 or the energy is in the last column instead of the first.
        """
        options = self.options
        loudness = raise_to_power(energies, options.compress_factor)
        # As in Kaldi, the first and the last bin are repeated at the edges of the spectrum.
        loudness = torch.cat((loudness[..., :1], loudness, loudness[..., -1:]), -1)
        autocorrelation = matmul(loudness, self.cosines.to(energies.dtype))
        coefficients, residual = cepstrum.run_levinson_durbin(autocorrelation)
        c0 = residual.log().clamp(min=MIN_FLOAT).unsqueeze(-1)
        higher_cepstra = cepstrum.convert_lpc_to_cepstrum(coefficients)[..., : options.num_ceps - 1]
        cepstra = torch.cat((c0, higher_cepstra), -1) * self.lifter.to(energies.dtype)
        return cepstrum.place_first_coefficient(cepstra, log_energy, options.energy_floor, options.htk_compat)
