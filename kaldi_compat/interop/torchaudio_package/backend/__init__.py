"""Names of ``torchaudio.backend``, which torchaudio removed in version 2.2."""

from kaldi_compat.interop.torchaudio_package.backend import sox_io_backend

__all__ = ["sox_io_backend"]
