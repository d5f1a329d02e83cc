"""Names of ``torchaudio.backend.common``."""

from kaldi_standins.torchaudio_package.files import AudioMetaData

__all__ = ["AudioMetaData"]
