"""Names of ``torchaudio.backend.soundfile_backend``: soundfile reads and writes the files."""

from kaldi_standins.torchaudio_package.files import info, load, save

__all__ = ["info", "load", "save"]
