"""Names of ``torchaudio.backend.common``."""

from kaldi_compat.interop.torchaudio_package.files import AudioMetaData

__all__ = ["AudioMetaData"]
