"""Stand-in for the modules of torchaudio that speech front ends use besides ``compliance.kaldi``.

:func:`kaldi_standins.install` uses this package if torchaudio is not installed.
"""

from kaldi_standins.torchaudio_package import backend, compliance, functional, sox_effects, transforms, utils
from kaldi_standins.torchaudio_package.files import (
    AudioMetaData,
    get_audio_backend,
    info,
    list_audio_backends,
    load,
    load_wav,
    save,
    set_audio_backend,
)

__version__ = "2.0.2"  # Last version of torchaudio that has all names in __all__.

__all__ = [
    "AudioMetaData", "__version__", "backend", "compliance", "functional", "get_audio_backend", "info",
    "list_audio_backends", "load", "load_wav", "save", "set_audio_backend", "sox_effects", "transforms",
    "utils",
]  # fmt: skip
