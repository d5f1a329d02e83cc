"""Registry of the spectral features, from which programs, dump and documentation derive what they need.

To add a feature, write its options (:mod:`kaldi_compat.options.spectral`), run
``make generate``, write its module, and add a line here.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from kaldi_compat.options.spectral import FbankOptions, FrameOptions, MfccOptions, PlpOptions, SpectrogramOptions

# Parameter kinds in the header of HTK files (HTK book, section 5.10.1).
HTK_FBANK, HTK_MFCC, HTK_PLP = 0o7, 0o6, 0o13
# Flags of a parameter kind: the features include the log energy, or C0.
HTK_HAS_ENERGY, HTK_HAS_C0 = 0o100, 0o20000


@dataclass(frozen=True)
class FeatureType:
    """Names, options and module of a spectral feature."""

    name: str  # Name of the feature in names of programs, files and torch modules.
    description: str  # Noun phrase for help texts.
    options: type[FrameOptions]  # Dataclass of the feature's options.
    htk: int  # Parameter kind in the header of HTK files, without flags.
    # True if the flags distinguish the log energy from C0. If False, Kaldi's programs set the flag of C0 for both.
    htk_marks_energy: bool = True
    takes_vtln: bool = True  # True if VTLN factors change the feature.
    can_be_nan: bool = False  # True if digital silence without dithering gives NaN, as in Kaldi.

    def get_htk_kind(self, options: Any) -> int:
        """Return the HTK parameter kind with the flag of C0, or of the log energy if the features mark and use it."""
        has_energy = self.htk_marks_energy and options.use_energy
        return self.htk | (HTK_HAS_ENERGY if has_energy else HTK_HAS_C0)

    def import_class(self) -> type[Any]:
        """Import torch and the feature's torch module, and return its class, such as ``Fbank``."""
        module = import_module(f"kaldi_compat.torch.features.{self.name}")
        module_class: type[Any] = getattr(module, self.name.capitalize())
        return module_class


SPECTRAL_FEATURES = {
    feature.name: feature
    for feature in (
        FeatureType("fbank", "log-mel filter bank features", FbankOptions, HTK_FBANK),
        FeatureType("mfcc", "mel-frequency cepstral coefficients", MfccOptions, HTK_MFCC),
        FeatureType(
            "plp", "perceptual linear prediction cepstra", PlpOptions, HTK_PLP, htk_marks_energy=False, can_be_nan=True
        ),
        FeatureType(
            "spectrogram", "log power spectra", SpectrogramOptions, HTK_FBANK, htk_marks_energy=False, takes_vtln=False
        ),
    )
}
