"""The parts of torchaudio that front ends of speech use beside ``compliance.kaldi``.

They stand in for torchaudio where it is not installed: see :func:`kaldi_compat.interop.install`.
"""

from kaldi_compat.interop.torchaudio_package import compliance, functional, sox_effects, utils
from kaldi_compat.interop.torchaudio_package.files import AudioMetaData, info, load, save, set_audio_backend

__all__ = [
    "AudioMetaData", "compliance", "functional", "info", "load", "save", "set_audio_backend", "sox_effects", "utils",
]  # fmt: skip
