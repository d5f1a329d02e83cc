"""The parts of torchaudio that front ends of speech use beside ``compliance.kaldi``.

They stand in for torchaudio where it is not installed: see :func:`kaldi_standins.install`.
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

__version__ = "2.0.2"  # the last one with all of these names

__all__ = [
    "AudioMetaData", "__version__", "backend", "compliance", "functional", "get_audio_backend", "info",
    "list_audio_backends", "load", "load_wav", "save", "set_audio_backend", "sox_effects", "transforms",
    "utils",
]  # fmt: skip
