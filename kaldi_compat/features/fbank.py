"""Log-mel filter bank features: Kaldi's src/feat/feature-fbank.cc."""

from __future__ import annotations

import torch
from torch import Tensor

from kaldi_compat.array_api import is_traced_or_differentiated
from kaldi_compat.features.engines import accelerated
from kaldi_compat.features.spectral import MelFeature
from kaldi_compat.functional import energies as steps
from kaldi_compat.functional.frames import EPSILON
from kaldi_compat.options.constructors import FbankConstructor
from kaldi_compat.options.spectral import FbankOptions

__all__ = ["Fbank"]


@accelerated
class Fbank(FbankConstructor, MelFeature):
    """Log-mel filter bank features (Kaldi: compute-fbank-feats).

    A frame's features are the logs of ``num_mel_bins`` mel energies, with the log energy before them (after them with
    ``htk_compat``) if ``use_energy``. Options: :class:`~kaldi_compat.options.spectral.FbankOptions`; call:
    :meth:`~kaldi_compat.features.spectral.SpectralFeature.forward`.

    >>> import torch
    >>> from kaldi_compat import Fbank
    >>> fbank = Fbank(num_mel_bins=80, dither=0.0)
    >>> fbank(torch.randint(-1000, 1000, (16000,), dtype=torch.int16)).shape
    torch.Size([98, 80])
    """

    Options = FbankOptions
    options: FbankOptions

    @property
    def dim(self) -> int:
        """Number of columns: the mel bins, and the energy with ``use_energy``."""
        return self.options.num_mel_bins + self.options.use_energy

    @property
    def are_log_energies(self) -> bool:
        """True if the features are the logs of the mel energies and nothing else."""
        return self.options.use_log_fbank and not self.options.use_energy

    @property
    def uses_magnitude(self) -> bool:
        """True without ``use_power``."""
        return not self.options.use_power

    def energies(self, spectrum: Tensor, filter_bank: Tensor | None) -> Tensor:
        """Compute mel energies (..., num_mel_bins) of the power spectrum, or of the magnitudes."""
        power = steps.power_spectrum(spectrum, overwrite=not is_traced_or_differentiated(spectrum))
        return self.mel_energies(steps.power(power, 0.5) if self.uses_magnitude else power, filter_bank)

    def features_of_energies(self, energies: Tensor, log_energy: Tensor | None) -> Tensor:
        """Compute the logs of the mel energies, and the column of the energy."""
        options = self.options
        features = energies.clamp(min=EPSILON).log() if options.use_log_fbank else energies
        if log_energy is None:
            return features
        energy = steps.floored(log_energy, options.energy_floor).unsqueeze(-1)
        return torch.cat((features, energy) if options.htk_compat else (energy, features), -1)
