"""torchaudio's ``utils``."""

from kaldi_standins.torchaudio_package.utils import sox_utils

__all__ = ["sox_utils"]
