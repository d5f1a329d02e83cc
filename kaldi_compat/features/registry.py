"""Registry of the spectral features by name, for the programs, the dump and the documentation.

To add a feature, write its options (:mod:`kaldi_compat.options.spectral`) and its module, and add a line here.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kaldi_compat.options.spectral import FbankOptions, FrameOptions, MfccOptions, PlpOptions, SpectrogramOptions

if TYPE_CHECKING:
    from kaldi_compat.features.spectral import SpectralFeature

__all__ = ["SPECTRAL_FEATURES", "FeatureType"]

# Parameter kinds of HTK files and their flags (HTK book, section 5.10.1).
HTK_FBANK, HTK_MFCC, HTK_PLP = 0o7, 0o6, 0o13
HTK_HAS_ENERGY, HTK_HAS_C0 = 0o100, 0o20000


@dataclass(frozen=True)
class FeatureType:
    """A spectral feature.

    Attributes:
        name: in file names, configuration files and on the command line.
        description: a noun phrase for help texts.
        options: the dataclass of its options.
        module_path: where its module is defined, as ``"package.module:Class"``.
        htk: the parameter kind of HTK files that hold it.
        htk_marks_energy: True if that kind distinguishes the log energy from C0. Kaldi's programs mark others as C0.
        takes_vtln: True if VTLN factors change the feature.
    """

    name: str
    description: str
    options: type[FrameOptions]
    module_path: str
    htk: int
    htk_marks_energy: bool = True
    takes_vtln: bool = True

    def htk_kind(self, options: Any) -> int:
        """Return the parameter kind of HTK files, with its flags."""
        has_energy = self.htk_marks_energy and options.use_energy
        return self.htk | (HTK_HAS_ENERGY if has_energy else HTK_HAS_C0)

    def module(self) -> type[SpectralFeature]:
        """Import and return the class of its module (imports torch)."""
        module, _, name = self.module_path.partition(":")
        found: type[SpectralFeature] = getattr(import_module(module), name)
        return found


SPECTRAL_FEATURES = {
    feature.name: feature
    for feature in (
        FeatureType(
            "fbank", "log-mel filter bank features", FbankOptions, "kaldi_compat.features.fbank:Fbank", HTK_FBANK
        ),
        FeatureType(
            "mfcc", "mel-frequency cepstral coefficients", MfccOptions, "kaldi_compat.features.mfcc:Mfcc", HTK_MFCC
        ),
        FeatureType(
            "plp",
            "perceptual linear prediction cepstra",
            PlpOptions,
            "kaldi_compat.features.plp:Plp",
            HTK_PLP,
            htk_marks_energy=False,
        ),
        FeatureType(
            "spectrogram",
            "log power spectra",
            SpectrogramOptions,
            "kaldi_compat.features.spectrogram:Spectrogram",
            HTK_FBANK,
            htk_marks_energy=False,
            takes_vtln=False,
        ),
    )
}
