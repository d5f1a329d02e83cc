"""Registry of the spectral features, from which programs, dump and documentation derive what they need.

To add a feature, write its options (:mod:`kaldi_compat.options.spectral`), run
``make generate``, write its module, and add a line here.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from kaldi_compat.options.spectral import FbankOptions, FrameOptions, MfccOptions, PlpOptions, SpectrogramOptions

# Parameter kinds of HTK files and their flags (HTK book, section 5.10.1).
HTK_FBANK, HTK_MFCC, HTK_PLP = 0o7, 0o6, 0o13
HTK_HAS_ENERGY, HTK_HAS_C0 = 0o100, 0o20000


@dataclass(frozen=True)
class FeatureType:
    """A spectral feature."""

    name: str  # name in file names, configuration files and on the command line, and of its torch module
    description: str  # noun phrase for help texts
    options: type[FrameOptions]  # dataclass of its options
    htk: int  # parameter kind of HTK files that hold it
    # True if that kind distinguishes the log energy from C0. Otherwise, Kaldi's programs always set the flag of C0.
    htk_marks_energy: bool = True
    takes_vtln: bool = True  # True if VTLN factors change it
    can_be_nan: bool = False  # True if, as in Kaldi, features of digital silence without dithering can be NaN

    def htk_kind(self, options: Any) -> int:
        """Return the parameter kind of HTK files, with its flags."""
        has_energy = self.htk_marks_energy and options.use_energy
        return self.htk | (HTK_HAS_ENERGY if has_energy else HTK_HAS_C0)

    def module(self) -> type[Any]:
        """Import the class of its module, and torch with it."""
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
