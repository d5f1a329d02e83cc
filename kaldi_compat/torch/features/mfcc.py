"""Mel-frequency cepstral coefficients: Kaldi's src/feat/feature-mfcc.cc."""

from __future__ import annotations

import math

from torch import Tensor

from kaldi_compat.exact import tables
from kaldi_compat.functional.array_api import matmul
from kaldi_compat.options.constructors import MfccConstructor
from kaldi_compat.options.spectral import MfccOptions
from kaldi_compat.torch.features.engines import declare_accelerated
from kaldi_compat.torch.features.spectral import MelFeature
from kaldi_compat.torch.tensors import cepstrum
from kaldi_compat.torch.tensors.frames import EPSILON


@declare_accelerated
class Mfcc(MfccConstructor, MelFeature):
    """Mel-frequency cepstral coefficients (Kaldi: compute-mfcc-feats).

    For the options, see :class:`~kaldi_compat.options.spectral.MfccOptions`; for the arguments of a call, see
    :meth:`~kaldi_compat.torch.features.spectral.SpectralFeature.forward`.

    >>> import torch
    >>> from kaldi_compat import Mfcc
    >>> mfcc = Mfcc(num_ceps=13, dither=0.0)
    >>> mfcc(torch.randint(-1000, 1000, (16000,), dtype=torch.int16)).shape
    torch.Size([98, 13])
    """

    Options = MfccOptions
    options: MfccOptions
    cosines: Tensor
    lifter: Tensor

    def setup(self) -> None:
        """Compute the window, the filter bank, the cosines of the DCT, and the factors of the lifter."""
        super().setup()
        num_ceps = self.options.num_ceps
        self._register_table("cosines", tables.compute_dct(num_ceps, self.options.num_mel_bins).T)
        self._register_table("lifter", tables.compute_lifter(num_ceps, self.options.cepstral_lifter))

    def features_of_energies(self, energies: Tensor, log_energy: Tensor | None) -> Tensor:
        """Compute the liftered DCT of the log mel energies.

        Args:
            energies: mel energies, shape (..., num_mel_bins).
            log_energy: log energies of the frames, shape (...), which replace C0; None to keep C0.

        Returns:
            Cepstra (..., num_ceps). With ``htk_compat``, C0 or the energy is in the last column instead of the first.
        """
        options = self.options
        cepstra = matmul(energies.clamp(min=EPSILON).log(), self.cosines.to(energies.dtype))
        cepstra = cepstra * self.lifter.to(energies.dtype)
        # HTK's DCT scales C0 like the other coefficients, but Kaldi's DCT divides it by the square root of 2.
        scale_of_c0 = math.sqrt(2.0) if options.htk_compat else 1.0
        return cepstrum.place_first_coefficient(
            cepstra, log_energy, options.energy_floor, options.htk_compat, scale_of_c0
        )
