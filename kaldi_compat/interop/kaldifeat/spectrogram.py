"""kaldifeat's ``spectrogram``: see :mod:`kaldi_compat.interop.kaldifeat`."""

from kaldi_compat.interop.kaldifeat import Spectrogram, SpectrogramOptions

__all__ = ["Spectrogram", "SpectrogramOptions"]
