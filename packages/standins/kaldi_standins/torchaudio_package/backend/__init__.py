"""Names of ``torchaudio.backend``, which torchaudio removed in version 2.9."""

from kaldi_standins.torchaudio_package.backend import common, soundfile_backend, sox_io_backend

__all__ = ["common", "soundfile_backend", "sox_io_backend"]
